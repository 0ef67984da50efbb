"""Runs a comparison: all its jobs, on all cores, into one table."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from weftway._native import Scenario, ScenarioError
from weftway.run import backends, bounds, caveats, columns, perfetto, plan, specs
from weftway.run.backends import BACKENDS, Failed, Result, Row, Skipped, result, sim
from weftway.run.job import Job
from weftway.run.plan import Plan
from weftway.run.rows import FrameRows, column
from weftway.run.store import Finished, Store, table
from weftway.run.watch import watched
from weftway.terminal.interrupts import break_waits_off, put_off

if TYPE_CHECKING:
    import polars as pl

POLL_S = 0.1
"""How long the main thread waits for rows at a time: it answers an interrupt within this."""

Progress = Callable[[int, int], None]
"""Told how many jobs are finished, and of how many."""

Heard = Callable[[Job, Row], None]
"""Told each row as it comes."""


@dataclass(frozen=True)
class Comparison:
    """What came of a plan."""

    plan: Plan
    rows: Sequence[Row]
    skipped: list[Skipped[Job]] = field(default_factory=list)
    failed: list[Failed[Job]] = field(default_factory=list)
    """Runs that failed. The others are as good as without them."""
    watched: dict[str, str] = field(default_factory=dict)
    """Timelines, by key, as JSON: of runs that cannot be had again, and of those that were wanted with their rows."""
    kept: Finished = field(default_factory=Finished)
    """What the folder has that keeps the rows, and how many it holds besides."""

    @property
    def warnings(self) -> list[str]:
        """Lines that a reader needs before the numbers: failed runs, that none came to its end, and schedulers whose
        decisions broke a rule."""
        return [*caveats.failures(self.failed), *caveats.unfinished(self.rows), *caveats.faults(self.rows)]

    def complete(self) -> "Comparison":
        """The comparison, where no run failed; otherwise the first failure is raised. What finished is kept."""
        if self.failed:
            raise self.failed[0].error
        return self

    @property
    def frame(self) -> "pl.DataFrame":
        """The rows as a table, in the order of the plan."""
        return self.rows.frame if isinstance(self.rows, FrameRows) else table(self.rows)

    @cached_property
    def about(self) -> dict[str, Any]:
        """What a reader of the rows needs: the scenario's keys, what was named, and which rows are not shown."""
        return {**self.plan.document, "others": self.kept.sentence}

    @cached_property
    def made(self) -> dict[str, Any]:
        """What readers of the rows have made of them, so that it is made once."""
        return {}


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
    watched_runs: int = 0,
    heard: Heard | None = None,
) -> Comparison:
    """Runs what is not kept in `out` already, on `jobs` threads. With `bound`, rows of simulated runs also say what
    their links allow at best. Of up to `watched_runs` runs their timelines come with the rows."""
    if jobs is not None:
        plan.check_whole("jobs", jobs, otherwise=", the threads, or None for all cores")
    store = Store(out) if out else None
    if store and not bound and (nothing_new := _kept_whole(store, wanted)):
        if progress:
            progress(len(wanted.jobs), len(wanted.jobs))
        return nothing_new
    if store:
        store.make()
    kept = store.recall() if store else {}
    rows = {job.key: _renewed(job, kept[job.key]) for job in wanted.jobs if is_kept(job, kept)}
    skipped: list[Skipped[Job]] = []
    failed: list[Failed[Job]] = []
    todo = [job for job in wanted.jobs if job.key not in rows]
    timelines = _recalled(store, [job for job in wanted.jobs if job.key in rows])
    tell = progress or (lambda done, total: None)
    tell(len(rows), len(wanted.jobs))
    for job in wanted.jobs if heard else ():
        if heard and job.key in rows:
            heard(job, rows[job.key])
    try:
        watch, threads = worth_watching(todo, watched_runs), jobs or os.cpu_count() or 1
        for job, found in results(todo, threads, timelines, watch=watch):
            with put_off():
                if isinstance(found, Skipped):
                    skipped.append(found)
                elif isinstance(found, Failed):
                    failed.append(found)
                else:
                    rows[job.key] = found
                    if heard:
                        heard(job, found)
                    if store:
                        store.keep(job.key, found, None if _repeats(job) else timelines.get(job.key))
                tell(len(rows) + len(skipped) + len(failed), len(wanted.jobs))
        bounded = [job for job in wanted.jobs if bound and job.backend == sim.Sim.name]
        limits = bounds.of(bounded, jobs or os.cpu_count() or 1)
    except KeyboardInterrupt:
        raise Interrupted(len(rows), len(wanted.jobs), out) from None
    finally:
        if store:
            store.flush()
    ordered = [{**rows[job.key], **limits.get(job.key, {})} for job in wanted.jobs if job.key in rows]
    finished = store.finish(ordered) if store and ordered else Finished(ordered)
    return Comparison(wanted, finished.rows, skipped, in_order(failed, wanted.jobs), timelines, finished)


