"""The pages of the documentation as things to run: each page is a session in a folder of its own.

A fence `sh run` or `python run` is carried out; `file=NAME` after the language is written to NAME
first; a fence `text` right after a run one is what that prints. `python tests/python/pages.py`
writes what is printed today into the pages.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weftway.scenario import HOME

FENCE = re.compile(r"^```(?P<kind>\w+)(?: (?P<mark>\S+))?\n(?P<text>.*?)^```$\n?", re.MULTILINE | re.DOTALL)
LENT = ("scenarios", "experiments", "examples", "traces", "crates")
LIMIT_S = 300


@dataclass(frozen=True)
class Fence:
    """One fenced block of a page, and where its text lies."""

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
    found = FENCE.finditer(text)
    return [Fence(m["kind"], m["mark"] or "", m["text"], m.start("text"), m.end("text")) for m in found]


def played(page: Path, folder: Path) -> Iterator[tuple[Fence, str, Fence | None]]:
    """Follows a page in `folder`: each block that runs, what it printed, and what the page says it prints."""
    for name in LENT:
        (folder / name).symlink_to(HOME / name)
    weft = folder / "weft"
    weft.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m weftway "$@"\n')
    weft.chmod(0o755)
    text = page.read_text()
    blocks = fences(text)
    for at, fence in enumerate(blocks):
        if fence.mark.startswith("file="):
            (folder / fence.mark.removeprefix("file=")).write_text(fence.text)
        if fence.runs:
            after = blocks[at + 1] if at + 1 < len(blocks) else None
            shows = after is not None and text[fence.end : after.start].split() == ["```", "```text"]
            yield fence, output(fence, folder), after if shows else None


def output(fence: Fence, folder: Path) -> str:
    """What a block prints, without the spaces that end its lines."""
    program = ["sh", "-eu"] if fence.kind == "sh" else [sys.executable, "-"]
    done = subprocess.run(program, input=fence.text, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, f"{fence.text}\n{done.stderr}"
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines()) + "\n"


def refresh(page: Path) -> None:
    """Writes what is printed today into a page."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        shown = [(after, printed) for _, printed, after in played(page, Path(folder)) if after]
    for after, printed in reversed(shown):
        text = text[: after.start] + printed + text[after.end :]
    page.write_text(text)


if __name__ == "__main__":
    for stale in runnable():
        refresh(stale)
