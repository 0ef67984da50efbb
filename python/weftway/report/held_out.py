"""Evaluations as they are shown: tables for the terminal, and one self-contained page with the intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl
from markupsafe import Markup

from weftway.stats.estimates import Estimate, interval_of
from weftway.stats.units import MEASURES, THIN_SPACE, Unit, unit_for
from weftway.terminal.table import NOTHING, Column, Row, Table, Value

from . import html, page
from .axis import axis
from .charts import Dot, dots, panel, panels
from .numbers import counted
from .palette import Look, looks
from .sections import Section

PERCENT = Unit(100.0, "%", 1)
RATIO = Unit(1.0, "", 3)
SHOWN = ("goodput_mbps", "fct_ms", "message_p95_ms", "ooo_share")
EVERY = "all"

Line = dict[str, Any]
"""A line of `weftway.evaluate.summary`, or a claim as a dictionary."""


@dataclass(frozen=True)
class Held:
    """A finished evaluation, as it is shown."""

    title: str
    command: str
    lines: Sequence[Line]
    claims: Sequence[Line]
    registry: Sequence[str]
    others: str = ""
    """Sentence about what the folder holds besides."""

    @property
    def reference(self) -> str:
        return str(self.lines[0]["reference"])

    @property
    def controllers(self) -> list[str]:
        return list(dict.fromkeys(line["cc"] for line in self.lines))

    @cached_property
    def looks(self) -> dict[str, Look]:
        """The colour and marker of each scheduler."""
        return looks(list(dict.fromkeys(line["scheduler"] for line in self.lines)), self.registry)

    def under(self, cc: str) -> list[Line]:
        """The lines of a controller, best first."""
        return [line for line in self.lines if line["cc"] == cc]


def terminal(held: Held) -> list[Table]:
    """The table of results, and that of the claims."""
    return [results(held), *([claims(held)] if held.claims else [])]


def results(held: Held) -> Table:
    """All lines, a group per controller."""
    first = held.lines[0]
    several = len(held.controllers) > 1
    columns = [name for name in SHOWN if any(line[name] is not None for line in held.lines)]
    units = {name: _unit(held, name) for name in columns}
    heads = [
        Column("scheduler", title="Scheduler"),
        *([Column("cc", only="terminal")] if several else []),
        Column(f"of {held.reference}", _within(first), right=True, title=f"Of {held.reference}"),
        Column("lost > 5 %", "%", right=True, title="Lost"),
        Column("won", "%", right=True, title="Won"),
        *(_head(name, units[name]) for name in columns),
    ]
    units = {"lost_share": PERCENT, "won_share": PERCENT, **units}
    rows = [
        Row(
            [
                _name(held, line),
                *([cc] if several else []),
                interval(line, "ratio"),
                *(_number(unit, line[name]) for name, unit in units.items()),
            ],
            _cc(cc),
            cc,
            line["is_policy"],
        )
        for cc in held.controllers
        for line in held.under(cc)
    ]
    title = f"{held.title}: {counted(first['instances'], 'held-out instance')}, decisions: {first['mode']}"
    return Table(title, heads, rows)


def _head(name: str, unit: Unit) -> Column:
    title = MEASURES[name].title
    return Column(title.lower(), unit.symbol or None, right=True, title=title)


def _name(held: Held, line: Line) -> Value:
    unfinished = f" ({line['unfinished']} unfinished)" if line["unfinished"] else ""
    name = line["scheduler"]
    return Value(name + unfinished, mark="strong" if line["is_policy"] else "", look=held.looks[name])


def _number(unit: Unit, value: float | None) -> Value:
    return Value(NOTHING) if value is None else Value(unit.number(value), unit.value(value))


def _within(line: Line) -> str:
    """Name of the intervals, of so many instances; a single one has none."""
    return interval_of(line["instances"], "instances") if line["instances"] > 1 else ""


def claims(held: Held) -> Table:
    """The claims with their verdicts."""
    heads = [
        Column(title="Claim"),
        Column("against", title="Against"),
        Column("cc", title="Controller"),
        Column("measured", right=True, title="Measured"),
        Column("asked", right=True, title="Asked"),
        Column(right=True, title="Verdict", css="remarks"),
    ]
    rows = []
    for claim in held.claims:
        kind = "good" if claim["verdict"] == "holds" else "bad"
        sure, badge = "" if claim["is_sure"] else " within noise", (kind, claim["verdict"])
        text = claim["verdict"] + (f",{sure}" if sure else "")
        verdict = Value(text, sure, {"good": "best"}.get(kind, kind), badges=[badge])
        named = f"{claim['scheduler']} {claim['claim']}"
        rows.append(Row([named, claim["against"], claim["cc"], measured(claim), asked(claim), verdict]))
    return Table("claims", heads, rows)


def _unit(held: Held, name: str) -> Unit:
    return unit_for(MEASURES[name].kind, [line[name] for line in held.lines if line[name] is not None])


def interval(line: Line, name: str, unit: Unit = RATIO) -> str:
    """A number and its interval: `0.994 (0.988 to 0.999)`."""
    return unit.interval(line[name], line[f"{name}_low"], line[f"{name}_high"])


def _is_share(claim: Line) -> bool:
    return bool(claim["bar"] < 1)


def measured(claim: Line) -> str:
    """Value of a claim, as its rows have it."""
    named = {"value": claim["value"], "value_low": claim["low"], "value_high": claim["high"]}
    return interval(named, "value", PERCENT if _is_share(claim) else RATIO)


def asked(claim: Line) -> str:
    """Bar of a claim."""
    if _is_share(claim):
        return f"≤ {PERCENT.number(claim['bar'], 0)}{THIN_SPACE}%"
    return f"interval > {claim['bar']:g}" if claim["is_strict"] else f"≥ {claim['bar']:g}"


def render(held: Held, rows: pl.DataFrame) -> str:
    """The page as text."""
    first = held.lines[0]
    data = pl.DataFrame(list(held.lines), infer_schema_length=None)
    sections = [
        Section("ratios", f"Against {held.reference}", ratios_lede(held), charts(held), data),
        Section("results", "Results", RESULTS_LEDE, html.table(results(held), "results cards")),
        Section("claims", "Claims", "", html.table(claims(held))),
        Section("provenance", "Provenance", "", html.part("made_by", held.command, code_of(rows))),
    ]
    facts = [
        counted(first["instances"], "held-out instance"),
        f"decisions: {first['mode']}",
        counted(rows.height, "run"),
        held.others,
    ]
    return page.assembled(
        held.title, sentences(held), " · ".join(filter(None, facts)), sections, rows, {"cc": held.controllers}
    )


def code_of(rows: pl.DataFrame) -> str:
    """The code that made the rows."""
    return ", ".join(rows["code"].unique().sort())


RESULTS_LEDE = (
    "Lost: cells in which it does worse than the reference by more than 5 %. Won: cells in which it does better."
)


def ratios_lede(held: Held) -> str:
    """Says how to read the ratios, and what their bars are."""
    within = _within(held.lines[0])
    bars = f" A bar is the {within}, too few for an interval." if within else ""
    if within.startswith("95"):
        bars = (
            f" A bar is the {within} over instances: one that crosses the line is not significant. Intervals come from "
            "the percentile bootstrap."
        )
    return (
        f"Instance by instance, how many times as good as the reference, on the geometric mean; right is better.{bars}"
    )


def sentences(held: Held) -> list[str]:
    """Results: each policy against the reference, over all controllers."""
    shown = [line for line in held.under(held.controllers[0]) if line["is_policy"]]
    return [f"{line['scheduler']}: {interval(line, 'ratio')} of {held.reference}." for line in shown]


def charts(held: Held) -> Markup:
    """A panel per controller, on one axis."""
    ends = [
        line[name] for line in held.lines for name in ("ratio", "ratio_low", "ratio_high") if line[name] is not None
    ]
    shared = axis(ends, include=(1.0,))
    rows = {
        cc: [dot(line, held) for line in held.under(cc) if line["scheduler"] != held.reference]
        for cc in held.controllers
    }
    lines = [(1.0, held.reference)]
    return panels(panel(_cc(cc), dots(some, shared, RATIO, lines), {"cc": cc}) for cc, some in rows.items() if some)


def dot(line: Line, held: Held) -> Dot:
    """A scheduler's ratio and interval."""
    name = line["scheduler"]
    estimate = estimated(line["ratio"], line["ratio_low"], line["ratio_high"], line["instances"])
    return Dot(name, held.looks[name], estimate, [], RATIO.value(line["ratio"]))


def estimated(value: float, low: float | None, high: float | None, count: int) -> Estimate:
    """A value of so many instances or cells, and its interval where it has one."""
    if low is None or high is None:
        return Estimate(value, None, 1)
    return Estimate(value, (high - low) / 2, count, (low, high))


def _cc(cc: str) -> str:
    return "all controllers" if cc == EVERY else cc
