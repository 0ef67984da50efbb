"""The tables of `weft run`: one run, its columns in the groups of the glossary, and its paths side by side."""

from typing import Any

from rich.table import Table

from weftway.run.backends import Row
from weftway.terminal.listing import NOTHING, plain_table

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
"""The first column of each group, and the group's title in the glossary."""

PATH = "path."


def tables(row: Row) -> list[Table]:
    """A table per group; groups without a value are left out."""
    groups: dict[str, Row] = {}
    title = ""
    for name, value in row.items():
        if name.startswith(PATH):
            continue
        title = GROUPS.get(name, title)
        groups.setdefault(title, {})[name] = value
    told = {title: values for title, values in groups.items() if any(one is not None for one in values.values())}
    return [*(_group(title, values) for title, values in told.items()), *_paths(row)]


def _group(title: str, values: Row) -> Table:
    table = plain_table(title, show_header=False)
    table.add_column(no_wrap=True, min_width=22)
    table.add_column(overflow="fold")
    for name, value in values.items():
        if value is not None:
            table.add_row(name, plain(value))
    return table


def _paths(row: Row) -> list[Table]:
    """What each path did, a column per path."""
    columns: dict[str, Row] = {}
    for name, value in row.items():
        if name.startswith(PATH):
            path, _, column = name.removeprefix(PATH).rpartition(".")
            columns.setdefault(column, {})[path] = value
    if not columns:
        return []
    table = plain_table("Each path")
    table.add_column("", no_wrap=True, min_width=22)
    paths = list(dict.fromkeys(path for values in columns.values() for path in values))
    for path in paths:
        table.add_column(path, justify="right", no_wrap=True)
    for column, values in columns.items():
        table.add_row(column, *(plain(values.get(path)) for path in paths))
    return [table]


def plain(value: Any) -> str:
    """A value as a person reads it: six digits."""
    if value is None:
        return NOTHING
    return f"{value:.6g}" if isinstance(value, float) else str(value)
