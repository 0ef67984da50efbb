"""Charts as plain HTML and SVG that stretch with the page, need no script and follow its theme.

A chart is a grid of rows: a name, a track, a number. The track is an SVG of 1000 × 24 units drawn
without keeping its aspect ratio (strokes keep their width), so that a phone and a desk get the same
markup; markers, which must not stretch, are placed over it by percentage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from weftway.stats.estimates import Estimate
from weftway.stats.units import Unit

from .axis import Axis
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
    """One row of a dot chart: a mean, its interval, the single runs behind it, and its text."""

    name: str
    look: Look
    estimate: Estimate | None
    seeds: Sequence[float]
    text: str
    remark: str = ""
    equals: Sequence[str] = ()
    """Others with the very same values."""
    hint: str = ""
    """What a pointer over the row is told."""
    keep: bool = False
    """Whether the row stays in sight when others are folded."""
    tag: str = ""
    """A mark beside the name."""


@dataclass(frozen=True)
class Share:
    """One row of a stacked bar: parts that add up to 1, each with the look of its path."""

    name: str
    look: Look | None
    parts: Sequence[tuple[str, Look, float]]
    equals: Sequence[str] = ()
    keep: bool = False
    tag: str = ""


def symbols() -> str:
    """The marker shapes, once per page."""
    shapes = "".join(f'<symbol id="m{SHAPES.index(n)}" viewBox="0 0 16 16">{MARKS[n]}</symbol>' for n in SHAPES)
    return f'<svg class="defs" aria-hidden="true" focusable="false">{shapes}</svg>'


def mark(look: Look, style: str = "") -> str:
    """A scheduler's marker."""
    where = f' style="{style}"' if style else ""
    return f'<svg class="mark s{look.hue}"{where} aria-hidden="true"><use href="#m{look.shape}"/></svg>'


def swatch(look: Look, name: str) -> str:
    """A path's texture and name, for legends."""
    return f'<span class="key"><i class="swatch p{look.path}" aria-hidden="true"></i>{escape(name)}</span>'


def panel(title: str, body: str, filters: dict[str, str]) -> str:
    """A titled chart that the page's filters can show or hide."""
    data = "".join(f' data-{key}="{escape(value, quote=True)}"' for key, value in filters.items())
    head = f"<figcaption>{title}</figcaption>" if title else ""
    return f'<figure class="panel"{data}>{head}{body}</figure>'


def dots(rows: Sequence[Dot], axis: Axis, unit: Unit, lines: Sequence[tuple[float, str]] = ()) -> str:
    """Mean and interval per row; `lines` are reference values drawn through all rows, with a name."""
    drawn = "".join(dot_row(row, axis, lines) for row in rows)
    return f'<div class="chart">{drawn}{tick_row(axis, unit, lines)}</div>'


def dot_row(row: Dot, axis: Axis, lines: Sequence[tuple[float, str]]) -> str:
    marker, remark = "", row.remark
    if row.estimate is not None and axis.holds(row.estimate.mean):
        marker = mark(row.look, f"left:{100 * axis.at(row.estimate.mean):.2f}%")
    elif row.estimate is not None:
        marker, remark = beyond(row, axis), ", ".join(filter(None, [remark, "beyond the axis"]))
    hint = f' title="{escape(row.hint, quote=True)}"' if row.hint else ""
    return (
        f'<div class="row"{named(row.name, row.equals, row.keep)}{hint}>{name_of(row.name, row.equals, tag=row.tag)}'
        f'<span class="track" aria-hidden="true">{track(row, axis, lines)}{marker}</span>'
        f'<span class="number">{escape(row.text)}</span><small class="remark">{escape(remark)}</small></div>'
    )


def beyond(row: Dot, axis: Axis) -> str:
    """An arrow at the end of the axis that the value lies beyond."""
    right = row.estimate is not None and row.estimate.mean > axis.high
    return f'<b class="beyond s{row.look.hue}" style="{"right" if right else "left"}:0">{"▸" if right else "◂"}</b>'


def named(name: str, equals: Sequence[str] = (), keep: bool = False) -> str:
    """The attributes by which the page finds, folds and sorts rows: all names that the row speaks for, and whether it
    stays in sight."""
    return f' data-name="{escape(" ".join([name, *equals]), quote=True)}"' + (" data-keep" if keep else "")


def tagged(tag: str) -> str:
    """The mark of what is the user's own or was named."""
    return f' <small class="tag" title="{TAGS[tag]}">{tag}</small>' if tag else ""