def in_order(failed: Iterable[Failed[Job]], jobs: Iterable[Job]) -> list[Failed[Job]]:
    """Failures in the order of their jobs, not in that in which they ended: the first is the same each time."""
    places = {job.key: at for at, job in enumerate(jobs)}
    return sorted(failed, key=lambda one: places[one.job.key])


def _kept_whole(store: Store, wanted: Plan) -> Comparison | None:
    """The comparison, where the folder's table is already what it would become."""
    jobs = wanted.jobs
    if any(job.scheduler.source == specs.UNKNOWN for job in jobs):
        return None
    found = store.finished([job.key for job in jobs])
    if found is None or None in column(found.frame, columns.OF_A_COMPARISON):
        return None
    if column(found.frame, "command") != [job.command for job in jobs]:
        return None  # the same runs by another path

    def row(at: int, kept: Row) -> Row:
        return _renewed(jobs[at], kept)

    variants = {id(job.variant): job.variant for job in jobs}.values()
    own = {"key", *jobs[0].head, *(name for one in variants for name in (*one.values, *one.columns))}
    told = [name for name in found.frame.columns if name in own or found.frame[name].null_count() < len(jobs)]
    rows = FrameRows(found.frame.select(told), row)
    return Comparison(wanted, rows, watched=_recalled(store, jobs), kept=Finished(rows, found.others, found.older))


def worth_watching(todo: Sequence[Job], most: int) -> set[str]:
    """The keys of runs that a report is most likely to show over time: the first seed of every line, and the others
    where there are no more than `most` in all."""
    lines: dict[tuple[Any, ...], list[str]] = {}
    for job in todo if most else ():
        line = (job.variant.hash, *job.variant.values.values(), job.backend, job.cc, job.scheduler)
        lines.setdefault(line, []).append(job.key)
    first = [keys[0] for keys in lines.values()]
    rest = [key for keys in lines.values() for key in keys[1:]]
    return set([*first, *(rest if len(first) + len(rest) <= most else ())][:most])


def _repeats(job: Job) -> bool:
    return backends.is_repeatable(job.backend)


def _recalled(store: Store | None, kept: list[Job]) -> dict[str, str]:
    """The timelines that are kept, of runs that cannot be had again."""
    told = {job.key: store.timeline(job.key) for job in kept if store and not _repeats(job)}
    return {key: text for key, text in told.items() if text is not None}


def results(
    todo: Sequence[Job],
    threads: int,
    timelines: dict[str, str] | None = None,
    singles: bool = True,
    watch: Collection[str] = (),
) -> Iterator[tuple[Job, Result]]:
    """Each job with its row, as they finish, one backend after the other. A run that fails costs no other one.

    What runs looked like that cannot be had again is put into `timelines`, by key, and that of the runs with a key in
    `watch` where their backend can tell it. Without `singles`, columns that need runs over single paths may be null.
    """
    for backend in BACKENDS.values():
        jobs = [job for job in todo if job.backend == backend.name]
        if not jobs:
            continue
        of_interest = {at for at, job in enumerate(jobs) if job.key in watch} if watch else set()
        batch = backend.start(jobs, threads, singles, of_interest)
        try:
            with watched(job.scheduler for job in jobs):
                while batch.remaining:
                    for at, kind, text, timeline in batch.wait(POLL_S):
                        if timeline is not None and timelines is not None:
                            timelines[jobs[at].key] = timeline
                        yield jobs[at], result(jobs[at], kind, text)
        finally:
            batch.cancel()


def record(wanted: Plan, events: Path | None, qlog: Path | None, trace: Path | None = None) -> Comparison:
    """Runs the plan's first job; writes its events to a file, its qlog into a folder, its trace to a file."""
    job = wanted.jobs[0]
    if job.backend != sim.Sim.name:
        reason = "logs are written of simulated runs only"
        return Comparison(wanted, [], [Skipped(job, reason)])
    with ExitStack() as stack:
        if events and events.is_fifo():
            # Until somebody reads from it: Ctrl-C ends what waits in Python.
            break_waits_off()
            stack.enter_context(events.open("wb"))
        # The trace is made from the qlog, which is kept only where it is wanted.
        folder = Path(stack.enter_context(TemporaryDirectory())) if trace and not qlog else qlog
        found = sim.record(job, events, folder)
        if trace and folder and not isinstance(found, Skipped):
            perfetto.write(folder / f"{job.key}.sqlog", trace)
    return Comparison(wanted, [], [found]) if isinstance(found, Skipped) else Comparison(wanted, [found])


def is_kept(job: Job, kept: Mapping[str, Row]) -> bool:
    """Whether the row of a job is there, whole. Other commands may have kept a part of it in the same folder."""
    row = kept.get(job.key)
    return row is not None and row.get(columns.OF_A_COMPARISON) is not None and job.scheduler.source != specs.UNKNOWN


def _renewed(job: Job, row: Row) -> Row:
    """A kept row under today's command: the same run may be asked for by another path."""
    return columns.of_run(job.variant.columns, job.identity, row)
