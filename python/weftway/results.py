"""Result of `weftway.compare`: a Polars frame that shows itself as a table of means."""

import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup, escape

from weftway import report
from weftway.report import printed
from weftway.report.study import study_of
from weftway.runs.comparison import Comparison
from weftway.runs.store import whole
from weftway.terminal.console import PlainConsole

WIDTH = 160
"""Characters of a table in a notebook, which scrolls."""

PRE = '<pre style="font-family:monospace;white-space:pre;overflow-x:auto">{code}</pre>'
"""Notebooks set other text in a face whose letters differ in width, and break its lines."""


class Results(pl.DataFrame):
    """The rows of a comparison, one per run. What is selected or computed from it is an ordinary frame."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self._df = comparison.frame._df
        self.comparison = comparison

    _from_pydf = pl.DataFrame._from_pydf
    """Constructor by which Polars makes a copy or a part of it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pl.DataFrame.clone, (self.clone(),)

    def _repr_html_(self, **kwargs: Any) -> str:
        """Shown by a notebook: the tables that `weft compare` prints; the rows themselves if there is none."""
        comparison = self.comparison
        if not comparison.rows:
            return super()._repr_html_(**kwargs)
        screen = PlainConsole(record=True, width=WIDTH, file=io.StringIO())
        for part in printed.of(study_of(comparison)):
            screen.print(part, "")
        notes = (Markup("<p><b>Warning:</b> {}</p>").format(line) for line in comparison.warnings)
        return "".join(notes) + screen.export_html(inline_styles=True, code_format=PRE)

    def __str__(self) -> str:
        """Text for `print` and a prompt: the tables and sentences of `weft compare`, and how to get at the rows."""
        comparison = self.comparison
        if not comparison.rows:
            return super().__str__()
        screen = PlainConsole(width=min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH), file=io.StringIO())
        with screen.capture() as shown:
            for part in printed.of(study_of(comparison)):
                screen.print(part.fitted(screen), "")
            for line in [*printed.told(study_of(comparison)), *(f"warning: {line}" for line in comparison.warnings)]:
                screen.print(line)
            screen.print(f"{self.height} rows of {self.width} columns: a Polars frame; .head() shows the first")
        return "\n".join(line.rstrip() for line in shown.get().splitlines())

    __repr__ = __str__

    def report(self, height: int = 800) -> "Report":
        """The report of `weft compare --out`, shown inline by a notebook; `height` is in pixels."""
        with tempfile.TemporaryDirectory() as folder:
            page = report.write(self.comparison, Path(folder))
            return Report(page.read_text(encoding="utf-8"), height)


class Report:
    """A self-contained page."""

    def __init__(self, page: str, height: int) -> None:
        self.page = page
        """The page as HTML."""
        self._height = height

    def write(self, file: str | Path) -> None:
        """Writes the page to a file."""
        with whole(Path(file)) as half:
            half.write_text(self.page, encoding="utf-8")

    def _repr_html_(self) -> str:
        text = escape(self.page)
        return f'<iframe srcdoc="{text}" style="width:100%;height:{self._height}px;border:0"></iframe>'
