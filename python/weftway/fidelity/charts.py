"""The two charts that the comparison's report has not: cumulative shares, and one side against the other.

Drawn as there: an SVG that stretches, and over it what must not, placed by percentage.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from weftway.report.axis import Axis
from weftway.report.charts import mark
from weftway.report.palette import Look
from weftway.report.timeline import canvas, time_axis, y_labels
from weftway.stats.estimates import quantile
from weftway.stats.units import Unit

from .cells import CONTROLLERS
from .errors import Difference

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

    @property
    def key(self) -> str:
        """For the legend."""
        return f'<span class="key">{stroke(self.look)}{escape(self.name)}</span>'


def stroke(look: Look) -> str:
    """A piece of a curve."""
    return (
        f'<svg class="stroke s{look.hue}" viewBox="0 0 28 8" aria-hidden="true">'
        f'<path d="M0 4H28" stroke-dasharray="{look.dash}"/></svg>'
    )


def cumulative(curves: Sequence[Curve], lines: Iterable[tuple[float, str]]) -> str:
    """Up: the share of cells with at most the error that is along; `lines` are errors with a name."""
    lines = list(lines)
    end = max([reach(curves), *(value for value, _ in lines)])
    drawn = "".join(
        f'<polyline class="trace s{c.look.hue}" {dashed(c.look)} points="{steps(c, end)}"/>' for c in curves
    )
    named = ""
    for row, (value, name) in enumerate(lines):
        at = value / end
        drawn += f'<path class="line" d="M{round(SIZE * at)} 0V{HEIGHT}"/>'
        # On the side where there is more room, and each in a row of its own.
        side = f"left:{100 * at:.1f}%" if at < 0.5 else f"right:{100 * (1 - at):.1f}%"
        named += f'<i class="at" style="{side};bottom:{0.2 + 1.1 * row:.1f}rem">{escape(name)}</i>'
    scale = Axis(0.0, 1.0, 0.25)
    words = "; ".join(f"{c.name}: half at most {PERCENT.value(quantile(c.values, 0.5))}" for c in curves)
    return (
        f'<div class="beside-labels" role="img" aria-label="{escape(words, quote=True)}">'
        f'<div class="plot cumulative">{canvas(drawn, scale)}{y_labels(scale, PERCENT)}{named}</div>'
        f"{time_axis(end, PERCENT, 6)}</div>"
    )


def dashed(look: Look) -> str:
    return f'stroke-dasharray="{look.dash}"' if look.dash else ""


def reach(curves: Iterable[Curve]) -> float:
    """Where the axis ends: few far values may fall off, since their cells are listed."""
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
        found = [m * 10.0**power for power in powers for m in (1, 2, 5)]
        return [tick for tick in found if self.low <= tick <= self.high]


def log_axis(values: Sequence[float]) -> LogAxis:
    """Over the values, with a margin."""
    return LogAxis(min(values) / 1.25, max(values) * 1.25)


def scatter(found: Sequence[Difference], axis: LogAxis) -> str:
    """A mark per cell: the kernel's goodput along, with its interval, ours up."""
    strokes = "".join(interval(one, axis) for one in found)
    drawn = (
        f'<path class="grid" d="{lattice(axis)}"/>'
        f'<path class="grid band" d="{diagonal(axis, BAND)}{diagonal(axis, 1 / BAND)}"/>'
        f'<path class="line" d="{diagonal(axis, 1)}"/><path class="runs" d="{strokes}"/>'
    )
    marks = "".join(point(one, axis) for one in found)
    numbers = [(axis.at(tick), f"{tick:g}") for tick in axis.ticks]
    along = "".join(f'<i style="left:{100 * at:.1f}%">{text}</i>' for at, text in numbers)
    up = "".join(f'<i class="y" style="bottom:{100 * at:.1f}%">{text}</i>' for at, text in numbers)
    return (
        f'<div class="plot square"><svg viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none" aria-hidden="true">'
        f'{drawn}</svg>{up}{marks}</div><span class="ticks time" aria-hidden="true">{along}</span>'
    )


def point(one: Difference, axis: LogAxis) -> str:
    left, up = 100 * axis.at(one.kernel_goodput_mbps), 100 * axis.at(one.sim_goodput_mbps)
    words = f"cell {one.cell}: kernel {one.kernel_goodput_mbps:.3g}, simulator {one.sim_goodput_mbps:.3g} Mbit/s"
    return (
        f'<a class="point" href="#cell-{one.cell}" tabindex="-1" title="{escape(words, quote=True)}" '
        f'style="left:{left:.2f}%;bottom:{up:.2f}%">{mark(cc_look(one.cc))}</a>'
    )


def interval(one: Difference, axis: LogAxis) -> str:
    low, high = (round(SIZE * axis.at(value)) for value in one.interval)
    return f"M{low} {down(axis.at(one.sim_goodput_mbps))}H{high}"


def lattice(axis: LogAxis) -> str:
    places = [axis.at(tick) for tick in axis.ticks]
    return "".join(f"M{round(SIZE * at)} 0V{SIZE}M0 {down(at)}H{SIZE}" for at in places)


def diagonal(axis: LogAxis, ratio: float) -> str:
    """Where ours is so many times the kernel's."""
    left, right = max(axis.low, axis.low / ratio), min(axis.high, axis.high / ratio)
    ends = [(axis.at(x), axis.at(x * ratio)) for x in (left, right)]
    (x0, y0), (x1, y1) = [(round(SIZE * x), down(y)) for x, y in ends]
    return f"M{x0} {y0}L{x1} {y1}"


def down(at: float) -> int:
    """SVG counts from the top."""
    return round(SIZE * (1 - at))


def cc_look(cc: str) -> Look:
    """A controller's colour and marker."""
    return Look(CONTROLLERS.index(cc) if cc in CONTROLLERS else len(CONTROLLERS))
