"""Entries of the source tree: a file each, beside the editions, and what single paths do in an edition's own folder."""

from pathlib import Path

from weftway._native import ScenarioError

from .edition import Edition
from .result import ONE_PATH, Result, read
from .runs import ALL_PATHS

FOLDER = "entries"


def folder(edition: Edition) -> Path:
    """Folder of the entries: beside the edition's."""
    return edition.file.resolve().parent.parent / FOLDER


def of(edition: Edition) -> list[Result]:
    """The entries of an edition; files of others are passed over."""
    found = [read(file) for file in sorted(folder(edition).glob("*.json"))]
    own = [one for one in found if one.cells == edition.digest and one.kind != ONE_PATH]
    names = [one.entry for one in own]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ScenarioError(f"{folder(edition)}: two files are of an entry `{twice}`")
    return own


def floor(edition: Edition) -> Result | None:
    """What single paths do, if the edition's folder has it."""
    file = edition.file.resolve().parent / f"{ALL_PATHS}.json"
    if not file.is_file():
        return None
    found = read(file)
    if found.kind != ONE_PATH or found.cells != edition.digest:
        raise ScenarioError(f"{file}: it is not `weft board run --entry {ALL_PATHS}` of edition {edition.name}")
    return found
