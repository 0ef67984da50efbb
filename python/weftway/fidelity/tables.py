"""Tables that the command prints: targets and groups first, then the worst cells and how to run them again."""

from collections.abc import Sequence
from typing import Protocol

from rich.text import Text

from weftway.report.numbers import counted
from weftway.stats.estimates import FEWEST
from weftway.stats.units import Unit
from weftway.terminal.table import NOTHING, Cells, Column, Row, Table, Value, numbers, plain, wrapped

from .errors import Difference, Group, Target, groups, obstacle, targets, worst
from .runs import Measured

WORST = 10
MARKS = {"met": "best", "missed": "bad"}
"""Marks of verdicts."""
PERCENT = Unit(100.0, "%", 1)
SHARE = Unit(100.0, "", 1)
"""Shares under a heading that says percent."""
POINTS = Unit(1.0, "", 2)


def tables(measured: Measured, differences: Sequence[Difference]) -> list[Table | Text]:
    """All parts, in order; without a cell to compare, only what was left out."""
    if not differences:
        return [extent(measured, differences)]
    summed = groups(differences)
    last = worst(differences, WORST)
    return [
        verdicts(targets(summed)),
        group_table(summed),
        extent(measured, differences),
        cell_table(last),
        again(last),
    ]


def verdicts(asked: Sequence[Target]) -> Table:
    rows: list[Cells] = [
        (t.name, f"≤ {PERCENT.value(t.limit)}", PERCENT.value(t.value), Value(t.verdict, mark=MARKS.get(t.verdict, "")))
        for t in asked
    ]
    return plain("targets", [Column(), *numbers("asked", "measured"), Column()], rows)


def group_table(groups: Sequence[Group]) -> Table:
    columns = [
        Column(),
        *numbers("cells"),
        *(percents(*heads) for heads in (("error", "error, median"), ("plain",), ("signed",))),
        Column(right=True, title="beyond, p90", only="page"),
        Column("beyond", "p95 %", right=True, title="p95"),
        *numbers("inside"),
        Column("kernel", "± %", right=True, title="kernel ±"),
        Column("share", "points", right=True, title="share, points"),
        Column(right=True, title="resent, points", only="page"),
        Column("resent", "ratio", right=True, title="resent, ratio"),
    ]
    rows: list[Cells] = [
        (
            group.name,
            str(group.cells),
            percent(group.error),
            percent(group.plain),
            percent(group.signed, is_signed=True),
            percent(group.beyond_p90),
            percent(group.beyond_p95),
            str(group.inside),
            percent(group.spread),
            *(
                known(part, POINTS)
                for part in (group.share_points, group.retransmission_points, group.retransmission_ratio)
            ),
        )
        for group in groups
    ]
    return plain("medians over the cells; beyond: outside of the kernel's interval", columns, rows)


def percents(head: str, title: str | None = None) -> Column:
    """A column of shares."""
    return Column(head, "%", right=True, title=title)


def percent(share: float, is_signed: bool = False) -> Value:
    """A share in percent."""
    if is_signed:
        return Value(SHARE.signed(share), PERCENT.signed(share))
    return Value(SHARE.number(share), PERCENT.value(share))


def extent(measured: Measured, differences: Sequence[Difference]) -> Text:
    """Line that says how much was run, and what is missing."""
    return Text("; ".join(facts(measured, differences)))


def facts(measured: Measured, differences: Sequence[Difference]) -> list[str]:
    """Parts of that line."""
    late = sum(runs.late for runs in measured.runs)
    few = sum(cell.kernel_runs < FEWEST for cell in differences)
    theirs, ours = sum(cell.kernel_runs for cell in differences), sum(cell.sim_runs for cell in differences)
    parts = [
        f"{counted(len(differences), 'cell')} of seed {measured.request.seed}",
        f"{theirs} runs of the kernel, {ours} of ours",
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


def cell_table(differences: Sequence[Difference]) -> Table:
    heads = (
        "cell",
        "error\n%",
        "plain\n%",
        "beyond\n%",
        "kernel\nMbit/s",
        "kernel\n± %",
        "ours\nMbit/s",
        "window\ndrops",
    )
    rows = [
        (
            str(difference.cell),
            SHARE.signed(difference.error),
            SHARE.signed(difference.plain_error),
            SHARE.number(difference.beyond),
            f"{difference.kernel_goodput_mbps:.4g}",
            SHARE.number(difference.spread),
            f"{difference.sim_goodput_mbps:.4g}",
            f"{difference.window_drops:.0f}" if difference.window_drops else NOTHING,
            difference.scenario,
        )
        for difference in differences
    ]
    title = (
        "the worst cells (error: seed by seed; plain: of the medians shown): "
        "rate Mbit/s / delay ms / loss % q packets j ms, per path"
    )
    return plain(title, [*numbers(*heads), *wrapped("scenario")], rows)


class Repeatable(Protocol):
    """A cell and the command that runs it again."""

    @property
    def cell(self) -> int: ...

    @property
    def command(self) -> str: ...


def again(cells: Sequence[Repeatable]) -> Table:
    columns = [*numbers(""), *wrapped("")]
    return Table("to run them again", columns, [Row((str(cell.cell), cell.command)) for cell in cells], has_heads=False)


def known(value: float | None, unit: Unit) -> str:
    return NOTHING if value is None else unit.number(value)
