"""Timelines of runs say what their traces say."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import report_data as data
from conftest import Weft
from weftway import report
from weftway.report import compared
from weftway.report.study import study_of
from weftway.runs import comparison, plan
from weftway.scenario import load

Decision = tuple[int, str, int | None]


@pytest.mark.parametrize(("scheduler", "size"), [("ecf", "300 kB"), ("redundant", "300 kB"), ("ecf", "8 MB")])
def test_decisions_and_reasons_are_those_of_the_trace(
    weft: Weft, small: Path, tmp_path: Path, scheduler: str, size: str
) -> None:
    sets = f"workload.bytes={size}"
    done = weft("run", small, "--scheduler", scheduler, "--seed", "1", "--set", sets, "--events", "trace")
    assert done.returncode == 0, done.stderr
    record = timeline(small, scheduler, sets)
    # 8 MB over at most 15 Mbit/s take more than the four seconds after which steps of 10 ms become longer.
    assert (record["step_ms"] > 10) == (size == "8 MB")
    counts: Counter[Decision] = Counter()
    firsts: dict[Decision, str] = {}
    lines = (tmp_path / "trace").read_text().splitlines()
    for line in (line for line in lines if not line.startswith("#")):
        time, symbol, *words = line.split(maxsplit=6)
        if symbol == "?":
            path, answer, reason = words[0], words[1], words[4] if len(words) > 4 else ""
            kind = {"ahead": "send", "repeat": "copy"}.get(answer, answer)
            decision = (int(int(time) / 1e6 / record["step_ms"]), kind, int(path) if path.isdigit() else None)
            counts[decision] += 1
            firsts.setdefault(decision, reason)
    decisions = record["decisions"]
    assert counts == {decision: count for decision, count in stepwise(decisions) if count}
    assert {(step, kind, path): text for step, kind, path, text in decisions["reasons"]} == {
        decision: reason for decision, reason in firsts.items() if reason
    }


@pytest.mark.parametrize("sets", [["path.wifi.loss=100 %", "path.lte.loss=100 %"], ["time_limit=1ms"]])
def test_a_report_is_written_where_nothing_ever_happened(small: Path, tmp_path: Path, sets: list[str]) -> None:
    compared = comparison.execute(plan.plan(load(small, sets)), 1, watched_runs=4)
    assert compared.watched
    assert "Rate of each path" not in report.write(compared, tmp_path).read_text()


def test_runs_in_which_something_happened_are_shown_beside_others() -> None:
    whose = {"scheduler": "min-rtt", "cc": "cubic"}
    dead = {"text": json.dumps({"step_ms": 10.0, "paths": ["wifi"], "mbps": [[]]})}
    alive = data.timeline("min-rtt", "cubic", ["wifi"], 100)
    runs = {seed: {**record, **whose, "seed": seed} for seed, record in enumerate((dead, alive))}
    assert "One run each under cubic, seed 1" in report.render(data.rows(1, 1, 2), runs, data.scenario())


def stepwise(told: dict[str, Any]) -> list[tuple[Decision, int]]:
    """Each step's count of each kind of decision."""
    series: list[tuple[str, int | None, list[int]]] = [
        (kind, path, counts) for kind in ("send", "copy") for path, counts in enumerate(told[kind])
    ]
    series.append(("wait", None, told["wait"]))
    return [((step, kind, path), count) for kind, path, counts in series for step, count in enumerate(counts)]


def timeline(scenario: Path, scheduler: str, sets: str) -> dict[str, Any]:
    finished = comparison.execute(plan.plan(load(scenario, [sets]), scheduler, "newreno", "1..2", None), 1)
    ((whose, record),) = compared.timelines(finished, study_of(finished)).items()
    assert whose == (scheduler, "newreno", "", "1")
    timeline: dict[str, Any] = json.loads(record["text"])
    return timeline
