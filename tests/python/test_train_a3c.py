"""Actor-critic training: the pieces against figures worked out by hand, and whole trainings."""

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="training needs weftway[train]")
pytest.importorskip("equinox", reason="training needs weftway[train]")

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from weftway.learn.train import a3c, gaps, pdaa3c, reles, session
from weftway.learn.train.a3c import ActorCritic, ActorCriticArgs, Hyperparameters, Rollout, RolloutCollector
from weftway.learn.train.action_distributions import Categorical, Dirichlet
from weftway.learn.train.checkpoint import CheckpointError
from weftway.learn.train.export import read_policy
from weftway.learn.train.networks import MLP
from weftway.learn.train.session import ChooseActions, Trained
from weftway.vector import Flags, Floats, Step, VectorEnv

KEY = jax.random.key(7)
RULE = Hyperparameters.of(pdaa3c.Args())


def weights(network: Callable[[], ActorCritic]) -> int:
    """Number of its weights; none is drawn."""
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(network)))


class Bandit:
    """Four arms that pay 2, 2, 4 and 2, as the four paths' rates are; an episode has 50 pulls."""

    envs, inputs, kind, actions, choices = 1, 24, "discrete", 1, 4
    low, high = np.zeros(24, np.float32), np.full(24, 4, np.float32)
    pays = np.array([2, 2, 4, 2], np.float32)

    def __init__(self) -> None:
        self.pulls: list[int] = []

    def reset(self) -> Floats:
        return np.full((1, 24), 0.5, np.float32)

    def step(self, actions: Any, /) -> Step:
        arm = int(np.asarray(actions).item())
        self.pulls.append(arm)
        ended = np.array([len(self.pulls) % 50 == 0])
        return Step(self.reset(), self.pays[[arm]], ended, np.zeros(1, np.bool_))

    def final_observations(self) -> Floats:
        return self.reset()

    def action_masks(self) -> Flags:
        return np.ones((1, 4), np.bool_)

    def episodes(self) -> list[dict[str, Any]]:
        return []


def test_returns_are_discounted_sums_up_to_an_end() -> None:
    # gamma 0.5, rewards 1 2 3 4. First place: nothing ends, V = 8 afterwards:
    #   4 + 4 = 8, 3 + 4 = 7, 2 + 3.5 = 5.5, 1 + 2.75 = 3.75.
    # Second place: the transfer is finished after the second decision: 2, and 1 + 1 = 2 before it.
    # Third place: time ran out there, and V = 10 of what was seen then: 2 + 5 = 7, and 1 + 3.5 = 4.5.
    reward = jnp.tile(jnp.array([1.0, 2.0, 3.0, 4.0])[:, None], (1, 3))
    ended = jnp.zeros((4, 3), bool).at[1, 1:].set(True)
    yet = jnp.full((4, 3), 8.0).at[1, 1:].set(jnp.array([0.0, 10.0]))
    returns = a3c.n_step_returns(0.5, reward, ended, yet)
    assert returns.T.tolist() == [[3.75, 5.5, 7.0, 8.0], [2.0, 2.0, 7.0, 8.0], [4.5, 7.0, 7.0, 8.0]]


def rollout(inputs: int, distribution: Categorical | Dirichlet, steps: int = 5, envs: int = 2) -> Rollout:
    """Any one, with an episode that ends in it."""
    rng = np.random.default_rng(3)
    obs, after = rng.random((2, steps, envs, inputs))
    mask = np.ones(
        (steps, envs, distribution.choices if isinstance(distribution, Categorical) else distribution.count),
        np.bool_,
    )
    outputs = rng.normal(size=(steps, envs, distribution.outputs))
    drawn = jax.jit(distribution.sample)(KEY, jnp.asarray(outputs), jnp.asarray(mask))
    ended = np.zeros((steps, envs), np.bool_)
    ended[2] = True
    return Rollout(obs, mask, np.asarray(drawn), rng.normal(size=(steps, envs)), ended, ended & [True, False], after)


