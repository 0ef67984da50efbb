"""Editions of the board: which cells an entry runs in, by how many seeds, and by which rule it is judged.

The file of an edition names distributions and says how many cells of each are drawn. What is drawn has a digest, which
the file has too: a distribution that has changed since draws other cells, and is refused. A sealed set is named by its
digest alone: only its keeper has its cells.
"""

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError
from weftway.files import reading
from weftway.rank import cells
from weftway.rank.cells import Cell
from weftway.rank.costs import COLUMN
from weftway.runs import seeds
from weftway.sample.distribution import SPLITS
from weftway.scenario import HOME

FOLDER = HOME / "board"
"""Editions that come with Weftway, each in a folder of its name."""

FILE = "edition.toml"

RULE = 1
"""The rule of judgement that this package has: that of `weftway.rank.standing`, over all entries."""

TIME_PER_MEGABYTE = "time per megabyte"
"""The measure of a workload that runs for a time and has no end."""

ALL = "all"
"""Among an entry's figures, those of all drawn cells, beside those of each set."""

AGAINST = "one_path"
"""Among them, the digest of the file of single paths with which they compare."""

LEAST_SEEDS = 4
"""Two for each half: one picks with noise."""

MOST_CELLS = 10_000
"""More cells of one set are a slip of the finger."""

NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
DIGEST = re.compile(r"[0-9a-f]{64}")

KEYS = ("edition", "title", "rule", "digest", "seeds", "draw", "split", "controllers", "measures", "set")
"""Keys of an edition, each of which it must have."""

OF_A_SET = ("distribution", "cells")
OF_A_SEALED_SET = ("name", "digest")

Cells = Mapping[str, Sequence[Cell]]
"""Cells by the name of their set."""


@dataclass(frozen=True)
class CellSet:
    """So many cells of a distribution."""

    name: str
    distribution: str
    """Name of one of ours, or a file."""
    cells: int


@dataclass(frozen=True)
class Sealed:
    """Cells that only their keeper has."""

    name: str
    digest: str


@dataclass(frozen=True)
class Edition:
    """An edition as its file has it."""

    name: str
    title: str
    file: Path
    digest: str
    """Digest of the drawn cells, and of the seeds."""
    seeds: list[int]
    draw: int
    """Seed of the draw: which cells of each distribution."""
    split: str
    controllers: list[str]
    measures: dict[str, str]
    """Column that counts for each workload."""
    sets: list[CellSet]
    sealed: list[Sealed]

    @property
    def cells(self) -> int:
        """Number of its drawn cells."""
        return sum(one.cells for one in self.sets)

    def drawn(self, out: Path | None = None) -> Cells:
        """Its cells, drawn and checked; with `out` their files are kept there."""
        found = {one.name: self._set(one, out) for one in self.sets}
        if (drawn := digest_of(found, self.seeds)) != self.digest:
            raise ScenarioError(
                f"{self.file}: the cells that are drawn here have the digest {drawn}, and those of edition {self.name} "
                f"{self.digest}: a distribution, or the seeds, changed since. An edition stays as it is; other "
                "cells are another edition"
            )
        self._check({cell.cc[0] for some in found.values() for cell in some}, "controllers", self.controllers)
        self._check({cell.workload for some in found.values() for cell in some}, "measures", self.measures)
        return found

    def unsealed(self, folder: Path) -> Cells:
        """The cells of those sealed sets that lie in `folder`, each in a folder of its name."""
        found = [one for one in self.sealed if (folder / one.name).is_dir()]
        if not found:
            names = ", ".join(one.name for one in self.sealed) or "none"
            raise ScenarioError(f"--sealed {folder}: no folder there has the name of a sealed set; there is {names}")
        return {one.name: self._opened(one, folder / one.name) for one in found}

    def _set(self, one: CellSet, out: Path | None) -> list[Cell]:
        beside = self.file.parent / one.distribution
        name = str(beside) if beside.is_file() else one.distribution
        return cells.read([name], one.cells, self.draw, self.split, (), out)

    def _opened(self, one: Sealed, folder: Path) -> list[Cell]:
        found = sealed_cells(folder)
        if (own := digest_of({one.name: found}, self.seeds)) != one.digest:
            raise ScenarioError(
                f"--sealed: {folder} has the digest {own}, and edition {self.name} names {one.digest} as that of "
                f"{one.name}: these are other cells"
            )
        return found

    def _check(self, found: set[str], key: str, named: Sequence[str] | Mapping[str, str]) -> None:
        """Refuses an edition whose cells have what it does not name, or the other way round."""
        if lacking := sorted(found - set(named)):
            raise ScenarioError(f"{self.file}: {key}: a cell has `{lacking[0]}`, which is not named there")
        if beyond := [name for name in named if name not in found]:
            raise ScenarioError(f"{self.file}: {key}: no cell has `{beyond[0]}`")


def sealed_cells(folder: Path) -> list[Cell]:
    """The cells of a sealed set: the scenario files of a folder, each under each of its controllers."""
    return cells.read([str(folder)], None, 0, SPLITS[1])


def digest_of(drawn: Cells, numbers: Sequence[int]) -> str:
    """Digest of cells and of the seeds of their runs.

    A cell counts by what decides its runs, traces included, and by its place: neither comments nor names of files do.
    """
    lines = [f"seeds {' '.join(map(str, numbers))}"]
    lines += [f"{name} {cell.variant.hash} {cell.cc[0]}" for name, own in drawn.items() for cell in own]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def load(name: str) -> Edition:
    """An edition by its name, or in a file."""
    file = Path(name)
    if file.is_dir():
        file = file / FILE
    if not file.is_file():
        file = FOLDER / name / FILE
    if not file.is_file():
        raise ScenarioError(f"no edition `{name}`, and no such file; there is {', '.join(names()) or 'none'}")
    try:
        return _Reader(file, tomllib.loads(reading.text(file))).edition()
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{file}: {error}") from None


