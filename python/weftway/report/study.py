"""The rows of a comparison, indexed the way the figures ask for them.

A *cell* is one scheduler under one controller in one setting; it holds one run per seed.
A *setting* is what else was varied: the variant columns, and the backend when there are several.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from weftway.runs import backends
from weftway.runs.columns import FINISHED, is_number, is_result_of_a_path
from weftway.runs.rows import Columns
from weftway.stats.baselines import REFERENCE
from weftway.stats.estimates import Estimate, estimate, interval_of_median, middle, paired
from weftway.stats.units import MEASURES, Measure, measure

from .palette import Look, look, looks

if TYPE_CHECKING:
    import polars as pl

    from weftway.runs.backends import Row
    from weftway.runs.comparison import Comparison

PER_PATH = re.compile(r"path\.(.+)\.(bytes|share|mean_rate_mbps|retransmissions|srtt_ms)")
TOP = 10
"""Lines of a controller that are shown at first."""
BOUNDS = {"fct_ms": "bound_fct_ms", "message_p95_ms": "bound_p95_ms", "deadline_miss_rate": "bound_miss_rate"}
"""Bounds of primary measures, which rows have with `--bound`."""
LEAST = {"deadline_miss_rate": 1e-3}
"""Primary measures that may be zero, and what they count at least in a ratio."""
INTERNAL = {"waits", "fallback_decided", "fallback_differs", "chosen_rate_mbps"}
"""Measures of how a scheduler decided; two may differ in them and send every packet alike."""
BENEFITS = ("aggregation_benefit", "benefit_fair")
"""Measures over what the other links could add. Where that is next to nothing, they say nothing."""
LITTLE = 0.1
"""The others add little where they carry less than this share of what all links do, each of them alone."""
LEAST_BENEFIT = 1e-3
"""Benefit from which on a run tells what the others could add."""
YOURS, NAMED = "yours", "*"
SUFFIXES = {YOURS: f" ({YOURS})", NAMED: f" {NAMED}", "": ""}
"""Marks behind a name, where there is no small print."""
LEGEND = "* you named it; the others came with `all`"
HEADS = {
    "fct_ms": "completion",
    "goodput_mbps": "goodput",
    "aggregation_benefit": "benefit",
    "efficiency": "efficiency",
    "ooo_packets": "reordered",
    "retransmissions": "resent",
}
"""Names of measures that are short enough for a terminal of 80 columns; the report has the full ones."""
SHOWN = tuple(HEADS)


class Cell(NamedTuple):
    """The place of a group of runs that differ in their seed only."""

    setting: str
    cc: str
    scheduler: str


def study_of(comparison: Comparison) -> Study:
    """A comparison as tables and figures ask for it, made once."""
    if "study" not in comparison.made:
        comparison.made["study"] = Study(comparison.rows, comparison.about)
    study: Study = comparison.made["study"]
    return study


class Study:
    """All runs of one comparison, with the names, order and reference every figure shares."""

    def __init__(self, rows: pl.DataFrame | Sequence[Row], scenario: dict[str, Any]) -> None:
        self._table = Columns(rows)
        self._of_paths = path_columns(self._table)
        self.scenario = scenario
        self.columns = self._table.names
        self.count = self._table.count
        self.labels = setting_columns(self._table, scenario)
        """The columns whose values make a setting."""
        self._others: dict[tuple[str, str], float | None] = {}
        self._values: dict[tuple[Cell, str], dict[Any, float]] = {}
        self._estimates: dict[tuple[Cell, str], Estimate | None] = {}
        self._groups: dict[tuple[str, str], list[Cell]] = {}
        self._equals: dict[tuple[str, str], dict[Cell, list[Cell]]] = {}
        self._orders: dict[Cell, list[int]] = {}
        self._runs = self._by_cell()
        self._repeatable = {
            cell: all(map(backends.is_repeatable, set(self.of(cell, "backend")))) for cell in self._runs
        }
        self.settings = distinct(cell.setting for cell in self._runs)
        self.controllers = distinct(cell.cc for cell in self._runs)
        self.paths = path_names(scenario, [*self.columns, *self._of_paths])
        self.primary = self._primary()
        names = distinct(cell.scheduler for cell in self._runs)
        self.registry = list(scenario.get("registry") or sorted(name.split("@")[0] for name in names))
        self.reference = self._reference(names)
        self.own = own_schedulers(self._table)
        self.kept = self.own | set(scenario.get("named") or ())
        self.schedulers = self._ranked(names)
        self._looks = looks(self.schedulers, self.registry)

    def also(self, **about: Any) -> Study:
        """This study of the same rows, with more said about them."""
        study = copy(self)
        study.scenario = {**self.scenario, **about}
        return study

    def look(self, scheduler: str) -> Look:
        """Colour and shape of a scheduler, the same in every figure of this comparison."""
        return self._looks.get(scheduler) or look(scheduler, self.registry)

    def _by_cell(self) -> dict[Cell, list[int]]:
        """The places of each cell's runs among the rows."""
        labels = [self._table[name] for name in self.labels]
        ccs, names = (self._table[name] for name in ("cc", "scheduler"))
        groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for at, key in enumerate(zip(names, ccs, *labels, strict=True)):
            groups[key].append(at)
        by_cell: dict[Cell, list[int]] = defaultdict(list)
        for (name, cc, *values), places in groups.items():
            varied = zip(self.labels, values, strict=True)
            setting = ", ".join(f"{label} = {value}" for label, value in varied if value is not None)
            by_cell[Cell(setting, str(cc or "default"), str(name))] += places
        return dict(sorted(by_cell.items(), key=lambda entry: entry[1][0]))

    def of(self, cell: Cell, column: str) -> list[Any]:
        """A column of the cell's runs, whatever its values are."""
        places = self._runs.get(cell, [])
        if (own := self._of_paths.get(column)) is not None:
            return [own.get(at) for at in places]
        values = self._table[column]
        return [values[at] for at in places]

    def size(self, cell: Cell) -> int:
        """Number of its runs."""
        return len(self._runs.get(cell, ()))

    def key(self, cell: Cell, seed: Any) -> str:
        """The key of the cell's run with this seed."""
        seeds = self._table["seed"]
        return str(self._table["key"][next(at for at in self._runs[cell] if seeds[at] == seed)])

    def _reference(self, names: list[str]) -> str:
        asked = self.scenario.get("reference", REFERENCE)
        return asked if asked in names else (names[0] if names else "")

    def _primary(self) -> Measure:
        """Measure that the workload is about: messages, deadlines, an end, or else the rate."""
        wanted = about(self.scenario)
        missed = any(any(self.values(cell, wanted[0]).values()) for cell in self._runs)
        named = (name for name in wanted if self.has(name) and (missed or name != "deadline_miss_rate"))
        return MEASURES[next(named, "goodput_mbps")]

    def _ranked(self, names: list[str]) -> list[str]:
        """Schedulers that are kept in sight, then the others, each best first by the middle one of a scheduler's ranks:
        for what shows all settings and controllers at once."""
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
            estimate = self.estimate(cell, column)
            return self.lacks(cell, column), sign * estimate.mean if estimate else math.inf

        return sorted((cell for cell in cells if cell in self._runs), key=place)

    def prefers_less(self, column: str) -> bool:
        """Says whether less of a measure is better."""
        return bool(measure(column).lower_is_better)

    def lacks(self, cell: Cell, column: str = "") -> bool:
        """Says whether a run of the cell has no value of a measure, the primary one if none is named: the others do not
        speak for it."""
        return len(self.values(cell, column or self.primary.column)) < len(set(self.of(cell, "seed")))

    @cached_property
    def groups(self) -> list[tuple[str, str]]:
        """Settings and controllers that were run together."""
        together = {(cell.setting, cell.cc) for cell in self._runs}
        return [(s, cc) for s in self.settings for cc in self.controllers if (s, cc) in together]

    @cached_property
    def seeds(self) -> list[Any]:
        """The different seeds of all runs."""
        return sorted(set(self._table["seed"]), key=str)

    def has(self, column: str) -> bool:
        """Says whether any run has a value there."""
        own = self._of_paths.get(column)
        return any(map(is_number, self._table[column] if own is None else own.values()))

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
            alike: list[list[Cell]] = []
            for cells in self._of_one_end(setting, cc):
                groups: list[list[Cell]] = []
                for cell in cells:
                    same = next((group for group in groups if self._is_same(group[0], cell)), None)
                    groups.append([cell]) if same is None else same.append(cell)
                alike += groups
            ordered = (sorted(cells, key=self._speaks) for cells in alike)
            self._equals[setting, cc] = {first: others for first, *others in ordered if others}
        return self._equals[setting, cc]

    def _of_one_end(self, setting: str, cc: str) -> Iterable[list[Cell]]:
        """Cells that have the same primary measures: only these can have the same results."""
        by_values: dict[Any, list[Cell]] = defaultdict(list)
        for cell in self._group(setting, cc):
            by_values[frozenset(self.values(cell, self.primary.column).items())].append(cell)
        return by_values.values()

    def _speaks(self, cell: Cell) -> tuple[bool, bool, bool]:
        name = cell.scheduler
        return name not in self.own, name not in self.kept, name != self.reference

    def is_kept(self, cell: Cell) -> bool:
        """Says whether a line stays in sight when others are folded: the user's own, what was named, the reference."""
        return any(name in self.kept or name == self.reference for name in (cell.scheduler, *self.alike(cell)))

    def tag(self, scheduler: str) -> str:
        """The mark beside a name: `yours` for the user's own, a star for what was named beside `all`."""
        return YOURS if scheduler in self.own else NAMED if scheduler in self.kept else ""

    def alike(self, cell: Cell) -> list[str]:
        """The schedulers that a shown cell speaks for besides its own."""
        return [other.scheduler for other in self.equals(cell.setting, cell.cc).get(cell, [])]

    def _is_same(self, cell: Cell, other: Cell) -> bool:
        """Says whether two cells have the same outcomes and measures, seed by seed, but for those that only count how
        it was decided."""
        if self.lacks(cell) or self.lacks(other):
            return False
        measures = [name for name in self.columns if name in MEASURES and name not in INTERNAL]
        wanted = ["seed", "verdict", *measures, *(f"path.{path}.bytes" for path in self.paths)]
        return all(self._by_seed(cell, name) == self._by_seed(other, name) for name in wanted)

    def _by_seed(self, cell: Cell, column: str) -> list[Any]:
        """A column of the cell's runs in the order of their seeds."""
        values = self.of(cell, column)
        if cell not in self._orders:
            seeds = self.of(cell, "seed")
            self._orders[cell] = sorted(range(len(seeds)), key=lambda at: (str(type(seeds[at])), seeds[at]))
        return [values[at] for at in self._orders[cell]]

    def shown(self, setting: str, cc: str) -> list[Cell]:
        """The cells that have a line of their own: all but those that equal another. Kept ones first, then by rank."""
        twins = {cell for others in self.equals(setting, cc).values() for cell in others}
        lines = [cell for cell in self._group(setting, cc) if cell not in twins]
        return sorted(lines, key=lambda cell: (cell.scheduler not in self.own, cell.scheduler not in self.kept))

    def values(self, cell: Cell, column: str) -> dict[Any, float]:
        """Value by seed; runs without one are left out, and benefits over next to nothing."""
        if column in BENEFITS and self.adds_little(cell.setting, cell.cc):
            return {}
        if (cell, column) not in self._values:
            runs = zip(self.of(cell, "seed"), self.of(cell, column), strict=True)
            self._values[cell, column] = {seed: float(value) for seed, value in runs if is_number(value)}
        return self._values[cell, column]

    def adds_little(self, setting: str, cc: str) -> bool:
        """Says whether the other links carry less than a tenth of what all do: no scheduler can gain much."""
        if (setting, cc) not in self._others:
            gains = (
                zip(*self._gain(cell), self.of(cell, BENEFITS[0]), strict=True) for cell in self._group(setting, cc)
            )
            known = [part for runs in gains for run in runs if (part := _others_of(*run)) is not None]
            self._others[setting, cc] = min(known, default=None)
        least = self._others[setting, cc]
        return least is not None and least < LITTLE

    def over_best_link(self, cell: Cell) -> Estimate | None:
        """By how much, as a share, the goodput exceeds that of the best link alone under the same draws."""
        pairs = zip(*self._gain(cell), strict=True)
        shares = [ours / alone - 1 for ours, alone in pairs if is_number(ours) and is_number(alone) and alone > 0]
        return (estimate if self.is_repeatable(cell) else middle)(shares)

    @property
    def has_bound(self) -> bool:
        """Says whether rows have the bound of the primary measure."""
        return self.primary.column in BOUNDS and self.has(BOUNDS[self.primary.column])

    def of_bound(self, cell: Cell) -> Estimate | None:
        """Primary measure over the least that the links allow, run by run."""
        bounds = self.values(cell, BOUNDS[self.primary.column])
        values = self.values(cell, self.primary.column)
        least = LEAST.get(self.primary.column, 0.0)
        pairs = [(max(value, least), max(bounds[seed], least)) for seed, value in values.items() if seed in bounds]
        return estimate(value / bound for value, bound in pairs if bound > 0)

    def estimate(self, cell: Cell, column: str) -> Estimate | None:
        """The mean of runs that can be repeated, the median of the others, which have modes and strays."""
        if (cell, column) not in self._estimates:
            summary = estimate if self.is_repeatable(cell) else middle
            self._estimates[cell, column] = summary(self.values(cell, column).values())
        return self._estimates[cell, column]

    def _gain(self, cell: Cell) -> tuple[list[Any], list[Any]]:
        """The goodput of each run, and that of the best link alone."""
        return self.of(cell, "goodput_mbps"), self.of(cell, "best_single_mbps")

    def interval_of_medians(self, setting: str | None = None, cc: str | None = None) -> str:
        """Name of the ± of medians, of the runs that cannot be repeated."""
        cells = [cell for cell in self.cells(setting, cc) if not self.is_repeatable(cell)]
        return interval_of_median(len(self.values(cell, self.primary.column)) for cell in cells)

    @cached_property
    def summary(self) -> str:
        """The word for what the runs of a cell are summed up by."""
        words = {"mean" if self.is_repeatable(cell) else "median" for cell in self._runs}
        return words.pop() if len(words) == 1 else "mean or median"

    def is_repeatable(self, cell: Cell) -> bool:
        """Says whether each run would give the same row again."""
        return self._repeatable.get(cell, True)

    def difference(self, cell: Cell, column: str) -> Estimate | None:
        """Seed by seed against the reference scheduler in the same setting and controller."""
        other = cell._replace(scheduler=self.reference)
        return paired(self.values(cell, column), self.values(other, column))

    def unfinished(self, cell: Cell) -> list[str]:
        """The verdicts of the runs that did not end as they should."""
        return [str(v) for v in self.of(cell, "verdict") if (v.lower() if isinstance(v, str) else v) not in FINISHED]

    def first(self, column: str) -> list[Any]:
        """The different values of a provenance column, as they came."""
        return distinct(value for cell in self._runs for value in self.of(cell, column) if value is not None)

    def measures(self, columns: Iterable[str]) -> list[Measure]:
        """Columns among these that any run has."""
        return [measure(column) for column in columns if self.has(column)]

    def winners(self, setting: str) -> list[tuple[Cell, Estimate]]:
        """Cells by the mean of the primary measure, best first; those that lack a run last."""
        ranked = self.ordered(self.cells(setting), self.primary.column)
        means = [(cell, self.estimate(cell, self.primary.column)) for cell in ranked]
        return [(cell, value) for cell, value in means if value is not None]

    def watched(self) -> list[tuple[Cell, Any]]:
        """Cells and seeds in the order in which their runs are worth a look over time.

        The first seed of every line, under the winner's controller first; then the other seeds of the lines that
        are shown first.
        """
        groups = [(setting, cc) for setting in self.settings for cc in self.controllers]
        front = next((ranked[0][0] for setting in self.settings if (ranked := self.winners(setting))), None)
        groups.sort(key=lambda group: front is None or group != (front.setting, front.cc))
        lines = [self.shown(*group) for group in groups]
        seeds = {cell: distinct(self.of(cell, "seed")) for group in lines for cell in group}
        first = [(cell, seeds[cell][0]) for group in lines for cell in group]
        front_lines = [[c for at, c in enumerate(g) if at < TOP or self.is_kept(c)] for g in lines]
        return first + [(cell, seed) for group in front_lines for cell in group for seed in seeds[cell][1:]]


