"""A bar for comparisons that take longer than a glance; on a terminal only."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PATIENCE_S = 2.0
"""Shorter comparisons show none."""


class Bar:
    """Appears after `PATIENCE_S` and goes away at the end."""

    def __init__(self, console: Console) -> None:
        self._start = time.monotonic()
        columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("runs")
        self._wanted = console.is_terminal
        self._shown = False

    def tell(self, done: int, total: int) -> None:
        """`done` of `total` runs are finished."""
        self._progress.update(self._task, completed=done, total=total)
        if self._wanted and time.monotonic() - self._start > PATIENCE_S:
            self._progress.start()
            self._shown, self._wanted = True, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._progress.stop()
