"""Means, medians and quantiles, and how sure they are. Pure functions.

Intervals of means are Student's t, alone and paired by seed; of what has no such formula, the bootstrap's.

The t quantile comes from the closed form of P(|T| < t) for whole degrees of freedom
(Abramowitz and Stegun, 26.7.3 and 26.7.4), inverted by bisection: exact, and no table to copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from operator import itemgetter
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

LEVEL = 0.95

RESAMPLES = 2000
"""Resamples of a bootstrap: 50 of them lie beyond each end of the interval."""


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` runs; `half` is half the width of its interval, absent for a single run."""

    mean: float
    half: float | None
    n: int
    ends: tuple[float, float] | None = field(default=None, compare=False)
    """Ends of an interval that reaches less far on one side than on the other."""
    coverage: float = field(default=LEVEL, compare=False)
    """Coverage: how surely the interval holds what is estimated."""
    is_median: bool = field(default=False, compare=False)

    @property
    def low(self) -> float:
        return self.ends[0] if self.ends else self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        return self.ends[1] if self.ends else self.mean + (self.half or 0.0)

    @property
    def excludes_zero(self) -> bool:
        """Tells if the interval exists and lies on one side of zero."""
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
def t_quantile(df: int) -> float:
    """The t with P(|T| < t) = `LEVEL`: half the width of a two-sided interval, in standard errors."""
    low, high = 0.0, 1.0
    while within(high, df) < LEVEL:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, df) < LEVEL else (low, middle)
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
"""Least coverage of the interval of a median: with five runs, from the least to the largest
(1 − 2/2⁵ = 0.9375)."""
FEWEST = 5
"""Of fewer values there is no interval worth the name: what is told is their range, which holds the median of what they
are drawn from in 1 − 2/2ⁿ of cases, 50 % with two, 75 % with three, 88 % with four."""


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
        return Estimate(median, None, 1, is_median=True)
    k, coverage = order(n)
    low, high = sample[k], sample[n - 1 - k]
    return Estimate(median, (high - low) / 2, n, (low, high), coverage, is_median=True)


@cache
def order(n: int) -> tuple[int, float]:
    """Which of n sorted values, from either end, bound the narrowest interval of their median, and how surely it holds
    it."""
    k, below = 0, 1
    while k + 1 < (n + 1) // 2 and 1 - 2 * (below + math.comb(n, k + 1)) / 2**n >= ENCLOSED:
        k += 1
        below += math.comb(n, k)
    return k, 1 - 2 * below / 2**n


def interval_of_median(counts: Iterable[int]) -> str:
    """Name of what stands after the ± of medians of so many runs: of fewer than five runs the range.

    >>> interval_of_median([3]), interval_of_median([5]), interval_of_median([5, 6])
    ('half the range', '93 % interval', '93 to 96 % interval')
    >>> interval_of_median([3, 5])
    '93 % interval (of fewer than 5 runs half the range)'
    """
    several = {n for n in counts if n > 1}
    covers = sorted({math.floor(100 * order(n)[1]) for n in several if n >= FEWEST})
    if not covers:
        return "half the range"
    span = f"{covers[0]}" if len(covers) == 1 else f"{covers[0]} to {covers[-1]}"
    few = f" (of fewer than {FEWEST} runs half the range)" if min(several) < FEWEST else ""
    return f"{span} % interval{few}"


def interval_of(n: int, what: str) -> str:
    """Name of the interval over n values that comes from resampling them.

    >>> interval_of(13, "cells"), interval_of(3, "cells")
    ('95 % interval', 'range of 3 cells')
    """
    return f"{100 * LEVEL:.0f} % interval" if n >= FEWEST else f"range of {n} {what}"


def paired(ours: Mapping[object, float], reference: Mapping[object, float]) -> Estimate | None:
    """Estimate of ours − reference over the seeds both have: what the seeds share cancels."""
    return estimate(value - reference[seed] for seed, value in ours.items() if seed in reference)


LEVEL_WITHIN = 0.02
"""Two are level where the interval of their ratio lies within so much of 1: an equivalence test (Schuirmann, 1987) at
2.5 % a side. An interval that merely includes 1 says that they are not told apart, and the wider, the less it says."""


