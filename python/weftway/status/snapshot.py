"""Once a second, what is known of a running program: its progress, and what each link carried in the last minute."""

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from weftway.listing import NOTHING
from weftway.transfer import Progress, printable, rates

Snapshot = dict[str, Any]

EVERY_S = 1.0
MINUTE = 60
"""So many rates are kept of each link, one for each snapshot."""


class Snapshots:
    """Snapshots of one program."""

    def __init__(self, program: str, dropped_lines: Callable[[], int] = int) -> None:
        """`dropped_lines` tells how many lines that it printed were dropped, as nobody took them."""
        self._program = program
        self._dropped_lines = dropped_lines
        self._due = 0.0
        self._at = 0.0
        self._before: Progress | None = None
        self._notes: list[str] = []
        self._minutes: dict[str, deque[float]] = {}

    def __call__(self, progress: Progress) -> Snapshot | None:
        """Takes the progress in. A snapshot if one is due: a second after the last, or at once if something is told."""
        if progress["note"]:
            self._notes.append(printable(progress["note"]))
        now = time.monotonic()
        if now < self._due:
            return None
        self._due = now + EVERY_S
        carried = rates(self._before, progress, now - self._at)
        self._before, self._at = progress, now
        notes, self._notes = self._notes, []
        paths = [self._path(path, mbps) for path, mbps in zip(progress["paths"], carried, strict=True)]
        told = {key: value for key, value in progress.items() if key not in ("note", "paths")}
        head = {"program": self._program, "pid": os.getpid(), "at": round(time.time(), 3)}
        dropped = self._dropped_lines()
        return {**head, **told, "notes": notes, "dropped_lines": dropped, "paths": paths}

    def _path(self, path: dict[str, Any], mbps: float) -> dict[str, Any]:
        """What is told of a path, with its rate and those of the last minute."""
        minute = self._minutes.setdefault(path["path"], deque(maxlen=MINUTE))
        minute.append(round(mbps, 3))
        return {**path, "mbps": round(mbps, 3), "minute": list(minute)}


def target_name(flow: dict[str, Any]) -> str:
    """Where a connection leads, for people."""
    return "datagrams (UDP)" if flow["target"] == "udp:" else str(flow["target"])


def path_shares(flow: dict[str, Any]) -> str:
    """Which part of a connection's bytes, of both directions, went over each link."""
    carried = {path["path"]: path["sent"] + path["received"] for path in flow["paths"]}
    whole = sum(carried.values())
    return ", ".join(f"{name} {100 * count / whole:.0f} %" for name, count in carried.items()) or NOTHING
