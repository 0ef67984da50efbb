"""Measures of a run and how their numbers are written: one unit per group, digits that fit each number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median_high

from weftway.stats.estimates import Estimate

SCALES = {
    "time": [(1000.0, 1e-3, "s"), (0.0, 1.0, "ms")],
    "rate": [(1000.0, 1e-3, "Gbit/s"), (1.0, 1.0, "Mbit/s"), (0.0, 1e3, "kbit/s")],
    "size": [(1000.0, 1e-3, "MB"), (0.0, 1.0, "kB")],
    "share": [(0.0, 100.0, "%")],
    "count": [(0.0, 1.0, "")],
    "ratio": [(0.0, 1.0, "")],
}
"""Per kind: (from this largest value on, factor, symbol). Input is ms, Mbit/s, kB or a plain number."""

THIN_SPACE = "\u202f"
MINUS = "\u2212"

ROUNDING = 1e-9
"""An interval that is narrower than this part of its mean comes of sums of equal numbers."""

UNEVEN = 1.25
"""Ratio of the two sides of an interval above which both ends are written; below it the longer side is."""

WIDE = 10.0
"""Half a width from which an interval with both ends is told without digits behind the point."""

MOST_DIGITS = 3
"""Behind the point: no scale has a finer number than that to tell."""


@dataclass(frozen=True)
class Measure:
    """A column of the rows: what it is called, what it counts, and which way is good."""

    column: str
    title: str
    kind: str
    lower_is_better: bool | None


MEASURES = {
    measure.column: measure
    for measure in (
        Measure("fct_ms", "Completion time", "time", True),
        Measure("goodput_mbps", "Goodput", "rate", False),
        Measure("message_p50_ms", "Median delay", "time", True),
        Measure("message_p95_ms", "95th-percentile delay", "time", True),
        Measure("message_p99_ms", "99th-percentile delay", "time", True),
        Measure("deadline_miss_rate", "Deadlines missed", "share", True),
        Measure("late_share", "Late", "share", True),
        Measure("lost_share", "Lost", "share", True),
        Measure("overhead", "Sent again or twice", "share", True),
        Measure("back_p50_ms", "Median delay, other way", "time", True),
        Measure("back_p95_ms", "95th-percentile delay, other way", "time", True),
        Measure("back_p99_ms", "99th-percentile delay, other way", "time", True),
        Measure("back_miss_rate", "Deadlines missed, other way", "share", True),
        Measure("call_p99_ms", "99th-percentile delay, worse way", "time", True),
        Measure("call_miss_rate", "Deadlines missed, worse way", "share", True),
        Measure("interactive_mean_ms", "Mean completion, interactive", "time", True),
        Measure("interactive_p50_ms", "Median completion, interactive", "time", True),
        Measure("interactive_p95_ms", "95th-percentile completion, interactive", "time", True),
        Measure("interactive_p99_ms", "99th-percentile completion, interactive", "time", True),
        Measure("bulk_mean_ms", "Mean completion, bulk", "time", True),
        Measure("bulk_p50_ms", "Median completion, bulk", "time", True),
        Measure("bulk_p95_ms", "95th-percentile completion, bulk", "time", True),
        Measure("bulk_p99_ms", "99th-percentile completion, bulk", "time", True),
        Measure("r_factor", "Transmission rating", "ratio", False),
        Measure("mos", "Mean opinion score", "ratio", False),
        Measure("aggregation_benefit", "Aggregation benefit", "ratio", False),
        Measure("benefit_fair", "Benefit, same handshake", "ratio", False),
        Measure("efficiency", "Efficiency", "share", False),
        Measure("receive_buffer_max_kb", "Receive buffer, peak", "size", True),
        Measure("receive_buffer_mean_kb", "Receive buffer, mean", "size", True),
        Measure("ooo_share", "Packets out of order", "share", True),
        Measure("ooo_packets", "Packets out of order", "count", True),
        Measure("reorder_delay_ms", "Reordering delay", "time", True),
        Measure("retransmission_rate", "Retransmitted", "share", True),
        Measure("retransmissions", "Retransmissions", "count", True),
        Measure("reinjections", "Reinjections", "count", None),
        Measure("duplicates", "Duplicates", "count", None),
        Measure("window_drops", "Dropped beyond the window", "count", None),
        Measure("waits", "Waits", "count", None),
        Measure("faults", "Faults", "count", True),
        Measure("fallback_decided", "Packets of the fallback", "count", None),
        Measure("fallback_differs", "Decisions unlike the fallback's", "count", None),
        Measure("chosen_rate_mbps", "Rate of the chosen path", "rate", False),
        Measure("jain", "Jain's index", "ratio", False),
    )
}


def measure(column: str) -> Measure:
    """The measure of that column; an unknown one is shown under its own name, as it is."""
    return MEASURES.get(column) or Measure(column, column, "ratio", None)


@dataclass(frozen=True)
class Unit:
    """Way to write a group of numbers: value × factor, `digits` after the point, then the symbol."""

    factor: float
    symbol: str
    digits: int
    kind: str = "ratio"

    def number(self, value: float, digits: int | None = None) -> str:
        """The number alone, with a true minus and thin spaces between thousands."""
        text = f"{abs(value) * self.factor:,.{self.digits if digits is None else digits}f}"
        negative = value < 0 and any(digit in "123456789" for digit in text)
        return (MINUS if negative else "") + text.replace(",", THIN_SPACE)

    def value(self, value: float) -> str:
        """The number with its unit."""
        return self.fitting(value).number(value) + self.suffix

    def interval(self, value: float, low: float | None, high: float | None) -> str:
        """The number with its unit, and its interval where it has one: `0.994 (0.988 to 0.999)`."""
        if low is None or high is None or low == high:
            return self.value(value)
        return f"{self.value(value)} ({self.number(low)} to {self.number(high)})"

    def signed(self, value: float) -> str:
        """The number with its sign and unit, for differences."""
        text = self.number(value)
        zero = not any(digit in "123456789" for digit in text)
        return (text if value < 0 or zero else "+" + text) + self.suffix

    def estimate(self, estimate: Estimate, signed: bool = False) -> str:
        """Mean ± half interval, with its unit; the mean alone when there was one run."""
        if signed:
            return self._signed_estimate(estimate)
        if estimate.half is None:
            return self.value(estimate.mean)
        half = 0.0 if estimate.half < ROUNDING * abs(estimate.mean) else estimate.half
        fit = self.fitting(estimate.mean, half)
        return f"{fit.number(estimate.mean)}\u00a0±\u00a0{fit.half(half)}{self.suffix}"

    def half(self, value: float) -> str:
        """Half an interval: 0 only if it is."""
        if value == 0:
            return "0"
        least = 10**-self.digits
        return f"<{THIN_SPACE}{least:.{self.digits}f}" if value * self.factor < least / 2 else self.number(value)

    def _signed_estimate(self, estimate: Estimate) -> str:
        if estimate.half is None:
            return self.signed(estimate.mean)
        mean = self.number(estimate.mean)
        sign = "+" if estimate.mean > 0 and mean.strip("0.") else ""
        sides = estimate.mean - estimate.low, estimate.high - estimate.mean
        half = max(sides)
        if half > UNEVEN * min(sides) or (half < abs(estimate.mean)) != estimate.excludes_zero:
            whole = replace(self, digits=0) if half * self.factor >= WIDE else self
            mean, low, high = (
                replace(whole, symbol="").signed(value) for value in (estimate.mean, estimate.low, estimate.high)
            )
            return f"{mean}\u00a0({low}\u00a0to\u00a0{high}){self.suffix}"
        return f"{sign}{mean}\u00a0±\u00a0{self.number(half)}{self.suffix}"

    def fitting(self, value: float, half: float = 0.0) -> Unit:
        """This unit with as many digits as `value` needs beside larger ones, and its interval beside it.

        A number keeps its group's digits if it is larger; a smaller one gets up to three significant ones, as far as
        they are two of the half interval's. Where the half interval would read as 0 and one digit more can tell it, it
        gets that.
        """
        if self.kind in ("ratio", "count"):
            return self
        digits = min(places(value * self.factor, 3), self.digits + 2)
        if half:
            digits = min(digits, places(half * self.factor, 2))
            needed = places(half * self.factor, 1)
            digits = max(digits, needed if needed <= self.digits + 1 else 0)
        return replace(self, digits=min(max(digits, self.digits), MOST_DIGITS))

    @property
    def suffix(self) -> str:
        return f"{THIN_SPACE}{self.symbol}" if self.symbol else ""


def unit_for(kind: str, values: Iterable[float]) -> Unit:
    """The unit in which the middle one of `values` has three significant digits: an outlier takes none away."""
    sizes = [abs(value) for value in values if value]
    typical = median_high(sizes) if sizes else 0.0
    # What rounds to 1000 of a unit is one of the next.
    factor, symbol = next((f, s) for least, f, s in SCALES[kind] if typical >= least * 0.9995)
    if kind == "ratio":
        return Unit(factor, symbol, 2, kind)
    if kind == "count":
        return Unit(factor, symbol, min(places(typical, 2), 1), kind)
    return Unit(factor, symbol, min(places(typical * factor, 3), 2), kind)


def places(value: float, significant: int) -> int:
    """Digits behind the point that show so many significant ones."""
    return max(significant - 1 - math.floor(math.log10(abs(value))), 0) if value else 0
