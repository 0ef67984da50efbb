"""Which packet took which path, and where two schedulers decided differently: read from golden traces."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from weftway.runs.backends import Skipped, sim
from weftway.runs.job import Job


@dataclass(frozen=True)
class Sent:
    """A packet that was put on its link."""

    path: int
    first: int
    size: int


@dataclass(frozen=True)
class Trace:
    """Packets of one run: sent, arrived, and the paths chosen for them."""

    sent: list[Sent] = field(default_factory=list)
    """In the order of sending."""
    arrived: list[int] = field(default_factory=list)
    """First bytes, in the order of arrival."""
    chosen: dict[int, str] = field(default_factory=dict)
    """The last answer for the packet at hand, by its first byte."""
    waits: int = 0


SENT, ARRIVED, ASKED = ("+", "~", "d", "|"), "-", "?"


def record(job: Job) -> Trace | None:
    """The trace of a run; `None` where its backend cannot run it."""
    lines = _lines(job)
    return None if lines is None else read(lines)


@lru_cache(maxsize=4)
def decisions(job: Job) -> dict[int, str] | None:
    """The last answer for each packet, by its first byte. Pairs of schedulers are looked at one after the other."""
    lines = _lines(job)
    return None if lines is None else read([line for line in lines if f" {ASKED} " in line]).chosen


def _lines(job: Job) -> list[str] | None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "events"
        if isinstance(sim.record(job, file, None), Skipped):
            return None
        return file.read_text().splitlines()


def read(lines: list[str]) -> Trace:
    """The events that count here; the format is docs/reference/trace-format.md."""
    trace, waits = Trace(), 0
    for line in lines:
        if line.startswith("#"):
            continue
        words = line.split()
        symbol, path = words[1], words[2]
        if symbol in SENT:
            trace.sent.append(Sent(int(path), int(words[4]), int(words[5])))
        elif symbol == ARRIVED:
            trace.arrived.append(int(words[4]))
        elif symbol == ASKED and words[3] == "wait":
            waits += 1
        elif symbol == ASKED and words[4] != ".":
            trace.chosen[int(words[4])] = f"{words[3]} {path}"
    return Trace(trace.sent, trace.arrived, trace.chosen, waits)


def schedule(trace: Trace, names: list[str], after: int) -> dict[str, list[int]]:
    """The numbers of the packets that each path carries, from 1, in the order of sending; each packet once a path."""
    numbers = numbered(trace, after)
    carried: dict[str, list[int]] = {name: [] for name in names}
    for sent in trace.sent:
        number = numbers.get(sent.first)
        if number is not None and number not in carried[names[sent.path]]:
            carried[names[sent.path]].append(number)
    return carried


def arrivals(trace: Trace, after: int) -> list[int]:
    """The numbers of the packets in the order of their first arrival."""
    numbers = numbered(trace, after)
    return list(dict.fromkeys(numbers[first] for first in trace.arrived if first in numbers))


def numbered(trace: Trace, after: int) -> dict[int, int]:
    """The number of each packet by its first byte, without the first `after` packets of the data."""
    order = sorted({sent.first for sent in trace.sent})
    return {first: number for number, first in enumerate(order[after:], start=1)}


def differing(ours: dict[int, str], theirs: dict[int, str]) -> tuple[int, int, int | None]:
    """Counts packets that both decided on: those that went elsewhere, and all; and the number of the first that did.

    After the first, the two are in different states: later differences say less than where they begin.
    """
    common = sorted(ours.keys() & theirs.keys())
    apart = [number for number, first in enumerate(common, start=1) if ours[first] != theirs[first]]
    return len(apart), len(common), apart[0] if apart else None
