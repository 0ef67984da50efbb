"""Steers the running kernel's MPTCP by schedulers of the registry, through the priorities of its subflows."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from weftway import _native
from weftway._native import EmulationError, Scenario, ScenarioError, Variant
from weftway.runs import plan, seeds, specs
from weftway.runs.backends import KERNEL, SIM, Failed, Row, Skipped, result
from weftway.runs.backends.kernel import OWN_SCHEDULER
from weftway.runs.runner import Outcome, Progress, RowHandling, Runner, Wanted, Workers
from weftway.runs.specs import SchedulerSpec
from weftway.sample.quantities import quantity
from weftway.scenario import shown_path
from weftway.stats.estimates import Interval, interval_of_median, median, middle
from weftway.terminal.table import NOTHING, Table, numbers, plain, texts

MODES = ("exclusive", "preferred")

LABS = 3
"""Transfers beside one another: their links are slow, and a lab waits most of the time."""

POLL_S = 0.05
"""Wait of the main thread at a time: it answers an interrupt within this."""

LEAST_MS, MOST_MS = 5.0, 60_000.0


@dataclass(frozen=True)
class SteeringOptions:
    """Options of steering."""

    interval_ms: float = 100.0
    mode: str = "exclusive"

    def __post_init__(self) -> None:
        if not LEAST_MS <= self.interval_ms <= MOST_MS:
            raise ScenarioError(f"--interval {self.interval_ms:g}ms: from {LEAST_MS:g} ms to {MOST_MS / 1e3:g} s")
        if self.mode not in MODES:
            raise ScenarioError(f"--mode {self.mode}: there is {', '.join(MODES)}")


@dataclass(frozen=True)
class Transfer:
    """Transfer of the kernel's; without a scheduler nobody steers."""

    variant: Variant
    scheduler: SchedulerSpec | None
    cc: tuple[str, str]
    seed: int
    options: SteeringOptions

    @property
    def identity(self) -> Row:
        """Columns of a row before its results: which run it was, and of what."""
        scenario, steered, options = self.variant.scenario, self.scheduler, self.options
        cc, cc_version = self.cc
        return {
            "scenario": scenario.name,
            "scenario_hash": self.variant.hash,
            **self.variant.values,
            "backend": KERNEL.name,
            "transport": self.variant.transport,
            "scheduler": f"{steered.name} over {OWN_SCHEDULER}" if steered else OWN_SCHEDULER,
            "scheduler_version": steered.version if steered else None,
            "steer_interval_ms": options.interval_ms if steered else None,
            "steer_mode": options.mode if steered else None,
            "cc": cc,
            "cc_version": cc_version,
            "seed": self.seed,
            "code": f"{SIM.code()}, {KERNEL.code()}" if steered else KERNEL.code(),
            "command": self.command,
        }

    @property
    def command(self) -> str:
        """The command that repeats it; unsteered, the one that runs it on the kernel."""
        scenario, variant = self.variant.scenario, self.variant
        if self.scheduler is None:
            return plan.replay(scenario, variant, specs.parse(OWN_SCHEDULER)[0], self.cc[0], KERNEL.name, self.seed)
        sets = [f"--set {plan.quoted(setting)}" for setting in [*scenario.sets, *variant.sets]]
        interval, mode = self.options.interval_ms, self.options.mode
        name = plan.quoted(self.scheduler.name)
        parts = ["weft steer", plan.quoted(shown_path(scenario.path)), f"--scheduler {name}", f"--cc {self.cc[0]}"]
        return " ".join(
            [*parts, f"--interval {interval:g}ms", f"--mode {mode}", f"--seeds {self.seed}..{self.seed + 1}", *sets]
        )


def interval(text: str) -> float:
    """Milliseconds.

    >>> interval("100ms"), interval("0.05 s")
    (100.0, 50.0)
    """
    try:
        return float(quantity(text, "time", "--interval") / 10**6)
    except ScenarioError:
        raise ScenarioError(f"--interval {text}: expected a time such as 100ms or 0.1s") from None


def token(text: str | None) -> int | None:
    """A connection's token as `ss` prints it: hexadecimal, with or without 0x.

    >>> token("0xb2c1"), token("b2c1"), token("10"), token(None)
    (45761, 45761, 16, None)
    """
    if text is None:
        return None
    try:
        number = int(text, 16)
    except ValueError:
        number = -1
    if not 0 <= number < 2**32:
        raise ScenarioError(f"--token {text}: expected a hexadecimal number of 32 bits, for example 0x1f2e3d4c")
    return number


def steerers(wanted: Any) -> list[SchedulerSpec]:
    """The schedulers of `wanted`, all of which can steer; the first one that cannot is refused with its reason."""
    if not hasattr(_native, "steering_obstacle"):
        raise EmulationError(f"MPTCP can be steered on Linux only; this is {sys.platform}")
    schedulers = specs.parse(wanted)
    if not schedulers:
        raise ScenarioError("no scheduler is named: there is nothing to run")
    for scheduler in schedulers:
        why = (
            "a class in Python runs in the simulator only"
            if scheduler.rule
            else _native.steering_obstacle(scheduler.name)
        )
        if why:
            raise ScenarioError(f"{scheduler.name} cannot steer the kernel: {why}")
    return schedulers


