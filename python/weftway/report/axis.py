"""A linear axis: its domain, where its ticks stand, and where a value falls on it. Outliers may lie beyond its ends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import quantiles

from weftway.stats.units import Unit

PADDING = 0.04

FENCE = 3
"""Quartile distances beyond the quartiles from which a value can be an outlier."""

SQUEEZED = 3
"""Outliers are left beyond the axis if it would be so many times as long with them."""


@dataclass(frozen=True)
class Axis:
    """The stretch from `low` to `high` with ticks every `step`."""

    low: float
    high: float
    step: float

    def at(self, value: float) -> float:
        """Position from 0 to 1, kept on the axis."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def holds(self, value: float) -> bool:
        """Says whether the value lies between the ends."""
        return self.low <= value <= self.high

    @property
    def ticks(self) -> list[float]:
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        return [i * self.step for i in range(first, last + 1)]

    def labels(self, unit: Unit) -> list[tuple[float, str]]:
        """Position and text of each tick, with just the digits that tell ticks apart."""
        digits = max(0, -math.floor(math.log10(self.step * unit.factor) + 1e-9))
        return [(self.at(tick), unit.number(tick, digits)) for tick in self.ticks]


def axis(values: Iterable[float], include: Iterable[float] = (), intervals: int = 4) -> Axis:
    """An axis over the values; from zero when they spread over half of their size, or not at all."""
    kept = list(values)
    low = min(kept, default=0.0)
    high = max(kept, default=1.0)
    low, high = min([low, *include]), max([high, *include])
    if 0 < low < high / 2 or 0 < low == high:
        low = 0.0
    margin = (high - low or abs(high) or 1.0) * PADDING
    low = 0.0 if low == 0 and high > 0 else low - margin
    high += margin
    return Axis(low, high, nice_step((high - low) / intervals))


def most(values: Iterable[float]) -> list[float]:
    """The values without outliers that would squeeze all others into a corner of the axis."""
    kept = sorted(values)
    if len(kept) < 4:
        return kept
    first, middle, third = quantiles(kept, n=4)
    fence = FENCE * max(third - first, abs(middle) / 100)
    inside = [value for value in kept if first - fence <= value <= third + fence]
    return inside if kept[-1] - kept[0] > SQUEEZED * (inside[-1] - inside[0]) else kept


def from_zero(top: float, intervals: int = 3) -> Axis:
    """An axis from zero to a little above `top`."""
    high = top * (1 + PADDING) if top > 0 else 1.0
    return Axis(0.0, high, nice_step(high / intervals))


def nice_step(rough: float) -> float:
    """The 1, 2 or 5 times a power of ten nearest above `rough` × 0.75."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.75)
