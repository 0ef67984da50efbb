"""Scheduler specs: what a name on the command line or in a call stands for.

A spec is an entry of the registry with its switches, or a class written in Python, or a policy file. `NAME=` before
it gives it a name of your choice for tables and figures.
"""

import hashlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from weftway import _native
from weftway._native import ScenarioError

UNKNOWN = "unknown"
"""The source of a class that its text does not decide."""

EVERY = "all"
"""In place of a name: the whole registry."""

FILE_ALONE = re.compile(r".+\.py:?")
POLICY = re.compile(r"(?P<file>[^:]+\.safetensors)(?P<switches>(:.*)?)")
IN_A_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)")
TITLED = re.compile(r"(?P<title>[^:=/]+)=(?P<rest>.+)")
PLAIN_TITLE = re.compile(r"\w([\w .+-]*\w)?")


@dataclass(frozen=True)
class SchedulerSpec:
    """A scheduler to run."""

    name: str
    """As backends take it: `ecf:beta=0.5`, `my_rules.py:MyRule`, `dqn:policy=p.safetensors`."""
    version: str
    """`ecf@1`; for a class in Python, its name and the beginning of its source's hash."""
    source: str | None = None
    """The sha256 of the source of a class in Python and of what it needs, or of the policy file of a learned scheduler,
    with those that it falls back on. `unknown` for a class that its text does not decide: it is run again, whatever is
    kept."""
    rule: type | None = None
    """The class in Python, if it is one."""
    is_named: bool = field(default=True, compare=False)
    """True if somebody named it, and did not say `all`."""
    given_title: str = ""
    """Name in tables and figures, where that is another: the user's own, or the stem of a policy file."""
    given_text: str = field(default="", compare=False)
    """Text that the command line takes for it, where that is another: `Mine=my_rules.py:MyRule`, `p.safetensors`."""

    @property
    def title(self) -> str:
        """Name in tables, figures and rows."""
        return self.given_title or self.name

    @property
    def text(self) -> str:
        """Text that the command line takes for it."""
        return self.given_text or self.name

    @property
    def is_own(self) -> bool:
        """Tells a class or a policy of the user's own."""
        return self.source is not None

    @property
    def scheduler(self) -> str:
        """Name without switches, but for the file of a policy: another file is another scheduler."""
        if self.rule is not None:
            return self.name
        name, *switches = self.name.split(":")
        return ":".join([name, *(one for one in switches if one.startswith("policy="))])


def parse(wanted: Any) -> list[SchedulerSpec]:
    """The specs that `wanted` names: a name, a list with commas, `all`, a class, a policy file, or several of these. A
    mapping also says what each is called in tables.

    Each is there once; it counts as named if it is named at all.
    """
    if isinstance(wanted, os.PathLike):
        wanted = os.fspath(wanted)
    if isinstance(wanted, str):
        names = [part.strip() for part in wanted.split(",") if part.strip()]
        schedulers = [scheduler for name in names for scheduler in _named(name)]
    elif isinstance(wanted, type):
        schedulers = [_of_class(wanted)]
    elif isinstance(wanted, Mapping):
        schedulers = [_titled(str(title), parse(item)) for title, item in wanted.items()]
    elif isinstance(wanted, Iterable):
        schedulers = [scheduler for item in wanted for scheduler in parse(item)]
    else:
        if callable(getattr(wanted, "select", None)):
            name = type(wanted).__name__
            raise ScenarioError(f"scheduler {wanted!r}: this is an instance; pass the class, `scheduler={name}`")
        raise ScenarioError(
            f"scheduler {wanted!r}: expected a name, a class with a method `select(self, cx)`, or several of them"
        )
    return distinct(schedulers)


def distinct(schedulers: Sequence[SchedulerSpec]) -> list[SchedulerSpec]:
    """Each once; refused if two have one name."""
    named = {scheduler.title for scheduler in schedulers if scheduler.is_named}
    once: dict[str, SchedulerSpec] = {}
    for scheduler in schedulers:
        before = once.setdefault(scheduler.title, scheduler)
        is_same = before.rule is scheduler.rule or IN_A_FILE.fullmatch(scheduler.name)
        if before.name != scheduler.name or not is_same:
            raise ScenarioError(
                f"scheduler `{scheduler.title}`: two have this name, so that a table would mix their rows; "
                "give one another name: `Name=…`"
            )
    return [replace(scheduler, is_named=scheduler.title in named) for scheduler in once.values()]


