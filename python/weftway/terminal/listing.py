"""The tables of `weft list`; and how every table of the command looks."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

NOTHING = "–"
"""In place of a number that there is not."""


BARS = "▁▂▃▄▅▆▇█"


def bars(values: Iterable[float], most: float) -> str:
    """A bar for each value, the highest for `most`."""
    return "".join(BARS[min(len(BARS) - 1, int(len(BARS) * value / most))] for value in values)


MINUTE = 60
"""So many rates are kept of each link, one for each second."""

MINUTE_WIDTH = 30
"""How wide the last minute is drawn."""


def sparklines(minutes: list[list[float]]) -> list[str]:
    """The last minute of each link in bars, all of one scale, the latest on the right.

    Each bar is the mean of as many seconds as it stands for.
    """
    means = [_means(rates, MINUTE // MINUTE_WIDTH) for rates in minutes]
    most = max((mean for some in means for mean in some), default=0.0) or 1.0
    return [bars(some, most) for some in means]


def _means(rates: list[float], seconds: int) -> list[float]:
    groups = [rates[max(0, end - seconds) : end] for end in range(len(rates), 0, -seconds)]
    return [sum(group) / len(group) for group in reversed(groups)]


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


HINT = "`weft list schedulers` has a line for each, `weft list ecf` all about one."


def overview(found: list[dict[str, Any]]) -> Table:
    """Everything by name, a row per kind; backends with what this machine lacks."""
    table = plain_table(None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for kind in dict.fromkeys(one["kind"] for one in found):
        some = [one for one in found if one["kind"] == kind]
        table.add_row(Text(f"{kind}s ({len(some)})", style="bold"), "\n".join(_named(kind, some)))
    return table


def _named(kind: str, some: list[dict[str, Any]]) -> list[str]:
    if kind == "backend":
        return [f"{one['name']}: {one['summary']}" for one in some]
    if kind == "experiment":
        return _by_folder(some)
    short = kind in ("scenario", "distribution", "sweep")
    return [", ".join(Path(one["name"]).stem if short else one["name"] for one in some)]


def _by_folder(some: list[dict[str, Any]]) -> list[str]:
    """The files of each folder, which is a paper, in a line."""
    folders: dict[str, list[str]] = {}
    for one in some:
        file = Path(one["name"])
        folders.setdefault(file.parent.name, []).append(file.stem)
    return [f"{folder}: {', '.join(files)}" for folder, files in folders.items()]


def lines(title: str, found: list[dict[str, Any]]) -> Table:
    """A kind, a line each."""
    table = plain_table(title, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for one in found:
        table.add_row(f"  {one['name']}", one["summary"])
    return table


FACTS = ("aliases", "version", "reference", "provenance", "goal", "application", "inputs", "needs", "arity")
"""What is told of an entry of a registry besides its name and summary."""


def entry(one: dict[str, Any]) -> Table:
    """All about one entry: its switches, each with its default and what it does."""
    table = plain_table(f"{one['name']} ({one['kind']})", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("", one["summary"])
    if one.get("description"):
        table.add_row("", one["description"])
    for fact in FACTS:
        if value := one.get(fact):
            table.add_row(fact, ", ".join(value) if isinstance(value, list) else str(value))
    if drive := one.get("drive"):
        table.add_row("drive", drive)
    for name, value in one.get("paths", {}).items():
        table.add_row(f"path.{name}", value)
    for fact in ("workload", "next"):
        if value := one.get(fact):
            table.add_row(fact, value)
    for param in one.get("params", []):
        table.add_row(f":{param['name']}={param['default']}", f"{param['doc']} ({param['values']})")
    for preset in one.get("presets", []):
        table.add_row(preset["name"], f"{preset['doc']}: {one['name']}:{preset['switches']}")
    return table


def printable(text: str, kept: str = "") -> str:
    """A text of a file or its name, without characters that a terminal would obey, but those `kept`."""
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode() for char in text
    )
