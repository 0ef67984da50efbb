"""Held-out evaluation: schedulers side by side on instances that no training saw.

>>> rows = evaluate("ecf", on="mpquic-pair", against="min-rtt,random", instances=4)  # doctest: +SKIP
>>> summary(rows), claims(rows)  # doctest: +SKIP

`distribution` draws the instances, `comparison` runs and keeps them, `paired` counts.
"""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from weftway import _native
from weftway._native import ScenarioError, SimulationError
from weftway.report import held_out, page
from weftway.runs import caveats, comparison, plan, specs
from weftway.runs.job import Job
from weftway.runs.plan import Plan
from weftway.runs.rows import FrameRows
from weftway.runs.runner import Progress
from weftway.runs.store import Store, table
from weftway.sample import distribution
from weftway.sample.distribution import Distribution, Drawn
from weftway.scenario import settings
from weftway.stats.baselines import AGAINST, REFERENCE
from weftway.stats.pairs import Claim, Estimate, claims, summary

__all__ = ["AGAINST", "Claim", "Estimate", "Request", "claims", "evaluate", "planned", "run", "summary"]

MEASURE = {
    "bulk": "fct_ms",
    "limited": "fct_ms",
    "request-response": "fct_ms",
    "messages": "message_p95_ms",
    "stream": "message_p95_ms",
    "web": "fct_ms",
    "voip": "message_p95_ms",
    "call": "call_p99_ms",
    "flows": "message_p95_ms",
    "datagrams": "deadline_miss_rate",
}
"""Measures by workload, where a distribution names none; goodput for those without an end."""


@dataclass(frozen=True)
class Request:
    """Order of an evaluation: the policy, the distribution, and the references."""

    policy: Any
    on: str | os.PathLike[str]
    against: Any = AGAINST
    cc: str | Iterable[str] | None = None
    """Controllers; the distribution's own if none is named."""
    instances: int = 60
    seed: int = 1
    """Seed by which the instances are drawn."""
    seeds: int = 1
    """Runs of each instance, each with a seed of its own."""
    set: Sequence[str] = ()
    """Keys that are set in every instance: `decision.mode=exclusive`."""
    split: str = "held-out"
    """Part of the instances: those that no training sees, or those of the training."""


