"""A further link: what a second modem would bring before it is bought."""

import difflib
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from weftway._native import Scenario, ScenarioError
from weftway.files import toml
from weftway.scenario import load, locate

KEYS = ("rate", "delay", "jitter", "loss", "queue")
"""Keys of a link that may be given. Those that are not are as the likest link has them."""


def base(scenario: str, added: Sequence[str]) -> Scenario | str:
    """The scenario's file, or the scenario with further links, each as `lte2.rate=15Mbit/s` gives it."""
    file = locate(scenario)
    if not added:
        return file
    plain = load(file)
    tables = _tables(tomllib.loads(plain.text), added)
    text = "".join(
        f"\n[path.{toml.key(name)}]\n" + "".join(f"{key} = {toml.inline(value)}\n" for key, value in keys.items())
        for name, keys in tables.items()
    )
    return Scenario.parse(f"{plain.text.rstrip()}\n{text}", plain.path, str(Path(plain.path).parent))


def words(scenario: str, added: Iterable[str]) -> str:
    """Description of the further links: what was given of them, and which link they are like in all else."""
    there = tomllib.loads(load(locate(scenario)).text)["path"]
    given: dict[str, list[str]] = {}
    for setting in added:
        name, key, value = _parts(setting)
        given.setdefault(name, []).append(f"{key} {value}")
    return "; ".join(f"{name} ({', '.join(keys)}; else as {_like(name, there)})" for name, keys in given.items())


def _tables(scenario: dict[str, Any], added: Iterable[str]) -> dict[str, dict[str, Any]]:
    there, tables = scenario["path"], dict[str, dict[str, Any]]()
    for setting in added:
        name, key, value = _parts(setting)
        if name in there:
            raise ScenarioError(
                f"--add {setting}: the scenario has a link `{name}`: --set path.{name}.{key} changes it"
            )
        like = there[_like(name, there)]
        table = tables.setdefault(name, {known: like[known] for known in KEYS if known in like})
        known, _, direction = key.partition(".")
        if direction:
            before = table.get(known)
            both = before if isinstance(before, dict) else {} if before is None else {"down": before, "up": before}
            table[known] = {**both, direction: value}
        else:
            table[known] = value
    return tables


def _parts(setting: str) -> tuple[str, str, str]:
    """Link, key and value of `lte2.rate=15Mbit/s`."""
    left, equals, value = setting.partition("=")
    name, _, key = left.strip().partition(".")
    known, _, direction = key.partition(".")
    if not (equals and value.strip() and toml.BARE.fullmatch(name)) or direction not in ("", "down", "up"):
        raise ScenarioError(f"--add {setting}: expected a link, a key and a value, as in lte2.rate=15Mbit/s")
    if known not in KEYS:
        raise ScenarioError(f"--add {setting}: the keys of a link are {', '.join(KEYS)}")
    return name, key, value.strip().strip('"')


def _like(name: str, there: Iterable[str]) -> str:
    """The link whose name is the likest; of none that is alike, the last."""
    names = list(there)
    return (difflib.get_close_matches(name, names, n=1) or names[-1:])[0]
