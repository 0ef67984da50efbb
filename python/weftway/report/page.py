"""The page: one HTML file that holds its style, its script, its charts and their data."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from weftway.runs.store import whole

from .charts import symbols
from .earlier import Earlier
from .html import rendered
from .numbers import counted, unbroken
from .palette import css_classes, css_variables
from .provenance import seeds
from .sections import Section, all_sections
from .series import read_timelines
from .study import Study
from .words import findings

CSV_LIMIT = 250_000
"""Characters of CSV in the page; a larger data set stays with the rows on disk."""


def render(
    rows: pl.DataFrame, timelines: dict[Any, Any], scenario: dict[str, Any], earlier: Earlier | None = None
) -> str:
    """The report as text."""
    return page(Study(rows, scenario), rows, timelines, earlier)


def page(study: Study, rows: pl.DataFrame, timelines: dict[Any, Any], earlier: Earlier | None = None) -> str:
    """The report of a study of these rows, as text."""
    if study.count == 0:
        raise ValueError("a report needs at least one row")
    return assembled(
        str(study.scenario.get("title") or study.scenario.get("name") or "Comparison"),
        list(map(unbroken, findings(study))),
        facts(study),
        all_sections(study, read_timelines(timelines), earlier),
        rows,
        {"cc": study.controllers, "setting": study.settings},
        style=asset("vendor/uPlot.min.css") if timelines else "",
        script="\n".join(map(asset, ("vendor/uPlot.iife.min.js", "timelines.js"))) if timelines else "",
    )


FILTERS = {"cc": "Controller", "setting": "Setting"}


def assembled(
    title: str,
    findings: Sequence[str],
    facts: str,
    sections: Sequence[Section],
    rows: pl.DataFrame,
    filters: Mapping[str, Sequence[str]] | None = None,
    style: str = "",
    script: str = "",
) -> str:
    """A page of the sections that have content. The first finding is its headline. `filters` show one controller or
    setting where there are several; `style` and `script` come after those that every page has."""
    kept = [section for section in sections if section.body]
    return rendered(
        "page.html",
        title=title,
        verdict=findings[0],
        findings=findings[1:],
        facts=facts,
        sections=kept,
        filters=[(key, FILTERS[key], values) for key, values in (filters or {}).items() if len(values) > 1],
        downloads=downloads(kept, rows),
        symbols=symbols(),
        style=sheet() + style,
        script="\n".join(filter(None, [asset("page.js"), script])),
    )


def save(text: str, folder: Path) -> Path:
    """Writes a page as `report.html` into a folder, whole or not at all."""
    file = folder / "report.html"
    with whole(file) as half:
        half.write_text(text, encoding="utf-8")
    return file


@cache
def asset(name: str, package: str = "weftway.report") -> str:
    """A file of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def sheet() -> str:
    """The style sheet with the palette in its places."""
    text = asset("style.css")
    for mark, dark in (("/* light */", False), ("/* dark */", True)):
        text = text.replace(mark, css_variables(dark))
    return text + css_classes()


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


def downloads(sections: Sequence[Section], rows: pl.DataFrame) -> list[dict[str, str]]:
    """The CSV of each figure, and of all rows where they are not too many."""
    sets = [(section.id, section.title, section.csv) for section in sections] + [("rows", "All rows", csv_of(rows))]
    return [
        {
            "name": name,
            "title": title,
            "size": size(len(text.encode())),
            "base64": base64.b64encode(text.encode()).decode(),
        }
        for name, title, text in sets
        if text and len(text) <= CSV_LIMIT
    ]


def size(count: int) -> str:
    """Size of a file; the smallest is not nothing."""
    return f"{count} B" if count < 1000 else f"{count / 1000:.0f} kB"


def csv_of(rows: pl.DataFrame) -> str:
    """All rows, unless they are surely too many: each value takes a character at least, its comma."""
    flat = rows.select(name for name, kind in rows.schema.items() if not kind.is_nested())
    return flat.write_csv() if flat.height * flat.width <= CSV_LIMIT else ""
