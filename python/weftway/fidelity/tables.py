"""What the command prints: targets and groups first, then the worst cells and how to run them again."""

from collections.abc import Sequence
from typing import Protocol

from rich.table import Table
from rich.text import Text

from weftway.report.numbers import counted
from weftway.stats.estimates import FEWEST
from weftway.stats.units import Unit
from weftway.terminal.listing import NOTHING

from .errors import Difference, Group, Target, groups, obstacle, targets, worst
from .runs import Measured

WORST = 10
STYLES = {"met": "bold green", "missed": "bold red"}
"""Of verdicts."""
PERCENT = Unit(100.0, "%", 1)
SHARE = Unit(100.0, "", 1)
"""The same under a heading that says percent."""
POINTS = Unit(1.0, "", 2)


def tables(measured: Measured, found: Sequence[Difference]) -> list[Table | Text]:
    """All parts, in order; without a cell to compare, only what was left out."""
    if not found:
        return [extent(measured, found)]
    summed = groups(found)
    last = worst(found, WORST)
    return [verdicts(targets(summed)), group_table(summed), extent(measured, found), cell_table(last), again(last)]


def verdicts(asked: Sequence[Target]) -> Table:
    table = plain("targets")
    for head in ("", "asked", "measured", ""):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for target in asked:
        verdict = Text(target.verdict, style=STYLES.get(target.verdict, ""))
        table.add_row(target.name, f"≤ {PERCENT.value(target.limit)}", PERCENT.value(target.value), verdict)
    return table


def group_table(found: Sequence[Group]) -> Table:
    table = plain("medians over the cells; beyond: outside of the kernel's interval")
    heads = ("cells", "error\n%", "plain\n%", "signed\n%", "beyond\np95 %", "inside", "kernel\n± %")
    for head in ("", *heads, "share\npoints", "resent\nratio"):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for one in found:
        parts = (one.share_points, one.retransmission_ratio)
        percents = [SHARE.number(one.error), SHARE.number(one.plain), SHARE.signed(one.signed)]
        percents.append(SHARE.number(one.beyond_p95))
        rest = [str(one.inside), SHARE.number(one.spread), *(known(part, POINTS) for part in parts)]
        table.add_row(one.name, str(one.cells), *percents, *rest)
    return table


def extent(measured: Measured, found: Sequence[Difference]) -> Text:
    """How much was run, and what is missing."""
    return Text("; ".join(facts(measured, found)))


def facts(measured: Measured, found: Sequence[Difference]) -> list[str]:
    """The same, part by part."""
    late = sum(runs.late for runs in measured.runs)
    few = sum(one.kernel_runs < FEWEST for one in found)
    parts = [
        f"{counted(len(found), 'cell')} of seed {measured.request.seed}",
        f"{sum(one.kernel_runs for one in found)} runs of the kernel, {sum(one.sim_runs for one in found)} of ours",
        f"{late} late {'run' if late == 1 else 'runs'} left out",
        f"of {few} cells fewer than {FEWEST} runs of the kernel, so their range in place of an interval" if few else "",
        *left_out(measured),
        f"{measured.seconds:.0f} s",
        measured.others,
    ]
    return [part for part in parts if part]


def left_out(measured: Measured) -> list[str]:
    """The cells that are not compared, each with the reason."""
    return [f"cell {runs.cell.number} not compared: {reason}" for runs in measured.runs if (reason := obstacle(runs))]


def cell_table(found: Sequence[Difference]) -> Table:
    table = plain("the worst cells: rate Mbit/s / delay ms / loss % q packets j ms, per path")
    heads = ("cell", "error\n%", "beyond\n%", "kernel\nMbit/s", "kernel\n± %", "ours\nMbit/s", "window\ndrops")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("scenario", overflow="fold")
    for one in found:
        mbps = [f"{value:.4g}" for value in (one.kernel_goodput_mbps, one.sim_goodput_mbps)]
        errors = [SHARE.signed(one.error), SHARE.number(one.beyond)]
        drops = NOTHING if not one.window_drops else f"{one.window_drops:.0f}"
        table.add_row(str(one.cell), *errors, mbps[0], SHARE.number(one.spread), mbps[1], drops, one.scenario)
    return table


class Repeatable(Protocol):
    """A cell and the command that runs it again."""

    @property
    def cell(self) -> int: ...

    @property
    def command(self) -> str: ...


def again(found: Sequence[Repeatable]) -> Table:
    table = plain("to run them again")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for one in found:
        table.add_row(str(one.cell), one.command)
    table.show_header = False
    return table


def known(value: float | None, unit: Unit) -> str:
    return NOTHING if value is None else unit.number(value)


def plain(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
