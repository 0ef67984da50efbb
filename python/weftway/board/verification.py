"""Verification of an entry's file: its digest, its figures, and a sample of its lines, which are run again.

The sample follows from the file's digest and a number of the verifier's choice: the same one finds the same lines, and
whoever wrote the file cannot know which number others take.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError
from weftway.report.numbers import counted
from weftway.runs.backends import SIM

from . import entries, judgement, runs
from .edition import AGAINST, Cells, Edition, load
from .result import ONE_PATH, REGISTRY, Result, read
from .runs import Place

SAMPLE = 20
"""Lines that are run again if nobody says how many."""


@dataclass
class Verified:
    """Outcome of a verification."""

    file: Path
    repeated: int = 0
    """Lines that were run again."""
    of: int = 0
    differences: list[str] = field(default_factory=list)
    """What differs, a sentence each."""
    notes: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """Outcome in a sentence."""
        lines = f"{self.repeated} of {counted(self.of, 'line')} run again"
        many = counted(len(self.differences), "difference")
        return f"{self.file}: {lines}, {many if self.differences else 'the same'}"


def verify(
    file: Path,
    name: str | None = None,
    edition: Edition | None = None,
    sample: int | None = None,
    draw: int = 0,
    sealed: Path | None = None,
    jobs: int | None = None,
) -> Verified:
    """Verifies the file of an entry, which `name` names if it is a class or a policy file.

    `sample` lines are run again; if not given, `SAMPLE`, and all where the digest shows that the file was changed.
    """
    result, found = read(file), Verified(file)
    edition = edition or load(result.edition)
    if (result.edition, result.cells) != (edition.name, edition.digest):
        raise ScenarioError(
            f"{file}: it is of edition {result.edition} with cells {result.cells[:8]}…, and {edition.file} is edition "
            f"{edition.name} with cells {edition.digest[:8]}…"
        )
    name = _named(result, name)
    if result.code != SIM.code():
        found.notes.append(f"{result.code} made it, and this is {SIM.code()}: lines may differ by that")
    drawn = edition.drawn()
    cells = {**drawn, **(edition.unsealed(sealed) if sealed else {})}
    is_changed = result.stated_digest != result.digest
    if is_changed:
        found.differences.append("its digest is not that of its lines: it was changed after it was made")
    found.differences += _shape(edition, result, cells)
    if [*result.rows] == [*drawn, *result.sealed] and not found.differences[is_changed:]:
        own = judgement.finished(result, drawn, entries.floor(edition)).figures
        if own.get(AGAINST) == result.figures.get(AGAINST):
            found.differences += _figures(own, result.figures)
        else:
            found.notes.append("figures not checked: they compare with another file of single paths than the edition's")
    places = [(key, at) for key in result.rows if key in cells for at in range(len(result.rows[key]))]
    places = [place for place in places if place[1] < len(cells[place[0]])]
    found.of = sum(len(rows) for rows in result.rows.values())
    if unknown := [key for key in result.rows if key not in cells and key in result.sealed]:
        found.notes.append(f"not run again, since only their keeper has the cells: {', '.join(unknown)}")
    count = sample if sample is not None else len(places) if is_changed else SAMPLE
    chosen = sorted(places, key=lambda place: _rank(result.digest, draw, place))[:count]
    found.repeated = len(chosen)
    again = runs.rows_at(name, cells, sorted(chosen, key=places.index), edition.seeds, jobs)
    for (key, at), row in again.items():
        if row != (told := result.rows[key][at]):
            cell = cells[key][at].name
            found.differences.append(
                f"line {at + 1} of {key} ({cell}) is {json.dumps(told)} in the file, and {json.dumps(row)} here"
            )
    return found


def _named(result: Result, name: str | None) -> str:
    """What is to be run again: as the file names it, or as the verifier does."""
    wanted = name or result.run_as
    try:
        own = runs.entry(wanted)
    except ScenarioError as error:
        if name or result.kind in (REGISTRY, ONE_PATH):
            raise
        raise ScenarioError(f"{error}: --entry names the {result.kind} that the file is of") from None
    if (own.kind, own.source) != (result.kind, result.source):
        here, stated = own.source or own.kind, result.source or result.kind
        raise ScenarioError(f"--entry {wanted}: its digest is {here}, and the file is of {stated}")
    return wanted


def _shape(edition: Edition, result: Result, cells: Cells) -> list[str]:
    """Sets that the file lacks or has too many of, and those with another number of lines."""
    wanted = {one.name: one.cells for one in edition.sets}
    named = {one.name: one.digest for one in edition.sealed}
    found = [f"it has no lines of {name}" for name in (*wanted, *result.sealed) if name not in result.rows]
    found += [f"edition {edition.name} has no set {name}" for name in result.rows if name not in {**wanted, **named}]
    found += [f"{name} is sealed with another digest" for name, own in result.sealed.items() if named.get(name) != own]
    wanted |= {name: len(own) for name, own in cells.items()}
    for name, rows in result.rows.items():
        if name in wanted and len(rows) != wanted[name]:
            found.append(f"{name} has {counted(wanted[name], 'cell')}, and the file {counted(len(rows), 'line')}")
    return found


def _figures(own: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
    """Figures that do not follow from the lines."""
    names = [key for key in {**own, **told} if _plain(own.get(key)) != _plain(told.get(key))]
    return [f"the figures of {name} do not follow from its lines" for name in names]


def _plain(value: Mapping[str, Any] | None) -> Any:
    return json.loads(json.dumps(value))


def _rank(digest: str, draw: int, place: Place) -> bytes:
    return hashlib.sha256(f"{digest} {draw} {place[0]} {place[1]}".encode()).digest()
