"""The page of a sweep: one HTML file like the comparison's report, from whose parts it is made."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from weftway import _native
from weftway.report import html
from weftway.report import page as report
from weftway.report.axis import axis
from weftway.report.charts import Dot, dots, panel, panels, titled
from weftway.report.curves import Curve, Mark, cumulative, log_axis, scatter
from weftway.report.numbers import counted
from weftway.report.palette import Look
from weftway.report.sections import TIMELINE_KEY, Section
from weftway.runs.backends import SIM
from weftway.runs.job import Job
from weftway.runs.store import table
from weftway.stats.estimates import Estimate, median
from weftway.stats.units import Unit
from weftway.terminal.table import Column, Row, Table, numbers

from .cells import CONTROLLERS
from .errors import BEYOND_TARGET, MEDIAN_TARGET, Difference, Group, Target, groups, targets, values, worst
from .lanes import KernelTimeline, Watched, rows_of, worst_cell
from .runs import Measured
from .tables import PERCENT, POINTS, WORST, facts, group_table, known

POINT = Unit(1.0, "points", 2)
BADGES = {"met": "good", "missed": "bad"}
OURS, BEYOND, THEIRS = Look(1), Look(3), Look(0)


def write_report(
    measured: Measured, differences: Sequence[Difference], kernel_timeline: KernelTimeline = lambda job: None
) -> Path:
    """Writes `report.html` into the folder. The runs of ours that it shows are run once more, and watched."""
    return report.save(render(measured, differences, Watched(sim_timeline, kernel_timeline)), measured.request.folder)


def sim_timeline(job: Job) -> dict[str, Any]:
    """Timeline of a run of ours."""
    text = SIM.timeline(job, None)
    assert text is not None, "every simulated run has a timeline"
    timeline: dict[str, Any] = json.loads(text)
    return timeline


def render(measured: Measured, differences: Sequence[Difference], watched: Watched) -> str:
    """The page as text; at least one cell was compared."""
    if not differences:
        raise ValueError("a page needs at least one cell that both sides ran")
    return report.assembled(
        f"Simulator and kernel: {counted(len(differences), 'cell')} of seed {measured.request.seed}",
        [sentence(targets(groups(differences)))],
        " · ".join(facts(measured, differences)[1:]),
        all_sections(measured, differences, watched),
        table(rows_of(measured.runs)),
        {"cc": [cc for cc in CONTROLLERS if any(difference.cc == cc for difference in differences)]},
        style=report.asset("page.css", __package__),
        script=report.asset("lanes.js", __package__),
    )


def sentence(asked: Sequence[Target]) -> str:
    """Result in a line."""
    middle, tail, *_ = asked
    return (
        f"Half of the cells are within {PERCENT.value(middle.value)} of the kernel's goodput "
        f"(asked: {PERCENT.value(middle.limit)}, {middle.verdict}); 95\u202f% lie inside the kernel's interval or "
        f"at most {PERCENT.value(tail.value)} outside (asked: {PERCENT.value(tail.limit)}, {tail.verdict})."
    )


def all_sections(measured: Measured, differences: Sequence[Difference], watched: Watched) -> list[Section]:
    summed = groups(differences)
    data = pl.DataFrame([difference.record for difference in differences], infer_schema_length=None)
    return [
        Section("summary", "Summary", SUMMARY_LEDE, summary(summed)),
        Section("errors", "Errors", ERRORS_LEDE, errors(differences, summed)),
        Section("goodput", "Goodput of both", SCATTER_LEDE, scatters(differences)),
        Section("parts", "Shares and retransmissions", PARTS_LEDE, parts(differences, summed)),
        Section("worst", "The worst cells", WORST_LEDE, worst_cells(measured, differences, watched)),
        Section("cells", "All cells", CELLS_LEDE, cell_table(differences), data),
        Section("provenance", "Provenance", "What it takes to get these numbers again.", provenance(measured)),
    ]


SUMMARY_LEDE = (
    "The error of a cell is the simulator's goodput over the kernel's, less one: the median over the seeds that both "
    "ran, since a seed draws the same losses on both sides. Plain: the medians of both over these same seeds, one over "
    "the other. Beyond: how far our median is outside of the interval of "
    "the kernel's median (percentile bootstrap, 95 %; of five runs it is their range, which holds the median in 94 of "
    "100 cases, and of three runs in 75). Kernel ±: half the width of that interval. Errors of shares are "
    "those of the path that differs most; a retransmission rate is per packet."
)
ERRORS_LEDE = (
    "Left, how many cells have at most so large an error; right, a fine stroke per cell, the marker its median."
)
SCATTER_LEDE = (
    "Mbit/s, medians of the same seeds. On the line both are equal, between the dashed ones within a fifth; a stroke "
    "is the kernel's interval. Each mark leads to its cell."
)
PARTS_LEDE = "In percent points: a share of 60 % in place of 50 % is off by 10."
WORST_LEDE = Markup(
    "Farthest beyond the kernel's interval first; of each side the run nearest to its median, on the same axes. "
    '{}<output id="readout" aria-live="off"></output>'
).format(TIMELINE_KEY)
CELLS_LEDE = (
    "A path reads rate (Mbit/s) / one-way delay (ms) / loss (%), q: queue (packets), "
    "j: standard deviation of its jitter (ms)."
)


def summary(summed: Sequence[Group]) -> Markup:
    """The targets with their verdicts, and the medians of each group."""
    return html.part("listed", map(target_line, targets(summed))) + html.table(group_table(summed), "")


def target_line(target: Target) -> tuple[tuple[str, str], str]:
    """A target's badge, and its words."""
    text = f"{target.name}: {PERCENT.value(target.value)}, asked for {PERCENT.value(target.limit)} at most"
    return (BADGES.get(target.verdict, "plain"), target.verdict), text


