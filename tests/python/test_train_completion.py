"""The objective replaced: training begins as min-RTT, learns from a teacher, and lowers the cost of a toy scenario."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="training needs weftway[train]")

import weftway
from machine import NIGHTLY
from weftway import ScenarioError, _native
from weftway.learn.train import FOR_COMPLETION, command, completion, imitation
from weftway.learn.train.export import read_policy, write_policy
from weftway.learn.train.imitation import Rows, Weights
from weftway.learn.train.limits import SettingError
from weftway.learn.train.session import Trained
from weftway.rank.cells import Cell
from weftway.stats import pairs as paired

TOY = """\
title       = "A thin path thirty times as long, and a receiver that holds little"
transport   = "mpquic"
cc          = "cubic"
time_limit  = "2 min"
paths       = 2

[path.short]
rate  = { from = "10 Mbit/s", to = "20 Mbit/s" }
delay = "5 ms"
queue = "20 packets"

[path.long]
rate  = { from = "1 Mbit/s", to = "2 Mbit/s" }
delay = "150 ms"

[options]
receive_buffer = "128 KiB"

[workload]
kind  = "bulk"
bytes = "3 MB"
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> completion.Args:
    """A training of seconds: every scenario is the toy, but for one of the paper's own."""
    file = tmp_path_factory.mktemp("toy") / "toy.toml"
    file.write_text(TOY)
    return completion.Args(
        scheduler="dqn", on=str(file), pool=4, trials=2, steps=2, rounds=1, candidates=4, scenarios=3, teachers="ecf"
    )


