"""This comparison held against an earlier one: what changed, cell by cell, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from weftway.runs import backends
from weftway.runs.store import SELECTED
from weftway.stats.estimates import Estimate, paired
from weftway.stats.units import Unit, unit_for
from weftway.terminal.table import NOTHING, Column, Row, Table, Value

from . import html
from .numbers import counted, listed
from .study import Cell, Study

if TYPE_CHECKING:
    import polars as pl

HEAD = ("Scheduler", "Earlier", "Now", "Change", "Remark")
PERCENT = unit_for("share", [0.1])


@dataclass(frozen=True)
class Earlier:
    """The rows of an earlier comparison, and where they come from."""

    name: str
    rows: pl.DataFrame | Sequence[backends.Row]


@dataclass(frozen=True)
class Change:
    """A cell that both have: the primary measure then and now, and the paired difference as a share of the earlier."""

    cell: Cell
    before: Estimate | None
    now: Estimate | None
    share: Estimate | None
    """Change as a share; nothing, if no seed has a result in both."""
    lower_is_better: bool
    is_repeatable: bool = True
    lost: int = 0
    """Seeds that had a result, and have none now, less those of which it is the other way round."""

    @property
    def remark(self) -> str:
        """Verdict of the seeds on now and then. A single seed is taken at its word, where it gives the same row again.
        Whether there is a result at all counts for more than what it is."""
        if self.lost or self.share is None:
            return "worse" if self.lost > 0 else "better" if self.lost else "not significant"
        if self.share.mean == 0 and not self.share.half:
            return "unchanged"
        if not self.share.excludes_zero and (self.share.half is not None or not self.is_repeatable):
            return "not significant"
        return "better" if (self.share.mean < 0) == self.lower_is_better else "worse"

    @property
    def told(self) -> str:
        """By how much, in a word or two."""
        if self.lost:
            runs = "1 run" if abs(self.lost) == 1 else f"{abs(self.lost)} runs"
            return f"{runs} without a result" if self.lost > 0 else f"{runs} more with a result"
        return PERCENT.signed(self.share.mean) if self.share else "no seed has a result in both"

    @property
    def size(self) -> float:
        """The larger, the further up it is told."""
        return math.inf if self.lost or self.share is None else abs(self.share.mean)


def shown(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a folder that its last command asked for, and all others of the same scenario by the same code:
    other seeds, schedulers and controllers. Every row, if the table does not say what was asked for.
    """
    import polars as pl

    if SELECTED not in rows.columns:
        return rows
    same = [name for name in ("scenario_hash", "backend", "code", "scheduler_source") if name in rows.columns]
    asked = rows.filter(pl.col(SELECTED))
    others = rows.filter(~pl.col(SELECTED)).join(asked.select(same).unique(), on=same, how="semi", nulls_equal=True)
    return pl.concat([asked, others]).drop(SELECTED)


class Settings:
    """The earlier rows, a setting for each scenario and backend in them, and which of these is a setting of now."""

    def __init__(self, study: Study, earlier: Earlier) -> None:
        self.study = study
        # What varied then may be another thing than what varies now: each scenario has a hash of its own.
        self.before = Study(earlier.rows, {**study.scenario, "vary": {"scenario_hash": []}})
        self._settings: dict[tuple[str, str], list[Cell]] = {}
        for cell in self.before.cells():
            self._settings.setdefault((cell.cc, cell.scheduler), []).append(cell)

    def of(self, cell: Cell) -> Cell | None:
        """The earlier cell of the same scenario; of an edited one, the only one with the same values of what varies."""
        varied = self.study.labels
        cells = self._settings.get((cell.cc, cell.scheduler), [])
        for columns in (["scenario_hash", "backend"], [*varied, "backend", "transport"], varied):
            same = [
                earlier_cell for earlier_cell in cells if all(self._agree(cell, earlier_cell, name) for name in columns)
            ]
            if len(same) == 1:
                return same[0]
        return None

    def _agree(self, cell: Cell, then: Cell, column: str) -> bool:
        return self.study.of(cell, column)[:1] == self.before.of(then, column)[:1]

    def differ(self, changed: Sequence[Change]) -> str:
        """In what the scenarios of the cells are not the same; nothing if they are."""
        pairs = [(change.cell, then) for change in changed if (then := self.of(change.cell))]
        if all(self._agree(cell, then, "scenario_hash") for cell, then in pairs):
            return ""
        other = next((then for cell, then in pairs if not self._agree(cell, then, "scenario")), None)
        if other is None:
            return " The scenario has changed since."
        then, now = self.before.of(other, "scenario")[0], self.study.of(pairs[0][0], "scenario")[0]
        return f" These are two scenarios: {then} then, {now} now."