@pytest.mark.parametrize(("distribution", "is_recurrent"), [(Categorical(2, 3), False), (Dirichlet(3, 20.0), True)])
def test_gradient_is_that_of_finite_differences(distribution: Categorical | Dirichlet, is_recurrent: bool) -> None:
    # The loss takes returns and advantages for constants, so they are computed once, by the first weights; then
    # (f(x + h) − f(x − h)) / 2h along random directions.
    with jax.enable_x64(True):
        rows = rollout(6, distribution)
        make = a3c.recurrent((2, 3), (4, 4), distribution.outputs, KEY) if is_recurrent else None
        network = make or a3c.dense(6, (8, 8), distribution.outputs, KEY)
        network = jax.tree.map(lambda leaf: leaf.astype(jnp.float64) * 3, network)
        flat, form = ravel_pytree(network)
        wanted, constant = target(RULE, network, rows)

        @jax.jit
        def fixed(values: jax.Array) -> jax.Array:
            outputs, value = form(values)(rows.obs)
            gained = distribution.log_prob(outputs, rows.mask, rows.drawn) * constant
            each = -gained - 0.01 * distribution.entropy(outputs, rows.mask) + 0.5 * (wanted - value) ** 2
            return jnp.asarray(each.sum(0).mean())

        of_loss = jax.jit(jax.grad(lambda net: a3c.actor_critic_loss(RULE, distribution, net, rows)))
        gradient = ravel_pytree(of_loss(network))[0]
        for seed in range(2):
            way = jax.random.normal(jax.random.key(seed), flat.shape, jnp.float64)
            slope = (fixed(flat + 1e-6 * way) - fixed(flat - 1e-6 * way)) / 2e-6
            assert float(gradient @ way) == pytest.approx(float(slope), rel=1e-5, abs=1e-6)


def target(rule: Hyperparameters, network: ActorCritic, rows: Rollout) -> tuple[np.ndarray, np.ndarray]:
    """Returns and advantages, one decision after the other."""
    following, value = np.asarray(network(rows.next_obs)[1]), np.asarray(network(rows.obs)[1])
    wanted = np.zeros_like(value)
    for place in range(value.shape[1]):
        later = following[-1, place]
        for step in reversed(range(len(value))):
            if rows.done[step, place]:
                later = 0.0 if rows.terminated[step, place] else following[step, place]
            later = wanted[step, place] = rule.reward_scale * rows.reward[step, place] + rule.gamma * later
    return wanted, wanted - value


def test_choices_have_their_probabilities() -> None:
    # Two indices of three; softmax of (0, ln 2, ln 3) is 1/6, 2/6, 3/6; with the third closed, 1/3 and 2/3.
    distribution = Categorical(2, 3)
    outputs = jnp.log(jnp.array([1.0, 2.0, 3.0, 3.0, 2.0, 1.0]))
    drawn = jnp.array([1, 0])
    every = jnp.array([True, True, True])
    assert float(distribution.log_prob(outputs, every, drawn)) == pytest.approx(np.log(2 / 6 * 3 / 6))
    entropy = -sum(p * np.log(p) for p in (1 / 6, 2 / 6, 3 / 6))
    assert float(distribution.entropy(outputs, every)) == pytest.approx(2 * entropy)
    two = jnp.array([True, True, False])
    assert float(distribution.log_prob(outputs, two, drawn)) == pytest.approx(np.log(2 / 3 * 3 / 5))
    assert distribution.mode(outputs, every).tolist() == [2, 0]
    draws = np.asarray(distribution.sample(KEY, jnp.tile(outputs, (3000, 1)), jnp.tile(two, (3000, 1))))
    # Standard deviation of the frequency: sqrt(2/9 / 3000) = 0.009.
    assert draws.max() == 1 and (draws[:, 0] == 1).mean() == pytest.approx(2 / 3, abs=0.04)