@pytest.fixture(scope="module")
def trained(tiny: completion.Args, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return completion.train(replace(tiny, out=tmp_path_factory.mktemp("trained"), threads=1))


@pytest.mark.parametrize("scheduler", FOR_COMPLETION)
@pytest.mark.parametrize("scenario", ["three-paths", "unequal-pair"])
def test_before_anything_is_learned_every_decision_is_min_rtts(scheduler: str, scenario: str, tmp_path: Path) -> None:
    args = completion.Args(scheduler=scheduler, pool=1)
    inputs = _native.observed(args.design.task)
    begin = completion.min_rtt(len(inputs), args.design, 1)
    wide = {"low": np.full(len(inputs), -1e6), "high": np.full(len(inputs), 1e6)}
    file = tmp_path / "begin.safetensors"
    # Without a fallback: the network itself decides.
    card = {**completion.card(args, inputs), "fallback": "off"}
    write_policy(file, card, completion.Judge(args, card, wide).tensors(begin))
    spec = f"{scheduler}:policy={file}"
    sets = ["options.opportunistic=false", "options.penalise=false"]
    rows = weftway.compare(scenario, scheduler=f"min-rtt,{spec}", cc="cubic,bbr1", seeds="0..2", set=sets)
    runs = rows.sort("cc", "seed").to_dicts()
    ours, theirs = ([run for run in runs if run["scheduler"] == name] for name in (spec, "min-rtt"))
    assert len(ours) == len(theirs) == 4
    assert all(paired.is_alike(*pair) for pair in zip(ours, theirs, strict=True))


def test_a_policy_is_read_as_it_was_written(trained: Trained) -> None:
    assert trained.file is not None
    read = read_policy(trained.file)
    assert {name: value.tolist() for name, value in read.tensors.items()} == {
        name: value.tolist() for name, value in trained.policy.tensors.items()
    }
    assert "--objective completion" in read.card["command"] and read.card["cc"] == "as drawn, without bbr2"
    assert read.card["algorithm"] == "dqn" and read.card["task"].startswith("wait-or-send:scale=least")


def test_a_short_training_gains_on_a_toy_and_the_same_seed_gives_the_same_bytes(
    tiny: completion.Args, trained: Trained, tmp_path: Path
) -> None:
    scores = trained.held_out["score"]
    assert scores["policy"] > scores["as min-RTT"] + 0.05, scores
    assert trained.held_out["gain"]["mean"] > 0.05
    files = []
    for one in (trained, completion.train(replace(tiny, out=tmp_path / "two", threads=2))):
        assert one.file is not None
        files.append(one.file.read_bytes())
    assert files[0] == files[1]
    if NIGHTLY:
        other = completion.train(replace(tiny, seed=2, out=tmp_path / "other")).file
        assert other is not None and other.read_bytes() != files[0]


def test_no_scenario_is_under_the_controller_that_is_left_out(tiny: completion.Args) -> None:
    drawn = completion.draw(replace(tiny, on="world", left_out="cubic"), 1, 40)
    assert len(drawn) > 20 and "cubic" not in {cell.cc[0] for cell in drawn}


def test_a_network_learns_when_the_teacher_waits() -> None:
    rng = np.random.default_rng(1)
    seen = rng.standard_normal((4000, 3)).astype(np.float32) * [1, 10, 100]
    waited = (seen[:, 1] > 5).astype(np.float32)
    network = imitation.fit(Rows(seen.astype(np.float32), waited, np.ones(4000, np.float32)), (6,), 1)
    outputs = np.asarray(imitation.forward(network, seen))
    assert np.mean((outputs[:, 0] > outputs[:, 1]) == (waited > 0.5)) > 0.97


def test_a_teacher_says_what_it_would_have_done_where_a_student_leads(tiny: completion.Args) -> None:
    cells = completion.draw(tiny, 1, 2)
    inputs = len(_native.observed(tiny.design.task))

    def rows(student: str | None) -> Rows:
        return imitation.rows(cells, "ecf", tiny.design.task, inputs, 1, 1, student)

    shown, own, other = rows(None), rows("ecf"), rows("min-rtt")
    assert np.array_equal(shown.seen, own.seen) and np.array_equal(shown.waited, own.waited)
    # min-RTT never waits: it meets the full fast path with other data on the slow one, and ECF would have waited there.
    assert other.waited.mean() > 0 and not np.array_equal(shown.seen, other.seen)
    both = imitation.together([shown, other])
    assert len(both.seen) == len(both.waited) == len(both.weight) == len(shown.seen) + len(other.seen)


def test_the_search_moves_the_preference_for_sending_by_functions_of_spread_1() -> None:
    rng = np.random.default_rng(2)
    seen = rng.standard_normal((500, 3)).astype(np.float32)
    network = imitation.fit(Rows(seen, (seen[:, 0] > 0).astype(np.float32), np.ones(500, np.float32)), (5,), 1)
    directions = completion.Directions(network, Rows(seen, seen[:, 0], seen[:, 0]), 12)

    def preference(by: list[float]) -> np.ndarray:
        moved = directions.moved(np.array(by + [0.0] * (directions.count - len(by))))
        outputs = np.asarray(imitation.forward(moved, seen), np.float64)
        found: np.ndarray = outputs[:, 1] - outputs[:, 0]
        return found

    still = preference([])
    np.testing.assert_allclose(preference([2.0]) - still, 2 * directions.scale, rtol=1e-4)
    for at in (1, 2):
        by = [0.0] * at + [1.0]
        moved = (preference(by) - still) / directions.scale
        assert abs(moved.mean()) < 1e-3 and moved.std() == pytest.approx(1, abs=1e-3)


def test_the_search_goes_where_the_score_rises() -> None:
    rng = np.random.default_rng(3)
    seen = rng.standard_normal((300, 2)).astype(np.float32)
    rows = Rows(seen, (seen[:, 0] > 0).astype(np.float32), np.ones(300, np.float32))
    network = imitation.fit(rows, (4,), 1)
    directions = completion.Directions(network, rows, 12)

    class JudgedCell(completion.Judge):
        """Best is a network that on the average prefers sending by 2 of its own units."""

        def __init__(self) -> None: ...

        def scores(self, networks: Sequence[Weights], drawn: Sequence[Cell], runs: int = 1) -> completion.Floats:
            outputs = [np.asarray(imitation.forward(network, seen), np.float64) for network in networks]
            means = [(output[:, 1] - output[:, 0]).mean() / directions.scale for output in outputs]
            scores: completion.Floats = -np.abs(np.array(means) - 2)
            return scores

    judge = JudgedCell()
    args = completion.Args(scheduler="dqn", steps=12)
    searched = [network for _, network, _ in completion.search(args, judge, directions, [None] * 9)]  # type: ignore[list-item]
    assert len(searched) == 13
    first, last = judge.scores([searched[0], searched[-1]], [])
    assert first < -1 and last > -0.5


def test_the_objective_is_an_option_of_the_schedulers_that_have_it() -> None:
    assert command.objective("dqn", ["--seed", "3"]) == ("printed", ["--seed", "3"])
    options = ["--objective", "completion", "--seed", "3"]
    wanted, others = command.objective("dqn", options)
    args = command.settings("dqn", completion.Args, others, scheduler="dqn")
    assert wanted == "completion" and args.command() == "weft train dqn --objective completion --seed 3"
    assert {*FOR_COMPLETION} == {*completion.DESIGNS}
    with pytest.raises(ScenarioError, match="--objective completion: not for `rlds`; there is dqn"):
        command.objective("rlds", options)
    with pytest.raises(ScenarioError, match="invalid choice: 'speed'"):
        command.objective("dqn", ["--objective", "speed"])
    with pytest.raises(SettingError, match="--candidates 3: expected a whole number, 4 or more"):
        completion.Args(scheduler="dqn", candidates=3)
    with pytest.raises(SettingError, match="--left-out bbr9: unknown"):
        completion.Args(scheduler="dqn", left_out="bbr9")
