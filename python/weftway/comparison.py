"""Runs a comparison: all its jobs, on all cores, into one table."""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from weftway import _native, plan, report, seeds
from weftway._native import Batch, Scenario, ScenarioError, SimulationError
from weftway.plan import PLANNED, Job, Plan
from weftway.scenario import document, load
from weftway.store import Row, Store, table, whole

FLUSH_S = 2.0
"""How often finished rows are written to the folder of `out`: what a power cut can cost."""

LABS_PER_THREAD = 6
"""A lab waits most of the time: so many run beside one another for each thread that is asked for."""

POLL_S = 0.1
"""How long the main thread waits for rows at a time: it answers an interrupt within this."""

Progress = Callable[[int, int], None]
"""Told how many jobs are finished, and of how many."""


@dataclass(frozen=True)
class Skipped:
    """A job that its backend cannot run, and why. This is no error."""

    job: Job
    reason: str


@dataclass(frozen=True)
class Comparison:
    """What came of a plan."""

    plan: Plan
    rows: list[Row]
    skipped: list[Skipped] = field(default_factory=list)
    watched: dict[str, str] = field(default_factory=dict)
    """The timelines of the kernel's runs, by key, as JSON."""

    @property
    def frame(self) -> pl.DataFrame:
        """The rows as a table, in the order of the plan."""
        return table(self.rows)


class Interrupted(KeyboardInterrupt):
    """The comparison was stopped. What was finished is kept, if there is a folder to keep it in."""

    def __init__(self, done: int, total: int, out: Path | None) -> None:
        self.done, self.total, self.out = done, total, out
        super().__init__(f"interrupted: {done} of {total} runs finished{self._advice()}")

    def _advice(self) -> str:
        if self.out is None:
            return "" if self.total == 1 else "; with --out DIR they would be kept"
        return f" and kept in {self.out}; the same command goes on from there"


