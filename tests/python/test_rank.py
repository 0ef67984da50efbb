"""Ranking: what runs cost, who is how good, worked by hand; and the command."""

import base64
import io
import json
import math
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import RANDOM_PATHS, SMALL, SMALL_LOADS, Weft
from ends import PATIENCE_S, wait_until
from test_report import check
from weftway import fairness, rank
from weftway._native import ScenarioError
from weftway.rank import cells, costs, page, ranking, standing
from weftway.rank.standing import JudgedCell, halves, judged, picked
from weftway.runs import bounds, runner, specs, store
from weftway.runs.runner import Interrupted

WORLD = (
    """\
title = "A small world"
transport = "mptcp"
cc = ["cubic", "bbr1"]
time_limit = "20 s"
order = "drawn"

"""
    + RANDOM_PATHS
    + """
[failure]
sometimes = "50 %"
at = "100 ms"
lasts = "200 ms"

"""
    + SMALL_LOADS
)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    file = tmp_path / "small-world.toml"
    file.write_text(WORLD)
    return file


def row(**more: Any) -> dict[str, Any]:
    """Row of a run, as far as its cost needs it."""
    usual = {
        "verdict": "finished",
        "fct_ms": 2500.0,
        "elapsed_ms": 2500.0,
        "delivered_bytes": 1_000_000,
        "message_p95_ms": 95.0,
        "message_p99_ms": 99.0,
        "copies": 5,
        "path.a.packets": 60,
        "path.b.packets": 40,
    }
    return costs.needed({**usual, **more})


@pytest.mark.parametrize(
    ("workload", "expected"),
    [("bulk", 2500.0), ("limited", 2500.0), ("messages", 99.0), ("stream", 99.0), ("request-response", 95.0)],
)
def test_a_run_costs_what_its_workload_is_about(workload: str, expected: float) -> None:
    assert costs.cost(row(), workload) == expected


def test_datagrams_cost_what_is_late_or_lost_of_a_thousand_and_at_least_one() -> None:
    shares = [0.0, 0.0004, 0.02]
    assert [costs.cost(row(deadline_miss_rate=share), "datagrams") for share in shares] == [1.0, 1.0, 20.0]
    cut = row(deadline_miss_rate=0.02, verdict="time limit")
    assert costs.cost(cut, "datagrams") == 1000.0


def test_a_run_without_end_costs_the_time_of_a_megabyte() -> None:
    """2.5 s for 5 MB are 500 ms for one. Nothing delivered counts as a kilobyte: 2.5 s for it."""
    assert costs.cost(row(delivered_bytes=5_000_000), "duration") == 500.0
    assert costs.cost(row(delivered_bytes=0), "duration") == 2_500_000.0


@pytest.mark.parametrize("workload", ["bulk", "messages", "stream", "request-response"])
def test_a_run_that_does_not_finish_costs_its_time_limit(workload: str) -> None:
    cut = row(verdict="time limit", fct_ms=None, elapsed_ms=300_000.0)
    assert costs.cost(cut, workload) == 300_000.0


def test_copies_are_a_share_of_all_packets() -> None:
    assert costs.copies_share(row()) == 0.05
    assert costs.copies_share(row(copies=None)) == 0.0
    assert costs.needed(row()) == row(), "what was kept is as good as what was run"


def test_seeds_are_split_in_turn() -> None:
    assert halves(4) == ([0, 2], [1, 3])
    assert halves(3) == ([0, 2], [1])


def test_who_is_cheaper_on_the_mean_is_picked() -> None:
    assert picked({"a": [9.0, 1.0, 9.0, 1.0], "b": [5.0, 5.0, 5.0, 5.0]}, [1, 3]) == "a"
    assert picked({"a": [9.0, 1.0, 9.0, 1.0], "b": [5.0, 5.0, 5.0, 5.0]}, [0, 2]) == "b"
    assert picked({"b": [1.0, 1.0], "a": [1.0, 1.0]}, [0]) == "b", "the first of equals"


def test_ratios_are_judged_on_the_seeds_that_did_not_pick() -> None:
    """Picked on the even places: a (10 against 20), which costs 40 on the odd ones, where b costs 20. Picked on the odd
    ones: b, which costs 20 on the even ones, where a costs 10. So a has the ratios 40/40 and 10/20, and b 20/40 and
    20/20: both (1 · ½)^½ = 0.707. The candidate c costs 30 everywhere: 30/40 and 30/20, (¾ · 3/2)^½ = 1.0607."""
    field = {"a": [10.0, 40.0, 10.0, 40.0], "b": [20.0] * 4}
    ratios = judged({**field, "c": [30.0] * 4}, field)
    assert ratios == pytest.approx({"a": math.sqrt(0.5), "b": math.sqrt(0.5), "c": math.sqrt(9 / 8)})


def test_the_single_path_is_picked_as_the_chooser_picks() -> None:
    """Of the paths p is picked on the even places and q on the odd ones; p then costs 8 where the chooser costs 2, and
    q costs 4 where it costs 1: (4 · 4)^½. Over cells, 4 and 0.9: the geometric mean is 3.6^½, and one of the two has a
    path that is better by more than 5 %."""
    paths = {"p": [1.0, 8.0], "q": [4.0, 2.0]}
    assert standing.judged_pick(paths, {"a": [1.0, 2.0]}) == pytest.approx(4.0)
    assert standing.judged_pick({}, {"a": [1.0, 2.0]}) is None
    some = [JudgedCell("one", {}, {}, {}, 4.0), JudgedCell("two", {}, {}, {}, 0.9), JudgedCell("three", {}, {}, {})]
    single = standing.single_path(some)
    assert single is not None and (single.cells, single.better_share) == (2, 0.5)
    assert single.ratio == pytest.approx(3.6**0.5)
    assert standing.single_path(some[2:]) is None


