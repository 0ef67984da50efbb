"""Runner of jobs that somebody wants, each of which is carried out once, and the rows of those that finish.

What the folder keeps is not run again, what finishes is kept as it comes, and an interrupt loses nothing of it.
`Wanted` is a job and who asked for it; `Workers` carry jobs out: threads, a cluster, or labs of the kernel.

>>> with Runner(None) as runner:  # doctest: +SKIP
...     runs = runner.run([Wanted(job, "a cell") for job in jobs], threads(4))
...     costs = [(wanted.asker, row["fct_ms"]) for wanted, row in runs]
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from weftway.runs.backends import BACKENDS, Failed, NoRow, Row, Skipped, result
from weftway.runs.backends.base import Ordered
from weftway.runs.job import Job
from weftway.runs.rows import KeyedRows
from weftway.runs.store import Store
from weftway.runs.watch import watched
from weftway.terminal.interrupts import put_off

POLL_S = 0.1
"""Time that the main thread waits for rows at once: it answers an interrupt within this."""

J = TypeVar("J", bound=Ordered)
A = TypeVar("A")

Progress = Callable[[int, int], None]
"""Told how many jobs are finished, and of how many."""


def quiet(*_: object) -> None:
    """Tells nobody."""


class Interrupted(KeyboardInterrupt):
    """Runs were stopped. What was finished is kept, if there is a folder to keep it in."""

    def __init__(self, done: int, total: int, out: Path | None, has_out: bool = True) -> None:
        self.done, self.total, self.out = done, total, out
        super().__init__(f"interrupted: {done} of {total} runs finished{self._advice(has_out)}")

    def _advice(self, has_out: bool) -> str:
        if self.out is not None:
            return f" and kept in {self.out}; the same command goes on from there"
        if self.total == 1:
            return ""
        return "; with --out DIR they would be kept" if has_out else "; none is kept"


class Outcome(NamedTuple, Generic[J]):
    """End of a job."""

    job: J
    result: Row | Skipped[J] | Failed[J]
    timeline: str | None = None
    """The run over time, as JSON, where it cannot be had again or was wanted."""


Workers = Callable[[Sequence[J]], Iterator[Outcome[J]]]
"""Carries jobs out, and gives the outcome of each as it comes. A run that fails costs no other one."""


class RowStore(Protocol):
    """Rows that last, by key: in a folder, or in several."""

    def recall(self) -> Mapping[str, Row]: ...
    def keep(self, key: str, row: Row, timeline: str | None = None) -> None: ...
    def flush(self) -> None: ...


@dataclass(frozen=True)
class Wanted(Generic[J, A]):
    """A job, and who asked for it: a cell, a candidate, a setting."""

    job: J
    asker: A


def _as_it_is(_: object, row: Row) -> Row:
    return row


@dataclass(frozen=True)
class RowHandling(Generic[J, A]):
    """Way in which a command keeps its rows."""

    key: Callable[[J], str] = attrgetter("key")
    """Jobs of one key are one run."""
    recalled: Callable[[J, Row], Row | None] = _as_it_is
    """A kept row as the command holds it; `None` if it is of no use, so that the job is run again."""
    held: Callable[[J, Row], Row] = _as_it_is
    """The row of a new run as the command holds it."""
    kept: Callable[[Wanted[J, A], Row], Row] = _as_it_is
    """Row as the folder keeps it, made from the row that the command holds."""
    keeps_timelines: bool = False


@dataclass
class Runs(Generic[J, A]):
    """Rows of what was wanted, and why others have none."""

    wanted: list[Wanted[J, A]]
    key: Callable[[J], str]
    rows: KeyedRows = field(default_factory=KeyedRows)
    """By key, in the order in which they came."""
    skipped: list[Skipped[J]] = field(default_factory=list)
    failed: list[Failed[J]] = field(default_factory=list)
    """In the order of the jobs, not in that in which they ended: the first is the same each time."""
    timelines: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Wanted[J, A], Row]]:
        """Everything wanted that has a row, in order; who asks for the same run gets the same row."""
        keyed = ((wanted, self.key(wanted.job)) for wanted in self.wanted)
        return ((wanted, self.rows[key]) for wanted, key in keyed if key in self.rows)

    @property
    def missing(self) -> Iterator[tuple[Wanted[J, A], NoRow[J]]]:
        """Everything wanted that has no row, with the reason."""
        without = {self.key(no_row.job): no_row for no_row in (*self.skipped, *self.failed)}
        keyed = ((wanted, self.key(wanted.job)) for wanted in self.wanted)
        return ((wanted, without[key]) for wanted, key in keyed if key in without)


class Runner:
    """Runs jobs, in one round or in several, and keeps what finishes. To be used in a `with`.

    `total` is the number of runs of all rounds, where it is known; otherwise that of the rounds so far. `has_out` tells
    if the command has an option for the folder: only then does it advise to name one.
    """

    def __init__(
        self,
        out: Path | None,
        progress: Progress | None = None,
        total: int = 0,
        store: RowStore | None = None,
        has_out: bool = True,
    ) -> None:
        self.out, self.total, self._has_out = out, total, has_out
        self.done = 0
        """Runs that are settled, skipped and failed ones included."""
        self.rows = 0
        """Number of them that have a row."""
        self._tell = progress or quiet
        self._store = store or _folder(out)
        self.kept: Mapping[str, Row] = self._store.recall() if self._store else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._store:
            self._store.flush()
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted(self.rows, self.total, self.out, self._has_out) from None

    def run(
        self,
        wanted: Iterable[Wanted[J, A]],
        workers: Workers[J],
        handling: RowHandling[J, A] = RowHandling(),  # frozen
        on_row: Callable[[Wanted[J, A], Row], None] = quiet,
    ) -> Runs[J, A]:
        """Runs a round: gives the rows that are kept, and those of the jobs that are not."""
        runs = Runs(list(wanted), handling.key)
        askers: dict[str, list[Wanted[J, A]]] = {}
        for request in runs.wanted:
            askers.setdefault(handling.key(request.job), []).append(request)
        self.total = max(self.total, self.done + len(askers))
        for key, (first, *_) in askers.items():
            if key in self.kept and (row := handling.recalled(first.job, self.kept[key])) is not None:
                runs.rows[key] = row
        self._settle(len(runs.rows), len(runs.rows))
        for request, row in runs:
            on_row(request, row)
        todo = [first.job for key, (first, *_) in askers.items() if key not in runs.rows]
        for outcome in workers(todo) if todo else ():
            with put_off():
                self._take(outcome, runs, askers[handling.key(outcome.job)], handling, on_row)
        places = {key: at for at, key in enumerate(askers)}
        runs.failed.sort(key=lambda failed: places[handling.key(failed.job)])
        return runs

    def _take(
        self,
        outcome: Outcome[J],
        runs: Runs[J, A],
        askers: list[Wanted[J, A]],
        handling: RowHandling[J, A],
        on_row: Callable[[Wanted[J, A], Row], None],
    ) -> None:
        key = handling.key(outcome.job)
        timeline = outcome.timeline if handling.keeps_timelines else None
        if timeline is not None:
            runs.timelines[key] = timeline
        if isinstance(outcome.result, Skipped):
            runs.skipped.append(outcome.result)
        elif isinstance(outcome.result, Failed):
            runs.failed.append(outcome.result)
        else:
            runs.rows[key] = row = handling.held(outcome.job, outcome.result)
            for asker in askers:
                on_row(asker, row)
            if self._store:
                self._store.keep(key, handling.kept(askers[0], row), timeline)
        self._settle(1, int(key in runs.rows))

    def _settle(self, count: int, rows: int) -> None:
        self.done, self.rows = self.done + count, self.rows + rows
        self._tell(self.done, self.total)

    def leave_out(self, count: int) -> None:
        """Takes note that so many runs of the total will not take place."""
        self._settle(count, 0)


def _folder(out: Path | None) -> Store | None:
    if out is None:
        return None
    store = Store(out)
    store.make()
    return store


def threads(count: int | None = None, singles: bool = True, watch: Collection[str] = ()) -> Workers[Job]:
    """Threads of this process, one backend after the other; as many as it has cores if not said.

    Of runs with a key in `watch` the timeline comes with the row, where their backend can tell it. Without `singles`,
    columns that need runs over single paths may be null.
    """
    return partial(results, count=count or os.cpu_count() or 1, singles=singles, watch=watch)


def results(todo: Sequence[Job], count: int, singles: bool, watch: Collection[str]) -> Iterator[Outcome[Job]]:
    """Outcomes of jobs, as they finish."""
    for backend in BACKENDS.values():
        jobs = [job for job in todo if job.backend == backend.name]
        if not jobs:
            continue
        of_interest = {at for at, job in enumerate(jobs) if job.key in watch} if watch else set()
        batch = backend.start(jobs, count, singles, of_interest)
        try:
            with watched(job.scheduler for job in jobs):
                while batch.remaining:
                    for at, kind, text, timeline in batch.wait(POLL_S):
                        yield Outcome(jobs[at], result(jobs[at], kind, text), timeline)
        finally:
            batch.cancel()