def about(scenario: dict[str, Any]) -> list[str]:
    """The columns that the workload of a scenario may be about, the first first."""
    kind = (scenario.get("workload") or {}).get("kind")
    if kind == "bulk":
        return ["fct_ms", "goodput_mbps"]
    if kind == "duration":
        return ["goodput_mbps"]
    if kind == "flows":
        return ["interactive_p95_ms", "bulk_p95_ms", "goodput_mbps"]
    if kind == "datagrams":
        return ["deadline_miss_rate", "overhead", "message_p99_ms"]
    return ["deadline_miss_rate", "message_p95_ms", "fct_ms", "goodput_mbps"]


def _others_of(ours: Any, alone: Any, benefit: Any) -> float | None:
    """The share of the links but the best in what all carry, each of them alone. A run's benefit tells: it is the gain
    over the best link, over what the others carry."""
    if not (is_number(ours) and is_number(alone) and is_number(benefit)):
        return None
    if alone <= 0 or abs(benefit) < LEAST_BENEFIT:
        return None
    others = (ours / alone - 1) / benefit  # as a share of the best
    return others / (1 + others)


def own_schedulers(table: Columns) -> set[str]:
    """Schedulers of the user's own, classes and policy files: they have a source."""
    sources = set(zip(table["scheduler"], table["scheduler_source"], strict=True))
    return {str(name) for name, source in sources if source}


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of first appearance."""
    return list(dict.fromkeys(values))


def setting_columns(table: Columns, scenario: dict[str, Any]) -> list[str]:
    """The columns that name a variant, and backend and transport when more than one was run.

    The scenario's `[vary]` names them. Rows without a scenario must tell by themselves: a variant
    takes each of its values with every scheduler, controller and seed, and is no result of a path.
    """
    columns = table.names

    def different(names: Iterable[str]) -> int:
        """Number of combinations of values that these columns have."""
        return len(set(zip(*(map(repr, table[name]) for name in names), strict=True)) or [()])

    if "vary" in scenario:
        keys = {key.strip() for joined in scenario["vary"] for key in joined.split(",")}
        known = keys - {"scheduler", "cc", "seed", "backend", "transport"}
        named = [name for name in columns if name in known and different([name]) > 1]
    else:
        run = [name for name in ("scheduler", "cc", "seed") if name in columns]
        variants = table.count // max(different(run), 1)
        dotted = [name for name in columns if "." in name and not is_result_of_a_path(name)]
        named = [name for name in dotted if 1 < different([name]) <= variants]
    # A backend may lack some of the runs; its others are no repetitions of another's.
    return [*named, *(name for name in ("backend", "transport") if name in columns and different([name]) > 1)]


def path_columns(table: Columns) -> dict[str, dict[int, Any]]:
    """The `path.<name>.<measure>` of rows whose `paths` is a list of records: values by the row's place."""
    columns: dict[str, dict[int, Any]] = defaultdict(dict)
    for at, paths in enumerate(table["paths"]) if "paths" in table.names else ():
        for record in (r for r in paths if isinstance(r, dict) and "name" in r) if isinstance(paths, list) else ():
            for key, value in record.items():
                columns[f"path.{record['name']}.{key}"][at] = value
    return columns


def path_names(scenario: dict[str, Any], columns: Iterable[str]) -> list[str]:
    """The scenario's paths in its order, else those that the columns mention."""
    declared = scenario.get("path")
    if isinstance(declared, dict) and declared:
        return list(declared)
    return distinct(match[1] for column in columns if (match := PER_PATH.fullmatch(column)))
