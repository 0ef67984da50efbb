"""The rows of a comparison, indexed the way the figures ask for them.

A *cell* is one scheduler under one controller in one setting; it holds one run per seed.
A *setting* is what else was varied: the variant columns, and the backend when there are several.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from weftway import backends
from weftway.baselines import REFERENCE
from weftway.stats import Estimate, estimate, interval_of_median, middle, paired

from .palette import Look, look, looks
from .units import MEASURES, Measure, measure

if TYPE_CHECKING:
    import polars as pl

    from weftway.backends import Row

PER_PATH = re.compile(r"path\.(.+)\.(bytes|share|mean_rate_mbps|retransmissions|srtt_ms)")
TOP = 10
"""Lines of a controller that are shown at first."""
INTERNAL = {"waits", "fallback_decided", "fallback_differs", "chosen_rate_mbps"}
"""Measures of how a scheduler decided; two may differ in them and send every packet alike."""
BENEFITS = ("aggregation_benefit", "benefit_fair")
"""Measures over what the other links could add. Where that is next to nothing, they say nothing."""
LITTLE = 0.1
"""The others add little where they carry less than this share of what all links do, each of them alone."""
LEAST_BENEFIT = 1e-3
"""From this benefit on, a run tells what the others could add."""
YOURS, NAMED = "yours", "*"
LEGEND = "* you named it; the others came with `all`"
FINISHED = {None, "", "ok", "complete", "completed", "finished", "done"}


class Cell(NamedTuple):
    """The place of a group of runs that differ in their seed only."""

    setting: str
    cc: str
    scheduler: str


class Study:
    """All runs of one comparison, with the names, order and reference every figure shares."""

    def __init__(self, rows: pl.DataFrame | Sequence[Row], scenario: dict[str, Any]) -> None:
        runs = records(rows)
        self.scenario = scenario
        self.columns = list(runs[0]) if runs else []
        self.count = len(runs)
        self._labels = setting_columns(runs, scenario)
        self._runs: dict[Cell, list[Row]] = defaultdict(list)
        self._others: dict[tuple[str, str], float | None] = {}
        self._values: dict[tuple[Cell, str], dict[Any, float]] = {}
        self._groups: dict[tuple[str, str], list[Cell]] = {}
        self._equals: dict[tuple[str, str], dict[Cell, list[Cell]]] = {}
        for run in runs:
            self._runs[self.cell_of(run)].append(with_path_columns(run))
        self.settings = distinct(cell.setting for cell in self._runs)
        self.controllers = distinct(cell.cc for cell in self._runs)
        self.paths = path_names(scenario, self._runs)
        self.primary = self._primary()
        names = distinct(cell.scheduler for cell in self._runs)
        self.registry = list(scenario.get("registry") or sorted(name.split("@")[0] for name in names))
        self.reference = self._reference(names)
        self.own = {str(run["scheduler"]) for run in runs if is_own(run)}
        self.kept = self.own | set(scenario.get("named") or ())
        self.schedulers = self._ranked(names)
        self._looks = looks(self.schedulers, self.registry)

    def look(self, scheduler: str) -> Look:
        """Colour and shape of a scheduler, the same in every figure of this comparison."""
        return self._looks.get(scheduler) or look(scheduler, self.registry)

    def cell_of(self, run: Row) -> Cell:
        """Where a row belongs."""
        parts = [f"{name} = {run[name]}" for name in self._labels if run[name] is not None]
        return Cell(", ".join(parts), str(run.get("cc") or "default"), str(run["scheduler"]))

    def _reference(self, names: list[str]) -> str:
        asked = self.scenario.get("reference", REFERENCE)
        return asked if asked in names else (names[0] if names else "")

    def _primary(self) -> Measure:
        """What the workload is about: messages, deadlines, an end, or else the rate."""
        kind = (self.scenario.get("workload") or {}).get("kind")
        wanted = ["deadline_miss_rate", "message_p95_ms", "fct_ms", "goodput_mbps"]
        if kind == "bulk":
            wanted = ["fct_ms", "goodput_mbps"]
        elif kind == "duration":
            wanted = ["goodput_mbps"]
        missed = any(any(self.values(cell, wanted[0]).values()) for cell in self._runs)
        named = (name for name in wanted if self.has(name) and (missed or name != "deadline_miss_rate"))
        return MEASURES[next(named, "goodput_mbps")]

    def _ranked(self, names: list[str]) -> list[str]:
        """What is kept in sight, then the others, each best first by the middle one of a scheduler's ranks: for what
        shows all settings and controllers at once."""
        ranks: dict[str, list[int]] = defaultdict(list)
        column = self.primary.column
        for setting in self.settings:
            for cc in self.controllers:
                for rank, cell in enumerate(self.ordered([Cell(setting, cc, name) for name in names], column)):
                    ranks[cell.scheduler].append(rank)
        return sorted(names, key=lambda name: (name not in self.own, name not in self.kept, median(ranks[name])))

    def ordered(self, cells: Iterable[Cell], column: str) -> list[Cell]:
        """Cells by a measure, best first. Those of which not every run came to a value follow."""
        sign = 1 if self.prefers_less(column) else -1

        def place(cell: Cell) -> tuple[bool, float]:
            found = self.estimate(cell, column)
            return self.lacks(cell, column), sign * found.mean if found else math.inf

        return sorted((cell for cell in cells if cell in self._runs), key=place)

    def prefers_less(self, column: str) -> bool:
        """Whether less of a measure is better."""
        return bool(measure(column).lower_is_better)

    def lacks(self, cell: Cell, column: str = "") -> bool:
        """Whether a run of the cell has no value of a measure, the primary one if none is named: the others do not
        speak for it."""
        return len(self.values(cell, column or self.primary.column)) < len({run.get("seed") for run in self.runs(cell)})

    @property
    def seeds(self) -> list[Any]:
        return sorted({run.get("seed") for runs in self._runs.values() for run in runs}, key=str)

    def has(self, column: str) -> bool:
        """Whether any run has a value there."""
        return any(is_number(run.get(column)) for runs in self._runs.values() for run in runs)

    def cells(self, setting: str | None = None, cc: str | None = None) -> list[Cell]:
        """The cells that were run, settings and controllers as they came, schedulers best first in each."""
        return [
            cell
            for s in ([setting] if setting is not None else self.settings)
            for c in ([cc] if cc is not None else self.controllers)
            for cell in self._group(s, c)
        ]

    def _group(self, setting: str, cc: str) -> list[Cell]:
        if (setting, cc) not in self._groups:
            self._groups[setting, cc] = self.ordered(
                (Cell(setting, cc, name) for name in self.schedulers), self.primary.column
            )
        return self._groups[setting, cc]

    def equals(self, setting: str, cc: str) -> dict[Cell, list[Cell]]:
        """Cells with the very results of another, seed by seed, by the one that is shown for them.

        That is the user's own if it is among them, or what was named; else the reference, else the best placed.
        """
        if (setting, cc) not in self._equals:
            alike: dict[tuple[Any, ...], list[Cell]] = defaultdict(list)
            for cell in self._group(setting, cc):
                alike[self._results(cell)].append(cell)
            ordered = (sorted(cells, key=self._speaks) for cells in alike.values())
            self._equals[setting, cc] = {first: others for first, *others in ordered if others}
        return self._equals[setting, cc]

    def _speaks(self, cell: Cell) -> tuple[bool, bool, bool]:
        name = cell.scheduler
        return name not in self.own, name not in self.kept, name != self.reference

    def is_kept(self, cell: Cell) -> bool:
        """Whether a line stays in sight when others are folded: the user's own, what was named, the reference."""
        return any(name in self.kept or name == self.reference for name in (cell.scheduler, *self.alike(cell)))

    def tag(self, scheduler: str) -> str:
        """The mark beside a name: `yours` for a class of the user's own, a star for what was named beside `all`."""
        return YOURS if scheduler in self.own else NAMED if scheduler in self.kept else ""

    def alike(self, cell: Cell) -> list[str]:
        """The schedulers that a shown cell speaks for besides its own."""
        return [other.scheduler for other in self.equals(cell.setting, cell.cc).get(cell, [])]

    def _results(self, cell: Cell) -> tuple[Any, ...]:
        """What came of each seed: outcome and measures, without what only counts how it was decided."""
        if self.lacks(cell):
            return (cell,)
        names = [name for name in self.columns if name in MEASURES and name not in INTERNAL]
        wanted = ["seed", "verdict", *names, *(f"path.{path}.bytes" for path in self.paths)]
        return tuple(sorted((tuple(run.get(name) for name in wanted) for run in self.runs(cell)), key=repr))

    def shown(self, setting: str, cc: str) -> list[Cell]:
        """The cells that have a line of their own: all but those that equal another. Kept ones first, then by rank."""
        twins = {cell for others in self.equals(setting, cc).values() for cell in others}
        lines = [cell for cell in self._group(setting, cc) if cell not in twins]
        return sorted(lines, key=lambda cell: (cell.scheduler not in self.own, cell.scheduler not in self.kept))

    def runs(self, cell: Cell) -> list[Row]:
        return self._runs.get(cell, [])

    def values(self, cell: Cell, column: str) -> dict[Any, float]:
        """Value by seed; runs without one are left out, and benefits over next to nothing."""
        if column in BENEFITS and self.adds_little(cell.setting, cell.cc):
            return {}
        if (cell, column) not in self._values:
            runs = ((run.get("seed"), run.get(column)) for run in self.runs(cell))
            self._values[cell, column] = {seed: float(value) for seed, value in runs if is_number(value)}
        return self._values[cell, column]

    def adds_little(self, setting: str, cc: str) -> bool:
        """Whether the other links carry less than a tenth of what all do: no scheduler can gain much."""
        if (setting, cc) not in self._others:
            runs = [run for cell in self._group(setting, cc) for run in self.runs(cell)]
            known = [part for run in runs if (part := _others_of(run)) is not None]
            self._others[setting, cc] = min(known, default=None)
        least = self._others[setting, cc]
        return least is not None and least < LITTLE

    def over_best_link(self, cell: Cell) -> Estimate | None:
        """By how much, as a share, the goodput exceeds that of the best link alone under the same draws."""
        pairs = ((run.get("goodput_mbps"), run.get("best_single_mbps")) for run in self.runs(cell))
        shares = [ours / alone - 1 for ours, alone in pairs if is_number(ours) and is_number(alone) and alone > 0]
        return (estimate if self.is_repeatable(cell) else middle)(shares)

    def estimate(self, cell: Cell, column: str) -> Estimate | None:
        """The mean of runs that can be repeated, the median of the others, which have modes and strays."""
        summary = estimate if self.is_repeatable(cell) else middle
        return summary(self.values(cell, column).values())

    def interval_of_medians(self, setting: str | None = None, cc: str | None = None) -> str:
        """What the ± of medians is called, of the runs that cannot be repeated."""
        cells = [cell for cell in self.cells(setting, cc) if not self.is_repeatable(cell)]
        return interval_of_median(len(self.values(cell, self.primary.column)) for cell in cells)

    def is_repeatable(self, cell: Cell) -> bool:
        """Whether each run would give the same row again."""
        return all(backends.is_repeatable(run.get("backend")) for run in self.runs(cell))

    def difference(self, cell: Cell, column: str) -> Estimate | None:
        """Seed by seed against the reference scheduler in the same setting and controller."""
        other = cell._replace(scheduler=self.reference)
        return paired(self.values(cell, column), self.values(other, column))

    def unfinished(self, cell: Cell) -> list[str]:
        """The verdicts of the runs that did not end as they should."""
        verdicts = (run.get("verdict") for run in self.runs(cell))
        return [str(v) for v in verdicts if (v.lower() if isinstance(v, str) else v) not in FINISHED]

    def first(self, column: str) -> list[Any]:
        """The different values of a provenance column, as they came."""
        return distinct(run[column] for runs in self._runs.values() for run in runs if run.get(column) is not None)

    def measures(self, columns: Iterable[str]) -> list[Measure]:
        """Those of `columns` that any run has."""
        return [measure(column) for column in columns if self.has(column)]

    def winners(self, setting: str, cc: str | None = None) -> list[tuple[Cell, Estimate]]:
        """Cells by the mean of the primary measure, best first; those that lack a run last."""
        ranked = self.ordered(self.cells(setting, cc), self.primary.column)
        found = [(cell, self.estimate(cell, self.primary.column)) for cell in ranked]
        return [(cell, value) for cell, value in found if value is not None]

    def watched(self) -> list[tuple[Cell, Any]]:
        """Cells and seeds in the order in which their runs are worth a look over time.

        The first seed of every line, under the winner's controller first; then the other seeds of the lines that
        are shown first.
        """
        groups = [(setting, cc) for setting in self.settings for cc in self.controllers]
        front = next((ranked[0][0] for setting in self.settings if (ranked := self.winners(setting))), None)
        groups.sort(key=lambda group: front is None or group != (front.setting, front.cc))
        lines = [self.shown(*group) for group in groups]
        seeds = {cell: distinct(run.get("seed") for run in self.runs(cell)) for group in lines for cell in group}
        first = [(cell, seeds[cell][0]) for group in lines for cell in group]
        front_lines = [[c for at, c in enumerate(g) if at < TOP or self.is_kept(c)] for g in lines]
        return first + [(cell, seed) for group in front_lines for cell in group for seed in seeds[cell][1:]]


