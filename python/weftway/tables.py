"""The tables that the command prints."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from weftway.backends import Row
from weftway.listing import NOTHING, plain_table
from weftway.metrics import SHOWN
from weftway.report.published import Claim, claims, ours
from weftway.report.study import Cell, Study
from weftway.report.units import Measure, Unit, unit_for

LEAST_COLUMNS = 2
"""A name and a number."""

WIDE = 1000
"""Wider than any table."""

HEADS = {
    "fct_ms": "completion",
    "goodput_mbps": "goodput",
    "aggregation_benefit": "benefit",
    "efficiency": "efficiency",
    "ooo_packets": "reordered",
    "retransmissions": "resent",
}
"""Short enough for a terminal of 80 columns; the report has the full names."""


def fitted(table: Table, console: Console) -> Table:
    """The table without the last columns for which the terminal is too narrow: a cut number would be a wrong one."""
    while len(table.columns) > LEAST_COLUMNS and _needs(table, console) > console.width:
        table.columns.pop()
    return table


def _needs(table: Table, console: Console) -> int:
    return console.measure(table, options=console.options.update(width=WIDE)).maximum


def comparison(rows: Sequence[Row], scenario: dict[str, Any]) -> list[Table]:
    """One table per setting: a line per scheduler and controller, best first, the best in green.
    Where the scenario has published numbers, they follow beside ours."""
    study = Study(rows, scenario)
    found = [claim for claim in claims(study) if claim.measure]
    return [*(_setting(study, setting) for setting in study.settings), *([_published(study, found)] if found else [])]


def _setting(study: Study, setting: str) -> Table:
    columns = _columns(study)
    units = {measure: _unit(study, setting, measure) for measure in columns}
    best = {measure: _best(study, setting, measure) for measure in columns}
    several = len(study.controllers) > 1
    table = plain_table(_title(study, setting, several))
    for name in ("scheduler", *(["cc"] if several else [])):
        table.add_column(name, no_wrap=True)
    for measure in columns:
        head = HEADS.get(measure.column, measure.title)
        table.add_column(f"{head}\n{units[measure].symbol}", justify="right", no_wrap=True)
    for cell in (cell for cc in study.controllers for cell in study.cells(setting, cc)):
        values = [_value(study, cell, measure, units[measure], cell in best[measure]) for measure in columns]
        table.add_row(cell.scheduler + _unfinished(study, cell), *([cell.cc] if several else []), *values)
    return table


def _title(study: Study, setting: str, several: bool) -> str:
    runs = {len(study.runs(cell)) for cell in study.cells(setting)}
    count = f"{runs.pop()} runs each" if len(runs) == 1 else f"{min(runs)} to {max(runs)} runs each"
    repeatable = all(study.is_repeatable(cell) for cell in study.cells(setting))
    summary = "mean ± 95 % interval of" if repeatable else "median ± 93 % interval of"
    count = "one run each" if count == "1 runs each" else f"{summary} {count}"
    return ", ".join([*([setting] if setting else []), *([] if several else study.controllers), count])


def _columns(study: Study) -> list[Measure]:
    """The measure that the workload is about, then those that every comparison shows."""
    found = study.measures([study.primary.column, *SHOWN])
    return list(dict.fromkeys(found))


def _unit(study: Study, setting: str, measure: Measure) -> Unit:
    means = [study.estimate(cell, measure.column) for cell in study.cells(setting)]
    return unit_for(measure.kind, [mean.mean for mean in means if mean])


def _best(study: Study, setting: str, measure: Measure) -> set[Cell]:
    """The cells with the best mean, if the measure has a good side and there is a choice."""
    found = {cell: mean.mean for cell in study.cells(setting) if (mean := study.estimate(cell, measure.column))}
    if measure.lower_is_better is None or len(set(found.values())) < 2:
        return set()
    top = min(found.values()) if measure.lower_is_better else max(found.values())
    return {cell for cell, mean in found.items() if mean == top}


def _value(study: Study, cell: Cell, measure: Measure, unit: Unit, best: bool) -> Text:
    mean = study.estimate(cell, measure.column)
    bare = replace(unit, symbol="")
    text = bare.estimate(mean) if mean else NOTHING
    return Text(text, style="bold green" if best else "")


def _unfinished(study: Study, cell: Cell) -> str:
    bad = len(study.unfinished(cell))
    return f" ({bad} unfinished)" if bad else ""


def _published(study: Study, found: list[Claim]) -> Table:
    table = plain_table("published, and ours")
    table.add_column("", no_wrap=True)
    table.add_column("measure", no_wrap=True)
    for head in ("published", "ours", "ratio"):
        table.add_column(head, justify="right", no_wrap=True)
    for claim in found:
        mine = ours(study, claim)
        assert claim.measure is not None, "the caller left out claims of no measure"
        unit = unit_for(claim.measure.kind, [claim.value])
        ratio = f"{mine.mean / claim.value:.2f}" if mine and claim.value else NOTHING
        measure = HEADS.get(claim.measure.column, claim.measure.title)
        table.add_row(claim.label, measure, unit.value(claim.value), unit.estimate(mine) if mine else NOTHING, ratio)
    return table


def single(row: dict[str, Any]) -> Table:
    """One run, a line per value."""
    table = plain_table(None, show_header=False)
    for name, value in row.items():
        if not isinstance(value, (list, dict)):
            table.add_row(name, _plain(value))
    for path in row.get("paths") or []:
        numbers = ", ".join(f"{name} {_plain(value)}" for name, value in path.items() if name != "name")
        table.add_row(f"path {path['name']}", numbers)
    return table


def _plain(value: Any) -> str:
    if value is None:
        return NOTHING
    return f"{value:.6g}" if isinstance(value, float) else str(value)
