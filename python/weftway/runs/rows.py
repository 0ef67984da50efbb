"""Rows column by column, wherever they are: a list of them, a frame, or what a folder keeps.

A hundred thousand rows are 7 kB each as dictionaries, and some hundred bytes as columns.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from weftway.runs import columns
from weftway.runs.backends import Row

if TYPE_CHECKING:
    import polars as pl

PACKED = 1024
"""Rows that are held as dictionaries; with one more they become columns."""

READ = 64
"""Rows of a frame that are read at a time, where they are asked for one after the other."""

PLAIN = {str, int, float, bool, type(None)}
"""Types of values that a column gives back as they were."""


class KeyedRows(MutableMapping[str, Row]):
    """Rows by key, in the order in which the keys came. All but the latest are held as columns."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int] | None] = {}
        """Frame and line of each row; `None` for those that are dictionaries."""
        self._frames: list[pl.DataFrame] = []
        self._latest: dict[str, Row] = {}
        self._others: dict[str, Row] = {}
        """Rows that no frame would give back as they are."""
        self._last = (-1, -1)
        """Frame and line of the row that was asked for last."""
        self._following: Iterator[Row] = iter(())
        """Rows after it in its frame, where rows are asked for one after the other."""

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __getitem__(self, key: str) -> Row:
        place = self._places[key]
        if place is None:
            return self._latest[key] if key in self._latest else self._others[key]
        at, line = place
        before, self._last = self._last, place
        if before == (at, line - 1) and (row := next(self._following, None)) is not None:
            return row
        frame = self._frames[at]
        # Many at a time are ten times as fast, and for nothing if the next one is not asked for.
        is_next = before == (at, line - 1)
        self._following = frame[line + 1 :].iter_rows(named=True, buffer_size=READ) if is_next else iter(())
        return frame.row(line, named=True)

    def __setitem__(self, key: str, row: Row) -> None:
        self._others.pop(key, None)
        self._places[key] = None
        self._latest[key] = row
        if len(self._latest) > PACKED:
            self._pack()

    def __delitem__(self, key: str) -> None:
        del self._places[key]
        self._latest.pop(key, None)
        self._others.pop(key, None)

    def adopt(self, frame: "pl.DataFrame") -> None:
        """Takes the rows of a frame with a column `key`."""
        for line, key in enumerate(frame["key"]):
            self._places[key] = (len(self._frames), line)
        self._frames.append(frame)

    def _pack(self) -> None:
        """Makes columns of the latest rows: a frame for those that have the same columns."""
        alike: dict[tuple[Any, ...], list[str]] = {}
        for key, row in self._latest.items():
            alike.setdefault(tuple(row), []).append(key)
        for names, keys in alike.items():
            further = [name for name in names if not columns.is_result(name)]
            typed: dict[tuple[type, ...], list[str]] = {}
            for key in keys:
                row = self._latest[key]
                typed.setdefault(tuple([type(row[name]) for name in further]), []).append(key)
            for kinds, some in typed.items():
                self._pack_alike(some, PLAIN.issuperset(kinds))

    def _pack_alike(self, keys: list[str], is_plain: bool) -> None:
        rows = [self._latest.pop(key) for key in keys]
        frame = _frame(rows) if is_plain else None
        if frame is None:
            self._others.update(zip(keys, rows, strict=True))
        else:
            self._places.update((key, (len(self._frames), line)) for line, key in enumerate(keys))
            self._frames.append(frame)

    def frame(self, keys: Sequence[str]) -> "pl.DataFrame":
        """The rows of these keys as a frame, as `columns.table` makes it."""
        import polars as pl

        starts, height = [], 0
        for frame in self._frames:
            starts.append(height)
            height += frame.height
        loose = [key for key in dict.fromkeys(keys) if self._places[key] is None]
        lines = {key: height + at for at, key in enumerate(loose)}
        wanted = []
        for key in keys:
            place = self._places[key]
            wanted.append(lines[key] if place is None else starts[place[0]] + place[1])
        frames = [*self._frames, *([columns.loose_table(list(map(self.__getitem__, loose)))] if loose else [])]
        return columns.filled(pl.concat(frames, how="diagonal_relaxed")[wanted].select(self._names(keys)))

    def _names(self, keys: Sequence[str]) -> list[str]:
        """Columns of these rows, in the order in which they come."""
        names: dict[str, None] = {}
        seen: set[int] = set()
        for key in keys:
            place = self._places[key]
            if place is None:
                names.update(dict.fromkeys(self[key]))
            elif place[0] not in seen:
                seen.add(place[0])
                names.update(dict.fromkeys(self._frames[place[0]].columns))
        return list(names)


def _frame(rows: list[Row]) -> "pl.DataFrame | None":
    """Rows that have the same columns as a frame; `None` if it would not give them back as they are."""
    import polars as pl

    try:
        types = columns.types(rows[0])
        return pl.DataFrame({name: [row[name] for row in rows] for name in rows[0]}, schema_overrides=types)
    except (pl.exceptions.PolarsError, OverflowError, TypeError):
        return None


class Framed(Sequence[Row]):
    """Rows that are also there as a frame."""

    frame: "pl.DataFrame"

    def row(self, at: int) -> Row:
        """The row at a place that there is."""
        raise NotImplementedError

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        if isinstance(at, slice):
            return [self.row(place) for place in range(*at.indices(len(self)))]
        return self.row(range(len(self))[at])


class OrderedRows(Framed):
    """Rows by key in an order."""

    def __init__(self, rows: KeyedRows, keys: Sequence[str]) -> None:
        self._rows, self._keys = rows, keys

    @cached_property
    def frame(self) -> "pl.DataFrame":  # type: ignore[override]
        return self._rows.frame(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def row(self, at: int) -> Row:
        return self._rows[self._keys[at]]


class FrameRows(Framed):
    """The rows of a frame, each made when somebody asks for it; `finished` is what becomes of a row then."""

    def __init__(self, frame: "pl.DataFrame", finished: Callable[[int, Row], Row]) -> None:
        self.frame = frame
        self._finished = finished

    def __len__(self) -> int:
        return self.frame.height

    def __iter__(self) -> Iterator[Row]:
        return (self._finished(at, row) for at, row in enumerate(self.frame.iter_rows(named=True)))

    def row(self, at: int) -> Row:
        return self._finished(at, self.frame.row(at, named=True))


def in_order(rows: KeyedRows, keys: Sequence[str]) -> Sequence[Row]:
    """Rows of these keys: a list, or if they are many, what makes each one when it is asked for."""
    return OrderedRows(rows, keys) if len(keys) > PACKED else [rows[key] for key in keys]


class Columns:
    """Values of rows, by column: every row has every column, and the numbers of a column are all of one type."""

    def __init__(self, rows: "pl.DataFrame | Sequence[Row]") -> None:
        self._rows = rows.frame if isinstance(rows, Framed) else rows
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
        values = [row.get(name) for row in self._rows]
        if {int, float} <= set(map(type, values)):
            return [float(value) if isinstance(value, int) else value for value in values]
        return values


def column(rows: "pl.DataFrame | Sequence[Row]", name: str) -> list[Any]:
    """Values of a column, row by row."""
    return Columns(rows)[name]
