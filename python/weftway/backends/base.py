"""What every backend offers, and what becomes of a job there."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from weftway._native import SimulationError

if TYPE_CHECKING:
    from weftway.plan import Job
    from weftway.specs import SchedulerSpec

Row = dict[str, Any]


class Ordered(Protocol):
    """A run that was asked for: the native side carries it out, and its row says what it was."""

    @property
    def command(self) -> str:
        """What repeats it."""
        ...

    @property
    def identity(self) -> Row:
        """What its row says before the results."""
        ...


J = TypeVar("J", bound=Ordered)


@dataclass(frozen=True)
class Skipped(Generic[J]):
    """A job that its backend cannot run, and why. This is no error."""

    job: J
    reason: str


Result = Row | Skipped["Job"]


class Backend(Protocol):
    """Somewhere a job can run. All that differs between one place and another is asked here."""

    name: str
    summary: str
    """A line for `weft list`."""
    is_repeatable: bool
    """Whether a job gives the same row every time. Its timeline is then made when it is wanted, and means are shown;
    otherwise timelines are kept with the rows, and medians are shown."""
    remote_obstacle: str | None
    """Why its jobs cannot be sent to another machine, or `None`."""

    def code(self) -> str:
        """The identity of the code that decides a row."""
        ...

    def obstacle(self) -> str | None:
        """Why nothing can run here on this machine, and what would help; `None` if it can."""
        ...

    def schedulers(self, named: list["SchedulerSpec"]) -> list["SchedulerSpec"]:
        """Which schedulers run here where these are named."""
        ...

    def run(self, jobs: Sequence["Job"], threads: int, timelines: dict[str, str]) -> Iterator[tuple["Job", Result]]:
        """Each job with its row, as they finish. A failure stops the rest and is raised.

        Where runs are not repeatable, `timelines` receives what they looked like, as JSON by the key of the job.
        """
        ...

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        """What a job looked like over time, as JSON; `kept` is what was kept of it, if anything was."""
        ...


def result(job: J, kind: str, text: str) -> Row | Skipped[J]:
    """What the native side says of a job: `row` and its JSON, or `skipped` or `failed` and why."""
    if kind == "failed":
        raise SimulationError(f"{text}\nrepeat it with: {job.command}")
    return Skipped(job, text) if kind == "skipped" else {**job.identity, **json.loads(text)}


def failures_last(done: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Finished jobs, each an index and its kind, with failures at the end: so they cost no finished row."""
    return sorted(done, key=lambda one: one[1] == "failed")
