"""Rows column by column, wherever they are: a list of them, a frame, or what a folder keeps.

A hundred thousand rows are 7 kB each as dictionaries, and some hundred bytes as columns.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from weftway.run.backends import Row

if TYPE_CHECKING:
    import polars as pl


class FrameRows(Sequence[Row]):
    """The rows of a frame, each made when somebody asks for it; `finished` is what becomes of a row then."""

    def __init__(self, frame: "pl.DataFrame", finished: Callable[[int, Row], Row]) -> None:
        self.frame = frame
        self._finished = finished

    def __len__(self) -> int:
        return self.frame.height

    def __iter__(self) -> Iterator[Row]:
        return (self._finished(at, row) for at, row in enumerate(self.frame.iter_rows(named=True)))

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        return self._finished(place, self.frame.row(place, named=True))


class Columns:
    """What rows have, by column: every row has every column, and the numbers of a column are all of one type."""

    def __init__(self, rows: "pl.DataFrame | Sequence[Row]") -> None:
        self._rows = rows.frame if isinstance(rows, FrameRows) else rows
        self._known: dict[str, list[Any]] = {}
        if isinstance(self._rows, Sequence):
            self.names = list(dict.fromkeys(name for row in self._rows for name in row))
        else:
            self.names = list(self._rows.columns)
        self.count = len(self._rows)

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column, row by row; nothing but `None` where no row has it."""
        if name not in self._known:
            self._known[name] = self._column(name)
        return self._known[name]

    def _column(self, name: str) -> list[Any]:
        if not isinstance(self._rows, Sequence):
            return self._rows[name].to_list() if name in self._rows.columns else [None] * self.count
        found = [row.get(name) for row in self._rows]
        if {int, float} <= set(map(type, found)):
            return [float(value) if isinstance(value, int) else value for value in found]
        return found


def column(rows: "pl.DataFrame | Sequence[Row]", name: str) -> list[Any]:
    """One column of rows."""
    return Columns(rows)[name]
