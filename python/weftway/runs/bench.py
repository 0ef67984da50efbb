"""`weft bench`: what the benchmark crate measures on this machine."""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError, SimulationError
from weftway.runs import revision
from weftway.scenario import source_tree
from weftway.terminal.table import NOTHING, Column, Table, plain, wrapped

COMMAND = ("cargo", "run", "--release", "--quiet", "--package", "weftway-bench")


NOTES = ".weft/bench.jsonl"
"""File of the measurements, below the source tree; git ignores it."""

PER_PACKET, PER_SECOND = "instructions_per_packet", "packets_per_cpu_second"
"""Two figures of the simulator by their names."""

MOST_SHOWN = 8
"""Measurements in the history that is printed."""

ENGINE = {
    "packets_per_cpu_second": "delivered packets a second of CPU time, under min-RTT",
    "bare_loop_packets_per_cpu_second": "the same of a loop over two queues that does nothing else",
    "ratio_to_bare_loop": "the first over the second: what the transport costs",
    "events_per_packet": "calendar events a delivered packet",
    "peak_memory_mb": "the most memory of all these runs, in MB",
}
"""Figures of the simulator, and what each is."""

STEPPING = {
    "steps_per_cpu_second": "decisions of an agent a second of CPU time",
    "packets_per_cpu_second": "delivered packets a second of CPU time meanwhile",
    "packets_per_step": "delivered packets between two decisions",
    "ratio_to_raw": "packets a second over those of the simulator with min-RTT inside",
    "ratio_to_replay": "the same over a replay of the same decisions (aim: 0.95)",
    "instructions_per_packet": "counted by callgrind; its budget is checked by `./test`",
    "ratio_to_replay_in_instructions": "those of the replay over those stepped (aim: 0.95)",
}
"""Figures of an environment, and what each is."""

PARTS = ("simulator", "decisions", "learned", "environments")
"""Parts that can be measured by themselves."""


def measure(only: Sequence[str] = PARTS) -> dict[str, Any]:
    """Builds and runs the benchmark, which tells its progress on standard error; its figures by their stable names.

    They are noted in the source tree, with the commit."""
    if unknown := [part for part in only if part not in PARTS]:
        raise ScenarioError(f"--only {unknown[0]}: there is {', '.join(PARTS)}")
    root = source_tree("`weft bench`")
    command = [*COMMAND, "--", "only", *only]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SimulationError(f"the benchmark failed: `{' '.join(command)}` ended with status {done.returncode}")
    figures: dict[str, Any] = json.loads(done.stdout)
    note(root, figures)
    return figures


def note(root: Path, figures: dict[str, Any]) -> None:
    """Keeps what was measured, with the commit that it was measured on."""
    file = root / NOTES
    file.parent.mkdir(exist_ok=True)
    with file.open("a", encoding="utf-8") as notes:
        notes.write(json.dumps({**commit(root), "figures": figures}) + "\n")


def commit(root: Path) -> dict[str, Any]:
    """The commit that is checked out, its day, and whether files differ from it; nothing is known without git."""
    try:
        commit = revision.git(root, "show", "--no-patch", "--format=%h %cs", "HEAD")
        changed = revision.git(root, "status", "--porcelain", "--untracked-files=no")
    except ScenarioError:
        commit = changed = None
    name, _, day = (commit or "").partition(" ")
    return {"commit": name or None, "day": day or None, "changed": bool(changed)}


