"""Tables for LaTeX: those that the command prints, with the same numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from textwrap import wrap

from weftway.terminal.table import LEAST_COLUMNS, Table, Value

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
    printed_tables = printed.of(study, 0, has_marks=False)
    parts = [
        tabular(printed_table) if width is None else narrow(printed_table, width) for printed_table in printed_tables
    ]
    return "\n\n".join(["% \\usepackage{booktabs}", *parts]) + "\n"


def tabular(table: Table) -> str:
    """A table as `tabular`, its title and what stands below it as comments and notes."""
    columns, _ = table.of("terminal")
    return _tabular(table, list(range(len(columns))), [column.header.split("\n") for column in columns])


def narrow(table: Table, width: float) -> str:
    """The first columns of a table, as many as fit into a width: a name and a number at least. Their heads take several
    lines."""
    columns, rows = table.of("terminal")
    named = [at for at, column in enumerate(columns) if column.head or at == 0]
    cells = [[values[at].text for _, values in rows] for at in named]
    heads = [_broken(columns[at].header, column) for at, column in zip(named, cells, strict=True)]
    wide = _widths([[*head, *column] for head, column in zip(heads, cells, strict=True)])
    ends = list(accumulate(wide, lambda end, own: end + GAP + own))
    count = max(sum(end <= width for end in ends), LEAST_COLUMNS)
    return "{\\footnotesize\n" + _tabular(table, named[:count], heads[:count]) + "\n}"


def _broken(header: str, cells: Sequence[str]) -> list[str]:
    """The head of a column in lines no longer than its cells, where words allow it."""
    name, *unit = header.split("\n")
    longest = max(map(len, cells), default=1)
    return [*wrap(name, longest, break_long_words=False, break_on_hyphens=False), *unit]


def _widths(columns: Sequence[Sequence[str]]) -> list[float]:
    """Points that columns of these texts take, by a font that is wider than those of papers."""
    texts = [(text, "normal") for column in columns for text in column]
    each = iter(measured(texts))
    return [max(next(each) for _ in column) * FOOTNOTESIZE / LARGE for column in columns]


def _tabular(table: Table, places: Sequence[int], heads: Sequence[Sequence[str]]) -> str:
    """The columns at these places."""
    columns, rows = table.of("terminal")
    kinds = "".join("r" if columns[at].right else "l" for at in places)
    # Numbers have their units right above them.
    deep = max(map(len, heads))
    first, *others = heads
    filled = [[*first, *[""] * (deep - len(first))], *([*[""] * (deep - len(head)), *head] for head in others)]
    lines = [_line(map(escaped, line)) for line in zip(*filled, strict=True)]
    body = [_line(_cell(values[at]) for at in places) for _, values in rows]
    notes = [f"% {line}" for line in table.caption.splitlines()]
    begin, end = f"\\begin{{tabular}}{{@{{}}{kinds}@{{}}}}", "\\end{tabular}"
    ruled = [begin, "\\toprule", *lines, "\\midrule", *body, "\\bottomrule", end]
    return "\n".join([f"% {table.title or ''}".rstrip(), *ruled, *notes])


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(value: Value) -> str:
    text = escaped(re.sub(r"\s*\n\s*", " ", value.text))
    return rf"\textbf{{{text}}}" if value.mark in ("best", "strong", "bad") and text else text