def compare(
    scenario: Scenario | str | os.PathLike[str],
    *,
    scheduler: Any = None,
    cc: str | Iterable[str] | None = None,
    seeds: seeds.Seeds = None,
    set: Iterable[str] = (),
    backend: str | Iterable[str] | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """One row per scheduler, controller, variant and seed of a scenario.

    A scheduler is a name of the registry with its switches (`"ecf:beta=0.5"`), `"all"`, a class
    with a method `select(self, cx)`, or a list of these. What is not given is the scenario's own.
    The rows are the same, byte for byte, whatever `jobs` is. With `out`, rows are kept there as
    they finish, and a later call with the same arguments goes on from them.
    """
    loaded = load(scenario, set)
    wanted = plan.plan(loaded, scheduler, cc, seeds, backend)
    found = execute(wanted, jobs, None if out is None else Path(out), progress)
    for reason in dict.fromkeys(f"skipped {one.job.scheduler.name}: {one.reason}" for one in found.skipped):
        warnings.warn(reason, stacklevel=2)
    return found.frame


def run(scenario: Scenario | str | os.PathLike[str], *, set: Iterable[str] = (), **choice: Any) -> Row:
    """The row of a single run: the first scheduler, controller, variant and seed that are named."""
    found = execute(first(plan.plan(load(scenario, set), **choice)), 1)
    if found.skipped:
        raise SimulationError(found.skipped[0].reason)
    return found.rows[0]


def first(wanted: Plan) -> Plan:
    """The plan of the first job alone."""
    return Plan(wanted.scenario, wanted.jobs[:1])


def execute(
    wanted: Plan, jobs: int | None = None, out: Path | None = None, progress: Progress | None = None
) -> Comparison:
    """Runs what is not kept in `out` already, on `jobs` threads."""
    store = Store(out) if out else None
    kept = store.recall() if store else {}
    rows = {job.key: _renewed(job, kept[job.key]) for job in wanted.jobs if job.key in kept and _resumable(job)}
    skipped: list[Skipped] = []
    todo = [job for job in wanted.jobs if job.key not in rows]
    watched = _recalled(store, [job for job in wanted.jobs if job.key in rows])
    tell = progress or (lambda done, total: None)
    tell(len(rows), len(wanted.jobs))
    flushed = time.monotonic()
    try:
        for job, result in results(todo, jobs or os.cpu_count() or 1, watched):
            if isinstance(result, Skipped):
                skipped.append(result)
            else:
                rows[job.key] = result
                if store:
                    store.keep(job.key, result)
                    if job.key in watched:
                        store.keep_timeline(job.key, watched[job.key])
            if store and time.monotonic() - flushed > FLUSH_S:
                store.flush()
                flushed = time.monotonic()
            tell(len(rows) + len(skipped), len(wanted.jobs))
    except KeyboardInterrupt:
        raise Interrupted(len(rows), len(wanted.jobs), out) from None
    finally:
        if store:
            store.flush()
    ordered = [rows[job.key] for job in wanted.jobs if job.key in rows]
    if store and ordered:
        store.finish(ordered)
    return Comparison(wanted, ordered, skipped, watched)


def _recalled(store: Store | None, kept: list[Job]) -> dict[str, str]:
    told = {job.key: store.timeline(job.key) for job in kept if store and job.backend == "kernel"}
    return {key: text for key, text in told.items() if text is not None}


def results(
    todo: list[Job], threads: int, watched: dict[str, str] | None = None
) -> Iterator[tuple[Job, Row | Skipped]]:
    """Each job with its row, as they finish. A failure stops the rest and is raised.

    Schedulers of the registry run on native threads; classes in Python take turns on this one. The kernel runs last:
    a busy machine would make its links late. What its runs looked like is put into `watched`.
    """
    for job in todo:
        if job.backend in PLANNED:
            yield job, Skipped(job, PLANNED[job.backend])
    yield from _simulated([job for job in todo if job.backend == "sim"], threads)
    yield from _of_the_kernel(
        [job for job in todo if job.backend == "kernel"], threads, {} if watched is None else watched
    )


def _of_the_kernel(todo: list[Job], threads: int, watched: dict[str, str]) -> Iterator[tuple[Job, Row | Skipped]]:
    if not hasattr(_native, "KernelBatch"):
        yield from ((job, Skipped(job, f"there is no Linux kernel here; this is {sys.platform}")) for job in todo)
        return
    batch = _native.KernelBatch([(job.variant, job.cc[0], job.seed) for job in todo], LABS_PER_THREAD * threads)
    try:
        while batch.remaining:
            for index, kind, text, timeline in sorted(batch.wait(POLL_S), key=lambda done: done[1] == "failed"):
                job = todo[index]
                if timeline is not None:
                    watched[job.key] = timeline
                yield job, outcome(job, kind, text)
    finally:
        batch.cancel()


def _simulated(todo: list[Job], threads: int) -> Iterator[tuple[Job, Row | Skipped]]:
    native = [job for job in todo if job.scheduler.rule is None]
    batch = Batch([order(job) for job in native], threads)
    try:
        for job in todo:
            if job.scheduler.rule is not None:
                with _staying(job):
                    told = batch.run(order(job))
                yield job, outcome(job, *told)
                yield from _finished(batch, native, 0.0)
        while batch.remaining:
            yield from _finished(batch, native, POLL_S)
    finally:
        batch.cancel()


@contextmanager
def _writing(*files: Path | None) -> Iterator[None]:
    """The native side says why it cannot write, and not where."""
    try:
        yield
    except OSError as error:
        raise ScenarioError(f"{' or '.join(str(file) for file in files if file)}: {error}") from error


@contextmanager
def _staying(job: Job) -> Iterator[None]:
    """A class in Python may not end the program."""
    try:
        yield
    except SystemExit as error:
        raise SimulationError(f"scheduler `{job.scheduler.name}` ended the program: SystemExit: {error}") from error


def record(wanted: Plan, events: Path | None, qlog: Path | None) -> Comparison:
    """Runs the plan's first job; writes its events to a file, its qlog into a folder, or both."""
    job = wanted.jobs[0]
    details = [(name, str(value)) for name, value in job.head.items() if value is not None]
    log = qlog and qlog / f"{job.key}.sqlog"
    with _staying(job), _writing(events, qlog):
        told = _native.record(order(job), details, str(events) if events else None, str(log) if log else None)
    found = outcome(job, *told)
    return Comparison(wanted, [], [found]) if isinstance(found, Skipped) else Comparison(wanted, [found])


MOST_TIMELINES = 16
"""A page with more runs to look at is slow to make and to load."""


def write_report(found: Comparison, folder: Path, formats: Sequence[str] = ()) -> Path:
    """Writes `report.html`, and every figure into `figures/` in each of `formats`."""
    runs = timelines(found)
    about = document(found.plan.scenario)
    with whole(folder / "report.html") as half:
        report.write(half, found.frame, runs, about)
    if formats:
        report.figures(found.frame, runs, about, folder / "figures", formats)
    return folder / "report.html"


def timelines(found: Comparison) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What each scheduler's first run under each controller and backend looked like over time.

    With more than so many, one run of each scheduler must do.
    """
    ran = {row["key"] for row in found.rows}
    firsts: dict[tuple[str, str, str], Job] = {}
    for job in found.plan.jobs:
        if job.key in ran:
            firsts.setdefault((job.scheduler.name, job.cc[0], job.backend), job)
    if len(firsts) > MOST_TIMELINES:
        ofs = {(name, backend): (name, cc, backend) for name, cc, backend in reversed(firsts)}
        firsts = {key: job for key, job in firsts.items() if ofs[key[0], key[2]] == key}
    several = len({job.backend for job in found.plan.jobs if job.key in ran}) > 1
    told = {key: _timeline(job, found.watched, several) for key, job in firsts.items()}
    return {key: timeline for key, timeline in told.items() if timeline is not None}


def _timeline(job: Job, watched: dict[str, str], several: bool) -> dict[str, Any] | None:
    """A simulated run is watched again; one of the kernel was kept, or is not to be had."""
    text = watched.get(job.key) if job.backend == "kernel" else _native.timeline(order(job))
    if text is None:
        return None
    choices = {**job.variant.values, **({"backend": job.backend} if several else {})}
    setting = ", ".join(f"{name} = {value}" for name, value in choices.items())
    whose = {"scheduler": job.scheduler.name, "cc": job.cc[0], "seed": job.seed, "setting": setting}
    return {**whose, **json.loads(text)}


def order(job: Job) -> "_native.Order":
    """A job as the native side takes it."""
    return (job.variant, job.scheduler.name, job.cc[0], job.seed, job.scheduler.rule)


def _finished(batch: Batch, native: list[Job], seconds: float) -> Iterator[tuple[Job, Row | Skipped]]:
    """What finished within `seconds`; failures last, so that they cost no row."""
    for index, kind, text in sorted(batch.wait(seconds), key=lambda done: done[1] == "failed"):
        yield native[index], outcome(native[index], kind, text)


def outcome(job: Job, kind: str, text: str) -> Row | Skipped:
    """What the native side says of a job: `row` and its JSON, or `skipped` or `failed` and why."""
    if kind == "failed":
        raise SimulationError(f"{text}\nrepeat it with: {job.command}")
    return Skipped(job, text) if kind == "skipped" else {"key": job.key, **job.head, **json.loads(text)}


def _resumable(job: Job) -> bool:
    return job.scheduler.source != "unknown"


def _renewed(job: Job, row: Row) -> Row:
    """A kept row under today's command: the same run may be asked for by another path."""
    return {**row, "command": job.command}
