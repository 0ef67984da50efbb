"""Tables for LaTeX: those that the command prints, with the same numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.table import Table
from rich.text import Text

from . import printed
from .study import Study

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "\u2212": "$-$",
    "\u00a0": "~",
    "\u202f": r"\,",
    "–": "--",
    "▸": "",
}
"""Characters that LaTeX takes for something else, or lacks."""


def escaped(text: str) -> str:
    """A text as LaTeX sets it."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def tables(study: Study) -> str:
    """All tables of a comparison, each a `tabular` by itself. They need the package booktabs."""
    parts = ["% \\usepackage{booktabs}", *(tabular(one) for one in printed.of(study, 0))]
    return "\n\n".join(parts) + "\n"


def tabular(table: Table) -> str:
    """A table as `tabular`, its title and what stands below it as comments and notes."""
    heads = [str(column.header).split("\n") for column in table.columns]
    kinds = "".join("r" if column.justify == "right" else "l" for column in table.columns)
    lines = [_line(head[at] if at < len(head) else "" for head in heads) for at in range(max(map(len, heads)))]
    body = [_line(row) for row in zip(*(column.cells for column in table.columns), strict=True)]
    notes = [f"% {line}" for line in str(table.caption or "").splitlines()]
    begin, end = f"\\begin{{tabular}}{{@{{}}{kinds}@{{}}}}", "\\end{tabular}"
    ruled = [begin, "\\toprule", *lines, "\\midrule", *body, "\\bottomrule", end]
    return "\n".join([f"% {table.title or ''}".rstrip(), *ruled, *notes])


def _line(cells: Iterable[Any]) -> str:
    return " & ".join(map(_cell, cells)) + r" \\"


def _cell(cell: Any) -> str:
    text = escaped(re.sub(r"\s*\n\s*", " ", str(cell)))
    is_best = isinstance(cell, Text) and "bold" in str(cell.style)
    return rf"\textbf{{{text}}}" if is_best and text else text
