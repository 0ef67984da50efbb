"""The page of a sweep: one HTML file like the comparison's report, from whose parts it is made."""

import json
import platform
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import polars as pl

from weftway import _native
from weftway.report import page as report
from weftway.report.axis import axis
from weftway.report.charts import Dot, dots, panel, symbols
from weftway.report.numbers import counted
from weftway.report.palette import Look
from weftway.report.sections import TIMELINE_KEY, Section
from weftway.run.backends import SIM
from weftway.run.job import Job
from weftway.run.store import table, whole
from weftway.stats.estimates import Estimate, median
from weftway.stats.units import Unit

from .cells import CONTROLLERS
from .charts import Curve, cc_look, cumulative, log_axis, scatter
from .errors import BEYOND_TARGET, MEDIAN_TARGET, Difference, Group, Target, groups, targets, values, worst
from .lanes import KernelTimeline, Watched, rows_of, worst_cell
from .runs import Measured
from .tables import PERCENT, POINTS, WORST, facts, known

POINT = Unit(1.0, "points", 2)
BADGES = {"met": "good", "missed": "bad"}
OURS, BEYOND, THEIRS = Look(1), Look(3), Look(0)


def write_report(
    measured: Measured, found: Sequence[Difference], kernel_timeline: KernelTimeline = lambda job: None
) -> Path:
    """Writes `report.html` into the folder. The runs of ours that it shows are run once more, and watched."""
    file = measured.request.folder / "report.html"
    with whole(file) as half:
        half.write_text(render(measured, found, Watched(sim_timeline, kernel_timeline)), encoding="utf-8")
    return file


def sim_timeline(job: Job) -> dict[str, Any]:
    """What a run of ours looks like over time."""
    text = SIM.timeline(job, None)
    assert text is not None, "every simulated run has a timeline"
    found: dict[str, Any] = json.loads(text)
    return found


def render(measured: Measured, found: Sequence[Difference], watched: Watched) -> str:
    """The page as text; at least one cell was compared."""
    if not found:
        raise ValueError("a page needs at least one cell that both sides ran")
    sections = all_sections(measured, found, watched)
    present = [cc for cc in CONTROLLERS if any(one.cc == cc for one in found)]
    fills = {
        "title": f"Simulator and kernel: {counted(len(found), 'cell')} of seed {measured.request.seed}",
        "style": report.style() + resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8"),
        "script": report.asset("page.js")
        + resources.files(__package__).joinpath("lanes.js").read_text(encoding="utf-8"),
        "symbols": symbols(),
        "verdict": escape(sentence(targets(groups(found)))),
        "facts": escape(" · ".join(facts(measured, found)[1:])),
        "filters": f'<div class="filters">{report.selector("cc", "Controller", present)}</div>',
        "contents": "".join(f'<a href="#{s.id}">{escape(s.title)}</a>' for s in sections),
        "sections": "".join(map(report.section, sections)),
        "downloads": report.downloads(sections, table(rows_of(measured.runs))),
    }
    return Template(report.asset("template.html")).substitute(fills)


def sentence(asked: Sequence[Target]) -> str:
    """What there is to know in a line."""
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
WORST_LEDE = (
    "Farthest beyond the kernel's interval first; of each side the run nearest to its median, on the same axes. "
    f'{TIMELINE_KEY}<output id="readout" aria-live="off"></output>'
)
CELLS_LEDE = (
    "A path reads rate (Mbit/s) / one-way delay (ms) / loss (%), q: queue (packets), "
    "j: standard deviation of its jitter (ms)."
)


def summary(summed: Sequence[Group]) -> str:
    badges = "".join(target_line(target) for target in targets(summed))
    heads = ["cells", "error, median", "plain", "signed", "beyond, p90", "p95", "inside", "kernel ±"]
    heads += ["share, points", "resent, points", "resent, ratio"]
    return f"<ul>{badges}</ul>{html_table(['', *heads], [group_row(one) for one in summed])}"


def target_line(target: Target) -> str:
    css = BADGES.get(target.verdict, "plain")
    text = f"{target.name}: {PERCENT.value(target.value)}, asked for {PERCENT.value(target.limit)} at most"
    return f'<li><span class="badge {css}">{target.verdict}</span>{escape(text)}</li>'


def group_row(one: Group) -> str:
    percents = [PERCENT.value(one.error), PERCENT.value(one.plain), PERCENT.signed(one.signed)]
    percents += [PERCENT.value(value) for value in (one.beyond_p90, one.beyond_p95)]
    rest = [known(value, POINTS) for value in (one.share_points, one.retransmission_points, one.retransmission_ratio)]
    return row(one.name, [str(one.cells), *percents, str(one.inside), PERCENT.value(one.spread), *rest])


def row(name: str, numbers: Sequence[str], attributes: str = "") -> str:
    columns = "".join(f'<td class="num">{escape(number)}</td>' for number in numbers)
    return f"<tr{attributes}><th>{escape(name)}</th>{columns}</tr>"


