"""Runs what a grid asks for and is not kept yet.

With Ray, the jobs that are missing are sent out first, from all scenarios at once, and their rows kept as they come.
What follows is the same in either case: each scenario's comparison is carried out, and takes from its folder what is
there. So rows, tables and reports do not depend on where the work was done.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path

from weftway import report
from weftway._native import Scenario, SimulationError
from weftway.runs import caveats, comparison
from weftway.runs.backends import BACKENDS, Failed, Row, Skipped, result
from weftway.runs.comparison import Comparison, is_kept
from weftway.runs.job import Job
from weftway.runs.parallel import RayPool
from weftway.runs.rows import Columns, FrameRows, KeyedRows, in_order
from weftway.runs.runner import Interrupted, Outcome, Progress, Runner, Wanted, Workers, quiet
from weftway.runs.store import Store

from .grid import Grid, Run
from .parcel import Answer, Parcel, Sender, carried_out

PARCEL_S = 3.0
"""Time that a parcel should take: long against sending it and reading its scenario, short enough to lose."""

MOST_GROUPS = 200
"""In one parcel. With more, an interrupt would lose too much where the first jobs are quick and the next are not."""


@dataclass(frozen=True)
class Request:
    """Request for a sweep: where it runs and where its results go."""

    out: Path
    jobs: int | None = None
    """Threads, or with Ray parcels, at work at a time; all there is room for if not given."""
    ray: str | None = None
    """The cluster: `local`, `auto`, `host:port`, `ray://host:port`."""


def execute(grid: Grid, request: Request, progress: Progress | None = None) -> list[Comparison]:
    """Runs what is not kept in `request.out`; a comparison for each run of the grid, in its order."""
    tell = progress or quiet
    failed = [] if request.ray is None else dispatch(grid, request, request.ray, tell)
    comparisons: list[Comparison] = []
    for run in grid.runs:
        comparisons.append(_compared(grid, run, request, _Shift(grid, comparisons, tell), failed))
    if (
        not grid.is_scenario
        and any(finished.rows for finished in comparisons)
        and not _stands(comparisons, Store(request.out))
    ):
        every = KeyedRows()
        for row in chain.from_iterable(finished.rows for finished in comparisons):
            every[row["key"]] = row
        Store(request.out).finish(in_order(every, list(every)))
    return comparisons


def _stands(comparisons: list[Comparison], store: Store) -> bool:
    """Tells if the table of the whole sweep has these rows already: nothing was run, and it has all their columns."""
    frames = [finished.rows.frame for finished in comparisons if isinstance(finished.rows, FrameRows)]
    if len(frames) < len(comparisons):
        return False
    keys = dict.fromkeys(key for frame in frames for key in frame["key"])
    whole = store.finished(list(keys))
    return whole is not None and {name for frame in frames for name in frame.columns} <= set(whole.frame.columns)


def rows(comparisons: list[Comparison]) -> list[Row]:
    """All rows, in the order of the grid; a job that two of its runs ask for has one."""
    return list({row["key"]: row for finished in comparisons for row in finished.rows}.values())


def warnings(comparisons: list[Comparison]) -> list[str]:
    """Lines that a reader needs before the numbers of a sweep: failed runs, and schedulers that broke a rule."""
    faults: dict[str, tuple[str, int | None, int | None]] = {}
    for table in (Columns(finished.rows) for finished in comparisons):
        runs = zip(table["scheduler"], table["faults"], table["decisions"], strict=True)
        faults.update(zip(table["key"], runs, strict=True))
    failed = {run.job.key: run for finished in comparisons for run in finished.failed}
    return [*caveats.failures(list(failed.values())), *caveats.counted(faults.values())]


@dataclass(frozen=True)
class _Shift:
    """A run's progress as that of the whole sweep."""

    grid: Grid
    before: list[Comparison]
    tell: Progress

    def __call__(self, done: int, _total: int) -> None:
        self.tell(self.done + done, _jobs(self.grid))

    @property
    def done(self) -> int:
        return sum(len(finished.rows) + len(finished.skipped) + len(finished.failed) for finished in self.before)


def _jobs(grid: Grid) -> int:
    return sum(len(run.plan.jobs) for run in grid.runs)


def _compared(grid: Grid, run: Run, request: Request, progress: _Shift, failed: Sequence[Failed[Job]]) -> Comparison:
    """The comparison of a run of the grid; `failed` are jobs that failed on the cluster."""
    folder = grid.folder(run, request.out)
    left_out = _left_out(run, folder) if request.ray is not None else []
    own = {job.key for job in run.plan.jobs}
    there = [failure for failure in failed if failure.job.key in own]
    settled = {job.key for job in (*(run.job for run in left_out), *(run.job for run in there))}
    wanted = replace(run.plan, jobs=[job for job in run.plan.jobs if job.key not in settled])
    try:
        share = report.MOST_TIMELINES // len(grid.runs)  # they are all held until the pages are written
        compared = comparison.execute(wanted, request.jobs, folder, progress, watched_runs=share)
    except Interrupted as error:
        raise Interrupted(progress.done + error.done, _jobs(grid), request.out) from None
    skipped, failures = [*compared.skipped, *left_out], [*compared.failed, *there]
    return Comparison(run.plan, compared.rows, skipped, failures, compared.watched, compared.kept)