def test_costs_are_multiples_of_the_bound() -> None:
    """Means of 20 and 40 over a mean bound of 10. Of two cells with 2 and 5 the median is 3.5; one without a bound does
    not count, nor do the seeds of a cell of which one has none."""
    assert standing.of_bound({"a": [10.0, 30.0], "b": [40.0, 40.0]}, [8.0, 12.0]) == {"a": 2.0, "b": 4.0}
    assert standing.of_bound({"a": [10.0, 30.0]}, [8.0, None]) == {}
    assert standing.of_bound({"a": []}, []) == {}
    kinds = {"workload": "bulk"}
    some = [
        JudgedCell("one", kinds, {"x": 1.0, "y": 1.5}, {}, of_bound={"x": 2.0, "y": 3.0}),
        JudgedCell("two", kinds, {"x": 1.0, "y": 1.5}, {}, of_bound={"x": 5.0, "y": 7.0}),
        JudgedCell("three", {"workload": "stream"}, {"x": 1.0, "y": 1.5}, {}),
    ]
    assert [line.of_bound for line in standing.standings(some)] == [3.5, 5.0]
    everywhere, bulk, stream = standing.groups(some, "y", ["workload"])
    assert (everywhere.best_of_bound, everywhere.candidate_of_bound) == (3.5, 5.0)
    assert (bulk.best_of_bound, bulk.candidate_of_bound) == (3.5, 5.0)
    assert (stream.best_of_bound, stream.candidate_of_bound) == (None, None)


def test_a_cost_has_its_bound() -> None:
    """Of a second in which at most 2 MB can have arrived, a megabyte takes half; of nothing, nothing is known. Of a
    thousand datagrams 20 are late or lost at least, and 1 counts where none need be."""
    row = {"elapsed_ms": 1000.0}
    known = {"bound_fct_ms": 10.0, "bound_p95_ms": 2.0, "bound_p99_ms": 3.0, "bound_bytes": 2_000_000}
    known["bound_miss_rate"] = 0.02
    bounds = {workload: costs.bound(row, known, workload) for workload in (*costs.COLUMN, "duration")}
    least = {"bulk": 10.0, "limited": 10.0, "web": 10.0, "messages": 3.0, "stream": 3.0, "voip": 3.0, "call": 3.0}
    assert bounds == {**least, "request-response": 2.0, "flows": 2.0, "datagrams": 20.0, "duration": 500.0}
    nothing = dict.fromkeys(known, None)
    assert {costs.bound(row, nothing, workload) for workload in bounds} == {None}
    assert costs.bound(row, {"bound_miss_rate": 0.0}, "datagrams") == 1.0


def test_who_is_always_best_is_the_chooser() -> None:
    ratios = judged({"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 6.0]}, {"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 6.0]})
    assert ratios == pytest.approx({"a": 1.0, "b": 2.0})
    assert judged({}, {}) == {}
    assert judged({"a": [1.0, 1.0]}, {}) == {}, "nothing to be held against"


def cell(name: str, ratios: dict[str, float], singles: dict[str, float] | None = None, **kinds: str) -> JudgedCell:
    return JudgedCell(name, kinds, ratios, singles or {}, copies={"x": 0.1}, unfinished={"x": 2})


def test_standings_count_over_cells() -> None:
    """x: (1.0 · 1.04 · 1.1 · 2.0)^¼; the median of four lies between 1.04 and 1.1; two are within 5 %, three within
    15 %; against one path 1.05 is not worse and 1.06 is: one of three, since a cell with one path has none."""
    some = [
        cell("one", {"x": 1.0, "y": 1.25}, {"x": 1.05}),
        cell("two", {"x": 1.04, "y": 1.25}, {"x": 1.06}),
        cell("three", {"x": 1.1, "y": 1.25}, {"x": 0.5}),
        cell("four", {"x": 2.0, "y": 1.25}),
    ]
    x, y = standing.standings(some, "y")
    assert (x.scheduler, x.is_candidate, y.is_candidate, x.cells) == ("x", False, True, 4)
    assert x.ratio == pytest.approx((1.04 * 1.1 * 2.0) ** 0.25)
    assert x.ratio_low is not None and x.ratio_high is not None and x.ratio_low < x.ratio < x.ratio_high
    assert (x.median, x.close_share, x.near_share) == pytest.approx((1.07, 0.5, 0.75))
    assert (x.worst, x.worst_cell) == (2.0, "four")
    assert x.worse_than_single_share == pytest.approx(1 / 3)
    assert (x.copies_share, x.unfinished) == pytest.approx((0.1, 8))
    assert (y.ratio_low, y.ratio_high) == pytest.approx((1.25, 1.25))
    assert y.worse_than_single_share is None
    assert standing.standings(some, "y") == [x, y], "equal numbers give equal intervals"


