"""Names a rule in Python that does not answer. It looks from a thread of its own, and costs the rule nothing."""

import sys
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

from weftway.runs.specs import SchedulerSpec

PATIENCE_S = 5.0
"""A question that takes longer is told. A rule answers in microseconds."""

LOOKS = 5
"""Number of looks within `PATIENCE_S`."""

METHODS = ("__init__", "select", "observe", "wake", "explain")
"""Methods that the simulator calls."""


@contextmanager
def watched(schedulers: Iterable[SchedulerSpec]) -> Iterator[None]:
    """While the block runs on this thread, tells once of a class in Python of which a call takes over `PATIENCE_S`."""
    codes: dict[CodeType, list[str]] = {}
    for scheduler in dict.fromkeys(schedulers):
        for method in METHODS if scheduler.rule else ():
            if code := getattr(getattr(scheduler.rule, method, None), "__code__", None):
                codes.setdefault(code, []).append(f"`{scheduler.name}`")
    done = threading.Event()
    if codes:
        threading.Thread(target=_look, args=(codes, threading.get_ident(), done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _look(codes: dict[CodeType, list[str]], thread: int, done: threading.Event) -> None:
    last: FrameType | None = None
    same = 0
    while not done.wait(PATIENCE_S / LOOKS):
        # The frame of the call is kept, so that the next call cannot have its place in memory.
        now = _call(sys._current_frames().get(thread), codes)
        same = same + 1 if now is not None and now is last else 0
        last = now
        if now is not None and same == LOOKS:
            place = f"{now.f_code.co_filename}:{now.f_lineno}, in {now.f_code.co_name}"
            names = codes[now.f_code]
            message = f"scheduler {' or '.join(names)} has not answered for {PATIENCE_S:g} s: {place}; Ctrl-C ends it"
            print(f"weft: {message}", file=sys.stderr, flush=True)
            codes = {code: others for code, others in codes.items() if others != names}


def _call(frame: FrameType | None, codes: Collection[CodeType]) -> FrameType | None:
    """The outermost call of the rule on a stack."""
    outermost = None
    while frame is not None:
        if frame.f_code in codes:
            outermost = frame
        frame = frame.f_back
    return outermost
