"""Quantities as a scenario file has them: a number and a unit, as in `"5 ms"`. The units are the simulator's."""

import re
from decimal import Decimal
from functools import cache
from typing import Any

from weftway import _native
from weftway._native import ScenarioError

DIGITS = 4
"""Significant digits of a number that was reckoned or drawn."""

NUMBER = re.compile(r"(?P<before>[^\d.]*)(?P<number>\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?P<after>.*)")


@cache
def units(*kinds: str) -> dict[str, int]:
    """Units of rates, sizes or times, and their values in the smallest: bits a second, bytes, nanoseconds."""
    return {unit: value for kind in kinds for unit, value in _native.units()[kind].items()}


def quantity(text: Any, kind: str, where: str) -> Decimal:
    """A value such as `"5 ms"` in the smallest unit of its kind."""
    number, unit = parts(text)
    if unit not in units(kind):
        raise ScenarioError(f"{where}: `{text}` is not a {kind}; its units are {', '.join(units(kind))}")
    return Decimal(number) * units(kind)[unit]


def share(text: Any, where: str) -> float:
    """A share such as `"50 %"`."""
    number, unit = parts(text)
    if unit != "%" or float(number) > 100:
        raise ScenarioError(f'{where}: `{text}` is not a share such as "50 %"')
    return float(number) / 100


def parts(text: Any) -> tuple[str, str]:
    """The number and the unit of a value such as `"5 ms"`; anything else has no unit.

    >>> parts("20_000 kbit/s"), parts("5_ %"), parts(".5 s"), parts("fast")
    (('20000', 'kbit/s'), ('5', '%'), ('.5', 's'), ('0', ''))
    """
    match = NUMBER.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match or match["before"]:
        return "0", ""
    return match["number"].replace("_", ""), match["after"].strip()


def digits(number: Decimal) -> str:
    """A number that was reckoned, as a file has it: four significant digits."""
    return format(Decimal(f"{number:.{DIGITS - 1}e}").normalize(), "f")


def rounded(value: float) -> float:
    """Two significant digits: what a scenario file is good to read with."""
    return float(f"{value:.1e}")