def test_who_could_not_run_somewhere_stands_by_the_rest() -> None:
    x, y = standing.standings([cell("one", {"x": 1.0}), cell("two", {"x": 1.0, "y": 3.0})])
    assert (x.cells, y.cells) == (2, 1)
    assert y.ratio == pytest.approx(3.0) and y.ratio_low is None


def test_the_candidate_is_held_against_the_best_of_each_kind() -> None:
    """Under cubic a is best, (1 · 1.21)^½ = 1.1 against b's 1.3; c costs (2 · 2)^½ = 2, 2/1.1 of it. Under bbr1 b is,
    and over all: 1.3 · 1.3 · 1 = 1.69 against 1 · 1.21 · 1.5 = 1.815."""
    some = [
        cell("one", {"a": 1.0, "b": 1.3, "c": 2.0}, cc="cubic"),
        cell("two", {"a": 1.21, "b": 1.3, "c": 2.0}, cc="cubic"),
        cell("three", {"a": 1.5, "b": 1.0, "c": 0.9}, cc="bbr1"),
    ]
    everywhere, bbr1, cubic = standing.groups(some, "c", ["cc"])
    assert (cubic.by, cubic.value, cubic.cells, cubic.best) == ("cc", "cubic", 2, "a")
    assert (cubic.best_ratio, cubic.candidate_ratio) == pytest.approx((1.1, 2.0))
    assert cubic.against_best == pytest.approx(2 / 1.1)
    assert (bbr1.best, bbr1.against_best_low) == ("b", None) and bbr1.against_best == pytest.approx(0.9)
    alone = standing.groups(some, None, ["cc"])
    assert [(group.best, group.candidate_ratio) for group in alone] == [("c", None), ("a", None)]
    assert [group.by for group in standing.groups(some[:2], "c", ["cc"])] == ["all"], (
        "what all have in common is no kind"
    )
    assert (everywhere.value, everywhere.cells, everywhere.best) == ("all cells", 3, "b")
    assert everywhere.against_best == pytest.approx((2 * 2 * 0.9 / 1.3 / 1.3) ** (1 / 3))


def of_cells(*kinds: str) -> ranking.Ranked:
    """Two schedulers, in a cell under each of these controllers."""
    some = [cell(f"{at}", {"a": 1.0 + at / 10, "b": 1.3}, cc=cc) for at, cc in enumerate(kinds)]
    lines = standing.standings(some, "a")
    groups = standing.groups(some, "a", ["cc"])
    return ranking.Ranked("x", "", "", "", lines, None, groups, [], {cell.cell: "" for cell in some}, [], "", [], [])


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        (["cubic"] * 5 + ["lia"] * 5, "kind of cell; in brackets the 95 % interval"),
        (["cubic"] * 5 + ["lia"] * 2, "kind of cell; in brackets the 95 % interval (fewer than 5 cells: range)"),
        (["cubic"] * 2 + ["lia"], "kind of cell; in brackets the range"),
        (["cubic"], "kind of cell"),
    ],
)
def test_the_range_of_a_kind_of_few_cells_is_not_called_an_interval(kinds: list[str], sentence: str) -> None:
    shown = ranking.terminal(of_cells(*kinds))[1]
    assert str(shown.title).endswith(sentence)


def test_the_worst_cells_come_first() -> None:
    some = [cell("one", {"x": 1.0}), cell("two", {"x": 3.0}, {"x": 1.5}), cell("three", {"x": 2.0}), cell("four", {})]
    worst_cells = standing.worst(some, "x", 2)
    assert [(cell.cell, cell.ratio, cell.single_ratio) for cell in worst_cells] == [
        ("two", 3.0, 1.5),
        ("three", 2.0, None),
    ]


def test_cells_are_drawn_and_know_what_they_are(world: Path) -> None:
    read_cells = cells.read([str(world)], 20, 1, "held-out")
    assert [cell.name for cell in read_cells[:2]] == ["small-world-held-out-1-0", "small-world-held-out-1-1"]
    assert {cell.kinds["workload"] for cell in read_cells} == {"short bulk", "messages"}
    assert {cell.kinds["failure"] for cell in read_cells} == {"a path fails", "no failure"}
    assert {cell.kinds["stack"] for cell in read_cells} == {"mptcp v0.9x"}
    assert {tuple(cell.paths) for cell in read_cells} == {("a", "b"), ("b", "a")}
    assert {cell.cc[0] for cell in read_cells} == {"cubic", "bbr1"}
    assert all(cell.label.startswith("+".join(cell.paths)) for cell in read_cells)
    again = cells.read([str(world)], 3, 1, "held-out")
    assert [cell.variant.hash for cell in again] == [cell.variant.hash for cell in read_cells[:3]]


