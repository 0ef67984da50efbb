"""Scenario files: finding and reading them."""

import difflib
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weftway import _native
from weftway._native import Scenario, ScenarioError

HOME = Path(__file__).resolve().parents[2]
"""The source tree, which holds the scenarios and experiments."""


def load(scenario: Scenario | str | os.PathLike[str], sets: Iterable[str] = ()) -> Scenario:
    """The scenario in a file, with some of its keys set."""
    if isinstance(scenario, Scenario):
        return scenario
    return Scenario.load(os.fspath(scenario), list(sets))


def locate(name: str) -> str:
    """The scenario file that `name` means: a path from here or from the source tree, or one of ours."""
    if not Path(name).exists():
        for candidate in (HOME / name, HOME / "scenarios" / f"{name}.toml"):
            if candidate.is_file():
                here = Path.cwd()
                return str(candidate.relative_to(here) if candidate.is_relative_to(here) else candidate)
        near = difflib.get_close_matches(Path(name).stem, [file.stem for file in HOME.glob("scenarios/*.toml")], n=1)
        raise ScenarioError(f"no scenario `{name}`; {f'did you mean `{near[0]}`?' if near else '`weft list` has ours'}")
    return name


RULE = ("summary", "goal", "application", "provenance", "reference")
"""What a reader of results wants to know of a scheduler."""


def document(scenario: Scenario) -> dict[str, Any]:
    """The file's keys as they stand there, and what a reader of the results needs besides."""
    entries = _native.schedulers()
    rules = {entry["name"]: {key: entry[key] for key in RULE} for entry in entries}
    extra = {"title": scenario.title, "file": scenario.path, "registry": list(rules), "rules": rules}
    return {**tomllib.loads(scenario.text), **extra}


def listed(kind: str, pattern: str) -> list[dict[str, Any]]:
    """The scenario files of the source tree that match, by name, with their titles."""
    found = []
    for file in sorted(HOME.glob(pattern)):
        title = tomllib.loads(file.read_text()).get("title", "")
        found.append({"kind": kind, "name": str(file.relative_to(HOME)), "summary": title})
    return found
