"""Page of the board, from the edition's file and its entries' files; and all entries that come with Weftway.

    ./weft python tools/board.py      # runs those that this code has not made: the registry and two policy files

`./weft docs` shows what is stored, and runs nothing.
"""

import argparse

from weftway import _native
from weftway.board import entries, judgement, page, result, runs
from weftway.board.edition import Cells, Edition, load, names
from weftway.board.result import ONE_PATH
from weftway.runs.backends import SIM
from weftway.scenario import HOME

POLICIES = ("policies/dqn-all.safetensors", "policies/evolved-completion.safetensors")
"""Policy files that are entries."""


def text(name: str | None = None) -> str:
    """Page of an edition; of the newest if none is named."""
    edition = load(name or names()[-1])
    drawn, results = edition.drawn(), entries.of(edition)
    return page.render(edition, drawn, judgement.judged(edition, drawn, results, entries.floor(edition)), results)


def make(edition: Edition, drawn: Cells, name: str, jobs: int | None) -> None:
    """Writes the file of an entry, unless this code has made it."""
    begun = runs.entry(name)
    is_floor = begun.kind == ONE_PATH
    folder = edition.file.parent if is_floor else entries.folder(edition)
    file = folder / begun.file_name
    if file.is_file() and (kept := result.read(file)).code == SIM.code() and kept.cells == edition.digest:
        ran = kept
    else:
        ran = runs.run(edition, name, drawn, {}, jobs)
    judgement.finished(ran, drawn, None if is_floor else entries.floor(edition)).write(file)
    print(file.relative_to(HOME), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/board.py", description=__doc__)
    parser.add_argument("--edition", default=names()[-1])
    parser.add_argument("--jobs", type=int, default=None)
    given = parser.parse_args()
    edition = load(given.edition)
    drawn = edition.drawn()
    registry = [one["name"] for one in _native.schedulers()]
    for name in (runs.ALL_PATHS, *registry, *(str(HOME / policy) for policy in POLICIES)):
        make(edition, drawn, name, given.jobs)


if __name__ == "__main__":
    main()
