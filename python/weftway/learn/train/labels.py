"""Labels to learn from: what a scheduler saw, and which path an oracle inside the simulator would have taken.

The oracle knows queues, rates, delays and losses of every link (`crates/oracle`). What it says depends on what
was done before, so several behaviours take turns, second by second: the oracle's own, simple rules, chance, and the
policy that is being trained (DAgger), each as the name of a scheduler.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from weftway._native import ScenarioError, Variant, labels

BEHAVIOURS = ("oracle", "round-robin", "min-rtt", "uniform")
"""Who decides: the oracle, any living path with equal probability (`uniform`), or a scheduler."""

FEATURES = 6
"""Numbers that are seen of a path at the end of an interval: spare, throughput, cwnd, packets, loss, srtt."""
DATA = 2
"""Numbers that are seen of the data: the message at hand, and what is unsent."""

STEPS = 12
"""Intervals that are seen, unless the task says otherwise."""

Floats = NDArray[np.float32]
Whole = NDArray[np.int32]


@dataclass(frozen=True)
class Labels:
    """n questions over N slots and T steps."""

    X: Floats
    """(n, N, C, T): what was seen of each path, oldest step first."""
    c: Floats
    """(n, Cp, T): what was seen of the data."""
    alive: Floats
    """(n, N): 1 where a slot has a path."""
    label: Whole
    """(n,): the slot that the oracle would take."""
    margin: Floats
    """(n,): by how many seconds the second is worse."""
    costs: Floats
    """(n, N): what each slot costs, in seconds; infinite without a path."""
    taken: Whole
    """(n,): the slot that was taken."""
    instance: Whole
    """(n,): the number of the scenario; `weftway.learn.train.graph.fit.split` parts by it."""
    behaviour: Whole
    """(n,): the number of who took it."""
    episode: Whole
    """(n,): the number of the run."""
    message: Whole
    """(n,): the size of the message, in bytes."""

    def __len__(self) -> int:
        return len(self.label)

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Self:
        """The questions of a mask or of indices."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def joined(self, more: Self) -> Self:
        """These and more over the same scenarios: what a round of DAgger adds."""
        both = ((getattr(self, field.name), getattr(more, field.name)) for field in fields(self))
        return type(self)(*(np.concatenate(pair) for pair in both))

    def entropy(self) -> float:
        """Entropy of the labels, in bits; log2 N where all are as frequent."""
        share = np.bincount(self.label) / max(len(self), 1)
        share = share[share > 0]
        return float(-(share * np.log2(share)).sum())

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes one `.npz`, whole or not at all."""
        file = Path(file)
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            with unfinished.open("wb") as stream:
                np.savez_compressed(stream, allow_pickle=False, **{f.name: getattr(self, f.name) for f in fields(self)})
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> Self:
        """Reads what `save` wrote."""
        with np.load(file, allow_pickle=False) as held:
            return cls(*(held[field.name] for field in fields(cls)))


def steps(task: str) -> int:
    """Number of intervals that the task named `task` sees."""
    given = dict(part.split("=", 1) for part in task.split(":")[1:] if "=" in part)
    return int(given.get("steps", STEPS))


def collect(
    variants: Sequence[Variant],
    controllers: Sequence[str],
    episodes: int,
    seed: int,
    behaviours: Sequence[str] = BEHAVIOURS,
    task: str = "graph",
    threads: int = 1,
    basis: str = "message",
) -> Labels:
    """The questions of so many runs, over one of `variants` after the other.

    `task` is `graph` with its switches; it has a slot for each path. The same arguments give the same numbers, however
    many threads there are. `basis` is for which data a path is best: the `message` at hand, or all that its size class
    brings until the `interval` ends, which is what an answer binds that holds for the interval. Raises ScenarioError
    for names that make no sense.
    """
    held = labels(list(variants), list(controllers), episodes, seed, list(behaviours), task, threads, basis)
    whole = {name: np.frombuffer(held[name], np.int32) for name in WHOLE}
    n = len(whole["label"])
    if n == 0:
        raise ScenarioError("the episodes asked no question: nothing to learn from")
    margin = np.frombuffer(held["margin"], np.float32)
    costs = np.frombuffer(held["costs"], np.float32).reshape(n, -1)
    seen = np.frombuffer(held["seen"], np.float32).reshape(n, -1)
    slots, deep = costs.shape[1], steps(task)
    ends = np.cumsum([slots * FEATURES * deep, DATA * deep])
    x, c, alive = np.split(seen, ends, axis=1)
    return Labels(
        X=x.reshape(n, slots, FEATURES, deep),
        c=c.reshape(n, DATA, deep),
        alive=alive,
        margin=margin,
        costs=costs,
        **whole,
    )


WHOLE = ("label", "taken", "instance", "behaviour", "episode", "message")
