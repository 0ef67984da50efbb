"""Scenarios near a scenario: rates, delays and losses as they may be where nobody knows them exactly."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weftway._native import ScenarioError
from weftway.sample.quantities import parts, units
from weftway.sample.stream import Stream

KEYS = re.compile(r"path\.([^.]+)\.(rate|delay|loss)(\.down|\.up)?")

SPREAD = {"rate": 1.25, "delay": 1.25, "loss": 2.0}
"""By what a value is divided and multiplied at most where nobody measured how much it varies; `words` says the same."""


@dataclass(frozen=True)
class Cell:
    """Scenario near the given one; the first is the given one itself."""

    number: int
    sets: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Description for people."""
        return (
            ", ".join(setting.removeprefix("path.").replace("=", " ") for setting in self.sets)
            or "the scenario as it is"
        )


def cells(keys: Mapping[str, Any], ranges: Mapping[str, str], count: int) -> list[Cell]:
    """The scenario, and `count` near it. Draws follow from the names of the keys and the number of the cell."""
    ends = dict(_ends(keys, ranges))
    cells = [Cell(0)]
    for number in range(1, count + 1):
        drawn = (f"{key}={_drawn(key, number, *some)}" for key, some in ends.items())
        cells.append(Cell(number, tuple(drawn)))
    return cells


def _ends(keys: Mapping[str, Any], ranges: Mapping[str, str]) -> Iterator[tuple[str, tuple[float, float, str]]]:
    """The keys that are drawn: from where to where, and the unit."""
    for key, text in ranges.items():
        low, high = (_quantity(end, key) for end in str(text).split("..", 1))
        factor = _units()[low[1]] / _units()[high[1]]
        first, last = sorted((low[0] * factor, high[0]))
        yield key, (first, last, high[1])
    for key, value in keys.items():
        match = KEYS.fullmatch(key)
        # What a range says of a direction, it says of that key.
        is_open = match and key not in ranges and not any(name.startswith(f"{key}.") for name in ranges)
        if match and is_open and parts(value)[1] in _units():
            number, unit = _quantity(value, key)
            spread = SPREAD[match[2]]
            yield key, (number / spread, number * spread, unit)


def _units() -> dict[str, int]:
    return {**units("rate", "time"), "%": 1}


def _quantity(text: str, key: str) -> tuple[float, str]:
    number, unit = parts(text)
    if unit not in _units():
        raise ScenarioError(f"[range] `{key}`: `{text}` is not a number with a unit")
    return float(number), unit


def _drawn(key: str, number: int, low: float, high: float, unit: str) -> str:
    """Alike below and above the middle of the ratio; where one end is zero, of the difference."""
    stream = Stream(f"{key}/{number}")
    value = stream.log((low, high)) if low > 0 else stream.linear((low, high))
    return f"{value:.4g} {unit}" if value >= 1e-3 else f"{value:.4f} {unit}"
