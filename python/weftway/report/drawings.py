"""The figures one by one, for papers: SVG and PDF through Vega-Lite, the CSV behind each, and tables for LaTeX.

Charts of pages (`charts`, `timeline`, `curves`) stretch with a window and take its theme. A paper needs a size in
points, axes that are laid out to fit it, and embedded fonts: what Vega-Lite (Altair) does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from weftway.runs.store import whole
from weftway.stats.units import Measure, unit_for

from . import frames, latex, lettering
from .methods import methods
from .palette import PATH_LIGHT, SCHEDULER_LIGHT, SHAPES
from .series import Timeline, read_timelines
from .study import Study

FIGURE_BINS = 240
NARROW_BINS = 80
"""Steps of a run in a figure as wide as a column: its plots are some 200 points wide."""
LEVEL = alt.Header(labelAngle=0, labelAlign="left")
DASHES: list[list[int]] = [[1, 0], [4, 2], [1, 2], [6, 2, 1, 2], [8, 3], [3, 1, 1, 1, 1, 1]]
LINES = {"aggregation_benefit": (0.0, 1.0), "benefit_fair": (0.0, 1.0), "efficiency": (1.0,)}


@dataclass(frozen=True)
class Shape:
    """Size of a drawn figure."""

    cell: float = 240.0
    """The width of one of its plots, in points."""
    columns: int | None = None
    """Plots beside one another; `None` for as many as there are controllers, a row to each setting."""
    text: int = 10
    """The height of its letters, in points."""

    @property
    def dot(self) -> int:
        """The area of a marker."""
        return 60 if self.columns is None else 24

    @property
    def step(self) -> int:
        """Points from one line to the next."""
        return 2 * self.text if self.columns is None else round(1.6 * self.text)


FULL = Shape()
LEAST_CELL = 84.0
"""A narrower plot has no room for its numbers."""
NAMES = 72.0
"""About what the names of the schedulers take beside the plots."""

ENTRY = 76.0
"""Width that a name takes in a legend above a figure."""

Drawn = alt.FacetChart | alt.LayerChart | alt.Chart
Draw = Callable[[Shape], Drawn]
Drawing = tuple[pl.DataFrame, Draw]


def write_all(
    rows: pl.DataFrame,
    timelines: dict[Any, Any],
    scenario: dict[str, Any],
    folder: Path,
    formats: Sequence[str],
    width: float | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Writes every figure that has data to `folder`, in each of `formats`; returns the files. `width` is in points,
    and `tell` hears how many of how many figures are drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    study = Study(rows, scenario)
    files = [written(folder / "methods.txt", methods(study))]
    if "tex" in formats:
        files.append(written(folder / "methods.tex", latex.escaped(methods(study))))
        files.append(written(folder / "tables.tex", latex.tables(study)))
        if width is not None:
            files.append(written(folder / "tables-column.tex", latex.tables(study, width)))
    plots = len(study.controllers) * len(study.settings)
    svgs: dict[str, str] = {}
    figures = drawings(study, [run.timeline for run in read_timelines(timelines)])
    for number, (name, (frame, draw)) in enumerate(figures.items(), 1):
        if frame.height and "csv" in formats:
            files.append(written(folder / f"{name}.csv", frame.write_csv()))
        if frame.height and {"svg", "pdf"} & set(formats):
            svgs[name] = drawn(draw, width, plots)
            if "pdf" in formats:
                files.append(written(folder / f"{name}.pdf", lettering.pdf(svgs[name])))
        if tell:
            tell(number, len(figures))
    if "svg" in formats:
        texts = lettering.lettered(list(svgs.values()))
        files += [written(folder / f"{name}.svg", text) for name, text in zip(svgs, texts, strict=True)]
    return files


def written(file: Path, content: str | bytes) -> Path:
    """Writes a file, whole or not at all."""
    with whole(file) as half:
        half.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def drawn(draw: Draw, width: float | None, plots: int) -> str:
    """A figure as SVG, as wide as it comes or so many points."""
    with alt.data_transformers.enable("default", max_rows=None):
        return lettering.drawn(draw(FULL)) if width is None else fitted(draw, width, plots)


def fitted(draw: Draw, width: float, plots: int) -> str:
    """A figure that is so many points wide, as SVG. What its names take beside the plots is known when it is drawn."""
    columns = max(min(plots, int((width - NAMES) / LEAST_CELL)), 1)
    shape = Shape(max((width - NAMES) / columns, LEAST_CELL), columns, text=7)
    for _ in range(3):
        svg = lettering.drawn(draw(shape))
        beyond = lettering.width(svg) - width
        if abs(beyond) < 1:
            break
        shape = replace(shape, cell=max(shape.cell - beyond / columns, 20.0))
    return svg


def drawings(study: Study, timelines: list[Timeline]) -> dict[str, Drawing]:
    """Every figure by the name of its file: its table, and how to draw it."""
    figures: dict[str, Drawing] = {}
    wanted = dict.fromkeys([*frames.completion_measures(study), *study.measures((*frames.MEMORY, *frames.LIMITS))])
    for m in wanted:
        table = frames.estimates(study, [m])
        figures[m.column] = table, partial(intervals, study, m, table, LINES.get(m.column, ()), "")
    runs = frames.distribution(study, study.primary)
    figures[f"{study.primary.column}_cdf"] = runs, partial(distributions, study, study.primary, runs)
    gaps = frames.differences(study)
    title = f" minus {study.reference}'s"
    figures["difference"] = gaps, partial(intervals, study, study.primary, gaps, (0.0,), title)
    shares = frames.shares(study)
    figures["share"] = shares, partial(stacked_shares, study, shares)
    if timelines:
        figures["rate"] = frames.timeline_frame(timelines, FIGURE_BINS), partial(stacked_rates, study, timelines)
    return figures


def intervals(study: Study, m: Measure, table: pl.DataFrame, lines: Iterable[float], of: str, shape: Shape) -> Drawn:
    """Mean or median and its interval per scheduler, a plot per controller and setting."""
    valued = table.with_columns(value=pl.coalesce("mean", "median"))
    unit = unit_for(m.kind, valued["value"])
    scaled = valued.with_columns(pl.col("value", "low", "high") * unit.factor)
    title = f"{m.title}{of} ({unit.symbol})" if unit.symbol else f"{m.title}{of}"
    base = alt.Chart().encode(
        y=alt.Y("scheduler:N", sort=study.schedulers, title=None),
        color=alt.Color("scheduler:N", scale=scheduler_scale(study, hues(study)), legend=None),
    )
    axis = alt.X("value:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    layers = [
        alt.Chart().mark_rule(color="#8a9299").encode(x=alt.datum(line * unit.factor, type="quantitative"))
        for line in lines
    ]
    layers.append(base.mark_rule(strokeWidth=shape.dot / 20, opacity=0.55).encode(x=alt.X("low:Q"), x2="high:Q"))
    signs = alt.Shape("scheduler:N", scale=scheduler_scale(study, shapes(study)), legend=None)
    layers.append(base.mark_point(filled=True, size=shape.dot, opacity=1).encode(x=axis, shape=signs))
    chart = alt.LayerChart(layer=layers, data=scaled, width=shape.cell, height=alt.Step(shape.step))
    return faceted(study, chart, scaled, title, shape)


def distributions(study: Study, m: Measure, table: pl.DataFrame, shape: Shape) -> Drawn:
    """The part of the runs that came to a value or less, a line per scheduler."""
    unit = unit_for(m.kind, table["value"])
    scaled = from_none(table).with_columns(pl.col("value") * unit.factor)
    present = [at for at, name in enumerate(study.schedulers) if name in set(scaled["scheduler"])]
    hue, dash = (
        alt.Scale(domain=pick(study.schedulers, present), range=pick(of, present))
        for of in (hues(study), dashes(study))
    )
    lines = (
        alt.Chart(scaled)
        .mark_line(interpolate="step-after", strokeWidth=shape.text / 7)
        .encode(
            x=alt.X("value:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5)),
            y=alt.Y("share:Q", title="Fraction of runs", axis=alt.Axis(format="%", tickCount=4)),
            color=alt.Color("scheduler:N", scale=hue, title=None),
            strokeDash=alt.StrokeDash("scheduler:N", scale=dash, title=None),
        )
    )
    title = f"{m.title} ({unit.symbol})" if unit.symbol else m.title
    return faceted(study, lines.properties(width=shape.cell, height=10 * shape.text), scaled, title, shape)


def from_none(table: pl.DataFrame) -> pl.DataFrame:
    """A distribution with none of the runs below the first value, where its line leaves the axis."""
    groups = ["setting", "cc", "scheduler"]
    feet = table.group_by(groups, maintain_order=True).first().select(table.columns).with_columns(share=pl.lit(0.0))
    return pl.concat([feet, table])


def stacked_shares(study: Study, table: pl.DataFrame, shape: Shape) -> Drawn:
    """The paths' parts of all bytes, a bar per scheduler."""
    ranked = table.with_columns(order=pl.col("path").replace_strict(study.paths, range(len(study.paths))))
    bars = (
        alt.Chart(ranked)
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title=None, axis=alt.Axis(format="%", tickCount=5)),
            y=alt.Y("scheduler:N", sort=study.schedulers, title=None),
            color=alt.Color("path:N", scale=path_scale(study), title=None),
            order="order:Q",
        )
    )
    sized = bars.properties(width=shape.cell, height=alt.Step(shape.step))
    return faceted(study, sized, ranked, "Share of the bytes", shape)


