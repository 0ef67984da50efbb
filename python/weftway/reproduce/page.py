"""What `weft reproduce` prints: results first, then each experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from weftway.report.numbers import whole_percent
from weftway.terminal.listing import NOTHING, plain_table

from .results import Result, undecided
from .stacks import Level
from .verdict import DIRECTION, HOLDS, NOT, OPEN, VERDICTS

STYLES = {HOLDS: "bold green", DIRECTION: "green", NOT: "bold red", OPEN: "dim"}


def summary(results: Sequence[Result]) -> Table:
    """How many numbers and claims of each paper got which verdict."""
    table = plain_table("published numbers and claims, all readings")
    table.add_column("paper", no_wrap=True)
    for name in ("of", *VERDICTS):
        table.add_column(name, justify="right")
    papers = list(dict.fromkeys(one.experiment.paper for one in results))
    for paper in [*papers, *(["all"] if len(papers) > 1 else [])]:
        some = [one for one in results if paper in (one.experiment.paper, "all")]
        counts = [sum(one.verdict.verdict == name for one in some) for name in VERDICTS]
        table.add_row(paper, str(len(some)), *(str(count) for count in counts))
    return table


def details(results: Sequence[Result]) -> list[Table]:
    """A table per experiment and reading."""
    names = list(dict.fromkeys(one.experiment.name for one in results))
    return [_experiment([one for one in results if one.experiment.name == name]) for name in names]


def _experiment(results: Sequence[Result]) -> Table:
    first = results[0].experiment
    place = first.published.get("place")
    table = plain_table(f"{first.name}: {first.scenario.title}{f' ({place})' if place else ''}")
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim")
    for name in ("paper", "ours", "settings"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why")
    for one in results:
        share = one.settings.share if one.settings else None
        table.add_row(
            Text(one.verdict.verdict, style=STYLES[one.verdict.verdict]),
            one.words,
            printed(one),
            ours(one),
            NOTHING if share is None else whole_percent(share),
            one.verdict.reason,
        )
        for line in one.mechanism:
            table.add_row("", Text(f"  {line}", style="dim"), "", "", "", "")
    return table


def printed(one: Result) -> str:
    """The number as the paper has it."""
    if one.printed is None:
        return NOTHING
    unit = one.printed["unit"]
    return f"{one.printed['value']:g}{'' if unit == '1' else f' {unit}'}"


def ours(one: Result) -> str:
    """Our estimate with half of its interval, in the unit of the paper."""
    interval = one.interval
    if interval is None:
        return NOTHING
    mean, low, high = interval
    if low is None or high is None or high == low:
        return f"{short(mean, 4)}{'' if low is None else ' ± 0'}"
    half = (high - low) / 2
    digits = max(0, 1 - math.floor(math.log10(half)))  # two of the half interval, and the mean as fine as that
    return f"{mean:.{digits}f} ± {half:.{digits}f}" if half < 10 else f"{mean:.0f} ± {half:.0f}"


def short(value: float, digits: int) -> str:
    """So many digits, without an exponent where a person would write none."""
    return f"{float(f'{value:.{digits}g}'):.10g}"


def levels(of: Sequence[Level]) -> Table:
    """The papers' networks in the simulator and on real stacks."""
    table = plain_table("the papers' networks on real stacks")
    for name in ("experiment", "setting", "scheduler", "stack"):
        table.add_column(name)
    for name in ("paper", "simulator", "stack", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in of:
        table.add_row(
            one.experiment.name,
            str(one.scope),
            one.scheduler,
            one.backend,
            NOTHING if one.printed is None else f"{one.printed:g}",
            short(one.sim, 4),
            short(one.real, 4),
            Text(f"{one.ratio:.2f}", style="" if one.agrees else "bold red"),
        )
    return table


def reasons(results: Sequence[Result]) -> list[str]:
    """Why verdicts were withheld."""
    return [f"{count} × {reason}" for reason, count in undecided(results).items()]
