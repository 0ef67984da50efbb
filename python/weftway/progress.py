"""A bar for comparisons that take longer than a glance; on a terminal only."""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_S = 2.0
"""Shorter comparisons show none."""


class Bar:
    """Appears after `PATIENCE_S` and goes away at the end."""

    def __init__(self, console: Console) -> None:
        self._start = time.monotonic()
        self._console = console
        self._shown: Progress | None = None

    def tell(self, done: int, total: int) -> None:
        """`done` of `total` runs are finished."""
        if not self._console.is_terminal:
            return
        if self._shown is None and time.monotonic() - self._start > PATIENCE_S:
            self._shown = _bar(self._console)
            self._shown.start()
        if self._shown:
            self._shown.update(self._shown.task_ids[0], completed=done, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._shown.stop()


def _bar(console: Console) -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    made = Progress(*columns, console=console, transient=True)
    made.add_task("runs")
    return made
