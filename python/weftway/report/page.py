"""The page: one HTML file that holds its style, its script, its charts and their data."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

import polars as pl

from .charts import symbols
from .earlier import Earlier
from .numbers import counted, unbroken
from .palette import css_classes, css_variables
from .provenance import seeds
from .sections import Section, all_sections
from .series import read_timelines
from .study import Study
from .words import verdict

CSV_LIMIT = 250_000
"""Characters of CSV in the page; a larger data set stays with the rows on disk."""


def render(
    rows: pl.DataFrame, timelines: dict[Any, Any], scenario: dict[str, Any], earlier: Earlier | None = None
) -> str:
    """The report as text."""
    return page(Study(rows, scenario), rows, timelines, earlier)


def page(study: Study, rows: pl.DataFrame, timelines: dict[Any, Any], earlier: Earlier | None = None) -> str:
    """The same of a study of these rows."""
    if study.count == 0:
        raise ValueError("a report needs at least one row")
    scenario = study.scenario
    sections = all_sections(study, read_timelines(timelines), earlier)
    fills = {
        "title": escape(str(scenario.get("title") or scenario.get("name") or "Comparison")),
        "style": style() + (asset("vendor/uPlot.min.css") if timelines else ""),
        "script": "\n".join(
            [asset("page.js"), *([asset("vendor/uPlot.iife.min.js"), asset("timelines.js")] if timelines else [])]
        ),
        "symbols": symbols(),
        "verdict": escape(unbroken(verdict(study))),
        "facts": escape(facts(study)),
        "filters": filters(study),
        "contents": "".join(f'<a href="#{s.id}">{escape(s.title)}</a>' for s in sections),
        "sections": "".join(map(section, sections)),
        "downloads": downloads(sections, rows),
    }
    return Template(asset("template.html")).substitute(fills)


@cache
def asset(name: str) -> str:
    """A file of this package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def style() -> str:
    """The style sheet with the palette in its places."""
    sheet = asset("style.css")
    for mark, dark in (("/* light */", False), ("/* dark */", True)):
        sheet = sheet.replace(mark, css_variables(dark))
    return sheet + css_classes()


def facts(study: Study) -> str:
    """The size of the comparison in one line."""
    counts = [
        (len(study.schedulers), "scheduler"),
        (len(study.controllers), "controller"),
        (len(study.settings), "setting"),
        (len(study.paths), "path"),
        (len(study.seeds), "seed"),
    ]
    shown = [counted(n, word) for n, word in counts if n > 1]
    others = study.scenario.get("others")
    named = f"seed{'s' if len(study.seeds) != 1 else ''} {seeds(study.seeds)}"
    return " · ".join([*shown, counted(study.count, "run"), named, *([others] if others else [])])


def filters(study: Study) -> str:
    """Selectors that show one controller or one setting in every figure."""
    chosen = [("cc", "Controller", study.controllers), ("setting", "Setting", study.settings)]
    selects = "".join(selector(*choice) for choice in chosen if len(choice[2]) > 1)
    return f'<div class="filters">{selects}</div>'


def selector(key: str, label: str, values: Sequence[str]) -> str:
    options = "".join(f'<option value="{escape(v, quote=True)}">{escape(v)}</option>' for v in values)
    return f'<label>{label} <select data-filter="{key}"><option value="*">all</option>{options}</select></label>'


def section(s: Section) -> str:
    link = f'<p class="data"><a href="#csv-{s.id}">Download the data (CSV)</a></p>' if csv_of(s) else ""
    lede = f'<p class="lede">{s.lede}</p>' if s.lede else ""
    return (
        f'<section id="{s.id}" aria-labelledby="h-{s.id}"><h2 id="h-{s.id}">{escape(s.title)}</h2>'
        f"{lede}{s.body}{link}</section>"
    )


def downloads(sections: Sequence[Section], rows: pl.DataFrame) -> str:
    """Links that hold the CSV of each figure, and of all rows where they are not too many."""
    sets = [(s.id, s.title, csv_of(s)) for s in sections] + [("rows", "All rows", csv_of_rows(rows))]
    return "".join(
        f'<li><a id="csv-{name}" download="{name}.csv" href="data:text/csv;base64,{encoded(text)}">{escape(title)}</a>'
        f" <small>{name}.csv, {size(len(text.encode()))}</small></li>"
        for name, title, text in sets
        if text and len(text) <= CSV_LIMIT
    )


def size(count: int) -> str:
    """How large a file is; the smallest is not nothing."""
    return f"{count} B" if count < 1000 else f"{count / 1000:.0f} kB"


def csv_of_rows(rows: pl.DataFrame) -> str:
    """All rows, unless they are surely too many: each value takes a character at least, its comma."""
    flat = rows.select(name for name, kind in rows.schema.items() if not kind.is_nested())
    return flat.write_csv() if flat.height * flat.width <= CSV_LIMIT else ""


def csv_of(s: Section) -> str:
    return s.data.write_csv() if s.data is not None and s.data.height else ""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
