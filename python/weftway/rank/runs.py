"""Runs every scheduler in every cell, keeps what is finished, and hands the numbers to `standing`."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from weftway import fairness
from weftway._native import ScenarioError, SimulationError
from weftway.fairness import Share
from weftway.runs import bounds, plan, seeds, specs
from weftway.runs.backends import SIM, Failed
from weftway.runs.job import Job
from weftway.runs.runner import Outcome, Progress, RowHandling, Runner, Wanted, quiet, threads
from weftway.runs.specs import SchedulerSpec
from weftway.runs.store import Finished, Store, table
from weftway.stats.baselines import REFERENCE

from . import cells, standing
from .cells import KINDS, Cell
from .costs import Row, bound, copies_share, cost, load, needed
from .standing import TOLD, Group, JudgedCell, SinglePath, Standing, Worst

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

AT_ONCE = 10
"""Cells whose jobs are planned together: enough to keep all threads at work, few enough not to hold all jobs."""

LEAST_SEEDS = 2
"""A pick on one half of the seeds is judged on the other."""

STEADY_SEEDS = 4
"""With fewer, one half of the seeds is a single run, whose luck picks."""

WORST = 10
"""Cells of the candidate that are shown."""

SINGLE = "one path: "
"""Before the name of the path, how the runs of one path are called."""

CLAIRVOYANT = "clairvoyant: "
"""Before the name of the scheduler from which it starts, how the runs of a clairvoyant are called."""

ORACLE = "oracle: "
"""Before what it tells, how the runs of an oracle are called."""

CHANGED = "changed: "
"""Before what is changed, how the runs of `earliest-delivery` are called that have another controller or another
initial window than the cell."""


@dataclass(frozen=True)
class Request:
    """Schedulers to rank, and the cells to rank them on."""

    on: Sequence[str]
    """A distribution, or scenario files and folders of them."""
    cells: int | None = None
    """So many of a distribution (200 if not given); the first so many of each folder."""
    seeds: str | int | Iterable[int] = "0..10"
    seed: int = 1
    """Which cells of a distribution: equal seeds draw equal ones."""
    schedulers: Any = "all"
    candidate: Any = None
    """The scheduler that is held against the others. It is never the best other scheduler."""
    split: str = "held-out"
    set: Sequence[str] = ()
    clairvoyant: bool = False
    """Whether a clairvoyant runs, too, that starts from the candidate."""
    oracle: bool = False
    """Whether `earliest-delivery` runs, too, told by the links when packets arrive."""
    not_among_others: Any = ()
    """Schedulers that are ranked, but never the best other one. A name without switches stands for all its variants."""
    oracle_cc: bool = False
    """Whether `earliest-delivery` runs, too, under windows that an oracle sets."""
    cc: str | Iterable[str] = ()
    """Controllers under which `earliest-delivery` runs, too."""
    windows: Sequence[int] = ()
    """Initial windows, in packets, with which it runs, too."""


@dataclass(frozen=True)
class Ranking:
    """Outcome of a request."""

    request: Request
    schedulers: list[SchedulerSpec]
    candidate: SchedulerSpec | None
    seeds: list[int]
    cells: list[Cell]
    judged: list[JudgedCell]
    rows: list[Row]
    """One per run, with what decides its cost."""
    skipped: list[str] = field(default_factory=list)
    failed: list[Failed[Job]] = field(default_factory=list)
    """Runs that failed. The seed of one is left out of its cell for every scheduler."""
    kept: Finished = field(default_factory=Finished)
    """What the folder holds besides the rows."""
    left_out: list[str] = field(default_factory=list)
    """Schedulers that are ranked, but never the best other one."""
    shares: Mapping[str, Sequence[Share]] = field(default_factory=dict)
    """Shares beside a CUBIC flow of the controllers that the request names."""

    @property
    def frame(self) -> "pl.DataFrame":
        """The rows as a table."""
        return table(self.rows)


@dataclass(frozen=True)
class Schedulers:
    """The schedulers of a ranking."""

    every: list[SchedulerSpec]
    candidate: SchedulerSpec | None
    left_out: list[str]
    """Those that are never the best other one: variants of the candidate, and what the request leaves out."""

    @property
    def others(self) -> list[str]:
        """Schedulers that may be the best other one."""
        names = [one.title for one in self.every if one is not self.candidate]
        return [name for name in names if name not in self.left_out]


@dataclass(frozen=True)
class Change:
    """Another controller, or another initial window, than a cell has."""

    name: str
    base: SchedulerSpec
    cc: tuple[str, str] | None = None
    window: int | None = None

    def job(self, cell: Cell, seed: int) -> Job:
        """Run of a cell with the change."""
        sets = [f"options.initial_window={self.window} packets"] if self.window else []
        variant = cell.with_set(*sets) if sets else cell.variant
        return plan.simulated(variant, self.base, self.cc or cell.cc, seed)


@dataclass(frozen=True)
class Sighted:
    """Reference beside the schedulers that sees more than any of them can. It is never ranked."""

    name: str
    base: SchedulerSpec
    """From which scheduler it starts."""
    key: Callable[[Job], str]
    """The key of a run of it."""
    results: Callable[[Sequence[Job], int], list[Row]]
    """Its results, on so many threads."""
    keeps_better: bool
    """Whether it takes the scheduler's own run where that costs no more."""


