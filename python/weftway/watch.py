"""Names a rule in Python that does not answer. It looks from a thread of its own, and costs the rule nothing."""

import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

PATIENCE_S = 5.0
"""A question that takes longer is told. A rule answers in microseconds."""

LOOKS = 5
"""How often within `PATIENCE_S` it is looked."""

METHODS = ("__init__", "select", "observe", "wake", "explain")
"""What the simulator calls."""


@contextmanager
def watched(name: str, rule: type) -> Iterator[None]:
    """While the block runs on this thread, tells once of a call of the rule that lasts longer than `PATIENCE_S`."""
    codes = {code for method in METHODS if (code := getattr(getattr(rule, method, None), "__code__", None))}
    done = threading.Event()
    look = threading.Thread(target=_look, args=(name, codes, threading.get_ident(), done), daemon=True)
    look.start()
    try:
        yield
    finally:
        done.set()


def _look(name: str, codes: Collection[CodeType], thread: int, done: threading.Event) -> None:
    last: FrameType | None = None
    same = 0
    while not done.wait(PATIENCE_S / LOOKS):
        # The frame of the call is kept, so that the next call cannot have its place in memory.
        now = _call(sys._current_frames().get(thread), codes)
        same = same + 1 if now is not None and now is last else 0
        last = now
        if now is not None and same >= LOOKS:
            place = f"{now.f_code.co_filename}:{now.f_lineno}, in {now.f_code.co_name}"
            told = f"weft: scheduler `{name}` has not answered for {PATIENCE_S:g} s: {place}; Ctrl-C ends it"
            print(told, file=sys.stderr, flush=True)
            return


def _call(frame: FrameType | None, codes: Collection[CodeType]) -> FrameType | None:
    """The outermost call of the rule on a stack."""
    found = None
    while frame is not None:
        if frame.f_code in codes:
            found = frame
        frame = frame.f_back
    return found
