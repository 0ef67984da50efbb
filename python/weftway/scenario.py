"""Scenario files: finding and reading them."""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from weftway import _native
from weftway._native import Scenario, ScenarioError, Variant
from weftway.files import reading, toml

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]
_INSTALLED = _PACKAGE / "data"

HOME = _CHECKOUT if (_CHECKOUT / "crates/py/Cargo.toml").is_file() else _INSTALLED
"""The folder with `scenarios`, `sweeps`, `traces`, `experiments` and `board`: the root of a checkout, or a folder of
the installed package, which has the same ones."""


def source_tree(what: str) -> Path:
    """The root of the checkout, without which `what` cannot be done."""
    if HOME == _INSTALLED:
        raise ScenarioError(
            f"{what} needs the source tree, and this is an installed package: `git clone "
            "https://github.com/weftway/weftway`, then the same command there as `./weft …`"
        )
    return HOME


def load(scenario: Scenario | str | os.PathLike[str], sets: Iterable[str] | Mapping[str, Any] = ()) -> Scenario:
    """The scenario in a file, or one of ours by its name, with some of its keys set."""
    if isinstance(scenario, Scenario):
        return _with(scenario, settings(sets))
    if not isinstance(scenario, (str, os.PathLike)):
        raise ScenarioError(f"scenario {scenario!r}: expected a file, the name of one of ours, or a `Scenario`")
    file = Path(locate(os.fspath(scenario)))
    if file.is_file():
        return Scenario.load(str(file), settings(sets))
    # A pipe may stay silent: Ctrl-C ends what waits in Python.
    return Scenario.parse(reading.text(file), str(file), str(file.parent), settings(sets))


def _with(scenario: Scenario, sets: list[str]) -> Scenario:
    """The scenario with more of its keys set. What it was read from is what a pickle of it has."""
    if not sets:
        return scenario
    source: tuple[str, str, os.PathLike[str], list[str], str] = scenario.__reduce__()[1]  # type: ignore[assignment]
    text, name, folder, before, _ = source
    return Scenario.parse(text, name, os.fspath(folder), [*before, *sets])


def variants(scenario: Scenario) -> list[Variant]:
    """Its settings, each once: a value that is given twice is one setting."""
    return list({(variant.hash, str(variant.values)): variant for variant in scenario.variants()}.values())


def settings(sets: Iterable[str] | Mapping[str, Any]) -> list[str]:
    """Keys and their values as `--set` has them: from `{"path.lte.loss": "2 %"}` as from `["path.lte.loss=2 %"]`."""
    if isinstance(sets, Mapping):
        return [f"{key}={toml.setting(value)}" for key, value in sets.items()]
    texts: list[Any] = list(sets) if isinstance(sets, Iterable) and not isinstance(sets, str) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise ScenarioError(f'set: expected {{"KEY": VALUE}} or a list of "KEY=VALUE", and got {sets!r}')
    return texts


def locate(name: str) -> str:
    """The scenario file that `name` means: a path from here or from the source tree, or one of ours."""
    if Path(name).is_dir():
        raise ScenarioError(f"{name}: a folder, where a scenario file is expected{_example_in(Path(name))}")
    if Path(name).exists():
        return name
    for candidate in (HOME / name, HOME / "scenarios" / f"{name}.toml"):
        if candidate.is_file():
            here = Path.cwd()
            return str(candidate.relative_to(here) if candidate.is_relative_to(here) else candidate)
    near = difflib.get_close_matches(Path(name).stem, [file.stem for file in HOME.glob("scenarios/*.toml")], n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`weft list scenarios` has ours"
    if name.endswith(".toml") or os.sep in name:
        raise ScenarioError(f"there is no file `{name}` in {Path.cwd()}; {hint}")
    raise ScenarioError(f"no scenario is called `{name}`, and there is no such file; {hint}")


def trace_file(name: str, folder: Path) -> Path | None:
    """The trace or drive file that a scenario in `folder` names: there, or in the nearest folder above it."""
    base = folder.absolute()
    return next((place / name for place in (base, *base.parents) if (place / name).is_file()), None)


def shown_path(path: str) -> str:
    """Path of a scenario's file as commands and rows show it: one of ours begins at the source tree, where it is found
    from everywhere, not at the root of this machine."""
    file = Path(path)
    return str(file.relative_to(HOME)) if file.is_absolute() and file.is_relative_to(HOME) else path


def _example_in(folder: Path) -> str:
    """Names the first scenario in a folder, as a hint."""
    first = next(iter(sorted(folder.glob("*.toml"))), None)
    return f", for example {first}" if first else ""


RULE = ("summary", "goal", "application", "provenance", "reference")
"""Facts of a scheduler that a reader of results wants to know."""


def document(scenario: Scenario) -> dict[str, Any]:
    """The file's keys with the values that were set, and what a reader of the results needs besides."""
    entries = _native.schedulers()
    rules = {entry["name"]: {key: entry[key] for key in RULE} for entry in entries}
    extra = {"title": scenario.title, "file": shown_path(scenario.path), "registry": list(rules), "rules": rules}
    return {**tomllib.loads(scenario.text_as_set), **extra}


def listed(kind: str, pattern: str) -> list[dict[str, Any]]:
    """The scenario files of the source tree that match, by name, with their titles."""
    records = []
    for file in sorted(HOME.glob(pattern)):
        title = tomllib.loads(reading.text(file)).get("title", "")
        records.append({"kind": kind, "name": str(file.relative_to(HOME)), "summary": title})
    return records
