"""ReLeS: which share of the data each path carries, learned from the last eight intervals.

Two LSTM layers of 64, a dense layer of 64; the actor's softmax are the mean shares, and in training shares are drawn
from a Dirichlet distribution around them. What is deployed is the mean.

Reference: ReLeS (Zhang et al., INFOCOM 2019).
Departs from print: the paper was not at hand; it learns a normalised advantage function from a replay memory, here
`learner = a2c-dirichlet`: an advantage actor-critic on its own rollouts, which needs neither the memory nor a
lower-triangular output. The learning rate is ten times the 1e-4 of the replay learner: a rollout is learned from once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from weftway.learn.train.a3c import ActorCriticArgs, Baselines, PolicySpec, learn
from weftway.learn.train.limits import OneOf, Positive, Slots, TaskWeight
from weftway.learn.train.session import ChooseActions, Progress, Trained, quiet

WIDEST = 2
"""The slot of the path that is 4 Mbit/s where the others are 2."""


@dataclass(frozen=True, kw_only=True)
class Args(ActorCriticArgs):
    """Settings and their defaults."""

    steps: int = 100_000
    distribution: str = "four-paths"
    cc: str = "bbr1"
    envs: int = 64
    held_out: int = 128
    network: str = "64-64"
    """Widths of the LSTM layers; a dense one as wide as the last follows."""
    gamma: float = 0.9
    learning_rate: float = 1e-3
    entropy: float = 0.001
    learner: Annotated[str, OneOf("a2c-dirichlet")] = "a2c-dirichlet"
    """The learning algorithm; there is only this one."""
    concentration: Positive = 40.0
    """Sum of the Dirichlet's concentrations: of four equal shares, each deviates by 0.07."""
    slots: Slots = 4
    """Number of paths in the observation."""
    history: Slots = 8
    """Number of intervals in the observation."""
    a: TaskWeight = 0.5
    """Weight of round-trip time in the reward."""
    b: TaskWeight = 1.0
    """Weight of loss in the reward."""

    ALGORITHM: ClassVar[str] = "reles"
    QUICK: ClassVar[Mapping[str, Any]] = {"steps": 20_000, "envs": 16, "pool": 64, "trials": 16, "held_out": 16}


def task(args: Args) -> str:
    """The task these settings mean."""
    return f"shares:slots={args.slots}:history={args.history}:a={args.a:g}:b={args.b:g}"


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy; its baselines give every path the same, or all to one."""
    spec = PolicySpec(task(args), args.history, args.concentration)
    return learn(args, spec, baselines(args), progress)


def baselines(args: Args) -> Baselines:
    """Policies that are evaluated beside the learned one."""
    equal, third = np.ones(args.slots), np.arange(args.slots) == min(WIDEST, args.slots - 1)
    return {"equal": (task(args), always(equal)), "third": (task(args), always(third))}


def always(shares: np.ndarray) -> ChooseActions:
    """Chooses the same shares at every decision."""
    return lambda obs, mask: np.tile(shares / shares.sum(), (len(obs), 1))