def errors(differences: Sequence[Difference], summed: Sequence[Group]) -> Markup:
    curves = [
        Curve("error", OURS, [abs(difference.error) for difference in differences]),
        Curve("beyond the kernel's interval", BEYOND, [difference.beyond for difference in differences]),
        Curve("the kernel's own ±", THEIRS, [difference.spread for difference in differences]),
    ]
    asked = [(MEDIAN_TARGET, "asked of half"), (BEYOND_TARGET, "asked of 95 % beyond")]
    signed = [(group.name, [each.error for each in members(group.name, differences)]) for group in summed]
    left = panel("Cells with at most this error", cumulative(curves, asked))
    return panels([left, panel("Error of the goodput", strokes(signed, PERCENT, "kernel"))])


def members(name: str, differences: Sequence[Difference]) -> list[Difference]:
    """The cells of a group, by its name."""
    if name in CONTROLLERS:
        return [cell for cell in differences if cell.cc == name]
    return [cell for cell in differences if not name[0].isdigit() or cell.paths == int(name.split()[0])]


def strokes(sets: Sequence[tuple[str, Sequence[float]]], unit: Unit, line: str = "") -> Markup:
    """A row per group: a stroke per cell, a marker at the median."""
    shared = axis([value for _, some in sets for value in some], include=(0.0,))
    rows = [
        Dot(name, group_look(name), Estimate(median(some), None, len(some)), some, middle_of(some, unit))
        for name, some in sets
        if some
    ]
    return dots(rows, shared, unit, [(0.0, line)])


def middle_of(some: Sequence[float], unit: Unit) -> str:
    """The median in words; a sign only where values have one."""
    return unit.signed(median(some)) if min(some) < 0 else unit.value(median(some))


def group_look(name: str) -> Look:
    """A controller has its own; the others are told by their name."""
    return cc_look(name) if name in CONTROLLERS else Look(7)