def stacked_rates(study: Study, timelines: Sequence[Timeline], shape: Shape) -> Drawn:
    """Rate of each path over time, a row per scheduler and a column per controller."""
    rates = frames.rates_long(timelines, FIGURE_BINS if shape.columns is None else NARROW_BINS)
    time = "Time (s)"
    areas = (
        alt.Chart(rates)
        .mark_area()
        .encode(
            x=alt.X("t_s:Q", title=time if shape.columns == 1 else None, axis=alt.Axis(tickCount=5)),
            y=alt.Y("to_mbps:Q", title="Mbit/s", axis=alt.Axis(tickCount=3)),
            y2="from_mbps:Q",
            color=alt.Color("path:N", scale=path_scale(study), title=None),
        )
    )
    sized = areas.properties(width=shape.cell, height=7 * shape.text)
    if shape.columns is not None:
        under = [pl.lit(" under "), pl.col("cc")] if len(study.controllers) > 1 else []
        each = rates.with_columns(plot=pl.concat_str("scheduler", *under))
        order = each["plot"].unique(maintain_order=True).to_list()
        sized.data = each
        facet = alt.Facet("plot:N", sort=order, title=None)
        return finished(sized.facet(facet=facet, columns=shape.columns), time if shape.columns > 1 else "", shape)
    column = alt.Column("cc:N", sort=study.controllers, title=None)
    row = alt.Row("scheduler:N", sort=study.schedulers, title=None, header=LEVEL)
    return finished(sized.facet(column=column, row=row), time, shape)


