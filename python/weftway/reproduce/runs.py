"""Runs what the experiments ask for, and keeps what is finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weftway._native import SimulationError
from weftway.runs import plan
from weftway.runs.backends import SIM, Failed, Row
from weftway.runs.job import Job
from weftway.runs.runner import Outcome, Progress, RowHandling, Runner, Wanted, Workers, threads
from weftway.runs.store import Finished, Store

from .experiments import Experiment


@dataclass(frozen=True)
class Effort:
    """Amount of runs."""

    seeds: str | None
    """Seeds of the setting that a file has; the file's own if not given."""
    settings: int
    """Number of draws of the values that a paper leaves open."""
    setting_seeds: str
    """Seeds of each drawn setting."""


QUICK = Effort("0..5", 4, "0..2")
FULL = Effort(None, 40, "0..5")


@dataclass
class Run:
    """Experiment in one setting, and its rows."""

    experiment: Experiment
    choice: dict[str, Any] | None
    """Values that were drawn; `None` for the setting that the file has."""
    jobs: list[Job]
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    beside: list[Job] = field(default_factory=list)
    """Jobs of schedulers that the paper does not have. No verdict looks at them."""
    others: list[Row] = field(default_factory=list)
    """Their rows."""
    failed: list[Failed[Job]] = field(default_factory=list)
    """The jobs, those beside them included, whose run failed: no verdict counts these."""


def planned(experiments: Sequence[Experiment], effort: Effort, backend: str, beside: Sequence[str] = ()) -> list[Run]:
    """All that is to be run, in the order of the files. `beside` are schedulers to run in each stated setting, too."""
    runs = []
    for experiment in experiments:
        if experiment.published.get("cannot_run"):
            continue
        seeds = None if experiment.is_exact else effort.seeds  # a worked example is what it is
        stated = Run(experiment, None, plan.plan(experiment.scenario, seed=seeds, backend=backend).jobs)
        runs.append(stated)
        if experiment.is_exact:
            continue
        if more := [name for name in beside if name not in experiment.scenario.schedulers]:
            stated.beside = plan.plan(experiment.scenario, scheduler=more, seed=seeds, backend=backend).jobs
        for choice in experiment.draw(effort.settings):
            jobs = plan.plan(experiment.set(choice), seed=effort.setting_seeds, backend=backend).jobs
            runs.append(Run(experiment, choice, jobs))
    return runs


def execute(runs: Sequence[Run], jobs: int | None, out: Path | None, tell: Progress) -> Finished:
    """Gives every run its rows. What `out` has already is not run again; an interrupt keeps what is finished.

    Figures of one paper that show the same runs share them. Returns what the folder holds.
    """
    handling: RowHandling[Job, None] = RowHandling(
        run_key, _whole, _whole, lambda wanted, row: _figures(wanted.job, row)
    )
    alike = {run_key(job): job for run in runs for job in [*run.jobs, *run.beside]}
    with Runner(out, tell) as runner:
        ran = runner.run((Wanted(job, None) for job in alike.values()), _workers(jobs), handling)
    rows = ran.rows
    asked = [_figures(wanted.job, row) for wanted, row in ran]
    finished = Store(out).finish(asked) if out and rows else Finished(asked)
    skipped = {run_key(skip.job): skip.reason for skip in ran.skipped}
    failed = {run_key(failure.job): failure for failure in ran.failed}
    for run in runs:
        run.rows, run.others = (
            [_whole(job, rows[run_key(job)]) for job in some if run_key(job) in rows] for some in (run.jobs, run.beside)
        )
        run.skipped = list(dict.fromkeys(skipped[run_key(job)] for job in run.jobs if run_key(job) in skipped))
        run.failed = [failed[run_key(job)] for job in [*run.jobs, *run.beside] if run_key(job) in failed]
    return finished


def run_key(job: Job) -> str:
    """Key of a run of this code, the same whatever figure it is for: the scenario counts by its hash."""
    deciding = {name: value for name, value in job.head.items() if name not in ("scenario", "command")}
    return hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:32]


def _workers(count: int | None) -> Workers[Job]:
    """Threads; in the simulator without the runs over single paths, which no published number needs."""

    def carried_out(todo: Sequence[Job]) -> Iterator[Outcome[Job]]:
        yield from threads(count, singles=False)([job for job in todo if job.backend == SIM.name])
        yield from threads(count)([job for job in todo if job.backend != SIM.name])

    return carried_out


def _figures(job: Job, row: Row) -> Row:
    """Kept columns: those that rows of all experiments have."""
    head = job.head
    named = {name: row.get(name) for name in ("scenario", "scheduler", "cc", "backend", "seed", "command")}
    values = {
        name: value for name, value in row.items() if not name.startswith("path.") and not isinstance(value, list)
    }
    measured = {name: value for name, value in values.items() if name not in head}
    return {**named, **measured, "key": run_key(job)}


def _whole(job: Job, kept: Row) -> Row:
    """A kept row under what its job says of it."""
    return {**kept, **job.identity, "key": run_key(job)}


def first(run: Run, scheduler: str, cc: str | None = None) -> Job:
    """The first job of a scheduler, under any controller or this one."""
    for job in run.jobs:
        if cc in (None, job.cc[0]) and scheduler in (job.scheduler.name, job.scheduler.name.split(":")[0]):
            return job
    raise SimulationError(f"{scheduler} is not run in {run.experiment.name}")
