"""Fairness: shares, goals and harm of rows made by hand; the settings; and the command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Weft
from weftway import fairness
from weftway._native import ScenarioError
from weftway.commands.options import packets
from weftway.fairness import judging, settings, tables
from weftway.fairness import runs as fairness_runs
from weftway.fairness.judging import Goals, Share
from weftway.fairness.runs import Fairness, Request, job
from weftway.fairness.settings import LOSSES, QUEUES, Link, Sharing, ShortFlow, Starting, TwoLinks
from weftway.runs.runner import Interrupted


def row(own: int = 0, other: int = 0, **more: Any) -> dict[str, Any]:
    return {"delivered_bytes": own, "rival_delivered_bytes": other, "elapsed_ms": 40_000.0, **more}


def test_a_share_is_the_geometric_mean_of_the_seeds_whichever_flow_is_under_test() -> None:
    """4 over 1 with the first seed. With the second one the flows have changed places: 2 over 2. √(4 · 1) = 2. Jain:
    (4 + 1)² / (2 · 17) = 25/34, and 1. 5 and 4 MB in 40 s: 1 and 0.8 Mbit/s."""
    setting = Sharing("bbr1", "cubic", 100, "0 %")
    found = judging.share(setting, {0: row(4_000_000, 1_000_000), 1: row(2_000_000, 2_000_000)})
    assert (found.share, found.least, found.most) == pytest.approx((2.0, 1.0, 4.0))
    assert found.jain == pytest.approx((25 / 34 + 1) / 2)
    assert found.mbps == pytest.approx(0.9)
    swapped = judging.share(setting, {0: row(1, 1), 1: row(1_000_000, 4_000_000)})
    assert swapped.most == pytest.approx(4.0), "with the second seed, the flow under test is the rival"
    assert swapped.least == 1.0, "who takes nothing counts with a little"


@pytest.mark.parametrize(
    ("rival", "share", "is_fair"),
    [("cubic", 0.5, True), ("cubic", 0.49, False), ("cubic", 1.31, False), ("bbr3", 1.5, True), ("lia", 2.0, True)],
)
def test_a_fair_share_depends_on_the_other(rival: str, share: float, is_fair: bool) -> None:
    assert shared("x", rival, 100, share).is_fair is is_fair


def shared(cc: str, rival: str, queue: int, share: float, subflows: int = 1, loss: str = LOSSES[0]) -> Share:
    return Share(cc, rival, subflows, queue, loss, share, share, share, 0.9, 19.0)


def test_harm_to_a_time_is_the_part_that_the_other_adds() -> None:
    """A connection that opens at 5 s, one at 5.4 s, and each 90 ms later with the second seed. Alone it takes 50 ms,
    beside CUBIC 100, beside BBRv1 150, 200 and 250: three quarters of 200 ms are its harm, and twice as long as beside
    CUBIC. 3 of 60 packets dropped."""
    flows: Any = {
        ShortFlow(None, 25, 0): {0: flow(5050.0)},
        ShortFlow("cubic", 25, 0): {1: flow(5190.0)},
        ShortFlow("bbr1", 25, 0): {0: flow(5150.0), 1: flow(5290.0)},
        ShortFlow("bbr1", 25, 1): {0: flow(None, elapsed_ms=5650.0)},
        ShortFlow("bbr1", 100, 0): {0: flow(5001.0)},
    }
    alone, cubic, bbr1 = judging.short(flows)
    assert (alone.cc, alone.mean_ms, alone.harm) == (None, 50.0, 0.0)
    assert (cubic.harm, cubic.over_cubic) == (0.5, 1.0)
    assert (bbr1.mean_ms, bbr1.p99_ms, bbr1.harm, bbr1.over_cubic, bbr1.drops) == (200.0, 250.0, 0.75, 2.0, 0.05)


def flow(fct_ms: float | None, **more: Any) -> dict[str, Any]:
    return {"fct_ms": fct_ms, "path.own1.queue_drops": 1, "path.own1.packets": 20, **more}


def test_starts_are_counted_together() -> None:
    """Flows that open at 1 s and 1.025 s take 60 and 80 ms."""
    link = Link(5, 25)
    flows: Any = {Starting("cubic", 32, link, number): {0: flow(1060.0 + 45 * number)} for number in range(2)}
    (start,) = judging.starts(flows)
    assert (start.cc, start.window, start.link, start.mean_ms, start.p99_ms) == ("cubic", 32, link, 70.0, 80.0)


def rows_of_goals(both: int, congested: int, share: float) -> Any:
    """Rows of a controller that brings 10 MB on the better of two paths, 8 MB of them on the congested one."""
    rows: Any = {
        TwoLinks("x", "both"): {0: row(both)},
        TwoLinks("x", "first"): {0: row(10_000_000)},
        TwoLinks("x", "second"): {0: row(4_000_000)},
        TwoLinks("x", "both", is_second_free=True): {0: {"path.own1.bytes": congested}},
        TwoLinks("x", "first", is_second_free=True): {0: {"path.own1.bytes": 8_000_000}},
    }
    for queue in QUEUES:
        rows[Sharing("x", "cubic", queue, LOSSES[0], 2)] = {0: row(1_000_000, 1_000_000)}
    rows[Sharing("x", "cubic", 25, LOSSES[0], 2)] = {0: row(round(1_000_000 * share), 1_000_000)}
    return rows


@pytest.mark.parametrize(
    ("both", "congested", "share", "verdicts"),
    [
        (14_000_000, 8_000_000, 2.0, (True, False, False)),
        (9_600_000, 2_000_000, 0.7, (True, True, True)),
        (9_400_000, 7_300_000, 1.3, (False, True, False)),
        (10_000_000, 7_200_000, 1.31, (True, False, True)),
    ],
)
def test_each_goal_has_a_figure_and_a_verdict(both: int, congested: int, share: float, verdicts: Any) -> None:
    found = judging.goals("x", rows_of_goals(both, congested, share))
    assert found is not None and found.verdicts == verdicts
    assert found.over_best_path == both / 10_000_000
    assert found.on_congested == congested / 8_000_000
    assert found.of_cubic == max(share, 1.0), "the largest of the three queues"


def test_goals_need_all_their_runs() -> None:
    rows = rows_of_goals(10_000_000, 1, 1.0)
    del rows[Sharing("x", "cubic", 400, LOSSES[0], 2)]
    assert judging.goals("x", rows) is None


def test_the_settings_cover_each_queue_loss_and_number_of_subflows_once() -> None:
    wanted = list(settings.of(["cubic", "lia"]))
    of_lia = [one for one in wanted if isinstance(one, Sharing) and one.cc == "lia"]
    assert len(of_lia) == len(set(of_lia)) == 3 * 3 * 2 * 2
    assert len([one for one in wanted if isinstance(one, Sharing) and one.cc == "cubic"]) == 2 * 3 * 2 * 2
    assert not [one for one in wanted if isinstance(one, Starting)]
    starting = [one for one in settings.of(["cubic"], [10, 32]) if isinstance(one, Starting)]
    assert len(starting) == 2 * len(settings.LINKS) * settings.STARTING


def test_the_flows_change_places_with_every_second_seed() -> None:
    one = Sharing("bbr3", "cubic", 25, "1 %", 2)
    first, second = one.run(0), one.run(1)
    assert (first.file, first.cc) == (settings.TWO_SUBFLOWS, "bbr3") and "rival.cc=cubic" in first.sets
    assert (second.file, second.cc) == (settings.TWO_OTHERS, "cubic") and "rival.cc=bbr3" in second.sets
    starts = [key for at in range(4) for key in one.run(at).sets if key.startswith("rival.start")]
    assert starts[0] == starts[1] != starts[2] == starts[3], "either flow is the first to start"


@pytest.mark.parametrize(
    "setting",
    [
        Sharing("lia", "cubic", 400, "1 %", 2),
        TwoLinks("lia", "second", is_second_free=True),
        ShortFlow(None, 25, 3),
        Starting("cubic", 32, Link(5, 25), 3),
    ],
)
def test_every_setting_is_a_scenario(setting: Any) -> None:
    """Its keys are there, and its command names a file that a user has."""
    for at in range(2):
        made = job(setting.run(at), 0)
        assert made.command.startswith(f"weft run {settings.FOLDER}/")


def found(**more: Any) -> Fairness:
    shares = [shared("a", "cubic", queue, 1.0) for queue in QUEUES]
    shares += [shared("b", "cubic", queue, share) for queue, share in zip(QUEUES, (0.2, 1.0, 7.0), strict=True)]
    shares += [shared("c", "cubic", queue, 0.45) for queue in QUEUES]
    shares += [shared(cc, "bbr3", queue, 1.0) for cc in "abc" for queue in QUEUES]
    goals = [Goals("a", 1.0, 1.2, 0.5), Goals("b", 1.0, 7.0, 0.5)]
    usual = Fairness(Request(), ["a", "b", "c"], [0, 1], shares, goals, [], [], 4)
    return replace(usual, **more)


def test_findings_say_who_takes_a_fair_share_and_who_more() -> None:
    assert fairness.findings(found()) == [
        "beside cubic, 0.5 to 1.3 of its share at every queue: a",
        "beside cubic, more than 1.3 at some queue (the most): b (7.00)",
        "beside cubic, less than 0.5 at some queue (the least): c (0.45)",
        "beside bbr3, 0.5 to 1.5 of its share at every queue: a, b, c",
        "all three goals of RFC 6356 with two subflows: a",
    ]


def test_tables_have_a_row_for_each_number_of_subflows() -> None:
    some = found()
    some.shares.extend(shared("a", "cubic", queue, 2.0, 2) for queue in QUEUES)
    beside_cubic, _, itself, goals = tables.terminal(some)
    names = [str(row.values[0]) for row in beside_cubic.rows]
    assert names == ["a", "2 × a", "b", "c"]
    assert [str(value) for value in beside_cubic.rows[2].values[1:]] == [
        "0.20",
        "1.00",
        "7.00",
        *["–"] * 3,
        "0.90",
        "19.0",
    ]
    assert [str(value) for value in goals.rows[1].values] == ["b", "yes, 1.00", "no, 7.00", "yes, 0.50"]
    assert not itself.rows


@pytest.mark.parametrize("text", ["ten", "0", "10,,-3", "1001"])
def test_an_initial_window_is_a_number_of_packets(text: str) -> None:
    with pytest.raises(ScenarioError, match="expected numbers of packets from 1 to 1000"):
        packets(text)
    assert packets("10, 32,10") == [10, 32]


def test_two_subflows_take_more_than_one_and_the_rows_are_kept(tmp_path: Path) -> None:
    """Uncoupled NewReno, twice, against one CUBIC flow; what is kept is not run again, and gives the same."""
    request = Request(["newreno"], "0..2", seconds=10)
    told: list[tuple[int, int]] = []
    first = fairness.run(request, 1, tmp_path / "out", lambda done, total: told.append((done, total)))
    one, two = (first.share("newreno", "newreno", subflows, LOSSES[0])[1].share for subflows in (1, 2))
    assert 0.6 < one < 1.6 < two < 3.5
    kept = pl.read_parquet(tmp_path / "out" / "rows.parquet")
    assert kept.height == first.runs and kept["rival_delivered_bytes"].null_count() == 0
    told.clear()
    again = fairness.run(request, 1, tmp_path / "out", lambda done, total: told.append((done, total)))
    assert told[0] == (first.runs, first.runs)
    assert fairness.records(again) == fairness.records(first)


def test_an_interrupt_beside_another_command_names_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(fairness_runs, "threads", lambda *_, **__: interrupted)
    with pytest.raises(Interrupted, match=r"0 of 12 runs finished; none is kept$"):
        fairness.beside_cubic("bbr1")
    with pytest.raises(Interrupted, match=r"with --out DIR they would be kept$"):
        fairness.run(Request(["bbr1"]))


def test_the_tables_say_what_is_fair_beside_each() -> None:
    told = fairness.reading(found())
    assert "fair, without loss: 0.5 to 1.3 beside cubic, 0.5 to 1.5 beside bbr3, 0.5 to 2 beside any other" in told


def test_the_command_gives_records(weft: Weft) -> None:
    done = weft("fairness", "cubic", "--seeds", "0..1", "--seconds", "2", "--initial-window", "10,32", "--json")
    records = json.loads(done.stdout)
    kinds = {record["kind"] for record in records}
    assert kinds == {"share", "goals", "short flows", "start"}
    by_window = {one["initial_window"]: one for one in records if one["kind"] == "start" and one["queue"] == 100}
    assert set(by_window) == {10, 32}


def test_a_controller_that_is_not_there_is_named(weft: Weft) -> None:
    done = weft("fairness", "cubik")
    assert done.returncode == 2 and "did you mean `cubic`?" in done.stderr