OnCost = Callable[[str, int, str, float], None]
"""Told what each run cost: its cell, seed, scheduler and cost."""


def run(
    request: Request,
    jobs: int | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    on_cost: OnCost = quiet,
) -> Ranking:
    """Runs what is not kept in `out` already, on `jobs` threads, and judges."""
    numbers = seeds.parse(request.seeds)
    if len(numbers) < LEAST_SEEDS:
        raise ScenarioError(f"seeds `{request.seeds}`: a ranking picks on one half of them and judges on the other")
    named = _field(request)
    seers, changes = _seers(request, named), _changes(request, named)
    every = cells.read(request.on, request.cells, request.seed, request.split, request.set, out)
    runs = sum(len(named.every) + len(seers) + len(changes) + _singles(cell) for cell in every) * len(numbers)
    with Runner(out, progress, runs) as runner:
        ranked = _Ranked(runner, named, seers, changes, numbers, jobs or os.cpu_count() or 1, on_cost)
        rows = ranked.rows(every)
    found = _judged(every, named, rows, numbers)
    kept = Store(out).finish(rows) if out and rows else Finished(rows)
    skipped = list(dict.fromkeys(ranked.skipped))
    asked = [named.candidate] if named.candidate else named.every
    if not any(one.title in cell.ratios for cell in found for one in asked):
        if ranked.failed:
            raise ranked.failed[0].error
        raise SimulationError("; ".join(skipped) or f"no run of {', '.join(one.title for one in asked)}")
    return Ranking(
        request,
        named.every,
        named.candidate,
        numbers,
        every,
        found,
        rows,
        skipped,
        ranked.failed,
        kept,
        named.left_out,
        {change.cc[0]: fairness.beside_cubic(change.cc[0], jobs) for change in changes if change.cc},
    )


def standings(found: Ranking) -> list[Standing]:
    """A line per scheduler, the best first."""
    return standing.standings(found.judged, found.candidate.title if found.candidate else None)


def single_path(found: Ranking) -> SinglePath | None:
    """Cost of one path with the same handshake."""
    return standing.single_path(found.judged)


def groups(found: Ranking) -> list[Group]:
    """The candidate against the best fixed scheduler of each kind of cell."""
    return standing.groups(found.judged, found.candidate.title if found.candidate else None, KINDS, found.left_out)


def worst(found: Ranking, count: int = WORST) -> list[Worst]:
    """The cells in which the candidate does worst; without one, the best scheduler."""
    name = found.candidate.title if found.candidate else standings(found)[0].scheduler
    return standing.worst(found.judged, name, count)


