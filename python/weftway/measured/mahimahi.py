"""Mahimahi traces: each line a time in ms at which 1500 bytes may leave."""

from pathlib import Path

from weftway._native import ScenarioError

from .reading import Reading

BITS = 1500 * 8


def is_trace(text: str) -> bool:
    """Whether its first lines are whole numbers."""
    lines = text.split("\n", 3)[:2]
    return bool(lines) and all(line.strip().isdigit() for line in lines if line.strip())


def reads(file: Path, text: str) -> Reading:
    """The trace, of the direction that the file's name says: `up`, or else `down`."""
    last = -1
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for number, line in lines:
        if not line.isdigit() or int(line) < last:
            reason = "is less than the time before it" if line.isdigit() else "is no whole number of milliseconds"
            raise ScenarioError(f"{file}: line {number}: `{line[:40]}` {reason}, as a Mahimahi trace has them")
        last = int(line)
    if last <= 0:
        raise ScenarioError(f"{file}: a Mahimahi trace that ends at 0 ms has no rate")
    return Reading(file, "Mahimahi trace", traces={direction(file): len(lines) * BITS / last / 1e3})


def direction(file: Path) -> str:
    """`up` where a part of the name says so.

    >>> direction(Path("Verizon-LTE.up")), direction(Path("lte-uplink.txt")), direction(Path("upper.down"))
    ('up', 'up', 'down')
    """
    parts = file.name.lower().replace("-", ".").replace("_", ".").split(".")
    return "up" if {"up", "uplink", "upload"} & set(parts) else "down"
