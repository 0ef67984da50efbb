"""Charts as plain HTML and SVG that stretch with the page, need no script and follow its theme.

A chart is a grid of rows: a name, a track, a number. The track is an SVG of 1000 × 24 units drawn
without keeping its aspect ratio (strokes keep their width), so that a phone and a desk get the same
markup; markers, which must not stretch, are placed over it by percentage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from weftway.stats.estimates import Estimate
from weftway.stats.units import Unit

from .axis import Axis
from .html import part
from .palette import SHAPES, Look

WIDTH = 1000
ROW = 24

MARKS = {
    "circle": '<circle cx="8" cy="8" r="5.5"/>',
    "square": '<rect x="3" y="3" width="10" height="10" rx="1"/>',
    "diamond": '<path d="M8 1.5 14.5 8 8 14.5 1.5 8z"/>',
    "triangle-up": '<path d="M8 2 14.5 13.5h-13z"/>',
    "cross": '<path d="M6 2h4v4h4v4h-4v4H6v-4H2V6h4z"/>',
    "triangle-down": '<path d="M8 14 1.5 2.5h13z"/>',
}


@dataclass(frozen=True)
class Dot:
    """Row of a dot chart: a mean, its interval, the single runs behind it, and its text."""

    name: str
    look: Look
    estimate: Estimate | None
    seeds: Sequence[float]
    text: str
    remark: str = ""
    equals: Sequence[str] = ()
    """Others with the very same values."""
    hint: str = ""
    """Words for a pointer over the row."""
    keep: bool = False
    """True if the row stays in sight when others are folded."""
    tag: str = ""
    """A mark beside the name."""


@dataclass(frozen=True)
class Share:
    """Row of a stacked bar: parts that add up to 1, each with the look of its path."""

    name: str
    look: Look | None
    parts: Sequence[tuple[str, Look, float]]
    equals: Sequence[str] = ()
    keep: bool = False
    tag: str = ""


def symbols() -> Markup:
    """The marker shapes, once per page."""
    return part("symbols", [MARKS[shape] for shape in SHAPES])


def panel(title: str, body: Markup, filters: Mapping[str, str | None] | None = None) -> Markup:
    """A titled chart that the page's filters can show or hide."""
    return part("panel", title, body, {f"data-{key}": value for key, value in (filters or {}).items()})


def panels(drawn: Iterable[Markup]) -> Markup:
    """Panels side by side; nothing without any."""
    kept = list(drawn)
    return part("panels", kept) if kept else Markup()


def titled(look: Look | None, name: str, small: str = "") -> Markup:
    """The title of a panel: a marker, a name, and words in small print."""
    return part("titled", look, name, small)


def dots(rows: Sequence[Dot], axis: Axis, unit: Unit, lines: Sequence[tuple[float, str]] = ()) -> Markup:
    """Mean and interval per row; `lines` are reference values drawn through all rows, with a name."""
    ticks = axis.labels(unit)
    ticks[-1] = (ticks[-1][0], ticks[-1][1] + unit.suffix)
    named = [(axis.at(value), edge(axis.at(value)), name) for value, name in lines if name]
    return part("dots", [(row, track(row, axis, lines)) for row in rows], axis, ticks, named)


def track(row: Dot, axis: Axis, lines: Sequence[tuple[float, str]]) -> list[tuple[str, str]]:
    """Grid, reference lines, a tick for every single run, and the interval: the class and data of each path."""
    single = [value for value in row.seeds if axis.holds(value)]
    paths = [
        ("grid", verticals(axis.ticks, axis, 0, ROW)),
        ("line", verticals([value for value, _ in lines], axis, 0, ROW)),
        ("runs", verticals(single, axis, 7, ROW - 7) if len(row.seeds) > 1 else ""),
    ]
    if row.estimate is not None and row.estimate.half is not None:
        low, high = (round(WIDTH * axis.at(value)) for value in (row.estimate.low, row.estimate.high))
        paths.append((f"interval s{row.look.hue}", f"M{low} {ROW // 2}H{high}"))
    return paths


def verticals(values: Sequence[float], axis: Axis, top: int, bottom: int) -> str:
    """Path data of a vertical stroke at each value."""
    return "".join(f"M{round(WIDTH * axis.at(v))} {top}V{bottom}" for v in values)


def edge(at: float) -> str:
    """Side that a label grows to, so that it stays on the chart."""
    return "from-left" if at < 0.25 else "from-right" if at > 0.75 else "centred"


def stacked(rows: Sequence[Share]) -> Markup:
    """A bar of parts per row, labelled inside where a part is wide enough."""
    return part("stacked", rows)


def legend(paths: Sequence[str]) -> Markup:
    """The paths' textures with their names."""
    return Markup("").join(part("swatch", Look(place), name) for place, name in enumerate(paths))
