"""Documentation as a site with search: `./weft docs`, or `./weft docs --serve` while you edit.

The pages in `docs` are written for GitHub. A copy of them is made for the generator, Zensical: without the marks that
the tests read, and with links to files beside `docs` leading to the repository. Pages that are not in git are made
beside them (`tools/made.py`). A broken link or anchor ends the build. The reference of the Rust crates is rustdoc's,
where cargo is there to make it.
"""

import argparse
import html
import json
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import crates

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import made  # noqa: E402
import matrix  # noqa: E402
import pair  # noqa: E402

DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/weftway/weftway"

FENCE = re.compile(r"^(```\w+) \S+$", re.MULTILINE)
"""A fence with a mark for the tests: `sh run`, `python file=NAME`."""

LINK = re.compile(r"(?<=\]\()(?P<to>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
"""Target of a relative link, and its anchor."""

BAR = "\\|"

IN_TICKS = re.compile(r"`(?P<code>[^`\n]+)`")
"""Code in a page. In a table, only GitHub takes an escaped bar in it back to a bar."""

CODE = re.compile(r"<code\b[^>]*>.*?</code>", re.DOTALL)
"""Code in a finished page."""

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*(?![^<]*>)")
"""An option in it, outside of a tag."""

OUTPUT = re.compile(r'(?<=<div class="language-text highlight">)<pre>(.*?)</pre>', re.DOTALL)
"""Output of a command in a finished page."""

TAG = re.compile(r"<[^>]*>")

APART = re.compile(r"(?<=\S) {2,}(?=\S)")
"""Blanks between two columns of a table."""

HEADING = re.compile(r"^## (\w+)$", re.MULTILINE)
"""A made page in the index of made pages."""

BELOW = {"explanation/matrix.md": lambda: matrix.pages()[0], "explanation/pair.md": pair.page}
"""Pages in git, and what is made below each."""

WORKER = ROOT / "site/worker.js"
WORKER_ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
"""The script without which a page on the disk has no search, and where the generator would load it from."""

SECTIONS = {
    "Start here": "start",
    "How to": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
    "Published experiments": "results",
    "Decisions": "decisions",
}
"""Parts of the navigation, each with its folder."""

FOLDERS = {"schedulers": "Each scheduler"}
"""Names of folders in a part, where they are not those in the navigation."""

SETTINGS = {
    "site_name": "Weftway",
    "site_description": "Compare the packet schedulers of Multipath TCP and Multipath QUIC",
    "docs_dir": "pages",
    "site_dir": "site",
    "extra_css": ["extra.css"],
    "use_directory_urls": False,  # pages open from the disk, too
}

REST = """
[project.plugins.offline]  # the search works from the disk, too

# Not as `repo_url`: for that each page asks GitHub how many stars there are.
[[project.extra.social]]
icon = "fontawesome/brands/github"
link = "%s"
name = "The repository"

[[project.theme.palette]]
media = "(prefers-color-scheme)"
toggle = { icon = "lucide/sun-moon", name = "Light, whatever the system has" }

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle = { icon = "lucide/sun", name = "Dark" }

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle = { icon = "lucide/moon", name = "As the system has it" }
"""

FEATURES = ["navigation.indexes", "navigation.top", "navigation.tracking", "search.highlight", "content.code.copy"]


def prepare(folder: Path, rustdoc: Path | str) -> Path:
    """Makes the copy of the pages in `folder`, and the generator's settings, which are returned.

    The reference of the crates is in the folder `rustdoc`, or it says why there is none.
    """
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(DOCS, pages)
    others = made.made()
    for name, text in others.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text, encoding="utf-8")
    for name, below in BELOW.items():
        with (pages / name).open("a", encoding="utf-8") as page:
            page.write("\n" + below())
    targets = made.targets(list(others))
    index = pages / made.INDEX
    index.write_text(
        HEADING.sub(lambda m: f"## [{m[1]}](README.md#{m[1]})", index.read_text(encoding="utf-8")), encoding="utf-8"
    )
    shutil.copy(ROOT / "site/extra.css", pages)
    page = pages / crates.PAGE
    page.write_text(crates.led(page.read_text(encoding="utf-8"), rustdoc), encoding="utf-8")
    for page in pages.glob("**/*.md"):
        text = FENCE.sub(r"\1", page.read_text(encoding="utf-8"))
        text = IN_TICKS.sub(barred, text)
        page.write_text(led(text, page.relative_to(pages).parent.as_posix(), targets), encoding="utf-8")
    settings = folder / "zensical.toml"
    head = [f"{key} = {_toml(value)}" for key, value in SETTINGS.items()]
    theme = ["[project.theme]", "font = false", f"features = {json.dumps(FEATURES)}"]
    text = "\n".join(["[project]", *head, f"nav = {_toml(navigation(pages))}", *theme, REST % REPOSITORY])
    settings.write_text(text, encoding="utf-8")
    return settings


def barred(code: re.Match[str]) -> str:
    """Code with its bars as bars, or as it is if there are none."""
    return f"<code>{html.escape(code['code']).replace(BAR, '&#124;')}</code>" if BAR in code["code"] else code[0]


