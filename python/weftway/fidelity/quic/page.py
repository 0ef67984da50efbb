"""The page of the agreement: one HTML file like that of the sweep against the kernel, of whose parts it is made."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from markupsafe import Markup

from weftway import _native
from weftway.report import html
from weftway.report import page as report
from weftway.report.charts import panel, panels
from weftway.report.curves import Curve, cumulative
from weftway.report.palette import Look
from weftway.report.sections import Section
from weftway.runs.backends import BACKENDS
from weftway.runs.plan import quoted
from weftway.runs.store import table
from weftway.terminal.table import Column, Row, Table, numbers

from ..tables import PERCENT
from .cases import MEDIAN_GOAL, P95_GOAL, Agreement, Case
from .runs import Measured
from .tables import facts, group_table, misordered

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


def write_report(measured: Measured, agreement: Agreement) -> Path:
    """Writes `report.html` into the folder; at least one case was compared."""
    return report.save(render(measured, agreement), measured.request.folder)


def render(measured: Measured, agreement: Agreement) -> str:
    """The page as text."""
    return report.assembled(
        f"Simulator and Multipath QUIC: {len(agreement.cases)} cases",
        [f"{goal.name} {goal.found} ({verdict(goal.met)})" for goal in agreement.goals],
        " · ".join(facts(measured, agreement)[:1]),
        all_sections(measured, agreement),
        table(measured.rows),
        {"cc": list(dict.fromkeys(case.cc for case in agreement.cases))},
        style=report.asset("page.css", "weftway.fidelity"),
    )


def verdict(met: bool) -> str:
    return "met" if met else "missed"


def all_sections(measured: Measured, agreement: Agreement) -> list[Section]:
    data = pl.DataFrame([case.record for case in agreement.cases], infer_schema_length=None)
    return [
        Section("summary", "Summary", SUMMARY_LEDE, summary(agreement)),
        Section("differences", "Differences", CURVES_LEDE, curves(agreement)),
        Section("cases", "All cases", CASES_LEDE, case_table(agreement.cases), data),
        Section("order", "Order of schedulers", ORDER_LEDE, order(agreement)),
        Section(
            "provenance", "Provenance", "What it takes to get these numbers again.", provenance(measured, agreement)
        ),
    ]


def summary(agreement: Agreement) -> Markup:
    """The goals with their verdicts, and the medians of each group."""
    goals = [
        (("good" if goal.met else "bad", verdict(goal.met)), f"{goal.name}: {goal.found}, asked for {goal.asked}")
        for goal in agreement.goals
    ]
    return html.part("listed", goals) + html.table(group_table(agreement.groups), "")


def curves(agreement: Agreement) -> Markup:
    sets = [
        Curve("all cases", ALL, [abs(case.difference) for case in agreement.cases]),
        Curve("our scenarios", SCENARIOS, [abs(case.difference) for case in agreement.cases if not case.drawn]),
        Curve("drawn cells", DRAWN, [abs(case.difference) for case in agreement.cases if case.drawn]),
    ]
    drawn = [curve for curve in sets if curve.values]
    goals = [(MEDIAN_GOAL, "asked of half"), (P95_GOAL, "asked of 95 %")]
    return panels([panel("Cases with at most this difference", cumulative(drawn, goals))])


def case_table(cases: Sequence[Case]) -> Markup:
    heads = ("sim, ms", "QUIC, ms", "difference", "resent, sim", "resent, QUIC", "seeds")
    return html.table(Table(None, [Column("case"), *numbers(*heads)], [case_row(case) for case in cases]), "")


def case_row(case: Case) -> Row:
    """A case's numbers."""
    resent = ["" if n is None else f"{n:.0f}" for n in (case.sim_retransmissions, case.quic_retransmissions)]
    times = [f"{case.sim_ms:.1f}", f"{case.quic_ms:.1f}", PERCENT.signed(case.difference)]
    return Row([f"{case.setting}, {case.cc}, {case.scheduler}", *times, *resent, str(case.seeds)], cc=case.cc)


def order(agreement: Agreement) -> Markup:
    """The pairs in another order."""
    rows = []
    for pair in misordered(agreement):
        first, second = pair.faster, pair.slower
        name = f"{first.setting}, {first.cc}: {first.scheduler}, {second.scheduler}"
        times = [f"{ms:.1f}" for case in (first, second) for ms in (case.quic_ms, case.sim_ms)]
        rows.append(Row([name, *times], cc=first.cc))
    heads = numbers("first: QUIC, ms", "sim, ms", "second: QUIC, ms", "sim, ms")
    made = html.table(Table(None, [Column("pair"), *heads], rows), "")
    return made or Markup("<p>All pairs have the same order.</p>")


def provenance(measured: Measured, agreement: Agreement) -> Markup:
    asked = measured.request
    cells = f"--cells {asked.cells} --seed {asked.seed}"
    command = f"weft fidelity --backend sim,{asked.other} {cells} --out {quoted(str(asked.folder))}"
    lines = [("Simulator", _native.CODE), ("QUIC", BACKENDS[asked.other].code())]
    return html.part("provenance", lines, [("The measurement", command)], "", facts(measured, agreement)[1:])
