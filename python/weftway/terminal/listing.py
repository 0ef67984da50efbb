"""The tables of `weft list`; and how every table of the command looks."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .table import Table, Value, pairs

BARS = "▁▂▃▄▅▆▇█"


def bars(values: Iterable[float], most: float) -> str:
    """A bar for each value, the highest for `most`."""
    return "".join(BARS[min(len(BARS) - 1, int(len(BARS) * value / most))] for value in values)


MINUTE = 60
"""Rates that are kept of each link, one for each second."""

MINUTE_WIDTH = 30
"""Width of the last minute in characters."""


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


HINT = "`weft list schedulers` has a line for each, `weft list ecf` all about one."


def overview(every: list[dict[str, Any]]) -> Table:
    """Everything by name, a row per kind; backends with what this machine lacks."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for record in every:
        kinds.setdefault(record["kind"], []).append(record)
    rows = [
        (Value(f"{kind}s ({len(records)})", mark="strong"), "\n".join(_named(kind, records)))
        for kind, records in kinds.items()
    ]
    return pairs(None, rows)


def _named(kind: str, some: list[dict[str, Any]]) -> list[str]:
    if kind == "backend":
        return [f"{record['name']}: {record['summary']}" for record in some]
    if kind == "experiment":
        return [_by_folder(some)]
    short = kind in ("scenario", "distribution", "sweep")
    return [", ".join(Path(record["name"]).stem if short else record["name"] for record in some)]


def _by_folder(some: list[dict[str, Any]]) -> str:
    """Folders, each of which is a paper, with the number of their files."""
    folders = Counter(Path(record["name"]).parent.name for record in some)
    return ", ".join(f"{folder} ({count})" for folder, count in folders.items())


def lines(title: str, records: list[dict[str, Any]]) -> Table:
    """A kind, a line each."""
    return pairs(title, [(f"  {record['name']}", record["summary"]) for record in records])


def gated(records: list[dict[str, Any]]) -> Table:
    """Lists the schedulers that a gate takes, then those that it refuses, with the reason."""
    taken = [record for record in records if record["runs"]]
    rows = [(f"  {r['name']}", "runs" if r["runs"] == r["name"] else f"runs as {r['runs']}") for r in taken]
    rows += [(f"  {record['name']}", record["refused"]) for record in records if record["refused"]]
    return pairs(f"a gate in noq takes {len(taken)} of {len(records)}", rows)


FACTS = ("aliases", "version", "reference", "provenance", "goal", "application", "inputs", "needs", "arity")
"""Facts that are listed of an entry of a registry besides its name and summary."""


def entry(record: dict[str, Any]) -> Table:
    """All about one entry: its switches, each with its default and what it does."""
    rows = [("", record["summary"]), *([("", record["description"])] if record.get("description") else [])]
    rows += [(fact, ", ".join(v) if isinstance(v, list) else str(v)) for fact in FACTS if (v := record.get(fact))]
    rows += list(record.get("card", {}).items())
    rows += [("drive", record["drive"])] if record.get("drive") else []
    rows += [(f"path.{name}", value) for name, value in record.get("paths", {}).items()]
    rows += [(fact, record[fact]) for fact in ("workload", "next") if record.get(fact)]
    rows += [(f":{p['name']}={p['default']}", f"{p['doc']} ({p['values']})") for p in record.get("params", [])]
    rows += [(p["name"], f"{p['doc']}: {record['name']}:{p['switches']}") for p in record.get("presets", [])]
    return pairs(f"{record['name']} ({record['kind']})", rows)


def printable(text: str, kept: str = "") -> str:
    """A text of a file or its name, without characters that a terminal would obey, but those `kept`."""
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode() for char in text
    )