def test_single_paths_open_alike(tmp_path: Path) -> None:
    """All other paths are backups, whatever they were before."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL + '[options]\npath_manager = "backup"\n')
    (cell,) = cells.read([str(file)], None, 1, "held-out")
    variants = cell.singles()
    assert list(variants) == ["wifi", "lte"]
    roles = ["path.wifi.role=backup", "path.lte.role=active", "options.path_manager=full-mesh"]
    assert variants["lte"].scenario.sets == roles
    assert len({cell.variant.hash, *(variant.hash for variant in variants.values())}) == 3


def test_a_folder_is_its_scenarios(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in (10, 9):
        (folder / f"dev{number}.toml").write_text(SMALL)
    several = SMALL.replace('cc = "newreno"\n', 'cc = ["cubic", "lia"]\n')
    (folder / "dev11.toml").write_text(f'{several}[vary]\n"path.lte.loss" = ["0 %", "1 %"]\n')
    read_cells = cells.read([str(folder)], None, 1, "held-out")
    assert [cell.name for cell in read_cells[:2]] == ["dev9", "dev10"]
    assert read_cells[-1].name == "dev11, path.lte.loss=1 %, lia"
    assert len(read_cells) == 2 + 4
    assert len(cells.read([str(folder)], 3, 1, "held-out")) == 3


def test_a_scenario_has_a_cell_for_each_of_its_settings_whatever_a_folder_has(tmp_path: Path) -> None:
    varied = '[vary]\n"path.wifi.rate" = ["5 Mbit/s", "9 Mbit/s", "5 Mbit/s"]\n'
    file = tmp_path / "varied.toml"
    file.write_text(SMALL + varied)
    read_cells = cells.read([str(file)], 1, 1, "held-out")
    assert [cell.variant.values["path.wifi.rate"] for cell in read_cells] == ["5 Mbit/s", "9 Mbit/s"]


def test_what_is_set_counts(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    (cell,) = cells.read([str(file)], None, 1, "held-out", ["workload.bytes=20MB", "options.open=race"])
    assert cell.kinds["workload"] == "long bulk"
    assert cell.singles()["wifi"].scenario.sets[:2] == ["workload.bytes=20MB", "options.open=race"]


def small_request(world: Path, **more: Any) -> rank.Request:
    return rank.Request([str(world)], 3, "0..4", **{"schedulers": "min-rtt,ecf,redundant", **more})


def test_rows_hold_what_each_run_cost(world: Path) -> None:
    ranked = rank.run(small_request(world, candidate="round-robin"), 2)
    assert len(ranked.rows) == 3 * (4 + 2) * 4
    assert [scheduler.name for scheduler in ranked.schedulers] == ["min-rtt", "ecf", "redundant", "round-robin"]
    lines = rank.standings(ranked)
    assert [line.scheduler for line in lines if line.is_candidate] == ["round-robin"]
    assert all(line.cells == 3 for line in lines)
    copies = {line.scheduler: line.copies_share for line in lines}
    assert copies["redundant"] > 0.1 and copies["min-rtt"] < 0.1
    several = [row for row in ranked.rows if row["path"] is None]
    assert all(0 < row["bound_ms"] <= row["cost_ms"] for row in several), "nobody is better than the links allow"
    assert {(row["cell"], row["seed"], row["bound_ms"]) for row in several} == {
        (row["cell"], row["seed"], row["bound_ms"]) for row in several if row["scheduler"] == "ecf"
    }
    assert all(line.of_bound is not None and line.of_bound >= 1 for line in lines)
    by_hand = {}
    for name in ("min-rtt", "ecf", "redundant", "round-robin"):
        logs = []
        for cell in ranked.cells:
            cost = {
                who: [row["cost_ms"] for row in ranked.rows if (row["cell"], row["scheduler"]) == (cell.name, who)]
                for who in ("min-rtt", "ecf", "redundant", "round-robin")
            }
            for by, on in (((0, 2), (1, 3)), ((1, 3), (0, 2))):
                pick = min(("min-rtt", "ecf", "redundant"), key=lambda who: cost[who][by[0]] + cost[who][by[1]])
                logs.append(math.log(sum(cost[name][n] for n in on) / sum(cost[pick][n] for n in on)))
        by_hand[name] = math.exp(sum(logs) / len(logs))
    assert {line.scheduler: line.ratio for line in lines} == pytest.approx(by_hand)


def test_cells_in_which_a_scheduler_is_worse_than_one_path_are_counted_and_shown(world: Path, tmp_path: Path) -> None:
    """By hand: of each cell the cheaper path is picked on one half of the seeds, and both are judged on the other. The
    share is in the first lines, in the table, in its rows by kind, among the records, and among the report's data."""
    found = rank.run(replace(small_request(world, candidate="round-robin"), cells=8), 2)
    by_hand: dict[str, dict[tuple[str, str], bool]] = {"ecf": {}, "min-rtt": {}, "redundant": {}, "round-robin": {}}
    for one in found.cells:
        cost: dict[str, list[float]] = {}
        for line in found.rows:
            if line["cell"] == one.name:
                cost.setdefault(line["scheduler"], []).append(line["cost_ms"])
        for name, cells_of in by_hand.items():
            logs = []
            for by, on in (((0, 2), (1, 3)), ((1, 3), (0, 2))):
                pick = min(("one path: a", "one path: b"), key=lambda path: sum(cost[path][at] for at in by))
                logs.append(math.log(sum(cost[name][at] for at in on) / sum(cost[pick][at] for at in on)))
            cells_of[one.kinds["workload"], one.name] = math.exp(sum(logs) / 2) > 1.05
    shares = {name: sum(cells_of.values()) / 8 for name, cells_of in by_hand.items()}
    assert len(set(shares.values())) > 1, "it tells schedulers apart"
    assert {line.scheduler: line.worse_than_single_share for line in rank.standings(found)} == shares
    shown = page.ranked(found)
    records = ranking.records(shown)
    schedulers = [record for record in records if record["kind"] == "scheduler"]
    assert {record["scheduler"]: record["worse_than_single_share"] for record in schedulers} == shares
    for group in rank.groups(found):
        for name, share in (
            (group.best, group.best_worse_than_single_share),
            ("round-robin", group.candidate_worse_than_single_share),
        ):
            some = [worse for (kind, _), worse in by_hand[name].items() if group.by == "all" or group.value == kind]
            assert group.by not in ("all", "workload") or share == sum(some) / len(some)
    told = {name: ranking.PERCENT.value(share) for name, share in shares.items()}
    best = rank.groups(found)[0].best
    sentence = f"one path, same handshake, in {told['round-robin']} of the cells, {best} in {told[best]}"
    assert f"round-robin is more than 5 % worse than {sentence}" in ranking.findings(shown)
    standings, groups = ranking.terminal(shown)[:2]
    heads = [column.header for column in standings.columns]
    cells_shown = {str(line.values[0]): str(line.values[heads.index("< one path")]) for line in standings.rows}
    assert cells_shown == told
    assert groups.columns[-1].header == "round-robin < one path"
    assert str(groups.rows[0].values[-1]) == told["round-robin"]
    text = page.write(found, shown, tmp_path).read_text()
    assert "< one path".replace("<", "&lt;") in text
    links = dict(re.findall(r'download="([\w-]+)\.csv" href="data:text/csv;base64,([^"]+)"', text))
    kept = pl.read_csv(io.BytesIO(base64.b64decode(links["standings"])))
    assert dict(zip(kept["scheduler"], kept["worse_than_single_share"], strict=True)) == shares


