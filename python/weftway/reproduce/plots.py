"""A figure as the paper lays it out: what is printed, and ours below it, drawn through Vega-Lite."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from weftway.report.palette import SCHEDULER_DARK, SCHEDULER_LIGHT
from weftway.stats.units import MEASURES

from . import checks, verdict
from .checks import Rows, Undecidable
from .gains import plain
from .results import Result
from .runs import Run

INK, SOFT, GRID, PAPER_COLOUR = "#1c2126", "#59626b", "#e9ebe9", "#fdfdfb"
DARK = {
    INK: "#e7e9ea",
    SOFT: "#a2abb3",
    GRID: "#262b30",
    PAPER_COLOUR: "#14171a",
    **dict(zip(SCHEDULER_LIGHT, SCHEDULER_DARK, strict=True)),
}
"""The colours that are drawn, and what each is on a dark page."""

UNITS = {"_mbps": "Mbit/s", "_kbytes": "kB/s", "_mib": "MiB", "_ms": "ms", "_rate": "share", "_share": "share"}
TITLES = {
    "goodput_kbytes": "Goodput",
    "chosen_rate_mbps": "Chosen path",
    "jain_inverse": "Jain's index of 1/delay",
    "ooo_wireshark": "Packets out of order",
}
MEAN = "mean"
PAPER = "paper, as printed"
OURS = "ours"
WIDTH, HEIGHT = 560, 150
TITLE_PADDING = 12
"""Between an axis's numbers and its title. The page's font may be wider than that by which the drawing is laid out."""
COMPARABLE = 4.0
"""Printed values are marked in our panel unless the two differ by more than this: they would flatten it."""

Point = dict[str, Any]


def figure(runs: Sequence[Run], results: Sequence[Result]) -> str | None:
    """The SVG of a figure in all of its readings; `None` where there is nothing to draw."""
    charts = [*_effects(results), *_levels(runs, results)]
    if not charts:
        return None
    chart = alt.vconcat(*charts, bounds="flush", spacing=62).resolve_scale(
        color="independent" if _effects(results) else "shared"
    )
    config = alt.Config(
        aria=False,
        background="transparent",
        font="system-ui, sans-serif",
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            gridColor=GRID,
            domainColor=SOFT,
            tickColor=SOFT,
            labelColor=INK,
            titleColor=SOFT,
            titleFontWeight="normal",
            labelLimit=220,
        ),
        axisY=alt.AxisConfig(titlePadding=TITLE_PADDING),
        legend=alt.LegendConfig(
            labelColor=INK,
            titleColor=SOFT,
            orient="top",
            columns=4,
            symbolType="square",
            columnPadding=24,
            labelLimit=220,
        ),
        title=alt.TitleConfig(color=INK, anchor="start", fontSize=12),
        rule=alt.MarkConfig(color=INK),
        tick=alt.TickConfig(color=INK),
    )
    chart.config = config
    import vl_convert

    return _for_dark_pages(vl_convert.vegalite_to_svg(chart.to_dict()))


IDLE = r' (?:role|class|aria-[a-z]+|pointer-events|font-family|opacity="1"|stroke-width="1")(?:="[^"]*")?(?=[ />])'
"""Attributes that say what is so anyway, or that only a script would read."""


def _for_dark_pages(svg: str) -> str:
    """The drawing with a rule for each of its colours on dark pages, and no longer than it need be."""
    svg = re.sub(r"<path[^>]*(?:role-background|class=\"background\"|display=\"none\")[^>]*/>", "", svg)
    svg = re.sub(IDLE, "", svg)
    svg = re.sub(r"-?\d+\.\d{2,}", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), svg)
    dark = [
        f'[{name}="{light}"]{{{name}:{dark}}}'
        for light, dark in DARK.items()
        for name in ("fill", "stroke")
        if f'{name}="{light}"' in svg
    ]
    style = (
        f"<style>text{{font-family:system-ui,sans-serif}}@media(prefers-color-scheme:dark){{{''.join(dark)}}}</style>"
    )
    return re.sub(r"(<svg[^>]*>)", lambda match: match[1] + style, svg, count=1) + "\n"


def _levels(runs: Sequence[Run], results: Sequence[Result]) -> list[alt.Chart | alt.LayerChart]:
    shown = [run for run in runs if run.choice is None and run.rows]
    if not shown or not _axes(runs[0]) or shown[0].experiment.is_exact:
        return []
    axes = _axes(runs[0])
    measure, x, by = axes["y"], axes["x"], axes.get("by") or axes["x"]
    printed = _printed(results, measure, x, by)
    with_mean = any(point["x"] == MEAN for point in printed)
    measures = {run.experiment.reading: _axes(run)["y"] for run in shown}
    ours = {run.experiment.reading: _ours(run, _axes(run)["y"], x, by, with_mean) for run in shown}
    points = [*printed, *(point for some in ours.values() for point in some)]
    if not any(ours.values()):
        return []
    order = {key: list(dict.fromkeys(point[key] for point in points)) for key in ("x", "by")}
    order["x"].sort(key=MEAN.__eq__)
    panels: list[tuple[str, str, list[Point], list[Point]]] = [(PAPER, measure, printed, [])] if printed else []
    for reading, some in ours.items():
        marks = _marks(printed, some) if measures[reading] == measure else []
        panels.append((f"{OURS}, {reading}" if reading else OURS, measures[reading], some, marks))
    return [_bars(name, some, marks, order, _title(drawn), _axis(x)) for name, drawn, some, marks in panels if some]


def _axes(run: Run) -> dict[str, Any]:
    """The first figure of the file: a reading may measure something else."""
    figures: list[dict[str, Any]] = list(run.experiment.text.get("figure", {}).values())
    return figures[0] if figures else {}


def _title(measure: str) -> str:
    known = TITLES.get(measure) or (MEASURES[measure].title if measure in MEASURES else measure)
    return f"{known} ({unit(measure)})" if unit(measure) else known


def unit(measure: str) -> str:
    """Unit of a column, by the end of its name."""
    return next((name for end, name in UNITS.items() if measure.endswith(end)), "")


def _axis(key: str) -> str | None:
    return None if key in ("scheduler", "cc") else key


def _marks(printed: Sequence[Point], ours: Sequence[Point]) -> list[Point]:
    """The printed values that fit into our panel."""
    top = max((point["y"] for point in ours), default=0.0)
    most = max((point["y"] for point in printed), default=0.0)
    return list(printed) if most and top and 1 / COMPARABLE <= most / top <= COMPARABLE else []


def _bars(
    name: str,
    points: Sequence[Point],
    marks: Sequence[Point],
    order: dict[str, list[str]],
    title: str,
    along: str | None,
) -> alt.LayerChart:
    colours = [SCHEDULER_LIGHT[at % len(SCHEDULER_LIGHT)] for at in range(len(order["by"]))]
    table = pl.DataFrame(
        points, schema={"x": pl.String, "by": pl.String, "y": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    )
    grouped = order["x"] != order["by"]
    x = alt.X(
        "x:N",
        sort=order["x"],
        title=along,
        scale=alt.Scale(domain=order["x"]),
        axis=alt.Axis(labelAngle=0 if grouped or len(order["x"]) < 6 else -20),
    )
    offset = {"xOffset": alt.XOffset("by:N", sort=order["by"], scale=alt.Scale(domain=order["by"]))} if grouped else {}
    colour = alt.Color(
        "by:N",
        sort=order["by"],
        title=None,
        scale=alt.Scale(domain=order["by"], range=colours),
        legend=alt.Legend() if grouped else None,
    )
    bars = (
        alt.Chart(table)
        .mark_bar()
        .encode(x=x, y=alt.Y("y:Q", title=title, axis=alt.Axis(tickCount=5)), color=colour, **offset)
    )
    layers: list[Any] = [bars]
    if table["low"].is_not_null().any():
        known = table.filter(pl.col("low").is_not_null())
        layers.append(
            alt.Chart(known).mark_rule(strokeWidth=1.2, color=INK).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", **offset)
        )
    if marks:
        layers.append(
            alt.Chart(pl.DataFrame(marks, schema=table.schema))
            .mark_point(shape="diamond", size=40, fill=PAPER_COLOUR, stroke=INK, strokeWidth=1.2, opacity=1)
            .encode(x=x, y="y:Q", **offset)
        )
    more = "; diamonds: the paper" if marks else ""
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT, title=f"{name}{more}")


def _printed(results: Sequence[Result], measure: str, x: str, by: str) -> list[Point]:
    """The printed levels that the axes have a place for."""
    points = []
    for result in results:
        number = result.printed
        if (
            number is None
            or result.experiment.reading
            or number.get("metric") != measure
            or "over" in number
            or "scheduler" not in number
        ):
            continue
        at = number.get("at", {})
        names = {
            "scheduler": plain(number["scheduler"]),
            "cc": number.get("cc"),
            **(at if isinstance(at, dict) else {}),
        }
        place = names.get(x, MEAN)
        if names.get(by) is None or (by == x and place == MEAN):
            continue
        try:
            value = number["value"] * checks.factor(measure, number["unit"])
        except Undecidable:
            continue
        points.append({"x": str(place), "by": str(names[by]), "y": value, "low": None, "high": None})
    return points


def _ours(run: Run, measure: str, x: str, by: str, with_mean: bool) -> list[Point]:
    keys = list(run.jobs[0].variant.values)
    rows = Rows([*run.rows, *run.others], keys)
    along = list(dict.fromkeys(dict(place)[x] for place in rows.settings())) if x in keys else []
    places: list[tuple[str | None, tuple[tuple[str, str], ...]]] = [(value, ((x, value),)) for value in along]
    if with_mean or not along:
        places.append((MEAN if along else None, ()))
    points = []
    for place, at in places:
        for cc in rows.controllers:
            for name in rows.schedulers:
                names = {x: place or "", "scheduler": plain(name), "cc": cc}
                try:
                    values = rows.values(measure, name, checks.Scope(cc, at))
                except Undecidable:
                    continue
                some = verdict.sample(list(values.values()))
                if some is None or by not in names:
                    continue
                half = some.half
                low, high = (None, None) if not half else (some.mean - half, some.mean + half)
                points.append({"x": names[x], "by": names[by], "y": some.mean, "low": low, "high": high})
    # Several controllers or settings at one place: their mean, which no interval belongs to.
    merged: dict[tuple[Any, Any], list[Point]] = {}
    for point in points:
        merged.setdefault((point["x"], point["by"]), []).append(point)
    return [
        some[0]
        if len(some) == 1
        else {**some[0], "y": sum(p["y"] for p in some) / len(some), "low": None, "high": None}
        for some in merged.values()
    ]


def _effects(results: Sequence[Result]) -> list[alt.Chart | alt.LayerChart]:
    """Sizes of effects that a paper prints, and ours, where it prints no levels."""
    points: list[Point] = []
    if any(result.printed and "metric" in result.printed and "over" not in result.printed for result in results):
        return []
    for result in results:
        number = result.printed
        if number is None or "over" not in number or result.interval is None:
            continue
        name = f"{plain(number['scheduler'])} over {plain(number['over'])}"
        if not result.experiment.reading:
            points.append({"what": name, "of": PAPER, "y": float(number["value"])})
        points.append(
            {
                "what": name,
                "of": f"{OURS}, {result.experiment.reading}" if result.experiment.reading else OURS,
                "y": result.interval[0],
            }
        )
    if not points:
        return []
    # A number that is printed twice has its first place.
    table = pl.DataFrame(points).unique(["what", "of"], keep="first", maintain_order=True)
    names = list(dict.fromkeys(table["of"]))
    return [
        alt.Chart(table, width=WIDTH, height=HEIGHT, title="sizes of effects")
        .mark_bar()
        .encode(
            x=alt.X("what:N", title=None, sort=None, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("of:N", sort=names),
            y=alt.Y("y:Q", title="change (%)"),
            color=alt.Color(
                "of:N", sort=names, title=None, scale=alt.Scale(domain=names, range=list(SCHEDULER_LIGHT[: len(names)]))
            ),
        )
    ]