def _field(request: Request) -> Schedulers:
    every = specs.parse(request.schedulers)
    if request.candidate is None:
        if not every:
            raise ScenarioError("no scheduler is named: there is nothing to rank")
        named = Schedulers(every, None, _left_out(request, every, None))
        if not named.others:
            raise ScenarioError(f"not among others `{request.not_among_others}`: no scheduler is left to compare with")
        return named
    given = specs.parse(request.candidate)
    if len(given) != 1:
        raise ScenarioError(f"candidate `{request.candidate}`: name one scheduler to compare with the others")
    rest = [one for one in every if one.title != given[0].title]
    specs.distinct([*every, *given])
    named = Schedulers([*rest, given[0]], given[0], _left_out(request, rest, given[0]))
    if not named.others:
        besides = "; its variants and those not among others do not count" if rest else ""
        raise ScenarioError(f"candidate `{request.candidate}`: no other scheduler is named to compare it with{besides}")
    return named


def _left_out(request: Request, some: Sequence[SchedulerSpec], candidate: SchedulerSpec | None) -> list[str]:
    """Names of those that are never the best other scheduler."""
    names = {one.title for one in specs.parse(request.not_among_others)}
    ranked = [*some, *([candidate] if candidate else [])]
    if unknown := sorted(names - {name for one in ranked for name in _named(one)}):
        there = ", ".join(one.title for one in ranked)
        raise ScenarioError(f"not among others `{', '.join(unknown)}`: not ranked; those that are: {there}")
    variants = {candidate.scheduler} if candidate else set()
    return [one.title for one in some if _named(one) & names or one.scheduler in variants]


def _named(one: SchedulerSpec) -> set[str]:
    """Names under which somebody may name it: its own, and that without switches."""
    return {one.title, one.name, one.name.partition(":")[0]}


def _seers(request: Request, named: Schedulers) -> list[Sighted]:
    found = []
    if request.clairvoyant:
        base = named.candidate
        if base is None:
            raise ScenarioError("a clairvoyant starts from the candidate, and none is named")
        if base.rule:
            raise ScenarioError(f"candidate `{base.name}`: a clairvoyant cannot start from a scheduler in Python")
        name, key = CLAIRVOYANT + base.name, bounds.clairvoyant_key
        found.append(Sighted(name, base, key, bounds.clairvoyants, keeps_better=True))
    if not (request.oracle or request.oracle_cc):
        return found
    does = f"tells `{TOLD}` when packets arrive" if request.oracle else f"sets the windows of `{TOLD}`"
    base = _told(named, f"an oracle {does}")
    for sight in bounds.SIGHTS if request.oracle else ():
        results = partial(bounds.oracles, sight=sight)
        found.append(
            Sighted(ORACLE + sight, base, partial(bounds.oracle_key, sight=sight), results, keeps_better=False)
        )
    if request.oracle_cc:
        key = partial(bounds.oracle_key, sight=bounds.CONTROLLER)
        found.append(Sighted(ORACLE + bounds.CONTROLLER, base, key, bounds.controlled, keeps_better=False))
    return found


def _told(named: Schedulers, reason: str) -> SchedulerSpec:
    """The scheduler that an oracle tells; refused where it is not ranked."""
    base = next((one for one in named.every if one.name == TOLD), None)
    if base is None:
        raise ScenarioError(f"{reason}: name it among the schedulers")
    return base


def _changes(request: Request, named: Schedulers) -> list[Change]:
    controllers = plan.controllers(request.cc)
    if not controllers and not request.windows:
        return []
    base = _told(named, f"`{TOLD}` is what runs with other controllers and initial windows")
    under = [Change(f"{CHANGED}cc={cc[0]}", base, cc=cc) for cc in controllers]
    return [*under, *(Change(f"{CHANGED}initial_window={one}", base, window=one) for one in request.windows)]