def test_variants_of_the_candidate_and_who_is_left_out_are_never_the_best_other(world: Path) -> None:
    """ECF with another β is ranked, and so is `redundant`; the only other scheduler is min-RTT, whose ratio is 1."""
    asked = {"schedulers": "min-rtt,ecf:beta=0.5,redundant", "candidate": "ecf", "not_among_others": "redundant"}
    found = rank.run(replace(small_request(world, **asked), seeds="0..3"), 2)
    assert found.left_out == ["ecf:beta=0.5", "redundant"]
    assert {one.scheduler for one in rank.standings(found)} == {"min-rtt", "ecf:beta=0.5", "redundant", "ecf"}
    assert [one.ratio for one in rank.standings(found) if one.scheduler == "min-rtt"] == [1.0]
    assert {one.best for one in rank.groups(found)} == {"min-rtt"}
    shown = page.ranked(found)
    assert shown.best is not None and shown.best.scheduler == "min-rtt"
    assert shown.facts.endswith("not among the others: ecf:beta=0.5, redundant")
    assert "--not-among-others redundant " in shown.command
    assert ranking.findings(shown)[-1].startswith("3 seeds: a single run picks the best other scheduler")


def test_a_policy_of_another_file_is_another_scheduler() -> None:
    names = ["ecf:beta=0.5", "foreseen:policy=a.safetensors:fallback=ecf", "rules.py:Rule"]
    rules = [None, None, int]
    found = [specs.SchedulerSpec(name, "", rule=rule).scheduler for name, rule in zip(names, rules, strict=True)]
    assert found == ["ecf", "foreseen:policy=a.safetensors", "rules.py:Rule"]


def test_the_load_is_the_share_that_the_data_took(world: Path) -> None:
    """It is known where the workload has a rate: of messages at a fifth of the capacity that the paths begin with."""
    assert costs.load(row(capacity_use=0.25), "messages") == 0.25
    assert costs.load(row(capacity_use=0.25), "bulk") is None
    assert costs.load(row(), "messages") is None, "of an older folder"
    found = rank.run(small_request(world), 2)
    for one in found.judged:
        runs = [line for line in found.rows if line["cell"] == one.cell and line["path"] is None]
        used = {name: [line["capacity_use"] for line in runs if line["scheduler"] == name] for name in one.ratios}
        most = max(sum(some) / len(some) for some in used.values())
        assert one.load == (pytest.approx(most) if one.kinds["workload"] == "messages" else None)
    loads = {one.value: one.load for one in rank.groups(found)}
    messages = loads["messages"]
    assert loads["short bulk"] is None and messages is not None and 0 < messages < 0.3
    shown = page.ranked(found)
    groups, worst = ranking.terminal(shown)[1:]
    assert "load" in [column.header for column in groups.columns]
    assert "load" in [column.header for column in worst.columns]


