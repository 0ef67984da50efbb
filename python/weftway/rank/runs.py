"""Runs every scheduler in every cell, keeps what is finished, and hands the numbers to `standing`."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from weftway._native import ScenarioError, SimulationError
from weftway.run import bounds, comparison, plan, seeds, specs
from weftway.run.backends import SIM, Failed, Skipped
from weftway.run.comparison import Interrupted, Progress
from weftway.run.job import Job
from weftway.run.specs import SchedulerSpec
from weftway.run.store import Finished, Store, table
from weftway.stats.baselines import REFERENCE
from weftway.terminal.interrupts import put_off

from . import cells, standing
from .cells import KINDS, Cell
from .costs import Row, bound, copies_share, cost, needed
from .standing import TOLD, Group, Judged, SinglePath, Standing, Worst

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

AT_ONCE = 10
"""Cells whose jobs are planned together: enough to keep all threads at work, few enough not to hold all jobs."""

LEAST_SEEDS = 2
"""A pick on one half of the seeds is judged on the other."""

WORST = 10
"""Cells of the candidate that are shown."""

SINGLE = "one path: "
"""Before the name of the path, how the runs of one path are called."""

CLAIRVOYANT = "clairvoyant: "
"""Before the name of the scheduler from which it starts, how the runs of a clairvoyant are called."""

ORACLE = "oracle: "
"""Before what it tells, how the runs of an oracle are called."""


@dataclass(frozen=True)
class Request:
    """What is ranked, and on what."""

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


@dataclass(frozen=True)
class Ranking:
    """What came of a request."""

    request: Request
    schedulers: list[SchedulerSpec]
    candidate: SchedulerSpec | None
    seeds: list[int]
    cells: list[Cell]
    judged: list[Judged]
    rows: list[Row]
    """One per run, with what decides its cost."""
    skipped: list[str] = field(default_factory=list)
    failed: list[Failed[Job]] = field(default_factory=list)
    """Runs that failed. The seed of one is left out of its cell for every scheduler."""
    kept: Finished = field(default_factory=Finished)
    """What the folder holds besides the rows."""

    @property
    def frame(self) -> "pl.DataFrame":
        """The rows as a table."""
        return table(self.rows)


@dataclass(frozen=True)
class Field:
    """The schedulers of a ranking."""

    every: list[SchedulerSpec]
    candidate: SchedulerSpec | None


@dataclass(frozen=True)
class Seer:
    """What runs beside the schedulers and sees what none of them can. It is never ranked."""

    name: str
    base: SchedulerSpec
    """From which scheduler it starts."""
    key: Callable[[Job], str]
    """The key of a run of it."""
    results: Callable[[Sequence[Job], int], list[Row]]
    """Its results, on so many threads."""
    keeps_better: bool
    """Whether it takes the scheduler's own run where that costs no more."""


Heard = Callable[[str, int, str, float], None]
"""Told what each run cost: its cell, seed, scheduler and cost."""


def run(
    request: Request,
    jobs: int | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    heard: Heard | None = None,
) -> Ranking:
    """Runs what is not kept in `out` already, on `jobs` threads, and judges."""
    numbers = seeds.parse(request.seeds)
    if len(numbers) < LEAST_SEEDS:
        raise ScenarioError(f"seeds `{request.seeds}`: a ranking picks on one half of them and judges on the other")
    named = _field(request)
    seers = _seers(request, named)
    every = cells.read(request.on, request.cells, request.seed, request.split, request.set, out)
    runner = _Runner(every, named.every, numbers, out, progress or (lambda done, total: None), seers, heard)
    rows = runner.run(jobs or os.cpu_count() or 1)
    found = _judged(every, named, rows, numbers)
    kept = Store(out).finish(rows) if out and rows else Finished(rows)
    skipped = list(dict.fromkeys(runner.skipped))
    asked = [named.candidate] if named.candidate else named.every
    if not any(one.name in cell.ratios for cell in found for one in asked):
        if runner.failed:
            raise runner.failed[0].error
        raise SimulationError("; ".join(skipped) or f"no run of {', '.join(one.name for one in asked)}")
    return Ranking(request, named.every, named.candidate, numbers, every, found, rows, skipped, runner.failed, kept)


def standings(found: Ranking) -> list[Standing]:
    """A line per scheduler, the best first."""
    return standing.standings(found.judged, found.candidate.name if found.candidate else None)


def single_path(found: Ranking) -> SinglePath | None:
    """What one path with the same handshake costs."""
    return standing.single_path(found.judged)


