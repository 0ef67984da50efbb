"""Quantities that a measurement can tell of a link."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weftway._native import ScenarioError
from weftway.stats.estimates import median, quantile

from .course import Course

Z95 = 1.96
"""Standard errors on each side of a 95 % interval."""


@dataclass(frozen=True)
class Range:
    """A value, between which ends it lay, and how it was found."""

    value: float
    low: float
    high: float
    why: str

    def scaled(self, factor: float, why: str) -> Range:
        """Converts to another unit or another quantity."""
        return Range(self.value * factor, self.low * factor, self.high * factor, why)


class Undecided(ScenarioError):
    """A file does not tell which of the addresses in it is the user's."""

    def __init__(self, file: Path, why: str, addresses: Sequence[str]) -> None:
        """`addresses`, those that carried most first."""
        self.file, self.addresses = file, list(addresses)
        super().__init__(
            f"{file}: {why}; say which address is on your side of the link, as in LINK.local={self.addresses[0]} "
            f"(it has {', '.join(self.addresses)})"
        )


@dataclass(frozen=True)
class Reading:
    """Quantities that one file tells. `rates` and `traces` have the keys `down` and `up`, seen from the user."""

    file: Path
    kind: str
    rtt_ms: Range | None = None
    """Round-trip time without load."""
    jitter_ms: float | None = None
    """The standard deviation of a round trip without load."""
    loss: Range | None = None
    """The share of packets that is lost in one direction."""
    loss_unknown: str = ""
    """Why the share is not known, although packets were counted."""
    rates: dict[str, Range] = field(default_factory=dict)
    """Mbit/s, IP headers included."""
    rate_unknown: str = ""
    """Why no rate is known, although packets were counted."""
    traces: dict[str, float] = field(default_factory=dict)
    """The direction for which this file is a Mahimahi trace, and its mean rate in Mbit/s."""
    rtt_at_most_ms: float | None = None
    """The least round trip under load: without load it is no longer."""
    rtt_loaded_ms: float | None = None
    """The longest round trip while the user sent: what waited is in it."""
    queue_unknown: str = ""
    """Why the queue may never have been full, although round trips under load are known."""
    course: Course | None = None
    """Values over time, if the file has them."""


def spread(values: Sequence[float], why: str) -> Range:
    """The median, and where the middle 80 % of the values lie.

    >>> spread([1.0, 2.0, 3.0, 4.0, 5.0], "")
    Range(value=3.0, low=1.4, high=4.6, why='')
    """
    return Range(median(values), quantile(values, 0.1), quantile(values, 0.9), why)


def share(hits: int, of: int, why: str) -> Range:
    """A share and its 95 % interval (Wilson, 1927), which says something even where nothing was hit.

    >>> found = share(1, 100, "")
    >>> round(found.low, 4), found.value, round(found.high, 4)
    (0.0018, 0.01, 0.0545)
    """
    rate, z = hits / of, Z95**2 / of
    centre = (rate + z / 2) / (1 + z)
    half = Z95 / (1 + z) * math.sqrt(rate * (1 - rate) / of + z / (4 * of))
    return Range(rate, max(centre - half, 0.0) if hits else 0.0, centre + half, why)


def one_way(loss: Range, why: str) -> Range:
    """The loss of one direction, from that of a round trip, if both directions lose alike: 1 − √(1 − p)."""
    each = [1 - math.sqrt(max(1 - value, 0.0)) for value in (loss.value, loss.low, loss.high)]
    return Range(each[0], each[1], each[2], why)