def _named(name: str) -> list[SchedulerSpec]:
    if name.lower() == EVERY:
        every = (scheduler for entry in _native.schedulers() for scheduler in _named(entry["name"]))
        return [replace(scheduler, is_named=False) for scheduler in every]
    # The name of a file may have the sign, too.
    if (match := TITLED.fullmatch(name)) and not Path(name.partition(":")[0]).is_file():
        return [_titled(match["title"].strip(), _named(match["rest"].strip()))]
    if match := IN_A_FILE.fullmatch(name):
        return [_from_file(Path(match["file"]), match["name"])]
    if FILE_ALONE.fullmatch(name):
        raise ScenarioError(_without_class(Path(name.removesuffix(":"))))
    if ".py:" in name:
        raise ScenarioError(f"scheduler `{name}`: the name of a class follows `.py:`, and nothing after it")
    if match := POLICY.fullmatch(name):
        file, switches = Path(match["file"]), match["switches"]
        run_as, version = _native.scheduler(runner(name))
        own = SchedulerSpec(run_as, version, policy_source(run_as), given_title=file.stem + switches, given_text=name)
        return [own if file.stem not in _registry() else replace(own, given_title=name)]
    return [SchedulerSpec(*_native.scheduler(name), policy_source(name))]


def _titled(title: str, schedulers: Sequence[SchedulerSpec]) -> SchedulerSpec:
    """A scheduler under a name of the user's own."""
    if len(schedulers) != 1:
        raise ScenarioError(f"scheduler `{title}=…`: one scheduler has a name, and these are {len(schedulers)}")
    if not PLAIN_TITLE.fullmatch(title) or title.lower() == EVERY:
        raise ScenarioError(f"scheduler `{title}=…`: a name has letters, digits, spaces and any of `_.+-`, as `Mine=…`")
    (scheduler,) = schedulers
    if title in _registry() and title != scheduler.name:
        raise ScenarioError(f"scheduler `{title}=…`: a scheduler of the registry has this name; choose another")
    return replace(scheduler, given_title=title, given_text=f"{title}={scheduler.text}")


def _registry() -> set[str]:
    return {entry["name"] for entry in _native.schedulers()}


def runner(name: str) -> str:
    """A policy file as the scheduler that runs it, by the algorithm on its card; every other name as it is."""
    match = POLICY.fullmatch(name)
    return f"{_native.Policy(match['file']).card['algorithm']}:policy={name}" if match else name


def _without_class(file: Path) -> str:
    """Message about a file's name alone: what to write in its place."""
    if not file.is_file():
        return f"scheduler `{file}`: there is no such file in {Path.cwd()}"
    module = _load(file)
    own = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]
    names = [f"{file}:{rule.__name__}" for rule in own if callable(getattr(rule, "select", None))]
    if not names:
        return f"scheduler `{file}`: the file defines no class with a method `select(self, cx)`"
    return f"scheduler `{file}`: name the class as well: {' or '.join(names)}"


