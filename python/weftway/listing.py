"""The tables of `weft list`; and how every table of the command looks."""

from typing import Any

from rich.table import Table
from rich.text import Text

NOTHING = "–"
"""In place of a number that there is not."""


def plain_table(title: str | None, show_header: bool = True) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        caption_style="dim",
        box=None,
        show_header=show_header,
        pad_edge=False,
    )


def registry(schedulers: list[dict[str, Any]], controllers: list[dict[str, Any]]) -> list[Table]:
    """What can be compared, a line per entry and one per switch."""
    return [_entries("schedulers", schedulers), _entries("congestion controllers", controllers)]


def _entries(title: str, entries: list[dict[str, Any]]) -> Table:
    table = plain_table(title, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for entry in entries:
        table.add_row(f"  {entry['name']}", entry["summary"])
        if "provenance" in entry:
            inputs = ", ".join(entry["inputs"]) or "nothing it measures"
            facts = f"{entry['provenance']}; for {entry['goal']}, {entry['application']}; by {inputs}"
            table.add_row("", Text(facts, style="dim italic"))
        for preset in entry.get("presets", []):
            table.add_row("", Text(f"{preset['name']} = :{preset['switches']}  {preset['doc']}", style="dim"))
        for param in entry["params"]:
            switch = f":{param['name']}={param['default']}"
            table.add_row("", Text(f"{switch}  {param['values']}", style="dim"))
    return table


def files(title: str, found: list[dict[str, Any]]) -> Table:
    """Scenario files with their titles."""
    table = plain_table(title, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for one in found:
        table.add_row(f"  {one['name']}", one["summary"])
    return table