def scatters(differences: Sequence[Difference]) -> Markup:
    shared = log_axis(
        [
            value
            for difference in differences
            for value in (difference.sim_goodput_mbps, *difference.interval)
            if value > 0
        ]
    )
    drawn = []
    for cc in CONTROLLERS:
        marks = [scattered(difference) for difference in differences if difference.cc == cc]
        title = titled(None, cc, f"kernel along, simulator up; {counted(len(marks), 'cell')}")
        drawn += [panel(title, scatter(marks, shared, cc_look(cc)), {"cc": cc})] if marks else []
    return panels(drawn)


def scattered(cell: Difference) -> Mark:
    """A cell's mark: the kernel's goodput along, ours up."""
    along, up = cell.kernel_goodput_mbps, cell.sim_goodput_mbps
    words = f"cell {cell.cell}: kernel {along:.3g}, simulator {up:.3g} Mbit/s"
    return Mark(along, up, cell.interval, words, f"#cell-{cell.cell}")


def cc_look(cc: str) -> Look:
    """A controller's colour and marker."""
    return Look(CONTROLLERS.index(cc) if cc in CONTROLLERS else len(CONTROLLERS))


def parts(differences: Sequence[Difference], summed: Sequence[Group]) -> Markup:
    names = [group.name for group in summed]
    gaps = [
        (name, values(members(name, differences), lambda difference: difference.share_error_points)) for name in names
    ]
    resent = [
        (name, values(members(name, differences), lambda difference: difference.retransmission_error_points))
        for name in names
    ]
    sets = (("Share of the path that differs most", gaps), ("Retransmission rate", resent))
    return panels(panel(title, strokes(each, POINT)) for title, each in sets if any(some for _, some in each))


def worst_cells(measured: Measured, differences: Sequence[Difference], watched: Watched) -> Markup:
    runs = {of_cell.cell.number: of_cell for of_cell in measured.runs}
    return Markup().join(
        worst_cell(difference, runs[difference.cell], watched) for difference in worst(differences, WORST)
    )


def cell_table(differences: Sequence[Difference]) -> Markup:
    heads = ("kernel, Mbit/s", "kernel ±", "ours, Mbit/s", "error", "plain", "beyond", "share, points")
    more = ("resent, points", "ratio", "window drops", "runs", "late")
    return html.table(
        Table(None, [Column("cell"), *numbers(*heads, *more)], [cell_row(cell) for cell in differences]), ""
    )


def cell_row(cell: Difference) -> Row:
    """A cell's numbers."""
    cells = [
        f"{cell.cell}: {cell.scenario}",
        f"{cell.kernel_goodput_mbps:.4g}",
        PERCENT.value(cell.spread),
        f"{cell.sim_goodput_mbps:.4g}",
        PERCENT.signed(cell.error),
        PERCENT.signed(cell.plain_error),
        PERCENT.value(cell.beyond),
        known(cell.share_error_points, POINTS),
        known(cell.retransmission_error_points, POINTS),
        known(cell.retransmission_ratio, POINTS),
        known(cell.window_drops, Unit(1.0, "", 0)),
        str(cell.kernel_runs),
        str(cell.late_runs),
    ]
    return Row(cells, cc=cell.cc, attributes={"id": f"cell-{cell.cell}"})


def provenance(measured: Measured) -> Markup:
    lines = [
        ("Simulator", _native.CODE),
        ("Kernel", f"{platform.system()} {platform.release()}"),
        ("Time", f"{measured.seconds:.0f} s; earlier calls for this folder included"),
        ("Short of runs", short_of_runs(measured)),
    ]
    return html.part("provenance", lines, [("The sweep", measured.request.command)], "", [])


def short_of_runs(measured: Measured) -> str:
    """Cells with fewer runs than wanted, and why."""
    return "; ".join(f"cell {of_cell.cell.number}: {of_cell.note}" for of_cell in measured.runs if of_cell.note)
