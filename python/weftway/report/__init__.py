"""Reports: one self-contained HTML page for a comparison, and its figures as SVG, PDF and CSV.

>>> from weftway import report
>>> report.write(comparison, Path("out"))
>>> page = report.render(rows, timelines, scenario)
>>> report.figures(rows, timelines, scenario, "out/figures", formats=("svg", "csv"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from weftway.runs.comparison import Comparison

    from .earlier import Earlier

__all__ = ["FORMATS", "MOST_TIMELINES", "figures", "render", "write"]

FORMATS = ("svg", "pdf", "csv", "tex")

MOST_TIMELINES = 240
"""Runs that a page shows over time: each takes some 5 kB of it."""


def write(
    comparison: Comparison,
    folder: Path,
    formats: Sequence[str] = (),
    command: str = "",
    earlier: Earlier | None = None,
    width: str | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> Path:
    """Writes `report.html`, and every figure into `figures/` in each of `formats`, in this `width`; returns the page.

    `command` is what made the comparison; `earlier` is what the report compares the rows with. `tell` hears how many of
    how many figures are drawn.
    """
    from .compared import write as written

    return written(comparison, folder, formats, command, earlier, width, tell)


def render(
    rows: pl.DataFrame, timelines: dict[Any, Any], scenario: dict[str, Any], earlier: Earlier | None = None
) -> str:
    """The report as text; with `earlier` it says what changed since then."""
    # Tables on a terminal share this package's numbers and need nothing of its pages.
    from .page import render as rendered

    return rendered(rows, timelines, scenario, earlier)


def figures(
    rows: pl.DataFrame,
    timelines: dict[Any, Any],
    scenario: dict[str, Any],
    out_dir: str | Path,
    formats: Sequence[str] = FORMATS,
    width: str | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Writes every figure that has data to `out_dir`, in each of `formats`; returns the files.

    With a `width`, such as `"3.3in"`, figures are so wide, with letters of 7 points. `tex` has the tables for LaTeX.
    `tell` hears how many of how many figures are drawn."""
    formats = [formats] if isinstance(formats, str) else formats
    unknown = set(formats) - set(FORMATS)
    if unknown:
        raise ValueError(f"unknown figure format {sorted(unknown)[0]!r}, one of {', '.join(FORMATS)}")
    # The drawing library takes most of a second to load; only who draws waits for it.
    from .drawings import write_all
    from .lettering import points

    wide = None if width is None else points(width)
    return write_all(rows, timelines, scenario, Path(out_dir), formats, wide, tell)
