"""Backend `sim`: the deterministic simulator."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from weftway import _native
from weftway.files.os_error import reason
from weftway.runs.specs import SchedulerSpec
from weftway.runs.watch import watched

from .base import Failed, Row, Skipped, result

if TYPE_CHECKING:
    from weftway.runs.job import Job


class Sim:
    """The simulator. Schedulers of the registry run on native threads, classes in Python on this one, in turn."""

    name = "sim"
    summary = "the deterministic simulator"
    is_repeatable = True
    remote_obstacle: str | None = None
    start = _native.Batch

    def code(self) -> str:
        return _native.CODE

    def obstacle(self) -> str | None:
        return None

    def schedulers(self, named: list[SchedulerSpec]) -> list[SchedulerSpec]:
        return named

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        return _native.timeline(job) if kept is None else kept


def record(job: "Job", events: Path | None, qlog: Path | None) -> "Row | Skipped[Job]":
    """Runs a job; writes its events to a file, its qlog into a folder, or both. A failure is raised."""
    details = [(name, str(value)) for name, value in job.head.items() if value is not None]
    log = qlog and qlog / f"{job.key}.sqlog"
    with watched([job.scheduler]), _writing(events, qlog):
        kind, text = _native.record(job, details, str(events) if events else None, str(log) if log else None)
    outcome = result(job, kind, text)
    if isinstance(outcome, Failed):
        raise outcome.error
    return outcome


@contextmanager
def _writing(*files: Path | None) -> Iterator[None]:
    """The native side says why it cannot write, and not where."""
    try:
        yield
    except OSError as error:
        number, why = reason(error)
        raise OSError(number, why, " or ".join(str(file) for file in files if file)) from error
