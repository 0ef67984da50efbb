"""Tables that `weft reproduce` prints: results first, then each experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weftway.report.numbers import whole_percent
from weftway.terminal.table import NOTHING, Cells, Column, Table, Value, numbers, plain, texts, wrapped

from .results import Result, undecided
from .stacks import Level
from .verdict import DIRECTION, HOLDS, NOT, OPEN, VERDICTS

MARKS = {HOLDS: "best", DIRECTION: "good", NOT: "bad", OPEN: "faint"}


def summary(results: Sequence[Result]) -> Table:
    """Numbers and claims of each paper by verdict."""
    papers = list(dict.fromkeys(result.experiment.paper for result in results))
    rows = []
    for paper in [*papers, *(["all"] if len(papers) > 1 else [])]:
        some = [result for result in results if paper in (result.experiment.paper, "all")]
        counts = [sum(result.verdict.verdict == name for result in some) for name in VERDICTS]
        rows.append([paper, str(len(some)), *map(str, counts)])
    heads = [Column(name, right=True, wraps=True) for name in ("of", *VERDICTS)]
    return plain("published numbers and claims, all readings", [*texts("paper"), *heads], rows)


def details(results: Sequence[Result]) -> list[Table]:
    """A table per experiment and reading."""
    names = list(dict.fromkeys(result.experiment.name for result in results))
    return [_experiment([result for result in results if result.experiment.name == name]) for name in names]


def _experiment(results: Sequence[Result]) -> Table:
    first = results[0].experiment
    place = first.published.get("place")
    rows: list[Cells] = []
    for result in results:
        share = result.settings.share if result.settings else None
        verdict = Value(result.verdict.verdict, mark=MARKS[result.verdict.verdict])
        settings = NOTHING if share is None else whole_percent(share)
        rows.append([verdict, result.words, printed(result), ours(result), settings, result.verdict.reason])
        rows += [["", Value(f"  {line}", mark="faint"), "", "", "", ""] for line in result.mechanism]
    columns = [*texts("verdict"), *wrapped("claim"), *numbers("paper", "ours", "settings"), *wrapped("why")]
    return plain(f"{first.name}: {first.scenario.title}{f' ({place})' if place else ''}", columns, rows)


def printed(result: Result) -> str:
    """The number as the paper has it."""
    if result.printed is None:
        return NOTHING
    unit = result.printed["unit"]
    return f"{result.printed['value']:g}{'' if unit == '1' else f' {unit}'}"


def ours(result: Result) -> str:
    """Our estimate with half of its interval, in the unit of the paper."""
    interval = result.interval
    if interval is None:
        return NOTHING
    mean, low, high = interval
    if low is None or high is None or high == low:
        return f"{short(mean, 4)}{'' if low is None else ' ± 0'}"
    half = (high - low) / 2
    digits = max(0, 1 - math.floor(math.log10(half)))  # two of the half interval, and the mean as fine as that
    return f"{mean:.{digits}f} ± {half:.{digits}f}" if half < 10 else f"{mean:.0f} ± {half:.0f}"


def short(value: float, digits: int) -> str:
    """Number with so many digits, without an exponent where a person would write none."""
    return f"{float(f'{value:.{digits}g}'):.10g}"


def levels(of: Sequence[Level]) -> Table:
    """The papers' networks in the simulator and on real stacks."""
    rows: list[Cells] = [
        [
            level.experiment.name,
            str(level.scope),
            level.scheduler,
            level.backend,
            NOTHING if level.printed is None else f"{level.printed:g}",
            short(level.sim, 4),
            short(level.real, 4),
            Value(f"{level.ratio:.2f}", mark="" if level.agrees else "bad"),
        ]
        for level in of
    ]
    columns = [
        *wrapped("experiment", "setting", "scheduler", "stack"),
        *numbers("paper", "simulator", "stack", "ratio"),
    ]
    return plain("the papers' networks on real stacks", columns, rows)


def reasons(results: Sequence[Result]) -> list[str]:
    """Why verdicts were withheld."""
    return [f"{count} × {reason}" for reason, count in undecided(results).items()]
