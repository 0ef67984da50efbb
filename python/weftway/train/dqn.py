"""DQN of the comparison of MPQUIC schedulers: wait for the full fast path, or send on the slow one.

Six inputs, two hidden layers of six, two outputs: 98 weights. The paper trains off line under BBRv1 alone and then
freezes; its open question, one scheduler for every controller, has an answer of ours in
`--cc bbr1,cubic,bbr2 --state controller --network 64-64`, which sees how a controller behaves.

Reference: MPQUIC comparison of min-RTT, ECF, BLEST, Q-learning, DQN and UCB, section 4.2 and Table 1. It prints the
inputs, the layers, the actions and the kind of reward. Optimiser, loss, replay, gamma and exploration are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from weftway.train.limits import CountOrNone, OneOf, Share, Whole
from weftway.train.q_learning import Course, Epsilon, Learner, learn
from weftway.train.session import Progress, Trained, quiet


@dataclass(frozen=True, kw_only=True)
class Args(Learner):
    """Settings, and what they are if not given."""

    steps: int = 400_000
    distribution: str = "mpquic-pair"
    cc: str = "bbr1"
    network: str = "6-6"
    eps_over: CountOrNone = 5_000
    """Decisions over which exploration goes from always to `eps_last`."""
    eps_last: Share = 0.05
    """The probability of any action at all from then on."""
    state: Annotated[str, OneOf("paper", "credit", "controller")] = "paper"
    """What is seen: `paper` (6 numbers), `credit` (7) or `controller` (18)."""
    reward: Annotated[str, OneOf("delivery", "bytes")] = "delivery"
    """What is earned: `delivery` (throughput less round-trip time) or `bytes`."""
    w0_kb: Annotated[int, Whole(1, 1_000_000)] = 1000
    """The window that counts as 1, in kB."""

    ALGORITHM: ClassVar[str] = "dqn"
    QUICK: ClassVar[Mapping[str, Any]] = {"steps": 40_000, "envs": 64, "pool": 64, "trials": 16}


def task(args: Args) -> str:
    """The task these settings mean."""
    return f"wait-or-send:state={args.state}:reward={args.reward}:w0_kb={args.w0_kb}"


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy; always sending on S is min-RTT."""
    explore = Epsilon(1.0, args.eps_last, args.eps_over)
    return learn(args, Course(task(args), explore, {"min-rtt": 1, "wait": 0}), progress)
