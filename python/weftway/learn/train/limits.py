"""Limits of a training's settings: stated once, beside the type, for `--help`, the command and `Args` alike.

    steps: Annotated[int, Whole(1)] = 100_000

A class that gives a setting another default keeps the limit of the class it comes from.
"""

import math
import re
from collections.abc import Container
from dataclasses import dataclass, fields
from inspect import get_annotations
from numbers import Integral, Real
from typing import Annotated, Any, Protocol


class SettingError(ValueError):
    """A setting that a training cannot have; the text names the option, what was given, and what would be right."""


class Limit(Protocol):
    """Limit of a value; `str()` says it."""

    def allows(self, value: Any) -> bool: ...


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`, or without an end."""

    least: int
    most: int | None = None

    def allows(self, value: Any) -> bool:
        """Returns whether it is a number within the limits."""
        if not isinstance(value, Integral) or isinstance(value, bool):
            return False
        return self.least <= int(value) and (self.most is None or int(value) <= self.most)

    def __str__(self) -> str:
        end = "or more" if self.most is None else f"to {self.most}"
        return f"a whole number, {self.least} {end}"


@dataclass(frozen=True)
class Number:
    """A finite number from `least` to `most`, or without an end; `least` itself is left out where it `is_above`."""

    least: float
    most: float | None = None
    is_above: bool = False

    def allows(self, value: Any) -> bool:
        """Returns whether it is a number within the limits."""
        if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(number := float(value)):
            return False
        if self.is_above and number == self.least:
            return False
        return self.least <= number and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        if self.is_above:
            return f"a number above {self.least:g}" + ("" if self.most is None else f", up to {self.most:g}")
        return f"a number, {self.least:g} " + ("or more" if self.most is None else f"to {self.most:g}")


class OneOf:
    """A name out of several."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def allows(self, value: Any) -> bool:
        """Returns whether it is one of the names."""
        return value in self.names

    def __str__(self) -> str:
        return " or ".join(self.names) if len(self.names) < 3 else f"one of {', '.join(self.names)}"


@dataclass(frozen=True)
class Pattern:
    """Text that a pattern describes; `words` say the same to a reader."""

    pattern: str
    words: str

    def allows(self, value: Any) -> bool:
        """Returns whether a value is text that matches the pattern."""
        return isinstance(value, str) and re.fullmatch(self.pattern, value) is not None

    def __str__(self) -> str:
        return self.words


Count = Annotated[int, Whole(1)]
CountOrNone = Annotated[int, Whole(0)]
Seed = Annotated[int, Whole(0, 2**32 - 1)]
"""JAX takes no more of a seed than 32 bits."""
Share = Annotated[float, Number(0, 1)]
Rate = Annotated[float, Number(0, 1, is_above=True)]
"""Rate of learning, or of following."""
Positive = Annotated[float, Number(0, is_above=True)]
Weight = Annotated[float, Number(0)]
Slots = Annotated[int, Whole(1, 64)]
"""Number of paths, or intervals, that a task can be made for."""
TaskWeight = Annotated[float, Number(0, 10)]
"""Weight of a term in a task's reward."""
Mode = Annotated[str, OneOf("preferred", "exclusive")]
WIDTHS = r"[1-9]\d{0,4}(-[1-9]\d{0,4})*"
Widths = Annotated[str, Pattern(WIDTHS, "widths from 1 to 99999 joined by hyphens, such as 64-64")]
Names = Annotated[
    str, Pattern(r"[^,]*[^,\s][^,]*(,[^,]*[^,\s][^,]*)*", "names separated by commas, such as bbr1,cubic")
]


def limits(settings: type) -> dict[str, Limit]:
    """The limit of every setting that has one, by its name."""
    by_name: dict[str, Limit] = {}
    for class_ in reversed(settings.__mro__):
        for name, hint in get_annotations(class_).items():
            if more := getattr(hint, "__metadata__", ()):
                by_name[name] = more[0]
    return by_name


def check(settings: Any) -> None:
    """Raises a `SettingError` for the first setting beyond its limit."""
    stated = limits(type(settings))
    for field in fields(settings):
        value, limit = getattr(settings, field.name), stated.get(field.name)
        if limit is not None and not limit.allows(value):
            raise SettingError(f"{option(field.name)} {str(value).removesuffix('.0')}: expected {limit}")


def options(settings: Any, left_out: Container[str]) -> list[str]:
    """The words of a command line that gives these settings: those that are not the default, and not left out."""
    words: list[str] = []
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name in left_out or value == field.default:
            continue
        if isinstance(value, bool):
            words.append(option(field.name if value else f"no_{field.name}"))
        else:
            words += [option(field.name), str(value)]
    return words


def option(name: str) -> str:
    """The option of a setting."""
    return f"--{name.replace('_', '-')}"
