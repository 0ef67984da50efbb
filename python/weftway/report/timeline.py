"""What each path carried, as SVG: small stacked charts for many runs, and lanes for one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from weftway.stats.units import Unit, unit_for

from .axis import Axis, from_zero
from .charts import mark, panel
from .palette import Look
from .series import Timeline, Values, downs, points, stack
from .study import Study

WIDTH, HEIGHT = 1000, 100
MULTIPLE_BINS = 48
MARKS = {"loss": ("loss", 82, HEIGHT), "rto": ("rto", 0, HEIGHT), "pto": ("rto", 0, HEIGHT)}


GAP = 5
"""So many steps without a value break a line."""


def small_multiples(study: Study, timelines: Sequence[Timeline]) -> str:
    """The paths' rates stacked over time, one chart per run, all on one pair of axes."""
    thin = [timeline.thinned(MULTIPLE_BINS) for timeline in timelines]
    sums = [stack([path.get("mbps", []) for path in t.paths.values()]) for t in thin]
    high = whole_steps(max((max(edges[-1], default=0.0) for edges in sums if edges), default=0.0))
    end = max(t.end_ms for t in thin)
    unit, clock = unit_for("rate", [high.high]), unit_for("time", [end])
    charts = (multiple(study, t, edges, high, end, unit, clock) for t, edges in zip(thin, sums, strict=True))
    return f'<div class="panels">{"".join(charts)}</div>'


def whole_steps(top: float) -> Axis:
    """An axis from zero to the first tick at `top` or a hair below, so that its upper edge has a number."""
    step = from_zero(top, 4).step
    return Axis(0.0, max(math.ceil(top / step - 0.02), 1) * step, step)


def multiple(
    study: Study, t: Timeline, edges: list[list[float]], high: Axis, end: float, unit: Unit, clock: Unit
) -> str:
    """One run: each area reaches down to the axis, and the lower ones are drawn over the upper."""
    shapes = [points(list(edge), t.step_ms, end, high.high, WIDTH, HEIGHT) for edge in edges]
    areas = [f'<polygon class="p{Look(i).path}" points="{grounded(shape)}"/>' for i, shape in enumerate(shapes)]
    name, cc = t.cell.scheduler, t.cell.cc
    title = f"{mark(study.look(name))}{escape(name)} <small>{escape(cc)}</small>"
    labels = y_labels(high, unit, last_only=True)
    plot = f'<div class="plot small">{canvas("".join(reversed(areas)), high)}{labels}</div>'
    words = f"{name} under {cc}: rate per path over {clock.value(end)}"
    body = f'<div role="img" aria-label="{escape(words, quote=True)}">{plot}{time_axis(end, clock, 3)}</div>'
    return panel(title, body, {"cc": cc})


def rate_lane(t: Timeline, name: str, place: int, axis: Axis) -> str:
    unit = unit_for("rate", [axis.high])
    drawn = outage(t, name) + line(t, t.paths[name].get("mbps", []), axis, name, f"area p{Look(place).path}")
    for kind, (css, upper, lower) in MARKS.items():
        drawn += event_marks(t, name, kind, css, (upper, lower))
    losses = sum(e.get("kind") == "loss" and e.get("path") == name for e in t.events)
    # A run in which nobody recorded losses shows none, either.
    note = f"{unit.symbol} · {losses} lost" if losses else unit.symbol
    title = f'<i class="swatch p{Look(place).path}" aria-hidden="true"></i>{escape(name)}'
    return lane(title, note, drawn, axis, unit)


def lane(title: str, note: str, drawn: str, axis: Axis, unit: Unit) -> str:
    return (
        f'<div class="lane" data-top="{axis.high * unit.factor:.4g}"><span class="name">{title}<small>{note}</small>'
        f'<output class="reading-values" aria-live="off"></output></span>'
        f'<div class="plot">{canvas(drawn, axis)}{y_labels(axis, unit)}</div></div>'
    )


def line(t: Timeline, values: Values, axis: Axis, name: str, css: str, dash: str = "") -> str:
    """A polyline with its name, broken where values are missing for long: while a path is down.

    The script reads values back off it by the lane's scale.
    """
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    named = f' data-name="{escape(name, quote=True)}"'
    drawn = ""
    for part in unbroken(values):
        shape = points(part, t.step_ms, t.end_ms, axis.high, WIDTH, HEIGHT)
        if css.startswith("area"):
            shape = grounded(shape)
        drawn += f'<polyline class="{css}"{named}{dashes} points="{shape}"/>'
    return drawn


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


def event_marks(t: Timeline, path: str, kind: str, css: str, span: tuple[int, int]) -> str:
    """A stroke per event; events that fall on one spot share it."""
    times = (e["t_ms"] for e in t.events if e.get("kind") == kind and e.get("path") == path)
    spots = 2 * t.steps
    places = sorted({round(spots * min(ms / t.end_ms, 1.0)) for ms in times})
    strokes = "".join(f"M{round(WIDTH * place / spots)} {span[0]}V{span[1]}" for place in places)
    return f'<path class="{css}" d="{strokes}"/>' if strokes else ""


def outage(t: Timeline, path: str) -> str:
    """Shading while that path is down."""
    return "".join(shade(start, end, t.end_ms) for start, end in downs(t.events, path, t.end_ms))


def shade(start: float, end: float, whole: float) -> str:
    left, right = (round(WIDTH * min(ms / whole, 1.0)) for ms in (start, end))
    return f'<rect class="down" x="{left}" y="0" width="{right - left}" height="{HEIGHT}"/>'


def canvas(drawn: str, axis: Axis) -> str:
    grid = "".join(f"M0 {round(HEIGHT * (1 - axis.at(tick)))}H{WIDTH}" for tick in axis.ticks)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="grid" d="{grid}"/>{drawn}</svg>'
    )


def y_labels(axis: Axis, unit: Unit, last_only: bool = False) -> str:
    labels = [(at, text) for at, text in axis.labels(unit) if at > 0]
    if last_only:
        labels = [(at, text + unit.suffix) for at, text in labels[-1:]]
    css = "y over" if last_only else "y"
    return "".join(f'<i class="{css}" style="bottom:{100 * at:.1f}%">{text}</i>' for at, text in labels)


def time_axis(end: float, clock: Unit, intervals: int) -> str:
    """Ticks of time from zero to the end; the last one says the unit."""
    scale = Axis(0.0, end, from_zero(end, intervals).step)
    labels = scale.labels(clock)
    labels[-1] = (labels[-1][0], labels[-1][1] + clock.suffix)
    marks = "".join(f'<i class="{time_edge(at)}" style="left:{100 * at:.1f}%">{text}</i>' for at, text in labels)
    return f'<span class="ticks time">{marks}</span>'


def time_edge(at: float) -> str:
    return "from-left" if at < 0.03 else "from-right" if at > 0.95 else "centred"
