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
    measured: Measured, found: Sequence[Difference], kernel_timeline: KernelTimeline = lambda job: None
) -> Path:
    """Writes `report.html` into the folder. The runs of ours that it shows are run once more, and watched."""
    return report.save(render(measured, found, Watched(sim_timeline, kernel_timeline)), measured.request.folder)


def sim_timeline(job: Job) -> dict[str, Any]:
    """Timeline of a run of ours."""
    text = SIM.timeline(job, None)
    assert text is not None, "every simulated run has a timeline"
    found: dict[str, Any] = json.loads(text)
    return found


def render(measured: Measured, found: Sequence[Difference], watched: Watched) -> str:
    """The page as text; at least one cell was compared."""
    if not found:
        raise ValueError("a page needs at least one cell that both sides ran")
    return report.assembled(
        f"Simulator and kernel: {counted(len(found), 'cell')} of seed {measured.request.seed}",
        sentence(targets(groups(found))),
        " · ".join(facts(measured, found)[1:]),
        all_sections(measured, found, watched),
        table(rows_of(measured.runs)),
        {"cc": [cc for cc in CONTROLLERS if any(one.cc == cc for one in found)]},
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


def all_sections(measured: Measured, found: Sequence[Difference], watched: Watched) -> list[Section]:
    summed = groups(found)
    data = pl.DataFrame([one.record for one in found], infer_schema_length=None)
    return [
        Section("summary", "Summary", SUMMARY_LEDE, summary(summed)),
        Section("errors", "Errors", ERRORS_LEDE, errors(found, summed)),
        Section("goodput", "Goodput of both", SCATTER_LEDE, scatters(found)),
        Section("parts", "Shares and retransmissions", PARTS_LEDE, parts(found, summed)),
        Section("worst", "The worst cells", WORST_LEDE, worst_cells(measured, found, watched)),
        Section("cells", "All cells", CELLS_LEDE, cell_table(found), data),
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
    "Mbit/s, medians. On the line both are equal, between the dashed ones within a fifth; a stroke is the kernel's "
    "interval. Each mark leads to its cell."
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


def errors(found: Sequence[Difference], summed: Sequence[Group]) -> Markup:
    curves = [
        Curve("error", OURS, [abs(one.error) for one in found]),
        Curve("beyond the kernel's interval", BEYOND, [one.beyond for one in found]),
        Curve("the kernel's own ±", THEIRS, [one.spread for one in found]),
    ]
    asked = [(MEDIAN_TARGET, "asked of half"), (BEYOND_TARGET, "asked of 95 % beyond")]
    signed = [(one.name, [each.error for each in members(one.name, found)]) for one in summed]
    left = panel("Cells with at most this error", cumulative(curves, asked))
    return panels([left, panel("Error of the goodput", strokes(signed, PERCENT, "kernel"))])


def members(name: str, found: Sequence[Difference]) -> list[Difference]:
    """The cells of a group, by its name."""
    if name in CONTROLLERS:
        return [cell for cell in found if cell.cc == name]
    return [cell for cell in found if not name[0].isdigit() or cell.paths == int(name.split()[0])]


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


def scatters(found: Sequence[Difference]) -> Markup:
    shared = log_axis([value for one in found for value in (one.sim_goodput_mbps, *one.interval) if value > 0])
    drawn = []
    for cc in CONTROLLERS:
        marks = [scattered(one) for one in found if one.cc == cc]
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


def parts(found: Sequence[Difference], summed: Sequence[Group]) -> Markup:
    names = [one.name for one in summed]
    gaps = [(name, values(members(name, found), lambda one: one.share_error_points)) for name in names]
    resent = [(name, values(members(name, found), lambda one: one.retransmission_error_points)) for name in names]
    sets = (("Share of the path that differs most", gaps), ("Retransmission rate", resent))
    return panels(panel(title, strokes(each, POINT)) for title, each in sets if any(some for _, some in each))


def worst_cells(measured: Measured, found: Sequence[Difference], watched: Watched) -> Markup:
    runs = {one.cell.number: one for one in measured.runs}
    return Markup().join(worst_cell(one, runs[one.cell], watched) for one in worst(found, WORST))


def cell_table(found: Sequence[Difference]) -> Markup:
    heads = ("kernel, Mbit/s", "kernel ±", "ours, Mbit/s", "error", "plain", "beyond", "share, points")
    more = ("resent, points", "ratio", "window drops", "runs", "late")
    return html.table(Table(None, [Column("cell"), *numbers(*heads, *more)], [cell_row(cell) for cell in found]), "")


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
    return "; ".join(f"cell {one.cell.number}: {one.note}" for one in measured.runs if one.note)
