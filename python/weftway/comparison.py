"""Runs a comparison: all its jobs, on all cores, into one table."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weftway import backends, bounds, caveats, columns, plan, watch
from weftway._native import Scenario, ScenarioError
from weftway.backends import BACKENDS, Result, Row, Skipped, failures_last, result, sim
from weftway.interrupts import put_off
from weftway.job import Job
from weftway.plan import Plan
from weftway.store import Finished, Store, table

if TYPE_CHECKING:
    import polars as pl

POLL_S = 0.1
"""How long the main thread waits for rows at a time: it answers an interrupt within this."""

Progress = Callable[[int, int], None]
"""Told how many jobs are finished, and of how many."""


@dataclass(frozen=True)
class Comparison:
    """What came of a plan."""

    plan: Plan
    rows: list[Row]
    skipped: list[Skipped[Job]] = field(default_factory=list)
    watched: dict[str, str] = field(default_factory=dict)
    """The timelines of runs that cannot be had again, by key, as JSON."""
    kept: Finished = field(default_factory=Finished)
    """What the folder has that keeps the rows, and how many it holds besides."""

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before the numbers: a line per scheduler whose decisions broke a rule."""
        return caveats.faults(self.rows)

    @property
    def frame(self) -> "pl.DataFrame":
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


def single(scenario: Scenario, scheduler: Any, cc: str | None, seed: int | None, backend: str | None) -> Plan:
    """The plan of one run. Several schedulers, controllers or backends are refused: all but the first would be lost."""
    chosen = plan.plan(scenario, scheduler, cc, None if seed is None else [seed], backend)
    named = {
        "scheduler": [] if scheduler is None else [job.scheduler.name for job in chosen.jobs],
        "cc": [] if cc is None else [job.cc[0] for job in chosen.jobs],
        "backend": [] if backend is None else [job.backend for job in chosen.jobs],
    }
    given = {"scheduler": scheduler, "cc": cc, "backend": backend}
    for option, names in named.items():
        if len(several := list(dict.fromkeys(names))) > 1:
            asked = given[option] if isinstance(given[option], str) else ",".join(several)
            raise ScenarioError(
                f"{option}: a run has one, and {len(several)} are named; "
                f"`weft compare {plan.quoted(scenario.path)} --{option} {plan.quoted(asked)}` runs them all"
            )
    return replace(chosen, jobs=chosen.jobs[:1])


def execute(
    wanted: Plan,
    jobs: int | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    bound: bool = False,
) -> Comparison:
    """Runs what is not kept in `out` already, on `jobs` threads. With `bound`, rows of simulated runs also say what
    their links allow at best."""
    store = Store(out) if out else None
    kept = store.recall() if store else {}
    rows = {job.key: _renewed(job, kept[job.key]) for job in wanted.jobs if is_kept(job, kept)}
    skipped: list[Skipped[Job]] = []
    todo = [job for job in wanted.jobs if job.key not in rows]
    watched = _recalled(store, [job for job in wanted.jobs if job.key in rows])
    tell = progress or (lambda done, total: None)
    tell(len(rows), len(wanted.jobs))
    try:
        for job, found in results(todo, jobs or os.cpu_count() or 1, watched):
            with put_off():
                if isinstance(found, Skipped):
                    skipped.append(found)
                else:
                    rows[job.key] = found
                    if store:
                        store.keep(job.key, found, watched.get(job.key))
                tell(len(rows) + len(skipped), len(wanted.jobs))
        bounded = [job for job in wanted.jobs if bound and job.backend == sim.Sim.name]
        limits = bounds.of(bounded, jobs or os.cpu_count() or 1)
    except KeyboardInterrupt:
        raise Interrupted(len(rows), len(wanted.jobs), out) from None
    finally:
        if store:
            store.flush()
    ordered = [{**rows[job.key], **limits.get(job.key, {})} for job in wanted.jobs if job.key in rows]
    finished = store.finish(ordered) if store and ordered else Finished(ordered)
    return Comparison(wanted, finished.rows, skipped, watched, finished)


def _recalled(store: Store | None, kept: list[Job]) -> dict[str, str]:
    """The timelines that are kept, of runs that cannot be had again."""
    told = {job.key: store.timeline(job.key) for job in kept if store and not backends.is_repeatable(job.backend)}
    return {key: text for key, text in told.items() if text is not None}


def results(
    todo: Sequence[Job], threads: int, timelines: dict[str, str] | None = None, singles: bool = True
) -> Iterator[tuple[Job, Result]]:
    """Each job with its row, as they finish, one backend after the other. A failure stops the rest and is raised.

    What runs looked like that cannot be had again is put into `timelines`, by key. Without `singles`, columns that need
    runs over single paths may be null.
    """
    for backend in BACKENDS.values():
        jobs = [job for job in todo if job.backend == backend.name]
        if not jobs:
            continue
        batch = backend.start(jobs, threads, singles)
        try:
            with watch.watched(job.scheduler for job in jobs):
                while batch.remaining:
                    for at, kind, text, timeline in failures_last(batch.wait(POLL_S)):
                        if timeline is not None and timelines is not None:
                            timelines[jobs[at].key] = timeline
                        yield jobs[at], result(jobs[at], kind, text)
        finally:
            batch.cancel()


def record(wanted: Plan, events: Path | None, qlog: Path | None) -> Comparison:
    """Runs the plan's first job; writes its events to a file, its qlog into a folder, or both."""
    job = wanted.jobs[0]
    if job.backend != sim.Sim.name:
        reason = "events and qlog are written of simulated runs only"
        return Comparison(wanted, [], [Skipped(job, reason)])
    found = sim.record(job, events, qlog)
    return Comparison(wanted, [], [found]) if isinstance(found, Skipped) else Comparison(wanted, [found])


def is_kept(job: Job, kept: Mapping[str, Row]) -> bool:
    """Whether the row of a job is there, whole. Other commands may have kept a part of it in the same folder."""
    row = kept.get(job.key)
    return row is not None and row.get(columns.OF_A_COMPARISON) is not None and job.scheduler.source != "unknown"


def _renewed(job: Job, row: Row) -> Row:
    """A kept row under today's command: the same run may be asked for by another path."""
    return columns.of_run(job.variant.columns, job.identity, row)
