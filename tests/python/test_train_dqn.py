"""Value-based training: the bookkeeping of delayed rewards, the update, the trainers, the detector of FALCON."""

import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("jax")
pytest.importorskip("optax")

import jax

from weftway import ScenarioError
from weftway.learn.train import (
    ALGORITHMS,
    caution,
    checkpoint,
    command,
    dqn,
    export,
    falcon,
    lee_yoo,
    rlds,
    rosello,
    session,
)
from weftway.learn.train.dqn import (
    TOGETHER,
    Boltzmann,
    EpsilonGreedy,
    Hyperparameters,
    LinearSchedule,
    PendingTransitions,
    QLearningArgs,
    ReplayBuffer,
    Transitions,
    UpdateSchedule,
)
from weftway.learn.train.input_ranges import InputRanges
from weftway.learn.train.limits import SettingError
from weftway.learn.train.networks import MLP
from weftway.sample import distribution
from weftway.sample.distribution import Drawn
from weftway.terminal.progress import Bar
from weftway.vector import DelayedRewards

TINY: dict[str, Any] = {"steps": 1_600, "pool": 8, "envs": 4, "trials": 3, "held_out": 2, "checkpoint_every": 400}


def count(network: MLP) -> int:
    return sum(tensor.size for tensor in network.tensors().values())


def test_networks_have_the_published_number_of_weights() -> None:
    # 6·6+6 + 6·6+6 + 6·2+2; 9·24+24 + 2·(24·24+24) + 24·7+7; 6·8+8 + 8·8+8 + 8·2+2.
    cases = [
        (dqn.Args(), 6, 2, 98),
        (lee_yoo.Args(), 9, 7, 1615),
        (rosello.Args(), 6, 2, 146),
        # 12·16+16 + 16·16+16 + 16·2+2.
        (rosello.Args(state="12"), 12, 2, 514),
    ]
    for args, inputs, choices, expected in cases:
        assert count(MLP([inputs, *args.widths, choices], jax.random.key(0))) == expected


def closed(*rows: tuple[int, int, float]) -> DelayedRewards:
    place, decision, reward = zip(*rows, strict=True) if rows else ((), (), ())
    return DelayedRewards(np.array(place, np.int32), np.array(decision, np.int64), np.array(reward, np.float32))


