"""The tables of the page: results, settings side by side, published values, the rules, the scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from weftway.stats.estimates import Estimate
from weftway.stats.units import Measure, Unit, unit_for
from weftway.terminal.table import Cells, Column, Row, Table, Value

from .frames import LIMITS, completion_measures
from .front import BEST, GOOD, UNTOLD, front
from .html import known, part, table
from .numbers import relative
from .study import BENEFITS, Cell, Study
from .words import remarks

ELSEWHERE = (
    *("title", "name", "description", "registry", "rules", "reference", "command", "skipped", "named", "others"),
    *("published", "expect", "figure"),
)
"""Keys of a scenario that the page shows in another place, or that are about other tools."""

NONE = Value("none", mark="none")
LITTLE_ADDED = Value(
    "others add little", mark="none", title="all links but the best carry less than a tenth of the whole"
)
"""In the place of a benefit over next to nothing."""


def results(study: Study) -> Markup:
    """Scheduler × controller, a table per setting: mean ± interval, difference, remarks."""
    columns = [*completion_measures(study), *study.measures(LIMITS)]
    several = len(study.schedulers) > 1
    heads = [measure.title for measure in columns]
    heads[1:1] = [f"Against {study.reference}"] if several else []
    shown = [Column("Scheduler"), *(Column(head, right=True) for head in heads), Column("Remarks", css="remarks")]
    return Markup().join(
        table(
            Table(None, shown, [row for cc in study.controllers for row in group(study, setting, cc, columns)]),
            "results cards",
            setting,
            **{"data-setting": setting},
        )
        for setting in study.settings
    )


def group(study: Study, setting: str, cc: str, columns: Sequence[Measure]) -> Iterable[Row]:
    """The rows of one controller."""
    cells = study.shown(setting, cc)
    units = {m: unit_for(m.kind, [e.mean for c in cells if (e := study.estimate(c, m.column))]) for m in columns}
    return [result_row(study, cell, units) for cell in cells]


def result_row(study: Study, c: Cell, units: Mapping[Measure, Unit]) -> Row:
    """A scheduler's line."""
    little = study.adds_little(c.setting, c.cc)
    values = [
        LITTLE_ADDED if little and measure.column in BENEFITS else written(study.estimate(c, measure.column), unit)
        for measure, unit in units.items()
    ]
    values[1:1] = [against(study, c)] if len(study.schedulers) > 1 else []
    words = remarks(study, c)
    badges = Value(badges=[(badge(remark), remark) for remark in words])
    same = study.alike(c)
    head = scheduler(study, c.scheduler, f"= {', '.join(same)}" if same else "")
    return Row([head, *values, badges], c.cc, c.cc, BEST in words, known(c.scheduler, same, study.is_kept(c)))


def scheduler(study: Study, name: str, note: str = "") -> Value:
    """The head of a scheduler's row."""
    return Value(name, look=study.look(name), tag=study.tag(name), note=note)


def kept(study: Study, name: str) -> dict[str, str]:
    """The attributes of a scheduler's row where no other speaks for it."""
    return known(name, (), name in study.kept or name == study.reference)


def badge(remark: str) -> str:
    """The kind of badge that a remark is shown as."""
    if remark in GOOD:
        return "good"
    return "plain" if remark.startswith(UNTOLD) else "bad"


def written(value: Estimate | None, unit: Unit, signed: bool = False, mark: str = "") -> Value:
    """An estimate with its unit."""
    return Value(unit.estimate(value, signed=signed), number=value.mean, mark=mark) if value else NONE


def against(study: Study, c: Cell) -> Value:
    """The paired difference in percent of the reference."""
    share = relative(study, c, c._replace(scheduler=study.reference))
    if c.scheduler == study.reference:
        return Value("reference", mark="none", number=share.mean if share else None)
    return written(share, unit_for("share", [0.1]), signed=True)


def settings(study: Study) -> Markup:
    """The primary measure of every scheduler in every setting, who is at the front of each marked."""
    if len(study.settings) < 2:
        return Markup()
    rows = []
    for cc in study.controllers:
        fronts = {s: front(study, s, cc).names(study) for s in study.settings if study.cells(s, cc)}
        ends = {c: study.estimate(c, study.primary.column) for s in study.settings for c in study.cells(s, cc)}
        unit = unit_for(study.primary.kind, [e.mean for e in ends.values() if e])
        for name in study.schedulers:
            marks = {s: "best" if name in fronts.get(s, []) else "" for s in study.settings}
            values = [written(ends.get(Cell(s, cc, name)), unit, mark=mark) for s, mark in marks.items()]
            rows.append(Row([scheduler(study, name), *values], cc, cc, attributes=kept(study, name)))
    columns = [Column("Scheduler"), *(Column(setting, right=True) for setting in study.settings)]
    return table(Table(None, columns, rows), "across")


def rules(study: Study) -> Markup:
    """Rules with their purposes and where they come from, so that nobody mistakes a reconstruction."""
    by_name = study.scenario.get("rules") or {}
    rows = []
    for name in study.schedulers:
        if rule := by_name.get(name.split("@")[0].split(":")[0]):
            source = str(rule["provenance"])
            badges = Value(badges=[("bad" if source == "reconstructed" else "plain", source)])
            purpose = f"{rule['goal']}; {rule['application']}"
            cells: Cells = [scheduler(study, name), str(rule["summary"]), purpose, badges, str(rule["reference"])]
            rows.append(Row(cells, attributes=kept(study, name)))
    heads = ("Rule", "For", "Source", "Reference")
    return table(Table(None, [Column("Scheduler"), *(Column(head, css="text prose") for head in heads)], rows))


def scenario(study: Study) -> Markup:
    """Facts that hold for the whole, then the paths and the other parts as tables."""
    keys = {key: value for key, value in study.scenario.items() if key not in ELSEWHERE}
    facts = [(key, plain(value)) for key, value in keys.items() if not isinstance(value, dict)]
    records_of = {key: value for key, value in keys.items() if isinstance(value, dict) and value}
    parts = [records("Path", paths)] if (paths := records_of.pop("path", None)) else []
    for key, value in records_of.items():
        nested = all(isinstance(inner, dict) for inner in value.values())
        parts.append(records(key.title(), value if nested else {"": value}))
    head = [part("facts", facts)] if facts and parts else []
    return Markup().join([*head, *parts])


def records(title: str, named: Mapping[str, Any]) -> Markup:
    """Records of one kind side by side, a column per key that any of them has."""
    keys = list(dict.fromkeys(key for record in named.values() for key in record))
    rows = [Row([name or title, *(plain(record.get(key)) for key in keys)]) for name, record in named.items()]
    return table(Table(None, [Column(title if all(named) else ""), *map(Column, keys)], rows), "cards slim")


def plain(value: Any) -> str:
    """A TOML value as a person would say it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