def names() -> list[str]:
    """Editions that come with Weftway, the newest last."""
    return sorted((file.parent.name for file in FOLDER.glob(f"*/{FILE}")), key=_by_numbers)


def _by_numbers(name: str) -> list[str | int]:
    """Orders names by the numbers in them.

    >>> sorted(["2027.10", "2027.2", "2026.3"], key=_by_numbers)
    ['2026.3', '2027.2', '2027.10']
    """
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"(\d+)", name))]


class _Reader:
    """Reads the keys of an edition, and refuses the first that is wrong."""

    def __init__(self, file: Path, keys: dict[str, Any]) -> None:
        self._file, self._keys = file, keys

    def edition(self) -> Edition:
        self._known(self._keys, (*KEYS, "sealed"), "")
        for key in KEYS:
            if key not in self._keys:
                raise self._wrong(key, "is missing")
        rule = self._keys["rule"]
        if rule != RULE or type(rule) is not int:
            raise self._wrong("rule", f"{rule!r}: this Weftway judges by rule {RULE}")
        split = self._text("split")
        if split not in SPLITS:
            raise self._wrong("split", f"`{split}`: there is {' and '.join(SPLITS)}")
        sets, sealed = self._sets(), self._sealed()
        every = [*(one.name for one in sets), *(one.name for one in sealed)]
        if twice := next((name for name in every if every.count(name) > 1), None):
            raise self._wrong("set", f"two are called `{twice}`")
        if taken := next((name for name in every if name in (ALL, AGAINST)), None):
            raise self._wrong("set", f"none can be called `{taken}`: figures of that name are no set's")
        return Edition(
            self._match("edition", NAME, "a name such as 2027.1"),
            self._text("title"),
            self._file,
            self._match("digest", DIGEST, "64 hexadecimal digits"),
            self._seeds(),
            self._whole(self._keys["draw"], "draw", 0, 2**63),
            split,
            self._texts("controllers"),
            self._measures(),
            sets,
            sealed,
        )

    def _sets(self) -> list[CellSet]:
        found = []
        for at, one in enumerate(self._tables("set"), 1):
            where = f"set {at}"
            self._complete(one, OF_A_SET, where)
            if not isinstance(one["distribution"], str) or not one["distribution"]:
                raise self._wrong(where, f"distribution: {one['distribution']!r} is no name of a distribution")
            count = self._whole(one["cells"], f"{where}: cells", 1, MOST_CELLS)
            found.append(CellSet(Path(one["distribution"]).stem, one["distribution"], count))
        if not found:
            raise self._wrong("set", "an edition has one at least")
        return found

    def _sealed(self) -> list[Sealed]:
        found = []
        for at, one in enumerate(self._tables("sealed"), 1):
            where = f"sealed {at}"
            self._complete(one, OF_A_SEALED_SET, where)
            if not isinstance(one["name"], str) or not NAME.fullmatch(one["name"]):
                raise self._wrong(where, f"name: {one['name']!r} is no name such as summer-drives")
            if not isinstance(one["digest"], str) or not DIGEST.fullmatch(one["digest"]):
                raise self._wrong(where, "digest: 64 hexadecimal digits are needed; `weft board seal DIR` tells them")
            found.append(Sealed(one["name"], one["digest"]))
        return found

    def _seeds(self) -> list[int]:
        try:
            found = seeds.parse(self._text("seeds"))
        except ScenarioError as error:
            raise ScenarioError(f"{self._file}: {error}") from None
        if len(found) < LEAST_SEEDS or len(found) % 2:
            raise self._wrong("seeds", f"an even number from {LEAST_SEEDS} on is needed: one half picks, one judges")
        return found

    def _measures(self) -> dict[str, str]:
        measures = self._keys["measures"]
        if not isinstance(measures, dict):
            raise self._wrong("measures", "a table is needed: workload = column")
        for workload, column in measures.items():
            if column != (own := COLUMN.get(workload, TIME_PER_MEGABYTE)):
                raise self._wrong("measures", f"{workload} = {column!r}: this Weftway measures `{own}`")
        return measures

    def _tables(self, key: str) -> list[dict[str, Any]]:
        found = self._keys.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self._wrong(key, f"tables `[[{key}]]` are needed")
        return found

    def _complete(self, table: dict[str, Any], keys: Sequence[str], where: str) -> None:
        self._known(table, keys, where)
        if missing := [key for key in keys if key not in table]:
            raise self._wrong(where, f"`{missing[0]}` is missing")

    def _known(self, table: dict[str, Any], keys: Sequence[str], where: str) -> None:
        if unknown := [key for key in table if key not in keys]:
            raise self._wrong(where, f"unknown key `{unknown[0]}`; there is {', '.join(keys)}")

    def _text(self, key: str) -> str:
        value = self._keys[key]
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(key, f"{value!r} is no text")
        return value

    def _texts(self, key: str) -> list[str]:
        value = self._keys[key]
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self._wrong(key, "a list of names is needed")
        return value

    def _match(self, key: str, form: re.Pattern[str], words: str) -> str:
        value = self._text(key)
        if not form.fullmatch(value):
            raise self._wrong(key, f"`{value}`: {words} is needed")
        return value

    def _whole(self, value: Any, where: str, least: int, most: int) -> int:
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(where, f"{value!r}: a whole number from {least} to {most} is needed")
        return value

    def _wrong(self, where: str, why: str) -> ScenarioError:
        return ScenarioError(": ".join(filter(None, [str(self._file), where, why])))
