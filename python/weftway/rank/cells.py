"""The cells of a ranking: drawn from a distribution, or read from scenario files."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weftway import _native, scenario
from weftway._native import Scenario, ScenarioError, Variant
from weftway.files import reading
from weftway.sample import distribution
from weftway.sample.distribution import Distribution

KINDS = ("workload", "cc", "stack", "failure", "paths")
"""By what cells are grouped."""

SHORT_BYTES = 5_000_000
"""A bulk transfer up to this size is over before windows have settled."""


@dataclass(frozen=True)
class Cell:
    """A scenario under one controller."""

    name: str
    """`world-held-out-1-7`, or the file's name."""
    variant: Variant
    cc: tuple[str, str]
    keys: dict[str, Any]
    """Dotted keys of the scenario and their values."""
    folder: str
    """Folder in which its traces are looked for, and above."""

    @property
    def workload(self) -> str:
        """The kind of its workload."""
        return str(self.keys.get("workload.kind"))

    @cached_property
    def paths(self) -> list[str]:
        """The names of the connection's paths."""
        names = dict.fromkeys(key.split(".")[1] for key in self.keys if key.startswith("path."))
        return [name for name in names if self.keys.get(f"path.{name}.connection") != "rival"]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Kind of the cell by each of `KINDS`."""
        stack = f" {self.keys.get('stack', 'v0.9x')}" if self.variant.transport == "mptcp" else ""
        fails = any(_fails(self.keys, name) for name in self.paths)
        return {
            "workload": self._workload_kind(),
            "cc": self.cc[0],
            "stack": self.variant.transport + stack,
            "failure": "a path fails" if fails else "no failure",
            "paths": f"{len(self.paths)} paths" if len(self.paths) > 1 else "1 path",
        }

    def _workload_kind(self) -> str:
        if self.workload != "bulk":
            return "video" if self.workload == "stream" else self.workload
        text = str(self.keys.get("workload.bytes"))
        is_short = distribution.number_of_bytes(text, "workload.bytes") <= SHORT_BYTES
        return "short bulk" if is_short else "long bulk"

    @cached_property
    def label(self) -> str:
        """Label for people: `wifi+geo, bulk 20 MB, mptcp v0.9x, lia, 512 KiB, a path fails`."""
        size = str(self.keys.get("workload.bytes", ""))
        buffer = self.keys.get("options.receive_buffer")
        parts = [
            "+".join(self.paths),
            f"{'video' if self.workload == 'stream' else self.workload} {size}".strip(),
            self.kinds["stack"],
            self.cc[0],
            *([str(buffer)] if buffer is not None else []),
            *(["a path fails"] if self.kinds["failure"] == "a path fails" else []),
        ]
        return ", ".join(parts)

    def singles(self) -> dict[str, Variant]:
        """By each of its paths, the same with the data on that path: the connection is opened as it is, and the other
        paths are backups. Nothing where there is one path."""
        if len(self.paths) < 2:
            return {}
        return {name: self._with_data_on(name) for name in self.paths}

    def with_set(self, *sets: str) -> Variant:
        """The same with more keys set."""
        own = self.variant.scenario
        (variant,) = Scenario.parse(own.text, own.path, self.folder, [*own.sets, *self.variant.sets, *sets]).variants()
        return variant

    def _with_data_on(self, path: str) -> Variant:
        roles = [f"path.{name}.role={'active' if name == path else 'backup'}" for name in self.paths]
        # It opens all paths as well, but would choose the backups itself.
        manager = self.keys.get("options.path_manager") == "backup"
        return self.with_set(*roles, *(["options.path_manager=full-mesh"] if manager else []))


def _fails(keys: dict[str, Any], path: str) -> bool:
    """Tells if the scenario has the path fail, or be away, for a time."""
    own = {key: value for key, value in keys.items() if key.startswith(f"path.{path}.")}
    return any("present" in key or ("schedule" in key and "down" in _states(value)) for key, value in own.items())


def _states(steps: Any) -> set[str]:
    return {str(step.get("state")) for step in steps if isinstance(step, dict)} if isinstance(steps, list) else set()


def read(
    on: Iterable[str], cells: int | None, seed: int, split: str, sets: Sequence[str] = (), out: Path | None = None
) -> list[Cell]:
    """The cells that `on` names: of a distribution so many, of folders all or the first so many, of scenario files
    all."""
    chosen: list[Cell] = []
    for name in on:
        there = _distribution(name)
        if there is not None:
            chosen += _drawn(there, DRAWN if cells is None else cells, seed, split, sets, out)
        else:
            some = [cell for file in _files(name) for cell in _of_file(file, sets)]
            chosen += some[:cells] if Path(name).is_dir() else some
    if not chosen:
        raise ScenarioError("no cell is named: there is nothing to rank on")
    return _told_apart(chosen)


DRAWN = 200
"""Cells of a distribution if nobody says how many."""


def _distribution(name: str) -> Distribution | None:
    """The distribution of that name, or in that file, if it is one."""
    file = Path(name)
    if file.is_dir():
        return None
    if not file.is_file():
        if any((scenario.HOME / place).is_file() for place in (name, f"scenarios/{name}.toml")):
            return None
        ours = distribution.names()
        scenarios = [file.stem for file in scenario.HOME.glob("scenarios/*.toml")]
        near = difflib.get_close_matches(name, [*ours, *scenarios], n=1)
        if name not in ours and near:
            raise ScenarioError(f"no distribution or scenario `{name}`; did you mean `{near[0]}`?")
        return distribution.load(name)
    try:
        keys = tomllib.loads(reading.text(file))
    except (OSError, ScenarioError, tomllib.TOMLDecodeError):
        return None  # said better by whoever reads scenarios
    return distribution.load(name) if distribution.is_one(keys) else None


def _drawn(
    there: Distribution, count: int, seed: int, split: str, sets: Sequence[str], out: Path | None
) -> Iterator[Cell]:
    for index in range(count):
        drawn = there.sample(seed, index, split)
        folder = there.folder
        if out is not None:
            folder = out / "cells"
            drawn.keep(folder, there.folder)
        variant = there.variant(drawn, sets, None if out is None else str(folder))
        keys = _with(drawn.values, variant)
        cc = _native.controller(str(keys.get("cc", distribution.USUAL_CC)))
        yield Cell(drawn.id, variant, cc, keys, str(folder))


def _files(name: str) -> list[str]:
    if not Path(name).is_dir():
        return [scenario.locate(name)]
    files = sorted(Path(name).glob("*.toml"), key=lambda file: [_numbered(part) for part in DIGITS.split(file.name)])
    if not files:
        raise ScenarioError(f"{name}: no scenario file (*.toml) in this folder")
    return [str(file) for file in files]


DIGITS = re.compile(r"(\d+)")


def _numbered(part: str) -> tuple[int, str]:
    """Numbers in names count as numbers: 2 before 10."""
    return (int(part), "") if part.isdigit() else (-1, part)


def _of_file(file: str, sets: Sequence[str]) -> Iterator[Cell]:
    loaded = scenario.load(file, sets)
    plain = distribution.flat(tomllib.loads(loaded.text))
    for variant in scenario.variants(loaded):
        for cc in loaded.controllers:
            choices = [f"{name}={value}" for name, value in variant.values.items()]
            several = [*choices, *([cc] if len(loaded.controllers) > 1 else [])]
            name = ", ".join([loaded.name, *several])
            yield Cell(name, variant, _native.controller(cc), _with(plain, variant), str(Path(file).parent))


def _with(keys: dict[str, Any], variant: Variant) -> dict[str, Any]:
    """The keys, with what is set."""
    given = (setting.partition("=") for setting in [*variant.scenario.sets, *variant.sets])
    return {**keys, **{name.strip(): value.strip().strip('"') for name, _, value in given}}


def _told_apart(cells: Sequence[Cell]) -> list[Cell]:
    names = [cell.name for cell in cells]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ScenarioError(f"two cells are called `{twice}`; name each scenario once")
    return list(cells)