def faceted(study: Study, chart: alt.Chart | alt.LayerChart, table: pl.DataFrame, title: str, shape: Shape) -> Drawn:
    """The chart once per controller and setting, on shared axes, which are named once."""
    settings = table["setting"].n_unique()
    if shape.columns is not None and settings > 1:
        chart.data = table.with_columns(plot=pl.concat_str("cc", pl.lit(", "), "setting"))
        order = chart.data["plot"].unique(maintain_order=True).to_list()
        return finished(
            chart.facet(facet=alt.Facet("plot:N", sort=order, title=None), columns=shape.columns), title, shape
        )
    if shape.columns is not None:
        if len(study.controllers) == 1:  # one plot, which the caption names
            return finished(chart, title, shape)
        facet = alt.Facet("cc:N", sort=study.controllers, title=None)
        return finished(chart.facet(facet=facet, columns=shape.columns), title, shape)
    column = alt.Column("cc:N", sort=study.controllers, title=None)
    if settings == 1:
        return finished(chart.facet(column=column), title, shape)
    row = alt.Row("setting:N", sort=study.settings, title=None, header=LEVEL)
    return finished(chart.facet(column=column, row=row), title, shape)


def finished(chart: Drawn, title: str, shape: Shape) -> Drawn:
    """Quiet look of every figure, with the name of the axis below it."""
    chart.title = alt.TitleParams(
        title,
        orient="bottom",
        anchor="middle",
        frame="bounds" if isinstance(chart, alt.FacetChart) else "group",
        fontSize=shape.text + 1,
        fontWeight="bold",
        offset=4,
    )
    if shape.columns is not None and isinstance(chart, alt.FacetChart):
        chart.spacing = shape.text
    chart.config = alt.Config(
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            gridColor="#e9ebe9", domainColor="#8a9299", labelFontSize=shape.text, titleFontSize=shape.text + 1
        ),
        header=alt.HeaderConfig(labelFontWeight="bold", labelFontSize=shape.text + 1),
        legend=alt.LegendConfig(
            labelFontSize=shape.text,
            orient="right" if shape.columns is None else "top",
            columns=1 if shape.columns is None else max(int(shape.columns * shape.cell / ENTRY), 1),
            symbolSize=shape.dot,
            offset=18 if shape.columns is None else shape.text,
        ),
    )
    return chart


def scheduler_scale(study: Study, range_: list[str]) -> alt.Scale:
    return alt.Scale(domain=study.schedulers, range=range_)


def hues(study: Study) -> list[str]:
    return [SCHEDULER_LIGHT[study.look(name).hue] for name in study.schedulers]


def shapes(study: Study) -> list[str]:
    return [SHAPES[study.look(name).shape] for name in study.schedulers]


def pick(values: Sequence[Any], places: Iterable[int]) -> list[Any]:
    """The values at some places."""
    return [values[at] for at in places]


def dashes(study: Study) -> list[Any]:
    """A dash for each scheduler: colour never stands alone."""
    return [DASHES[at % len(DASHES)] for at in range(len(study.schedulers))]


def path_scale(study: Study) -> alt.Scale:
    return alt.Scale(domain=study.paths, range=[PATH_LIGHT[i % len(PATH_LIGHT)] for i in range(len(study.paths))])
