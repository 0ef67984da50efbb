"""Seeds as people write them: `0..30` (half-open), a range, a list.

A single number is refused: `3` may mean three seeds, or seed 3.
"""

from collections.abc import Iterable
from operator import index

from weftway._native import ScenarioError

MOST = 1_000_000
"""More seeds than this are a slip of the finger."""

Seeds = str | int | Iterable[int] | None


def parse(seeds: str | int | Iterable[int]) -> list[int]:
    """The seeds in the order given, each once.

    >>> parse("2..5"), parse(range(2)), parse([7])
    ([2, 3, 4], [0, 1], [7])
    """
    if isinstance(seeds, str):
        numbers = _span(seeds)
    elif isinstance(seeds, int):
        raise _ambiguous(seeds)
    else:
        numbers = _whole(seeds)
    if not numbers:
        raise ScenarioError(f"seeds `{seeds}`: no seed in it; `a..b` leaves b out")
    if wrong := next((number for number in numbers if not 0 <= number < 2**64), None):
        raise ScenarioError(f"seed {wrong}: a seed is a number from 0 to 2^64 - 1")
    return list(dict.fromkeys(numbers))


def _whole(seeds: Iterable[int]) -> list[int]:
    try:
        return [index(seed) for seed in seeds]
    except TypeError:
        raise ScenarioError(f"seeds `{seeds}`: expected whole numbers, or a text such as `0..10`") from None


def _span(text: str) -> list[int]:
    first, dots, end = text.partition("..")
    if not dots and first.strip().isdecimal():
        raise _ambiguous(int(first))
    try:
        span = range(int(first), int(end))
    except ValueError:
        raise ScenarioError(f"seeds `{text}`: expected a range `a..b`, which leaves b out") from None
    if span.stop - span.start > MOST:
        raise ScenarioError(f"seeds `{text}`: at most {MOST:,} seeds")
    return list(span)


def _ambiguous(number: int) -> ScenarioError:
    many = f"`0..{number}` for {number} seeds, or " if number > 0 else ""
    return ScenarioError(f"seeds `{number}`: write {many}`{number}..{number + 1}` for seed {number} alone")
