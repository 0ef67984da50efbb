"""Networks of the papers on real stacks: Linux MPTCP under its own scheduler, and a Multipath QUIC stack.

Linux has one scheduler and no coupled controller, so it judges networks: the same links and workload under its own
scheduler and controllers, in the simulator and in the kernel. The QUIC stack runs the papers' schedulers as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from weftway.runs import plan
from weftway.runs.backends import SIM

from . import checks
from .checks import Rows, Scope, Undecidable
from .experiments import Experiment
from .gains import SPEED, metric, plain
from .runs import Run

SEEDS = "0..5"
CONTROLLERS = ("newreno", "cubic", "bbr1")
"""Controllers of ours that Linux has."""
LONGEST = {"duration": ("workload.duration", "20 s"), "bulk": ("workload.bytes", "10 MB")}
"""A run in real time is no longer; both sides run the same."""
AGREES = 0.1

KERNEL, QUIC = "kernel", "quic"


def real(experiment: Experiment) -> str | None:
    """The backend that has the stack of an experiment; `None` where no stack runs it."""
    text = experiment.text
    shown = [figure.get("y") for figure in text.get("figure", {}).values()]
    if experiment.published.get("cannot_run") or experiment.is_exact or experiment.reading or not SPEED.keys() & shown:
        return None
    if text.get("transport") == "mpquic":
        return QUIC
    # The kernel chooses no path for 100 ms, and its links have no losses hidden by repeats of the radio.
    unlike = "decision" in text or text.get("workload", {}).get("kind") not in LONGEST
    # A figure of several sizes has them in real time, up to minutes each; the network is that of another figure.
    unlike = unlike or any(key.startswith("workload.") for key in text.get("vary", {}))
    return KERNEL if text.get("transport") == "mptcp" and not unlike else None


def planned(experiments: Sequence[Experiment], seeds: str = SEEDS) -> list[Run]:
    """The runs in the simulator and in the real stack."""
    runs = []
    for experiment in experiments:
        where = real(experiment)
        if where == QUIC:
            runs.append(
                Run(experiment, None, plan.plan(experiment.scenario, seed=seeds, backend=[SIM.name, QUIC]).jobs)
            )
        elif where == KERNEL:
            scenario = experiment.set({"stack": "linux-v1", **_short(experiment)})
            jobs = plan.plan(scenario, "linux-v1", list(CONTROLLERS), seeds, [SIM.name, KERNEL]).jobs
            runs.append(Run(experiment, None, jobs))
    return runs


def _short(experiment: Experiment) -> dict[str, Any]:
    """Change of a workload that makes it end in time."""
    key, value = LONGEST[experiment.text["workload"]["kind"]]
    return {key: value}


@dataclass(frozen=True)
class Level:
    """A network under one controller and scheduler: what the simulator and the real stack have for it."""

    experiment: Experiment
    backend: str
    scheduler: str
    scope: Scope
    metric: str
    printed: float | None
    sim: float
    real: float
    runs: int

    @property
    def ratio(self) -> float:
        return self.real / self.sim

    @property
    def agrees(self) -> bool:
        return abs(self.ratio - 1) <= AGREES

    @property
    def record(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "paper": self.experiment.paper,
            "experiment": self.experiment.figure,
            "is": "level",
            "backend": self.backend,
            "scheduler": self.scheduler,
            "cc": self.scope.cc,
            "at": dict(self.scope.at),
            "metric": self.metric,
            "printed": self.printed,
            "sim": self.sim,
            "real": self.real,
            "ratio": self.ratio,
            "agrees": self.agrees,
            "runs": self.runs,
        }


def levels(runs: Sequence[Run]) -> list[Level]:
    """Every network that both have, with medians for the kernel, whose runs do not repeat themselves."""
    levels = []
    for run in runs:
        where = real(run.experiment)
        measure = metric(run)
        if where is None or measure is None:
            continue
        keys = list(run.jobs[0].variant.values)
        ours = Rows([row for row in run.rows if row["backend"] == SIM.name], keys)
        theirs = Rows([row for row in run.rows if row["backend"] == where], keys)
        middle = median if where == KERNEL else fmean
        for scope in ours.scopes("each", None):
            for name in ours.schedulers:
                try:
                    simulated = ours.values(measure, name, scope)
                    on_stack = theirs.values(measure, name, scope)
                except Undecidable:
                    continue
                value = _printed(run.experiment, measure, name, scope) if where == QUIC else None
                sides = (middle(simulated.values()), middle(on_stack.values()))
                levels.append(Level(run.experiment, where, plain(name), scope, measure, value, *sides, len(on_stack)))
    return levels


def skipped(runs: Sequence[Run]) -> list[str]:
    """Why a stack ran nothing."""
    return list(dict.fromkeys(reason for run in runs for reason in run.skipped))


def _printed(experiment: Experiment, measure: str, scheduler: str, scope: Scope) -> float | None:
    """The paper's number for it."""
    for number in experiment.numbers:
        same = number.get("metric") == measure and number.get("cc") == scope.cc and "over" not in number
        if same and number.get("scheduler") == plain(scheduler) and number.get("at", {}) == dict(scope.at):
            return float(number["value"]) * checks.factor(measure, number["unit"])
    return None