def evaluate(
    policy: Any,
    on: str | os.PathLike[str],
    *,
    against: Any = AGAINST,
    cc: str | Iterable[str] | None = None,
    instances: int = 60,
    seed: int = 1,
    seeds: int = 1,
    set: Iterable[str] | Mapping[str, Any] = (),
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Evaluates a policy: a row per held-out instance, controller, scheduler and seed, for `summary` and `claims`.

    A policy is whatever takes part in a comparison, or a policy file. With `out`, the rows and the instances are kept
    there, and a later call goes on from them.
    """
    request = Request(policy, on, against, cc, instances, seed, seeds, settings(set))
    ran = run(request, jobs, None if out is None else Path(out), progress)
    for line in [*(f"skipped {line}" for line in ran.skipped), *ran.failures]:
        warnings.warn(line, stacklevel=2)
    return ran.frame


@dataclass(frozen=True)
class Ran:
    """Results of a request."""

    frame: pl.DataFrame
    """A row per run."""
    skipped: list[str]
    """The schedulers that could not run, and why."""
    failures: list[str]
    """The runs that failed, and why."""
    others: str
    """Sentence about what else the folder holds."""


def run(request: Request, jobs: int | None, out: Path | None, progress: Progress | None = None) -> Ran:
    """Carries out a request."""
    wanted, about = planned(request, out)
    ran = comparison.execute(wanted, jobs, out, progress)
    skipped = list(dict.fromkeys(f"{skip.job.scheduler.title}: {skip.reason}" for skip in ran.skipped))
    if not any(row["scheduler"] == REFERENCE for row in ran.rows):
        ran.complete()
        raise SimulationError("; ".join(skipped) or f"{REFERENCE} did not run")
    frame = table({**row, **about[row["key"]]} for row in ran.rows)
    if out:
        Store(out).finish(FrameRows(frame, lambda _, row: row))
    return Ran(frame, skipped, caveats.failures(ran.failed), ran.kept.sentence)


def held(request: Request, frame: pl.DataFrame, others: str = "") -> held_out.Held:
    """The rows of a request, counted and ready to be shown."""
    lines, asked = summary(frame).to_dicts(), [asdict(claim) for claim in claims(frame)]
    title = f"{_text(request.policy)} on {lines[0]['on']}"
    return held_out.Held(
        title, replay(request), lines, asked, [entry["name"] for entry in _native.schedulers()], others
    )


def write_report(shown: held_out.Held, frame: pl.DataFrame, out: Path) -> Path:
    """Writes `report.html` into the folder."""
    return page.save(held_out.render(shown, frame), out)


def replay(request: Request) -> str:
    """The command that carries out a request."""
    cc = [] if request.cc is None else [f"--cc {','.join(plan.names(request.cc))}"]
    sets = [f"--set {plan.quoted(setting)}" for setting in request.set]
    words = [plan.quoted(_text(request.policy)), f"--on {plan.quoted(_text(request.on))}"]
    words += [f"--against {plan.quoted(_text(request.against))}", *cc, *sets]
    words += [f"--instances {request.instances} --seed {request.seed}"]
    return " ".join(["weft evaluate", *words, *([f"--seeds {request.seeds}"] if request.seeds > 1 else [])])


def _text(named: Any) -> str:
    """A scheduler, a list of them or a file, as the command line takes it."""
    if isinstance(named, str | os.PathLike):
        return os.fspath(named)
    return named.__name__ if isinstance(named, type) else ",".join(map(_text, named))


def planned(request: Request, out: Path | None = None) -> tuple[Plan, dict[str, dict[str, Any]]]:
    """The jobs, and what each one's row says besides its run, by key."""
    for what, number, least in (
        ("instances", request.instances, 1),
        ("seeds", request.seeds, 1),
        ("seed", request.seed, 0),
    ):
        plan.check_whole(what, number, least)
    there = distribution.load(request.on)
    policies = specs.parse(request.policy)
    names = {scheduler.title for scheduler in policies}
    field = specs.distinct([*policies, *specs.parse([REFERENCE, request.against])])
    controllers = _controllers(there, request.cc)
    jobs: list[Job] = []
    about: dict[str, dict[str, Any]] = {}
    for index in range(request.instances):
        drawn = there.sample(request.seed, index, request.split)
        variant = there.variant(drawn, request.set, _kept(there, drawn, out))
        shared = {"on": there.name, "instance": drawn.id, **described(there, drawn, variant.scenario.sets)}
        for cc in controllers:
            for scheduler, further in product(field, range(request.seeds)):
                # Seeds of held-out runs are odd, those of training runs even.
                jobs.append(plan.simulated(variant, scheduler, cc, drawn.seed + 2 * further))
                about[jobs[-1].key] = {**shared, "is_policy": scheduler.title in names}
    return Plan(jobs[0].variant.scenario, jobs), about


def described(there: Distribution, drawn: Drawn, sets: Iterable[str]) -> dict[str, Any]:
    """Columns by which an instance's rows are read: how long a decision holds, and the measure that counts."""
    keys = {**drawn.values, **dict(setting.split("=", 1) for setting in sets)}
    interval = str(keys.get("decision.interval", ""))
    mode = f"{keys.get('decision.mode', 'preferred')} {interval}" if interval else "each packet"
    return {"mode": mode, "measure": there.measure or MEASURE.get(str(keys.get("workload.kind")), "goodput_mbps")}


def _controllers(there: Distribution, cc: str | Iterable[str] | None) -> list[tuple[str, str]]:
    named = plan.names(there.controllers if cc is None else cc)
    if not named:
        raise ScenarioError("no controller is named: there is nothing to run")
    every = [entry["name"] for entry in _native.controllers()]
    controllers = [controller for name in named for controller in (every if name.lower() == "all" else [name])]
    return list(dict.fromkeys(map(_native.controller, controllers)))


def _kept(there: Distribution, drawn: Drawn, out: Path | None) -> str | None:
    """Folder of the instance's file: a row's command runs it from there."""
    if out is None:
        return None
    drawn.keep(out / "instances", there.folder)
    return str(out / "instances")
