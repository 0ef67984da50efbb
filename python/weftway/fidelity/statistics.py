"""Medians, quantiles and bootstrap intervals. Pure functions."""

import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

RESAMPLES = 2000
LEVEL = 0.95


class Interval(NamedTuple):
    """Where a value lies with 95 % confidence."""

    low: float
    high: float


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


def bootstrap(values: Sequence[float], seed: str) -> Interval:
    """The percentile interval of the median (Efron, 1979) over `RESAMPLES` samples drawn with repetition.

    With five values or fewer it is nearly always from the least to the largest: few runs say little.
    """
    random, count = Random(seed), len(values)
    medians = [median([values[int(random.random() * count)] for _ in range(count)]) for _ in range(RESAMPLES)]
    tail = (1 - LEVEL) / 2
    return Interval(quantile(medians, tail), quantile(medians, 1 - tail))


def beyond(value: float, interval: Interval) -> float:
    """How far outside: above it positive, below it negative, inside zero."""
    return max(value - interval.high, 0.0) + min(value - interval.low, 0.0)