def test_shares_have_the_density_and_entropy_of_scipy() -> None:
    scipy = pytest.importorskip("scipy.stats")
    distribution = Dirichlet(3, 12.0)
    outputs = jnp.log(jnp.array([1.0, 2.0, 3.0]))
    # Means 1/6, 2/6, 3/6 of 12.
    there = scipy.dirichlet([2.0, 4.0, 6.0])
    shares = np.array([0.2, 0.5, 0.3])
    mask = jnp.ones(3, bool)
    assert float(jax.jit(distribution.log_prob)(outputs, mask, jnp.log(shares))) == pytest.approx(
        there.logpdf(shares), rel=1e-5
    )
    assert float(jax.jit(distribution.entropy)(outputs, mask)) == pytest.approx(there.entropy(), rel=1e-5)
    drawn = jax.jit(distribution.sample)(KEY, jnp.tile(outputs, (4000, 1)), mask)
    answer = np.asarray(distribution.action(drawn))
    assert np.allclose(answer.sum(1), 1, atol=1e-5)
    # Each deviates by at most sqrt(1/4 / 13) = 0.14, so its mean by 0.0022.
    assert np.allclose(answer.mean(0), there.mean(), atol=0.01)
    assert np.allclose(distribution.action(distribution.mode(outputs, mask)), there.mean(), atol=1e-6)


def test_a_share_near_nothing_has_a_finite_gradient() -> None:
    # Concentrations of 20·softmax(0, −12): the second is 1e-4, and its shares are far below the least float.
    distribution = Dirichlet(2, 20.0)
    outputs = jnp.array([0.0, -12.0])
    mask = jnp.ones((100, 2), bool)
    drawn = jax.jit(distribution.sample)(KEY, jnp.tile(outputs, (100, 1)), mask)
    slope = jax.jit(jax.grad(lambda out: distribution.log_prob(out, mask, drawn).sum()))(outputs)
    assert np.isfinite(slope).all() and np.isfinite(drawn).all()


def test_networks_have_the_weights_of_the_paper() -> None:
    # Four paths: 20·128 + 128 + 128·128 + 128 + 128·4 + 4 = 19 716 with three actions and the critic; with four
    # 129 more; each further input 128 more.
    assert weights(lambda: a3c.dense(20, (128, 128), 3, KEY)) == 19_716
    assert weights(lambda: a3c.dense(20, (128, 128), 4, KEY)) == 19_845
    direct = VectorEnv("path:action=direct", pdaa3c.Args(pool=1).variants(), ["bbr1"], 1, 1)
    assert (direct.inputs, direct.choices) == (24, 4)
    assert weights(lambda: a3c.PolicySpec("").network(pdaa3c.Args(), direct, KEY)) == 19_845 + 4 * 128
    # LSTM 20→64: 4·64·(20 + 64 + 1) = 21 760; 64→64: 33 024; dense 64·64 + 64 = 4 160; 64·5 + 5 = 325.
    shares = VectorEnv(reles.task(reles.Args()), pdaa3c.Args(pool=1).variants(), ["bbr1"], 1, 1)
    spec = a3c.PolicySpec("", history=8, concentration=40.0)
    assert weights(lambda: spec.network(reles.Args(), shares, KEY)) == 21_760 + 33_024 + 4_160 + 325


@pytest.mark.parametrize("history", [0, 2])
def test_the_actor_is_the_network_without_its_last_output(history: int) -> None:
    made = a3c.recurrent((2, 3), (4, 5), 3, KEY) if history else a3c.dense(6, (4, 5), 3, KEY)
    obs = jax.random.normal(KEY, (7, 6))
    outputs, value = made(obs)
    assert outputs.shape == (7, 3) and value.shape == (7,)
    alone = made.actor()(obs.reshape(7, 2, 3) if history else obs)
    assert np.allclose(alone, outputs, atol=1e-6)


