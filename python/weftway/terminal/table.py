"""Tables: columns, and rows of cells that know what they are. Terminals show them; `report.html` makes them for pages,
`report.latex` for papers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

NOTHING = "–"
"""Sign in place of a number that there is not."""

Place = Literal["terminal", "page"]

LEAST_COLUMNS = 2
"""Columns of the narrowest table: a name and a number."""

WIDE = 1000
"""Characters, more than any table has."""

STYLES = {"best": "bold green", "good": "green", "bad": "bold red", "strong": "bold", "faint": "dim"}
"""Marks of a cell, and their looks on a terminal."""


@dataclass(frozen=True)
class Column:
    """Column of a table."""

    head: str = ""
    unit: str | None = None
    """Unit below the head, where cells go without it: on a terminal and in LaTeX."""
    right: bool = False
    wraps: bool = False
    least: int | None = None
    """Least width on a terminal, in characters."""
    title: str | None = None
    """Head on a page; `None` for the same."""
    css: str = ""
    """Class on a page; `num` for what is set to the right, else `text`."""
    only: Place | None = None

    @property
    def header(self) -> str:
        """Head on a terminal and in LaTeX, with the unit in a line of its own."""
        return self.head if self.unit is None else f"{self.head}\n{self.unit}"

    @property
    def label(self) -> str:
        """Head on a page."""
        return self.head if self.title is None else self.title

    @property
    def classes(self) -> str:
        """Class of its cells on a page."""
        return self.css or ("num" if self.right else "text")


@dataclass(frozen=True)
class Value:
    """Cell of a table."""

    text: str = ""
    full: str | None = None
    """Text on a page, where units stand in the cells; `None` for the same."""
    mark: str = ""
    number: float | None = None
    """Number by which a page sorts."""
    badges: Sequence[tuple[str, str]] = ()
    """Badges before the text on a page: `good`, `bad` or `plain`, and their words."""
    title: str = ""
    """Words for a pointer over it, on a page."""
    look: Any = None
    """Colour and marker of the scheduler that it names, a `report.palette.Look`."""
    tag: str = ""
    note: str = ""
    """Small print below the text on a page."""

    def __str__(self) -> str:
        return self.text

    @property
    def shown(self) -> str:
        """Text on a page."""
        return self.text if self.full is None else self.full


Cells = Sequence[Value | str]
"""Cells of a row; those that are nothing but a text may be one."""


@dataclass(frozen=True)
class Row:
    """Cells side by side. Rows of one group that follow one another stand below its title."""

    values: Cells
    group: str = ""
    cc: str | None = None
    """Controller, by which pages filter."""
    is_best: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes on a page."""


@dataclass(frozen=True)
class Table:
    """Title, columns and rows, and a caption below."""

    title: str | None
    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str = ""
    has_heads: bool = True

    def of(self, place: Place) -> tuple[list[Column], list[tuple[Row, list[Value]]]]:
        """Columns that are shown there, and each row with its cells in them."""
        kept = [at for at, column in enumerate(self.columns) if column.only in (None, place)]
        rows = [(row, [cell(row.values[at]) for at in kept if at < len(row.values)]) for row in self.rows]
        return [self.columns[at] for at in kept], rows

    def column(self, place: int) -> list[Value]:
        """Cells of a column."""
        return [cell(row.values[place]) for row in self.rows]

    def groups(self) -> list[tuple[Row, list[tuple[Row, list[Value]]]]]:
        """Rows of a page by their groups, each with its first row."""
        grouped = (list(rows) for _, rows in groupby(self.of("page")[1], key=lambda row: row[0].group))
        return [(rows[0][0], rows) for rows in grouped]

    def fitted(self, console: Console) -> Table:
        """The table without the last columns for which the terminal is too narrow: a cut number would be a wrong one.

        Its caption names what is left out.
        """
        kept, hidden = list(self.columns), list[str]()
        while len(kept) > LEAST_COLUMNS and replace(self, columns=kept)._width(console) > console.width:
            if (column := kept.pop()).only != "page":
                hidden.insert(0, column.head.split("\n")[0])
        if not hidden:
            return self
        many = "columns" if len(hidden) > 1 else "column"
        names = ", ".join(filter(None, hidden))
        left_out = f"{len(hidden)} {many} not shown, the terminal is too narrow: {names}"
        return replace(self, columns=kept, caption="\n".join(filter(None, [self.caption, left_out])))

    def _width(self, console: Console) -> int:
        # The title and the caption can be wrapped.
        bare = replace(self, title=None, caption="")
        return console.measure(bare, options=console.options.update(width=WIDE)).maximum

    def __rich__(self) -> RichTable:
        from rich.table import Table as RichTable
        from rich.text import Text

        shown = RichTable(
            title=self.title,
            title_justify="left",
            title_style="bold",
            caption=self.caption or None,
            caption_justify="left",
            caption_style="dim",
            box=None,
            show_header=self.has_heads,
            pad_edge=False,
        )
        columns, rows = self.of("terminal")
        for column in columns:
            shown.add_column(
                column.header,
                justify="right" if column.right else "left",
                no_wrap=not column.wraps,
                overflow="fold" if column.wraps else "ellipsis",
                min_width=column.least,
            )
        for before, (row, values) in zip([None, *(row for row, _ in rows)], rows, strict=False):
            if before is not None and before.group != row.group:
                shown.add_row()
            shown.add_row(*(Text(value.text, style=STYLES.get(value.mark, "")) for value in values))
        return shown


def cell(value: Value | str) -> Value:
    """A cell, also of a bare text."""
    return Value(value) if isinstance(value, str) else value


def texts(*heads: str) -> list[Column]:
    """Columns of texts in a line each."""
    return [Column(head) for head in heads]


def numbers(*heads: str) -> list[Column]:
    """Columns of numbers."""
    return [Column(head, right=True) for head in heads]


def wrapped(*heads: str) -> list[Column]:
    """Columns of texts that take several lines where they are long."""
    return [Column(head, wraps=True) for head in heads]


def plain(title: str | None, columns: Sequence[Column], rows: Iterable[Cells], caption: str = "") -> Table:
    """A table of rows that are nothing but their cells."""
    return Table(title, columns, [Row(row) for row in rows], caption)


def pairs(title: str | None, rows: Iterable[tuple[Value | str, Value | str]], least: int | None = None) -> Table:
    """A table without heads: names, and what is to be said of each."""
    columns = [Column(least=least), Column(wraps=True)]
    return Table(title, columns, [Row(row) for row in rows], has_heads=False)
