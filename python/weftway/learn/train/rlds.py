"""RLDS: a Q-learner names the path of the next 100 ms.

Its inputs, network and constants are not printed where it is cited; they are those of PDAA3C here, so that the two
differ in the learner alone: five numbers of each path, and the task's quality of each, to 64, 64, and a value per
path. Slots without a path are closed. In the cited comparisons it still explores with probability 0.02 at work; an
exported policy takes the best path always.

Reference: Luo, Su and Liu, 2019, as a baseline of PDAA3C and of STSGAT.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from weftway.learn.train.dqn import EpsilonGreedy, QLearningArgs, learn
from weftway.learn.train.limits import CountOrNone, Mode, OneOf, Share, Slots
from weftway.learn.train.session import Progress, Trained, quiet


@dataclass(frozen=True, kw_only=True)
class Args(QLearningArgs):
    """Settings and their defaults."""

    steps: int = 60_000
    distribution: str = "four-paths"
    cc: str = "bbr1"
    gamma: float = 0.7
    learning_rate: float = 5e-4
    target_every: int = 200
    eps_over: CountOrNone = 3_000
    """Decisions over which epsilon falls from 1 to `eps_last`."""
    eps_last: Share = 0.05
    """Final epsilon: the probability of a random open path."""
    slots: Slots = 4
    """Number of paths in the observation."""
    mode: Mode = "exclusive"
    """Use of the chosen path for new data: alone (`exclusive`) or before the others (`preferred`)."""
    reward: Annotated[str, OneOf("log", "rate")] = "log"
    """Reward of an interval: `log`, the sum of the paths' log throughputs as in PDAA3C; or `rate`, the throughput."""

    ALGORITHM: ClassVar[str] = "rlds"
    QUICK: ClassVar[Mapping[str, Any]] = {"steps": 10_000, "pool": 32, "trials": 16, "held_out": 16}


def task(args: Args) -> str:
    """The task these settings mean."""
    return f"path:action=direct:slots={args.slots}:mode={args.mode}:reward={args.reward}"


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy."""
    return learn(args, task(args), EpsilonGreedy(1.0, args.eps_last, args.eps_over), progress=progress)
