"""Grid files: several scenarios, and what to run of each."""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weftway import scenario
from weftway._native import Scenario, ScenarioError
from weftway.files import reading, toml
from weftway.runs import plan
from weftway.runs.plan import Plan
from weftway.runs.specs import TITLED

SHARED = ("scheduler", "cc", "backend", "seeds", "set", "vary")
"""Keys that hold for every run if the grid says it at its top. A run's own replaces it; `set` and `vary` add to it."""

TOP = ("title", "description", *SHARED, "run")
OF_RUN = ("scenario", "name", *SHARED)

SCENARIOS_OWN = ("path", "workload", "transport")
"""A file with one of these at its top is a scenario, and no grid."""

TAKEN = ("..", "parts", "timelines", "figures", "rows.parquet", "report.html")
"""Names that no folder of a run can have: the sweep's own folder has these."""

IN_A_FILE = re.compile(r"(?P<file>.+\.py)(?P<rest>:\w+)")
SECTION = re.compile(r"^\s*\[")


@dataclass(frozen=True)
class Run:
    """A scenario of a grid."""

    name: str
    """Its folder's, under that of the sweep."""
    plan: Plan


@dataclass(frozen=True)
class Grid:
    """Scenarios that a sweep is to run."""

    title: str
    runs: list[Run]
    is_scenario: bool
    """True if the file was a scenario: its results then lie in the sweep's folder itself, as those of a comparison."""

    def folder(self, run: Run, out: Path) -> Path:
        """Folder that keeps a run's rows and its report."""
        return out if self.is_scenario else out / run.name


