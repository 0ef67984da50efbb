"""Judgement on whether a value of the simulator holds beside those of the kernel's runs."""

import math
from dataclasses import dataclass

from weftway.terminal.table import NOTHING

from .errors import verdict

WITHIN = 0.10
"""Share of the kernel's median: so near, the simulator's holds. It also holds within the range of the kernel's runs."""
HOLD_TARGET = 0.9
"""The share of the cells that is to hold."""
FEWEST_RUNS = 3
"""Runs of the kernel, in time; the range of fewer says nothing."""


@dataclass(frozen=True)
class Held:
    """The simulator's median, and the kernel's with its shortest and longest run. None: not known, or no end."""

    ours: float | None
    middle: float | None
    low: float | None
    high: float | None
    slack: float = 0.0
    """Distance from the kernel's median that is near, whatever share of it that is."""

    @property
    def error(self) -> float | None:
        """The simulator's value over the kernel's, less one."""
        return None if self.ours is None or self.middle is None else self.ours / self.middle - 1

    @property
    def holds(self) -> bool:
        return self.is_near or self.is_in_range

    @property
    def is_near(self) -> bool:
        """Says whether it is near the kernel's median."""
        if self.ours is None or self.middle is None:
            return False
        return abs(self.ours / self.middle - 1) <= WITHIN or abs(self.ours - self.middle) <= self.slack

    @property
    def is_in_range(self) -> bool:
        """Says whether it lies between the kernel's shortest and longest run."""
        if self.ours is None or self.low is None or self.high is None:
            return False
        return self.low <= self.ours <= self.high


@dataclass(frozen=True)
class Score:
    """Number of cells that hold, and of those that have to."""

    cells: int
    held: int

    @property
    def asked(self) -> int:
        return math.ceil(HOLD_TARGET * self.cells - 1e-9)

    @property
    def verdict(self) -> str:
        return verdict(self.held >= self.asked, self.cells)

    @property
    def sentence(self) -> str:
        return f"{self.held} of {self.cells} cells hold, at least {self.asked} are asked for: {self.verdict}"


def number(value: float | None) -> str:
    """As a table has it."""
    return NOTHING if value is None else f"{value:.2f}"