def then(*rows: tuple[float, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observations of each place, and the number of its decision."""
    obs, numbers = zip(*rows, strict=True)
    return np.array(obs, np.float32)[:, None], np.ones((len(rows), 2), np.bool_), np.array(numbers, np.int64)


def told(rows: Transitions) -> list[tuple[float, int, float, float, bool]]:
    columns = (rows.obs[:, 0], rows.action, rows.reward, rows.next_obs[:, 0], rows.done)
    return [tuple(np.asarray(value).item() for value in row) for row in zip(*columns, strict=True)]


def test_rewards_find_their_decisions_in_any_order() -> None:
    no = np.zeros(2, np.bool_)
    book = PendingTransitions(envs=2, inputs=1, choices=2, window=4)
    book.observe(*then((1.0, 0), (5.0, 0)))
    # Nothing has been earned.
    assert told(book.step(np.array([0, 1]), closed(), no, then((2.0, 1), (6.0, 1)))) == []
    # Place 0: decision 1 is paid before decision 0. Place 1: decision 0 is paid twice at once.
    paid = book.step(np.array([1, 0]), closed((0, 1, 0.5), (1, 0, 1.0), (1, 0, 2.0)), no, then((3.0, 2), (7.0, 2)))
    assert told(paid) == [(2.0, 1, 0.5, 3.0, False), (5.0, 1, 3.0, 6.0, False)]
    # Place 0 ends with decision 2, which is paid; 0 is paid too. Place 1 waits.
    done = np.array([True, False])
    paid = book.step(np.array([1, 1]), closed((0, 0, -1.0), (0, 2, 4.0)), done, then((9.0, 3), (8.0, 3)))
    assert told(paid) == [(1.0, 0, -1.0, 2.0, False), (3.0, 1, 4.0, 9.0, True)]
    # Decision 0 of place 0 is through, and 7 has not been made: neither reward is of use.
    assert told(book.step(np.array([0, 0]), closed((0, 0, 1.0), (0, 7, 1.0)), no, then((1.0, 4), (1.0, 4)))) == []


def test_a_decision_that_was_not_made_is_no_transition() -> None:
    book = PendingTransitions(envs=1, inputs=1, choices=2, window=4)
    book.observe(*then((1.0, 0)))
    no, yes = np.zeros(1, np.bool_), np.ones(1, np.bool_)
    book.step(np.array([0]), closed(), no, then((2.0, 1)))
    # The episode ends before decision 1 is made; 3.0 belongs to the next, so that 0 has nothing that follows.
    assert told(book.step(np.array([1]), closed((0, 0, 1.0)), yes, then((3.0, 1)))) == []
    assert told(book.step(np.array([0]), closed((0, 1, 2.0)), no, then((4.0, 2)))) == [(3.0, 0, 2.0, 4.0, False)]


def test_old_decisions_are_forgotten() -> None:
    book = PendingTransitions(envs=1, inputs=1, choices=2, window=2)
    book.observe(*then((0.0, 0)))
    no = np.zeros(1, np.bool_)
    for number in range(1, 4):
        book.step(np.array([0]), closed(), no, then((float(number), number)))
    # Of 0, 1, 2 and the pending 3 a ring of two has kept 2 and 3.
    assert told(book.step(np.array([1]), closed((0, 0, 1.0), (0, 2, 1.0)), no, then((4.0, 4)))) == []
    assert len(book._number[book._number >= 0]) == 2


def rows(obs: list[list[float]], action: list[int], reward: list[float]) -> Transitions:
    here, size = np.array(obs, np.float32), len(obs)
    flags = np.ones((size, 2), np.bool_)
    return Transitions(here, np.array(action), np.array(reward, np.float32), here, flags, np.zeros(size, np.bool_))


def test_a_memory_keeps_the_newest() -> None:
    buffer = ReplayBuffer(3, 1, 2)
    buffer.add(rows([[1.0], [2.0]], [0, 0], [1.0, 2.0]))
    buffer.add(rows([[3.0], [4.0]], [0, 0], [3.0, 4.0]))
    assert (len(buffer), buffer.added) == (3, 4)
    assert sorted(set(buffer.sample(np.random.default_rng(0), 8, 8).reward.ravel().tolist())) == [2.0, 3.0, 4.0]
    buffer.add(rows([[x] for x in range(5)], [0] * 5, [5.0, 6.0, 7.0, 8.0, 9.0]))
    assert sorted(set(buffer.sample(np.random.default_rng(0), 8, 8).reward.ravel().tolist())) == [7.0, 8.0, 9.0]


def test_ranges_are_percentiles_with_a_margin() -> None:
    ranges = InputRanges(np.zeros(2, np.float32), np.full(2, 4.0, np.float32))
    ranges.add(np.stack([np.linspace(1, 3, 10_001), np.full(10_001, 2.0)], 1).astype(np.float32))
    low, high = ranges.bounds()
    # 1.002 and 2.998, 0.2 and 0.04 wider on either side; a constant has its bin of 4/2048 and 0.04.
    assert low == pytest.approx([1.002 - 0.24, 2 - 0.04], abs=5e-3)
    assert high == pytest.approx([2.998 + 0.24, 2 + 0.04], abs=5e-3)


def test_targets_look_at_open_choices_only() -> None:
    network = MLP.of({"w1": [[1.0, 3.0]], "b1": [0.0, 0.0]})
    batch = rows([[2.0], [2.0], [2.0]], [0, 0, 0], [1.0, 1.0, 1.0])
    mask = np.array([[True, True], [True, False], [True, True]])
    batch = batch._replace(next_mask=mask, done=np.array([False, False, True]))
    # Values of 2.0 are 2 and 6: 1 + 0.5·6, 1 + 0.5·2, and 1 where the episode was over.
    assert dqn.td_targets(0.5, network, batch).tolist() == [4.0, 2.0, 1.0]


@pytest.mark.parametrize("loss", ["huber", "mse"])
def test_of_two_arms_the_better_is_learned(loss: str) -> None:
    # In state (1, 0) arm 0 pays 1, in state (0, 1) arm 1 does; the other pays nothing.
    args = QLearningArgs(distribution="", cc="cubic", gamma=0.0, learning_rate=1e-2, loss=loss)
    rng, buffer = np.random.default_rng(0), ReplayBuffer(1000, 2, 2)
    state, arm = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    buffer.add(rows(np.eye(2)[state].tolist(), arm.tolist(), (state == arm).astype(float).tolist()))
    learned, _ = UpdateSchedule(args).update(
        dqn.initial_state(Hyperparameters.of(args), [2, 6, 6, 2], jax.random.key(0)), buffer, 1000, rng
    )
    values = np.asarray(learned.network(jax.numpy.eye(2)))
    assert values == pytest.approx(np.eye(2), abs=0.2)


def test_the_target_is_copied_or_follows() -> None:
    rng, buffer = np.random.default_rng(0), ReplayBuffer(100, 1, 2)
    buffer.add(rows([[1.0]] * 40, [0] * 40, [1.0] * 40))
    batches = buffer.sample(rng, 3, 8)
    hyper = Hyperparameters(0.0, 1e-3, "mse", 0.0, target_every=3, target_rate=0.0)
    first = dqn.initial_state(hyper, [1, 2], jax.random.key(0))
    two, _ = dqn.updater(hyper)(first, Transitions(*(row[:2] for row in batches)))  # type: ignore[arg-type]
    assert two.target.tensors()["w1"].tolist() == first.target.tensors()["w1"].tolist()
    three, _ = dqn.updater(hyper)(two, Transitions(*(row[2:] for row in batches)))  # type: ignore[arg-type]
    assert three.target.tensors()["w1"].tolist() == three.network.tensors()["w1"].tolist()
    soft = hyper._replace(target_every=0, target_rate=0.25)
    one, _ = dqn.updater(soft)(first, Transitions(*(row[:1] for row in batches)))  # type: ignore[arg-type]
    before, after = first.network.tensors()["b1"], one.network.tensors()["b1"]
    assert one.target.tensors()["b1"] == pytest.approx(before + 0.25 * (after - before))


def test_updates_wait_until_they_fill_a_loop() -> None:
    args = QLearningArgs(distribution="", cc="cubic", warm_up=50, updates=5)
    rng, buffer = np.random.default_rng(0), ReplayBuffer(100, 1, 2)
    schedule, state = UpdateSchedule(args), dqn.initial_state(Hyperparameters.of(args), [1, 2], jax.random.key(0))
    buffer.add(rows([[1.0]] * 49, [0] * 49, [1.0] * 49))
    state, losses = schedule.update(state, buffer, 49, rng)
    assert (schedule.due, losses) == (0, [])
    buffer.add(rows([[1.0]] * 7, [0] * 7, [1.0] * 7))
    state, losses = schedule.update(state, buffer, 7, rng)
    # 7 transitions bring 35 updates: two loops of 16, and 3 are still owed.
    assert (TOGETHER, schedule.due, len(losses), int(state.updates)) == (16, 3, 2, 32)


def test_exploration_goes_down_in_a_line() -> None:
    line = LinearSchedule(1.0, 0.05, 5000)
    assert [line.at(0), line.at(2500), line.at(5000), line.at(9999)] == pytest.approx([1.0, 0.525, 0.05, 0.05])
    q, mask = np.tile(np.array([1.0, 2.0, 3.0], np.float32), (4000, 1)), np.tile([True, True, False], (4000, 1))
    epsilon = EpsilonGreedy(1.0, 0.0, 1).choose(q, mask, 0.5, np.random.default_rng(0))
    # Half of them any of two, half the better: 1/4 and 3/4; closed choices never.
    assert np.bincount(epsilon, minlength=3) / 4000 == pytest.approx([0.25, 0.75, 0.0], abs=0.03)
    boltzmann = Boltzmann(1.0, 0.01, 1).choose(q, mask, 1.0, np.random.default_rng(0))
    # e/(1 + e) = 0.731.
    assert np.bincount(boltzmann, minlength=3) / 4000 == pytest.approx([0.269, 0.731, 0.0], abs=0.03)


def test_a_resumed_training_gives_the_bytes_of_an_uninterrupted_one(tmp_path: Path, short: str) -> None:
    args = dqn.Args(**{**TINY, "trials": 1}, distribution=short, out=tmp_path / "whole")
    whole = dqn.train(args)
    assert whole.file is not None
    again = dqn.train(replace(args, out=tmp_path / "threads", threads=2))
    assert again.file is not None
    assert again.file.read_bytes() == whole.file.read_bytes()

    def interrupt(done: int, total: int) -> None:
        if done >= 1_000:
            raise KeyboardInterrupt

    cut = replace(args, out=tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        dqn.train(cut, interrupt)
    resumed = dqn.train(replace(cut, resume=True))
    assert resumed.file is not None
    assert resumed.file.read_bytes() == whole.file.read_bytes()
    assert resumed.curve == whole.curve
    with pytest.raises(checkpoint.CheckpointError, match="other settings"):
        dqn.train(replace(cut, resume=True, gamma=0.5))


def test_the_best_checkpoint_is_exported(tmp_path: Path) -> None:
    # Steps of this size forget what was learned: with this seed the last policy is not the best.
    small = {**TINY, "trials": 6, "steps": 1_000}
    args = rlds.Args(**small, seed=3, learning_rate=0.3, mode="exclusive", out=tmp_path)
    done = rlds.train(args)
    assert done.file is not None
    tried = [point for point in done.curve if "trial" in point and point.get("kind") != "chance"]
    best = max(tried, key=lambda point: point["trial"])
    assert tried[-1]["step"] == 1_000 and tried[-1]["trial"] < best["trial"]
    choose = caution.Watched(done.file, "greedy", 1).choose
    assert session.ValidationSet(args, rlds.task(args), 6).speed(choose) == best["trial"]
    assert f"after {best['step']} decisions" in done.policy.card["chosen"]


def test_of_checkpoints_the_first_of_the_fastest_is_kept() -> None:
    best = session.Best("untrained")
    for name, speed in [("slow", 1.0), ("fast", 3.0), ("as fast", 3.0), ("slower", 2.0)]:
        best.offer(name, (speed, len(name), "greedy"))
    assert (best.network, best.notes) == ("fast", (3.0, 4, "greedy"))


def test_validation_scenarios_are_neither_of_the_training_nor_held_out() -> None:
    args = dqn.Args(pool=20, held_out=20, trials=20)
    there = distribution.load(args.distribution)
    texts = {
        name: {variant.scenario.text for variant in variants}
        for name, variants in {
            "train": args.variants(),
            "held-out": there.pool(args.seed, 20, "held-out"),
            "validation": session.validation_variants(args, 20),
        }.items()
    }
    assert all(len(group) == 20 for group in texts.values())
    assert not texts["validation"] & (texts["train"] | texts["held-out"])


def test_a_policy_says_what_it_is(tmp_path: Path, short: str) -> None:
    trained = dqn.train(dqn.Args(**TINY, distribution=short, out=tmp_path, w0_kb=500))
    assert trained.file is not None
    card, tensors = export.read_policy(trained.file)
    assert (card["algorithm"], card["head"], card["fallback"]) == ("dqn", "greedy", "min-rtt")
    assert card["task"] == "wait-or-send:state=paper:reward=delivery:w0_kb=500"
    assert "--w0-kb 500" in card["command"] and "--steps 1600" in card["command"] and "--out" not in card["command"]
    assert {name: tensor.shape for name, tensor in tensors.items() if name[0] in "wb"} == {
        "w1": (6, 6),
        "b1": (6,),
        "w2": (6, 6),
        "b2": (6,),
        "w3": (6, 2),
        "b3": (2,),
    }
    assert (tensors["low"] < tensors["high"]).all()
    assert {"step", "return", "loss", "eps", "goodput"} <= trained.curve[1].keys()
    assert trained.curve[-1]["kind"] == "held-out"
    assert set(trained.held_out) == {"dqn", "random", "min-rtt", "wait"}


def test_falcon_has_a_model_for_each_group(tmp_path: Path, short: str) -> None:
    sizes: dict[str, Any] = {"steps": 12 * 64 * 4, "visit": 64, "pool": 24, "kinds": 1, "trials": 12, "held_out": 1}
    args = falcon.Args(**sizes, distribution=short, out=tmp_path, checkpoint_every=1536)
    whole = falcon.train(args)
    groups = [name.split("=")[0] for name in whole.policy.card["groups"].split(",")]
    assert len(groups) > 3
    # 7·64+64 + 64·64+64 + 64·2+2 weights each.
    weights = [
        sum(tensor.size for name, tensor in whole.policy.tensors.items() if name.startswith(f"{at}.")) for at in groups
    ]
    assert weights == [4802] * len(groups)
    assert sum(name.endswith(".w1") for name in whole.policy.tensors) == falcon.GROUPS
    # Every group's model is the fastest of its checkpoints, and the curve begins with chance.
    assert whole.curve[0]["kind"] == "chance" and whole.curve[-2]["trial"] > 0
    assert whole.policy.card["chosen"].count(" after ") == len(groups)
    assert whole.file is not None
    expected = whole.file.read_bytes()
    # It goes on from the checkpoint after half of the turns, and writes the same file anew.
    resumed = falcon.train(replace(args, resume=True))
    assert resumed.file is not None
    assert resumed.file.read_bytes() == expected


def test_groups_are_numbered_by_rate_then_loss_then_time() -> None:
    # 20 over 70 Mbit/s is below 1/3, and above 3 the other way round; 40 over 10 ms are 4 times as long.
    assert falcon.group((70.0, 10.0), (20.0, 40.0), 0.01) == 3
    assert falcon.group((20.0, 10.0), (70.0, 19.0), 0.0) == 8
    assert falcon.label(3) == "rate<1/3 loss>=0.5% rtt>=2"
    assert len({falcon.label(at) for at in range(falcon.GROUPS)}) == falcon.GROUPS


def test_a_group_follows_from_two_paths_in_any_units() -> None:
    def drawn(**values: str) -> Drawn:
        return Drawn("one", "", {key.replace("_", "."): value for key, value in values.items()}, "cubic", 0)

    # 70 over 100 Mbit/s with 0.5 % lost, and 40 over 10 ms.
    fast = {"path_a_rate": "0.1 Gbit/s", "path_a_delay": "10 ms", "path_a_loss": "0.5 %"}
    slow = {"path_b_rate": "70 Mbit/s", "path_b_delay": "0.04 s"}
    assert falcon.group_of(drawn(**fast, **slow)) == 7
    for values in (fast, {**fast, **slow, "path_c_rate": "1 Mbit/s"}, {**fast, "path_b_trace": "b.trace"}):
        with pytest.raises(ScenarioError, match="one: expected two paths, each with a `rate` and a `delay`"):
            falcon.group_of(drawn(**values))


def test_falcons_card_has_what_the_scheduler_learns_on_with(short: str) -> None:
    sizes: dict[str, Any] = {"steps": 1, "visit": 4, "pool": 12, "kinds": 1, "trials": 12, "held_out": 1}
    assert falcon.train(falcon.Args(**sizes, distribution=short, gamma=0.5)).policy.card["gamma"] == "0.5"
    with pytest.raises(SettingError, match="--pool 1: expected more"):
        falcon.train(falcon.Args(**{**sizes, "pool": 1}, distribution=short))


def test_every_setting_is_an_option_with_help() -> None:
    for algorithm in ("dqn", "rlds", "rosello", "lee-yoo", "falcon"):
        args = command.module(algorithm).Args
        assert set(command.documented(args)) >= {field.name for field in fields(args)}
    given = command.parser("dqn", dqn.Args).parse_args(["--w0-kb", "50", "--quick", "--out", "there"])
    assert (given.w0_kb, given.quick, given.out) == (50, True, Path("there"))
    assert set(ALGORITHMS) >= {"dqn", "rlds", "rosello", "lee-yoo", "falcon"}


def test_a_mistake_is_named() -> None:
    with pytest.raises(ScenarioError, match="no algorithm `dqm`"):
        command.module("dqm")
    with pytest.raises(ScenarioError, match="unrecognized arguments: --stepz"):
        command.run("dqn", ["--stepz", "3"], Bar(Console()))


def test_without_jax_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("weftway.learn.train.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ScenarioError, match=r"training needs `jax`: pip install 'weftway\[train\]'"):
        command.module("dqn")
