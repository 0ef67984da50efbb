"""The tables of `weft run`: one run, its columns in the groups of the reference, and its paths side by side."""

from typing import Any

from weftway.runs.backends import Row
from weftway.terminal.table import NOTHING, Column, Table, numbers, pairs
from weftway.terminal.table import plain as plain_table

GROUPS = {
    "key": "Which run it was",
    "verdict": "How it ended",
    "aggregation_benefit": "Against the limits",
    "ooo_packets": "Order, memory, retransmissions",
    "decisions": "Decisions",
    "message_p50_ms": "Messages",
    "jain": "Sharing",
    "late": "Kernel rows only",
}
"""The first column of each group, and the group's title in the reference."""

PATH = "path."


def tables(row: Row) -> list[Table]:
    """A table per group, results before the keys of the run; groups without a value are left out."""
    groups: dict[str, Row] = {}
    title = ""
    for name, value in row.items():
        if name.startswith(PATH):
            continue
        title = GROUPS.get(name, title)
        groups.setdefault(title, {})[name] = value
    shown = {
        title: [(name, plain(value)) for name, value in values.items() if value is not None]
        for title, values in groups.items()
    }
    which = GROUPS["key"]
    shown |= {which: shown.pop(which, [])}
    *results, keys = (pairs(title, lines, WIDTH) for title, lines in shown.items() if lines)
    return [*results, *_paths(row), keys]


WIDTH = 22
"""Least characters of the names."""


def _paths(row: Row) -> list[Table]:
    """Results of each path, a column per path."""
    columns: dict[str, Row] = {}
    for name, value in row.items():
        if name.startswith(PATH):
            path, _, column = name.removeprefix(PATH).rpartition(".")
            columns.setdefault(column, {})[path] = value
    if not columns:
        return []
    paths = list(dict.fromkeys(path for values in columns.values() for path in values))
    rows = [[column, *(plain(values.get(path)) for path in paths)] for column, values in columns.items()]
    return [plain_table("Each path", [Column(least=WIDTH), *numbers(*paths)], rows)]


def plain(value: Any) -> str:
    """A value as a person reads it: six digits."""
    if value is None:
        return NOTHING
    return f"{value:.6g}" if isinstance(value, float) else str(value)
