"""Held-out evaluation: the counting by hand, and the command."""

import json
import math
import re
import shlex
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import weftway.evaluate
import weftway.sample.distribution
from conftest import RANDOM_PATHS, Weft
from weftway import evaluate, rank
from weftway._native import ScenarioError
from weftway.evaluate import Request, claims, summary
from weftway.report.held_out import Held, ratios_lede
from weftway.runs import runner, specs
from weftway.runs.specs import policy_source
from weftway.stats import pairs as paired
from weftway.stats.pairs import Claim

TINY = (
    """\
title = "Two small paths"
transport = "mptcp"
cc = ["cubic", "bbr1"]

"""
    + RANDOM_PATHS
    + """
[options]
receive_buffer = "64 KiB"

[workload]
kind = "bulk"
bytes = "100 kB"
"""
)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    return file


def row(instance: int, scheduler: str, fct_ms: float | None, **more: Any) -> dict[str, Any]:
    """A row of an evaluation, with what counting needs."""
    usual = {
        "on": "tiny",
        "instance": f"tiny-{instance}",
        "cc": "cubic",
        "scheduler": scheduler,
        "is_policy": scheduler not in ("min-rtt", "random", "round-robin"),
        "mode": "each packet",
        "measure": "fct_ms",
        "verdict": "finished",
        "fct_ms": fct_ms,
        "goodput_mbps": 1.0,
        "message_p95_ms": None,
        "ooo_share": 0.5,
    }
    return {**usual, **more}


