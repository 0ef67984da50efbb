"""Values in JSON and tables of other programs: read with their place, or refused with it."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError


@dataclass(frozen=True)
class Place:
    """Where in a file something stands, and what would be right there."""

    file: Path
    at: str
    """Such as `line 7`."""
    expected: str

    def error(self, what: str) -> ScenarioError:
        """The one error that tells file, place, what is wrong and what would be right."""
        return ScenarioError(f"{self.file}: {self.at}: {what}; expected {self.expected}")

    def number(self, name: str, value: object, least: float = 0.0, most: float = math.inf) -> float:
        """A number between two bounds. Programs write some numbers as text: 64-bit ones of protobuf, all of CSV."""
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise ValueError
            found = float(value)
        except ValueError:
            raise self.error(f"`{name}` is {_shown(value)}, not a number") from None
        if not least <= found <= most or found == math.inf:
            bounds = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
            raise self.error(f"`{name}` is {_shown(value)}, not {bounds}")
        return found

    def member(self, parent: object, name: str, kind: type[Any]) -> Any:
        """A member of an object, which must be of this type."""
        if not isinstance(parent, Mapping) or name not in parent:
            raise self.error(f"`{name}` is missing")
        if not isinstance(parent[name], kind):
            raise self.error(f"`{name}` is {_shown(parent[name])}")
        return parent[name]


def _shown(value: object) -> str:
    return f"`{str(value)[:40]}`"


def objects(file: Path, text: str, expected: str) -> Iterator[tuple[Place, Any]]:
    """The JSON values that follow one another in a file, each with the line on which it begins."""
    decoder = json.JSONDecoder()
    at = 0
    while rest := text[at:].lstrip(" \t\r\n,"):
        at = len(text) - len(rest)
        place = Place(file, f"line {text.count(chr(10), 0, at) + 1}", expected)
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            place = Place(file, f"line {error.lineno}, column {error.colno}", expected)
            raise place.error("no JSON, or cut off") from None
        except (RecursionError, ValueError):
            raise place.error("no JSON") from None
        yield place, value


def rows(file: Path, text: str, expected: str) -> Iterator[tuple[Place, dict[str, str]]]:
    """The lines of a table with commas, each by the names of its first line.

    Of a name that stands twice the first counts. A second line of names, as where a program was started anew, is none.
    """
    lines = text.splitlines()
    names = [name.strip() for name in next(csv.reader(lines[:1]), [])]
    for number, line in enumerate(lines[1:], 2):
        if not line.strip() or line.strip() == lines[0].strip():
            continue
        place = Place(file, f"line {number}", expected)
        fields = [entry.strip() for entry in next(csv.reader([line]), [])]
        if len(fields) != len(names):
            raise place.error(f"{len(fields)} fields under {len(names)} names")
        row: dict[str, str] = {}
        for name, entry in zip(names, fields, strict=True):
            row.setdefault(name, entry)
        yield place, row