def ratio(ours: Mapping[object, float], reference: Mapping[object, float]) -> Estimate | None:
    """Estimate of ours ÷ reference, less one, over the seeds both have: the geometric mean, and Student's interval of
    the logarithms' mean.

    Where a value is zero or below, and so has no logarithm, it is the mean difference as a share of the reference's
    mean. `None` without a seed in common, or where one of the two is zero throughout and the other is not.

    >>> found = ratio({0: 2.0, 1: 8.0}, {0: 1.0, 1: 2.0})
    >>> round(found.mean + 1, 3), found.n  # the square root of 2 · 4
    (2.828, 2)
    """
    pairs = [(value, reference[seed]) for seed, value in ours.items() if seed in reference]
    if all(mine == theirs or min(mine, theirs) > 0 for mine, theirs in pairs):
        logs = estimate(0.0 if mine == theirs else math.log(mine / theirs) for mine, theirs in pairs)
        if logs is None or logs.half is None:
            return logs and Estimate(math.expm1(logs.mean), None, logs.n)
        low, high = math.expm1(logs.low), math.expm1(logs.high)
        return Estimate(math.expm1(logs.mean), (high - low) / 2, logs.n, (low, high))
    scale = abs(math.fsum(theirs for _, theirs in pairs) / len(pairs))
    gap = estimate(mine - theirs for mine, theirs in pairs)
    if gap is None or not scale or not any(mine for mine, _ in pairs):
        return None
    return Estimate(gap.mean / scale, None if gap.half is None else gap.half / scale, gap.n)


def is_level(ratio: Estimate) -> bool:
    """Tells if a ratio, less one, is sure to lie within `LEVEL_WITHIN` of zero."""
    return ratio.half is not None and ratio.low >= -LEVEL_WITHIN and ratio.high <= LEVEL_WITHIN


class Interval(NamedTuple):
    """Interval in which a value lies with 95 % confidence."""

    low: float
    high: float


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of values above zero.

    >>> round(geometric_mean([1.0, 4.0]), 9)
    2.0
    """
    return math.exp(fmean(map(math.log, values)))


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle."""
    return quantile(values, 0.5)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share lies: straight between the nearest two of the sorted values.

    >>> quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.9)
    4.6
    """
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


ROUNDING = 1e-9
"""Error that the product of a share and a count may have."""


def covering(values: Sequence[float], share: float) -> float:
    """Least of the values that this share of them does not exceed.

    >>> covering([1.0, 2.0, 3.0, 4.0], 0.75), covering([1.0, 2.0, 3.0, 4.0], 0.95)
    (3.0, 4.0)
    """
    return sorted(values)[math.ceil(share * len(values) - ROUNDING) - 1]


def bootstrap(
    values: Sequence[float], seed: str, statistic: Callable[[list[float]], float] = median, interpolate: bool = True
) -> Interval:
    """The percentile interval of a statistic (Efron, 1979) over `RESAMPLES` samples drawn with repetition.

    The draws follow from `seed`, so that equal values give equal intervals. The ends lie straight between the nearest
    two resamples, or where not to `interpolate`, at the resample that leaves its share beyond it. Of fewer than
    `FEWEST` values it is their range, and `interval_of` calls it so. The interval of a median of five is their range as
    well, and holds it in 94 % of cases.
    """
    if len(values) < FEWEST:
        return Interval(min(values), max(values))
    statistics = sorted(statistic(list(drawn(values))) for drawn in _draws(seed, len(values)))
    tail = (1 - LEVEL) / 2
    if interpolate:
        return Interval(quantile(statistics, tail), quantile(statistics, 1 - tail))
    beyond = round(RESAMPLES * tail)
    return Interval(statistics[beyond], statistics[-1 - beyond])


@lru_cache(maxsize=2)
def _draws(seed: str, count: int) -> list[itemgetter[Any]]:
    """Places in `count` values of each of `RESAMPLES` samples. Kept: all schedulers of a ranking have the same."""
    uniform = Random(seed).random  # the one sequence that Python promises to keep
    return [itemgetter(*(int(uniform() * count) for _ in range(count))) for _ in range(RESAMPLES)]


def beyond(value: float, interval: Interval) -> float:
    """Distance from the interval: above it positive, below it negative, inside zero."""
    return max(value - interval.high, 0.0) + min(value - interval.low, 0.0)
