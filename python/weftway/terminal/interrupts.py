"""Interrupts that wait until a step is done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def put_off() -> Iterator[None]:
    """An interrupt is obeyed afterwards: what is being written is written and counted, and a lock is given back."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(signal.SIGINT, came[0])


def break_waits_off() -> None:
    """Lets Ctrl-C from now on end what waits for the other end of a pipe: Polars has the system go on waiting."""
    signal.siginterrupt(signal.SIGINT, True)
