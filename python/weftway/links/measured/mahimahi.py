"""Mahimahi traces: each line a time in ms at which 1500 bytes may leave."""

import re
from pathlib import Path

from weftway._native import ScenarioError

from .reading import Reading

BITS = 1500 * 8


LATEST_MS = 2**32 - 1
"""Latest time that the simulator reads."""

IDLE_MS = 60_000
"""A trace that begins with a longer pause than this, and than all that follows, counts from something else than its
own beginning."""


def is_trace(text: str) -> bool:
    """Returns whether a text's first lines are whole numbers."""
    lines = [line.strip() for line in text.split("\n", 3)[:2]]
    return any(lines) and all(line.isdigit() for line in lines if line)


def reads(file: Path, text: str) -> Reading:
    """The trace, of the direction that the file's name says: `up`, or else `down`."""
    if not text.isascii():
        raise ScenarioError(f"{file}: a Mahimahi trace in an encoding that nothing else reads; save it as plain text")
    lines = [line.strip() for line in text.removesuffix("\n").split("\n")]
    last = -1
    for number, line in enumerate(lines, 1):
        if reason := _mistake(line, last):
            raise ScenarioError(f"{file}: line {number}{reason}, as a Mahimahi trace has them")
        last = int(line)
    if last <= 0:
        raise ScenarioError(f"{file}: a Mahimahi trace that ends at 0 ms has no rate")
    first = int(lines[0])
    # A trace of one time has it as its period.
    if first > IDLE_MS and 0 < last - first < first:
        raise ScenarioError(
            f"{file}: nothing may leave in the first {_long(first)} of this trace: times since boot? A Mahimahi trace "
            f"counts from its own beginning: awk 'NR == 1 {{ first = $1 }} {{ print $1 - first }}' {file.name}"
        )
    return Reading(file, "Mahimahi trace", traces={direction(file) or "down": len(lines) * BITS / last / 1e3})


def _mistake(line: str, before: int) -> str:
    """Mistake in a line, in words; empty if there is none."""
    if not line:
        return " is blank; delete it: a line is a time in milliseconds"
    if not line.isdigit():
        return f": `{line[:40]}` is no whole number of milliseconds"
    if len(line) > 20 or int(line) > LATEST_MS:
        return f": `{line[:40]}` is later than 49 days: times count from the beginning of the trace"
    return f": `{line}` is less than the time before it" if int(line) < before else ""


def _long(ms: int) -> str:
    """A time in the unit that a person would use.

    >>> _long(259_200_001), _long(90_000)
    ('3 days', '90 s')
    """
    for unit, length in (("days", 86_400_000), ("hours", 3_600_000)):
        if ms >= 2 * length:
            return f"{ms // length} {unit}"
    return f"{ms // 1000} s"


DIRECTIONS = {"up": "up", "uplink": "up", "upload": "up", "down": "down", "downlink": "down", "download": "down"}


def direction(file: Path) -> str | None:
    """The direction that a file's name says: as a part between dots, or else as a word.

    >>> direction(Path("Verizon-LTE.up")), direction(Path("lte-uplink.txt")), direction(Path("upper.down"))
    ('up', 'up', 'down')
    >>> direction(Path("up-town.down.csv")), direction(Path("commute.csv")), direction(Path("up-and-down.csv"))
    ('down', None, None)
    """
    name = file.name.lower()
    for parts in (name.split("."), re.split(r"[^a-z0-9]+", name)):
        named = {DIRECTIONS[part] for part in parts if part in DIRECTIONS}
        if len(named) == 1:
            return named.pop()
    return None
