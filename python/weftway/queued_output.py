"""Output that nobody waits for: threads write what a program prints while it carries traffic.

A terminal that was stopped with Ctrl-S, a pipe that nobody reads and a full disk hold up these threads alone. The
descriptors stay as they are: O_NONBLOCK would be set for the shell and for all programs that have the same terminal.
"""

import io
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from typing import TextIO

MOST_BYTES = 1 << 16
"""Bytes that may wait to be written beside traffic, as many as a pipe of Linux holds. More are dropped."""

SLICE = 4096
"""Bytes that are written at once: a pipe takes them whole (PIPE_BUF), and each slice shows that somebody reads."""

PATIENCE_S = 3.0
"""Longest wait, when a program ends, for a reader that takes nothing."""

LONGEST_END_S = 30.0
"""Longest wait for a reader that takes a little now and then."""

LOOK_S = 0.01
"""Time between two looks at what a reader has taken."""


class QueuedOutput(io.TextIOBase):
    """A text stream whose writer does not wait: a thread hands on to the stream `below` what was written."""

    def __init__(self, below: TextIO) -> None:
        self.below = below
        self.error: OSError | None = None
        """Error of the last write to the stream below, if it failed."""
        self._file = below.fileno()
        self._parts: SimpleQueue[bytes] = SimpleQueue()
        # Each number is changed by one thread alone, so that no lock can be left taken by an interrupt.
        self._put = self._not_put = 0
        self._taken = self._not_taken = 0
        self._told = 0
        self._is_beside_traffic = False
        self._gave_up_at: int | None = None
        below.flush()
        threading.Thread(target=self._work, daemon=True, name="output").start()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.below.encoding

    @property
    def errors(self) -> str:  # type: ignore[override]
        given = self.below.errors
        return "backslashreplace" if given in (None, "strict") else given

    def isatty(self) -> bool:
        return self.below.isatty()

    def fileno(self) -> int:
        return self._file

    def writable(self) -> bool:
        return True

    @property
    def is_free(self) -> bool:
        """Returns true while nothing waits to be written and the reader has not gone."""
        return self._put == self._taken and not isinstance(self.error, BrokenPipeError)

    @property
    def dropped(self) -> int:
        """Number of lines that were dropped."""
        return self._not_put + self._not_taken

    def newly_dropped(self) -> int:
        """Number of lines that were dropped since the last call."""
        count = self.dropped - self._told
        self._told += count
        return count

    def write(self, text: str) -> int:
        """Queues `text`, or drops it where too much waits already; without traffic the reader is waited for first."""
        part = text.encode(self.encoding, self.errors)
        if isinstance(self.error, BrokenPipeError) or not self._has_room():
            self._not_put += _lines(part)
        elif part:
            self._put += len(part)
            self._parts.put(part)
        return len(text)

    def write_if_free(self, line: str) -> bool:
        """Queues a line if no other waits, and drops it otherwise; returns true if it was queued."""
        if is_free := self.is_free:
            self.write(line)
        else:
            self._not_put += 1
        return is_free

    @contextmanager
    def beside_traffic(self) -> Iterator[None]:
        """Inside of this `write` waits for no reader."""
        self._is_beside_traffic = True
        try:
            yield
        finally:
            self._is_beside_traffic = False

    def finish(self, begun: float) -> None:
        """Waits for the reader from `begun` on. OSError: what was written last could not be handed on."""
        if self._wait(0, begun) and self.error:
            raise OSError(self.error.errno, self.error.strerror)

    def _has_room(self) -> bool:
        if self._put - self._taken < MOST_BYTES:
            return True
        if self._is_beside_traffic or self._gave_up_at == self._taken:
            return False
        return self._wait(MOST_BYTES - 1, time.monotonic())

    def _wait(self, most: int, begun: float) -> bool:
        """Waits until at most `most` bytes are left, as long as a reader takes some; returns true if they are."""
        taken, since = self._taken, begun
        while self._put - self._taken > most:
            now = time.monotonic()
            if self._taken != taken:
                taken, since = self._taken, now
            if now >= min(since + PATIENCE_S, begun + LONGEST_END_S):
                self._gave_up_at = taken
                return False
            time.sleep(LOOK_S)
        return True

    def _work(self) -> None:
        while True:
            part = self._parts.get()
            rest = memoryview(part)
            try:
                while rest:
                    count = self._hand_on(rest[:SLICE])
                    # What is taken is counted last: a thread that waits for it looks at the error next.
                    self.error = None
                    self._taken += count
                    rest = rest[count:]
            except OSError as error:
                self._not_taken += _lines(part)
                self.error = error
                self._taken += len(rest)

    def _hand_on(self, piece: memoryview) -> int:
        try:
            return os.write(self._file, piece)
        except BlockingIOError:
            # Another program with this terminal or pipe has set O_NONBLOCK.
            select.select([], [self._file], [])
            return 0


def _lines(part: bytes) -> int:
    return part.count(b"\n") or bool(part)


def _streams() -> dict[str, QueuedOutput]:
    """Standard output and error, as far as threads write them."""
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    return {name: stream for name, stream in streams.items() if isinstance(stream, QueuedOutput)}


def dropped_lines() -> int:
    """Number of lines of standard output and error that were dropped."""
    return sum(stream.dropped for stream in _streams().values())


@contextmanager
def beside_traffic() -> Iterator[None]:
    """Threads write standard output and error from now on. In here nothing waits for them, or fails because of them."""
    for name in ("stdout", "stderr"):
        # What is closed, or is no file, holds up nobody.
        with suppress(AttributeError, OSError, ValueError):
            setattr(sys, name, _queued(getattr(sys, name)))
    with ExitStack() as entered:
        for stream in _streams().values():
            entered.enter_context(stream.beside_traffic())
        yield


def _queued(stream: TextIO) -> TextIO:
    return stream if isinstance(stream, QueuedOutput) else QueuedOutput(stream)  # type: ignore[return-value]


def finish_output() -> None:
    """Gives readers time for the rest. OSError: standard output could not be written."""
    streams, begun = _streams(), time.monotonic()
    for name, stream in streams.items():
        setattr(sys, name, stream.below)
    with suppress(OSError):
        if errors := streams.get("stderr"):
            errors.finish(begun)
    if results := streams.get("stdout"):
        results.finish(begun)
