"""Runs what a grid asks for and is not kept yet.

With Ray, the jobs that are missing are sent out first, from all scenarios at once, and their rows kept as they come.
What follows is the same in either case: each scenario's comparison is carried out, and takes from its folder what is
there. So rows, tables and reports do not depend on where the work was done.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from weftway import report
from weftway._native import SimulationError
from weftway.run import backends, caveats, comparison
from weftway.run.backends import BACKENDS, Failed, Row, Skipped
from weftway.run.comparison import Comparison, Interrupted, Progress, is_kept
from weftway.run.job import Job
from weftway.run.parallel import RayPool
from weftway.run.rows import Columns, FrameRows
from weftway.run.store import Store
from weftway.terminal.interrupts import put_off

from .grid import Grid, Run
from .parcel import Answer, Parcel, Sender, carried_out

PARCEL_S = 3.0
"""How long a parcel should take: long against sending it and reading its scenario, short enough to lose."""

MOST_GROUPS = 200
"""In one parcel. With more, an interrupt would lose too much where the first jobs are quick and the next are not."""


@dataclass(frozen=True)
class Request:
    """Where a sweep runs and where its results go."""

    out: Path
    jobs: int | None = None
    """Threads, or with Ray parcels, at work at a time; all there is room for if not given."""
    ray: str | None = None
    """The cluster: `local`, `auto`, `host:port`, `ray://host:port`."""


def execute(grid: Grid, request: Request, progress: Progress | None = None) -> list[Comparison]:
    """Runs what is not kept in `request.out`; a comparison for each run of the grid, in its order."""
    tell = progress or (lambda done, total: None)
    failed = [] if request.ray is None else dispatch(grid, request, request.ray, tell)
    found: list[Comparison] = []
    for run in grid.runs:
        found.append(_compared(grid, run, request, _Shift(grid, found, tell), failed))
    if not grid.is_scenario and any(one.rows for one in found) and not _stands(found, Store(request.out)):
        Store(request.out).finish(rows(found))
    return found


def _stands(found: list[Comparison], store: Store) -> bool:
    """Whether the table of the whole sweep has these rows already: nothing was run, and all their columns are there."""
    frames = [one.rows.frame for one in found if isinstance(one.rows, FrameRows)]
    if len(frames) < len(found):
        return False
    keys = dict.fromkeys(key for frame in frames for key in frame["key"])
    whole = store.finished(list(keys))
    return whole is not None and {name for frame in frames for name in frame.columns} <= set(whole.frame.columns)


def rows(found: list[Comparison]) -> list[Row]:
    """All rows, in the order of the grid; a job that two of its runs ask for has one."""
    return list({row["key"]: row for one in found for row in one.rows}.values())


def warnings(found: list[Comparison]) -> list[str]:
    """Lines that a reader needs before the numbers of a sweep: failed runs, and schedulers that broke a rule."""
    told: dict[str, tuple[str, int | None, int | None]] = {}
    for table in (Columns(one.rows) for one in found):
        runs = zip(table["scheduler"], table["faults"], table["decisions"], strict=True)
        told.update(zip(table["key"], runs, strict=True))
    failed = {run.job.key: run for one in found for run in one.failed}
    return [*caveats.failures(list(failed.values())), *caveats.counted(told.values())]


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
        return sum(len(one.rows) + len(one.skipped) + len(one.failed) for one in self.before)


def _jobs(grid: Grid) -> int:
    return sum(len(run.plan.jobs) for run in grid.runs)


def _compared(grid: Grid, run: Run, request: Request, progress: _Shift, failed: Sequence[Failed[Job]]) -> Comparison:
    """The comparison of a run of the grid; `failed` are jobs that failed on the cluster."""
    folder = grid.folder(run, request.out)
    left_out = _left_out(run, folder) if request.ray is not None else []
    own = {job.key for job in run.plan.jobs}
    there = [one for one in failed if one.job.key in own]
    settled = {job.key for job in (*(one.job for one in left_out), *(one.job for one in there))}
    wanted = replace(run.plan, jobs=[job for job in run.plan.jobs if job.key not in settled])
    try:
        share = report.MOST_TIMELINES // len(grid.runs)  # they are all held until the pages are written
        found = comparison.execute(wanted, request.jobs, folder, progress, watched_runs=share)
    except Interrupted as error:
        raise Interrupted(progress.done + error.done, _jobs(grid), request.out) from None
    skipped, failures = [*found.skipped, *left_out], [*found.failed, *there]
    return Comparison(run.plan, found.rows, skipped, failures, found.watched, found.kept)


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
    dispatcher = _Dispatcher(grid, request.out)
    tell(dispatcher.kept, _jobs(grid))
    if not dispatcher.has_work:
        return []
    try:
        with RayPool(address, request.jobs) as pool:
            for number, answer in pool.map_unordered(carried_out, dispatcher.parcels()):
                dispatcher.take(number, answer)
                tell(dispatcher.kept + len(dispatcher.failed), _jobs(grid))
        return dispatcher.failed
    except KeyboardInterrupt:
        raise Interrupted(dispatcher.kept, _jobs(grid), request.out) from None
    finally:
        dispatcher.flush()


class _Dispatcher:
    """Sends parcels, and keeps what comes back."""

    def __init__(self, grid: Grid, out: Path) -> None:
        self._stores = {run.name: Store(grid.folder(run, out)) for run in grid.runs}
        self._todo: list[tuple[Run, list[Job]]] = []
        self.kept = 0
        """Rows, those from before included."""
        self.failed: list[Failed[Job]] = []
        """Jobs that failed on their node."""
        for run in grid.runs:
            recalled = self._stores[run.name].recall()
            self.kept += sum(is_kept(job, recalled) for job in run.plan.jobs)
            missing = [job for job in run.plan.jobs if _is_sent(job) and not is_kept(job, recalled)]
            if missing:
                self._todo.append((run, missing))
        self._sent: list[tuple[Run, list[Job]]] = []
        self._groups = 1

    @property
    def has_work(self) -> bool:
        """Whether there is something to send."""
        return bool(self._todo)

    def parcels(self) -> Iterator[Parcel]:
        """What is to be sent, made when there is room for it: what came back meanwhile tells how large it should be."""
        for run, missing in self._todo:
            sender, waiting = Sender(run.plan.scenario), groups(missing)
            while waiting:
                jobs = [job for group in waiting[: self._groups] for job in group]
                del waiting[: self._groups]
                self._sent.append((run, jobs))
                yield sender.parcel(jobs)

    def take(self, number: int, answer: Answer) -> None:
        """Keeps the rows of parcel `number`, those beside a failure, too."""
        if answer.refusal is not None:
            raise SimulationError(answer.refusal)
        run, jobs = self._sent[number]
        store = self._stores[run.name]
        for job, (kind, text) in zip(jobs, answer.told, strict=True):
            result = backends.result(job, kind, text)
            if isinstance(result, Failed):
                self.failed.append(result)
            elif not isinstance(result, Skipped):
                with put_off():
                    store.keep(job.key, result)
                    self.kept += 1
        self._pace(len(groups(jobs)), answer.seconds)

    def _pace(self, count: int, seconds: float) -> None:
        # At most twice as many as before: the first groups may be the quick ones.
        fitting = int(PARCEL_S * count / seconds) if seconds else MOST_GROUPS
        self._groups = max(1, min(fitting, 2 * self._groups, MOST_GROUPS))

    def flush(self) -> None:
        """Makes what came back last."""
        for store in self._stores.values():
            store.flush()


def groups(jobs: list[Job]) -> list[list[Job]]:
    """Jobs that differ in their scheduler only: they share the runs of each path alone, and are sent together."""

    def setting(job: Job) -> tuple[str, tuple[str, ...], str, int]:
        return (job.variant.hash, tuple(job.variant.sets), job.cc[0], job.seed)

    order = {key: at for at, key in enumerate(dict.fromkeys(map(setting, jobs)))}
    return [list(group) for _, group in groupby(sorted(jobs, key=lambda job: order[setting(job)]), setting)]
