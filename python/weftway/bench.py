"""`weft bench`: what the benchmark crate measures on this machine."""

import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

from weftway._native import ScenarioError, SimulationError
from weftway.scenario import source_tree

COMMAND = ("cargo", "run", "--release", "--quiet", "--package", "weftway-bench")


PARTS = ("simulator", "decisions", "learned", "environments")
"""What can be measured by itself."""


def measure(only: Sequence[str] = PARTS) -> dict[str, Any]:
    """Builds and runs the benchmark, which tells its progress on standard error; its figures by their stable names."""
    if unknown := [part for part in only if part not in PARTS]:
        raise ScenarioError(f"--only {unknown[0]}: there is {', '.join(PARTS)}")
    command = [*COMMAND, "--", "only", *only]
    done = subprocess.run(command, cwd=source_tree("`weft bench`"), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SimulationError(f"the benchmark failed: `{' '.join(command)}` ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def tables(figures: dict[str, Any]) -> list[Table]:
    """A table for each part that was measured."""
    makers: dict[str, Callable[[dict[str, Any]], Table]] = {
        "packets_per_cpu_second": engine_table,
        "decision_ns": decision_table,
        "learned_decision_us": learned_table,
        "environment": environment_table,
    }
    return [make(figures) for key, make in makers.items() if key in figures]


def engine_table(figures: dict[str, Any]) -> Table:
    """What the simulator does, a column per scenario."""
    others = ("decision_ns", "learned_decision_us", "environment")
    found = {name: value for name, value in figures.items() if name not in others}
    places = next(list(value) for value in found.values() if isinstance(value, dict))
    table = _table("the simulator", places)
    for name, value in found.items():
        values = [value[place] for place in places] if isinstance(value, dict) else [value]
        table.add_row(name.replace("_", " "), *map(_number, values))
    for place, value in figures["instructions_per_packet"].items():
        if place not in places:
            table.add_row(f"instructions per packet, {place}", _number(value))
    return table


def decision_table(figures: dict[str, Any]) -> Table:
    """What a decision costs, by scheduler and number of paths."""
    costs = figures["decision_ns"]
    places = list(next(iter(costs.values())))
    table = _table("ns per decision, by paths", places)
    for name, values in costs.items():
        table.add_row(name, *(_number(values[place]) for place in places))
    return table


def learned_table(figures: dict[str, Any]) -> Table:
    """What a decision of each shipped policy costs when it is due: what is seen, and the forward pass."""
    table = _table("µs per decision that is due, two paths", ["µs"])
    for name, value in figures["learned_decision_us"].items():
        table.add_row(name, _number(value))
    return table


def environment_table(figures: dict[str, Any]) -> Table:
    """What stepping costs, against the same runs with min-RTT inside."""
    found = figures["environment"]
    columns = list(next(iter(found.values())))
    table = _table("environments, by task", [name.replace("_", " ") for name in columns])
    for name, values in found.items():
        table.add_row(name, *(_number(values[column]) for column in columns))
    return table


def _table(title: str, places: list[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("")
    for place in places:
        table.add_column(place, justify="right")
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,g}" if value < 1000 else f"{value:,.0f}"