def groups(found: Ranking) -> list[Group]:
    """The candidate against the best fixed scheduler of each kind of cell."""
    return standing.groups(found.judged, found.candidate.name if found.candidate else None, KINDS)


def worst(found: Ranking, count: int = WORST) -> list[Worst]:
    """The cells in which the candidate does worst; without one, the best scheduler."""
    name = found.candidate.name if found.candidate else standings(found)[0].scheduler
    return standing.worst(found.judged, name, count)


def _field(request: Request) -> Field:
    every = specs.parse(request.schedulers)
    if request.candidate is None:
        if not every:
            raise ScenarioError("no scheduler is named: there is nothing to rank")
        return Field(every, None)
    given = specs.parse(request.candidate)
    if len(given) != 1:
        raise ScenarioError(f"candidate `{request.candidate}`: name one scheduler to compare with the others")
    others = [one for one in every if one.name != given[0].name]
    if not others:
        raise ScenarioError(f"candidate `{request.candidate}`: no other scheduler is named to compare it with")
    specs.distinct([*every, *given])
    return Field([*others, given[0]], given[0])


def _seers(request: Request, named: Field) -> list[Seer]:
    found = []
    if request.clairvoyant:
        base = named.candidate
        if base is None:
            raise ScenarioError("a clairvoyant starts from the candidate, and none is named")
        if base.rule:
            raise ScenarioError(f"candidate `{base.name}`: a clairvoyant cannot start from a scheduler in Python")
        name, key = CLAIRVOYANT + base.name, bounds.clairvoyant_key
        found.append(Seer(name, base, key, bounds.clairvoyants, keeps_better=True))
    if request.oracle:
        base = next((one for one in named.every if one.name == TOLD), None)
        if base is None:
            raise ScenarioError(f"an oracle tells `{TOLD}` when packets arrive: name it among the schedulers")
        for sight in bounds.SIGHTS:
            key, results = partial(bounds.oracle_key, sight=sight), partial(bounds.oracles, sight=sight)
            found.append(Seer(ORACLE + sight, base, key, results, keeps_better=False))
    return found


