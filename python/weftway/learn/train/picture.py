"""A learning curve as a picture: a panel per measure, over the steps of the training."""

from pathlib import Path

import altair as alt
import polars as pl

from weftway.learn.train.curve import Point
from weftway.report.palette import SCHEDULER_LIGHT
from weftway.runs.store import whole

MEASURES = {
    "trial": "on the same scenarios, Mbit/s",
    "score": "score on validation scenarios",
    "reward": "reward per decision",
    "return": "return of an episode",
    "goodput": "goodput, Mbit/s",
    "loss": "loss",
    "validation_accuracy": "validation accuracy",
}
"""Measures that are drawn of a curve, where it has them."""


def draw(points: list[Point], title: str, file: Path) -> None:
    """Draws what the points of the training have; held-out points are not of the curve."""
    own = [point for point in points if point.get("kind") != "held-out"]
    rows = [
        {"step": point["step"], "what": name, "value": float(point[key])}
        for key, name in MEASURES.items()
        for point in own
        if point.get(key) is not None
    ]
    if not rows:
        return
    line = alt.Chart(pl.DataFrame(rows)).mark_line(strokeWidth=1.5, color=SCHEDULER_LIGHT[0])
    chart = line.encode(
        x=alt.X("step:Q", title="step"), y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
    ).properties(width=300, height=180)
    faceted = chart.facet(facet=alt.Facet("what:N", title=None), columns=2, title=title).resolve_scale(y="independent")
    with whole(file) as half, alt.data_transformers.enable("default", max_rows=None):
        faceted.save(str(half), format="svg")
