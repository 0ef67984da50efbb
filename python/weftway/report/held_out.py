"""What an evaluation shows: tables for the terminal, and one self-contained page with the intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from weftway.stats.estimates import Estimate, interval_of
from weftway.stats.units import MEASURES, THIN_SPACE, Unit, unit_for

from . import page
from .axis import axis
from .charts import Dot, dots, mark, panel, symbols
from .numbers import counted
from .palette import Look, looks
from .sections import Section
from .tables import cell, table

NOTHING = "–"
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
    """What the folder holds besides, in a sentence."""

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
    return [_results(held), *([_claims(held)] if held.claims else [])]


def _plain(title: str, heads: Sequence[str], names: int) -> Table:
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, head in enumerate(heads):
        made.add_column(head, no_wrap=True, justify="left" if place < names else "right")
    return made


def _results(held: Held) -> Table:
    first = held.lines[0]
    several = len(held.controllers) > 1
    title = f"{held.title}: {counted(first['instances'], 'held-out instance')}, decisions: {first['mode']}"
    columns = [name for name in SHOWN if any(line[name] is not None for line in held.lines)]
    units = {name: _unit(held, name) for name in columns}
    measured = [f"{MEASURES[name].title.lower()}\n{units[name].symbol}".strip() for name in columns]
    heads = [
        "scheduler",
        *(["cc"] if several else []),
        f"of {held.reference}\n{_within(first)}",
    ]
    made = _plain(title, [*heads, "lost > 5 %\n%", "won\n%", *measured], len(heads) - 1)
    for cc in held.controllers:
        for line in held.under(cc):
            name = Text(line["scheduler"] + _unfinished(line), style="bold" if line["is_policy"] else "")
            shares = [_bare(PERCENT, line["lost_share"]), _bare(PERCENT, line["won_share"])]
            numbers = [_bare(units[column], line[column]) for column in columns]
            made.add_row(name, *([cc] if several else []), interval(line, "ratio"), *shares, *numbers)
        made.add_section()
        if cc != held.controllers[-1]:
            made.add_row()
    return made


def _within(line: Line) -> str:
    """What the intervals are called, of so many instances; a single one has none."""
    return interval_of(line["instances"], "instances") if line["instances"] > 1 else ""


def _claims(held: Held) -> Table:
    made = _plain("claims", ["", "against", "cc", "measured", "asked", ""], 3)
    for claim in held.claims:
        style = "bold green" if claim["verdict"] == "holds" else "bold red"
        verdict = Text(claim["verdict"] + ("" if claim["is_sure"] else ", within noise"), style=style)
        named = f"{claim['scheduler']} {claim['claim']}"
        made.add_row(named, claim["against"], claim["cc"], measured(claim), asked(claim), verdict)
    return made


def _unit(held: Held, name: str) -> Unit:
    return unit_for(MEASURES[name].kind, [line[name] for line in held.lines if line[name] is not None])


def _bare(unit: Unit, value: float | None) -> str:
    return NOTHING if value is None else unit.number(value)


def _unfinished(line: Line) -> str:
    return f" ({line['unfinished']} unfinished)" if line["unfinished"] else ""


def interval(line: Line, name: str, unit: Unit = RATIO) -> str:
    """A number and its interval: `0.994 (0.988 to 0.999)`."""
    return unit.interval(line[name], line[f"{name}_low"], line[f"{name}_high"])


def _is_share(claim: Line) -> bool:
    return bool(claim["bar"] < 1)


def measured(claim: Line) -> str:
    """What a claim's rows say."""
    named = {"value": claim["value"], "value_low": claim["low"], "value_high": claim["high"]}
    return interval(named, "value", PERCENT if _is_share(claim) else RATIO)


def asked(claim: Line) -> str:
    """What it asks for."""
    if _is_share(claim):
        return f"≤ {PERCENT.number(claim['bar'], 0)}{THIN_SPACE}%"
    return f"interval > {claim['bar']:g}" if claim["is_strict"] else f"≥ {claim['bar']:g}"


def write(file: Path, held: Held, rows: pl.DataFrame) -> None:
    """Writes the page."""
    file.write_text(render(held, rows), encoding="utf-8")


def render(held: Held, rows: pl.DataFrame) -> str:
    """The page as text."""
    first = held.lines[0]
    data = pl.DataFrame(list(held.lines), infer_schema_length=None)
    sections = [
        Section("ratios", f"Against {held.reference}", ratios_lede(held), charts(held), data),
        Section("results", "Results", RESULTS_LEDE, results(held)),
        Section("claims", "Claims", "", claims(held)),
        Section("provenance", "Provenance", "", provenance(held, rows)),
    ]
    kept = [section for section in sections if section.body]
    facts = [
        counted(first["instances"], "held-out instance"),
        f"decisions: {first['mode']}",
        counted(rows.height, "run"),
    ]
    several = len(held.controllers) > 1
    choice = page.selector("cc", "Controller", held.controllers) if several else ""
    fills = {
        "title": escape(held.title),
        "style": page.style(),
        "script": page.asset("page.js"),
        "symbols": symbols(),
        "verdict": escape(sentence(held)),
        "facts": escape(" · ".join([*facts, *([held.others] if held.others else [])])),
        "filters": f'<div class="filters">{choice}</div>' if several else "",
        "contents": "".join(f'<a href="#{one.id}">{escape(one.title)}</a>' for one in kept),
        "sections": "".join(map(page.section, kept)),
        "downloads": page.downloads(kept, rows),
    }
    return Template(page.asset("template.html")).substitute(fills)


