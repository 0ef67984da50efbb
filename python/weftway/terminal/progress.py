"""Progress of a comparison or a recording that takes a while: a bar on a terminal, elsewhere a line now and then."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, RenderableType

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress

PATIENCE_S = 2.0
"""Time before a bar is shown: shorter work shows nothing."""

LINE_S = 10.0
"""Time from one line to the next where there is no terminal: in a log, or a file."""

REDRAW_S = 0.5
"""Time between two redraws of what stands above the bar."""


class Bar:
    """Appears after `PATIENCE_S` and goes away at the end; lines stay."""

    def __init__(
        self,
        console: Console,
        unit: str = "runs",
        done: str = "finished",
        above: Callable[[], RenderableType] | None = None,
    ) -> None:
        """Takes what is counted, what happens to it, and what stands above the bar on a terminal."""
        self.unit, self._verb = unit, done
        self._start = time.monotonic()
        self._console = console
        self._above, self._drawn = above, -REDRAW_S
        self._shown: Progress | None = None
        self._live: Live | None = None
        self._done = self._total = 0
        self._over = threading.Event()
        # Its own thread, since nothing may finish for long.
        self._lines = None if console.is_terminal else threading.Thread(target=self._write_lines, daemon=True)

    def tell(self, done: int, total: int) -> None:
        """`done` of `total` are finished."""
        self._done, self._total = done, total
        if not self._console.is_terminal:
            return
        if self._live is None and time.monotonic() - self._start > PATIENCE_S:
            self._show()
        if self._shown:
            self._shown.update(self._shown.task_ids[0], completed=done, total=total)
            self._redraw()

    def _show(self) -> None:
        from rich.live import Live

        self._shown = _bar(self._console, self.unit)
        self._live = Live(
            self._shown, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def _redraw(self) -> None:
        """Made by the thread that tells: nothing changes meanwhile."""
        if self._above is None or self._live is None or time.monotonic() - self._drawn < REDRAW_S:
            return
        from rich.console import Group

        self._drawn = time.monotonic()
        self._live.update(Group(self._above(), self._shown or ""))

    def _write_lines(self) -> None:
        wait = PATIENCE_S
        while not self._over.wait(wait):
            wait = LINE_S
            if not self._total:  # how much there is to do is not known yet
                continue
            seconds = time.monotonic() - self._start
            try:
                how_far = f"{self._done} of {self._total} {self.unit} {self._verb}"
                self._console.print(f"{how_far} after {seconds:.0f} s")
            except Exception:  # nobody reads them: that is no reason to stop the runs
                return

    def __enter__(self) -> Self:
        if self._lines:
            self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._lines:
            self._lines.join()
        if self._live:
            self._live.stop()


def _bar(console: Console, unit: str) -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    made = Progress(*columns, console=console)
    made.add_task(unit)
    return made
