"""Streams of draws: random choices that follow from a name alone, on every machine and in every version of Python.

Only `Random(name).random()` is drawn from: its sequence is the one that Python promises to keep.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

Value = TypeVar("Value")

Span = tuple[float, float]


def scaled(span: Span, uniform: float, is_log: bool) -> float:
    """The number of a range that belongs to one of [0, 1). Log-uniform: as much between 1 and 10 as from 10 to 100."""
    low, high = span
    return low * (high / low) ** uniform if is_log else low + (high - low) * uniform


class Stream:
    """Draws of one name, one after the other."""

    def __init__(self, name: str) -> None:
        self._uniform = Random(name).random

    def log(self, span: Span) -> float:
        """A number of a range, log-uniform."""
        return scaled(span, self._uniform(), is_log=True)

    def linear(self, span: Span) -> float:
        """A number of a range, uniform."""
        return scaled(span, self._uniform(), is_log=False)

    def count(self, least: int, most: int) -> int:
        """A whole number of a range, both ends included."""
        return least + int(self._uniform() * (most - least + 1))

    def chance(self, share: float) -> bool:
        """Returns true in this share of all draws."""
        return self._uniform() < share

    def one_of(self, values: Sequence[Value]) -> Value:
        """Draws one of several values, each as likely."""
        return values[int(self._uniform() * len(values))]

    def shuffled(self, counts: Mapping[Value, int]) -> list[Value]:
        """Each value as often as it is to occur, in a random order (Fisher and Yates)."""
        rest, order = [value for value, times in counts.items() for _ in range(times)], []
        while rest:
            order.append(rest.pop(int(self._uniform() * len(rest))))
        return order