def provenance(held: Held, rows: pl.DataFrame) -> str:
    """What it takes to get these numbers again."""
    code = ", ".join(rows["code"].unique().sort())
    return f"<p><code>{escape(held.command)}</code></p><p>Code {escape(code)}.</p>"


RESULTS_LEDE = (
    "Lost: cells in which it does worse than the reference by more than 5 %. Won: cells in which it does better."
)


def ratios_lede(held: Held) -> str:
    """How to read the ratios, and what their bars are."""
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


def sentence(held: Held) -> str:
    """What there is to know in a line: each policy against the reference, over all controllers."""
    shown = [line for line in held.under(held.controllers[0]) if line["is_policy"]]
    return "; ".join(f"{line['scheduler']}: {interval(line, 'ratio')} of {held.reference}" for line in shown) + "."


def charts(held: Held) -> str:
    """A panel per controller, on one axis."""
    ends = [
        line[name] for line in held.lines for name in ("ratio", "ratio_low", "ratio_high") if line[name] is not None
    ]
    shared = axis(ends, include=(1.0,))
    drawn = ""
    for cc in held.controllers:
        rows = [dot(line, held) for line in held.under(cc) if line["scheduler"] != held.reference]
        drawn += panel(_cc(cc), dots(rows, shared, RATIO, [(1.0, held.reference)]), {"cc": cc}) if rows else ""
    return f'<div class="panels">{drawn}</div>' if drawn else ""


def dot(line: Line, held: Held) -> Dot:
    """A scheduler's ratio and interval."""
    low, high = line["ratio_low"], line["ratio_high"]
    estimate = Estimate(line["ratio"], None, 1)
    if low is not None:
        estimate = Estimate(line["ratio"], (high - low) / 2, line["instances"], (low, high))
    name = line["scheduler"]
    return Dot(name, held.looks[name], estimate, [], RATIO.value(line["ratio"]))


def results(held: Held) -> str:
    """All lines, a group per controller."""
    columns = [name for name in SHOWN if any(line[name] is not None for line in held.lines)]
    units = {name: _unit(held, name) for name in columns}
    head = ["Scheduler", f"Of {held.reference}", "Lost", "Won", *(MEASURES[name].title for name in columns)]
    bodies = ""
    for cc in held.controllers:
        group = f'<tr class="group"><th colspan="{len(head)}" scope="rowgroup">{_cc(cc)}</th></tr>'
        for line in held.under(cc):
            shares = [PERCENT.value(line["lost_share"]), PERCENT.value(line["won_share"])]
            numbers = [NOTHING if line[name] is None else units[name].value(line[name]) for name in columns]
            texts = zip(head[1:], [interval(line, "ratio"), *shares, *numbers], strict=True)
            name = mark(held.looks[line["scheduler"]]) + escape(line["scheduler"] + _unfinished(line))
            cells = "".join(cell(label, escape(text)) for label, text in texts)
            group += f'<tr{" class=best" if line["is_policy"] else ""}><th scope="row">{name}</th>{cells}</tr>'
        bodies += f'<tbody data-cc="{escape(cc, quote=True)}">{group}</tbody>'
    return f'<div class="scroll">{table(head, bodies, "results cards")}</div>'


def claims(held: Held) -> str:
    """The claims with their verdicts."""
    head = ["Claim", "Against", "Controller", "Measured", "Asked", "Verdict"]
    rows = ""
    for claim in held.claims:
        css = "good" if claim["verdict"] == "holds" else "bad"
        sure = "" if claim["is_sure"] else " within noise"
        texts = zip(head[1:5], [claim["against"], claim["cc"], measured(claim), asked(claim)], strict=True)
        cells = "".join(cell(label, escape(text)) for label, text in texts)
        badge = f'<span class="badge {css}">{claim["verdict"]}</span>{sure}'
        named = f"{claim['scheduler']} {claim['claim']}"
        rows += f'<tr><th scope="row">{escape(named)}</th>{cells}{cell(head[5], badge, "remarks")}</tr>'
    return f'<div class="scroll">{table(head, f"<tbody>{rows}</tbody>", "cards")}</div>' if rows else ""


def _cc(cc: str) -> str:
    return "all controllers" if cc == EVERY else escape(cc)
