"""The tables of the page: results, settings side by side, published values, the scenario, provenance."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from weftway.stats.estimates import Estimate
from weftway.stats.units import Measure, Unit, unit_for

from .charts import named, row_head
from .frames import LIMITS, completion_measures
from .front import BEST, GOOD, UNTOLD, front
from .numbers import relative
from .published import claims, ours
from .study import BENEFITS, Cell, Study
from .words import remarks

ELSEWHERE = (
    *("title", "name", "description", "registry", "rules", "reference", "command", "skipped", "named", "others"),
    *("published", "expect", "figure"),
)
"""Keys of a scenario that the page shows in another place, or that are about other tools."""


LITTLE_ADDED = (
    '<span class="none" title="all links but the best carry less than a tenth of the whole">others add little</span>'
)
"""In the place of a benefit over next to nothing."""


def table(head: Sequence[str], body: str, css: str = "", caption: str = "") -> str:
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<table class="{css}">{named}<thead><tr>{heads}</tr></thead>{body}</table>'


def cell(label: str, text: str, css: str = "num", value: Estimate | None = None) -> str:
    """A table cell that knows its column's name: on a phone, rows become cards. By `value` the page sorts."""
    sorted_by = f' data-value="{value.mean:.6g}"' if value else ""
    return f'<td class="{css}" data-label="{escape(label, quote=True)}"{sorted_by}>{text}</td>'


def results(study: Study) -> str:
    """Scheduler × controller, a table per setting: mean ± interval, difference, remarks."""
    columns = [*completion_measures(study), *study.measures(LIMITS)]
    several = len(study.schedulers) > 1
    head = ["Scheduler", columns[0].title] if columns else ["Scheduler"]
    head += [f"Against {study.reference}"] if several else []
    head += [measure.title for measure in columns[1:]] + ["Remarks"]
    return "".join(
        f'<div class="scroll" data-setting="{escape(setting, quote=True)}">'
        + table(
            head,
            "".join(group(study, setting, cc, columns, len(head)) for cc in study.controllers),
            "results cards",
            setting,
        )
        + "</div>"
        for setting in study.settings
    )


def group(study: Study, setting: str, cc: str, columns: list[Measure], width: int) -> str:
    """The rows of one controller."""
    cells = study.cells(setting, cc)
    shown = study.shown(setting, cc)
    units = {m: unit_for(m.kind, [e.mean for c in shown if (e := study.estimate(c, m.column))]) for m in columns}
    rows = "".join(result_row(study, c, units) for c in shown)
    head = f'<tr class="group"><th colspan="{width}" scope="rowgroup">{escape(cc)}</th></tr>'
    return f'<tbody data-cc="{escape(cc, quote=True)}">{head}{rows}</tbody>' if cells else ""


def result_row(study: Study, c: Cell, units: dict[Measure, Unit]) -> str:
    found = {m: study.estimate(c, m.column) for m in units}
    little = study.adds_little(c.setting, c.cc)
    texts = [
        cell(m.title, LITTLE_ADDED if little and m.column in BENEFITS else written(found[m], unit), "num", found[m])
        for m, unit in units.items()
    ]
    if len(study.schedulers) > 1:
        share = relative(study, c, c._replace(scheduler=study.reference))
        texts.insert(1, cell(f"Against {study.reference}", against(study, c, share), "num", share))
    told = remarks(study, c)
    badges = "".join(f'<span class="{badge(r)}">{escape(r)}</span>' for r in told)
    best = ' class="best"' if BEST in told else ""
    same = study.alike(c)
    equal = f'<small class="equal">= {escape(", ".join(same))}</small>' if same else ""
    name = head_of(study, c.scheduler, equal)
    row = f"<tr{best}{named(c.scheduler, same, study.is_kept(c))}>"
    return f"{row}{name}{''.join(texts)}{cell('Remarks', badges, 'remarks')}</tr>"


def kept_row(study: Study, name: str) -> str:
    """The attributes of a scheduler's row where no other speaks for it."""
    return named(name, (), name in study.kept or name == study.reference)


def head_of(study: Study, name: str, below: str = "") -> str:
    """The head of a scheduler's row."""
    return row_head(study.look(name), name, study.tag(name), below)


def badge(remark: str) -> str:
    if remark in GOOD:
        return "badge good"
    return "badge plain" if remark.startswith(UNTOLD) else "badge bad"


def written(value: Estimate | None, unit: Unit) -> str:
    return unit.estimate(value) if value else '<span class="none">none</span>'


def against(study: Study, c: Cell, share: Estimate | None) -> str:
    """The paired difference in percent of the reference."""
    if c.scheduler == study.reference:
        return '<span class="none">reference</span>'
    return unit_for("share", [0.1]).estimate(share, signed=True) if share else '<span class="none">none</span>'


