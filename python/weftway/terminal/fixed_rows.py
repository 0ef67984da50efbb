"""The lowest rows of a terminal, above which other programs write on."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import IO, Any, Self

SAVE, RESTORE = "\x1b7", "\x1b8"
"""Control sequences that save the cursor and restore it."""

ROW_DOWN = "\x1bD"
"""The cursor stays in its column; below the last row the screen scrolls."""

LEFT_FOR_OTHERS = 6
"""Rows left for others, at least."""

ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class FixedRows:
    """Shows lines in the lowest rows. Only what is above them scrolls (DECSTBM), and the cursor is where it was.

    A program that fills the screen does not know of them.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._size: os.terminal_size | None = None
        """Size of the terminal, when the rows were set apart."""
        self._count = 0
        self._handlers: dict[int, Any] = {}

    def room(self) -> int:
        """Number of rows that there may be: at most half of the terminal."""
        rows = self._terminal().lines
        return min(rows // 2, rows - LEFT_FOR_OTHERS)

    def show(self, lines: list[str]) -> None:
        """Writes the lines, of which none is wider than the terminal."""
        size = self._terminal()
        text = ""
        if (size, len(lines)) != (self._size, self._count):
            text = self._given_back() + _set_apart(size.lines, len(lines))
            self._size, self._count = size, len(lines)
        top = size.lines - len(lines) + 1
        placed = [f"\x1b[{top + at};1H\x1b[2K{line}" for at, line in enumerate(lines)]
        self._write(f"{text}{SAVE}{''.join(placed)}{RESTORE}")

    def close(self) -> None:
        """Clears the rows and gives them back."""
        self._write(self._given_back())
        self._size, self._count = None, 0

    def _given_back(self) -> str:
        if self._size is None:
            return ""
        top = min(self._size.lines, self._terminal().lines) - self._count + 1
        return f"{SAVE}\x1b[r\x1b[{max(top, 1)};1H\x1b[J{RESTORE}"

    def _terminal(self) -> os.terminal_size:
        return os.get_terminal_size(self._stream.fileno())

    def _write(self, text: str) -> None:
        """Writes at once: other programs write between two calls."""
        self._stream.write(text)
        self._stream.flush()

    def __enter__(self) -> Self:
        """Gives the rows back before the program ends: a shell after it would write above them."""
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.signal(number, self._end) for number in ENDINGS}
        return self

    def _end(self, number: int, _: FrameType | None) -> None:
        self.close()
        signal.signal(number, self._handlers[number])
        os.kill(os.getpid(), number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.close()


def _set_apart(rows: int, count: int) -> str:
    """The cursor and what is above it move up where the rows are not free."""
    return f"{ROW_DOWN * count}\x1b[{count}A{SAVE}\x1b[1;{rows - count}r{RESTORE}"