def test_the_better_arm_is_found_within_2000_pulls() -> None:
    for seed in range(2):
        args = pdaa3c.Args(seed=seed, envs=1, action_mode="direct")
        bandit = Bandit()
        collector, spec = RolloutCollector(bandit), a3c.PolicySpec("bandit")
        act, state = spec.compiled(args, bandit), a3c.initial_state(args, spec, bandit)
        for number in range(2_000 // args.rollout):
            state, _, _ = a3c.rollout_and_update(
                act, collector, state, (a3c.rollout_key(args, 0, number), args.rollout)
            )
        assert len(bandit.pulls) == 2_000
        outputs = state.network(jnp.asarray(bandit.reset()))[0][0]
        # The third arm is chosen with this probability, and was in the last tenth of the pulls.
        assert float(jax.nn.softmax(outputs)[2]) > 0.9
        assert np.mean(np.array(bandit.pulls[-200:]) == 2) > 0.9


SMALL: dict[str, Any] = {"envs": 2, "pool": 4, "trials": 3, "held_out": 2, "checkpoint_every": 40}

TRAINERS: list[tuple[Any, dict[str, Any]]] = [
    (pdaa3c, {"mode": "exclusive", "action_mode": "direct"}),
    (reles, {}),
    (gaps, {}),
]


def exported(args: ActorCriticArgs, done: Trained) -> ChooseActions:
    """Function that decides as the policy that was left behind does, with a critic that nobody asks."""
    card, tensors = done.policy
    last = max(name for name in tensors if name.startswith("w")).removeprefix("w")
    wider = {f"w{last}": np.pad(tensors[f"w{last}"], ((0, 0), (0, 1))), f"b{last}": np.pad(tensors[f"b{last}"], (0, 1))}
    network = ActorCritic(MLP.of({**tensors, **wider}), 0)
    return a3c.policies(args, a3c.PolicySpec(card["task"]), network, args.vector_env(card["task"]))[card["head"]]


def assert_the_best_is_exported(args: ActorCriticArgs, done: Trained) -> None:
    """The policy is as fast in validation as the fastest point of the curve, and has that point's head."""
    tried = [point for point in done.curve if "trial" in point and point.get("kind") != "chance"]
    assert tried[-1]["step"] == done.curve[-1]["step"]
    best = max(tried, key=lambda point: point["trial"])
    speed = session.ValidationSet(args, done.policy.card["task"], args.trials).speed(exported(args, done))
    assert (speed, done.policy.card["head"]) == (best["trial"], best["head"])
    assert f"after {best['step']} decisions" in done.policy.card["chosen"]


def test_the_best_checkpoint_is_exported_with_its_better_head(tmp_path: Path) -> None:
    # Steps of this size forget what was learned: with this seed the last policy is not the best.
    args = pdaa3c.Args(
        **{**SMALL, "trials": 6},
        seed=2,
        steps=4_000,
        mode="exclusive",
        action_mode="direct",
        learning_rate=0.05,
        rollout=10,
    )
    done = pdaa3c.train(args)
    trials = [point["trial"] for point in done.curve if "trial" in point and point.get("kind") != "chance"]
    assert max(trials) > trials[-1]
    assert_the_best_is_exported(args, done)


@pytest.mark.parametrize(("trainer", "settings"), TRAINERS)
def test_a_curve_begins_with_chance_and_goes_on_with_what_would_be_deployed(
    trainer: Any, settings: dict[str, Any]
) -> None:
    args = trainer.Args(steps=240, **SMALL, **settings)
    done = trainer.train(args)
    first, *points = done.curve
    spec = a3c.PolicySpec(done.policy.card["task"], getattr(args, "history", 0) if trainer is reles else 0, 40.0)
    vector = args.vector_env(spec.task)
    untrained = a3c.initial_state(args, spec, vector).network
    heads = a3c.policies(args, spec, untrained, vector)
    validation = session.ValidationSet(args, spec.task, args.trials)
    # The largest of nearly equal outputs is an accident: it is not what the curve begins with.
    drawn = heads.get("sample") or heads["shares"]
    assert first == {"step": 0, "kind": "chance", "trial": validation.speed(drawn), "head": [*heads][-1]}
    assert all(point["head"] in heads for point in points if "trial" in point)
    assert points[-2]["step"] == 240 and "trial" in points[-2]


@pytest.mark.parametrize(("trainer", "settings"), TRAINERS)
def test_the_same_seed_gives_the_same_bytes_and_so_does_a_resumed_training(
    trainer: Any, settings: dict[str, Any], tmp_path: Path
) -> None:
    args = trainer.Args(steps=120, **SMALL, **settings)
    whole, again, cut = (replace(args, out=tmp_path / name) for name in ("whole", "again", "cut"))
    expected = trainer.train(whole).file.read_bytes()
    assert trainer.train(again).file.read_bytes() == expected

    def stop(done: int, total: int) -> None:
        if done >= 80:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.train(cut, stop)
    assert not (tmp_path / "cut" / f"{cut.ALGORITHM}.safetensors").exists()
    assert trainer.train(replace(cut, resume=True)).file.read_bytes() == expected
    curves = [(tmp_path / name / f"{cut.ALGORITHM}.jsonl").read_bytes() for name in ("whole", "cut")]
    assert curves[0] == curves[1]
    with pytest.raises(CheckpointError, match="other settings"):
        trainer.train(replace(cut, resume=True, seed=2))


def test_what_is_left_behind_is_a_policy_that_a_scheduler_runs(tmp_path: Path) -> None:
    for trainer, settings in TRAINERS:
        done = trainer.train(trainer.Args(steps=40, **SMALL, **settings, out=tmp_path))
        card, tensors = read_policy(done.file)
        vector = VectorEnv(card["task"], pdaa3c.Args(pool=1).variants(), ["bbr1"], 1, 1)
        assert card["inputs"] == ",".join(vector.names)
        outputs = vector.choices if vector.kind != "several" else vector.actions * vector.choices
        last = max(name for name in tensors if name.startswith("b"))
        assert tensors[last].shape == (outputs,)
        assert (tensors["low"] < tensors["high"]).all()
        assert f"weft train {card['algorithm']}" in card["command"] and "--steps 40" in card["command"]
        assert "held-out episodes" in card["evaluation"]


def test_paper_settings_are_those_of_the_algorithm() -> None:
    args = pdaa3c.Args(paper=True)
    settings = (args.workers, args.envs, args.steps, args.learning_rate, args.rollout, args.gamma, args.clip)
    assert settings == (4, 1, 4 * 2_000, 1e-4, 20, 0.7, 40.0)


def test_choices_in_turn_skip_slots_that_are_not_open() -> None:
    choose = pdaa3c.in_turn()
    mask = np.array([[True, True, False, True], [False, True, False, False]])
    choices = [choose(np.zeros((2, 20), np.float32), mask).tolist() for _ in range(4)]
    assert choices == [[0, 1], [1, 1], [3, 1], [0, 1]]


def test_two_workers_run_and_end(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())
    args: ActorCriticArgs = pdaa3c.Args(steps=240, workers=2, out=tmp_path, **SMALL)
    done = pdaa3c.train(args)  # type: ignore[arg-type]
    # Six rollouts of 20 decisions of two places, after the first point and before the held-out one.
    assert [point["step"] for point in done.curve] == [0, 40, 80, 120, 160, 200, 240, 240]
    assert done.curve[0]["kind"] == "chance"
    assert_the_best_is_exported(args, done)
    assert done.file and read_policy(done.file).card["command"].endswith("--workers 2")
    assert set(multiprocessing.active_children()) <= before