def changes(study: Study, earlier: Earlier) -> list[Change]:
    """Every cell that both have, the largest change first."""
    return changes_in(Settings(study, earlier))


def changes_in(settings: Settings) -> list[Change]:
    """Changes between settings that are known, the largest first."""
    study, before = settings.study, settings.before
    changed = []
    column = study.primary.column
    for cell in study.cells():
        if (old := settings.of(cell)) is None:
            continue
        then, now = before.estimate(old, column), study.estimate(cell, column)
        values_then, values_now = before.values(old, column), study.values(cell, column)
        both = {*before.of(old, "seed")} & {*study.of(cell, "seed")}
        lost = sum((seed in values_then) - (seed in values_now) for seed in both)
        gap = paired(values_now, values_then)
        share = None
        if gap and then and then.mean:
            size = abs(then.mean)
            share = Estimate(gap.mean / size, None if gap.half is None else gap.half / size, gap.n)
        if share or lost:
            less, again = bool(study.primary.lower_is_better), study.is_repeatable(cell)
            changed.append(Change(cell, then, now, share, less, again, lost))
    return sorted(changed, key=lambda change: -change.size)


def summary(study: Study, earlier: Earlier) -> str:
    """Says in a sentence what changed, and whether it is the scenario."""
    settings = Settings(study, earlier)
    changed = changes_in(settings)
    if not changed:
        return f"Against {earlier.name}: nothing in common, no setting, scheduler, controller and seed is in both."
    sentences = []
    for word in ("better", "worse"):
        some = [change for change in changed if change.remark == word]
        names = listed([f"{c.cell.scheduler} under {c.cell.cc} {c.told}" for c in some])
        sentences += [f"{len(some)} {word} ({names})"] if some else []
    same = sum(change.remark == "unchanged" for change in changed)
    sentences += [f"{same} unchanged"] if same else []
    open_ = sum(change.remark == "not significant" for change in changed)
    sentences += [f"{open_} not significant"] if open_ else []
    cells = counted(len(changed), "cell")
    return f"Against {earlier.name}, {cells} paired by seed: {', '.join(sentences)}.{settings.differ(changed)}"


def table(study: Study, earlier: Earlier) -> Markup:
    """A line per cell, by controller and setting."""
    changed = changes(study, earlier)
    rows = []
    for setting, cc in study.groups:
        group = [change for change in changed if change.cell[:2] == (setting, cc)]
        unit = unit_for(study.primary.kind, [change.now.mean for change in group if change.now])
        title = ", ".join(filter(None, [cc, setting]))
        rows += [Row(_values(study, change, unit), title, cc, attributes=_known(study, change)) for change in group]
    return html.table(Table(None, [Column(head) for head in HEAD], rows))


def _values(study: Study, change: Change, unit: Unit) -> list[Value | str]:
    kind = {"better": "good", "worse": "bad"}.get(change.remark, "plain")
    name = change.cell.scheduler
    return [
        Value(name, look=study.look(name), tag=study.tag(name)),
        unit.estimate(change.before) if change.before else NOTHING,
        unit.estimate(change.now) if change.now else NOTHING,
        PERCENT.estimate(change.share, signed=True) if change.share and not change.lost else change.told,
        Value(badges=[(kind, change.remark)]),
    ]


def _known(study: Study, change: Change) -> dict[str, str]:
    return html.known(change.cell.scheduler, (), study.is_kept(change.cell))
