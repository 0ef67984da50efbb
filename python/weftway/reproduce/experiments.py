"""The experiments of papers: their files, the readings of each, and the settings that are drawn.

`experiments/AUTHOR-YEAR/NAME.toml` is a figure or table. A file whose `base` is another one of the same folder
is a *reading* of it: the same claims on what else the text of the paper can mean.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weftway._native import Scenario, ScenarioError
from weftway.files import reading, toml
from weftway.sample.stream import Stream
from weftway.scenario import HOME, load

FOLDER = HOME / "experiments"


@dataclass(frozen=True)
class Experiment:
    """A file: a figure or table of a paper in one reading."""

    file: Path
    figure: str
    """The name of the file that it is a reading of, or its own."""

    @property
    def paper(self) -> str:
        return self.file.parent.name

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.file.stem}"

    @property
    def reading(self) -> str:
        """Name that tells it from the other readings; empty for the one that the others are based on."""
        return self.file.stem.removeprefix(self.figure).strip("-") if self.file.stem != self.figure else ""

    @cached_property
    def scenario(self) -> Scenario:
        """As the file has it."""
        return load(self._path)

    @cached_property
    def text(self) -> dict[str, Any]:
        """Its keys and those of its base."""
        return tomllib.loads(self.scenario.text)

    @property
    def _path(self) -> str:
        here = Path.cwd()
        return str(self.file.relative_to(here) if self.file.is_relative_to(here) else self.file)

    @property
    def published(self) -> dict[str, Any]:
        return dict(self.text.get("published", {}))

    @property
    def numbers(self) -> list[dict[str, Any]]:
        return list(self.published.get("values", []))

    @property
    def claims(self) -> dict[str, dict[str, Any]]:
        return dict(self.text.get("expect", {}))

    @property
    def is_exact(self) -> bool:
        """Tells if it is checked packet by packet, not by rows."""
        return any(claim["kind"] in ("schedule", "identical") for claim in self.claims.values())

    def set(self, choice: Mapping[str, Any]) -> Scenario:
        """The scenario with a drawn setting."""
        return load(self._path, [f"{key}={toml.setting(value)}" for key, value in choice.items()])

    def draw(self, count: int) -> list[dict[str, Any]]:
        """Draws so many settings of the keys that the paper leaves open: the same ones for the same file."""
        # Files of a paper that leave the same keys open draw the same settings: a claim may compare two of them.
        return list(draws(self.text.get("uncertain", {}), count, self.paper))


def draws(uncertain: Mapping[str, Any], count: int, seed: str) -> Iterator[dict[str, Any]]:
    """`count` settings, each with one of the values of every key; none where nothing is open."""
    if not uncertain:
        return
    for n in range(count):
        stream = Stream(f"{seed}:{n}")
        setting: dict[str, Any] = {}
        for keys, about in uncertain.items():
            value = stream.one_of(about["values"])
            names = [key.strip() for key in keys.split(",")]
            setting.update(zip(names, value if len(names) > 1 else [value], strict=True))
        yield setting


def find(wanted: Sequence[str] = (), folder: Path = FOLDER) -> list[Experiment]:
    """The experiments that are named: all, those of `PAPER`, or `PAPER/FIGURE` in all of its readings."""
    every = sorted((Experiment(file, figure(file)) for file in folder.glob("*/*.toml")), key=_order)
    chosen: list[Experiment] = []
    for name in wanted:
        some = [
            experiment
            for experiment in every
            if name in (experiment.paper, experiment.name, f"{experiment.paper}/{experiment.figure}")
        ]
        if not some:
            names = list(
                dict.fromkeys([*(experiment.paper for experiment in every), *(experiment.name for experiment in every)])
            )
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean `{near[0]}`?" if near else "`weft list experiments` has all"
            raise ScenarioError(f"no experiment `{name}`; {hint}")
        chosen += [experiment for experiment in some if experiment not in chosen]
    return chosen if wanted else every


def _order(experiment: Experiment) -> tuple[str, str, int, str]:
    """By paper and number; the reading that the others are based on goes first."""
    word, number = re.fullmatch(r"(.*?)(\d*)", experiment.figure).groups()  # type: ignore[union-attr]  # it matches anything
    return experiment.paper, word, int(number or 0), experiment.reading


def figure(file: Path) -> str:
    """The name of the file that `file` is a reading of; its own if it is none."""
    base = tomllib.loads(reading.text(file)).get("base")
    return figure(file.parent / base) if isinstance(base, str) and "/" not in base else file.stem
