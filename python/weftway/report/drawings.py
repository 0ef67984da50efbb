"""The figures one by one, for papers: SVG and PDF through Vega-Lite, and the CSV behind each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from . import frames
from .palette import PATH_LIGHT, SCHEDULER_LIGHT, SHAPES
from .series import Timeline, read_timelines
from .study import Study
from .units import Measure, unit_for

FIGURE_BINS = 240
LEVEL = alt.Header(labelAngle=0, labelAlign="left")
LINES = {"aggregation_benefit": (0.0, 1.0), "benefit_fair": (0.0, 1.0), "efficiency": (1.0,)}

Draw = Callable[[], alt.FacetChart]
Drawing = tuple[pl.DataFrame, Draw]


def write_all(
    rows: pl.DataFrame,
    timelines: dict[Any, Any],
    scenario: dict[str, Any],
    folder: Path,
    formats: Sequence[str],
) -> list[Path]:
    """Writes every figure that has data to `folder`, in each of `formats`; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    study = Study(rows, scenario)
    files = []
    for name, (frame, draw) in drawings(study, read_timelines(timelines)).items():
        if frame.height:
            files += save(folder / name, frame, draw, formats)
    return files


def save(stem: Path, frame: pl.DataFrame, draw: Draw, formats: Sequence[str]) -> list[Path]:
    """One figure in its formats; the chart is built only where it is drawn."""
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in formats]
    drawn = [file for file in files if file.suffix != ".csv"]
    if len(drawn) < len(files):
        frame.write_csv(stem.with_name(f"{stem.name}.csv"))
    if drawn:
        with alt.data_transformers.enable("default", max_rows=None):
            chart = draw()
            for file in drawn:
                chart.save(str(file))
    return files


def drawings(study: Study, timelines: list[Timeline]) -> dict[str, Drawing]:
    """Every figure by the name of its file: its table, and how to draw it."""
    found: dict[str, Drawing] = {}
    wanted = dict.fromkeys([*frames.completion_measures(study), *study.measures((*frames.MEMORY, *frames.LIMITS))])
    for m in wanted:
        table = frames.estimates(study, [m])
        found[m.column] = table, partial(intervals, study, m, table, LINES.get(m.column, ()))
    gaps = frames.differences(study)
    title = f" minus {study.reference}'s"
    found["difference"] = gaps, partial(intervals, study, study.primary, gaps, (0.0,), title)
    shares = frames.shares(study)
    found["share"] = shares, partial(stacked_shares, study, shares)
    if timelines:
        rates = frames.rates_long(timelines, FIGURE_BINS)
        found["rate"] = frames.timeline_frame(timelines, FIGURE_BINS), partial(stacked_rates, study, rates)
    return found


def intervals(
    study: Study, m: Measure, table: pl.DataFrame, lines: Iterable[float] = (), of: str = ""
) -> alt.FacetChart:
    """Mean or median and its interval per scheduler, a column per controller and a row per setting."""
    drawn = table.with_columns(value=pl.coalesce("mean", "median"))
    unit = unit_for(m.kind, drawn["value"])
    scaled = drawn.with_columns(pl.col("value", "low", "high") * unit.factor)
    title = f"{m.title}{of} ({unit.symbol})" if unit.symbol else f"{m.title}{of}"
    base = alt.Chart().encode(
        y=alt.Y("scheduler:N", sort=study.schedulers, title=None),
        color=alt.Color("scheduler:N", scale=scheduler_scale(study, hues(study)), legend=None),
    )
    axis = alt.X("value:Q", title=title, scale=alt.Scale(zero=False))
    layers = [
        alt.Chart().mark_rule(color="#8a9299").encode(x=alt.datum(line * unit.factor, type="quantitative"))
        for line in lines
    ]
    layers.append(base.mark_rule(strokeWidth=3, opacity=0.55).encode(x=alt.X("low:Q"), x2="high:Q"))
    shape = alt.Shape("scheduler:N", scale=scheduler_scale(study, shapes(study)), legend=None)
    layers.append(base.mark_point(filled=True, size=60, opacity=1).encode(x=axis, shape=shape))
    chart = alt.LayerChart(layer=layers, data=scaled, width=240)
    return faceted(study, chart, scaled)


def stacked_shares(study: Study, table: pl.DataFrame) -> alt.FacetChart:
    """The paths' parts of all bytes, a bar per scheduler."""
    ranked = table.with_columns(order=pl.col("path").replace_strict(study.paths, range(len(study.paths))))
    bars = (
        alt.Chart(ranked)
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="Share of the bytes", axis=alt.Axis(format="%")),
            y=alt.Y("scheduler:N", sort=study.schedulers, title=None),
            color=alt.Color("path:N", scale=path_scale(study), title=None),
            order="order:Q",
        )
    )
    return faceted(study, bars.properties(width=240), ranked)


def stacked_rates(study: Study, table: pl.DataFrame) -> alt.FacetChart:
    """Rate of each path over time, a row per scheduler and a column per controller."""
    areas = (
        alt.Chart(table)
        .mark_area()
        .encode(
            x=alt.X("t_s:Q", title="Time (s)"),
            y=alt.Y("to_mbps:Q", title="Mbit/s"),
            y2="from_mbps:Q",
            color=alt.Color("path:N", scale=path_scale(study), title=None),
        )
    )
    column = alt.Column("cc:N", sort=study.controllers, title=None)
    row = alt.Row("scheduler:N", sort=study.schedulers, title=None, header=LEVEL)
    return finished(areas.properties(width=240, height=70).facet(column=column, row=row))


def faceted(study: Study, chart: alt.Chart | alt.LayerChart, table: pl.DataFrame) -> alt.FacetChart:
    """The chart once per controller and setting, on shared axes."""
    column = alt.Column("cc:N", sort=study.controllers, title=None)
    if table["setting"].n_unique() == 1:
        return finished(chart.facet(column=column))
    return finished(chart.facet(column=column, row=alt.Row("setting:N", sort=study.settings, title=None, header=LEVEL)))


def finished(chart: alt.FacetChart) -> alt.FacetChart:
    """The same quiet look for every figure."""
    chart.config = alt.Config(
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(gridColor="#e9ebe9", domainColor="#8a9299"),
        header=alt.HeaderConfig(labelFontWeight="bold", labelFontSize=11),
    )
    return chart


def scheduler_scale(study: Study, range_: list[str]) -> alt.Scale:
    return alt.Scale(domain=study.schedulers, range=range_)


def hues(study: Study) -> list[str]:
    return [SCHEDULER_LIGHT[study.look(name).hue] for name in study.schedulers]


def shapes(study: Study) -> list[str]:
    return [SHAPES[study.look(name).shape] for name in study.schedulers]


def path_scale(study: Study) -> alt.Scale:
    return alt.Scale(domain=study.paths, range=[PATH_LIGHT[i % len(PATH_LIGHT)] for i in range(len(study.paths))])
