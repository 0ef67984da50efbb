"""Cumulative shares of sets of values, and pairs of values against each other, as SVG that stretches with the page.

What must not stretch is placed over it by percentage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from weftway.stats.estimates import quantile
from weftway.stats.units import Unit

from .axis import Axis
from .html import part
from .palette import Look
from .timeline import grid, time_axis

SIZE, HEIGHT = 1000, 100
PERCENT = Unit(100.0, "%", 0)
FARTHEST = 0.95
"""The share of the values that the axis of a cumulative chart reaches at least."""
BAND = 1.2
"""The thin lines beside equality: a fifth apart."""


@dataclass(frozen=True)
class Curve:
    """A line of a cumulative chart."""

    name: str
    look: Look
    values: Sequence[float]


def cumulative(curves: Sequence[Curve], lines: Iterable[tuple[float, str]]) -> Markup:
    """Up: the share of the values that are at most as large as the one along; `lines` are values with a name."""
    lines = list(lines)
    end = max([reach(curves), *(value for value, _ in lines)])
    drawn = [
        part("shape", "polyline", f"trace s{curve.look.hue}", steps(curve, end), dash=curve.look.dash)
        for curve in curves
    ]
    drawn += [part("stroke", "line", f"M{round(SIZE * value / end)} 0V{HEIGHT}") for value, _ in lines]
    scale = Axis(0.0, 1.0, 0.25)
    labels = [(at, text) for at, text in scale.labels(PERCENT) if at > 0]
    named = [(value / end, name) for value, name in lines]
    words = "; ".join(f"{curve.name}: half at most {PERCENT.value(quantile(curve.values, 0.5))}" for curve in curves)
    return part("cumulative", words, grid(scale), drawn, labels, named, time_axis(end, PERCENT, 6), curves)


def reach(curves: Iterable[Curve]) -> float:
    """End of the axis: few far values may fall off, since their cells are listed."""
    return max(0.10, *(1.1 * quantile(curve.values, FARTHEST) for curve in curves if curve.values))


def steps(curve: Curve, end: float) -> str:
    """A step up at each value, and on to the edge."""
    drawn, reached = [f"0,{HEIGHT}"], float(HEIGHT)
    kept = [value for value in sorted(curve.values) if value <= end]
    for rank, value in enumerate(kept, start=1):
        x = round(SIZE * value / end)
        drawn.append(f"{x},{reached:g}")
        reached = round(HEIGHT * (1 - rank / len(curve.values)), 1)
        drawn.append(f"{x},{reached:g}")
    return " ".join([*drawn, f"{SIZE},{reached:g}"])


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from `low` to `high`, with ticks at 1, 2, 5 of each power of ten."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Position from 0 to 1, kept on the axis."""
        place = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return min(place, 1.0)

    @property
    def ticks(self) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)))
        ticks = [m * 10.0**power for power in powers for m in (1, 2, 5)]
        return [tick for tick in ticks if self.low <= tick <= self.high]


def log_axis(values: Sequence[float]) -> LogAxis:
    """Over the values, with a margin."""
    return LogAxis(min(values) / 1.25, max(values) * 1.25)


@dataclass(frozen=True)
class Mark:
    """Pair of values: one along, with its interval, and one up."""

    along: float
    up: float
    interval: tuple[float, float]
    words: str
    """Words for a pointer over it."""
    link: str


def scatter(marks: Sequence[Mark], axis: LogAxis, look: Look) -> Markup:
    """A mark per pair. The thick line is equality."""
    paths = [
        ("grid", lattice(axis)),
        ("grid band", diagonal(axis, BAND) + diagonal(axis, 1 / BAND)),
        ("line", diagonal(axis, 1)),
        ("runs", "".join(interval(mark, axis) for mark in marks)),
    ]
    labels = [(axis.at(tick), f"{tick:g}") for tick in axis.ticks]
    return part("scatter", paths, labels, [(axis.at(m.along), axis.at(m.up), m) for m in marks], look)


def interval(mark: Mark, axis: LogAxis) -> str:
    low, high = (round(SIZE * axis.at(value)) for value in mark.interval)
    return f"M{low} {down(axis.at(mark.up))}H{high}"


def lattice(axis: LogAxis) -> str:
    places = [axis.at(tick) for tick in axis.ticks]
    return "".join(f"M{round(SIZE * at)} 0V{SIZE}M0 {down(at)}H{SIZE}" for at in places)


def diagonal(axis: LogAxis, ratio: float) -> str:
    """A line where the value up is so many times the one along."""
    left, right = max(axis.low, axis.low / ratio), min(axis.high, axis.high / ratio)
    ends = [(axis.at(x), axis.at(x * ratio)) for x in (left, right)]
    (x0, y0), (x1, y1) = [(round(SIZE * x), down(y)) for x, y in ends]
    return f"M{x0} {y0}L{x1} {y1}"


def down(at: float) -> int:
    """SVG counts from the top."""
    return round(SIZE * (1 - at))
