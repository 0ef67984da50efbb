"""The reference of the Rust crates: what rustdoc makes of them, as a part of the site.

The page `reference/rust.md` names every crate. In the site its names lead to rustdoc's pages, or to the repository
where there are none; then the page says why.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("reference/rust.md")
FOLDER = Path("reference/rust")
"""Folder of rustdoc's pages in the site, beside the page."""

SHARED = ("src", "static.files", "search.index", "trait.impl", "type.impl")
"""Folders that the pages of all crates share."""

NAMED = re.compile(r"\[`(?P<name>[\w-]+)`\]\(\.\./\.\./crates/(?P<folder>\w+)\)")
"""A crate on the page."""

REPLACED = "In a checkout, `cargo doc"
"""The paragraph of the page with this beginning says what to do where there is no site."""


def libraries() -> dict[str, str]:
    """The name of the library in each folder of `crates`."""
    found = {}
    for file in sorted(ROOT.glob("crates/*/Cargo.toml")):
        manifest = tomllib.loads(file.read_text(encoding="utf-8"))
        package = manifest["package"]["name"].replace("-", "_")
        found[file.parent.name] = manifest.get("lib", {}).get("name", package)
    return found


def built() -> Path | str:
    """The folder with rustdoc's pages, made anew where a crate has changed; or why there is none."""
    if shutil.which("cargo") is None:
        return "`cargo` was not found when it was made"
    # As `./test` asks for them: the one finds what the other has made.
    environment = {"PYO3_PYTHON": sys.executable, **os.environ, "RUSTDOCFLAGS": "-D warnings"}
    # rustdoc links to another crate only if that has its pages already: the one that all others name comes first.
    for which in (["--package", "weftway-path"], ["--workspace"]):
        words = ["cargo", "doc", "--locked", "--no-deps", *which]
        if subprocess.run(words, cwd=ROOT, env=environment).returncode:
            return f"`{' '.join(words)}` failed when it was made"
    words = ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folder = Path(json.loads(told)["target_directory"]) / "doc"
    lacks = missing(folder)
    return f"`cargo doc` made no pages of {', '.join(lacks)}" if lacks else folder


def missing(folder: Path) -> list[str]:
    """The crates of which `folder` has no pages."""
    return [name for name in libraries().values() if not (folder / name / "index.html").is_file()]


def led(page: str, found: Path | str) -> str:
    """The text of the page: its names lead to rustdoc's pages; or it says why there are none."""
    if isinstance(found, str):
        note = (
            f"> **This site has no reference of the crates**: {found}. The names below lead to the repository; in a\n"
            "> checkout, `cargo doc --workspace --no-deps --open` makes and shows it."
        )
        return _with_paragraph(page, note)
    of = libraries()

    def target(match: re.Match[str]) -> str:
        # Not as Markdown: the generator looks for what a link leads to before it is there.
        return f'<a href="{FOLDER.name}/{of[match["folder"]]}/index.html"><code>{match["name"]}</code></a>'

    return _with_paragraph(NAMED.sub(target, page), "Each name leads to the crate's reference, as rustdoc makes it.")


def _with_paragraph(page: str, text: str) -> str:
    parts = page.split("\n\n")
    (at,) = (at for at, part in enumerate(parts) if part.startswith(REPLACED))
    rest = parts[at].split("\n")
    # What follows the sentence in the paragraph are links to other pages.
    parts[at] = "\n".join([text, "", *(line for line in rest if line.startswith("["))])
    return "\n\n".join(parts)


def add(found: Path, site: Path) -> None:
    """Copies rustdoc's pages into the site: those of the workspace, whatever else was made in the folder."""
    ours = {*libraries().values(), *SHARED}

    def others(folder: str, names: list[str]) -> list[str]:
        place = Path(folder).relative_to(found)
        known = ours if place == Path() else {*libraries().values()} if place == Path("src") else None
        return [name for name in names if known and (Path(folder) / name).is_dir() and name not in known]

    shutil.copytree(found, site / FOLDER, ignore=others)
