"""GAPS: how far ahead of the fast path each slower one sends.

Six numbers of each path in the last eight intervals, two hidden layers of 128; for every slot one of five changes of
its gap, each drawn from a softmax of its own.

Reference: GAPS (Liao et al., 2020), from what PDAA3C's authors say of it.
Departs from print: the paper was not at hand, and its network and learner are ours. Rewards are taken for a tenth:
queues bring rare large ones, which else the critic's part of the gradient is made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from weftway.learn.train.a3c import ActorCriticArgs, Baselines, PolicySpec, learn
from weftway.learn.train.limits import OneOf, Slots, TaskWeight
from weftway.learn.train.session import Progress, Trained, quiet

CHOICES = 5
"""Changes of a gap: −8, −2, 0, +2, +8 packets."""


@dataclass(frozen=True, kw_only=True)
class Args(ActorCriticArgs):
    """Settings and their defaults."""

    steps: int = 200_000
    distribution: str = "four-paths"
    cc: str = "bbr1"
    envs: int = 64
    held_out: int = 128
    network: str = "128-128"
    gamma: float = 0.9
    learning_rate: float = 1e-3
    reward_scale: float = 0.1
    entropy: float = 0.001
    slots: Slots = 4
    """Number of paths in the observation."""
    history: Slots = 8
    """Number of intervals in the observation."""
    base: Annotated[str, OneOf("first", "tracked")] = "first"
    """Base of the changes: the formula's gap at the beginning (`first`), or the current one (`tracked`)."""
    a: TaskWeight = 0.5
    """Weight of the out-of-order queue in the reward."""
    b: TaskWeight = 0.1
    """Weight of changing the gaps in the reward."""

    ALGORITHM: ClassVar[str] = "gaps"
    QUICK: ClassVar[Mapping[str, Any]] = {"steps": 20_000, "envs": 16, "pool": 64, "trials": 16, "held_out": 16}


def task(args: Args) -> str:
    """The task these settings mean."""
    return f"gap:base={args.base}:slots={args.slots}:history={args.history}:a={args.a:g}:b={args.b:g}"


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy; its baselines leave the formula's gaps alone, or change them by chance."""
    return learn(args, PolicySpec(task(args)), baselines(args), progress)


def baselines(args: Args) -> Baselines:
    """Policies that are evaluated beside the learned one."""
    rng = np.random.default_rng(args.seed)

    def unchanged(obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return np.full((len(obs), args.slots), CHOICES // 2)

    def anyhow(obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return rng.integers(0, CHOICES, (len(obs), args.slots))

    return {"formula": (task(args), unchanged), "random": (task(args), anyhow)}
