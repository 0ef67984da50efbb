"""Lee and Yoo's DQN for streaming: with what share do packets go on path 1 in the next 50 ms.

Nine inputs, three hidden layers of 24, seven ways to split: 1615 weights. Gamma 0.5, Adam at 5e-4, squared error,
batches of 20 and a target copied every 10 updates are the authors' public code; there a thread learns every 10 ms,
which is five updates in a slot of 50 ms. How exploration decays is left to a library there; here it goes from 1 to
0.05 over 2000 slots.

Reference: Lee and Yoo, 2022, and its public code; MPQUIC comparison, section 3.2.3 and Table 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from weftway.learn.train.dqn import EpsilonGreedy, QLearningArgs, learn
from weftway.learn.train.limits import CountOrNone, OneOf, Share
from weftway.learn.train.session import Progress, Trained, quiet

MIN_RTT = {"split7": 6, "table1": 1}
"""The action that is min-RTT."""


@dataclass(frozen=True, kw_only=True)
class Args(QLearningArgs):
    """Settings and their defaults."""

    steps: int = 40_000
    distribution: str = "streaming"
    cc: str = "cubic"
    gamma: float = 0.5
    learning_rate: float = 5e-4
    loss: str = "mse"
    batch: int = 20
    target_every: int = 10
    updates: int = 5
    network: str = "24-24-24"
    eps_over: CountOrNone = 2_000
    """Slots over which epsilon falls from 1 to `eps_last`."""
    eps_last: Share = 0.05
    """Final epsilon: the probability of a random split."""
    actions: Annotated[str, OneOf(*MIN_RTT)] = "split7"
    """`split7`, as in the public code, or `table1` (wait for the fastest path, or do not)."""

    ALGORITHM: ClassVar[str] = "lee-yoo"
    QUICK: ClassVar[Mapping[str, Any]] = {"steps": 8_000, "pool": 32, "trials": 16, "held_out": 16}


def task(args: Args) -> str:
    """The task these settings mean."""
    return f"split:actions={args.actions}"


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy."""
    explore = EpsilonGreedy(1.0, args.eps_last, args.eps_over)
    return learn(args, task(args), explore, {"min-rtt": MIN_RTT[args.actions]}, progress)
