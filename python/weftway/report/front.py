"""Who is at the front of a table: the one rule for its marks, for what charts call best, and for the headline."""

from __future__ import annotations

from dataclasses import dataclass, field

from weftway.stats import paired

from .study import Cell, Study

BEST = "best"
LEVEL = "level with best"
UNSURE = "too few runs to tell"
AHEAD = "ahead in one run"
ONLY = "the only complete one"

PLACES = (BEST, LEVEL, UNSURE, AHEAD, ONLY)
"""What a line may be marked with. `BEST` stands at the least or largest mean; whether its scheduler is also *first*
depends on the other lines: none is level with it, none has too few runs, and none has the same results."""

FIRST = "first"
"""The paired interval of every other line excludes no difference."""
TIED = "tied"
"""At least one other line is level with the best, or has its very results."""
OPEN = "open"
"""At least one other line shares too few seeds with the best."""
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
class Front:
    """What the runs of one setting and controller say of who is first, by one measure."""

    setting: str
    cc: str
    kind: str
    best: Cell | None = None
    same: list[str] = field(default_factory=list)
    """Schedulers with the very results of the best one."""
    level: list[Cell] = field(default_factory=list)
    unsure: list[Cell] = field(default_factory=list)
    behind: list[Cell] = field(default_factory=list)
    """The others, nearest first, of which the seeds say that they are worse."""

    def mark(self, cell: Cell) -> str:
        """What the line of a cell is marked with."""
        if cell == self.best:
            if not (self.level or self.unsure or self.behind):
                return ONLY if self.kind == REMAINS else ""
            return AHEAD if self.kind == LEADS else BEST
        if cell in self.level:
            return AHEAD if self.kind == LEADS else LEVEL
        return UNSURE if cell in self.unsure and self.kind == OPEN else ""

    def names(self, study: Study) -> list[str]:
        """All that may be the first: the best one, those with its results, and those not told apart from it."""
        cells = [cell for cell in (self.best, *self.level) if cell]
        cells += self.unsure if self.kind == OPEN else []
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
    stands: dict[str, list[Cell]] = {"": [], LEVEL: [], UNSURE: []}
    for cell in others:
        stands[standing(study, best, cell, column)].append(cell)
    kind = _kind(bool(same), stands, len(lines), len(study.values(best, column)))
    return Front(setting, cc, kind, best, same, stands[LEVEL], stands[UNSURE], stands[""])


def _kind(has_twins: bool, stands: dict[str, list[Cell]], lines: int, runs: int) -> str:
    competitors = sum(map(len, stands.values()))
    if not competitors and (lines > 1 or not has_twins):
        return REMAINS if lines > 1 else ALONE
    if stands[UNSURE]:
        return LEADS if runs == 1 else OPEN
    return TIED if stands[LEVEL] or has_twins else FIRST


def standing(study: Study, best: Cell, other: Cell, column: str) -> str:
    """How a cell stands to the best one: behind (nothing), level with it, or unknown."""
    gap = paired(study.values(other, column), study.values(best, column))
    if gap is None:
        return UNSURE
    if gap.mean == 0 and not gap.half:
        return LEVEL
    if gap.half is None:
        return UNSURE
    is_worse = (gap.mean > 0) == study.prefers_less(column)
    return "" if gap.excludes_zero and is_worse else LEVEL
