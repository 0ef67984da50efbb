"""Agreement of the simulator with Multipath QUIC: planted differences, planted orders, and one small measurement."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from conftest import Weft
from test_report import check
from weftway._native import Scenario
from weftway.fidelity import quic
from weftway.fidelity.quic import runs, settings
from weftway.fidelity.quic.settings import Setting
from weftway.runs.backends import Row

TINY = """
transport = "mpquic"
direction = "upload"
cc = "cubic"

[path.fast]
rate = "20 Mbit/s"
delay = "5 ms"

[path.slow]
rate = "5 Mbit/s"
delay = "40 ms"

[workload]
kind = "bulk"
bytes = "100 kB"
"""


def setting(text: str = TINY, name: str = "tiny.toml") -> Setting:
    [first] = settings.settings(Scenario.parse(text, name), drawn=False)
    return first


def rows(setting: Setting, times: dict[str, tuple[float, float]], seeds: int = 3, **more: Any) -> list[Row]:
    """Rows of schedulers with their times on `sim` and on `quic`; the middle seed has the time."""
    hashed, cc = setting.key
    return [
        {
            "scenario_hash": hashed,
            "cc": cc,
            "scheduler": scheduler,
            "backend": backend,
            "seed": seed,
            "verdict": "finished",
            "fct_ms": ms * (1 + (seed - 1) / 2),
            "retransmissions": 0,
            "command": "weft run",
            **more,
        }
        for scheduler, both in times.items()
        for backend, ms in zip(("sim", "quic"), both, strict=True)
        for seed in range(seeds)
    ]


def test_a_planted_difference_of_a_tenth_is_found_with_its_sign() -> None:
    some_setting = setting()
    agreement = quic.agreement([some_setting], rows(some_setting, {"slower": (110.0, 100.0), "faster": (90.0, 100.0)}))
    assert {case.scheduler: round(case.difference, 9) for case in agreement.cases} == {"slower": 0.1, "faster": -0.1}
    whole = agreement.groups[0]
    assert (whole.cases, round(whole.middle, 9), round(whole.signed, 9)) == (2, 0.1, 0.0)


def test_a_transfer_without_an_end_is_compared_by_how_long_a_megabyte_takes() -> None:
    """10 MB in 30 s on the simulator, 12 MB on QUIC: 3000 ms and 2500 ms a megabyte."""
    some_setting = setting()
    kept_rows = rows(some_setting, {"min-rtt": (1.0, 1.0)})
    for row in kept_rows:
        row |= {"fct_ms": None, "elapsed_ms": 30_000.0, "delivered_bytes": 10e6 if row["backend"] == "sim" else 12e6}
    [case] = quic.agreement([some_setting], kept_rows).cases
    assert (case.measure, case.sim_ms, case.quic_ms) == ("ms_per_mb", 3000.0, 2500.0)


def test_the_shares_within_both_bounds_are_counted_and_the_largest_difference_is_first() -> None:
    some_setting = setting()
    times = {"a": (100.0, 100.0), "b": (109.0, 100.0), "c": (120.0, 100.0), "d": (60.0, 100.0)}
    agreement = quic.agreement([some_setting], rows(some_setting, times))
    assert (agreement.groups[0].near, agreement.groups[0].far) == (0.5, 0.75)
    assert [case.scheduler for case in agreement.cases] == ["d", "c", "b", "a"]


def test_schedulers_are_ordered_by_quic_and_only_where_it_tells_them_apart() -> None:
    some_setting = setting()
    # b and c are 4 % apart on QUIC: no pair, though the simulator has them far apart and the other way round.
    times = {"a": (10.0, 100.0), "b": (300.0, 200.0), "c": (100.0, 208.0)}
    agreement = quic.agreement([some_setting], rows(some_setting, times))
    assert sorted((pair.faster.scheduler, pair.slower.scheduler) for pair in agreement.pairs) == [
        ("a", "b"),
        ("a", "c"),
    ]
    assert agreement.tau == 1


@pytest.mark.parametrize(("sim", "tau"), [((1.0, 2.0, 3.0), 1.0), ((2.0, 1.0, 3.0), 1 / 3), ((3.0, 2.0, 1.0), -1.0)])
def test_a_swapped_order_lowers_tau(sim: tuple[float, ...], tau: float) -> None:
    some_setting = setting()
    times = {name: (ms, theirs) for name, ms, theirs in zip("abc", sim, (1.0, 2.0, 3.0), strict=True)}
    agreement = quic.agreement([some_setting], rows(some_setting, times))
    assert agreement.tau == pytest.approx(tau)


def test_equal_times_in_the_simulator_count_as_no_order() -> None:
    some_setting = setting()
    assert quic.agreement([some_setting], rows(some_setting, {"a": (5.0, 1.0), "b": (5.0, 2.0)})).tau == 0


def test_schedulers_of_different_settings_are_not_compared() -> None:
    first, second = setting(), setting(TINY.replace("20 Mbit/s", "30 Mbit/s"))
    kept = rows(first, {"a": (1.0, 1.0)}) + rows(second, {"b": (2.0, 2.0)})
    assert quic.agreement([first, second], kept).pairs == []


def test_a_good_order_of_too_few_pairs_misses_the_goal() -> None:
    some_setting = setting()
    eight = {name: (float(k), float(k)) for k, name in enumerate("abcdefgh", start=1)}
    few, enough = (
        quic.agreement([some_setting], rows(some_setting, some)) for some in ({"a": (1.0, 1.0), "b": (2.0, 2.0)}, eight)
    )
    assert [goal.met for goal in few.goals] == [True, True, False]
    assert [goal.met for goal in enough.goals] == [True, True, False]  # 28 pairs
    nine = quic.agreement([some_setting], rows(some_setting, {**eight, "i": (9.0, 9.0)}))
    assert [goal.met for goal in nine.goals] == [True, True, True]  # 36 pairs


def test_messages_are_compared_by_their_slow_ones() -> None:
    some_setting = setting()
    kept = rows(some_setting, {"a": (100.0, 100.0)})
    for row in kept:
        row["message_p99_ms"] = 30.0 if row["backend"] == "sim" else 20.0
    [case] = quic.agreement([some_setting], kept).cases
    assert (case.measure, case.difference) == ("message_p99_ms", 0.5)


def test_a_stack_beside_itself_is_one_half_of_the_seeds_against_the_other() -> None:
    some_setting = setting()
    # On `sim` the seeds 0 and 2 take 50 and 150 ms, and seed 1 takes 80 for a and 100 for b; on `quic` all take 80.
    kept = rows(some_setting, {"a": (100.0, 80.0), "b": (100.0, 80.0)})
    for row in kept:
        if row["backend"] == "quic":
            row["fct_ms"] = 80.0
        elif row["seed"] == 1:
            row["fct_ms"] = 80.0 if row["scheduler"] == "a" else 100.0
    agreement = quic.agreement([some_setting], kept)
    assert [(half.name, half.cases) for half in agreement.halves] == [("sim", 2), ("quic", 2)]
    ours, theirs = agreement.halves
    # 100 over 80, less one, and 100 over 100.
    assert [ours.middle, ours.p95, theirs.p95] == pytest.approx([0.125, 0.2375, 0.0])
    alone = quic.agreement([some_setting], rows(some_setting, {"a": (100.0, 80.0)}, seeds=1))
    assert alone.halves == []


def test_seeds_that_one_stack_did_not_finish_are_left_out_on_both() -> None:
    some_setting = setting()
    kept = rows(some_setting, {"a": (100.0, 100.0)})
    for row in kept:
        if (row["backend"], row["seed"]) == ("quic", 2):
            row["verdict"] = "time_limit"
    agreement = quic.agreement([some_setting], kept)
    assert (agreement.cases[0].seeds, agreement.unfinished) == (2, 1)
    # Seeds 0 and 1 are left: 50 and 100.
    assert agreement.cases[0].sim_ms == agreement.cases[0].quic_ms == 75.0


def test_drawn_cells_are_scenarios_of_multipath_quic_and_the_same_among_few_and_many(tmp_path: Path) -> None:
    few, many = settings.drawn(7, 3, tmp_path / "few"), settings.drawn(7, 40, tmp_path / "many")
    assert [setting.key for setting in few] == [setting.key for setting in many[:3]]
    assert [setting.key for setting in settings.drawn(8, 3, tmp_path / "other")] != [setting.key for setting in few]
    assert {setting.workload for setting in many} == {"bulk", "messages", "deadline"}
    assert {setting.cc for setting in many} == {"cubic", "newreno", "bbr1", "bbr2"}
    assert {setting.variant.transport for setting in many} == {"mpquic"}


def test_our_scenarios_run_as_multipath_quic() -> None:
    ours = settings.ours()
    assert {setting.variant.transport for setting in ours} == {"mpquic"}
    assert {"wifi-lte", "unequal-pair", "voip"} <= {setting.scenario.name for setting in ours}


def test_a_small_measurement_runs_both_stacks_resumes_and_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    refused = tmp_path / "refused.toml"
    refused.write_text(TINY + '[decision]\nmode = "preferred"\ninterval = "100 ms"\n')
    wanted = [
        setting for name in (file, refused) for setting in settings.settings(Scenario.load(str(name)), drawn=False)
    ]
    request = runs.Request(cells=1, seed=0, folder=tmp_path / "out")
    measured = runs.run(request, wanted)
    agreement = quic.agreement(wanted, measured.rows)
    assert {case.setting for case in agreement.cases} == {"tiny"}
    assert {case.scheduler for case in agreement.cases} == set(settings.SCHEDULERS)
    assert all(case.seeds == runs.SEEDS for case in agreement.cases)
    # 100 kB over 25 Mbit/s take 32 ms, and a round trip goes before: neither stack can be faster.
    assert all(min(case.sim_ms, case.quic_ms) > 32 for case in agreement.cases)
    assert list(measured.skipped) == ["refused"]
    assert runs.run(request, wanted).rows == measured.rows

    console = Console(width=160, record=True)
    for part in quic.tables(measured, agreement):
        console.print(part)
    shown = console.export_text()
    assert "median difference" in shown
    assert "refused: not run: " in shown
    assert "quic beside itself, one half of the seeds against the other: median " in shown
    page = quic.write_report(measured, agreement).read_text()
    check(page)
    assert json.loads(json.dumps(agreement.record))["groups"][0]["cases"] == len(settings.SCHEDULERS)


def test_two_others_are_not_compared(weft_here: Weft) -> None:
    done = weft_here("fidelity", "--backend", "quic,kernel")
    assert done.returncode != 0
    assert "`sim,kernel`, `sim,quic`, `sim,picoquic` or `sim,quic-to-picoquic`" in done.stderr


def test_cases_that_spread_over_seeds_get_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their spread alone, and no others: what was run with few seeds is run again for none."""
    file = tmp_path / "tiny.toml"
    file.write_text(TINY.replace('delay = "40 ms"', 'delay = "8 ms"\nloss = "1 %"').replace("100 kB", "400 kB"))
    wanted = settings.settings(Scenario.load(str(file)), drawn=False)
    request = runs.Request(cells=1, seed=0, folder=tmp_path / "out")
    monkeypatch.setattr(runs, "SEEDS", 7)
    monkeypatch.setattr(runs, "MOST_SEEDS", 7)
    few = {case.scheduler: case for case in quic.agreement(wanted, runs.run(request, wanted).rows).cases}
    spread = {name for name, case in few.items() if case.unsure > 0.05}
    assert spread and spread != few.keys(), "some spread, and some do not"
    monkeypatch.setattr(runs, "MOST_SEEDS", 21)
    cases = {case.scheduler: case for case in quic.agreement(wanted, runs.run(request, wanted).rows).cases}
    assert {name: case.seeds for name, case in cases.items()} == {name: 21 if name in spread else 7 for name in few}
    assert all(cases[name] == few[name] for name in few.keys() - spread)


def test_the_interval_of_the_wider_median_says_how_sure_a_case_is() -> None:
    """The interval of 50, 100 and 150 ms on each stack is their range: half of it is half the median."""
    some_setting = setting()
    [case] = quic.agreement([some_setting], rows(some_setting, {"min-rtt": (100.0, 100.0)})).cases
    assert case.unsure == 0.5
    [alone] = quic.agreement([some_setting], rows(some_setting, {"min-rtt": (100.0, 100.0)}, seeds=1)).cases
    assert alone.unsure == 0


@pytest.mark.parametrize("seed", [46, 7, 2811])
def test_every_drawn_cell_can_be_run_however_long_its_application_takes_to_write(seed: int, tmp_path: Path) -> None:
    """Messages of 29 kB each 320 ms, as in cell 4 of seed 46, are written in 192 s."""
    drawn = settings.drawn(seed, 20, tmp_path)
    assert len(drawn) == 20
