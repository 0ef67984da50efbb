"""Entries of `weft list`."""

import difflib
import tomllib
from pathlib import Path
from typing import Any

from weftway import _native
from weftway._native import ScenarioError
from weftway.files import reading
from weftway.runs import probe
from weftway.runs.backends import BACKENDS, Backend
from weftway.scenario import HOME, listed

KINDS = ("scheduler", "controller", "backend", "scenario", "experiment", "distribution", "sweep")
"""Kinds of entries, in the order of the list."""


def entries() -> list[dict[str, Any]]:
    """Everything that can be named, each with its `kind`."""
    return [
        *({"kind": "scheduler", **entry} for entry in _native.schedulers()),
        *({"kind": "controller", **entry} for entry in _native.controllers()),
        *map(_backend, BACKENDS.values()),
        *listed("scenario", "scenarios/*.toml"),
        *listed("experiment", "experiments/*/*.toml"),
        *listed("distribution", "scenarios/distributions/*.toml"),
        *listed("sweep", "sweeps/*.toml"),
    ]


def kind(what: str) -> str | None:
    """The kind that `what` means, in the singular or the plural."""
    word = what.lower()
    return next((known for known in KINDS if word in (known, f"{known}s")), None)


def matching(what: str) -> list[dict[str, Any]]:
    """The entries of a kind, or those of a name or alias; files also go by their name alone."""
    every = entries()
    if wanted := kind(what):
        return [entry for entry in every if entry["kind"] == wanted]
    if what.endswith(".safetensors") and Path(what).is_file():
        return [_policy(what)]
    if named := [entry for entry in every if what.lower() in names(entry)]:
        return [_described(entry) if entry["kind"] in ("scenario", "experiment") else entry for entry in named]
    known = [name for entry in every for name in names(entry)]
    near = difflib.get_close_matches(what.lower(), [*known, *(f"{word}s" for word in KINDS)], n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the kinds are {', '.join(f'{word}s' for word in KINDS)}"
    raise ScenarioError(f"nothing is called `{what}`; {hint}")


def gated(some: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The schedulers of these entries: the name of what `runs` behind a gate in noq, or why it is `refused`."""
    names = [entry["name"] for entry in some if entry["kind"] == "scheduler"]
    if not names:
        raise ScenarioError("no scheduler: `--gate` says of schedulers which of them a gate takes")
    answers = [(name, *_native.behind_gate(name)) for name in names]
    return [{"kind": "scheduler", "name": name, "runs": runs, "refused": why} for name, runs, why in answers]


def _policy(file: str) -> dict[str, Any]:
    """A policy file: the scheduler that runs it, and its card."""
    card = dict(_native.Policy(file).card)
    return {"kind": "policy", "name": file, "summary": f"run by {card['algorithm']}", "card": card}


def _described(entry: dict[str, Any]) -> dict[str, Any]:
    """A scenario of ours with what it says of its paths and its workload, and the command that runs it."""
    name = entry["name"]
    keys = tomllib.loads(reading.text(HOME / name))
    paths = {path: _on_a_line(table) for path, table in keys.get("path", {}).items() if isinstance(table, dict)}
    short = Path(name).stem if entry["kind"] == "scenario" else name
    workload = _on_a_line(keys.get("workload", {}))
    measured = {"drive": _on_a_line(keys["drive"])} if "drive" in keys else {}
    facts = {"description": keys.get("description", "").strip(), **measured, "paths": paths, "workload": workload}
    return {**entry, **facts, "next": f"weft compare {short} --out out"}


def _on_a_line(keys: dict[str, Any]) -> str:
    """Keys and values on a line, as the file has them: `rate 30 Mbit/s, loss 0.5 %`."""
    return ", ".join(f"{key} {_value(value)}" for key, value in keys.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"({_on_a_line(value)})"
    if isinstance(value, list):
        return f"{len(value)} of them" if any(isinstance(item, dict) for item in value) else " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def short(entry: dict[str, Any]) -> str:
    """The name that people type: of a file, without its folder and its ending."""
    return Path(entry["name"]).stem if "/" in entry["name"] else str(entry["name"])


def names(entry: dict[str, Any]) -> list[str]:
    """Names that an entry goes by."""
    presets = [preset["name"] for preset in entry.get("presets", [])]
    file = [short(entry)] if "/" in entry["name"] else []
    return [entry["name"], *entry.get("aliases", []), *presets, *file]


def switches(entry: dict[str, Any]) -> list[str]:
    """Words for after an entry's name and `:`; the default stands for a number, or for what is no list of words."""
    return [
        f"{param['name']}={value}"
        for param in entry.get("params", ())
        for value in (param["values"].split(" | ") if " | " in param["values"] else [param["default"]])
    ]


def lacking(name: str) -> str | None:
    """Says what this machine lacks for `emulate` or a backend, and what would help; `None` if nothing."""
    return probe.missing(probe.LINKS) if name == "emulate" else BACKENDS[name].obstacle()


def _backend(backend: Backend) -> dict[str, Any]:
    missing = backend.obstacle()
    summary = f"{backend.summary}. Not on this machine: {missing}" if missing else backend.summary
    return {"kind": "backend", "name": backend.name, "summary": summary, "lacking": missing}