def policy_source(spec: str) -> str | None:
    """The sha256 of the file that `policy=FILE` names in a scheduler's switches, if it names one, and of those on which
    it falls back."""
    digests: dict[Path, str] = {}
    while True:
        switches = dict(part.partition("=")[::2] for part in spec.split(":")[1:])
        file = Path(switches.get("policy", ""))
        if not file.is_file() or file in digests:
            return _joined(list(digests.values())) if digests else None
        digests[file] = _digest(file)
        try:
            spec = switches.get("fallback", "card")
            spec = _native.Policy(str(file)).card["fallback"] if spec == "card" else spec
        except (ScenarioError, KeyError):
            return _joined(list(digests.values()))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _joined(digests: Sequence[str]) -> str:
    """Digest of several digests; of a single one itself."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _from_file(file: Path, name: str) -> SchedulerSpec:
    try:
        source = _digest(file)
    except FileNotFoundError:
        raise ScenarioError(f"scheduler `{file}:{name}`: there is no such file in {Path.cwd()}") from None
    except OSError as error:
        raise ScenarioError(f"scheduler `{file}:{name}`: {error.strerror}") from error
    module = _load(file)
    rule = getattr(module, name, None)
    if not isinstance(rule, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type) and hasattr(value, "select")]
        there = f"; it has {', '.join(classes)}" if classes else ""
        raise ScenarioError(f"scheduler `{file}:{name}`: the file defines no class `{name}`{there}")
    folder = file.parent.resolve()
    return _checked(rule, f"{file}:{name}", _joined([source, *_imported(module, folder), *_data(rule, folder)]))


def _imported(module: ModuleType, folder: Path) -> list[str]:
    """The digests of the modules in `folder` that `module` has imported, and those that they have."""
    digests: dict[str, str] = {}
    todo = [module]
    while todo:
        for value in list(vars(todo.pop()).values()):
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            other = sys.modules.get(name) if isinstance(name, str) else None
            file = getattr(other, "__file__", None)
            if other is None or not file or file in digests or not _is_beside(Path(file).resolve(), folder):
                continue
            # Python does not import it again: what counts is its text when it was first looked at.
            digests[file] = vars(other).setdefault("__weftway_digest__", _digest(Path(file)))
            todo.append(other)
    return [digests[file] for file in sorted(digests)]


def _is_beside(file: Path, folder: Path) -> bool:
    """Tells if a module is the user's: in that folder, and neither installed nor a part of Weftway."""
    return (
        file.is_relative_to(folder)
        and "site-packages" not in file.parts
        and Path(__file__).parents[1] not in file.parents
    )


def _data(rule: type, folder: Path) -> list[str]:
    """The digests of the files that the class names as what it reads."""
    try:
        return [_digest(folder / name) for name in getattr(rule, "files", ())]
    except (OSError, TypeError) as error:
        raise ScenarioError(f"scheduler `{rule.__name__}`: its `files` have to be names of files: {error}") from error


class _FromText(SourceFileLoader):
    """Python keeps what it has compiled, and tells an edited file by its size and second: here the text counts."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _load(file: Path) -> ModuleType:
    """The module in `file`; what stands beside the file can be imported by it, as in a script."""
    loader = _FromText(file.stem, str(file))
    spec = importlib.util.spec_from_file_location(file.stem, file, loader=loader)
    assert spec is not None, "there is a loader"
    module = importlib.util.module_from_spec(spec)
    folder = str(file.parent.resolve())
    sys.path.insert(0, folder)
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ScenarioError(f"scheduler file `{file}`: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    return module


def _of_class(rule: type) -> SchedulerSpec:
    own = [cls for cls in rule.__mro__ if cls.__module__ != "builtins"]
    try:
        texts = [inspect.getsource(cls) for cls in own]
        folder = Path(inspect.getfile(rule)).parent
    except (OSError, TypeError):
        # Typed at a prompt: there is no text.
        return _checked(rule, rule.__name__, UNKNOWN)
    if any(map(_has_closure, own)):
        return _checked(rule, rule.__name__, UNKNOWN)
    # An attribute may have been set since.
    texts += [
        f"{name} = {value!r}" for cls in own for name, value in sorted(vars(cls).items()) if _is_plain(name, value)
    ]
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    return _checked(rule, rule.__name__, _joined([*digests, *_data(rule, folder)]))


def _has_closure(rule: type) -> bool:
    """Tells if a method uses variables of a function around it, but for `super()`."""
    own = [value.fget if isinstance(value, property) else value for value in vars(rule).values()]
    codes = [getattr(inspect.unwrap(method), "__code__", None) for method in own if callable(method)]
    return any(set(code.co_freevars) - {"__class__"} for code in codes if code)


def _is_plain(name: str, value: Any) -> bool:
    """Tells if an attribute has a value whose text says all."""
    if isinstance(value, tuple):
        return all(_is_plain(name, item) for item in value)
    return not name.startswith("__") and isinstance(value, bool | int | float | str | None)


def _checked(rule: type, name: str, source: str) -> SchedulerSpec:
    if not callable(getattr(rule, "select", None)):
        raise ScenarioError(f"scheduler `{name}`: the class has no method `select(self, cx)`")
    return SchedulerSpec(name, f"{rule.__name__}@{source[:8]}", source, rule)