def read(name: str, seeds: str | None = None) -> Grid:
    """The grid in a file, or in one of ours; a scenario is a grid of one run. `seeds` replace all that it names."""
    file = locate(name)
    try:
        text = reading.text(file)
        top = tomllib.loads(text)
    except OSError as error:
        raise ScenarioError(f"{file}: the grid cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{file}: {error}") from error
    if any(key in top for key in SCENARIOS_OWN):
        loaded = Scenario.parse(text, str(file), str(file.parent))  # a pipe is read once
        return Grid(loaded.title, [Run(loaded.name, plan.plan(loaded, seed=seeds))], True)
    _known(file, "at the top of the grid", top, TOP)
    tables = top.get("run")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ScenarioError(f"{file}: a grid has one section [[run]] at least, with the `scenario` to run")
    runs = [_run(file, top, own, seeds) for own in tables]
    names = [run.name for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ScenarioError(f"{file}: two runs are called `{twice}`; give one of them a `name` of its own")
    return Grid(str(top.get("title", file.stem)), runs, False)


def locate(name: str) -> Path:
    """The file that `name` means: a path, a sweep of ours, or a scenario."""
    if Path(name).exists():
        return Path(name)
    ours = sorted(scenario.HOME.glob("sweeps/*.toml"))
    for candidate in ours:
        if name in (candidate.stem, f"sweeps/{candidate.name}"):
            return candidate
    if near := difflib.get_close_matches(Path(name).stem, [file.stem for file in ours], n=1):
        raise ScenarioError(f"no grid or scenario `{name}`; did you mean `{near[0]}`?")
    return Path(scenario.locate(name))


def _run(file: Path, top: dict[str, Any], own: dict[str, Any], seeds: str | None) -> Run:
    asked = own.get("scenario")
    if not isinstance(asked, str):
        raise ScenarioError(f"{file}: a [[run]] lacks its `scenario`, a file or the name of one of ours")
    where = f"in the [[run]] of `{asked}`"
    _known(file, where, own, OF_RUN)
    try:
        loaded = _scenario(file, asked, top, own)
        given = {key: _names(own.get(key, top.get(key)), key) for key in ("scheduler", "cc", "backend")}
        given["scheduler"] = [
            _beside_scheduler(file, scheduler) for name in given["scheduler"] for scheduler in plan.names(name)
        ]
        chosen = _seeds(own.get("seeds", top.get("seeds"))) if seeds is None else seeds
        # None at all: what the scenario names.
        wanted = plan.plan(loaded, given["scheduler"] or None, given["cc"] or None, chosen, given["backend"] or None)
        return Run(_name(own.get("name", loaded.name)), wanted)
    except ScenarioError as error:
        raise ScenarioError(f"{file}, {where}: {error}") from error


def _known(file: Path, where: str, given: dict[str, Any], keys: Iterable[str]) -> None:
    for key in given:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise ScenarioError(f"{file}: unknown key `{key}` {where}: there is {', '.join(keys)}{hint}")


def _scenario(file: Path, asked: str, top: dict[str, Any], own: dict[str, Any]) -> Scenario:
    path = _beside(file, asked)
    sets = [*_names(top.get("set"), "set"), *_names(own.get("set"), "set")]
    vary = {**_vary(top), **_vary(own)}
    plain = scenario.load(path if Path(path).exists() else asked, [] if vary else sets)
    if not vary:
        return plain
    folder = str(Path(plain.path).parent)
    return Scenario.parse(varied(plain.text, vary), plain.path, folder, sets)


def _beside(file: Path, name: str) -> str:
    """A file that is named from the folder of the grid."""
    return os.path.normpath(file.parent / name)


def _beside_scheduler(file: Path, name: str) -> str:
    title, equals, rest = name.partition("=") if TITLED.fullmatch(name) else ("", "", name)
    if (match := IN_A_FILE.fullmatch(rest)) and Path(beside := _beside(file, match["file"])).exists():
        return title + equals + beside + match["rest"]
    return name


def _names(given: Any, key: str) -> list[str]:
    """The texts of a list, or a single one."""
    names = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ScenarioError(f"`{key}` is a text or a list of texts")
    return names


def _seeds(given: Any) -> Any:
    is_list = isinstance(given, list) and all(type(seed) is int for seed in given)
    if given is None or isinstance(given, str) or type(given) is int or is_list:
        return given
    raise ScenarioError('`seeds` is a range "a..b" or a list of numbers')


def _vary(table: dict[str, Any]) -> dict[str, list[Any]]:
    values_of = table.get("vary", {})
    if not isinstance(values_of, dict) or not all(isinstance(values, list) for values in values_of.values()):
        raise ScenarioError('[vary] has lists of values under keys of the scenario: "path.wifi.loss" = ["0 %", "1 %"]')
    for key in ("scheduler", "cc"):
        if key in values_of:
            raise ScenarioError(f"`{key}` is no key of a grid's [vary]: give the list as `{key}`")
    return values_of


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name or Path(name).name != name or name in TAKEN:
        raise ScenarioError(f"`name` is that of a folder of the run's own, and `{name}` cannot be")
    return name


def varied(text: str, vary: dict[str, list[Any]]) -> str:
    """A scenario's text with more in its [vary]: keys that it has already get the new values."""
    whole = tomllib.loads(text)
    merged = {**whole.pop("vary", {}), **vary}
    lines = "".join(f"{toml.quoted(key)} = {toml.inline(values)}\n" for key, values in merged.items())
    return f"{_without_vary(text, whole)}\n[vary]\n{lines}"


def _without_vary(text: str, rest: dict[str, Any]) -> str:
    """The text with the section [vary] emptied, so that every other line keeps its number."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if SECTION.match(line)]
    sections = [(start, end) for start in starts for end in [*(at for at in starts if at > start), len(lines)]]
    for start, end in [(0, 0), *sections]:
        cut = "\n".join([*lines[:start], *[""] * (end - start), *lines[end:]])
        try:
            if tomllib.loads(cut) == rest:
                return cut
        except tomllib.TOMLDecodeError:
            continue  # a line of a list that begins with a bracket is no section
    raise ScenarioError("the scenario's [vary] is not a section of its own, so that nothing can be added to it")
