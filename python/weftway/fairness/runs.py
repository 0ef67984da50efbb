"""Runs of every setting, of which those that a folder keeps are not run again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from weftway import _native
from weftway._native import SimulationError, Variant
from weftway.runs import plan, seeds, specs
from weftway.runs.backends import Failed
from weftway.runs.job import Job
from weftway.runs.runner import Progress, Runner, Wanted, threads
from weftway.runs.store import Finished, Store
from weftway.scenario import HOME, load

from . import judging, settings
from .judging import Goals, Row, Share, Short, Start
from .settings import CUBIC, LOSSES, QUEUES, SECONDS, Setting, Sharing

SCHEDULER = "min-rtt"
"""Scheduler of every connection: data always wait, so that windows decide what each path carries."""


@dataclass(frozen=True)
class Request:
    """Controllers to judge."""

    controllers: Sequence[str] = ()
    """Their names with switches; nothing for the whole registry."""
    seeds: str | int | Iterable[int] = "0..4"
    windows: Sequence[int] = ()
    """Initial windows, in packets, whose cost to short flows is measured."""
    set: Sequence[str] = ()
    """Keys that are set in every run."""
    seconds: int = SECONDS
    """Length of each run."""


@dataclass(frozen=True)
class Fairness:
    """Outcome of a request."""

    request: Request
    controllers: list[str]
    seeds: list[int]
    shares: list[Share]
    goals: list[Goals]
    short: list[Short]
    starts: list[Start]
    runs: int
    skipped: list[str] = field(default_factory=list)
    failed: list[Failed[Job]] = field(default_factory=list)
    kept: Finished = field(default_factory=Finished)

    def share(self, cc: str, rival: str, subflows: int, loss: str) -> list[Share]:
        """Shares of a controller beside another, by queue."""
        wanted = (cc, rival, subflows, loss)
        return [one for one in self.shares if (one.cc, one.rival, one.subflows, one.loss) == wanted]


def run(
    request: Request, jobs: int | None = None, out: Path | None = None, progress: Progress | None = None
) -> Fairness:
    """Runs what is not kept in `out` already, on `jobs` threads, and judges."""
    controllers = named(request.controllers)
    numbers = seeds.parse(request.seeds)
    wanted = list(settings.of(controllers, request.windows))
    rows, kept, runner = _rows(request, wanted, numbers, jobs, out, progress)
    goals = [one for cc in controllers if (one := judging.goals(cc, rows))]
    if not rows and runner.failed:
        raise runner.failed[0].error
    if not rows:
        raise SimulationError("; ".join(runner.skipped) or "no run")
    return Fairness(
        request=request,
        controllers=controllers,
        seeds=numbers,
        shares=judging.shares(rows),
        goals=goals,
        short=judging.short(rows),
        starts=judging.starts(rows),
        runs=len(kept.rows),
        skipped=runner.skipped,
        failed=runner.failed,
        kept=kept,
    )


def beside_cubic(cc: str, jobs: int | None = None) -> list[Share]:
    """Shares of one flow of a controller beside a CUBIC flow, at each queue, without random losses."""
    request = Request([cc])
    wanted = [Sharing(named([cc])[0], CUBIC, queue, LOSSES[0]) for queue in QUEUES]
    rows, _, _ = _rows(request, wanted, seeds.parse(request.seeds), jobs, None, None, has_out=False)
    return judging.shares(rows)


def beside_starts(cc: str, windows: Sequence[int], jobs: int | None = None) -> list[Start]:
    """Short flows while a flow of a controller starts with such windows."""
    request = Request([cc])
    name = named([cc])[0]
    wanted = [one for window in windows for one in settings.starting(name, window)]
    rows, _, _ = _rows(request, wanted, seeds.parse(request.seeds), jobs, None, None, has_out=False)
    return judging.starts(rows)


def named(controllers: Sequence[str]) -> list[str]:
    """The full names of controllers; those of the whole registry if none is named."""
    return [name for name, _ in plan.controllers(list(controllers) or "all")]


@dataclass
class _Missing:
    """Runs that have no row, and why."""

    skipped: list[str]
    failed: list[Failed[Job]]


def _rows(
    request: Request,
    wanted: Sequence[Setting],
    numbers: Sequence[int],
    jobs: int | None,
    out: Path | None,
    progress: Progress | None,
    has_out: bool = True,
) -> tuple[dict[Setting, dict[int, Row]], Finished, _Missing]:
    """Rows of settings by the place of the seed. A setting with a run that failed is left out."""
    settings_once = list(dict.fromkeys(wanted))
    asked = [
        Wanted(job(one.run(at), seed, request.set, request.seconds), (one, at))
        for one in settings_once
        for at, seed in enumerate(numbers)
    ]
    with Runner(out, progress, has_out=has_out) as runner:
        runs = runner.run(asked, threads(jobs, singles=False))
    rows: dict[Setting, dict[int, Row]] = {}
    for one, row in runs:
        setting, at = one.asker
        rows.setdefault(setting, {})[at] = row
    whole = {setting: rows[setting] for setting in settings_once if len(rows.get(setting, ())) == len(numbers)}
    every = list({row["key"]: row for _, row in runs}.values())
    kept = Store(out).finish(every) if out and every else Finished(every)
    skipped = list(dict.fromkeys(f"{one.job.cc[0]}: {one.reason}" for one in runs.skipped))
    return whole, kept, _Missing(skipped, runs.failed)


def job(run: settings.Run, seed: int, sets: Sequence[str] = (), seconds: int = SECONDS) -> Job:
    """Job of a run."""
    keys = (*run.sets, *settings.length(run, seconds), *sets)
    return plan.simulated(_variant(run.file, keys), _scheduler(), _native.controller(run.cc), seed)


@cache
def _variant(file: str, sets: tuple[str, ...]) -> Variant:
    (variant,) = load(str(HOME / file), sets).variants()
    return variant


@cache
def _scheduler() -> specs.SchedulerSpec:
    (spec,) = specs.parse(SCHEDULER)
    return spec
