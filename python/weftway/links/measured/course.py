"""Courses: a link's rate, delay and loss over time, as a file recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

LEAST_SAMPLES = 10
"""Fewer samples are a mean at best, not a course over time."""


@dataclass(frozen=True)
class Course:
    """Values of a link from each moment to the next. `mbps` and `loss` have the keys `down` and `up`, as far as known.

    A value that was not measured at a moment is none.
    """

    at_s: Sequence[float]
    """From the first sample on."""
    mbps: dict[str, Sequence[float | None]] = field(default_factory=dict)
    """What the link carried, IP headers included."""
    delay_ms: Sequence[float | None] = ()
    """One way: half the round trip."""
    loss: dict[str, Sequence[float | None]] = field(default_factory=dict)
    """The share of packets that is lost in this direction."""

    def columns(self, side: str) -> dict[str, Sequence[float | None]]:
        """The columns of a drive file that this fills for a direction, by the end of their names."""
        found: dict[str, Sequence[float | None]] = {}
        if side in self.mbps:
            found["mbps"] = self.mbps[side]
        if self.delay_ms:
            found["delay_ms"] = self.delay_ms
        if side in self.loss:
            found["loss_percent"] = [None if share is None else share * 100 for share in self.loss[side]]
        return found

    @property
    def lasts_s(self) -> float:
        """Length: the last sample counts as long as the one before it."""
        return 2 * self.at_s[-1] - self.at_s[-2] - self.at_s[0]
