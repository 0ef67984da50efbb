"""An episode of an environment as text: what `render()` gives."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from weftway.report import one_run
from weftway.state import State
from weftway.terminal.console import PlainConsole
from weftway.terminal.table import Column, Table, numbers, pairs, plain

WIDTH = 120
"""Columns of the text: a notebook and a log have no terminal to ask."""

NOW = ("srtt_ms", "cwnd", "bytes_in_flight", "delivery_rate_mbps", "bytes_acked", "packets_lost")
"""Columns of each path while the episode goes on."""


@dataclass
class Progress:
    """Steps and rewards of the agent in an episode so far."""

    steps: int = 0
    gained: float = 0.0
    row: dict[str, Any] | None = None
    """The episode's row, when it is over."""

    def add(self, reward: float) -> None:
        """Counts a step and its reward."""
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
    so_far = {**drawn, "steps": progress.steps, "return": progress.gained}
    so_far |= {name: float(state[name][0]) for name in ("now_ms", "una", "unsent", "credit")}
    return pairs("The episode so far", [(name, one_run.plain(value)) for name, value in so_far.items()], one_run.WIDTH)


def _paths(state: State) -> Table:
    paths = state["paths"][0]
    rows = []
    for name in NOW:
        values = np.where(paths["is_up"] > 0, paths[name], np.nan)
        rows.append([name, *(one_run.plain(None if np.isnan(value) else float(value)) for value in values)])
    return plain("Each path", [Column(least=one_run.WIDTH), *numbers(*map(str, range(len(paths))))], rows)
