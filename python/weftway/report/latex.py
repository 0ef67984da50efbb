"""Tables for LaTeX: those that the command prints, with the same numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from textwrap import wrap
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from . import printed
from .lettering import LARGE, measured
from .study import Study

FOOTNOTESIZE = 8.0
"""Points of the letters in the tables of a class of 10 points."""

GAP = 12.0
"""Points between two columns: twice LaTeX's `tabcolsep`."""

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
    "–": r"\textendash{}",
    "▸": "",
}
"""Characters that LaTeX takes for something else, or lacks."""


def escaped(text: str) -> str:
    """A text as LaTeX sets it. Hyphens in a row, as in an option, would become a dash."""
    return re.sub("-(?=-)", "-{}", "".join(SPECIAL.get(letter, letter) for letter in text))


def tables(study: Study, width: float | None = None) -> str:
    """All tables of a comparison, each a `tabular` by itself. They need the package booktabs. With a `width` in points,
    they have as many columns as fit into it."""
    printed_tables = printed.of(study, 0)
    parts = [tabular(one) if width is None else narrow(one, width) for one in printed_tables]
    return "\n\n".join(["% \\usepackage{booktabs}", *parts]) + "\n"


def tabular(table: Table) -> str:
    """A table as `tabular`, its title and what stands below it as comments and notes."""
    return _tabular(table, table.columns, [str(column.header).split("\n") for column in table.columns])


def narrow(table: Table, width: float) -> str:
    """The first columns of a table, as many as fit into a width: a name and a number at least. Their heads take several
    lines."""
    named = [column for column in table.columns if str(column.header) or column is table.columns[0]]
    heads = [_broken(column) for column in named]
    wide = _widths([[*head, *map(str, column.cells)] for head, column in zip(heads, named, strict=True)])
    ends = list(accumulate(wide, lambda end, own: end + GAP + own))
    count = max(sum(end <= width for end in ends), printed.LEAST_COLUMNS)
    return "{\\footnotesize\n" + _tabular(table, named[:count], heads[:count]) + "\n}"


def _broken(column: Column) -> list[str]:
    """The head of a column in lines no longer than its cells, where words allow it."""
    name, *unit = str(column.header).split("\n")
    longest = max(map(len, map(str, column.cells)), default=1)
    return [*wrap(name, longest, break_long_words=False, break_on_hyphens=False), *unit]


def _widths(columns: Sequence[Sequence[str]]) -> list[float]:
    """How many points columns of these texts take, by a font that is wider than those of papers."""
    texts = [(text, "normal") for column in columns for text in column]
    each = iter(measured(texts))
    return [max(next(each) for _ in column) * FOOTNOTESIZE / LARGE for column in columns]


def _tabular(table: Table, columns: Sequence[Column], heads: Sequence[Sequence[str]]) -> str:
    kinds = "".join("r" if column.justify == "right" else "l" for column in columns)
    # Numbers have their units right above them.
    deep = max(map(len, heads))
    first, *others = heads
    filled = [[*first, *[""] * (deep - len(first))], *([*[""] * (deep - len(head)), *head] for head in others)]
    lines = [_line(line) for line in zip(*filled, strict=True)]
    body = [_line(row) for row in zip(*(column.cells for column in columns), strict=True)]
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
