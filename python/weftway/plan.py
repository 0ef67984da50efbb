"""A comparison as a list of jobs: scheduler x controller x variant x seed, each of them pure."""

import difflib
import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weftway import _native, seeds
from weftway._native import Scenario, ScenarioError, Variant
from weftway.contender import Contender, contenders

BACKENDS = {
    "sim": "the deterministic simulator",
    "kernel": "MPTCP v1 and TCP of the running Linux kernel, over links emulated in real time",
}
"""What a scenario can run on, with a line about each."""

PLANNED = {"quic": "Multipath QUIC is not part of this version"}
"""What a scenario may name already, and why nothing runs there."""

EVERY_BACKEND = ("sim", "quic", "kernel")
"""What `all` means, here as in a scenario file. It includes what is planned, which is then told to be skipped."""

KERNELS_OWN = "linux-v1"
"""The kernel has one scheduler, and this is our name for it."""


@dataclass(frozen=True)
class Job:
    """One run. Its result depends on nothing else."""

    variant: Variant
    scheduler: Contender
    cc: tuple[str, str]
    backend: str
    seed: int
    command: str

    @cached_property
    def head(self) -> dict[str, Any]:
        """What a row says before its results: which run it was, and of what."""
        scenario = self.variant.scenario
        cc, cc_version = self.cc
        return {
            "scenario": scenario.name,
            "scenario_hash": self.variant.hash,
            **self.variant.values,
            "backend": self.backend,
            "transport": self.variant.transport,
            "scheduler": self.scheduler.name,
            "scheduler_version": self.scheduler.version,
            "scheduler_source": self.scheduler.source,
            "cc": cc,
            "cc_version": cc_version,
            "seed": self.seed,
            "code": code(self.backend),
            "command": self.command,
        }

    @cached_property
    def key(self) -> str:
        """The same for the same run of the same code, and for nothing else."""
        identity = {name: value for name, value in self.head.items() if name != "command"}
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def code(backend: str) -> str:
    """What decides a row's results besides the scenario: our sources, and for the kernel also its release."""
    return f"{_native.KERNEL_CODE}, Linux {platform.release()}" if backend == "kernel" else _native.CODE


@dataclass(frozen=True)
class Plan:
    """A scenario and what is to be run of it, in the order of the table."""

    scenario: Scenario
    jobs: list[Job]


def plan(
    scenario: Scenario,
    scheduler: Any = None,
    cc: str | Iterable[str] | None = None,
    seed: seeds.Seeds = None,
    backend: str | Iterable[str] | None = None,
) -> Plan:
    """All jobs of a comparison. What is not given is the scenario's own.

    On the kernel each controller runs once per seed, whichever schedulers are named: it has one.
    """
    schedulers = contenders(scenario.schedulers if scheduler is None else scheduler)
    own = contenders(KERNELS_OWN)
    controllers = _controllers(scenario.controllers if cc is None else cc)
    places = _backends(scenario.backends if backend is None else backend)
    for kind, found in (("scheduler", schedulers), ("controller", controllers), ("backend", places)):
        if not found:
            raise ScenarioError(f"no {kind} is named: there is nothing to run")
    numbers = scenario.seeds if seed is None else seeds.parse(seed)
    jobs = [
        Job(variant, one, controller, where, number, replay(scenario, variant, one, controller[0], where, number))
        for variant in scenario.variants()
        for where in places
        for controller in controllers
        for one in (own if where == "kernel" else schedulers)
        for number in numbers
    ]
    return Plan(scenario, jobs)


def replay(scenario: Scenario, variant: Variant, scheduler: Contender, cc: str, backend: str, seed: int) -> str:
    """The command that runs one job again."""
    sets = [f"--set {quoted(setting)}" for setting in [*scenario.sets, *variant.sets]]
    place = [] if backend == "sim" else [f"--backend {backend}"]
    parts = ["weft run", quoted(scenario.path), f"--scheduler {quoted(scheduler.name)}", f"--cc {cc}"]
    return " ".join([*parts, *place, f"--seed {seed}", *sets])


def quoted(text: str) -> str:
    """`text` as one word of a shell command."""
    plain = all(c.isalnum() or c in "-_./:=@%+," for c in text)
    return text if plain and text else "'" + text.replace("'", "'\\''") + "'"


def names(wanted: str | Iterable[str]) -> list[str]:
    """The names in a comma-separated list, or in several."""
    lists = [wanted] if isinstance(wanted, str) else wanted
    return [name.strip() for part in lists for name in part.split(",") if name.strip()]


def _controllers(wanted: str | Iterable[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name in names(wanted):
        entries = [entry["name"] for entry in _native.controllers()] if name.lower() == "all" else [name]
        found += [_native.controller(entry) for entry in entries]
    return list(dict.fromkeys(found))


def _backends(wanted: str | Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names(wanted):
        found += EVERY_BACKEND if name.lower() == "all" else [name.lower()]
    for name in found:
        if name not in EVERY_BACKEND:
            near = difflib.get_close_matches(name, EVERY_BACKEND, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else f": there is {', '.join(BACKENDS)}"
            raise ScenarioError(f"unknown backend `{name}`{hint}")
    return list(dict.fromkeys(found))
