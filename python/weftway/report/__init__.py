"""Reports: one self-contained HTML page for a comparison, and its figures as SVG, PDF and CSV.

>>> from weftway import report
>>> report.write("out/report.html", rows, timelines, scenario)
>>> report.figures(rows, timelines, scenario, "out/figures", formats=("svg", "csv"))
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from .page import render, write

__all__ = ["FORMATS", "figures", "render", "write"]

FORMATS = ("svg", "pdf", "csv")


def figures(
    rows: pl.DataFrame,
    timelines: dict[Any, Any],
    scenario: dict[str, Any],
    out_dir: str | Path,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Writes every figure that has data to `out_dir`, in each of `formats`; returns the files."""
    unknown = set(formats) - set(FORMATS)
    if unknown:
        raise ValueError(f"unknown figure format {sorted(unknown)[0]!r}, one of {', '.join(FORMATS)}")
    # The drawing library takes most of a second to load; only who draws waits for it.
    from .drawings import write_all

    return write_all(rows, timelines, scenario, Path(out_dir), formats)
