"""Runs a comparison: all its jobs, on all cores, into one table."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from weftway._native import Scenario, ScenarioError
from weftway.runs import backends, bounds, caveats, columns, perfetto, plan, specs
from weftway.runs.backends import Failed, Row, Skipped, sim
from weftway.runs.job import Job
from weftway.runs.plan import Plan
from weftway.runs.rows import Framed, FrameRows, column, in_order
from weftway.runs.runner import Progress, RowHandling, Runner, Wanted, quiet, threads
from weftway.runs.store import Finished, Store, table
from weftway.terminal.interrupts import break_waits_off

if TYPE_CHECKING:
    import polars as pl

OnRow = Callable[[Job, Row], None]
"""Told each row as it comes."""


@dataclass(frozen=True)
class Comparison:
    """Results of a plan."""

    plan: Plan
    rows: Sequence[Row]
    skipped: list[Skipped[Job]] = field(default_factory=list)
    failed: list[Failed[Job]] = field(default_factory=list)
    """Runs that failed. The others are as good as without them."""
    watched: dict[str, str] = field(default_factory=dict)
    """Timelines, by key, as JSON: of runs that cannot be had again, and of those that were wanted with their rows."""
    kept: Finished = field(default_factory=Finished)
    """Rows that the folder keeps of those asked for, and how many it holds besides."""

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
        return self.rows.frame if isinstance(self.rows, Framed) else table(self.rows)

    @cached_property
    def about(self) -> dict[str, Any]:
        """Facts that a reader of the rows needs: the scenario's keys, what was named, and which rows are not shown."""
        return {**self.plan.document, "others": self.kept.sentence}

    @cached_property
    def made(self) -> dict[str, Any]:
        """Objects that readers of the rows have made of them, so that they are made once."""
        return {}


def single(scenario: Scenario, scheduler: Any, cc: str | None, seed: int | None, backend: str | None) -> Plan:
    """The plan of one run. Several schedulers, controllers or backends are refused: all but the first would be lost."""
    chosen = plan.plan(scenario, scheduler, cc, None if seed is None else [seed], backend)
    named = {
        "scheduler": [] if scheduler is None else [job.scheduler.title for job in chosen.jobs],
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
    on_row: OnRow = quiet,
) -> Comparison:
    """Runs what is not kept in `out` already, on `jobs` threads. With `bound`, rows of simulated runs also say what
    their links allow at best. Of up to `watched_runs` runs their timelines come with the rows."""
    if jobs is not None:
        plan.check_whole("jobs", jobs, otherwise=", the threads, or None for all cores")
    if out and not bound and (nothing_new := _kept_whole(Store(out), wanted)):
        (progress or quiet)(len(wanted.jobs), len(wanted.jobs))
        return nothing_new
    with Runner(out, progress) as runner:
        kept = [job for job in wanted.jobs if is_kept(job, runner.kept)]
        timelines = _recalled(Store(out), kept) if out else {}
        watch = worth_watching([job for job in wanted.jobs if not is_kept(job, runner.kept)], watched_runs)
        asked = (Wanted(job, None) for job in wanted.jobs)
        runs = runner.run(asked, threads(jobs, watch=watch), HANDLING, lambda job, row: on_row(job.job, row))
        bounded = [job for job in wanted.jobs if bound and job.backend == sim.Sim.name]
        limits = bounds.of(bounded, jobs or os.cpu_count() or 1)
    del runner  # what it recalled may be many rows
    if limits:
        for key in list(runs.rows):
            runs.rows[key] = {**runs.rows[key], **limits.get(key, {})}
    keys = [job.key for job in wanted.jobs if job.key in runs.rows]
    ordered = in_order(runs.rows, list(dict.fromkeys(keys)) if out else keys)
    finished = Store(out).finish(ordered) if out and ordered else Finished(ordered)
    return Comparison(wanted, finished.rows, runs.skipped, runs.failed, {**timelines, **runs.timelines}, finished)


def _kept_whole(store: Store, wanted: Plan) -> Comparison | None:
    """The comparison, where the folder's table is already what it would become."""
    jobs = wanted.jobs
    if any(job.scheduler.source == specs.UNKNOWN for job in jobs):
        return None
    whole = store.finished([job.key for job in jobs])
    if whole is None or None in column(whole.frame, columns.OF_A_COMPARISON):
        return None
    if column(whole.frame, "command") != [job.command for job in jobs]:
        return None  # the same runs by another path

    def row(at: int, kept: Row) -> Row:
        return _renewed(jobs[at], kept)

    variants = {id(job.variant): job.variant for job in jobs}.values()
    own = {"key", *jobs[0].head, *(name for variant in variants for name in (*variant.values, *variant.columns))}
    shown = [name for name in whole.frame.columns if name in own or whole.frame[name].null_count() < len(jobs)]
    rows = FrameRows(whole.frame.select(shown), row)
    return Comparison(wanted, rows, watched=_recalled(store, jobs), kept=Finished(rows, whole.others, whole.older))


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
    timelines = {job.key: store.timeline(job.key) for job in kept if store and not _repeats(job)}
    return {key: text for key, text in timelines.items() if text is not None}


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
        result = sim.record(job, events, folder)
        if trace and folder and not isinstance(result, Skipped):
            perfetto.write(folder / f"{job.key}.sqlog", trace)
    return Comparison(wanted, [], [result]) if isinstance(result, Skipped) else Comparison(wanted, [result])


def is_kept(job: Job, kept: Mapping[str, Row]) -> bool:
    """Tells jobs whose row is there, whole. Other commands may have kept a part of it in the same folder."""
    return job.key in kept and _is_whole(job, kept[job.key])


def _is_whole(job: Job, row: Row) -> bool:
    return row.get(columns.OF_A_COMPARISON) is not None and job.scheduler.source != specs.UNKNOWN


def _renewed(job: Job, row: Row) -> Row:
    """A kept row under today's command: the same run may be asked for by another path."""
    return columns.of_run(job.variant.columns, job.identity, row)


HANDLING: RowHandling[Job, None] = RowHandling(
    recalled=lambda job, row: _renewed(job, row) if _is_whole(job, row) else None, keeps_timelines=True
)
"""Whole rows, and timelines of runs that cannot be had again."""
