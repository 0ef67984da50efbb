"""The columns of kept rows: one type each, whatever their values, and one order.

Which results there are and of what type is said where they are computed, in `crates/scenario/src/measurement.rs`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeGuard

from weftway import _native

if TYPE_CHECKING:
    import polars as pl

    from weftway.runs.backends import Row

PATH = "path."
ANY_PATH = "path.*."
"""Beginning of the name of a result that every path has."""

OF_A_COMPARISON = "scenario_hash"
"""Rows of comparisons have this column, and all results. Rows that other commands keep have some of them."""


@cache
def results() -> Mapping[str, str]:
    """Every result and its type: `text`, `integer`, `float` or `boolean`. Those of a path are called `path.*.NAME`."""
    return dict(_native.columns_of_results())


def table(rows: Iterable["Row"]) -> "pl.DataFrame":
    """Rows as a frame, with the columns that they have, in the order in which these come."""
    return filled(loose_table(list(rows)))


def loose_table(rows: Sequence["Row"]) -> "pl.DataFrame":
    """Rows as a frame in which columns without a value have no type yet."""
    import polars as pl

    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame(rows, schema_overrides=types(names), infer_schema_length=None).select(names)


def types(names: Iterable[str]) -> "dict[str, pl.DataType | type[pl.DataType]]":
    """Types of those columns that are results."""
    return {name: kind for name in names if (kind := _type(name)) is not None}


def filled(frame: "pl.DataFrame") -> "pl.DataFrame":
    """The frame with a type for every column: what is no result and has no value anywhere is a text: a name, a path."""
    import polars as pl

    empty = [name for name, kind in frame.schema.items() if kind == pl.Null]
    return frame.cast(dict.fromkeys(empty, pl.String))


def whole_table(frame: "pl.DataFrame") -> "pl.DataFrame":
    """A frame for a file. Files of comparisons have the same results, but for paths of other names."""
    import polars as pl

    paths = list(dict.fromkeys(_path(name) for name in frame.columns if _path(name) is not None))
    ordered = _ordered(paths)
    if OF_A_COMPARISON in frame.columns:
        missing = [name for name in ordered if name not in frame.columns and not name.startswith(PATH)]
        frame = frame.with_columns(pl.lit(None, dtype=_type(name)).alias(name) for name in missing)
    present = [name for name in ordered if name in frame.columns]
    at = min((frame.columns.index(name) for name in present), default=frame.width)
    further = [name for name in frame.columns[at:] if name not in present]
    return frame.select([*frame.columns[:at], *present, *further])


def strange(frame: "pl.DataFrame") -> str | None:
    """A result in the frame whose values are not all of its type, as another version may have written them."""
    import polars as pl

    for name in frame.columns:
        kind = _type(name)
        if kind is None or frame.schema[name] in (kind, pl.Null):
            continue
        try:
            if not frame.schema[name].is_nested() and frame[name].cast(kind).cast(frame.schema[name]).equals(
                frame[name]
            ):
                continue
        except pl.exceptions.PolarsError:
            pass
        return name
    return None


def of_run(results: Iterable[str], identity: "Row", kept: "Row") -> "Row":
    """A kept row as its run gave it: without those columns of the table that only other rows have."""
    own = {**identity, **{name: kept.get(name) for name in results}}
    return {**own, **{name: value for name, value in kept.items() if name not in own and value is not None}}


def _type(column: str) -> "pl.DataType | type[pl.DataType] | None":
    import polars as pl

    path = _path(column)
    kind = results().get(column if path is None else ANY_PATH + column.rsplit(".", 1)[1])
    types = {"text": pl.String, "integer": pl.Int64, "float": pl.Float64, "boolean": pl.Boolean}
    return None if kind is None else types[kind]


def _path(column: str) -> str | None:
    """The path whose result it is; `path.lte.loss` is a key that was varied, and no result."""
    if not column.startswith(PATH):
        return None
    path, _, result = column[len(PATH) :].rpartition(".")
    return path if ANY_PATH + result in results() else None


@cache
def is_result(column: str) -> bool:
    """Tells results of a run, as a whole or of a path, from other columns."""
    return column in results() or _path(column) is not None


def is_result_of_a_path(column: str) -> bool:
    """Tells `path.NAME.RESULT` from a key of a path that was varied."""
    return _path(column) is not None


def _ordered(paths: Iterable[str | None]) -> list[str]:
    """The names of all results, path by path where they are of paths."""
    of_a_path = [name for name in results() if name.startswith(ANY_PATH)]
    of_paths = [f"{PATH}{path}.{name[len(ANY_PATH) :]}" for path in paths for name in of_a_path]
    names = list(results())
    at = names.index(of_a_path[0])
    return [*names[:at], *of_paths, *names[at + len(of_a_path) :]]


# What `verdict` says of a run that ended well.
FINISHED = {None, "", "ok", "complete", "completed", "finished", "done"}


def is_number(value: object) -> TypeGuard[float]:
    """Tells a finite number from everything else."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