@dataclass(frozen=True)
class _Asker:
    """Whose run it is: a cell, and the name under which its row stands."""

    cell: Cell
    scheduler: str
    path: str | None = None
    """Of a run over one path: which."""
    is_changed: bool = False
    """True if the run is of a changed cell."""

    def row(self, job: Job, result: Row) -> Row:
        """A row of the ranking."""
        return {
            "key": job.key,
            "cell": self.cell.name,
            "label": self.cell.label,
            **self.cell.kinds,
            "scheduler": self.scheduler,
            "path": self.path,
            "seed": job.seed,
            "cost_ms": cost(result, self.cell.workload),
            **{name: value for name, value in result.items() if name != "key"},
            "code": SIM.code(),
            "command": job.command,
        }


def _needed(_: Job, row: Row) -> Row:
    return needed(row)


HANDLING: RowHandling[Job, _Asker] = RowHandling(
    recalled=_needed, held=_needed, kept=lambda wanted, row: wanted.asker.row(wanted.job, row)
)


class _Ranked:
    """Runs the jobs of all cells, some cells at a time."""

    def __init__(
        self,
        runner: Runner,
        named: Schedulers,
        seers: Sequence[Sighted],
        changes: Sequence[Change],
        numbers: list[int],
        count: int,
        on_cost: OnCost,
    ) -> None:
        self._runner, self._field, self._seers, self._numbers = runner, named.every, seers, numbers
        self._changes = changes
        self._count, self._on_cost = count, on_cost
        (self._single,) = specs.parse(REFERENCE)
        self.skipped: list[str] = []
        self.failed: list[Failed[Job]] = []

    def rows(self, cells: Sequence[Cell]) -> list[Row]:
        """All rows, in the order of the cells."""
        return [row for some in _batched(cells, AT_ONCE) for row in self._some(some)]

    def _some(self, some: Sequence[Cell]) -> list[Row]:
        wanted = [one for cell in some for one in self._wanted(cell)]
        runs = self._runner.run(wanted, threads(self._count, singles=False), HANDLING, self._tell_cost)
        self.skipped += [f"{one.job.scheduler.title}: {one.reason}" for one in runs.skipped]
        self.failed += runs.failed
        rows = [one.asker.row(one.job, row) for one, row in runs]
        rows += [row for seer in self._seers for cell in some for row in self._seen(cell, seer, runs.rows)]
        whole = [one for one in wanted if one.asker.path is None and not one.asker.is_changed]
        limits = bounds.of([one.job for one in whole], self._count)
        bounded = {(one.asker.cell.name, one.job.seed): limits[one.job.key] for one in whole}
        workloads = {cell.name: cell.workload for cell in some}

        def least(row: Row) -> float | None:
            """Least cost of a run; of runs on one path nothing is said."""
            if row["path"] is not None:
                return None
            return bound(row, bounded[row["cell"], row["seed"]], workloads[row["cell"]])

        return [{**row, "bound_ms": least(row)} for row in rows]

    def _seen(self, cell: Cell, seer: Sighted, ran: Mapping[str, Row]) -> list[Row]:
        """The rows of one that sees, where the scheduler from which it starts ran.

        There is none of a call, in which two decide.
        """
        asker = _Asker(cell, seer.name)
        jobs = [plan.simulated(cell.variant, seer.base, cell.cc, seed) for seed in self._numbers]
        if cell.workload == "call" or not all(job.key in ran for job in jobs):
            self._runner.leave_out(len(jobs))
            return []

        def better(job: Job, row: Row) -> Row:
            result = needed(row)
            if seer.keeps_better:
                result = min(ran[job.key], result, key=lambda one: cost(one, cell.workload))
            return {**asker.row(job, result), "key": seer.key(job)}

        def carried_out(todo: Sequence[Job]) -> Iterator[Outcome[Job]]:
            for some in _batched(todo, self._count):
                yield from map(Outcome, some, seer.results(some, self._count))

        handling: RowHandling[Job, _Asker] = RowHandling(key=seer.key, recalled=better, held=better)
        return [row for _, row in self._runner.run((Wanted(job, asker) for job in jobs), carried_out, handling)]

    def _tell_cost(self, one: Wanted[Job, _Asker], result: Row) -> None:
        """Runs over one path are nobody's, and those of changed cells are not compared."""
        if one.asker.path is None and not one.asker.is_changed:
            cell = one.asker.cell
            self._on_cost(cell.name, one.job.seed, one.asker.scheduler, cost(result, cell.workload))

    def _wanted(self, cell: Cell) -> Iterator[Wanted[Job, _Asker]]:
        for spec in self._field:
            for seed in self._numbers:
                yield Wanted(plan.simulated(cell.variant, spec, cell.cc, seed), _Asker(cell, spec.title))
        for change in self._changes:
            for seed in self._numbers:
                yield Wanted(change.job(cell, seed), _Asker(cell, change.name, is_changed=True))
        for path, variant in cell.singles().items():
            for seed in self._numbers:
                job = plan.simulated(variant, self._single, cell.cc, seed)
                yield Wanted(job, _Asker(cell, SINGLE + path, path))


