"""Front of a table: the one rule for its marks, for what charts call best, and for the headline.

The rule reads the 95 % interval of a line's ratio to the best one, paired by seed (`stats.ratio`). *Level* is earned:
the whole interval lies within 2 % of 1. An interval that includes 1 and is wider says that the two are *not told
apart*; such a line is never at the front, so that no noise helps it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weftway.stats.estimates import LEVEL_WITHIN, is_level, paired, ratio

from .study import Cell, Study

BEST = "best"
BEST_SO_FAR = "best so far"
LEVEL = f"level within {100 * LEVEL_WITHIN:.0f} %"
UNTOLD = "not told apart"
AHEAD = "ahead in one run"
ONLY = "the only complete one"

GOOD = (BEST, BEST_SO_FAR, LEVEL, AHEAD, ONLY)
"""Marks of lines at the front. `BEST` and `BEST_SO_FAR` stand at the least or largest mean, the second where others are
not told apart from it."""

FIRST = "first"
"""The interval of every other line says that it is worse."""
TIED = "tied"
"""At least one other line is level with the best, or has its very results; all others are worse."""
OPEN = "open"
"""At least one other line is not told apart from the best."""
LEADS = "leads"
"""A run each: there is an order, and no interval."""
REMAINS = "remains"
"""All others lack runs."""
ALONE = "alone"
"""Nobody else ran."""
NOBODY = "nobody"
"""Every scheduler lacks runs."""
NOTHING = "nothing"
"""No run came to a result."""


@dataclass(frozen=True)
class Untold:
    """A line that the seeds do not tell from the best one."""

    cell: Cell
    worse: int
    """The seeds in which it is worse."""
    seeds: int
    """The seeds that both have."""

    @property
    def count(self) -> str:
        """The seeds in which it is worse, in words."""
        return f"worse in {self.worse} of {self.seeds}" if self.seeds else "no seed in common"


@dataclass(frozen=True)
class Front:
    """Verdict of the runs of one setting and controller on who is first, by one measure."""

    setting: str
    cc: str
    kind: str
    best: Cell | None = None
    same: list[str] = field(default_factory=list)
    """Schedulers with the very results of the best one."""
    level: list[Cell] = field(default_factory=list)
    untold: list[Untold] = field(default_factory=list)
    behind: list[Cell] = field(default_factory=list)
    """The others, nearest first, of which the seeds say that they are worse."""

    def mark(self, cell: Cell) -> str:
        """The mark of a cell's line."""
        if cell == self.best:
            if not (self.level or self.untold or self.behind):
                return ONLY if self.kind == REMAINS else ""
            return {LEADS: AHEAD, OPEN: BEST_SO_FAR}.get(self.kind, BEST)
        if cell in self.level:
            return AHEAD if self.kind == LEADS else LEVEL
        return UNTOLD if self.kind == OPEN and self.untold_of(cell) else ""

    def untold_of(self, cell: Cell) -> Untold | None:
        """The seeds of a cell's line, if they do not tell it from the best one."""
        return next((untold for untold in self.untold if untold.cell == cell), None)

    def names(self, study: Study) -> list[str]:
        """All at the front: the best one, those level with it, and those that have the results of one of them."""
        cells = [cell for cell in (self.best, *self.level) if cell]
        return [name for cell in cells for name in (cell.scheduler, *study.alike(cell))]


def front(study: Study, setting: str, cc: str, column: str = "") -> Front:
    """The front by a measure, the primary one if none is named. Who lacks a run competes with nobody."""
    column = column or study.primary.column
    lines = study.shown(setting, cc)
    known = [cell for cell in lines if study.values(cell, column)]
    whole = study.ordered((cell for cell in known if not study.lacks(cell, column)), column)
    if not whole:
        return Front(setting, cc, NOBODY if known else NOTHING)
    best, *others = whole
    same = study.alike(best)
    stands = {cell: standing(study, best, cell, column) for cell in others}
    level = [cell for cell in others if stands[cell] == LEVEL]
    untold = [_untold(study, best, cell, column) for cell in others if stands[cell] == UNTOLD]
    behind = [cell for cell in others if not stands[cell]]
    runs = len(study.values(best, column))
    if not others and (len(lines) > 1 or not same):
        kind = REMAINS if len(lines) > 1 else ALONE
    elif runs == 1 and (level or untold):
        kind = LEADS
    elif untold:
        kind = OPEN
    else:
        kind = TIED if level or same else FIRST
    return Front(setting, cc, kind, best, same, level, untold, behind)


def standing(study: Study, best: Cell, other: Cell, column: str) -> str:
    """Mark of a cell beside the best one: behind (nothing), level with it, or not told apart."""
    theirs, ours = study.values(best, column), study.values(other, column)
    gap = ratio(ours, theirs)
    if gap is None:
        # Zero throughout at one of the two: no ratio, but perhaps a difference.
        gap = paired(ours, theirs)
    elif is_level(gap) or (gap.mean == 0 and len(ours) == len(theirs) == 1):
        return LEVEL
    if gap is None or not gap.excludes_zero:
        return UNTOLD
    return "" if (gap.mean > 0) == study.prefers_less(column) else UNTOLD


def _untold(study: Study, best: Cell, other: Cell, column: str) -> Untold:
    theirs, ours = study.values(best, column), study.values(other, column)
    shared: list[Any] = [seed for seed in ours if seed in theirs]
    less = study.prefers_less(column)
    worse = sum((ours[seed] > theirs[seed]) == less and ours[seed] != theirs[seed] for seed in shared)
    return Untold(other, worse, len(shared))
