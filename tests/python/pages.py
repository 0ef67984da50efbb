"""The pages of the documentation as things to run: each page is a session in a folder of its own.

A fence `sh run` or `python run` is carried out; `file=NAME` after the language is written to NAME
first; a fence `text` right after a run one is what that prints. `python tests/python/pages.py`
writes what is printed today into the pages; `pages.py installed PAGE…` follows pages with the package that the Python
running it has installed, and with nothing of the source tree.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]

FENCE = re.compile(r"^```(?P<kind>\w+)(?: (?P<mark>\S+))?\n(?P<text>.*?)^```$\n?", re.MULTILINE | re.DOTALL)
LENT = ("scenarios", "experiments", "examples", "traces", "crates")
LIMIT_S = 300


@dataclass(frozen=True)
class Fence:
    """Fenced block of a page, and the place of its text."""

    kind: str
    mark: str
    text: str
    start: int
    end: int

    @property
    def runs(self) -> bool:
        return self.mark == "run"


def pages() -> list[Path]:
    """Every page a reader may follow."""
    return sorted([HOME / "README.md", HOME / "ARCHITECTURE.md", HOME / "CONTRIBUTING.md", *HOME.glob("docs/**/*.md")])


def runnable() -> list[Path]:
    """The pages with something to run."""
    return [page for page in pages() if any(fence.runs for fence in fences(page.read_text()))]


def fences(text: str) -> list[Fence]:
    fences = FENCE.finditer(text)
    return [Fence(m["kind"], m["mark"] or "", m["text"], m.start("text"), m.end("text")) for m in fences]


Played = tuple[Fence, str, Fence | None]
"""A block, what it printed, and the block that says what it prints."""


def played(page: Path, folder: Path) -> Iterator[Played]:
    """Follows a page in `folder`, which stands for a checkout: each block that runs."""
    for name in LENT:
        (folder / name).symlink_to(HOME / name)
    weft = folder / "weft"
    weft.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m weftway "$@"\n')
    weft.chmod(0o755)
    yield from followed(page.read_text(), folder)


def followed(text: str, folder: Path, environ: Mapping[str, str] | None = None) -> Iterator[Played]:
    """Blocks of the text of a page, followed in a folder that has what the page needs."""
    blocks = fences(text)
    for at, fence in enumerate(blocks):
        if fence.mark.startswith("file="):
            (folder / fence.mark.removeprefix("file=")).write_text(fence.text)
        if fence.runs:
            after = blocks[at + 1] if at + 1 < len(blocks) else None
            shows = after is not None and text[fence.end : after.start].split() == ["```", "```text"]
            yield fence, output(fence, folder, environ), after if shows else None


def output(fence: Fence, folder: Path, environ: Mapping[str, str] | None = None) -> str:
    """Output of a block, without the spaces that end its lines."""
    program = ["sh", "-eu"] if fence.kind == "sh" else [sys.executable, "-"]
    done = subprocess.run(
        program, input=fence.text, cwd=folder, env=environ, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, f"{fence.text}\n{done.stderr}"
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines()) + "\n"


def follow_installed(page: Path) -> None:
    """Follows a page as its reader does who installed the package: in an empty folder, with `weft` for `./weft`."""
    text = re.sub(r"\./weft\b( python\b)?", lambda match: "python" if match[1] else "weft", page.read_text())
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        where = Fence("python", "run", "import weftway; print(weftway.__file__)", 0, 0)
        module = Path(output(where, Path(folder), environ).strip())
        assert module.is_relative_to(sys.prefix), f"{module} is not what this Python has installed"
        blocks = 0
        for fence, printed, shown in followed(text, Path(folder), environ):
            assert shown is None or printed == shown.text, f"{fence.text}prints something else:\n{printed}"
            blocks += 1
    assert blocks, f"{page} has nothing to run"
    print(f"{page.relative_to(HOME)}: {blocks} blocks run")


def refresh(page: Path) -> None:
    """Writes what is printed today into a page."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        shown = [(after, printed) for _, printed, after in played(page, Path(folder)) if after]
    for after, printed in reversed(shown):
        text = text[: after.start] + printed + text[after.end :]
    page.write_text(text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["installed"]:
        for name in sys.argv[2:]:
            follow_installed(Path(name).resolve())
    else:
        for stale in runnable():
            refresh(stale)