def led(text: str, folder: str, targets: dict[str, str]) -> str:
    """Text of a page in this folder of `docs`, with its links as the site needs them.

    A heading of the index of made pages becomes the page itself (`targets`). A file beside `docs` gets its address
    in the repository.
    """

    def target(match: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join("docs", folder, match["to"]))
        anchor = match["anchor"] or ""
        if place == f"docs/{made.INDEX}" and anchor[1:] in targets:
            return posixpath.relpath(targets[anchor[1:]], folder)
        if place.startswith("docs/") and not (ROOT / place).is_dir():
            return match[0]
        kind = "tree" if (ROOT / place).is_dir() else "blob"
        return f"{REPOSITORY}/{kind}/main/{place}{anchor}"

    return LINK.sub(target, text)


def navigation(pages: Path) -> list[Any]:
    """Names of all pages, in the order in which `docs/README.md` names them."""
    sections = [{title: _pages(pages, pages / folder)} for title, folder in SECTIONS.items()]
    sections[0]["Start here"].append("tutorial.md")
    return [{"Documentation": "README.md"}, *sections, {"Glossary": "glossary.md"}]


def _pages(pages: Path, folder: Path) -> list[Any]:
    """Pages of a folder: its own first, then those that the index names, then the others, then its folders."""
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    names = [file.relative_to(pages).as_posix() for file in folder.glob("*.md")]
    names.sort(key=lambda name: (not name.endswith("README.md"), index.find(name) % (len(index) + 1), name))
    folders = sorted(child for child in folder.iterdir() if any(child.glob("*.md")))
    return [*names, *({FOLDERS.get(child.name, child.name): _pages(pages, child)} for child in folders)]


def _toml(value: Any) -> str:
    """Lists, tables and texts as TOML has them."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    return "[" + ", ".join(map(_toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def finish(site: Path) -> None:
    """Puts in the script that pages would load from elsewhere; keeps options in one line, and tables whole."""
    shutil.copy(WORKER, site / "assets/javascripts")
    for page in site.glob("**/*.html"):
        text = page.read_text(encoding="utf-8")
        up = "../" * len(page.relative_to(site).parent.parts)
        text = text.replace(WORKER_ELSEWHERE, f"{up}assets/javascripts/{WORKER.name}")
        text = OUTPUT.sub(lambda match: f'<pre style="--columns: {columns(match[1])}">{match[1]}</pre>', text)
        page.write_text(CODE.sub(lambda match: unbroken(match[0]), text), encoding="utf-8")


def columns(output: str) -> int:
    """Width of the tables in a finished piece of output, in characters: a window narrower than it shows them smaller.

    A table's line has three columns or more. All other lines may be broken.
    """
    lines = html.unescape(TAG.sub("", output)).splitlines()
    return max((len(line) for line in lines if len(APART.findall(line)) > 1), default=0)


def unbroken(code: str) -> str:
    """A piece of code whose options (`--listen`) are not broken after their dashes in a narrow window."""
    return OPTION.sub(r'<span class="option">\g<0></span>', code)


def main() -> int:
    """Builds or serves; the status is the generator's."""
    parser = argparse.ArgumentParser(description="Builds the documentation as a site with search.")
    parser.add_argument("--out", type=Path, default=ROOT / "out/docs", metavar="DIR", help="where the site will be")
    parser.add_argument("--work", type=Path, default=ROOT / ".weft/site", metavar="DIR", help="for the copied pages")
    parser.add_argument(
        "--rustdoc", type=Path, metavar="DIR", help="takes the reference of the crates from this folder"
    )
    parser.add_argument("--no-rustdoc", action="store_true", help="leaves the reference of the crates out")
    parser.add_argument("--serve", action="store_true", help="shows the site at a local port instead")
    given = parser.parse_args()
    if given.out.exists() and not (given.out / "search.json").is_file():
        parser.error(f"--out {given.out} is there and holds no earlier site: name another folder")
    if given.rustdoc and (missing := crates.missing(given.rustdoc)):
        parser.error(
            f"--rustdoc {given.rustdoc} has nothing of {', '.join(missing)}: `cargo doc --workspace --no-deps`"
        )
    if given.serve or given.no_rustdoc:
        rustdoc: Path | str = "it was left out"
    else:
        rustdoc = given.rustdoc or crates.built()
    given.work.mkdir(parents=True, exist_ok=True)
    settings = prepare(given.work.resolve(), rustdoc)
    words = ["serve"] if given.serve else ["build", "--strict", "--clean"]
    done = subprocess.run([sys.executable, "-m", "zensical", *words, "--config-file", settings])
    if done.returncode == 0 and not given.serve:
        shutil.rmtree(given.out, ignore_errors=True)
        shutil.copytree(settings.parent / "site", given.out)
        finish(given.out)
        if isinstance(rustdoc, str):
            print(f"without the reference of the Rust crates: {rustdoc}")
        else:
            crates.add(rustdoc, given.out)
        print(f"the site is in {given.out}: open index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