def frame(ratios: dict[str, list[float]], **more: Any) -> pl.DataFrame:
    """Rows in which each scheduler is so many times as fast as min-RTT, instance by instance."""
    rows = [
        row(instance, scheduler, 1000.0 / ratio, **more)
        for scheduler, some in ratios.items()
        for instance, ratio in enumerate(some)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def test_a_ratio_is_above_one_where_ours_is_better() -> None:
    assert paired.ratio(row(0, "x", 500.0), row(0, "y", 1000.0)) == 2.0
    ours, theirs = (
        row(0, name, None, measure="goodput_mbps", goodput_mbps=mbps) for name, mbps in (("x", 6), ("y", 4))
    )
    assert paired.ratio(ours, theirs) == 1.5
    assert paired.ratio(row(0, "x", 7.0), row(0, "y", 7.0)) == 1.0


def test_a_run_that_did_not_finish_is_counted_by_its_goodput() -> None:
    cut = row(0, "x", None, goodput_mbps=0.25)
    assert paired.ratio(cut, row(0, "y", 1000.0)) == 0.25
    dead = row(0, "x", None, goodput_mbps=0.0)
    assert paired.ratio(dead, row(0, "y", 1000.0)) == 1 / paired.MOST
    assert paired.ratio(row(0, "y", 1000.0), dead) == paired.MOST
    assert paired.ratio(dead, dead) == 1.0


def test_ratios_are_averaged_geometrically_with_equal_weight_for_each_instance() -> None:
    """Twice as good and half as good is as good. One instance with (2·8)^½ = 4 and one with 1 give (4·1)^½ = 2."""
    assert paired.geometric({"a": [2.0], "b": [0.5]}).value == pytest.approx(1.0)  # type: ignore[union-attr]
    assert paired.geometric({"a": [2.0, 8.0], "b": [1.0]}).value == pytest.approx(2.0)  # type: ignore[union-attr]
    assert paired.geometric({}) is None


def test_an_interval_is_that_of_the_mean_over_instances() -> None:
    """100 values of 0 and 1 by halves: mean 0.5, sd of the mean 0.05, so 0.402 to 0.598; an end of 2000 resamples is
    good to a fifth of that sd, and the mean is a multiple of 0.01."""
    estimate = paired.estimate([0.0, 1.0] * 50)
    assert estimate is not None and estimate.low is not None and estimate.high is not None
    assert estimate.value == 0.5
    assert estimate.low == pytest.approx(0.402, abs=0.02)
    assert estimate.high == pytest.approx(0.598, abs=0.02)
    assert paired.estimate([0.0, 1.0] * 50) == estimate, "equal rows give equal intervals"
    same = paired.estimate([3.0] * 5)
    assert same is not None and (same.value, same.low, same.high) == (3.0, 3.0, 3.0)


def test_cells_of_one_instance_are_no_independent_evidence() -> None:
    alone = paired.geometric({"a": [2.0] * 50})
    assert alone is not None and alone.low is None and alone.high is None
    once = paired.geometric({"a": [2.0], "b": [1.0], "c": [1.0]})
    assert paired.geometric({"a": [2.0] * 9, "b": [1.0] * 9, "c": [1.0] * 9}) == once


def test_a_summary_counts_what_is_lost_and_won() -> None:
    """Against min-RTT: 0.9 is lost, 0.96 is not, 1.1 and 1.2 are won."""
    table = summary(frame({"min-rtt": [1, 1, 1, 1], "x": [0.9, 0.96, 1.1, 1.2], "y": [0.5, 0.5, 1, 1]}))
    assert table["scheduler"].to_list() == ["x", "min-rtt", "y"], "best first"
    lines = {line["scheduler"]: line for line in table.iter_rows(named=True)}
    assert (lines["x"]["lost_share"], lines["x"]["won_share"], lines["x"]["cells"]) == (0.25, 0.5, 4)
    assert lines["x"]["ratio"] == pytest.approx((0.9 * 0.96 * 1.1 * 1.2) ** 0.25)
    assert lines["y"]["ratio"] == pytest.approx(0.5**0.5)
    assert (lines["min-rtt"]["ratio_low"], lines["min-rtt"]["ratio_high"]) == (1.0, 1.0)


def test_a_summary_has_all_controllers_and_each() -> None:
    both = pl.concat([frame({"min-rtt": [1, 1], "x": [2, 2]}), frame({"min-rtt": [1, 1], "x": [0.5, 0.5]}, cc="bbr1")])
    lines = summary(both).filter(pl.col("scheduler") == "x")
    assert lines["cc"].to_list() == ["all", "cubic", "bbr1"]
    assert lines["ratio"].to_list() == pytest.approx([1.0, 2.0, 0.5])
    assert lines["instances"].to_list() == [2, 2, 2]


def asked(ratios: dict[str, list[float]], claim: str, **more: Any) -> Claim:
    (answer,) = [answer for answer in claims(frame(ratios, **more)) if claim in answer.claim]
    return answer


def test_beating_random_takes_the_whole_interval() -> None:
    surely = asked({"random": [1] * 20, "x": [1.1, 1.2] * 10}, "random")
    assert (surely.verdict, surely.is_sure) == ("holds", True)
    assert surely.value == pytest.approx((1.1 * 1.2) ** 0.5)
    # Nine times 0.9 and once 3: above 1 on the mean, 0.9·(3/0.9)^0.1 = 1.015, but a resample without the 3 has 0.9.
    perhaps = asked({"random": [1] * 10, "x": [0.9] * 9 + [3]}, "random")
    assert perhaps.value > 1 and perhaps.low is not None and perhaps.low == pytest.approx(0.9)
    assert (perhaps.verdict, perhaps.is_sure) == ("fails", False)
    worse = asked({"random": [1] * 10, "x": [0.9] * 10}, "random")
    assert (worse.verdict, worse.is_sure) == ("fails", True)


def test_a_range_of_few_instances_is_no_interval() -> None:
    few = asked({"random": [1] * 4, "x": [1.1, 1.2] * 2}, "random")
    assert (few.low, few.high) == pytest.approx((1.1, 1.2))
    assert (few.verdict, few.is_sure) == ("fails", False)
    lede = ratios_lede(Held("x", "", summary(frame({"min-rtt": [1] * 4, "x": [1.1, 1.2] * 2})).to_dicts(), [], []))
    assert "A bar is the range of 4 instances, too few for an interval." in lede and "bootstrap" not in lede


def test_dqn_is_held_against_min_rtt_under_bbr1() -> None:
    ratios: dict[str, list[float]] = {"min-rtt": [1] * 10, "dqn": [1.01] * 10, "x": [2] * 10}
    claim = asked(ratios, "BBRv1", cc="bbr1")
    assert (claim.scheduler, claim.against, claim.cc, claim.verdict) == ("dqn", "min-rtt", "bbr1", "holds")
    assert not [claim for claim in claims(frame(ratios, cc="cubic")) if "BBRv1" in claim.claim]
    with_file = asked({"min-rtt": [1] * 5, "dqn:policy=a.safetensors": [0.98] * 5}, "BBRv1", cc="bbr1")
    assert (with_file.verdict, with_file.is_sure) == ("fails", True)


@pytest.mark.parametrize("name", ["pdaa3c", "stsgat"])
def test_interval_policies_are_held_against_round_robin_in_exclusive_mode(name: str) -> None:
    ratios: dict[str, list[float]] = {"round-robin": [1] * 10, name: [0.9, 1.2] * 5}
    claim = asked(ratios, "round robin", mode="exclusive 100ms")
    assert (claim.verdict, claim.is_sure, claim.mode) == ("holds", False, "exclusive 100ms")
    assert claim.value == pytest.approx((0.9 * 1.2) ** 0.5)
    assert not [claim for claim in claims(frame(ratios, mode="preferred 100ms")) if "round robin" in claim.claim]


def test_a_policy_that_loses_one_cell_of_ten_is_still_within_the_bar() -> None:
    at_bar = asked({"min-rtt": [1] * 10, "x": [0.9] + [1] * 9}, "10 %")
    assert (at_bar.value, at_bar.verdict, at_bar.is_sure) == (0.1, "holds", False)
    beyond = asked({"min-rtt": [1] * 10, "x": [0.9] * 2 + [1] * 8}, "10 %")
    assert (beyond.value, beyond.verdict) == (0.2, "fails")
    never = asked({"min-rtt": [1] * 10, "x": [0.96] * 10}, "10 %")
    assert (never.value, never.verdict, never.is_sure) == (0.0, "holds", True)


def test_everyone_meets_the_same_instances_and_seeds(tiny: Path) -> None:
    three: Any = np.int64(3)  # whole numbers of numpy are numbers, too
    wanted, about = evaluate.planned(Request("ecf", tiny, "round-robin", instances=three))
    met: dict[str, set[tuple[Any, ...]]] = {}
    for job in wanted.jobs:
        assert job.seed % 2 == 1, "held-out runs have odd seeds"
        met.setdefault(job.scheduler.name, set()).add((job.variant.hash, job.cc[0], job.seed))
    assert set(met) == {"ecf", "min-rtt", "round-robin"}, "the reference takes part uninvited"
    assert len(met["ecf"]) == 3 * 2
    assert met["ecf"] == met["min-rtt"] == met["round-robin"]
    assert {entry["measure"] for entry in about.values()} == {"fct_ms"}
    train = {variant.hash for variant in weftway.sample.distribution.load(tiny).pool(1, 50)}
    assert not train & {job.variant.hash for job in wanted.jobs}


def test_several_seeds_of_an_instance_are_one_cell(tiny: Path) -> None:
    wanted, _ = evaluate.planned(Request("ecf", tiny, "min-rtt", "cubic", 2, seeds=3))
    met: dict[str, list[int]] = {}
    for job in wanted.jobs:
        met.setdefault(f"{job.scheduler.name} {job.variant.hash}", []).append(job.seed)
    assert len(met) == 2 * 2
    assert all(len({*seeds}) == 3 and all(seed % 2 for seed in seeds) for seeds in met.values())
    # Twice and eight times as fast: four times; half as fast: 1 over 2. Two cells, of which one is lost.
    times = {("ecf", 0): [500.0, 125.0], ("ecf", 1): [2000.0, 2000.0], ("min-rtt", 0): [1000.0] * 2}
    times["min-rtt", 1] = times["min-rtt", 0]
    rows = [
        row(instance, name, fct, seed=1 + 2 * at)
        for (name, instance), some in times.items()
        for at, fct in enumerate(some)
    ]
    cells = paired.Cells(pl.DataFrame(rows, infer_schema_length=None))
    ratios = cells.ratios("ecf", "min-rtt")
    assert [ratio for some in ratios.values() for ratio in some] == pytest.approx([4.0, 0.5])
    assert len(cells.runs("ecf")) == 4


def test_a_key_that_is_set_is_part_of_the_instance(tiny: Path) -> None:
    sets = ["decision.interval=100ms", "decision.mode=exclusive"]
    wanted, about = evaluate.planned(Request("ecf", tiny, "min-rtt", "cubic", 1, set=sets))
    assert {entry["mode"] for entry in about.values()} == {"exclusive 100ms"}
    assert all(f"--set {setting}" in wanted.jobs[0].command for setting in sets)


def policy(file: Path, **card: str) -> Path:
    """The smallest policy file: one input, two outputs. Eight bytes of length, the header, the numbers."""
    shapes = {"low": [1], "high": [1], "w1": [1, 2], "b1": [2]}
    card = {
        "format": "weftway-policy-1",
        "inputs": "x",
        "task": "path",
        "network": "mlp",
        "head": "greedy",
        "fallback": "off",
        **card,
    }
    header: dict[str, Any] = {"__metadata__": card}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
    return file


def test_a_policy_file_names_its_algorithm(tmp_path: Path) -> None:
    file = policy(tmp_path / "p.safetensors", algorithm="dqn")
    assert specs.runner(str(file)) == f"dqn:policy={file}"
    assert specs.runner(f"{file}:fallback=off") == f"dqn:policy={file}:fallback=off"
    assert specs.runner("ecf:beta=0.5") == "ecf:beta=0.5"
    assert specs.runner(f"dqn:policy={file}") == f"dqn:policy={file}"
    with pytest.raises(ScenarioError, match=r"p\.safetensors: its card has no `algorithm`"):
        specs.runner(str(policy(file)))
    file.write_bytes(b"short")
    with pytest.raises(ScenarioError, match="not a whole safetensors file"):
        specs.runner(str(file))
    with pytest.raises(ScenarioError, match=r"none\.safetensors: No such file"):
        specs.runner(str(tmp_path / "none.safetensors"))


def test_a_policy_that_was_trained_again_is_another(tmp_path: Path) -> None:
    file = policy(tmp_path / "p.safetensors", algorithm="dqn")
    before = policy_source(f"dqn:policy={file}")
    assert policy_source(f"dqn:policy={file}:fallback=off") == before
    file.write_bytes(file.read_bytes() + b"weights")
    assert policy_source(f"dqn:policy={file}") not in (before, None)
    assert policy_source("ecf:beta=0.5") is None


def test_what_a_policy_falls_back_on_is_a_part_of_its_source(tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    file = policy(tmp_path / "p.safetensors", algorithm="dqn", fallback=f"dqn:policy={other}")
    alone = policy_source(f"dqn:policy={file}")
    assert alone == policy_source(f"dqn:policy={file}:fallback=off")
    policy(other, algorithm="dqn", fallback=f"dqn:policy={file}")
    both = policy_source(f"dqn:policy={file}")
    policy(other, algorithm="dqn", fallback="min-rtt")
    assert len({alone, both, policy_source(f"dqn:policy={file}")}) == 3


def test_what_is_kept_is_not_run_again(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"

    def again() -> pl.DataFrame:
        return weftway.evaluate.evaluate("ecf", tiny, against="round-robin", instances=3, out=out)

    rows = again()
    assert rows.height == 3 * 2 * 3
    assert pl.read_parquet(out / "rows.parquet")["instance"].to_list() == rows["instance"].to_list()

    def none(todo: list[Any], **more: Any) -> Iterator[Any]:
        assert not todo
        return iter([])

    monkeypatch.setattr(runner, "results", none)
    assert again().equals(rows)


def test_a_class_in_python_takes_part(tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "first.py"
    file.write_text("class First:\n    def select(self, cx):\n        return next(iter(cx.sendable()), None)\n")
    rows = weftway.evaluate.evaluate(f"{file}:First", tiny, against="min-rtt", cc="cubic", instances=2)
    assert rows.filter("is_policy")["scheduler"].unique().to_list() == [f"{file}:First"]


def test_a_class_in_python_is_one_though_it_is_named_twice(tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "first.py"
    file.write_text("class First:\n    def select(self, cx):\n        return next(iter(cx.sendable()), None)\n")
    name = f"{file}:First"
    assert evaluate.evaluate(name, tiny, against=name, cc="cubic", instances=2)["scheduler"].to_list().count(name) == 2
    ranking = rank.run(rank.Request(on=[str(tiny)], cells=2, seeds="0..2", schedulers=["ecf", name], candidate=name))
    assert [scheduler.name for scheduler in ranking.schedulers] == ["ecf", name]
    with pytest.raises(ScenarioError, match="`ecf`: two have this name"):
        evaluate.evaluate(type("ecf", (), {"select": lambda self, cx: None}), tiny, against="ecf", instances=1)


def test_arguments_are_those_of_a_comparison(tiny: Path) -> None:
    keys = {"decision.interval": "100ms", "decision.mode": "exclusive"}
    rows = evaluate.evaluate("ecf", tiny, against="ecf", cc="cubic", instances=1, set=keys)
    assert rows["mode"].to_list() == ["exclusive 100ms"] * 2
    with pytest.raises(ScenarioError, match="jobs 0: expected a whole number from 1 on"):
        evaluate.evaluate("ecf", tiny, instances=1, jobs=0)


@pytest.mark.parametrize(("name", "number"), [("instances", 0), ("instances", 1.5), ("seeds", range(2)), ("seed", -1)])
def test_a_number_that_is_none_is_refused_by_name(tiny: Path, name: str, number: Any) -> None:
    with pytest.raises(ScenarioError, match=re.escape(f"{name} {number!r}: expected a whole number from")):
        evaluate.evaluate("ecf", tiny, **{name: number})


def test_the_command_tells_shows_and_keeps(weft: Weft, tiny: Path, tmp_path: Path) -> None:
    words = ("evaluate", "ecf", "--on", tiny, "--against", "round-robin", "--instances", "4", "--out", "out")
    run = weft(*words)
    assert run.returncode == 0, run.stderr
    assert "4 held-out instances" in run.stdout and "claims" in run.stdout
    page = (tmp_path / "out/report.html").read_text()
    assert page.count('class="interval') == 6, "a bar for two schedulers over all controllers and under each of two"
    assert "weft evaluate ecf --on" in page
    records = json.loads(weft(*words, "--json").stdout)
    results = [record for record in records if record["kind"] == "result"]
    assert [record["cc"] for record in results] == ["all"] * 3 + ["cubic"] * 3 + ["bbr1"] * 3
    assert all(math.isclose(record["ratio"], 1) for record in results if record["scheduler"] == "min-rtt")
    assert [record["claim"][:10] for record in records if record["kind"] == "claim"] == ["loses more"]


def test_the_command_of_a_row_repeats_it(weft: Weft, tiny: Path, tmp_path: Path) -> None:
    weft("evaluate", "ecf", "--on", tiny, "--against", "min-rtt", "--instances", "1", "--out", "out")
    kept = pl.read_parquet(tmp_path / "out/rows.parquet").row(0, named=True)
    (again,) = json.loads(weft(*shlex.split(kept["command"])[1:], "--json").stdout)
    assert {name: kept[name] for name in again if name != "command"} == {
        name: value for name, value in again.items() if name != "command"
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nope", "--on", "mpquic-pair"), "unknown scheduler `nope`"),
        (("ecf", "--on", "mpquic-par"), "did you mean `mpquic-pair`?"),
        (("ecf", "--on", "mpquic-pair", "--cc", "cubik"), "cubik"),
        (("p.safetensors", "--on", "mpquic-pair"), "policy p.safetensors: No such file"),
        (("ecf", "--on", "mpquic-pair", "--set", "path.thick.rate=1Mbit/s"), "thick"),
    ],
)
def test_mistakes_are_told(weft: Weft, words: tuple[str, ...], message: str) -> None:
    done = weft("evaluate", *words)
    assert done.returncode == 2
    assert message in done.stderr and not done.stdout
