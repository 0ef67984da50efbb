"""Backend `sim`: the deterministic simulator."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from weftway import _native
from weftway._native import Batch, ScenarioError, SimulationError
from weftway.specs import SchedulerSpec
from weftway.watch import watched

from .base import Result, failures_last, result

if TYPE_CHECKING:
    from weftway.plan import Job

POLL_S = 0.1
"""How long the main thread waits for rows at a time: it answers an interrupt within this."""


class Sim:
    """The simulator. Schedulers of the registry run on native threads, classes in Python on this one, in turn."""

    name = "sim"
    summary = "the deterministic simulator"
    is_repeatable = True
    remote_obstacle: str | None = None

    def code(self) -> str:
        return _native.CODE

    def obstacle(self) -> str | None:
        return None

    def schedulers(self, named: list[SchedulerSpec]) -> list[SchedulerSpec]:
        return named

    def run(
        self, jobs: Sequence["Job"], threads: int, timelines: dict[str, str], singles: bool = True
    ) -> Iterator[tuple["Job", Result]]:
        """Without `singles`, the columns that need runs over single paths are null."""
        native = [job for job in jobs if job.scheduler.rule is None]
        batch = Batch([order(job) for job in native], threads, singles)
        try:
            for job in jobs:
                if job.scheduler.rule is not None:
                    with _staying(job):
                        told = batch.run(order(job))
                    yield job, result(job, *told)
                    yield from _finished(batch, native, 0.0)
            while batch.remaining:
                yield from _finished(batch, native, POLL_S)
        finally:
            batch.cancel()

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        return _native.timeline(order(job))


def _finished(batch: Batch, native: list["Job"], seconds: float) -> Iterator[tuple["Job", Result]]:
    for index, kind, text in failures_last(batch.wait(seconds)):
        yield native[index], result(native[index], kind, text)


def order(job: "Job") -> "_native.Order":
    """A job as the native side takes it."""
    return (job.variant, job.scheduler.name, job.cc[0], job.seed, job.scheduler.rule)


def record(job: "Job", events: Path | None, qlog: Path | None) -> Result:
    """Runs a job; writes its events to a file, its qlog into a folder, or both."""
    details = [(name, str(value)) for name, value in job.head.items() if value is not None]
    log = qlog and qlog / f"{job.key}.sqlog"
    with _staying(job), _writing(events, qlog):
        told = _native.record(order(job), details, str(events) if events else None, str(log) if log else None)
    return result(job, *told)


@contextmanager
def _writing(*files: Path | None) -> Iterator[None]:
    """The native side says why it cannot write, and not where."""
    try:
        yield
    except OSError as error:
        raise ScenarioError(f"{' or '.join(str(file) for file in files if file)}: {error}") from error


@contextmanager
def _staying(job: "Job") -> Iterator[None]:
    """A class in Python may not end the program, and is named where it does not answer."""
    watching = nullcontext() if job.scheduler.rule is None else watched(job.scheduler.name, job.scheduler.rule)
    try:
        with watching:
            yield
    except SystemExit as error:
        raise SimulationError(f"scheduler `{job.scheduler.name}` ended the program: SystemExit: {error}") from error