def html_table(heads: Sequence[str], rows: Sequence[str]) -> str:
    first, *others = heads
    named = f"<th>{escape(first)}</th>" + "".join(f'<th class="num">{escape(head)}</th>' for head in others)
    body = "".join(rows)
    return f'<div class="scroll"><table><thead><tr>{named}</tr></thead><tbody>{body}</tbody></table></div>'


def errors(found: Sequence[Difference], summed: Sequence[Group]) -> str:
    curves = [
        Curve("error", OURS, [abs(one.error) for one in found]),
        Curve("beyond the kernel's interval", BEYOND, [one.beyond for one in found]),
        Curve("the kernel's own ±", THEIRS, [one.spread for one in found]),
    ]
    asked = [(MEDIAN_TARGET, "asked of half"), (BEYOND_TARGET, "asked of 95 % beyond")]
    keys = "".join(curve.key for curve in curves)
    signed = [(one.name, [each.error for each in members(one.name, found)]) for one in summed]
    left = panel("Cells with at most this error", cumulative(curves, asked) + keys, {})
    right = panel("Error of the goodput", strokes(signed, PERCENT, "kernel"), {})
    return f'<div class="panels">{left}{right}</div>'


def members(name: str, found: Sequence[Difference]) -> list[Difference]:
    """The cells of a group, by its name."""
    if name in CONTROLLERS:
        return [one for one in found if one.cc == name]
    return [one for one in found if not name[0].isdigit() or one.paths == int(name.split()[0])]


def strokes(sets: Sequence[tuple[str, Sequence[float]]], unit: Unit, line: str = "") -> str:
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


def scatters(found: Sequence[Difference]) -> str:
    shared = log_axis([value for one in found for value in (one.sim_goodput_mbps, *one.interval) if value > 0])
    drawn = ""
    for cc in CONTROLLERS:
        some = [one for one in found if one.cc == cc]
        if some:
            title = f"{cc} <small>kernel along, simulator up; {counted(len(some), 'cell')}</small>"
            drawn += panel(title, scatter(some, shared), {"cc": cc})
    return f'<div class="panels">{drawn}</div>'


def parts(found: Sequence[Difference], summed: Sequence[Group]) -> str:
    names = [one.name for one in summed]
    gaps = [(name, values(members(name, found), lambda one: one.share_error_points)) for name in names]
    resent = [(name, values(members(name, found), lambda one: one.retransmission_error_points)) for name in names]
    drawn = ""
    for title, sets in (("Share of the path that differs most", gaps), ("Retransmission rate", resent)):
        if any(some for _, some in sets):
            drawn += panel(title, strokes(sets, POINT), {})
    return f'<div class="panels">{drawn}</div>'


def worst_cells(measured: Measured, found: Sequence[Difference], watched: Watched) -> str:
    runs = {one.cell.number: one for one in measured.runs}
    return "".join(worst_cell(one, runs[one.cell], watched) for one in worst(found, WORST))


def cell_table(found: Sequence[Difference]) -> str:
    heads = ["cell", "kernel, Mbit/s", "kernel ±", "ours, Mbit/s", "error", "plain", "beyond", "share, points"]
    heads += ["resent, points", "ratio", "window drops", "runs", "late"]
    return html_table(heads, [cell_row(one) for one in found])


def cell_row(one: Difference) -> str:
    numbers = [
        f"{one.kernel_goodput_mbps:.4g}",
        PERCENT.value(one.spread),
        f"{one.sim_goodput_mbps:.4g}",
        PERCENT.signed(one.error),
        PERCENT.signed(one.plain_error),
        PERCENT.value(one.beyond),
        known(one.share_error_points, POINTS),
        known(one.retransmission_error_points, POINTS),
        known(one.retransmission_ratio, POINTS),
        known(one.window_drops, Unit(1.0, "", 0)),
        str(one.kernel_runs),
        str(one.late_runs),
    ]
    return row(f"{one.cell}: {one.scenario}", numbers, f' id="cell-{one.cell}" data-cc="{one.cc}"')


def provenance(measured: Measured) -> str:
    lines = [
        ("Simulator", _native.CODE),
        ("Kernel", f"{platform.system()} {platform.release()}"),
        ("Time", f"{measured.seconds:.0f} s; earlier calls for this folder included"),
        ("Short of runs", short_of_runs(measured)),
    ]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines if text)
    command = escape(measured.request.command)
    return (
        f'<dl class="facts">{listed}</dl><div class="command"><span>The sweep</span><code>{command}</code>'
        f'<button type="button" class="copy">Copy</button></div>'
    )


def short_of_runs(measured: Measured) -> str:
    """Cells with fewer runs than wanted, and why."""
    return "; ".join(f"cell {one.cell.number}: {one.note}" for one in measured.runs if one.note)
