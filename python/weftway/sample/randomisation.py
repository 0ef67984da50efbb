"""Domain randomisation: what a distribution of scenarios leaves to chance.

That is a number from a range, one of several values, or a key that is sometimes there. Each is a table in the place of
a value, and one uniform number of [0, 1) decides which value it becomes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from weftway._native import ScenarioError
from weftway.sample.quantities import DIGITS, NUMBER, share
from weftway.sample.stream import scaled

RANGE, CHOICE, SOMETIMES = {"from", "to", "scale", "draw"}, {"one_of", "weights", "draw"}, {"sometimes", "draw"}
SIGNS = {"from", "to", "one_of", "weights", "sometimes"}
"""Keys by which such a table is known; no scenario file has them."""

WHOLE = ("packets", "B")
"""Units of which there are no fractions."""

ABSENT = object()
"""Mark of a key that is not there this time."""

Uniform = Callable[[str], float]
"""The number of [0, 1) that belongs to a name."""


@dataclass(frozen=True)
class Draws:
    """Draws of an instance: the source of its numbers, and the parity of their last digits."""

    uniform: Uniform
    parity: int


def drawn(value: Any, where: str, draws: Draws) -> Any:
    """`value` with everything drawn that is left to chance; `where` is its key, by which its draws are named."""
    if isinstance(value, list):
        return [drawn(item, f"{where}.{place}", draws) for place, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if not SIGNS & value.keys():
        items = {key: drawn(item, f"{where}.{key}" if where else key, draws) for key, item in value.items()}
        return {key: item for key, item in items.items() if item is not ABSENT}
    if "sometimes" in value:
        return _sometimes(value, where, draws)
    if "one_of" in value or "weights" in value:
        return _choice(value, where, draws)
    return _range(value, where, draws)


def _number_of(table: dict[str, Any], own: str, draws: Draws) -> float:
    """The uniform number of a table: of its own stream, or of the one that it shares."""
    return draws.uniform(str(table.get("draw", own)))


def _sometimes(table: dict[str, Any], where: str, draws: Draws) -> Any:
    if _number_of(table, f"{where}|sometimes", draws) >= share(table["sometimes"], f"{where}.sometimes"):
        return ABSENT
    rest = {key: item for key, item in table.items() if key not in SOMETIMES}
    if not rest:
        raise ScenarioError(f"{where}: `sometimes` needs a `value`, or the keys of the table that is there sometimes")
    return drawn(rest.get("value", rest), where, draws)


def _choice(table: dict[str, Any], where: str, draws: Draws) -> Any:
    _known(table, CHOICE, where)
    items = options(table, where)
    weights = [float(weight) for weight in table.get("weights", [1] * len(items))]
    if len(weights) != len(items) or min(weights) < 0 or not sum(weights):
        raise ScenarioError(f"{where}.weights: {len(items)} values need as many weights, not all of them zero")
    left = _number_of(table, f"{where}|one_of", draws) * sum(weights)
    for item, weight in zip(items, weights, strict=True):
        if left < weight:
            return drawn(item, where, draws)
        left -= weight
    return drawn(items[-1], where, draws)


def options(table: dict[str, Any], where: str) -> list[Any]:
    """The values of a choice."""
    items = table.get("one_of")
    if not isinstance(items, list) or not items:
        raise ScenarioError(f"{where}.one_of: a list with at least one value is needed")
    return items


def _range(table: dict[str, Any], where: str, draws: Draws) -> str | int:
    _known(table, RANGE, where)
    if missing := [end for end in ("from", "to") if end not in table]:
        raise ScenarioError(f"{where}: a range needs `from` and `to`; `{missing[0]}` is missing")
    low, high = table["from"], table["to"]
    if type(low) is int and type(high) is int:
        _ordered(low, high, where)
        return low + math.floor(_number_of(table, where, draws) * (high - low + 1))
    ends = [NUMBER.fullmatch(end) if isinstance(end, str) else None for end in (low, high)]
    if not ends[0] or not ends[1]:
        raise ScenarioError(f'{where}: the ends of a range are two whole numbers, or two values such as "5 ms"')
    words = [(end["before"], end["after"]) for end in ends if end]
    if words[0] != words[1]:
        raise ScenarioError(f"{where}: `{low}` and `{high}` differ in their units; both ends take the same")
    span = float(ends[0]["number"]), float(ends[1]["number"])
    _ordered(*span, where)
    number = scaled(span, _number_of(table, where, draws), _is_log(table, span[0], where))
    before, after = words[0]
    if after.strip() in WHOLE:
        return f"{before}{round(number)}{after}"
    return f"{before}{_written(number, span, draws.parity, where)}{after}"


def _known(table: dict[str, Any], known: set[str], where: str) -> None:
    if extra := [key for key in table if key not in known]:
        raise ScenarioError(f"{where}: unknown key `{extra[0]}`; there is {', '.join(sorted(known))}")


def _ordered(low: float, high: float, where: str) -> None:
    if not low < high:
        raise ScenarioError(f"{where}: the range from {low:g} to {high:g} is empty; `from` is less than `to`")


def _is_log(table: dict[str, Any], low: float, where: str) -> bool:
    scale = table.get("scale", "log" if low > 0 else "linear")
    if scale not in ("log", "linear") or (scale == "log" and low <= 0):
        raise ScenarioError(f"{where}.scale: `log` or `linear`; a range from zero is linear")
    return bool(scale == "log")


def _written(number: float, span: tuple[float, float], parity: int, where: str) -> str:
    """The number in four digits, of which the last is even or odd: no instance for training is one that is held out."""
    low, high = map(Decimal, map(repr, span))
    size = Decimal(repr(number)) if low else high
    step = Decimal(1).scaleb(size.adjusted() - DIGITS + 1)
    count = int(Decimal(repr(number)) / step)
    count += count % 2 != parity
    while count * step > high:
        count -= 2
    while count * step < low:
        count += 2
    if count * step > high:
        raise ScenarioError(f"{where}: the range from {low} to {high} is too narrow to draw {DIGITS} digits from")
    return format((count * step).normalize(), "f")
