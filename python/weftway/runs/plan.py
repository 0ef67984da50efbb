"""A comparison as a list of jobs: scheduler x controller x variant x seed, each of them pure."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

from weftway import _native
from weftway._native import Scenario, ScenarioError, Variant
from weftway.runs import backends, seeds, specs
from weftway.runs.backends import SIM
from weftway.runs.job import Job
from weftway.runs.specs import SchedulerSpec
from weftway.scenario import document, shown_path, variants


@dataclass(frozen=True)
class Plan:
    """A scenario and what is to be run of it, in the order of the table."""

    scenario: Scenario
    jobs: list[Job]
    named: list[str] = field(default_factory=list)
    """The schedulers that somebody named, where `all` brought others along."""

    @property
    def document(self) -> dict[str, Any]:
        """Facts that a reader of the results needs: the scenario's keys, and which schedulers were named."""
        return {**document(self.scenario), "named": self.named}


def plan(
    scenario: Scenario,
    scheduler: Any = None,
    cc: str | Iterable[str] | None = None,
    seed: seeds.Seeds = None,
    backend: str | Iterable[str] | None = None,
) -> Plan:
    """All jobs of a comparison. What is not given is the scenario's own.

    A backend may have schedulers of its own: the kernel has one, which runs once per controller and seed.
    """
    schedulers = specs.parse(scenario.schedulers if scheduler is None else scheduler)
    chosen_controllers = controllers(scenario.controllers if cc is None else cc)
    where = backends.parse(names(scenario.backends if backend is None else backend))
    for kind, chosen in (("scheduler", schedulers), ("controller", chosen_controllers), ("backend", where)):
        if not chosen:
            raise ScenarioError(f"no {kind} is named: there is nothing to run")
    codes = {place: backends.code(place) for place in where}
    numbers = scenario.seeds if seed is None else seeds.parse(seed)
    jobs = [
        Job(variant, scheduler, controller, place, number, f"{before}{number}{after}", code)
        for variant in variants(scenario)
        for place, code in codes.items()
        for controller in chosen_controllers
        for scheduler in backends.schedulers(place, schedulers)
        for before, after in [_around_seed(scenario, variant, scheduler, controller[0], place)]
        for number in numbers
    ]
    named = [scheduler.title for scheduler in schedulers if scheduler.is_named]
    return Plan(scenario, jobs, named if len(named) < len(schedulers) else [])


def replay(scenario: Scenario, variant: Variant, scheduler: SchedulerSpec, cc: str, backend: str, seed: int) -> str:
    """The command that runs one job again."""
    before, after = _around_seed(scenario, variant, scheduler, cc, backend)
    return f"{before}{seed}{after}"


def _around_seed(
    scenario: Scenario, variant: Variant, scheduler: SchedulerSpec, cc: str, backend: str
) -> tuple[str, str]:
    """Command that repeats a run, before and after the number of the seed."""
    sets = [f" --set {quoted(setting)}" for setting in [*scenario.sets, *variant.sets]]
    parts = ["weft run", quoted(shown_path(scenario.path)), f"--scheduler {quoted(scheduler.text)}", f"--cc {cc}"]
    return " ".join([*parts, *backends.options(backend), "--seed "]), "".join(sets)


def simulated(variant: Variant, scheduler: SchedulerSpec, cc: tuple[str, str], seed: int) -> Job:
    """Job of a run in the simulator."""
    command = replay(variant.scenario, variant, scheduler, cc[0], SIM.name, seed)
    return Job(variant, scheduler, cc, SIM.name, seed, command, SIM.code())


def quoted(text: str) -> str:
    """`text` as one word of a shell command."""
    plain = all(c.isalnum() or c in "-_./:=@%+," for c in text)
    return text if plain and text else "'" + text.replace("'", "'\\''") + "'"


def check_whole(what: str, number: object, least: int = 1, otherwise: str = "") -> None:
    """Refuses what is no whole number from `least` on; numpy has such numbers, too."""
    if not isinstance(number, SupportsIndex) or operator.index(number) < least:
        raise ScenarioError(f"{what} {number!r}: expected a whole number from {least} on{otherwise}")


def names(wanted: str | Iterable[str]) -> list[str]:
    """The names in a comma-separated list, or in several."""
    lists = [wanted] if isinstance(wanted, str) or not isinstance(wanted, Iterable) else list(wanted)
    for part in lists:
        if not isinstance(part, str):
            raise ScenarioError(f"{part!r}: expected a name, or a list of names")
    return [name.strip() for part in lists for name in part.split(",") if name.strip()]


def controllers(wanted: str | Iterable[str]) -> list[tuple[str, str]]:
    """Names of controllers with their switches, and their versions; `all` stands for the registry."""
    chosen: list[tuple[str, str]] = []
    for name in names(wanted):
        entries = [entry["name"] for entry in _native.controllers()] if name.lower() == "all" else [name]
        chosen += [_native.controller(entry) for entry in entries]
    return list(dict.fromkeys(chosen))
