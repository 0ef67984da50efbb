"""Scheduler specs: what a name on the command line or in a call stands for.

A spec is an entry of the registry with its switches, or a class written in Python.
"""

import hashlib
import importlib.util
import inspect
import os
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from weftway import _native
from weftway._native import ScenarioError

FILE_ALONE = re.compile(r".+\.py")
POLICY = re.compile(r"(?P<file>[^:]+\.safetensors)(?P<switches>(:.*)?)")
IN_A_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)")


@dataclass(frozen=True)
class SchedulerSpec:
    """One scheduler to run."""

    name: str
    """As the table shows it and the command line takes it: `ecf:beta=0.5`, `my_rules.py:MyRule`."""
    version: str
    """`ecf@1`; for a class in Python, its name and the beginning of its source's hash."""
    source: str | None = None
    """The sha256 of the source of a class in Python, or of the policy file that a learned scheduler is given."""
    rule: type | None = None
    """That class."""
    is_named: bool = field(default=True, compare=False)
    """Whether somebody named it, and did not say `all`."""


def parse(wanted: Any) -> list[SchedulerSpec]:
    """The specs that `wanted` names: a name, a list with commas, `all`, a class, a policy file, or several of these.

    Each is there once; it counts as named if it is named at all.
    """
    if isinstance(wanted, os.PathLike):
        wanted = os.fspath(wanted)
    if isinstance(wanted, str):
        names = [part.strip() for part in wanted.split(",") if part.strip()]
        found = [one for name in names for one in _named(name)]
    elif isinstance(wanted, type):
        found = [_of_class(wanted)]
    else:
        found = [one for item in wanted for one in parse(item)]
    named = {one for one in found if one.is_named}
    return [replace(one, is_named=one in named) for one in dict.fromkeys(found)]


def _named(name: str) -> list[SchedulerSpec]:
    if name.lower() == "all":
        every = (one for entry in _native.schedulers() for one in _named(entry["name"]))
        return [replace(one, is_named=False) for one in every]
    if match := IN_A_FILE.fullmatch(name):
        return [_from_file(Path(match["file"]), match["name"])]
    if FILE_ALONE.fullmatch(name):
        raise ScenarioError(_without_class(Path(name)))
    name = runner(name)
    return [SchedulerSpec(*_native.scheduler(name), policy_source(name))]


def runner(name: str) -> str:
    """A policy file as the scheduler that runs it, by the algorithm on its card; every other name as it is."""
    match = POLICY.fullmatch(name)
    return f"{_native.Policy(match['file']).card['algorithm']}:policy={name}" if match else name


def _without_class(file: Path) -> str:
    """What to write in place of a file's name alone."""
    if not file.is_file():
        return f"scheduler `{file}`: there is no such file in {Path.cwd()}"
    module = _load(file)
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    names = [f"{file}:{one.__name__}" for one in own if callable(getattr(one, "select", None))]
    if not names:
        return f"scheduler `{file}`: the file defines no class with a method `select(self, cx)`"
    return f"scheduler `{file}`: name the class as well: {' or '.join(names)}"


def policy_source(spec: str) -> str | None:
    """The sha256 of the file that `policy=FILE` names in a scheduler's switches, if it names one."""
    switches = dict(part.partition("=")[::2] for part in spec.split(":")[1:])
    file = Path(switches.get("policy", ""))
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def _from_file(file: Path, name: str) -> SchedulerSpec:
    try:
        source = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise ScenarioError(f"scheduler `{file}:{name}`: {error.strerror}") from error
    module = _load(file)
    rule = getattr(module, name, None)
    if not isinstance(rule, type):
        classes = [key for key, one in vars(module).items() if isinstance(one, type) and hasattr(one, "select")]
        there = f"; it has {', '.join(classes)}" if classes else ""
        raise ScenarioError(f"scheduler `{file}:{name}`: the file defines no class `{name}`{there}")
    return _checked(rule, f"{file}:{name}", source)


def _load(file: Path) -> ModuleType:
    """The module in `file`; what stands beside the file can be imported by it, as in a script."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ScenarioError(f"scheduler file `{file}`: not a Python file")
    module = importlib.util.module_from_spec(spec)
    folder = str(file.parent.resolve())
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ScenarioError(f"scheduler file `{file}`: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    return module


def _of_class(rule: type) -> SchedulerSpec:
    try:
        source = hashlib.sha256(inspect.getsource(rule).encode()).hexdigest()
    except (OSError, TypeError):
        # Typed at a prompt: there is no text. The name stands for it, and such rows are not resumed.
        source = "unknown"
    return _checked(rule, rule.__name__, source)


def _checked(rule: type, name: str, source: str) -> SchedulerSpec:
    if not callable(getattr(rule, "select", None)):
        raise ScenarioError(f"scheduler `{name}`: the class has no method `select(self, cx)`")
    return SchedulerSpec(name, f"{rule.__name__}@{source[:8]}", source, rule)