def _left_out(run: Run, folder: Path) -> list[Skipped[Job]]:
    """The jobs that cannot be sent to a cluster and are not kept from before."""
    kept = Store(folder).recall()
    missing = [job for job in run.plan.jobs if job.backend in BACKENDS and not is_kept(job, kept)]
    reasons = [(job, BACKENDS[job.backend].remote_obstacle) for job in missing]
    return [Skipped(job, reason) for job, reason in reasons if reason is not None]


def _is_sent(job: Job) -> bool:
    return job.backend in BACKENDS and BACKENDS[job.backend].remote_obstacle is None


def dispatch(grid: Grid, request: Request, address: str, tell: Progress) -> list[Failed[Job]]:
    """Has a Ray cluster run the missing jobs that can be sent to one, and keeps their rows; returns the failures."""
    folders = _Folders(grid, request.out)
    with Runner(request.out, tell, _jobs(grid), folders) as runner:
        every = [Wanted(job, run) for run in grid.runs for job in run.plan.jobs]
        wanted = [request for request in every if request.job.key in runner.kept or _is_sent(request.job)]
        return runner.run(wanted, cluster(address, request.jobs)).failed


class _Folders:
    """Rows of all runs of a grid, each in the folder of its run, or of its runs."""

    def __init__(self, grid: Grid, out: Path) -> None:
        self._runs = [(run, Store(grid.folder(run, out))) for run in grid.runs]
        self._stores: dict[str, list[Store]] = {}
        for run, store in self._runs:
            for job in run.plan.jobs:
                self._stores.setdefault(job.key, []).append(store)

    def recall(self) -> dict[str, Row]:
        """Whole rows that every run has which asks for them."""
        missing: set[str] = set()
        rows: dict[str, Row] = {}
        for run, store in self._runs:
            recalled = store.recall()
            for job in run.plan.jobs:
                if is_kept(job, recalled):
                    rows[job.key] = recalled[job.key]
                else:
                    missing.add(job.key)
        return {key: row for key, row in rows.items() if key not in missing}

    def keep(self, key: str, row: Row, timeline: str | None = None) -> None:
        for store in self._stores[key]:
            store.keep(key, row, timeline)

    def flush(self) -> None:
        for _, store in self._runs:
            store.flush()


def cluster(address: str, most: int | None) -> Workers[Job]:
    """The nodes of a Ray cluster, with so many parcels at work at a time."""

    def carried_out_there(todo: Sequence[Job]) -> Iterator[Outcome[Job]]:
        parcels = _Parcels(todo)
        with RayPool(address, most) as pool:
            for number, answer in pool.map_unordered(carried_out, parcels):
                yield from parcels.outcomes(number, answer)

    return carried_out_there


class _Parcels:
    """Parcels of jobs, each made when there is room for it: what came back meanwhile tells how large it should be."""

    def __init__(self, todo: Sequence[Job]) -> None:
        self._todo = todo
        self._sent: list[list[Job]] = []
        self._groups = 1

    def __iter__(self) -> Iterator[Parcel]:
        for _, some in groupby(self._todo, lambda job: _place(job.variant.scenario)):
            jobs = list(some)
            sender, waiting = Sender(jobs[0].variant.scenario), groups(jobs)
            while waiting:
                sent = [job for group in waiting[: self._groups] for job in group]
                del waiting[: self._groups]
                self._sent.append(sent)
                yield sender.parcel(sent)

    def outcomes(self, number: int, answer: Answer) -> Iterator[Outcome[Job]]:
        """Outcomes of the jobs of parcel `number`."""
        if answer.refusal is not None:
            raise SimulationError(answer.refusal)
        jobs = self._sent[number]
        for job, (kind, text) in zip(jobs, answer.results, strict=True):
            yield Outcome(job, result(job, kind, text))
        # At most twice as many as before: the first groups may be the quick ones.
        count = len(groups(jobs))
        fitting = int(PARCEL_S * count / answer.seconds) if answer.seconds else MOST_GROUPS
        self._groups = max(1, min(fitting, 2 * self._groups, MOST_GROUPS))


def _place(scenario: Scenario) -> tuple[str, str, tuple[str, ...]]:
    """Key that tells a scenario from others."""
    return scenario.path, scenario.text, tuple(scenario.sets)


def groups(jobs: list[Job]) -> list[list[Job]]:
    """Jobs that differ in their scheduler only: they share the runs of each path alone, and are sent together."""

    def setting(job: Job) -> tuple[str, tuple[str, ...], str, int]:
        return (job.variant.hash, tuple(job.variant.sets), job.cc[0], job.seed)

    order = {key: at for at, key in enumerate(dict.fromkeys(map(setting, jobs)))}
    return [list(group) for _, group in groupby(sorted(jobs, key=lambda job: order[setting(job)]), setting)]
