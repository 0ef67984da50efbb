"""Files of entries: who ran, by which code, a line per cell, and figures.

The same code writes the same bytes: nothing in a file tells when or where it was made. A line of a set is a cell, in
the order in which the edition draws them: the mean cost on each half of the seeds, then the share of packets that were
duplicates and the number of runs that did not finish, which are left out where they are nothing. It is `null` where the
entry cannot run. `digest` is that of all but the figures.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from weftway._native import ScenarioError
from weftway.files import reading
from weftway.runs.store import whole

FORMAT = 1
"""Version of the file's form."""

REGISTRY, CLASS, POLICY, ONE_PATH = "registry", "class", "policy", "one path"
KINDS = (REGISTRY, CLASS, POLICY, ONE_PATH)
"""A scheduler of the registry, a class in Python, a policy file; or the runs of each single path with the same
handshake, with which the entries are compared."""

DIGITS = 5
"""Significant digits of a cost."""

DIGITS_OF_SHARE = 3

HEAD = ("board", "edition", "cells", "entry", "kind", "version", "source", "run_as", "code", "skipped", "sealed")
"""What a file has besides its rows, its figures and its digest."""


class Line(NamedTuple):
    """What an entry did in a cell."""

    costs: tuple[float, float]
    """Mean cost on each half of the seeds, in ms."""
    copies: float
    """Share of packets that were duplicates."""
    unfinished: int


class Limits(NamedTuple):
    """What single paths and the links' capacity allow in a cell."""

    bound: float | None
    """Mean of the least cost, whatever the scheduler and the controller."""
    paths: Mapping[str, tuple[float, float]]
    """Mean cost on each half of the seeds over each path with the same handshake; empty where there is one path."""


