"""The worst cells, each with a run of both sides over time, on one pair of axes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from weftway.report.axis import Axis, from_zero
from weftway.report.html import part
from weftway.report.palette import Look
from weftway.report.series import Timeline, cell_of, read_timeline, top
from weftway.report.timeline import lane, line, rate_lane, time_axis
from weftway.runs.backends import Row
from weftway.runs.job import Job
from weftway.stats.units import Unit, unit_for

from .errors import Difference
from .runs import Runs
from .tables import SHARE

BINS = 160
"""Steps of a lane: half a page wide."""

SHARED = {"srtt_ms": ("Smoothed RTT", "time"), "cwnd_kb": ("Window", "size")}
"""Series that all paths show in one lane."""

KernelTimeline = Callable[[Job], dict[str, Any] | None]
"""Timeline of a run of the kernel, as `_native.timeline` says it of ours; none if it was not kept."""

SimTimeline = Callable[[Job], dict[str, Any]]


@dataclass(frozen=True)
class Watched:
    """Sources of timelines."""

    sim: SimTimeline
    kernel: KernelTimeline


def worst_cell(difference: Difference, runs: Runs, watched: Watched) -> Markup:
    """A cell to unfold: its numbers in the line, its command below, and the run of each side that is nearest to its
    median."""
    ours, theirs = runs.typical(runs.sim), runs.typical(runs.kernel)
    read = {
        f"Simulator, seed {ours.seed}": timeline(watched.sim(ours)),
        f"Kernel, run {theirs.seed}": timeline(watched.kernel(theirs)),
    }
    shown = [t for t in read.values() if t]
    end = max((t.end_ms for t in shown), default=1.0)
    axes = shared_axes(shown)
    sides = [side(name, t, end, axes) for name, t in read.items()]
    return part(
        "worst", difference.cc, difference.cell, difference.scenario, numbers(difference), difference.command, sides
    )


def numbers(difference: Difference) -> str:
    """Goodputs of both sides with the error of these; where seeds match, first the error seed by seed."""
    low, high = difference.interval
    medians = (
        f"{SHARE.signed(difference.plain_error)} %, ours {difference.sim_goodput_mbps:.3g}, "
        f"kernel {difference.kernel_goodput_mbps:.3g} [{low:.3g}, {high:.3g}] Mbit/s"
    )
    if not difference.pairs:
        return f"medians: {medians}"
    return f"seed by seed {SHARE.signed(difference.error)} %; medians of {difference.pairs} seeds: {medians}"


def timeline(record: dict[str, Any] | None) -> Timeline | None:
    """Thinned to what a lane can show."""
    read = read_timeline(cell_of("run", record), record) if record else None
    return read.thinned(BINS) if read and read.steps else None


def shared_axes(shown: Sequence[Timeline]) -> dict[str, Axis]:
    """Axes, one for each series for both sides: they are there to be compared by eye."""
    return {
        key: from_zero(top(path.get(key, []) for t in shown for path in t.paths.values())) for key in ("mbps", *SHARED)
    }


def side(name: str, t: Timeline | None, end: float, axes: dict[str, Axis]) -> Markup:
    """The lanes of one run."""
    if t is None:
        return part("lanes", name, end, [], "")
    t = until(t, end)
    lanes = [rate_lane(t, path, place, axes["mbps"]) for place, path in enumerate(t.paths)]
    lanes += [shared_lane(t, key, axes[key]) for key in SHARED]
    return part("lanes", name, t.end_ms, lanes, time_axis(t.end_ms, unit_for("time", [end]), 4))


def until(t: Timeline, end: float) -> Timeline:
    """Drawn out to `end`, with nothing to see there."""
    more = max(round((end - t.end_ms) / t.step_ms), 0)
    empty: list[float | None] = [None] * more
    paths = {name: {key: [*series, *empty] for key, series in path.items()} for name, path in t.paths.items()}
    return replace(t, paths=paths, connection={})


def shared_lane(t: Timeline, key: str, axis: Axis) -> Markup:
    """All paths in one lane."""
    title, kind = SHARED[key]
    unit: Unit = unit_for(kind, [axis.high])
    drawn = [
        line(path[key], t.step_ms, t.end_ms, axis, name, f"trace p{Look(place).path}", Look(place).dash)
        for place, (name, path) in enumerate(t.paths.items())
        if key in path
    ]
    return lane(title, unit.symbol, drawn, axis, unit) if drawn else Markup()


def rows_of(runs: Sequence[Runs]) -> list[Row]:
    """All rows that were compared."""
    return [row for cell in runs for row in [*cell.sim, *cell.kernel]]
