"""Rosello's DQN for 5G: which of two paths for every packet while both have room.

Public forks of the author's code have 6-8-8-2 and 12-16-16-2 networks, Adam at 1e-3, a target network that follows by
1e-4, 200 transitions of warm-up, no double DQN, and a Boltzmann policy whose temperature falls from 1 to 0.01 over 80 %
of the training. There the client writes its episodes down and a trainer reads them later; here the learner acts
itself. Gamma is not printed. The exported policy takes the better path, the limit of the forks' temperature of 0.001.

Reference: Rosello, 2019; MPQUIC comparison, section 3.2.4 and Table 1; public forks of the author's code.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from weftway.learn.train.dqn import Boltzmann, QLearningArgs, learn
from weftway.learn.train.limits import WIDTHS, OneOf, Pattern, Positive
from weftway.learn.train.session import Progress, Trained, quiet

NETWORKS = {"6": "8-8", "12": "16-16"}
"""Hidden layers by how much is seen."""


@dataclass(frozen=True, kw_only=True)
class Args(QLearningArgs):
    """Settings and their defaults."""

    steps: int = 400_000
    distribution: str = "five-g"
    cc: str = "cubic"
    gamma: float = 0.99
    network: Annotated[str, Pattern(f"({WIDTHS})?", "widths from 1 to 99999 joined by hyphens, such as 8-8")] = ""
    """Widths of the hidden layers; if not given, 8-8 for six inputs and 16-16 for twelve."""
    target_every: int = 0
    state: Annotated[str, OneOf(*NETWORKS)] = "6"
    """Size of the observation: 6 or 12 numbers."""
    hot: Positive = 1.0
    """Initial temperature of exploration."""
    cold: Positive = 0.01
    """The temperature after 80 % of the decisions."""

    ALGORITHM: ClassVar[str] = "rosello"
    QUICK: ClassVar[Mapping[str, Any]] = {"steps": 40_000, "pool": 64, "trials": 16}

    @property
    def widths(self) -> list[int]:
        """The hidden layers."""
        return [int(width) for width in (self.network or NETWORKS[self.state]).split("-")]


def task(args: Args) -> str:
    """The task these settings mean."""
    return f"pick:state={args.state}"


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy."""
    explore = Boltzmann(args.hot, args.cold, 0.8 * args.steps)
    return learn(args, task(args), explore, progress=progress)
