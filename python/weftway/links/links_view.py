"""View of emulated links while commands run over them, in the lowest rows of the terminal."""

import time
from collections import deque
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from rich.console import Console

from weftway.terminal.fixed_rows import FixedRows
from weftway.terminal.listing import MINUTE, sparklines
from weftway.terminal.progress import PATIENCE_S, REDRAW_S
from weftway.terminal.table import Table, numbers, plain, texts

Moment = dict[str, Any]
"""State of all links at a moment, as `_native.Emulation.links` tells it."""

SECOND = 1.0

AROUND = 2
"""Rows of the table that are of no link."""


class Minute:
    """Rates and queues of the last minute, a second each."""

    def __init__(self) -> None:
        self._before: Moment | None = None
        self._rates: dict[str, deque[float]] = {}
        self._queues: dict[str, int] = {}
        self.links: list[dict[str, Any]] = []
        """Each with `mbps` of the last second, the most that waited in it, and `minute`."""

    def add(self, moment: Moment) -> bool:
        """Takes how the links stand now: whether a second is over, and `links` are new."""
        for link in moment["links"]:
            self._queues[link["link"]] = max(self._queues.get(link["link"], 0), link["waiting"])
        if self._before is None or not self._before["links"]:
            self._before = moment
            return False
        passed = moment["at_s"] - self._before["at_s"]
        if passed < SECOND:
            return False
        self.links = [
            self._link(link, before, passed)
            for link, before in zip(moment["links"], self._before["links"], strict=True)
        ]
        self._before, self._queues = moment, {}
        return True

    def _link(self, link: dict[str, Any], before: dict[str, Any], passed: float) -> dict[str, Any]:
        name = link["link"]
        rates = self._rates.setdefault(name, deque(maxlen=MINUTE))
        rates.append(8e-6 * (link["delivered_bytes"] - before["delivered_bytes"]) / passed)
        return {**link, "mbps": rates[-1], "most_waiting": self._queues[name], "minute": list(rates)}


def table(links: list[dict[str, Any]], most: int) -> Table:
    """A line for each link, at most so many."""
    rows = []
    for link, minute in zip(links[:most], sparklines([link["minute"] for link in links]), strict=False):
        counts = (str(link[name]) for name in ("most_waiting", "dropped", "lost"))
        rows.append([link["link"], f"{link['mbps']:.1f}", *counts, minute])
    columns = [*texts("link"), *numbers("Mbit/s", "waiting packets", "dropped", "lost"), *texts("last minute")]
    return plain(None, columns, rows)


class LinksView:
    """Appears after two seconds, and goes away at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._minute = Minute()
        self._rows = FixedRows(console.file)
        self._opened = ExitStack()
        self._start = self._drawn = time.monotonic()

    def tell(self, moment: Moment) -> None:
        """Called ten times a second."""
        self._minute.add(moment)
        now = time.monotonic()
        most = self._rows.room() - AROUND
        if now - self._start < PATIENCE_S or now - self._drawn < REDRAW_S or most < 1 or not self._minute.links:
            return
        self._drawn = now
        with self._console.capture() as text:
            self._console.print(table(self._minute.links, most), soft_wrap=False)
        rule = "─" * self._console.width
        self._rows.show([rule, *text.get().splitlines()])

    def __enter__(self) -> Self:
        self._opened.enter_context(self._rows)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()