def transfers(
    scenario: Scenario,
    schedulers: Iterable[SchedulerSpec],
    options: SteeringOptions,
    cc: str | None = None,
    seed: seeds.Seeds = None,
) -> list[Transfer]:
    """Every transfer: unsteered, then by each scheduler. What is compared runs one after the other."""
    names = plan.names(scenario.controllers if cc is None else cc)
    controllers = list(dict.fromkeys(_native.controller(name) for name in names))
    if not controllers:
        raise ScenarioError("no controller is named: there is nothing to run")
    numbers = scenario.seeds if seed is None else seeds.parse(seed)
    return [
        Transfer(variant, scheduler, controller, number, options)
        for variant in scenario.variants()
        for controller in controllers
        for number in numbers
        for scheduler in (None, *schedulers)
    ]


def run(
    wanted: list[Transfer], count: int = LABS, progress: Progress | None = None
) -> tuple[list[Row], list[Skipped[Transfer]]]:
    """The rows in the order of the transfers, and what could not be had. A failure stops the rest and is raised."""
    with Runner(None, progress, has_out=False) as runner:
        asked = (Wanted(transfer, None) for transfer in wanted)
        runs = runner.run(asked, labs(count), RowHandling(key=attrgetter("command")))
    return [row for _, row in runs], runs.skipped


def labs(count: int) -> Workers[Transfer]:
    """Labs of the kernel, so many beside one another."""
    return partial(_carried_out, count=count)


def _carried_out(todo: Sequence[Transfer], count: int) -> Iterator[Outcome[Transfer]]:
    waiting = list(todo)
    running: dict[_native.SteeredRun, Transfer] = {}
    try:
        while waiting or running:
            while waiting and len(running) < count:
                transfer = waiting.pop(0)
                running[_started(transfer)] = transfer
            time.sleep(POLL_S)
            for run, answer in [(run, run.told()) for run in running]:
                if answer is not None:
                    outcome = Outcome(running[run], result(running.pop(run), *answer))
                    if isinstance(outcome.result, Failed):
                        raise outcome.result.error
                    yield outcome
    finally:
        for run in running:
            run.cancel()


def _started(transfer: Transfer) -> "_native.SteeredRun":
    name = transfer.scheduler.name if transfer.scheduler else None
    preferred = transfer.options.mode == "preferred"
    return _native.SteeredRun(
        transfer.variant, name, transfer.cc[0], transfer.seed, transfer.options.interval_ms, preferred
    )


class Ratio(NamedTuple):
    """A median of ratios, and its interval, which `interval_of_median` names."""

    value: float
    within: Interval


def ratio(ours: dict[int, float], reference: dict[int, float]) -> Ratio | None:
    """The median over the seeds of ours over the reference's, with its interval; `None` without common seeds.

    Runs of a seed have the same draws of the links and run beside one another: what the seed and a busy machine do to
    all of them cancels.

    >>> ratio({0: 1.0, 1: 9.0}, {0: 2.0, 1: 18.0, 2: 1.0})
    Ratio(value=0.5, within=Interval(low=0.5, high=0.5))
    """
    ratios = [value / reference[seed] for seed, value in ours.items() if reference.get(seed)]
    median = middle(ratios)
    return Ratio(median.mean, Interval(median.low, median.high)) if median else None


SHOWN = {
    "goodput_mbps": ("goodput\nMbit/s", 1.0, 2),
    "fct_ms": ("completion\ns", 1e-3, 2),
    "message_p50_ms": ("half within\nms", 1.0, 1),
    "message_p95_ms": ("95 % within\nms", 1.0, 1),
    "deadline_miss_rate": ("too late\n%", 100.0, 2),
}
"""Columns of the table, left out where all are empty: the head, a factor, and the number of decimals."""

MESSAGES, BULK = "message_p95_ms", "goodput_mbps"
"""Measures to compare: the delay of messages where there are any, else the goodput."""


def table(rows: list[Row]) -> list[Table]:
    """A table per setting and controller: medians, and how they compare with the kernel's own."""
    settings = dict.fromkeys((row["scenario_hash"], row["cc"]) for row in rows)
    return [_table([row for row in rows if (row["scenario_hash"], row["cc"]) == setting]) for setting in settings]


def _table(rows: list[Row]) -> Table:
    own = [row for row in rows if row["steer_mode"] is None]
    measure = MESSAGES if any(row[MESSAGES] is not None for row in rows) else BULK
    shown = [name for name in SHOWN if any(row[name] is not None for row in rows)]
    lines = []
    for scheduler in dict.fromkeys(row["scheduler"] for row in rows):
        runs = [row for row in rows if row["scheduler"] == scheduler]
        values = [_median(runs, name) for name in shown]
        lines.append([scheduler + _unfit(runs), *values, *_compared(runs, own, measure)])
    heads = [*(SHOWN[name][0] for name in shown), "ratio\n", "switches\nper s", "asking\nµs", "look, order\nµs"]
    return plain(_title(rows, own, measure), [*texts("scheduler"), *numbers(*heads)], lines)


