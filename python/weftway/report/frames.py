"""The numbers behind each figure as a table: what the CSV holds and the vector figures draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from weftway.runs.columns import is_number
from weftway.stats.estimates import Estimate
from weftway.stats.units import Measure

from .series import Timeline, stack
from .study import Cell, Study

MEMORY = ("receive_buffer_max_kb", "receive_buffer_mean_kb", "ooo_share", "reorder_delay_ms", "retransmission_rate")
LIMITS = ("aggregation_benefit", "benefit_fair", "efficiency")

PLACE = {"setting": pl.String, "cc": pl.String, "scheduler": pl.String}
ESTIMATES = {
    **PLACE,
    "measure": pl.String,
    "mean": pl.Float64,
    "median": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "coverage": pl.Float64,
    "seeds": pl.Int64,
}
DISTRIBUTION = {**PLACE, "measure": pl.String, "value": pl.Float64, "share": pl.Float64}
SHARES = {**PLACE, "path": pl.String, "share": pl.Float64}


def completion_measures(study: Study) -> list[Measure]:
    """The primary measure first; then delays for a workload of messages, by class if these are flows; else its end;
    then goodput."""
    delays = ["deadline_miss_rate", "message_p50_ms", "message_p95_ms", "message_p99_ms"]
    flows = ["interactive_mean_ms", "interactive_p95_ms", "bulk_mean_ms", "bulk_p95_ms"]
    ends = delays if study.has("message_p95_ms") else ["fct_ms"]
    ends = flows if any(map(study.has, flows)) else ends
    return study.measures(dict.fromkeys([study.primary.column, *ends, "goodput_mbps"]))


def estimates(study: Study, measures: Iterable[Measure]) -> pl.DataFrame:
    """Mean or median of every measure in every cell, its interval, and how surely that holds it."""
    rows = [record(c, m, study.estimate(c, m.column)) for m in measures for c in study.cells()]
    return pl.DataFrame([row for row in rows if row], schema=ESTIMATES, orient="row")


MOST_LINES = 8
"""Lines of a distribution: more are not told apart."""


def distribution(study: Study, m: Measure) -> pl.DataFrame:
    """Each run's value, and which part of the cell's runs came to it or less; of the first schedulers of each group."""
    rows: list[tuple[object, ...]] = []
    for setting, cc in study.groups:
        for c in study.shown(setting, cc)[:MOST_LINES]:
            values = sorted(study.values(c, m.column).values())
            rows += [(*c, m.column, value, at / len(values)) for at, value in enumerate(values, 1)]
    return pl.DataFrame(rows, schema=DISTRIBUTION, orient="row")


def differences(study: Study) -> pl.DataFrame:
    """Seed-paired difference from the reference, in the measure's own unit."""
    others = [c for c in study.cells() if c.scheduler != study.reference]
    rows = [record(c, study.primary, study.difference(c, study.primary.column)) for c in others]
    return pl.DataFrame([row for row in rows if row], schema=ESTIMATES, orient="row")


def record(c: Cell, m: Measure, value: Estimate | None) -> tuple[object, ...] | None:
    if value is None:
        return None
    middle = (None, value.mean) if value.is_median else (value.mean, None)
    ends = (None, None, None) if value.half is None else (value.low, value.high, value.coverage)
    return (c.setting, c.cc, c.scheduler, m.column, *middle, *ends, value.n)


def shares(study: Study) -> pl.DataFrame:
    """Mean share of the bytes that each path carried."""
    rows = [
        (c.setting, c.cc, c.scheduler, path, part)
        for c in study.cells()
        for path, part in path_shares(study, c).items()
    ]
    return pl.DataFrame(rows, schema=SHARES, orient="row")


def path_shares(study: Study, c: Cell) -> dict[str, float]:
    """Each path's part of what all carried, over the cell's runs; empty where no row says."""
    sums = dict.fromkeys(study.paths, 0.0)
    columns = {kind: [study.of(c, f"path.{p}.{kind}") for p in study.paths] for kind in ("share", "bytes")}
    for run in zip(zip(*columns["share"], strict=True), zip(*columns["bytes"], strict=True), strict=True):
        parts = next((parts for parts in run if any(map(is_number, parts))), ())
        numbers = {p: float(part) for p, part in zip(study.paths, parts, strict=False) if is_number(part)}
        total = sum(numbers.values())
        for path, part in numbers.items():
            sums[path] += part / total if total else 0.0
    whole = sum(sums.values())
    return {path: part / whole for path, part in sums.items()} if whole else {}


def timeline_frame(timelines: Sequence[Timeline], bins: int) -> pl.DataFrame:
    """A row per run and step, a column per path and series, thinned to `bins` steps."""
    rows = []
    for t in (timeline.thinned(bins) for timeline in timelines):
        series = {f"{p}.{key}": values for p, path in t.paths.items() for key, values in path.items()} | t.connection
        for i in range(t.steps):
            head: dict[str, object] = {"setting": t.cell.setting, "cc": t.cell.cc, "scheduler": t.cell.scheduler}
            time = {"t_ms": round((i + 0.5) * t.step_ms, 3)}
            rows.append(
                head | time | {name: short(values[i]) if i < len(values) else None for name, values in series.items()}
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def rates_long(timelines: Sequence[Timeline], bins: int) -> pl.DataFrame:
    """Rate of each path over time, a row per path and step, for the vector figures."""
    rows = []
    for t in (timeline.thinned(bins) for timeline in timelines):
        edges = stack([path.get("mbps", []) for path in t.paths.values()])
        floor = [[0.0] * (len(edges[0]) if edges else 0), *edges]
        for name, lower, upper in zip(t.paths, floor, edges, strict=False):
            head = {"cc": t.cell.cc, "scheduler": t.cell.scheduler, "path": name}
            rows += [
                head | {"t_s": (i + 0.5) * t.step_ms / 1000, "from_mbps": low, "to_mbps": high}
                for i, (low, high) in enumerate(zip(lower, upper, strict=True))
            ]
    return pl.DataFrame(rows, infer_schema_length=None)


def short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