@dataclass(frozen=True)
class Result:
    """An entry's file."""

    edition: str
    cells: str
    """Digest of the edition's drawn cells."""
    entry: str
    """Name of the entry."""
    kind: str
    version: str
    source: str | None
    """Digest of the class's source or of the policy; none for a scheduler that the code has."""
    run_as: str
    """Name by which it was run, without a folder of the machine."""
    code: str
    """Weftway's version and the hash of the sources that decide results."""
    rows: Mapping[str, Sequence[Any]]
    """Lines of each set, as JSON has them."""
    sealed: Mapping[str, str] = field(default_factory=dict)
    """Sealed sets that were run, with their digests."""
    skipped: Sequence[str] = ()
    """Reasons why some cells have no line."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    stated_digest: str | None = None
    """Digest that its file names, if it was read from one."""

    @property
    def digest(self) -> str:
        """Digest of all but the figures."""
        return hashlib.sha256(json.dumps([self._head(), self.rows], sort_keys=True).encode()).hexdigest()

    @property
    def text(self) -> str:
        """Text of the file."""
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in self._head().items()]
        lines += ['"figures": {\n' + _lines(self.figures.items()) + "\n}"]
        lines += [f'"digest": {json.dumps(self.digest)}']
        sets = (
            f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]"
            for name, rows in self.rows.items()
        )
        lines += ['"rows": {\n' + ",\n".join(sets) + "\n}"]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @property
    def file_name(self) -> str:
        """Name of its file among the others."""
        return re.sub(r"[^a-z0-9.]+", "-", self.entry.lower()).strip("-") + ".json"

    def write(self, file: Path) -> None:
        """Writes the file, whole or not at all."""
        with whole(file) as half:
            half.write_text(self.text, encoding="utf-8")

    def _head(self) -> dict[str, Any]:
        own = {key: getattr(self, key) for key in HEAD[1:]}
        return {"board": FORMAT, **own, "skipped": list(self.skipped), "sealed": dict(self.sealed)}


def _lines(items: Any) -> str:
    return ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in items)


def read(file: Path) -> Result:
    """The result in a file."""
    text = reading.text(file)
    try:
        keys = json.loads(text)
    except ValueError as error:
        raise ScenarioError(f"{file}: no result of a board: {error}") from None
    if not isinstance(keys, dict) or "board" not in keys:
        raise ScenarioError(f"{file}: no result of a board: `weft board run` writes one")
    if keys["board"] != FORMAT:
        raise ScenarioError(f"{file}: board = {keys['board']!r}: this Weftway reads form {FORMAT}")
    needed = {*HEAD, "figures", "digest", "rows"}
    if wrong := [*sorted(needed - keys.keys()), *sorted(keys.keys() - needed)]:
        is_missing = wrong[0] in needed
        raise ScenarioError(f"{file}: {'no' if is_missing else 'unknown'} key `{wrong[0]}`")
    for key, kinds in TYPES.items():
        if not isinstance(keys[key], kinds):
            raise ScenarioError(f"{file}: {key}: {json.dumps(keys[key])[:40]} is not what belongs there")
    if keys["kind"] not in KINDS:
        raise ScenarioError(f"{file}: kind: `{keys['kind']}`; there is {', '.join(KINDS)}")
    check = _limits if keys["kind"] == ONE_PATH else _line
    for name, rows in keys["rows"].items():
        if not isinstance(rows, list):
            raise ScenarioError(f"{file}: rows: {name}: a list of lines is needed")
        for at, row in enumerate(rows, 1):
            if check(row) is None and (row is not None or keys["kind"] == ONE_PATH):
                raise ScenarioError(f"{file}: rows: line {at} of {name}, {json.dumps(row)[:40]}, is not that of a cell")
    return Result(**{key: keys[key] for key in (*HEAD[1:], "rows", "figures")}, stated_digest=keys["digest"])


TYPES: dict[str, Any] = {
    **dict.fromkeys(("edition", "cells", "entry", "kind", "version", "run_as", "code", "digest"), str),
    "source": (str, type(None)),
    "skipped": list,
    "sealed": dict,
    "figures": dict,
    "rows": dict,
}


def lines(result: Result, name: str) -> list[Line | None]:
    """The lines of a set."""
    return [None if row is None else _line(row) for row in result.rows.get(name, ())]


def limits(result: Result, name: str) -> list[Limits]:
    """What single paths and the capacity allow in each cell of a set."""
    return [_limits(row) or Limits(None, {}) for row in result.rows.get(name, ())]


def row_of(line: Line) -> list[float]:
    """A line as the file has it."""
    costs = [rounded(cost) for cost in line.costs]
    more = [rounded(line.copies, DIGITS_OF_SHARE), line.unfinished]
    while more and not more[-1]:
        more.pop()
    return [*costs, *more]


def row_of_limits(found: Limits) -> list[Any]:
    """The same of what is possible."""
    paths = {name: [rounded(cost) for cost in costs] for name, costs in found.paths.items()}
    return [None if found.bound is None else rounded(found.bound), paths]


def _line(row: Any) -> Line | None:
    """The line that a row of a file is, if it is one."""
    if not isinstance(row, list) or not 2 <= len(row) <= 4 or not all(map(_is_number, row)):
        return None
    copies = row[2] if len(row) > 2 else 0
    unfinished = row[3] if len(row) > 3 else 0
    is_one = min(row[:2]) > 0 and 0 <= copies <= 1 and unfinished >= 0 and int(unfinished) == unfinished
    return Line((row[0], row[1]), copies, int(unfinished)) if is_one else None


def _limits(row: Any) -> Limits | None:
    if not isinstance(row, list) or len(row) != 2 or not isinstance(row[1], dict):
        return None
    bound, paths = row
    pairs = {name: _line(costs) for name, costs in paths.items()}
    if not all(pairs.values()) or not (bound is None or (_is_number(bound) and bound > 0)):
        return None
    return Limits(bound, {name: pair.costs for name, pair in pairs.items() if pair})


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and value == value and abs(value) != float("inf")


def rounded(value: float, digits: int = DIGITS) -> float:
    """A number with so many significant digits, as short as it can be written."""
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short
