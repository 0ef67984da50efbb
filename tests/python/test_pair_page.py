"""The page of schedulers and controllers together: its figures by hand, and that a small one can be made."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pair
from conftest import SMALL
from weftway import _native
from weftway.fairness import Fairness, Goals, Request, Share, Short, Start
from weftway.fairness.settings import LOSSES, QUEUES, Link
from weftway.rank import cells
from weftway.runs import bounds

PAIRS = [(scheduler, cc) for scheduler in pair.SCHEDULERS for cc in (*pair.CONTROLLERS, pair.ORACLE)]


def costs(**of: float) -> dict[tuple[str, str], float]:
    """Costs of one cell: 100 ms of every pair but those that are named by their controller under min-RTT."""
    return {one: of.get(one[1], 100.0) if one[0] == "min-rtt" else 100.0 for one in PAIRS}


def test_a_pair_is_held_against_the_usual_one_and_the_bound() -> None:
    """200 over 100 ms in one cell and 50 over 100 in another: 1. Over bounds of 40 and 25 ms: 5 and 2, 3.5 in the
    median."""
    some = {"one": costs(bbr1=200.0), "two": costs(bbr1=50.0)}
    assert pair.ratio(some, ("min-rtt", "bbr1"))[0] == pytest.approx(1.0)
    value, *interval = pair.ratio({"one": some["one"]}, ("min-rtt", "bbr1"))
    assert value == pytest.approx(2.0) and interval == [None, None]
    assert pair.of_bound(some, {"one": 40.0, "two": 25.0}, ("min-rtt", "bbr1")) == 3.5


def test_the_cells_of_the_paper_stand_out() -> None:
    lines = pair.tables({"one": costs(cubic=125.0, oracle=80.0)}, {"one": 50.0})
    assert "geometric mean of 1 cell, " in lines[0]
    (first, second) = [line for line in lines if line.startswith("| `min-rtt`")]
    assert first == "| `min-rtt` | **1.25** | **1.00** | **1.00** | 1.00 | 1.00 | 1.00 | 1.00 | 0.80 |"
    assert second == "| `min-rtt` | **2.50** | **2.00** | **2.00** | 2.00 | 2.00 | 2.00 | 2.00 | 1.60 |"
    ours = [line for line in lines if line.startswith("| `earliest-delivery`")]
    assert ours and not any("**" in line for line in ours)


def test_a_line_says_what_a_controller_leaves_to_others() -> None:
    """With losses, the geometric mean of 2, 4 and 8 is 4; short flows take 1, 2 and 4 times as long: 2."""

    def shares(subflows: int, loss: str, *values: float) -> list[Share]:
        by_queue = zip(QUEUES, values, strict=True)
        return [Share("x", "cubic", subflows, queue, loss, one, one, one, 0.9, 19.0) for queue, one in by_queue]

    every = [*shares(1, LOSSES[0], 0.5, 1.0, 2.0), *shares(1, LOSSES[1], 2.0, 4.0, 8.0), *shares(2, LOSSES[0], 1, 2, 3)]
    short = [Short("x", queue, 90.0, 99.0, 0.1, 0.2, 2.0**at) for at, queue in enumerate(QUEUES)]
    starts = [Start("cubic", window, Link(5, 25), 100.0 + window, 300.0, 0.1) for window in (32, 10)]
    starts.append(Start("x", 10, Link(5, 25), 1.0, 1.0, 0.0))
    goals = [Goals("x", 1.0, 3.0, 0.5)]
    made = pair.left_to_others(Fairness(Request(), ["x"], [0], every, goals, short, starts, 1))
    assert made[4] == "| `x` | 0.50 | 1.00 | 2.00 | 4.00 | 1.00 | 2.00 | 3.00 | 1, 3 | 2.00 |"
    assert made[-3:] == ["|  | 10 | 32 |", "| --- | --- | --- |", "| 5 Mbit/s, 25 packets | 110, 300 | 132, 300 |"]


def test_cells_that_run_for_a_time_and_calls_are_left_out() -> None:
    drawn: list[Any] = [SimpleNamespace(workload=kind) for kind in ("bulk", "duration", "call", "datagrams")]
    assert [cell.workload for cell in pair.comparable(drawn)] == ["bulk", "datagrams"]


def test_every_pair_is_run_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    (cell,) = cells.read([str(file)], None, 1, "held-out")
    found, limits = pair.measured([cell], [0, 1], tmp_path / "out", 1)
    assert set(found["small"]) == set(PAIRS)
    assert all(cost / limits["small"] >= 1 and math.isfinite(cost) for cost in found["small"].values())

    def none(todo: list[Any], *more: Any) -> list[Any]:
        assert not todo
        return []

    monkeypatch.setattr(bounds, "controlled", none)
    assert pair.measured([cell], [0, 1], tmp_path / "out", 1)[0] == found


def test_losses_are_told_apart_and_the_made_part_has_a_line_of_each_controller(tmp_path: Path) -> None:
    """The paths of the small scenario lose 1 % and nothing: 1 %. BBRv1 costs half of CUBIC there."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    (cell,) = cells.read([str(file)], None, 1, "held-out")
    some = {"small": {**costs(), ("earliest-delivery", "bbr1"): 50.0}}
    assert (
        pair.by_random_loss(some, [cell])[-1]
        == "| 1 %, 1 cell | 1.00 | 0.50 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |"
    )
    made = pair.page()
    for entry in _native.controllers():
        assert made.count(f"\n| `{entry['name']}` |") == 1, "what it leaves to others"
    assert made.count("\n## ") == 1 and made.startswith("## ")
