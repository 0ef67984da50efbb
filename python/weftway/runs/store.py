"""The folder of `--out`: finished rows are kept as they come, so that an interrupted comparison goes on.

A store only grows. `parts/` holds rows while commands run, and `rows.parquet` when one of them is complete: all rows
of the folder, whichever command made them. `timelines/` has what the kernel's runs looked like, since they cannot be
had again. Every file is written beside its place and then renamed into it: none is ever seen half-written. Several
processes may use one folder: they read and write it in turns.
"""

import errno
import gzip
import io
import json
import os
import secrets
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from weftway._native import ScenarioError
from weftway.files.os_error import reason
from weftway.runs import backends
from weftway.runs.backends import Row
from weftway.runs.columns import strange, table, whole_table
from weftway.runs.locks import lock
from weftway.runs.rows import KeyedRows
from weftway.terminal.interrupts import put_off

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Finished", "Store", "read_rows", "table", "try_writing", "whole", "write_parquet"]

FLUSH_S = 2.0
"""Interval of writing finished rows: what a power cut can cost. Rows that cannot be had again are written at once."""

SELECTED = "selected"
"""A column of `rows.parquet`: whether the command that finished last in the folder asked for the row."""


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """A place to write what `file` will be: it gets there when all went well. An error names `file`.

    What a link leads to is replaced, not the link. A device or a pipe, as `/dev/stdout`, stays: it is written to.
    """
    is_device = file.exists() and not (file.is_file() or file.is_dir())
    if file.is_symlink() and not is_device:
        file = file.resolve()
    half = file if is_device else file.with_name(f".{file.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield half
        if not is_device:
            _sync(half)
            half.replace(file)
            _sync(file.parent)
    except OSError as error:
        number, why = reason(error)
        raise OSError(number, why, str(file)) from error
    finally:
        if not is_device:
            with suppress(OSError):
                half.unlink(missing_ok=True)


def try_writing(folder: Path) -> None:
    """Makes a folder, if it is not there, and refuses one that takes no file: what would be written there later would
    be lost. Rights alone do not tell: a file system may be read-only, full, or none, as `/proc`."""
    tried = folder / f".rows.parquet.{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        tried.write_bytes(b"x")
    except OSError as error:
        number, why = reason(error)
        raise OSError(number, why, str(folder)) from error
    finally:
        with suppress(OSError):
            tried.unlink(missing_ok=True)


def _sync(place: Path) -> None:
    """Waits until a file or a folder is on the disk; some file systems cannot say it of a folder."""
    opened = os.open(place, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(opened)


def write_parquet(frame: "pl.DataFrame", file: Path) -> None:
    """Writes `frame` to `file`, whole or not at all."""
    text = io.BytesIO()
    frame.write_parquet(text)
    with whole(file) as half:
        # Not by Polars, which takes a file cut short by a full disk for a whole one.
        half.write_bytes(text.getbuffer())


def read_rows(file: Path, texts: Sequence[str] = ()) -> "pl.DataFrame":
    """The table in `file`, which must have these columns, with a text in every row."""
    import polars as pl

    another = "remove it, or name another folder"
    try:
        frame = pl.read_parquet(file)
    # Of a file that is damaged, Polars may panic.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ScenarioError(f"{file} cannot be read as kept rows: {another}") from error
    for column in texts:
        if column not in frame.columns:
            raise ScenarioError(f"{file} holds no kept rows (no column `{column}`): {another}")
        if frame.schema[column] != pl.String or frame[column].null_count():
            raise ScenarioError(f"{file} holds no kept rows (no text in column `{column}`): {another}")
    if name := strange(frame):
        raise ScenarioError(f"{file}: another version of Weftway wrote its column `{name}`: name another folder")
    return frame


def _kept_row(text: str, file: Path) -> Row:
    """A row of a part."""
    try:
        row = json.loads(text)
        if not isinstance(row, dict):
            raise ValueError("a row has names")
    except ValueError as error:
        raise ScenarioError(f"{file} cannot be read as kept rows: remove it, or name another folder") from error
    return row


@dataclass(frozen=True)
class Finished:
    """Rows that a command asked for, each once, as its folder has them, and how many the folder holds besides."""

    rows: Sequence[Row] = field(default_factory=list)
    others: int = 0
    """Rows that were not asked for."""
    older: int = 0
    """Number of them that other code made, or another kernel."""

    @property
    def sentence(self) -> str:
        """Sentence about the rows that a table does not show; empty if there are none."""
        if not self.others:
            return ""
        shown = "1 row is shown" if len(self.rows) == 1 else f"{len(self.rows)} rows are shown"
        older = f", {self.older} of them by other versions of the code" if self.older else ""
        return f"{shown}, as asked for; the folder holds {self.others} more{older}."


@dataclass(frozen=True)
class Whole:
    """A table that has all that was asked for, and first."""

    frame: "pl.DataFrame"
    """Rows that were asked for."""
    others: int
    older: int


class Store:
    """Finished rows under a folder, by the keys of their jobs."""

    def __init__(self, folder: Path) -> None:
        if folder.is_symlink() and not folder.exists():
            raise ScenarioError(f"{folder} is a link to nothing: name another place, or make the folder that it names")
        if folder.exists() and not folder.is_dir():
            raise ScenarioError(f"{folder} is a file, but rows need a folder: name another place")
        self._folder = folder
        self._table = folder / "rows.parquet"
        self._parts = folder / "parts"
        self._timelines = folder / "timelines"
        self._waiting: dict[str, Row] = {}
        self._flushed = time.monotonic()

    def make(self) -> None:
        """Makes the folder, if it is not there, and tries to write into it, before any run."""
        with self._alone():
            try_writing(self._folder)

    def recall(self) -> KeyedRows:
        """Every row that was kept, by key. A row of the table has all of the table's columns."""
        if not self._folder.exists():
            return KeyedRows()
        with self._alone():
            return self._rows(self._files())

    def finished(self, keys: list[str]) -> Whole | None:
        """The table, if `finish` with rows of these keys, and nothing new in them, would leave it as it is."""
        if not self._table.exists():
            return None
        with self._alone():
            if self._waiting or self._files():
                return None
            frame = read_rows(self._table, ["key"])
        if SELECTED not in frame.columns:
            return None
        asked = frame.filter(frame[SELECTED])
        if asked["key"].to_list() != keys or frame["key"][: len(keys)].to_list() != keys:
            return None
        others = frame[len(keys) :]
        made = others.select(name for name in ("backend", "code") if name in others.columns).to_dicts()
        older = sum(not backends.is_of_this_code(row) for row in made)
        return Whole(asked.drop(SELECTED), others.height, older)

    def keep(self, key: str, row: Row, timeline: str | None = None) -> None:
        """Takes one finished row, and the timeline of a run that cannot be had again. They last from the next `flush`
        on, which is soon."""
        self._waiting[key] = row
        is_repeatable = backends.is_repeatable(row.get("backend"))
        if timeline is not None and not is_repeatable:
            self.keep_timeline(key, timeline)
        if not is_repeatable or time.monotonic() - self._flushed > FLUSH_S:
            self.flush()

    def keep_timeline(self, key: str, text: str) -> None:
        """Writes what a run that cannot be repeated looked like."""
        with whole(self._timelines / f"{key}.json.gz") as half:
            half.write_bytes(gzip.compress(text.encode()))

    def timeline(self, key: str) -> str | None:
        """Kept timeline of a run, as JSON; nothing if none was kept."""
        file = self._timelines / f"{key}.json.gz"
        if not file.exists():
            return None
        try:
            text = gzip.decompress(file.read_bytes()).decode()
            json.loads(text)
        except (gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
            raise ScenarioError(f"{file} cannot be read as what a run looked like: remove it") from error
        return text

    def flush(self) -> None:
        """Writes what was kept since the last time, as one more part."""
        self._flushed = time.monotonic()
        if not self._waiting:
            return
        import polars as pl

        # Text keeps a row as it is: a part may hold only nulls where the next holds numbers.
        part = pl.DataFrame({"key": list(self._waiting), "row": [json.dumps(row) for row in self._waiting.values()]})
        with self._alone():
            numbers = [int(number) for file in self._files() if (number := file.stem.partition("-")[0]).isdigit()]
            write_parquet(part, self._parts / f"{max(numbers, default=0) + 1:06}-{secrets.token_hex(4)}.parquet")
            self._waiting.clear()

    def finish(self, rows: Sequence[Row]) -> Finished:
        """Makes one table of all that the folder holds. `rows` are those that were asked for: they come first.

        The others follow in an order that does not depend on when they were made.
        """
        self.flush()
        with self._alone():
            parts = self._files()
            kept = self._rows(parts)
            first = KeyedRows()
            earlier: dict[str, Row] = {}
            for row in rows:
                key = row["key"]
                merged = _merged(kept.get(key, {}), row)
                first[key] = {**merged, SELECTED: True}
                if not backends.is_repeatable(row.get("backend")):
                    earlier[key] = {name: merged[name] for name in row}
            is_repeated = len(first) < len(rows)
            others = sorted((_place(row), key) for key, row in kept.items() if key not in first)
            for _, key in others:
                first[key] = {**kept[key], SELECTED: False}
            older = sum(not backends.is_of_this_code(kept[key]) for _, key in others)
            write_parquet(self._of_all(first), self._table)
            # Only now that the table has their rows, and only those that were read.
            for file in parts:
                file.unlink(missing_ok=True)
            self._tidy()
        if earlier or is_repeated:
            rows = list({row["key"]: earlier.get(row["key"], row) for row in rows}.values())
        return Finished(rows, len(others), older)

    def _of_all(self, rows: KeyedRows) -> "pl.DataFrame":
        import polars as pl

        try:
            return whole_table(rows.frame(list(rows)))
        except pl.exceptions.PolarsError as error:
            raise ScenarioError(
                f"{self._folder}: rows of different versions of Weftway do not fit into one table; the new ones are "
                f"kept in {self._parts}. Name another folder"
            ) from error

    def _files(self) -> list[Path]:
        """The parts, the oldest first."""
        return sorted(self._parts.glob("[!.]*.parquet"))

    def _rows(self, parts: list[Path]) -> KeyedRows:
        kept = KeyedRows()
        if self._table.exists():
            kept.adopt(read_rows(self._table, ["key"]).drop(SELECTED, strict=False))
        for file in parts:
            part = read_rows(file, ["key", "row"])
            for key, text in zip(part["key"], part["row"], strict=True):
                kept[key] = _merged(kept.get(key, {}), _kept_row(text, file))
        return kept

    def _tidy(self) -> None:
        """Removes what writers left half-written when they were killed, and the folder of the parts if it is empty."""
        for half in [*self._folder.glob(".rows.parquet.*"), *self._parts.glob(".*.parquet.*")]:
            half.unlink(missing_ok=True)
        with suppress(OSError):
            self._parts.rmdir()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process reads or writes the rows meanwhile. The lock is the system's: it ends with its process."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with put_off():
            opened = lock(self._folder)
            try:
                yield
            finally:
                os.close(opened)


def _merged(old: Row, new: Row) -> Row:
    """Two rows of one key as one, with the columns of both. What cannot be had again stays as it was kept first."""
    if backends.is_repeatable(old.get("backend")):
        return {**old, **new}
    return {**new, **{name: value for name, value in old.items() if value is not None}}


def _place(row: Row) -> tuple[str, ...]:
    """Sort key of a row among those that were not asked for."""
    names = ("scenario", "scenario_hash", "cell", "backend", "cc", "scheduler", "seed", "code", "key")
    return tuple(f"{row.get(name) or 0:020}" if name == "seed" else str(row.get(name)) for name in names)
