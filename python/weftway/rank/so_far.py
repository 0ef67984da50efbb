"""Results of a ranking so far: a table for those who wait for the rest."""

import math
from collections import defaultdict

from weftway.report.interim import so_far
from weftway.stats.baselines import REFERENCE
from weftway.terminal.table import Table

TWICE = 2.0
"""The ratio that the highest bar stands for, and those above it."""


class SoFar:
    """Takes costs as they come."""

    def __init__(self) -> None:
        self._costs: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)

    def add(self, cell: str, seed: int, scheduler: str, cost: float) -> None:
        """A run has finished."""
        self._costs[cell, seed][scheduler] = cost

    def table(self) -> Table:
        """The geometric mean of costs over those of min-RTT in the same cell with the same seed, the best first."""
        names = dict.fromkeys(name for costs in self._costs.values() for name in costs)
        reference = REFERENCE if REFERENCE in names else next(iter(names), REFERENCE)
        ratios: dict[str, list[float]] = {name: [] for name in names}
        for costs in self._costs.values():
            for name, cost in costs.items():
                if reference in costs:
                    ratios[name].append(cost / costs[reference])
        means = {name: math.exp(sum(map(math.log, some)) / len(some)) for name, some in ratios.items() if some}
        ranked = sorted(means, key=means.__getitem__)
        lines = [([name], f"{means[name]:.3f}", ratios[name]) for name in ranked]
        title = f"cost over that of {reference} so far, geometric mean"
        return so_far(title, ["scheduler", "cost"], lines, TWICE, f"; the highest: {TWICE:g} and more")