def _title(rows: list[Row], own: list[Row], measure: str) -> str:
    steered = next((row for row in rows if row["steer_mode"]), None)
    how = f", {steered['steer_mode']} every {steered['steer_interval_ms']:g} ms" if steered else ""
    what = "95 % delay (below 1: sooner)" if measure == MESSAGES else "goodput"
    runs = "median of one run" if len(own) == 1 else f"medians of {len(own)} runs"
    within = f" [{interval_of_median([len(own)]).removeprefix('half the ')}]" if len(own) > 1 else ""
    return f"{rows[0]['cc']}{how}, {runs}, ratio of {what} to {OWN_SCHEDULER}{within}"


def _median(runs: list[Row], name: str) -> str:
    _, factor, decimals = SHOWN[name]
    values = [row[name] for row in runs if row[name] is not None]
    return f"{median(values) * factor:.{decimals}f}" if values else NOTHING


def _unfit(runs: list[Row]) -> str:
    late = sum(bool(row["late"]) for row in runs)
    unfinished = sum(row["verdict"] != "finished" for row in runs)
    notes = [f"{late} late" if late else "", f"{unfinished} unfinished" if unfinished else ""]
    return f" ({', '.join(note for note in notes if note)})" if late or unfinished else ""


def _compared(runs: list[Row], own: list[Row], measure: str) -> list[str]:
    if runs[0]["steer_mode"] is None:
        return [NOTHING] * 4

    def known(of: list[Row]) -> dict[int, float]:
        return {row["seed"]: row[measure] for row in of if row[measure] is not None}

    switches = median([row["steer_switches"] / row["steer_ms"] * 1e3 for row in runs])
    mean = {name: median([row[f"steer_{name}"][1] for row in runs]) for name in ("questions", "looks", "orders")}
    compared = ratio(known(runs), known(own))
    text = f"{compared.value:.2f} [{compared.within.low:.2f}, {compared.within.high:.2f}]" if compared else NOTHING
    return [text, f"{switches:.1f}", f"{mean['questions']:.1f}", f"{mean['looks']:.0f}, {mean['orders']:.0f}"]


def live(scheduler: str, options: SteeringOptions, token: int | None, tell: Callable[[str], None]) -> Row:
    """Steers the connections of this namespace until SIGINT, SIGTERM or SIGHUP; then priorities are what they were."""
    schedulers = steerers(scheduler)
    if len(schedulers) != 1:
        raise ScenarioError(f"--live takes one scheduler, not {len(schedulers)}")
    # A shell's background job ignores SIGINT, a service manager sends SIGTERM, and a terminal that closes SIGHUP (which
    # `nohup` has ignored): all are to restore priorities.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    steering = _native.LiveSteering(schedulers[0].name, options.interval_ms, options.mode == "preferred", token)
    known: dict[int, str] = {}
    try:
        while (text := steering.connections(POLL_S)) is not None:
            connections = json.loads(text) or []
            lines = {connection["token"]: _line(connection) for connection in connections}
            for name, line in lines.items():
                if known.get(name) != line:
                    tell(line)
            for name in known.keys() - lines.keys():
                tell(f"{name:#010x}: gone")
            known = lines
    except KeyboardInterrupt:
        pass
    finally:
        report: Row = json.loads(steering.stop())
    return report


def _line(connection: dict[str, Any]) -> str:
    name = f"{connection['token']:#010x}"
    if connection["obstacle"]:
        return f"{name}: not steered: {connection['obstacle']}"
    ends = {f"{subflow['local']} to {subflow['remote']}": subflow["chosen"] for subflow in connection["subflows"]}
    chosen = next((text for text, is_chosen in ends.items() if is_chosen), None)
    return f"{name}: {len(ends)} subflows, {f'by {chosen}' if chosen else 'nothing chosen'}"


def summary(report: Row) -> list[str]:
    """Summary of a live steering, as lines."""
    costs = {name: report[f"steer_{name}"] for name in ("looks", "questions", "orders")}
    cost_lines = (
        f"{name}: {calls}, {mean:.1f} µs each, {most:.1f} µs at most" for name, (calls, mean, most) in costs.items()
    )
    error = report["steer_last_error"]
    return [
        f"{report['steer_ms'] / 1e3:.1f} s, {report['steer_connections']} connections: "
        f"{report['steer_decisions']} decisions, {report['steer_switches']} switches, "
        f"{report['steer_waits']} waits, {report['steer_faults']} decisions against the rules, "
        f"{report['steer_errors']} refusals by the kernel",
        *cost_lines,
        *([f"last: {error}"] if error else []),
        "priorities are what they were",
    ]
