"""Runs every setting on both stacks with the same seeds, and keeps the rows."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weftway.runs import comparison, plan
from weftway.runs.backends import PICOQUIC, QUIC, QUIC_TO_PICOQUIC, SIM, NoRow, Row, picoquic
from weftway.runs.comparison import Comparison
from weftway.runs.job import Job
from weftway.runs.plan import Plan
from weftway.runs.runner import Progress, quiet

from .cases import SURE, agreement
from .settings import SCHEDULERS, Setting, drawn, ours

SEEDS = 15
"""Runs of a case on each stack. With five, a stack differs from itself by more than the two stacks should differ."""
MOST_SEEDS = 60
"""Runs of a case whose median is not known to `SURE` from `SEEDS`, on either stack, however far the two are apart."""


@dataclass(frozen=True)
class Request:
    """Number and seed of the cells to measure, and the folder that keeps them."""

    cells: int
    seed: int
    folder: Path
    jobs: int | None = None
    other: str = QUIC.name
    """Backend that the simulator is compared with."""

    @property
    def schedulers(self) -> tuple[str, ...]:
        """Schedulers that both run: picoquic's own choice of paths has a rule in the simulator that follows it."""
        return (picoquic.OWN_SCHEDULER,) if self.other == PICOQUIC.name else SCHEDULERS

    @property
    def sets(self) -> tuple[str, ...]:
        """Changes to every scenario: where picoquic receives, the simulator acknowledges as picoquic does."""
        return ("options.ack_path=picoquic",) if self.other in (QUIC_TO_PICOQUIC.name, PICOQUIC.name) else ()


@dataclass(frozen=True)
class Measured:
    """The settings, their rows of both stacks, and why some have none."""

    request: Request
    settings: list[Setting]
    rows: Sequence[Row]
    skipped: dict[str, str]
    """Reasons, by the name of the setting."""
    seconds: float
    others: str = ""
    """Sentence about what the folder holds besides."""


def measure(request: Request, progress: Progress = quiet) -> Measured:
    """Runs what is not kept in the folder already: the comparison keeps and resumes."""
    cells = drawn(request.seed, request.cells, request.folder / "cells", request.sets)
    wanted = [*ours(sets=request.sets), *cells]
    return run(request, wanted, progress)


def run(request: Request, wanted: list[Setting], progress: Progress = quiet) -> Measured:
    """Runs these settings. What one stack cannot run has a reason in place of rows."""
    start = time.monotonic()
    planned = [(setting, job) for setting in wanted for job in jobs(request, setting, SEEDS)]
    finished = executed(request, planned, progress)
    unsure = {
        (case.setting, case.cc, case.scheduler)
        for case in agreement(wanted, finished.rows, request.other).cases
        if case.unsure > SURE
    }
    if unsure:
        every = ((setting, job) for setting in wanted for job in jobs(request, setting, MOST_SEEDS))
        planned = [
            (setting, job)
            for setting, job in every
            if job.seed < SEEDS or (setting.name, setting.cc, job.scheduler.name) in unsure
        ]
        finished = executed(request, planned, progress)
    without: list[NoRow[Job]] = [*finished.skipped, *finished.failed]
    reasons = {missing.job.key: missing.reason for missing in without}
    refused = {setting.name: reasons[job.key] for setting, job in planned if job.key in reasons}
    return Measured(request, wanted, finished.rows, refused, time.monotonic() - start, finished.kept.sentence)


def jobs(request: Request, setting: Setting, seeds: int) -> list[Job]:
    """Jobs of a setting: every scheduler and seed, on both stacks."""
    planned = plan.plan(setting.scenario, request.schedulers, setting.cc, range(seeds), (SIM.name, request.other))
    return [job for job in planned.jobs if job.variant.hash == setting.variant.hash]


def executed(request: Request, planned: list[tuple[Setting, Job]], progress: Progress) -> Comparison:
    """The rows of these jobs; those that the folder keeps are not run again."""
    todo = Plan(planned[0][0].scenario, [job for _, job in planned])
    return comparison.execute(todo, request.jobs, request.folder, progress)
