"""Judgement of entries by their files: against the best entry of each cell, one path, and the capacity bound.

The rule is that of `weftway.rank.standing`. A line of a file has the mean cost on each half of the seeds; who is best
of a cell is picked by one half and judged on the other, both ways round. All entries may be picked, so that an entry's
ratios change when another enters; what its file says of it does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weftway.rank import standing
from weftway.rank.standing import JudgedCell, SinglePath, Standing
from weftway.stats.estimates import geometric_mean

from .edition import AGAINST, ALL, Cells, Edition
from .result import ONE_PATH, Limits, Line, Result, limits, lines, rounded

BY_SET, BY_CONTROLLER, BY_LOAD = "set", "cc", "workload"
"""Kinds of cells by which the entries are shown."""

DIGITS = 4
"""Significant digits of a figure."""

OF_A_SET = ("of_bound", "of_one_path", "unfinished")
"""Figures that each set has."""


@dataclass(frozen=True)
class Judged:
    """Entries of an edition beside one another."""

    cells: list[JudgedCell]
    """Its drawn cells."""
    sealed: list[JudgedCell]
    standings: list[Standing]
    """Those that ran in every cell, the best first; then the others."""
    single: SinglePath | None

    def by(self, kind: str) -> dict[str, dict[str, float]]:
        """Geometric means of the ratios to the best entry, by the kind of cell and by entry."""
        cells = [*self.cells, *(self.sealed if kind == BY_SET else ())]
        values = dict.fromkeys(cell.kinds[kind] for cell in cells)
        return {value: _means([cell for cell in cells if cell.kinds[kind] == value]) for value in values}

    def single_by(self, kind: str) -> dict[str, float]:
        """The same of one path with the same handshake."""
        found: dict[str, list[float]] = {}
        for cell in [*self.cells, *(self.sealed if kind == BY_SET else ())]:
            if cell.single is not None:
                found.setdefault(cell.kinds[kind], []).append(cell.single)
        return {value: geometric_mean(ratios) for value, ratios in found.items()}


def _means(cells: Sequence[JudgedCell]) -> dict[str, float]:
    names = dict.fromkeys(name for cell in cells for name in cell.ratios)
    return {name: geometric_mean([cell.ratios[name] for cell in cells if name in cell.ratios]) for name in names}


def judged(edition: Edition, drawn: Cells, results: Sequence[Result], floor: Result | None) -> Judged:
    """Judges results in all cells of an edition, and in those of sealed sets that any of them ran in."""
    cells = [one for name in drawn for one in _judged(name, results, floor, drawn[name])]
    names = {name for one in results for name in one.sealed}
    sealed = [cell for one in edition.sealed if one.name in names for cell in _judged(one.name, results, floor)]
    found = standing.standings(cells)
    found.sort(key=lambda one: one.cells < len(cells))
    return Judged(cells, sealed, found, standing.single_path(cells))


def _judged(name: str, results: Sequence[Result], floor: Result | None, drawn: Sequence[Any] = ()) -> list[JudgedCell]:
    every = {one.entry: lines(one, name) for one in results}
    least = limits(floor, name) if floor else []
    count = max([len(drawn), *(len(own) for own in every.values())])
    found = []
    for at in range(count):
        kinds = {BY_SET: name, **(drawn[at].kinds if drawn else {})}
        label = drawn[at].name if drawn else f"{name} {at + 1}"
        ran = {entry: own[at] for entry, own in every.items() if at < len(own)}
        known = {entry: line for entry, line in ran.items() if line is not None}
        found.append(_cell(label, kinds, known, least[at] if at < len(least) else Limits(None, {})))
    return found


def _cell(name: str, kinds: Mapping[str, str], ran: Mapping[str, Line], least: Limits) -> JudgedCell:
    """A cell judged: the two means of a line are one seed of each half."""
    costs = {entry: line.costs for entry, line in ran.items()}
    return JudgedCell(
        cell=name,
        kinds=kinds,
        ratios=standing.judged(costs, costs),
        singles=standing.judged(costs, least.paths),
        single=standing.judged_pick(least.paths, costs),
        copies={entry: line.copies for entry, line in ran.items()},
        unfinished={entry: line.unfinished for entry, line in ran.items()},
        of_bound=standing.of_bound(costs, [least.bound]),
    )


def figures(result: Result, drawn: Cells, floor: Result | None) -> dict[str, Any]:
    """Figures of an entry that no other entry changes: those of all its drawn cells, and some of each set.

    `of_bound` is the median of its cost over the capacity bound. `of_one_path` is its cost over that of one path with
    the same handshake, the geometric mean over cells that have several, with its interval; `worse_than_one_path`, the
    share of these in which it is more than 5 % worse.
    """
    by_set = {name: _judged(name, [result], floor, drawn.get(name, ())) for name in result.rows}
    every = [cell for name, cells in by_set.items() if name in drawn for cell in cells]
    sets = {name: _figures(own) for name, own in by_set.items()}
    few = {name: {key: own[key] for key in OF_A_SET if key in own} for name, own in sets.items()}
    return {AGAINST: floor.digest if floor else None, ALL: _figures(every), **few}


def _figures(cells: Sequence[JudgedCell]) -> dict[str, Any]:
    """Figures of the one entry of these cells."""
    standings = standing.standings(cells)
    found: dict[str, Any] = {"cells": 0, "of": len(cells)}
    if not standings:
        return found
    (own,) = standings
    found["cells"] = own.cells
    if own.of_bound is not None:
        found["of_bound"] = rounded(own.of_bound, DIGITS)
    if own.worse_than_single_share is not None:
        singles = [(cell.singles[own.scheduler], cell.cell) for cell in cells if own.scheduler in cell.singles]
        found["of_one_path"] = [one and rounded(one, DIGITS) for one in standing.geometric([one for one, _ in singles])]
        found["worse_than_one_path"] = rounded(own.worse_than_single_share, DIGITS)
        ratio, cell = max(singles, key=lambda one: one[0])
        found["worst"] = [cell, rounded(ratio, DIGITS)]
    return {**found, "duplicates": rounded(own.copies_share, DIGITS), "unfinished": own.unfinished}


def finished(result: Result, drawn: Cells, floor: Result | None) -> Result:
    """A result with its figures; what single paths do has none."""
    return result if result.kind == ONE_PATH else replace(result, figures=figures(result, drawn, floor))
