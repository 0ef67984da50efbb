"""Published values beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weftway.stats.estimates import Estimate
from weftway.stats.units import Measure, measure, unit_for
from weftway.terminal.table import NOTHING, Cells, Column, Table, Value, plain

from .study import HEADS, Cell, Study


@dataclass(frozen=True)
class Claim:
    """Printed number, and the cell and measure it speaks of where they could be told."""

    label: str
    value: float
    place: str
    measure: Measure | None
    cell: Cell | None


FACTORS = {"kB/s": 1.0, "Mbit/s": 1.0, "MiB": 1.0, "ms": 1.0, "s": 1000.0, "%": 0.01, "1": 1.0}
"""Factors from a printed unit to that of the column that measures the same."""


def claims(study: Study) -> list[Claim]:
    """Every number of `[published]`."""
    published = study.scenario.get("published") or {}
    return [claim for record in published.get("values", []) for claim in from_record(study, record)]


def from_record(study: Study, record: dict[str, Any]) -> list[Claim]:
    """The number beside each controller that it may speak of: one that it names, or all that were run."""
    place, value = str(record.get("place", "")), float(record["value"])
    at = record.get("at")
    where = [f"{key} = {value}" for key, value in at.items()] if isinstance(at, dict) else []
    scheduler = _scheduler(study, record.get("scheduler"))
    if "metric" not in record or "over" in record or scheduler is None:
        what = record.get("quantity") or record.get("metric", "")
        over = f"over {record['over']}" if "over" in record else None
        words = [what, record.get("scheduler"), over, record.get("cc"), *where]
        return [Claim(" · ".join(word for word in words if word), value, place, None, None)]
    setting = next((s for s in study.settings if s and where and all(part in s.split(", ") for part in where)), None)
    several = len(study.settings) > 1
    return [
        Claim(
            " · ".join([scheduler, cc, *where]),
            value * FACTORS[record["unit"]],
            place,
            measure(record["metric"]),
            # A mean over several settings is in no cell.
            None if several and setting is None else Cell(setting or study.settings[0], cc, scheduler),
        )
        for cc in ([record["cc"]] if "cc" in record else study.controllers)
    ]


def _scheduler(study: Study, name: str | None) -> str | None:
    """The scheduler that is meant: this one, or the one of this name that ran with switches."""
    if name in study.schedulers:
        return name
    forms = [scheduler for scheduler in study.schedulers if scheduler.split(":")[0] == name]
    return forms[0] if len(forms) == 1 else None


def ours(study: Study, claim: Claim) -> Estimate | None:
    """Our estimate of the same quantity, where the claim names a cell that was run."""
    if claim.cell is None or claim.measure is None:
        return None
    return study.estimate(claim.cell, claim.measure.column)


def table(study: Study, claims: Sequence[Claim]) -> Table:
    """Printed numbers, ours, and the ratio."""
    heads = (("published", "Published"), ("ours", "Ours"), ("ratio", "Ours ÷ published"))
    columns = [
        Column(title="Claim"),
        Column("measure", title="Measure"),
        *(Column(head, right=True, title=title) for head, title in heads),
        Column(title="Where printed", only="page"),
    ]
    rows: list[Cells] = []
    for claim in claims:
        mine, what = ours(study, claim), claim.measure
        unit = unit_for(what.kind if what else "ratio", [claim.value])
        lacking = Value(NOTHING, "not run" if what else "not measured", "none")
        measured = Value(HEADS.get(what.column, what.title), what.title) if what else ""
        ratio = f"{mine.mean / claim.value:.2f}" if mine and claim.value else Value(NOTHING, "")
        known = unit.estimate(mine) if mine else lacking
        rows.append([claim.label, measured, unit.value(claim.value), known, ratio, claim.place])
    return plain("published, and ours", columns, rows)
