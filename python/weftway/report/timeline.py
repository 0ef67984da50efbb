"""Rates of paths over time, as SVG: small stacked charts for many runs, and lanes for one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from weftway.stats.units import Unit, unit_for

from .axis import Axis, from_zero
from .charts import panel, panels, titled
from .html import part
from .palette import Look
from .series import Timeline, Values, downs, points, stack

WIDTH, HEIGHT = 1000, 100
MULTIPLE_BINS = 48
MARKS = {"loss": ("loss", 82, HEIGHT), "rto": ("rto", 0, HEIGHT), "pto": ("rto", 0, HEIGHT)}


GAP = 5
"""Steps without a value that break a line."""


def small_multiples(timelines: Sequence[Timeline], look: Callable[[str], Look]) -> Markup:
    """The paths' rates stacked over time, one chart per run, all on one pair of axes."""
    thin = [timeline.thinned(MULTIPLE_BINS) for timeline in timelines]
    sums = [stack([path.get("mbps", []) for path in t.paths.values()]) for t in thin]
    high = whole_steps(max((max(edges[-1], default=0.0) for edges in sums if edges), default=0.0))
    end = max(t.end_ms for t in thin)
    clock = unit_for("time", [end])
    drawn = []
    for t, edges in zip(thin, sums, strict=True):
        name, cc = t.cell.scheduler, t.cell.cc
        words = f"{name} under {cc}: rate per path over {clock.value(end)}"
        body = part("multiple", words, stacked_areas(edges, t.step_ms, end, high), time_axis(end, clock, 3))
        drawn.append(panel(titled(look(name), name, cc), body, {"cc": cc}))
    return panels(drawn)


def whole_steps(top: float) -> Axis:
    """An axis from zero to the first tick at `top` or a hair below, so that its upper edge has a number."""
    step = from_zero(top, 4).step
    return Axis(0.0, max(math.ceil(top / step - 0.02), 1) * step, step)


def stacked_areas(edges: Sequence[list[float]], step_ms: float, end_ms: float, high: Axis) -> Markup:
    """Each area reaches down to the axis, and the lower ones are drawn over the upper."""
    unit = unit_for("rate", [high.high])
    shapes = [points(list(edge), step_ms, end_ms, high.high, WIDTH, HEIGHT) for edge in edges]
    areas = [part("shape", "polygon", f"p{Look(at).path}", grounded(shape)) for at, shape in enumerate(shapes)]
    labels = [(at, text + unit.suffix) for at, text in high.labels(unit) if at > 0][-1:]
    return part("plot", grid(high), areas[::-1], labels, "small", "y over")


def rate_lane(t: Timeline, name: str, place: int, axis: Axis) -> Markup:
    """A path's rate over time, with its losses, timeouts and outages."""
    unit = unit_for("rate", [axis.high])
    rate = line(t.paths[name].get("mbps", []), t.step_ms, t.end_ms, axis, name, f"area p{Look(place).path}")
    marks = [
        part("stroke", css, event_marks(t, name, kind, (upper, lower))) for kind, (css, upper, lower) in MARKS.items()
    ]
    losses = sum(e.get("kind") == "loss" and e.get("path") == name for e in t.events)
    # A run in which nobody recorded losses shows none, either.
    note = f"{unit.symbol} · {losses} lost" if losses else unit.symbol
    return lane(name, note, [*outage(t, name), rate, *marks], axis, unit, Look(place))


def lane(title: str, note: str, drawn: Sequence[Markup], axis: Axis, unit: Unit, look: Look | None = None) -> Markup:
    """A plot beside its title; a path's has its texture."""
    labels = [(at, text) for at, text in axis.labels(unit) if at > 0]
    plot = part("plot", grid(axis), drawn, labels)
    return part("lane", title, note, look, f"{axis.high * unit.factor:.4g}", plot)


def line(
    values: Values, step_ms: float, end_ms: float, axis: Axis, name: str, css: str, dash: str | None = None
) -> Markup:
    """A polyline with its name, broken where values are missing for long: while a path is down.

    The script reads values back off it by the lane's scale.
    """
    shapes = [points(stretch, step_ms, end_ms, axis.high, WIDTH, HEIGHT) for stretch in unbroken(values)]
    if css.startswith("area"):
        shapes = [grounded(shape) for shape in shapes]
    return Markup().join(part("shape", "polyline", css, shape, name, dash) for shape in shapes)


def unbroken(values: Values) -> list[Values]:
    """Copies of `values`, each with only one of the stretches that no long gap interrupts."""
    parts: list[Values] = []
    last = -GAP
    for at, value in enumerate(values):
        if value is None:
            continue
        if at - last >= GAP:
            parts.append([None] * len(values))
        parts[-1][at] = value
        last = at
    return parts


def grounded(shape: str) -> str:
    """The points with both ends brought down to the axis."""
    if not shape:
        return ""
    return f"{shape.split(',')[0]},{HEIGHT} {shape} {shape.split()[-1].split(',')[0]},{HEIGHT}"


def event_marks(t: Timeline, path: str, kind: str, span: tuple[int, int]) -> str:
    """A stroke per event; events that fall on one spot share it."""
    times = (e["t_ms"] for e in t.events if e.get("kind") == kind and e.get("path") == path)
    spots = 2 * t.steps
    places = sorted({round(spots * min(ms / t.end_ms, 1.0)) for ms in times})
    return "".join(f"M{round(WIDTH * place / spots)} {span[0]}V{span[1]}" for place in places)


def outage(t: Timeline, path: str) -> list[Markup]:
    """Shading while that path is down."""
    ends = ([round(WIDTH * min(ms / t.end_ms, 1.0)) for ms in stretch] for stretch in downs(t.events, path, t.end_ms))
    return [part("shade", left, right - left) for left, right in ends]


def grid(axis: Axis) -> str:
    """Path data of a horizontal line at each tick."""
    return "".join(f"M0 {round(HEIGHT * (1 - axis.at(tick)))}H{WIDTH}" for tick in axis.ticks)


def time_axis(end: float, clock: Unit, intervals: int) -> Markup:
    """Ticks of time from zero to the end; the last one says the unit."""
    labels = Axis(0.0, end, from_zero(end, intervals).step).labels(clock)
    labels[-1] = (labels[-1][0], labels[-1][1] + clock.suffix)
    return part("time", labels)
