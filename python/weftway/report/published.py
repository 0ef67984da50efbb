"""Published values beside ours.

`[published]` is read in the shapes people write it: a list of records with `scheduler`, `cc`,
`metric` and `value`; or keys of these words joined by dots, nested or not, each with a number or
with a table of `value` and `place`. Words that name nothing known become part of the label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weftway.stats import Estimate

from .study import Cell, Study, is_number
from .units import MEASURES, Measure, measure

PLACE = ("place", "source", "note")


@dataclass(frozen=True)
class Claim:
    """One printed number, and the cell and measure it speaks of where they could be told."""

    label: str
    value: float
    place: str
    measure: Measure | None
    cell: Cell | None


def claims(study: Study) -> list[Claim]:
    """Every number of `[published]`."""
    published = study.scenario.get("published") or {}
    general = "" if isinstance(published, list) else place_of(published)
    records = published if isinstance(published, list) else published.get("values", [])
    found = [c for r in records if is_number(r.get("value")) for c in from_record(study, r, general)]
    if isinstance(published, dict):
        tables = {key: value for key, value in published.items() if key != "values"}
        for words, value, place in leaves(tables, []):
            found += claim(study, words, value, place or general)
    return found


def from_record(study: Study, record: dict[str, Any], general: str) -> list[Claim]:
    known = ("scheduler", "cc", "metric", "measure", "value", "unit", *PLACE)
    words = [str(record[k]) for k in ("scheduler", "cc", "metric", "measure") if record.get(k)]
    extra = [f"{k} = {v}" for k, v in record.items() if k not in known]
    return claim(study, words + extra, float(record["value"]), place_of(record) or general)


def leaves(table: dict[str, Any], words: list[str]) -> Iterator[tuple[list[str], float, str]]:
    """The numbers of nested tables, with the words on the way to each."""
    for key, value in table.items():
        here = words + key.split(".")
        if is_number(value):
            yield here, float(value), ""
        elif isinstance(value, dict) and is_number(value.get("value")):
            yield here, float(value["value"]), place_of(value)
        elif isinstance(value, dict):
            yield from leaves(value, here)


def claim(study: Study, words: list[str], value: float, place: str) -> list[Claim]:
    """The claim beside each controller it may speak of: one that it names, or all that were run."""
    scheduler = next((w for w in words if w in study.schedulers), None)
    cc = next((w for w in words if w in study.controllers), None)
    column = next((w for w in words if w in study.columns or w in MEASURES), None)
    rest = [w for w in words if w not in (column, scheduler, cc)]
    if column is None and not any("=" not in w for w in rest):
        column = study.primary.column
    of = measure(column) if column else None
    if scheduler is None:
        return [Claim(" · ".join(rest) or str(column), value, place, of, None)]
    setting = next((s for s in study.settings if s and all(part in words for part in s.split(", "))), study.settings[0])
    return [
        Claim(" · ".join([scheduler, one, *rest]), value, place, of, Cell(setting, one, scheduler))
        for one in ([cc] if cc else study.controllers)
    ]


def ours(study: Study, claim: Claim) -> Estimate | None:
    """Our estimate of the same quantity, where the claim names a cell that was run."""
    if claim.cell is None or claim.measure is None:
        return None
    return study.estimate(claim.cell, claim.measure.column)


def place_of(table: dict[str, Any]) -> str:
    """Where it is printed."""
    return next((str(table[key]) for key in PLACE if isinstance(table.get(key), str)), "")