def _others_of(run: Row) -> float | None:
    """The share of the links but the best in what all carry, each of them alone. A run's benefit tells: it is the gain
    over the best link, over what the others carry."""
    ours, alone, benefit = (run.get(name) for name in ("goodput_mbps", "best_single_mbps", BENEFITS[0]))
    if not (is_number(ours) and is_number(alone) and is_number(benefit)):
        return None
    if alone <= 0 or abs(benefit) < LEAST_BENEFIT:
        return None
    others = (ours / alone - 1) / benefit  # as a share of the best
    return others / (1 + others)


def is_own(run: Row) -> bool:
    """Whether a run's scheduler is a class of the user's: it has a source, and that is no policy file."""
    return bool(run.get("scheduler_source")) and "policy=" not in str(run["scheduler"])


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of first appearance."""
    return list(dict.fromkeys(values))


def is_number(value: object) -> TypeGuard[float]:
    """Whether there is a finite number to count with."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def records(rows: pl.DataFrame | Sequence[Row]) -> list[Row]:
    """Rows as a frame has them: each with every column, a column's numbers all of one type.

    A frame is not made for it: loading Polars takes longer than a small comparison.
    """
    given = rows if isinstance(rows, Sequence) else rows.to_dicts()
    columns = distinct(name for row in given for name in row)
    found = [{name: row.get(name) for name in columns} for row in given]
    for name in columns:
        if {int, float} <= {type(row[name]) for row in found}:
            for row in found:
                if isinstance(value := row[name], int):
                    row[name] = float(value)
    return found