def test_an_oracle_tells_earliest_delivery_and_is_not_ranked(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cost is held against the rule's own, by kind of cell. What is kept is not run again."""
    out = tmp_path / "out"
    asked = small_request(world, schedulers="min-rtt,earliest-delivery", oracle=True)
    ranked = rank.run(asked, 2, out)
    assert {line.scheduler for line in rank.standings(ranked)} == {"min-rtt", "earliest-delivery"}
    costs: dict[str, dict[str, list[float]]] = {}
    for row in ranked.rows:
        costs.setdefault(row["scheduler"], {}).setdefault(row["cell"], []).append(row["cost_ms"])
    rule, by_hand = costs["earliest-delivery"], {}
    for sight in ("present", "arrival"):
        logs = [math.log(sum(some) / sum(rule[cell])) for cell, some in costs[f"oracle: {sight}"].items()]
        by_hand[sight] = math.exp(sum(logs) / len(logs))
    sights = rank.groups(ranked)[0].told
    assert {sight: ratio for sight, (ratio, _, _) in sights.items()} == pytest.approx(by_hand)
    assert all(ratio != 1 for ratio in by_hand.values())
    shown = page.ranked(ranked)
    sentences = [
        line for line in ranking.findings(shown) if line.startswith("told when a packet will arrive, earliest-")
    ]
    assert len(sentences) == 1 and f"{by_hand['arrival']:.3f}" in sentences[0]
    (everywhere,) = [record for record in ranking.records(shown) if record.get("by") == standing.ALL]
    assert everywhere["oracle_arrival"] == pytest.approx(by_hand["arrival"]) and "told" not in everywhere
    assert "oracle: arrival" in page.write(ranked, shown, out).read_text()
    heads = [column.header for column in ranking.terminal(shown)[1].columns]
    assert heads[-2:] == ["oracle: present / earliest-delivery", "oracle: arrival / earliest-delivery"]

    def none(todo: list[Any], *more: Any) -> list[Any]:
        assert not todo
        return []

    monkeypatch.setattr(bounds, "oracles", none)
    assert rank.run(asked, 2, out).rows == ranked.rows
    with pytest.raises(ScenarioError, match="name it among the schedulers"):
        rank.run(small_request(world, schedulers="min-rtt,ecf", oracle=True), 2)


def test_other_controllers_and_initial_windows_are_held_against_the_rule_and_are_not_ranked(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell that has the controller already costs the same. A controller that is named comes with its share."""
    out = tmp_path / "out"
    shares = [fairness.Share("bbr1", "cubic", 1, queue, "0 %", 2.0, 1.0, 3.0, 0.9, 18.0) for queue in (25, 100, 400)]
    monkeypatch.setattr(fairness, "beside_cubic", lambda cc, jobs: shares)
    asked = small_request(world, schedulers="min-rtt,earliest-delivery", cc="bbr1", windows=[32])
    ranked = rank.run(asked, 2, out)
    assert {line.scheduler for line in rank.standings(ranked)} == {"min-rtt", "earliest-delivery"}
    costs: dict[tuple[str, str], dict[str, float]] = {}
    for row in ranked.rows:
        costs.setdefault((row["cell"], row["cc"]), {}).setdefault(row["scheduler"], 0.0)
        costs[row["cell"], row["cc"]][row["scheduler"]] += row["cost_ms"]
    under_bbr1 = [some for (_, cc), some in costs.items() if cc == "bbr1"]
    assert under_bbr1 and all(some["changed: cc=bbr1"] == some["earliest-delivery"] for some in under_bbr1)
    logs = [math.log(some["changed: initial_window=32"] / some["earliest-delivery"]) for some in costs.values()]
    by_hand = math.exp(sum(logs) / len(logs))
    told = rank.groups(ranked)[0].told
    assert set(told) == {"cc=bbr1", "initial_window=32"} and by_hand != 1
    assert told["initial_window=32"][0] == pytest.approx(by_hand)
    shown = page.ranked(ranked)
    (window, share, where) = ranking.findings(shown)[-3:]
    assert window.startswith(f"with an initial window of 32 packets, earliest-delivery costs {by_hand:.3f}")
    assert share.startswith("bbr1 takes 2.00, 2.00 and 2.00 times what a CUBIC flow beside it takes")
    assert "weft fairness" in where
    (everywhere,) = [record for record in ranking.records(shown) if record.get("by") == standing.ALL]
    assert everywhere["initial_window=32"] == pytest.approx(by_hand)
    heads = [column.header for column in ranking.terminal(shown)[1].columns]
    assert heads[-1] == "with an initial window of 32 packets / earliest-delivery"
    assert shown.command.endswith("--cc bbr1 --initial-window 32 --split held-out")
    with pytest.raises(ScenarioError, match="name it among the schedulers"):
        rank.run(small_request(world, schedulers="min-rtt,ecf", windows=[32]), 2)


def test_an_oracle_as_controller_is_held_against_the_rule_and_is_not_ranked(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows that follow the links do not depend on the cell's own controller. What is kept is not run again."""
    out = tmp_path / "out"
    world.write_text(WORLD.replace("100 kB", "800 kB"))
    asked = small_request(world, schedulers="min-rtt,earliest-delivery", oracle_cc=True)
    ranked = rank.run(asked, 2, out)
    assert {line.scheduler for line in rank.standings(ranked)} == {"min-rtt", "earliest-delivery"}
    costs: dict[str, dict[str, list[float]]] = {}
    for row in ranked.rows:
        costs.setdefault(row["scheduler"], {}).setdefault(row["cell"], []).append(row["cost_ms"])
    logs = [
        math.log(sum(some) / sum(costs["earliest-delivery"][cell]))
        for cell, some in costs["oracle: controller"].items()
    ]
    by_hand = math.exp(sum(logs) / len(logs))
    assert by_hand < 0.98 and rank.groups(ranked)[0].told["controller"][0] == pytest.approx(by_hand)
    shown = page.ranked(ranked)
    (sentence,) = [line for line in ranking.findings(shown) if line.startswith("with an oracle as controller")]
    assert f"{by_hand:.3f}" in sentence and "--oracle-cc" in page.write(ranked, shown, out).read_text()
    assert [column.header for column in ranking.terminal(shown)[1].columns][
        -1
    ] == "oracle: controller / earliest-delivery"
    other = rank.run(
        small_request(world, schedulers="min-rtt,earliest-delivery", oracle_cc=True, set=["cc=newreno"]), 2
    )
    windows = [
        [row["cost_ms"] for row in found.rows if row["scheduler"] == "oracle: controller"] for found in (ranked, other)
    ]
    assert windows[0] == windows[1]

    def none(todo: list[Any], *more: Any) -> list[Any]:
        assert not todo
        return []

    monkeypatch.setattr(bounds, "controlled", none)
    assert rank.run(asked, 2, out).rows == ranked.rows
    with pytest.raises(ScenarioError, match="an oracle sets the windows of `earliest-delivery`: name it among the"):
        rank.run(small_request(world, schedulers="min-rtt,ecf", oracle_cc=True), 2)


def test_a_clairvoyant_starts_from_the_candidate(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands beside the candidate in the groups, and is neither chosen nor ranked. What is kept is not run again."""
    out = tmp_path / "out"
    world.write_text(WORLD.replace("100 kB", "800 kB").replace("count = 30", "count = 120"))
    asked = small_request(world, candidate="round-robin", clairvoyant=True)
    ranked = rank.run(asked, 2, out)
    seen = [row for row in ranked.rows if row["scheduler"] == "clairvoyant: round-robin"]
    assert len(seen) == 3 * 4 and all(row["bound_ms"] <= row["cost_ms"] for row in seen)
    blind = {(row["cell"], row["seed"]): row["cost_ms"] for row in ranked.rows if row["scheduler"] == "round-robin"}
    assert all(row["cost_ms"] <= blind[row["cell"], row["seed"]] for row in seen)
    assert any(row["cost_ms"] < blind[row["cell"], row["seed"]] for row in seen)
    assert "clairvoyant: round-robin" not in {line.scheduler for line in rank.standings(ranked)}
    plain = rank.run(small_request(world, candidate="round-robin"), 2)
    assert rank.standings(plain) == rank.standings(ranked)
    everywhere = rank.groups(ranked)[0]
    assert everywhere.clairvoyant_of_bound is not None and everywhere.candidate_of_bound is not None
    assert 1 <= everywhere.clairvoyant_of_bound <= everywhere.candidate_of_bound
    assert rank.groups(plain)[0].clairvoyant_of_bound is None

    def none(todo: list[Any], *more: Any) -> list[Any]:
        assert not todo
        return []

    monkeypatch.setattr(bounds, "clairvoyants", none)
    assert rank.run(asked, 2, out).rows == ranked.rows
    with pytest.raises(ScenarioError, match="candidate"):
        rank.run(small_request(world, clairvoyant=True), 2)
    rule = tmp_path / "rules.py"
    rule.write_text("class First:\n    def select(self, cx):\n        return next(iter(cx.sendable()), None)\n")
    with pytest.raises(ScenarioError, match="cannot start from a scheduler in Python"):
        rank.run(small_request(world, candidate=f"{rule}:First", clairvoyant=True), 2)


def test_the_number_of_threads_changes_nothing(world: Path) -> None:
    assert rank.run(small_request(world), 1).rows == rank.run(small_request(world), 2).rows


def test_what_is_kept_is_not_run_again(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    first = rank.run(small_request(world), 2, out)
    assert pl.read_parquet(out / "rows.parquet")["cost_ms"].to_list() == [row["cost_ms"] for row in first.rows]

    def none(todo: list[Any], *more: Any, **others: Any) -> Iterator[Any]:
        assert not todo
        return iter([])

    monkeypatch.setattr(runner, "results", none)
    assert rank.run(small_request(world), 2, out).rows == first.rows


def test_the_cells_are_kept_with_their_traces(weft: Weft, tmp_path: Path) -> None:
    done = weft("rank", "--cells", "12", "--seeds", "0..2", "--schedulers", "min-rtt", "--out", "out")
    assert done.returncode == 0, done.stderr
    kept = pl.read_parquet(tmp_path / "out/rows.parquet")
    assert len(list((tmp_path / "out/cells").glob("*.toml"))) == 12
    traced = kept.filter(pl.col("label").str.contains("cell")).row(0, named=True)
    (again,) = json.loads(weft(*shlex.split(traced["command"])[1:], "--json").stdout)
    assert again["elapsed_ms"] == traced["elapsed_ms"]


def test_the_command_tells_shows_and_keeps(weft: Weft, world: Path, tmp_path: Path) -> None:
    words = [
        "rank",
        "--on",
        world,
        "--cells",
        "3",
        "--seeds",
        "0..4",
        "--schedulers",
        "min-rtt,earliest-delivery,redundant",
    ]
    words += ["--candidate", "round-robin", "--report", "out"]
    run = weft(*words)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("round-robin is ")
    assert "the best other scheduler per scenario" in run.stdout.splitlines()[0]
    assert "runs" not in run.stderr.replace("rows", ""), "no progress where there is no terminal"
    for word in ("of best per scenario", "round-robin / best fixed", "short bulk", "small-world-held-out-1-2"):
        assert word in run.stdout
    page = (tmp_path / "out/report.html").read_text()
    check(page)
    assert page.count('class="interval') == 4
    # By their places in the registry, round-robin and earliest-delivery would have the same colour and marker.
    standings = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert len(set(re.findall(r'class="mark (s\d+)"', standings))) == 4
    assert "weft rank --on" in page and "a+b" in page
    records = json.loads(weft(*words, "--json").stdout)
    assert [record["scheduler"] for record in records if record["kind"] == "scheduler" and record["is_candidate"]] == [
        "round-robin"
    ]
    assert {record["by"] for record in records if record["kind"] == "group"} == {"all", "workload", "cc", "failure"}
    assert [record["scheduler"] for record in records if record["kind"] == "worst"] == ["round-robin"] * 3


def test_an_interrupted_ranking_goes_on(weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    words = ["rank", "--on", str(file), "--schedulers", "min-rtt,ecf", "--set", "workload.bytes=100 MB", "--jobs", "2"]
    command = [sys.executable, "-m", "weftway", *words, "--out", "out", "--seeds", "0..2000"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: bool(list(tmp_path.glob("out/parts/*.parquet"))))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    kept = sum(pl.read_parquet(part).height for part in (tmp_path / "out/parts").glob("*.parquet"))
    assert 0 < kept < 8000
    assert f"{kept} of 8000 runs finished and kept in out; the same command goes on" in err
    resumed = weft(*words, "--out", "out", "--seeds", "0..2", "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout) == json.loads(weft(*words, "--seeds", "0..2", "--json").stdout)


def test_a_run_that_is_written_when_the_interrupt_comes_is_counted(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.write_parquet

    def interrupted(frame: pl.DataFrame, file: Path) -> None:
        write(frame, file)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(store, "write_parquet", interrupted)
    monkeypatch.setattr(store, "FLUSH_S", 0)
    with pytest.raises(Interrupted) as interrupt:
        rank.run(small_request(world), 2, tmp_path / "out")
    kept = sum(pl.read_parquet(part).height for part in (tmp_path / "out/parts").glob("*.parquet"))
    assert (interrupt.value.done, kept) == (1, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "wrld"), "did you mean `world`?"),
        (("--on", "wifi-lt"), "did you mean `wifi-lte`?"),
        (("--on", "none.toml"), "none"),
        (("--on", "empty"), "no scenario file (*.toml) in this folder"),
        (("--seeds", "0..1"), "seeds `0..1`: a ranking picks on one half of them and judges on the other"),
        (("--schedulers", "ecff"), "ecff"),
        (("--schedulers", "ecf", "--candidate", "ecf"), "candidate `ecf`: no other scheduler is named"),
        (
            ("--schedulers", "ecf:beta=0.5", "--candidate", "ecf"),
            "its variants and those not among others do not count",
        ),
        (("--schedulers", "ecf", "--not-among-others", "ecf"), "no scheduler is left to compare with"),
        (("--schedulers", "ecf", "--not-among-others", "ecff"), "ecff"),
        (
            ("--schedulers", "ecf,blest", "--candidate", "min-rtt", "--not-among-others", "ecf,redundant"),
            "not among others `redundant`: not ranked; those that are: ecf, blest, min-rtt",
        ),
        (
            ("--schedulers", "ecf:beta=0.5,blest", "--not-among-others", "ecf:beta=0.25"),
            "not among others `ecf:beta=0.25`: not ranked; those that are: ecf:beta=0.5, blest",
        ),
        (("--candidate", "ecf,blest"), "candidate `ecf,blest`: name one scheduler to compare with the others"),
        (("--split", "test"), "no split `test`"),
        (("--set", "path.thick.rate=1Mbit/s"), "thick"),
    ],
)
def test_mistakes_are_told(weft_here: Weft, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "empty").mkdir()
    done = weft_here("rank", *words)
    assert done.returncode == 2
    assert message in done.stderr and not done.stdout


@pytest.mark.parametrize("words", [("--schedulers", "musher"), ("--candidate", "musher", "--schedulers", "min-rtt")])
def test_who_can_run_nowhere_is_told(weft_here: Weft, tmp_path: Path, words: tuple[str, ...]) -> None:
    """A rule for a pair of paths, and a scenario with one."""
    (tmp_path / "one.toml").write_text(SMALL.split("[path.lte]")[0] + '[workload]\nkind = "bulk"\nbytes = "1 kB"\n')
    done = weft_here("rank", "--on", "one.toml", "--seeds", "0..2", *words)
    assert done.returncode == 1
    assert "musher: its rule is for two paths; the scenario has 1" in done.stderr and not done.stdout


def test_one_path_has_no_single_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text(SMALL.split("[path.lte]")[0] + '[workload]\nkind = "bulk"\nbytes = "1 kB"\n')
    ranked = rank.run(rank.Request([str(file)], seeds="0..2", schedulers="min-rtt,round-robin"))
    assert [line.worse_than_single_share for line in rank.standings(ranked)] == [None, None]
    assert rank.worst(ranked)[0].single_ratio is None


def test_one_cell_is_named_once(world: Path) -> None:
    with pytest.raises(ScenarioError, match="two cells are called"):
        cells.read([str(world), str(world)], 2, 1, "held-out")


def test_a_class_in_python_may_be_the_candidate(world: Path, tmp_path: Path) -> None:
    file = tmp_path / "first.py"
    file.write_text("class First:\n    def select(self, cx):\n        return next(iter(cx.sendable()), None)\n")
    ranked = rank.run(small_request(world, candidate=f"{file}:First"), 1)
    assert next(line for line in rank.standings(ranked) if line.is_candidate).cells == 3
