"""Runs what a grid asks for and is not kept yet.

With Ray, the jobs that are missing are sent out first, from all scenarios at once, and their rows kept as they come.
What follows is the same in either case: each scenario's comparison is carried out, and takes from its folder what is
there. So rows, tables and reports do not depend on where the work was done.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from weftway import backends, comparison
from weftway._native import SimulationError
from weftway.backends import BACKENDS, Row, Skipped
from weftway.comparison import Comparison, Interrupted, Progress, is_kept
from weftway.interrupts import put_off
from weftway.job import Job
from weftway.parallel import RayPool
from weftway.store import Store

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
    if request.ray is not None:
        dispatch(grid, request, request.ray, tell)
    found: list[Comparison] = []
    for run in grid.runs:
        found.append(_compared(grid, run, request, _Shift(grid, found, tell)))
    if (all_rows := rows(found)) and not grid.is_scenario:
        Store(request.out).finish(all_rows)
    return found


def rows(found: list[Comparison]) -> list[Row]:
    """All rows, in the order of the grid; a job that two of its runs ask for has one."""
    return list({row["key"]: row for one in found for row in one.rows}.values())


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
        return sum(len(one.rows) + len(one.skipped) for one in self.before)


def _jobs(grid: Grid) -> int:
    return sum(len(run.plan.jobs) for run in grid.runs)


def _compared(grid: Grid, run: Run, request: Request, progress: _Shift) -> Comparison:
    folder = grid.folder(run, request.out)
    left_out = _left_out(run, folder) if request.ray is not None else []
    skipped = {one.job.key for one in left_out}
    wanted = replace(run.plan, jobs=[job for job in run.plan.jobs if job.key not in skipped])
    try:
        found = comparison.execute(wanted, request.jobs, folder, progress)
    except Interrupted as error:
        raise Interrupted(progress.done + error.done, _jobs(grid), request.out) from None
    return Comparison(run.plan, found.rows, [*found.skipped, *left_out], found.watched, found.kept)


def _left_out(run: Run, folder: Path) -> list[Skipped[Job]]:
    """The jobs that cannot be sent to a cluster and are not kept from before."""
    kept = Store(folder).recall()
    missing = [job for job in run.plan.jobs if job.backend in BACKENDS and not is_kept(job, kept)]
    reasons = [(job, BACKENDS[job.backend].remote_obstacle) for job in missing]
    return [Skipped(job, reason) for job, reason in reasons if reason is not None]


def _is_sent(job: Job) -> bool:
    return job.backend in BACKENDS and BACKENDS[job.backend].remote_obstacle is None


def dispatch(grid: Grid, request: Request, address: str, tell: Progress) -> None:
    """Has a Ray cluster run the missing jobs that can be sent to one, and keeps their rows."""
    dispatcher = _Dispatcher(grid, request.out)
    tell(dispatcher.kept, _jobs(grid))
    if not dispatcher.has_work:
        return
    try:
        with RayPool(address, request.jobs) as pool:
            for number, answer in pool.map_unordered(carried_out, dispatcher.parcels()):
                dispatcher.take(number, answer)
                tell(dispatcher.kept, _jobs(grid))
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
        """Keeps the rows of parcel `number`. Those beside a failure are kept, too; then it is raised."""
        if answer.refusal is not None:
            raise SimulationError(answer.refusal)
        run, jobs = self._sent[number]
        store = self._stores[run.name]
        for job, (kind, text) in sorted(zip(jobs, answer.told, strict=True), key=lambda done: done[1][0] == "failed"):
            result = backends.result(job, kind, text)
            if not isinstance(result, Skipped):
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