def settings(study: Study) -> str:
    """The primary measure of every scheduler in every setting, who is at the front of each marked."""
    if len(study.settings) < 2:
        return ""
    fronts = {
        (s, cc): front(study, s, cc).names(study)
        for s in study.settings
        for cc in study.controllers
        if study.cells(s, cc)
    }
    body = ""
    for cc in study.controllers:
        rows = ""
        ends = {c: study.estimate(c, study.primary.column) for s in study.settings for c in study.cells(s, cc)}
        unit = unit_for(study.primary.kind, [e.mean for e in ends.values() if e])
        for name in study.schedulers:
            cells = [Cell(setting, cc, name) for setting in study.settings]
            texts = (
                cell(
                    c.setting,
                    written(ends.get(c), unit),
                    "num best" if name in fronts.get((c.setting, cc), []) else "num",
                )
                for c in cells
            )
            rows += f"<tr{kept_row(study, name)}>{head_of(study, name)}{''.join(texts)}</tr>"
        body += (
            f'<tbody data-cc="{escape(cc, quote=True)}"><tr class="group"><th scope="rowgroup" '
            f'colspan="{len(study.settings) + 1}">{escape(cc)}</th></tr>{rows}</tbody>'
        )
    return f'<div class="scroll">{table(["Scheduler", *study.settings], body, "across")}</div>'


def published(study: Study) -> str:
    """Printed numbers, ours, and the ratio."""
    rows = ""
    for claim in claims(study):
        found = ours(study, claim)
        unit = unit_for(claim.measure.kind if claim.measure else "ratio", [claim.value])
        lacking = "not run" if claim.measure else "not measured"
        mine = unit.estimate(found) if found else f'<span class="none">{lacking}</span>'
        ratio = f"{found.mean / claim.value:.2f}" if found and claim.value else ""
        title = claim.measure.title if claim.measure else ""
        rows += (
            f'<tr><th scope="row">{escape(claim.label)}</th>{cell("Measure", escape(title), "text")}'
            f"{cell('Published', unit.value(claim.value))}{cell('Ours', mine)}{cell('Ours ÷ published', ratio)}"
            f"{cell('Where printed', escape(claim.place), 'text')}</tr>"
        )
    head = ["Claim", "Measure", "Published", "Ours", "Ours ÷ published", "Where printed"]
    return f'<div class="scroll">{table(head, f"<tbody>{rows}</tbody>", "cards")}</div>' if rows else ""


def rules(study: Study) -> str:
    """What was compared: rule, purpose and where it comes from, so that nobody mistakes a reconstruction."""
    known = study.scenario.get("rules") or {}
    rows = ""
    for name in study.schedulers:
        rule = known.get(name.split("@")[0].split(":")[0])
        if rule:
            source = str(rule["provenance"])
            kind = "bad" if source == "reconstructed" else "plain"
            told = f'<span class="badge {kind}">{escape(source)}</span>'
            purpose = f"{rule['goal']}; {rule['application']}"
            rows += (
                f"<tr{kept_row(study, name)}>{head_of(study, name)}"
                f"{cell('Rule', escape(str(rule['summary'])), 'text prose')}"
                f"{cell('For', escape(purpose), 'text prose')}{cell('Source', told, 'text prose')}"
                f"{cell('Reference', escape(str(rule['reference'])), 'text prose')}</tr>"
            )
    head = ["Scheduler", "Rule", "For", "Source", "Reference"]
    return f'<div class="scroll">{table(head, f"<tbody>{rows}</tbody>", "cards")}</div>' if rows else ""


def scenario(study: Study) -> str:
    """What holds for the whole, then the paths and the other parts as tables."""
    told = {k: v for k, v in study.scenario.items() if not isinstance(v, dict) and k not in ELSEWHERE}
    facts = "".join(f"<dt>{escape(key)}</dt><dd>{escape(plain(value))}</dd>" for key, value in told.items())
    paths = study.scenario.get("path")
    parts = [records("Path", paths)] if isinstance(paths, dict) and paths else []
    for key in study.scenario:
        if key in ("path", *ELSEWHERE):
            continue
        value = study.scenario.get(key)
        if isinstance(value, dict) and value:
            nested = all(isinstance(v, dict) for v in value.values())
            parts.append(records(key.title(), value if nested else {"": value}))
    return (f'<dl class="facts">{facts}</dl>' if facts and parts else "") + "".join(parts)


def records(title: str, named: dict[str, Any]) -> str:
    """Records of one kind side by side, a column per key that any of them has."""
    keys = list(dict.fromkeys(key for record in named.values() for key in record))
    rows = "".join(
        f'<tr><th scope="row">{escape(name or title)}</th>'
        + "".join(cell(key, escape(plain(record.get(key))), "text") for key in keys)
        + "</tr>"
        for name, record in named.items()
    )
    first = title if all(named) else ""
    return f'<div class="scroll">{table([first, *keys], f"<tbody>{rows}</tbody>", "cards slim")}</div>'


def plain(value: Any) -> str:
    """A TOML value as a person would say it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
