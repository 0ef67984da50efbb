"""The folder of `--out`: finished rows are kept as they come, so that an interrupted comparison goes on.

`parts/` holds them while a comparison runs, and `rows.parquet` when it is complete; `timelines/` has what the
kernel's runs looked like, since they cannot be had again. Every file is
written beside its place and then renamed into it: none is ever seen half-written.
"""

import errno
import gzip
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from weftway._native import ScenarioError
from weftway.backends import Row

if TYPE_CHECKING:
    import polars as pl


RENAMED = {"guarded": "fallback_decided", "utility_002": "utility_popov_2025"}
"""Columns that had another name in rows that were kept or published before."""


def current(row: Row) -> Row:
    """The row with the present names of its columns."""
    return {RENAMED.get(name, name): value for name, value in row.items()}


def table(rows: Iterable[Row]) -> "pl.DataFrame":
    """Rows as a frame; a column's type follows from all of its values."""
    import polars as pl

    return pl.DataFrame(list(rows), infer_schema_length=None)


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """A place to write what `file` will be: it gets there when all went well. An error names `file`."""
    half = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield half
        half.replace(file)
    except OSError as error:
        number, why = _reason(error)
        raise OSError(number, why, str(file)) from error
    finally:
        with suppress(OSError):
            half.unlink(missing_ok=True)


def _reason(error: OSError) -> tuple[int, str]:
    """The number and text of what the system said; Polars hands on the text alone."""
    if error.errno is not None:
        return error.errno, error.strerror or str(error)
    match = re.search(r"\(os error (\d+)\)", str(error))
    number = int(match[1]) if match else errno.EIO
    return number, os.strerror(number)


def write_parquet(frame: "pl.DataFrame", file: Path) -> None:
    """Writes `frame` to `file`, whole or not at all."""
    text = io.BytesIO()
    frame.write_parquet(text)
    with whole(file) as half:
        # Not by Polars, which takes a file cut short by a full disk for a whole one.
        half.write_bytes(text.getbuffer())


def _read(file: Path, columns: list[str]) -> "pl.DataFrame":
    """The table in `file`, which must have these columns."""
    import polars as pl

    try:
        frame = pl.read_parquet(file)
    except pl.exceptions.PolarsError as error:
        raise ScenarioError(f"{file} cannot be read as kept rows: remove it, or name another folder") from error
    if missing := [column for column in columns if column not in frame.columns]:
        raise ScenarioError(f"{file} holds no kept rows (no column `{missing[0]}`): remove it, or name another folder")
    return frame


class Store:
    """Finished rows under a folder, by the keys of their jobs."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise ScenarioError(f"{folder} is a file, but rows need a folder: name another place")
        self._folder = folder
        self._parts = folder / "parts"
        self._timelines = folder / "timelines"
        self._waiting: dict[str, Row] = {}

    def recall(self) -> dict[str, Row]:
        """Every row that was kept, by key."""
        kept = self._from_table()
        for file in sorted(self._parts.glob("*.parquet")):
            part = _read(file, ["key", "row"])
            kept.update(zip(part["key"], map(json.loads, part["row"]), strict=True))
        return {key: current(row) for key, row in kept.items()}

    def _from_table(self) -> dict[str, Row]:
        file = self._folder / "rows.parquet"
        if not file.exists():
            return {}
        rows = _read(file, ["key"]).to_dicts()
        return {row["key"]: row for row in rows}

    def keep(self, key: str, row: Row) -> None:
        """Takes one finished row; `flush` makes it last."""
        self._waiting[key] = row

    def keep_timeline(self, key: str, text: str) -> None:
        """Writes what a run that cannot be repeated looked like."""
        with whole(self._timelines / f"{key}.json.gz") as half:
            half.write_bytes(gzip.compress(text.encode()))

    def timeline(self, key: str) -> str | None:
        """What was kept of it."""
        file = self._timelines / f"{key}.json.gz"
        return gzip.decompress(file.read_bytes()).decode() if file.exists() else None

    def flush(self) -> None:
        """Writes what was kept since the last time, as one more part."""
        if not self._waiting:
            return
        import polars as pl

        # Text keeps a row as it is: a part may hold only nulls where the next holds numbers.
        part = pl.DataFrame({"key": list(self._waiting), "row": [json.dumps(row) for row in self._waiting.values()]})
        numbers = [int(file.stem) for file in self._parts.glob("[0-9]*.parquet")]
        write_parquet(part, self._parts / f"{max(numbers, default=0) + 1:06}.parquet")
        self._waiting.clear()

    def finish(self, rows: Iterable[Row]) -> "pl.DataFrame":
        """Writes the table of a complete comparison and drops the parts."""
        frame = table(rows)
        write_parquet(frame, self._folder / "rows.parquet")
        for file in self._parts.glob("*.parquet"):
            file.unlink(missing_ok=True)
        # It stays where another process keeps rows in the same folder.
        with suppress(OSError):
            self._parts.rmdir()
        return frame
