"""PDAA3C: the path of the next 100 ms, learned by asynchronous advantage actor-critic.

Five numbers of each path, two hidden layers of 128; three actions that are ranks by quality (`--action-mode ternary`)
or one for each slot (`direct`). What a choice means for packets (`--mode`): the chosen path sends first (`preferred`)
or alone (`exclusive`).

Reference: PDAA3C (A3C for MPTCP), Algorithm 1. It prints the state, the kinds of action, the reward, gamma and 2 000
steps. The network, t_max, workers, optimiser and weights of the loss are ours, the usual ones of A3C (`--paper`).
Departs from print: `weftway.learn.train.a3c` trains over many environments in one process unless `--workers` says
otherwise, and the defaults learn more: 2 000 steps of four workers are 400 updates of 1e-4, in which the critic does
not even come to the mean return. What a choice earns differs little beside what scenarios do, least where others stand
in: hence the many environments. Rewards are taken for a tenth, as a return is about −30 where one of four paths sends
alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from weftway.learn.train import session
from weftway.learn.train.a3c import ActorCriticArgs, Baselines, PolicySpec, learn
from weftway.learn.train.limits import Mode, OneOf, Slots
from weftway.learn.train.session import ChooseActions, Progress, Trained, quiet

WIDEST = 2
"""The slot of the path that is 4 Mbit/s where the others are 2."""


@dataclass(frozen=True, kw_only=True)
class Args(ActorCriticArgs):
    """Settings and their defaults."""

    steps: int = 1_600_000
    distribution: str = "four-paths"
    cc: str = "bbr1"
    envs: int = 64
    held_out: int = 128
    network: str = "128-128"
    gamma: float = 0.7
    learning_rate: float = 1e-3
    reward_scale: float = 0.1
    action_mode: Annotated[str, OneOf("ternary", "direct")] = "ternary"
    """`ternary`: best, middle or worst path by quality; `direct`: a path, with the qualities observed."""
    mode: Mode = "preferred"
    """Use of the other paths when the chosen one is full: they send (`preferred`), or none does (`exclusive`)."""
    reward: Annotated[str, OneOf("log", "rate")] = "log"
    """Reward of an interval: `log`, the sum of the paths' log throughputs as published; or `rate`, the throughput."""
    slots: Slots = 4
    """Number of paths in the observation."""
    paper: bool = False
    """The paper's A3C settings: four workers of one environment, 2 000 steps each, 1e-4. Keeps options you give."""

    ALGORITHM: ClassVar[str] = "pdaa3c"
    PRESETS: ClassVar[tuple[str, ...]] = ("paper", "quick")
    QUICK: ClassVar[Mapping[str, Any]] = {
        "steps": 20_000,
        "envs": 16,
        "pool": 64,
        "trials": 16,
        "held_out": 16,
        # A choice changes too little to be learned in so few steps where other paths stand in.
        "mode": "exclusive",
        "action_mode": "direct",
    }
    PAPER: ClassVar[Mapping[str, Any]] = {
        "workers": 4,
        "envs": 1,
        "steps": 8_000,
        "learning_rate": 1e-4,
        "reward_scale": 1.0,
    }


def task(args: Args) -> str:
    """The task these settings mean."""
    return f"path:action={args.action_mode}:slots={args.slots}:mode={args.mode}:reward={args.reward}"


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy; its baselines choose slots in turn, by chance, always the third, and always the best quality."""
    return learn(args, PolicySpec(task(args)), baselines(args), progress)


def baselines(args: Args) -> Baselines:
    """Policies that are evaluated beside the learned one."""
    slots, ranks = (
        f"path:action={action}:slots={args.slots}:mode={args.mode}:reward={args.reward}"
        for action in ("direct", "ternary")
    )
    return {
        "random": (slots, session.uniform_random(args.seed)),
        "in turn": (slots, in_turn()),
        "third": (slots, session.constant(WIDEST)),
        "best quality": (ranks, session.constant(0)),
    }


def in_turn() -> ChooseActions:
    """The next slot of each environment that has a path, round and round."""
    at: list[np.ndarray] = []

    def choose(obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        before = at.pop() if at else np.full(len(obs), -1)
        slots = mask.shape[1]
        order = (before[:, None] + 1 + np.arange(slots)) % slots
        slots_chosen: np.ndarray = order[np.arange(len(obs)), np.take_along_axis(mask, order, 1).argmax(1)]
        at.append(slots_chosen)
        return slots_chosen

    return choose
