"""Means with Student's t intervals, alone and paired by seed.

The t quantile comes from the closed form of P(|T| < t) for whole degrees of freedom
(Abramowitz and Stegun, 26.7.3 and 26.7.4), inverted by bisection: exact, and no table to copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` runs; `half` is half the width of its interval, absent for a single run."""

    mean: float
    half: float | None
    n: int

    @property
    def low(self) -> float:
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half or 0.0)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval exists and lies on one side of zero."""
        return self.half is not None and (self.low > 0 or self.high < 0)


def within(t: float, df: int) -> float:
    """P(|T| < t) for Student's t with `df` degrees of freedom."""
    theta = math.atan(t / math.sqrt(df))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = df % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(1 + odd, df, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    return 2 / math.pi * (theta + sine * total) if odd else sine * total


@cache
def t_quantile(df: int, level: float = LEVEL) -> float:
    """The t with P(|T| < t) = level: half the width of a two-sided interval, in standard errors."""
    low, high = 0.0, 1.0
    while within(high, df) < level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, df) < level else (low, middle)
    return high


def estimate(values: Iterable[float]) -> Estimate | None:
    """Mean and 95 % interval of independent runs; `None` when there is no run."""
    sample = list(values)
    n = len(sample)
    if n == 0:
        return None
    mean = math.fsum(sample) / n
    if n == 1:
        return Estimate(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in sample) / (n - 1)
    return Estimate(mean, t_quantile(n - 1) * math.sqrt(variance / n), n)


ENCLOSED = 0.93
"""How surely the interval of a median holds it: with five runs, from the least to the largest (1 − 2/2⁵ = 0.9375)."""


def middle(values: Iterable[float]) -> Estimate | None:
    """Median of runs that may have modes and strays, and half of the narrowest interval between order statistics
    that encloses it with `ENCLOSED`; with fewer than five runs, from the least to the largest.

    The k-th least and the k-th largest of n enclose it with 1 − 2·P(B < k), B binomial of n and a half.
    """
    sample = sorted(values)
    n = len(sample)
    if n == 0:
        return None
    median = (sample[(n - 1) // 2] + sample[n // 2]) / 2
    if n == 1:
        return Estimate(median, None, 1)
    k, below = 0, 1
    while k + 1 < (n + 1) // 2 and 1 - 2 * (below + math.comb(n, k + 1)) / 2**n >= ENCLOSED:
        k += 1
        below += math.comb(n, k)
    return Estimate(median, (sample[n - 1 - k] - sample[k]) / 2, n)


def paired(ours: Mapping[object, float], reference: Mapping[object, float]) -> Estimate | None:
    """Estimate of ours − reference over the seeds both have: what the seeds share cancels."""
    return estimate(value - reference[seed] for seed, value in ours.items() if seed in reference)