def row_head(look: Look, name: str, tag: str = "", below: str = "") -> str:
    """The head of a scheduler's row in a table: its marker, its name, and what it is marked with."""
    return f'<th scope="row">{mark(look)}{escape(name)}{tagged(tag)}{below}</th>'


TAGS = {"yours": "a class of your own", "*": "you named it; the others came with `all`"}


def name_of(name: str, equals: Sequence[str] = (), marker: str = "", tag: str = "") -> str:
    """A row's name, its mark, and how many others have the same values."""
    more = f'<small title="= {escape(", ".join(equals), quote=True)}">+{len(equals)}</small>' if equals else ""
    return f'<span class="name">{marker}{escape(name)}{tagged(tag)}{more}</span>'


def track(row: Dot, axis: Axis, lines: Sequence[tuple[float, str]]) -> str:
    """Grid, reference lines, a tick for every single run, and the interval."""
    grid = verticals(axis.ticks, axis, 0, ROW)
    marked = verticals([value for value, _ in lines], axis, 0, ROW)
    single = [value for value in row.seeds if axis.holds(value)]
    runs = verticals(single, axis, 7, ROW - 7) if len(row.seeds) > 1 else ""
    parts = [f'<path class="grid" d="{grid}"/>']
    parts += [f'<path class="line" d="{marked}"/>'] if marked else []
    parts += [f'<path class="runs" d="{runs}"/>'] if runs else []
    if row.estimate is not None and row.estimate.half is not None:
        low, high = (round(WIDTH * axis.at(v)) for v in (row.estimate.low, row.estimate.high))
        parts.append(f'<path class="interval s{row.look.hue}" d="M{low} {ROW // 2}H{high}"/>')
    return f'<svg viewBox="0 0 {WIDTH} {ROW}" preserveAspectRatio="none">{"".join(parts)}</svg>'


def verticals(values: Sequence[float], axis: Axis, top: int, bottom: int) -> str:
    """Path data of a vertical stroke at each value."""
    return "".join(f"M{round(WIDTH * axis.at(v))} {top}V{bottom}" for v in values)


def tick_row(axis: Axis, unit: Unit, lines: Sequence[tuple[float, str]] = ()) -> str:
    """The numbers under the tracks, the last one with the unit, and the names of the reference lines."""
    labels = axis.labels(unit)
    labels[-1] = (labels[-1][0], labels[-1][1] + unit.suffix)
    numbers = "".join(f'<i style="left:{100 * at:.2f}%">{text}</i>' for at, text in labels)
    names = "".join(
        f'<b class="{edge(axis.at(value))}" style="left:{100 * axis.at(value):.2f}%">{escape(name)}</b>'
        for value, name in lines
        if name
    )
    tall = " tall" if names else ""
    return f'<div class="row foot"><span class="ticks{tall}" aria-hidden="true">{numbers}{names}</span></div>'


def edge(at: float) -> str:
    """Which side a label grows to, so that it stays on the chart."""
    return "from-left" if at < 0.25 else "from-right" if at > 0.75 else "centred"


def stacked(rows: Sequence[Share]) -> str:
    """A bar of parts per row, labelled inside where a part is wide enough."""
    return f'<div class="chart shares">{"".join(share_row(row) for row in rows)}{PERCENT_TICKS}</div>'


PERCENT_TICKS = (
    '<div class="row foot"><span class="ticks" aria-hidden="true">'
    + "".join(f'<i style="left:{p}%">{p}</i>' for p in (0, 25, 50, 75))
    + '<i class="from-right" style="left:100%">100 %</i></span></div>'
)


def share_row(row: Share) -> str:
    marker = mark(row.look) if row.look else ""
    attribute = named(row.name, row.equals, row.keep) if row.look else ""
    parts = "".join(share_part(*part) for part in row.parts)
    name = name_of(row.name, row.equals, marker, row.tag)
    return f'<div class="row"{attribute}>{name}<span class="bar">{parts}</span></div>'


def share_part(name: str, look: Look, share: float) -> str:
    text = f"{100 * share:.0f}" if share >= 0.09 else ""
    title = escape(f"{name}: {100 * share:.1f} %", quote=True)
    inner = f"<span>{text}</span>" if text else ""
    return (
        f'<i class="p{look.path}" style="width:{100 * share:.2f}%" title="{title}" '
        f'role="img" aria-label="{title}">{inner}</i>'
    )
