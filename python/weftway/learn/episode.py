"""An episode of an environment as text: what `render()` gives."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from weftway.report import one_run
from weftway.state import State
from weftway.terminal.console import PlainConsole
from weftway.terminal.listing import plain_table

WIDTH = 120
"""Columns of the text: a notebook and a log have no terminal to ask."""

NOW = ("srtt_ms", "cwnd", "bytes_in_flight", "delivery_rate_mbps", "bytes_acked", "packets_lost")
"""What is told of each path while the episode goes on."""


@dataclass
class Progress:
    """What the agent has done in an episode so far."""

    steps: int = 0
    gained: float = 0.0
    row: dict[str, Any] | None = None
    """The episode's row, when it is over."""

    def add(self, reward: float) -> None:
        """One step more."""
        self.steps += 1
        self.gained += reward


def report(progress: Progress, drawn: dict[str, Any], state: State) -> str:
    """The figures of an episode that is over, in the tables of `weft run`; of one under way, where it stands."""
    row = progress.row
    tables = one_run.tables(row) if row is not None else [_standing(progress, drawn, state), _paths(state)]
    screen = PlainConsole(file=io.StringIO(), width=WIDTH, highlight=False, color_system=None)
    for table in tables:
        screen.print(table, "")
    text: str = screen.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


def _standing(progress: Progress, drawn: dict[str, Any], state: State) -> Table:
    table = plain_table("The episode so far", show_header=False)
    table.add_column(no_wrap=True, min_width=22)
    table.add_column()
    told = {**drawn, "steps": progress.steps, "return": progress.gained}
    told |= {name: float(state[name][0]) for name in ("now_ms", "una", "unsent", "credit")}
    for name, value in told.items():
        table.add_row(name, one_run.plain(value))
    return table


def _paths(state: State) -> Table:
    paths = state["paths"][0]
    table = plain_table("Each path")
    table.add_column("", no_wrap=True, min_width=22)
    for number in range(len(paths)):
        table.add_column(str(number), justify="right", no_wrap=True)
    for name in NOW:
        values = np.where(paths["is_up"] > 0, paths[name], np.nan)
        table.add_row(name, *(one_run.plain(None if np.isnan(one) else float(one)) for one in values))
    return table