class _Runner:
    """Runs the jobs of all cells, some cells at a time."""

    def __init__(
        self,
        every: list[Cell],
        field: list[SchedulerSpec],
        numbers: list[int],
        out: Path | None,
        tell: Progress,
        seers: Sequence[Seer],
        heard: Heard | None,
    ) -> None:
        self._seers, self._heard = seers, heard
        self._cells, self._field, self._numbers, self._out, self._tell = every, field, numbers, out, tell
        (self._single,) = specs.parse(REFERENCE)
        self._store = Store(out) if out else None
        if self._store:
            self._store.make()
        self._kept = self._store.recall() if self._store else {}
        each = len(field) + len(seers)
        self._total = sum(each + _singles(cell) for cell in every) * len(numbers)
        self._done = 0
        self.skipped: list[str] = []
        self.failed: list[Failed[Job]] = []

    def run(self, threads: int) -> list[Row]:
        """All rows, in the order of the cells."""
        rows: list[Row] = []
        try:
            for some in _batched(self._cells, AT_ONCE):
                rows += self._some(some, threads)
        except KeyboardInterrupt:
            raise Interrupted(self._done, self._total, self._out) from None
        finally:
            if self._store:
                self._store.flush()
        return rows

    def _some(self, some: Sequence[Cell], threads: int) -> list[Row]:
        planned = [(job, about) for cell in some for job, about in self._jobs(cell)]
        results = {job.key: needed(self._kept[job.key]) for job, _ in planned if job.key in self._kept}
        for job, about in planned:
            if job.key in results:
                self._tell_cost(job, about, results[job.key])
        self._finished(len(results))
        todo = {job.key: (job, about) for job, about in planned if job.key not in results}
        failed: list[Failed[Job]] = []
        for job, result in comparison.results([job for job, _ in todo.values()], threads, singles=False):
            with put_off():
                if isinstance(result, Skipped):
                    self.skipped.append(f"{job.scheduler.name}: {result.reason}")
                elif isinstance(result, Failed):
                    failed.append(result)
                else:
                    results[job.key] = needed(result)
                    self._tell_cost(*todo[job.key], results[job.key])
                    if self._store:
                        self._store.keep(job.key, _row(*todo[job.key], results[job.key]))
                self._finished(1)
        self.failed += comparison.in_order(failed, (job for job, _ in planned))
        rows = [_row(job, about, results[job.key]) for job, about in planned if job.key in results]
        rows += [row for seer in self._seers for cell in some for row in self._seen(cell, seer, results, threads)]
        workloads = {cell.name: cell.workload for cell in some}
        limits = bounds.of([job for job, about in planned if about["path"] is None], threads)
        bounded = {(about["cell"].name, job.seed): limits[job.key] for job, about in planned if job.key in limits}

        def least(row: Row) -> float | None:
            """What a run costs at least; of runs on one path nothing is said."""
            if row["path"] is not None:
                return None
            return bound(row, bounded[row["cell"], row["seed"]], workloads[row["cell"]])

        return [{**row, "bound_ms": least(row)} for row in rows]

    def _seen(self, cell: Cell, seer: Seer, ran: dict[str, Row], threads: int) -> list[Row]:
        """The rows of one that sees, where the scheduler from which it starts ran.

        There is none of a call, in which two decide.
        """
        jobs = [plan.simulated(cell.variant, seer.base, cell.cc, seed) for seed in self._numbers]
        if cell.workload == "call" or not all(job.key in ran for job in jobs):
            self._finished(len(jobs))
            return []
        keys = {job.seed: seer.key(job) for job in jobs}
        results = {seed: needed(self._kept[key]) for seed, key in keys.items() if key in self._kept}
        self._finished(len(results))
        about = {"cell": cell, "scheduler": seer.name, "path": None}

        def row(job: Job) -> Row:
            found = results[job.seed]
            if seer.keeps_better:
                found = min(ran[job.key], found, key=lambda one: cost(one, cell.workload))
            return {**_row(job, about, found), "key": keys[job.seed]}

        for some in _batched([job for job in jobs if job.seed not in results], threads):
            for job, result in zip(some, seer.results(some, threads), strict=True):
                with put_off():
                    results[job.seed] = needed(result)
                    if self._store:
                        self._store.keep(keys[job.seed], row(job))
                    self._finished(1)
        return [row(job) for job in jobs]

    def _tell_cost(self, job: Job, about: Row, result: Row) -> None:
        """Runs over one path are nobody's."""
        if self._heard and about["path"] is None:
            cell: Cell = about["cell"]
            self._heard(cell.name, job.seed, about["scheduler"], cost(result, cell.workload))

    def _finished(self, count: int) -> None:
        self._done += count
        self._tell(self._done, self._total)

    def _jobs(self, cell: Cell) -> Iterator[tuple[Job, Row]]:
        """Each job, and what its row says of it."""
        for spec in self._field:
            for seed in self._numbers:
                about = {"cell": cell, "scheduler": spec.name, "path": None}
                yield plan.simulated(cell.variant, spec, cell.cc, seed), about
        for path, variant in cell.singles().items():
            for seed in self._numbers:
                about = {"cell": cell, "scheduler": SINGLE + path, "path": path}
                yield plan.simulated(variant, self._single, cell.cc, seed), about


def _singles(cell: Cell) -> int:
    return len(cell.paths) if len(cell.paths) > 1 else 0


def _row(job: Job, about: Row, result: Row) -> Row:
    cell: Cell = about["cell"]
    return {
        "key": job.key,
        "cell": cell.name,
        "label": cell.label,
        **cell.kinds,
        "scheduler": about["scheduler"],
        "path": about["path"],
        "seed": job.seed,
        "cost_ms": cost(result, cell.workload),
        **{name: value for name, value in result.items() if name != "key"},
        "code": SIM.code(),
        "command": job.command,
    }


def _judged(every: Sequence[Cell], named: Field, rows: Sequence[Row], numbers: Sequence[int]) -> list[Judged]:
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


def _judge(cell: Cell, named: Field, ran: dict[str, list[Row]]) -> Judged:
    costs = {name: [row["cost_ms"] for row in some] for name, some in ran.items()}
    everybody = {one.name: costs[one.name] for one in named.every if one.name in costs}
    choice = {name: some for name, some in everybody.items() if not named.candidate or name != named.candidate.name}
    singles = {name: some for name, some in costs.items() if ran[name][0]["path"] is not None}
    clairvoyant = next((some for name, some in costs.items() if name.startswith(CLAIRVOYANT)), None)
    limit = [row["bound_ms"] for row in ran[next(iter(everybody))]] if everybody else []
    return Judged(
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
            name.removeprefix(ORACLE): fmean(some) / fmean(costs[TOLD])
            for name, some in costs.items()
            if name.startswith(ORACLE)
        },
    )


def _batched(some: Sequence[T], count: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(some), count):
        yield some[start : start + count]