def setting_columns(rows: list[Row], scenario: dict[str, Any]) -> list[str]:
    """The columns that name a variant, and backend and transport when more than one was run.

    The scenario's `[vary]` names them. Rows without a scenario must tell by themselves: a variant
    takes each of its values with every scheduler, controller and seed, and a dotted measure such as
    `path.lte.bytes` differs from run to run.
    """
    columns = list(rows[0]) if rows else []

    def different(names: Iterable[str]) -> int:
        """How many combinations of values these columns have."""
        wanted = list(names)
        return len({tuple(repr(row[name]) for name in wanted) for row in rows})

    if "vary" in scenario:
        keys = {key.strip() for joined in scenario["vary"] for key in joined.split(",")}
        known = keys - {"scheduler", "cc", "seed", "backend", "transport"}
        named = [name for name in columns if name in known and different([name]) > 1]
    else:
        run = [name for name in ("scheduler", "cc", "seed") if name in columns]
        variants = len(rows) // max(different(run), 1)
        dotted = [name for name in columns if "." in name and not PER_PATH.fullmatch(name)]
        named = [name for name in dotted if 1 < different([name]) <= variants]
    # A backend may lack some of the runs; its others are no repetitions of another's.
    return [*named, *(name for name in ("backend", "transport") if name in columns and different([name]) > 1)]


def with_path_columns(run: Row) -> Row:
    """The run with `path.<name>.<measure>` columns, also where `paths` is a list of records."""
    records = run.get("paths")
    if isinstance(records, list):
        for record in (r for r in records if isinstance(r, dict) and "name" in r):
            run |= {f"path.{record['name']}.{key}": value for key, value in record.items()}
    return run


def path_names(scenario: dict[str, Any], runs: dict[Cell, list[Row]]) -> list[str]:
    """The scenario's paths in its order, else those that the rows mention."""
    declared = scenario.get("path")
    if isinstance(declared, dict) and declared:
        return list(declared)
    columns = distinct(column for group in runs.values() for run in group for column in run)
    return distinct(match[1] for column in columns if (match := PER_PATH.fullmatch(column)))