def history() -> list[dict[str, Any]]:
    """Measurements that were noted in this source tree, oldest first."""
    file = source_tree("`weft bench`") / NOTES
    if not file.is_file():
        raise ScenarioError("--history: nothing was measured here; `weft bench` measures, and notes it by commit")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def history_table(noted: Sequence[dict[str, Any]]) -> Table:
    """A column per measurement, the latest on the right: instructions a packet, which do not depend on the machine, and
    packets a second, which do."""
    shown = [entry for entry in noted if PER_PACKET in entry["figures"]][-MOST_SHOWN:]
    heads = [
        f"{entry['commit'] or 'no commit'}{'+' if entry['changed'] else ''}\n{entry['day'] or ''}" for entry in shown
    ]
    rows = []
    for name in dict.fromkeys(name for entry in shown for name in entry["figures"][PER_PACKET]):
        rows.append([name, *(_number(entry["figures"][PER_PACKET].get(name)) for entry in shown)])
    for name in dict.fromkeys(name for entry in shown for name in entry["figures"].get(PER_SECOND, {})):
        speeds = [entry["figures"].get(PER_SECOND, {}).get(name) for entry in shown]
        millions = (_number(speed and round(speed / 1e6, 2)) for speed in speeds)
        rows.append([f"{name}: million packets a CPU-second", *millions])
    return plain("instructions per packet, by commit (+: with changes)", _columns(heads), rows)


def tables(figures: dict[str, Any]) -> list[Table]:
    """A table for each part that was measured, and one of what is counted."""
    makers: dict[str, Callable[[dict[str, Any]], Table]] = {
        "packets_per_cpu_second": engine_table,
        "instructions_per_packet": instruction_table,
        "decision_ns": decision_table,
        "learned_decision_us": learned_table,
        "environment": environment_table,
    }
    return [make(figures) for key, make in makers.items() if key in figures]


def engine_table(figures: dict[str, Any]) -> Table:
    """Speed and memory of the simulator, a column per scenario."""
    places = list(figures["packets_per_cpu_second"])
    rows = []
    for name in (name for name in ENGINE if name in figures):
        value, budget = figures[name], _number(figures.get(f"{name}_budget"))
        values = [value[place] for place in places] if isinstance(value, dict) else [value] + [None] * (len(places) - 1)
        rows.append([name.replace("_", " "), *map(_number, values), budget, ENGINE[name]])
    return plain("the simulator", _columns([*places, "budget"], MEANING), rows)


def instruction_table(figures: dict[str, Any]) -> Table:
    """Instructions of a delivered packet, counted by callgrind, beside what it may cost and what it should."""
    rows = []
    for name, value in figures["instructions_per_packet"].items():
        case = figures["cases"][name]
        rows.append([name, *map(_number, (value, case["budget"], case["aim"])), case["what"]])
    caption = "Above its budget, `./test` fails. Without valgrind nothing is counted."
    return plain("instructions per packet", _columns(["measured", "budget", "aim"], MEANING), rows, caption)


def decision_table(figures: dict[str, Any]) -> Table:
    """Time of a decision, by scheduler and number of paths."""
    costs = figures["decision_ns"]
    places = list(next(iter(costs.values())))
    rows = [[name, *(_number(values[place]) for place in places)] for name, values in costs.items()]
    caption = "One answer to the question which path takes the next packet, without the simulator. No budget."
    return plain("ns per decision, by paths", _columns(places), rows, caption)


def learned_table(figures: dict[str, Any]) -> Table:
    """Time of a decision of each shipped policy when it is due: the observation, and the forward pass."""
    rows = [[name, _number(value)] for name, value in figures["learned_decision_us"].items()]
    caption = "The observation and the forward pass of a shipped policy. No budget."
    return plain("µs per decision that is due, two paths", _columns(["µs"]), rows, caption)


def environment_table(figures: dict[str, Any]) -> Table:
    """Cost of stepping, a line per figure."""
    environments = figures["environment"]
    rows = [
        [name.replace("_", " "), *(_number(values[name]) for values in environments.values()), STEPPING[name]]
        for name in next(iter(environments.values()))
    ]
    return plain("environments, by task", _columns(list(environments), MEANING), rows)


MEANING = "what it is"


def _columns(places: Sequence[str], *more: str) -> list[Column]:
    return [*wrapped(""), *(Column(place, right=True, wraps=True) for place in places), *wrapped(*more)]


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,g}" if value < 1000 else f"{value:,.0f}"
