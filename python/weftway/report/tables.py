"""The tables of the page: results, settings side by side, published values, the scenario, provenance."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from .charts import mark
from .frames import LIMITS, completion_measures
from .palette import look
from .published import claims, ours
from .study import Cell, Study
from .units import Measure, unit_for
from .words import relative, remarks

ELSEWHERE = (
    *("title", "name", "description", "registry", "rules", "reference", "command", "skipped"),
    *("published", "expect", "figure"),
)
"""Keys of a scenario that the page shows in another place, or that are about other tools."""


def table(head: Sequence[str], body: str, css: str = "", caption: str = "") -> str:
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<table class="{css}">{named}<thead><tr>{heads}</tr></thead>{body}</table>'


def cell(label: str, text: str, css: str = "num") -> str:
    """A table cell that knows its column's name: on a phone, rows become cards."""
    return f'<td class="{css}" data-label="{escape(label, quote=True)}">{text}</td>'


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
    rows = "".join(result_row(study, c, columns) for c in cells)
    head = f'<tr class="group"><th colspan="{width}" scope="rowgroup">{escape(cc)}</th></tr>'
    return f'<tbody data-cc="{escape(cc, quote=True)}">{head}{rows}</tbody>' if cells else ""


def result_row(study: Study, c: Cell, columns: list[Measure]) -> str:
    texts = [cell(m.title, shown(study, c, m)) for m in columns]
    if len(study.schedulers) > 1:
        texts.insert(1, cell(f"Against {study.reference}", against(study, c)))
    found = remarks(study, c)
    badges = "".join(f'<span class="{badge(r)}">{escape(r)}</span>' for r in found)
    best = ' class="best"' if "best" in found else ""
    name = f'<th scope="row">{mark(look(c.scheduler, study.registry))}{escape(c.scheduler)}</th>'
    return f"<tr{best}>{name}{''.join(texts)}{cell('Remarks', badges, 'remarks')}</tr>"


def badge(remark: str) -> str:
    if remark in ("best", "level with best"):
        return "badge good"
    return "badge plain" if remark.startswith("no better") else "badge bad"


def shown(study: Study, c: Cell, m: Measure) -> str:
    value = study.estimate(c, m.column)
    if value is None:
        return '<span class="none">none</span>'
    everywhere = (study.estimate(other, m.column) for other in study.cells())
    return unit_for(m.kind, [e.mean for e in everywhere if e]).estimate(value)


def against(study: Study, c: Cell) -> str:
    """The paired difference in percent of the reference."""
    if c.scheduler == study.reference:
        return '<span class="none">reference</span>'
    share = relative(study, c, c._replace(scheduler=study.reference))
    return unit_for("share", [0.1]).estimate(share, signed=True) if share else '<span class="none">none</span>'


def settings(study: Study) -> str:
    """The primary measure of every scheduler in every setting, the best of each marked."""
    if len(study.settings) < 2:
        return ""
    best = {
        (s, cc): ranked[0][0] for s in study.settings for cc in study.controllers if (ranked := study.winners(s, cc))
    }
    body = ""
    for cc in study.controllers:
        rows = ""
        for name in study.schedulers:
            cells = [Cell(setting, cc, name) for setting in study.settings]
            texts = (
                cell(c.setting, shown(study, c, study.primary), "num best" if best.get((c.setting, cc)) == c else "num")
                for c in cells
            )
            rows += f'<tr><th scope="row">{mark(look(name, study.registry))}{escape(name)}</th>{"".join(texts)}</tr>'
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
                f'<tr><th scope="row">{mark(look(name, study.registry))}{escape(name)}</th>'
                f"{cell('Rule', escape(str(rule['summary'])), 'text')}"
                f"{cell('For', escape(purpose), 'text')}{cell('Source', told, 'remarks')}"
                f"{cell('Reference', escape(str(rule['reference'])), 'text')}</tr>"
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
    return f'<div class="scroll">{table([first, *keys], f"<tbody>{rows}</tbody>", "cards")}</div>'


def plain(value: Any) -> str:
    """A TOML value as a person would say it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