def _singles(cell: Cell) -> int:
    return len(cell.paths) if len(cell.paths) > 1 else 0


def _judged(every: Sequence[Cell], named: Schedulers, rows: Sequence[Row], numbers: Sequence[int]) -> list[JudgedCell]:
    by_cell: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], {}).setdefault(row["scheduler"], []).append(row)
    ran = {name: _paired(some, numbers) for name, some in by_cell.items()}
    return [_judge(cell, named, ran[cell.name]) for cell in every if ran.get(cell.name)]


def _paired(ran: dict[str, list[Row]], numbers: Sequence[int]) -> dict[str, list[Row]]:
    """The runs of one cell, by scheduler, over the seeds that none of them failed in.

    A scheduler that failed so often that too few seeds would be left is out of the cell.
    """
    left = {name: {row["seed"]: row for row in some} for name, some in ran.items()}
    while left:
        seeds = [number for number in numbers if all(number in some for some in left.values())]
        if len(seeds) >= LEAST_SEEDS:
            return {name: [some[number] for number in seeds] for name, some in left.items()}
        del left[min(left, key=lambda name: len(left[name]))]
    return {}


def _judge(cell: Cell, named: Schedulers, ran: dict[str, list[Row]]) -> JudgedCell:
    costs = {name: [row["cost_ms"] for row in some] for name, some in ran.items()}
    everybody = {one.title: costs[one.title] for one in named.every if one.title in costs}
    choice = {name: everybody[name] for name in named.others if name in everybody}
    loads = [[load(row, cell.workload) for row in ran[name]] for name in everybody]
    known = [fmean(value for value in some if value is not None) for some in loads if None not in some]
    singles = {name: some for name, some in costs.items() if ran[name][0]["path"] is not None}
    clairvoyant = next((some for name, some in costs.items() if name.startswith(CLAIRVOYANT)), None)
    limit = [row["bound_ms"] for row in ran[next(iter(everybody))]] if everybody else []
    return JudgedCell(
        cell=cell.name,
        kinds=cell.kinds,
        ratios=standing.judged(everybody, choice),
        singles=standing.judged(everybody, singles),
        single=standing.judged_pick(singles, choice),
        copies={name: sum(map(copies_share, ran[name])) / len(ran[name]) for name in everybody},
        unfinished={name: sum(row["verdict"] != "finished" for row in ran[name]) for name in everybody},
        of_bound=standing.of_bound(everybody, limit),
        clairvoyant=standing.of_bound({CLAIRVOYANT: clairvoyant}, limit).get(CLAIRVOYANT) if clairvoyant else None,
        told={
            name.removeprefix(ORACLE).removeprefix(CHANGED): fmean(some) / fmean(costs[TOLD])
            for name, some in costs.items()
            if name.startswith((ORACLE, CHANGED)) and TOLD in costs
        },
        load=max(known, default=None),
    )


def _batched(some: Sequence[T], count: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(some), count):
        yield some[start : start + count]
