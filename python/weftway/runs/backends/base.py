"""Interface of every backend, and the results of a job there."""

import json
from collections.abc import Callable, Generator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from weftway._native import SimulationError

if TYPE_CHECKING:
    from weftway.runs.job import Job
    from weftway.runs.specs import SchedulerSpec

Row = dict[str, Any]


class Ordered(Protocol):
    """A run that was asked for: the native side carries it out, and its row says what it was."""

    @property
    def command(self) -> str:
        """Command that repeats the run."""
        ...

    @property
    def identity(self) -> Row:
        """Columns of its row that come before the results."""
        ...


J = TypeVar("J", bound=Ordered)


@dataclass(frozen=True)
class NoRow(Generic[J]):
    """A job of which there is no row, and why."""

    job: J
    reason: str


@dataclass(frozen=True)
class Skipped(NoRow[J]):
    """A job that its backend cannot run. This is no error."""


@dataclass(frozen=True)
class Failed(NoRow[J]):
    """A job whose run failed; the reason names the place in a file where that is known.

    The other runs go on. Nothing is kept of it, so that the same command tries it again.
    """

    @property
    def error(self) -> SimulationError:
        """Error to raise where nothing goes on without this run."""
        return SimulationError(f"{self.reason}; repeat it with: {self.job.command}")


Result = Row | Skipped["Job"] | Failed["Job"]


NativeResult = tuple[int, str, str, str | None]
"""Result of a run: its index, `row` and the results as JSON, or `skipped` or `failed` and why; and what it looked
like over time, as JSON, where that cannot be had again or was wanted."""


class Batch(Protocol):
    """Runs that have begun."""

    @property
    def remaining(self) -> int:
        """Number of runs that have not been given out as finished."""
        ...

    def wait(self, seconds: float) -> Sequence[NativeResult]:
        """Runs that finished since the last call. It waits about so long for the first."""
        ...

    def cancel(self) -> None:
        """Ends what has not finished."""
        ...


class Backend(Protocol):
    """Somewhere a job can run. All that differs between one place and another is asked here."""

    name: str
    summary: str
    """A line for `weft list`."""
    is_repeatable: bool
    """True if a job gives the same row every time. Its timeline is then made when it is wanted, and means are shown;
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

    @property
    def start(self) -> Callable[[Sequence["Job"], int, bool, Set[int]], Batch]:
        """Starts jobs on so many threads. If the third is false, columns about single paths may be null. The indices
        are of jobs whose timeline is wanted with the row, where the backend can tell it."""
        ...

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        """Timeline of a job, as JSON; `kept` is what was kept of it, if anything was."""
        ...


def result(job: J, kind: str, text: str) -> Row | Skipped[J] | Failed[J]:
    """Row of a job, or why there is none, from the native side's `kind` and `text`: the row's JSON, or the reason."""
    if kind == "failed":
        return Failed(job, text)
    return Skipped(job, text) if kind == "skipped" else {**job.identity, **json.loads(text)}


class Generated:
    """A batch of what a generator tells, run by run."""

    def __init__(self, results: Generator[NativeResult, None, None], runs: int) -> None:
        self.remaining = runs
        self._results = results

    def wait(self, seconds: float) -> Sequence[NativeResult]:
        self.remaining -= 1
        return [next(self._results)]

    def cancel(self) -> None:
        self._results.close()
