"""The page of the agreement: one HTML file like that of the sweep against the kernel, of whose parts it is made."""

from html import escape
from importlib import resources
from pathlib import Path
from string import Template

import polars as pl

from weftway import _native
from weftway.report import page as report
from weftway.report.charts import panel, symbols
from weftway.report.palette import Look
from weftway.report.sections import Section
from weftway.run.plan import quoted
from weftway.run.store import table, whole

from ..charts import Curve, cumulative
from ..page import html_table, row
from ..tables import PERCENT
from .cases import FAR, MEDIAN_GOAL, NEAR, P95_GOAL, Agreement, Case
from .runs import Measured
from .tables import facts, misordered

ALL, SCENARIOS, DRAWN = Look(1), Look(3), Look(0)

SUMMARY_LEDE = (
    "A case is one scheduler in one setting: a variant of a scenario under one controller. Its time is the 99th "
    "percentile of the message delay where there are messages, else the completion time: the median over the seeds "
    "that both stacks finished. The difference is the simulator's time over that of QUIC, less one."
)
CURVES_LEDE = "How many cases have at most so large a difference."
CASES_LEDE = "The largest difference first."
ORDER_LEDE = (
    "Pairs of schedulers in one setting that differ by more than 5 % on QUIC and that the simulator has in another "
    "order. The first one is faster on QUIC."
)


def write_report(measured: Measured, found: Agreement) -> Path:
    """Writes `report.html` into the folder; at least one case was compared."""
    file = measured.request.folder / "report.html"
    with whole(file) as half:
        half.write_text(render(measured, found), encoding="utf-8")
    return file


def render(measured: Measured, found: Agreement) -> str:
    """The page as text."""
    sections = all_sections(measured, found)
    styles = resources.files("weftway.fidelity").joinpath("page.css").read_text(encoding="utf-8")
    controllers = list(dict.fromkeys(one.cc for one in found.cases))
    fills = {
        "title": f"Simulator and Multipath QUIC: {len(found.cases)} cases",
        "style": report.style() + styles,
        "script": report.asset("page.js"),
        "symbols": symbols(),
        "verdict": escape("; ".join(f"{goal.name} {goal.found} ({verdict(goal.met)})" for goal in found.goals)),
        "facts": escape(" · ".join(facts(measured, found)[:1])),
        "filters": f'<div class="filters">{report.selector("cc", "Controller", controllers)}</div>',
        "contents": "".join(f'<a href="#{s.id}">{escape(s.title)}</a>' for s in sections),
        "sections": "".join(map(report.section, sections)),
        "downloads": report.downloads(sections, table(measured.rows)),
    }
    return Template(report.asset("template.html")).substitute(fills)


def verdict(met: bool) -> str:
    return "met" if met else "missed"


def all_sections(measured: Measured, found: Agreement) -> list[Section]:
    data = pl.DataFrame([one.record for one in found.cases], infer_schema_length=None)
    return [
        Section("summary", "Summary", SUMMARY_LEDE, summary(found)),
        Section("differences", "Differences", CURVES_LEDE, curves(found)),
        Section("cases", "All cases", CASES_LEDE, case_table(found.cases), data),
        Section("order", "Order of schedulers", ORDER_LEDE, order(found)),
        Section("provenance", "Provenance", "What it takes to get these numbers again.", provenance(measured, found)),
    ]


def summary(found: Agreement) -> str:
    badges = "".join(
        f'<li><span class="badge {"good" if goal.met else "bad"}">{verdict(goal.met)}</span>'
        f"{escape(f'{goal.name}: {goal.found}, asked for {goal.asked}')}</li>"
        for goal in found.goals
    )
    heads = ["", "cases", "median", "signed", "p95", f"within {100 * NEAR:.0f} %", f"within {100 * FAR:.0f} %"]
    rows = [
        row(
            one.name,
            [
                str(one.cases),
                PERCENT.value(one.middle),
                PERCENT.signed(one.signed),
                *(PERCENT.value(part) for part in (one.p95, one.near, one.far)),
            ],
        )
        for one in found.groups
    ]
    return f"<ul>{badges}</ul>{html_table(heads, rows)}"


def curves(found: Agreement) -> str:
    sets = [
        Curve("all cases", ALL, [abs(one.difference) for one in found.cases]),
        Curve("our scenarios", SCENARIOS, [abs(one.difference) for one in found.cases if not one.drawn]),
        Curve("drawn cells", DRAWN, [abs(one.difference) for one in found.cases if one.drawn]),
    ]
    drawn = [curve for curve in sets if curve.values]
    keys = "".join(curve.key for curve in drawn)
    goals = [(MEDIAN_GOAL, "asked of half"), (P95_GOAL, "asked of 95 %")]
    shown = panel("Cases with at most this difference", cumulative(drawn, goals) + keys, {})
    return f'<div class="panels">{shown}</div>'


def case_table(cases: list[Case]) -> str:
    heads = ["case", "sim, ms", "QUIC, ms", "difference", "resent, sim", "resent, QUIC", "seeds"]
    return html_table(heads, [case_row(one) for one in cases])


def case_row(one: Case) -> str:
    resent = ["" if n is None else f"{n:.0f}" for n in (one.sim_retransmissions, one.quic_retransmissions)]
    numbers = [f"{one.sim_ms:.1f}", f"{one.quic_ms:.1f}", PERCENT.signed(one.difference), *resent, str(one.seeds)]
    return row(f"{one.setting}, {one.cc}, {one.scheduler}", numbers, f' data-cc="{escape(one.cc, quote=True)}"')


def order(found: Agreement) -> str:
    rows = [
        row(
            f"{pair.faster.setting}, {pair.faster.cc}: {pair.faster.scheduler}, {pair.slower.scheduler}",
            [f"{ms:.1f}" for one in (pair.faster, pair.slower) for ms in (one.quic_ms, one.sim_ms)],
            f' data-cc="{escape(pair.faster.cc, quote=True)}"',
        )
        for pair in misordered(found)
    ]
    heads = ["pair", "first: QUIC, ms", "sim, ms", "second: QUIC, ms", "sim, ms"]
    return html_table(heads, rows) if rows else "<p>All pairs have the same order.</p>"


def provenance(measured: Measured, found: Agreement) -> str:
    asked = measured.request
    command = (
        f"weft fidelity --backend sim,quic --cells {asked.cells} --seed {asked.seed} --out {quoted(str(asked.folder))}"
    )
    lines = [("Simulator", _native.CODE), ("QUIC", _native.QUIC_CODE)]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines)
    left = "".join(f"<li>{escape(line)}</li>" for line in facts(measured, found)[1:])
    return (
        f'<dl class="facts">{listed}</dl><ul>{left}</ul><div class="command"><span>The measurement</span>'
        f'<code>{escape(command)}</code><button type="button" class="copy">Copy</button></div>'
    )
