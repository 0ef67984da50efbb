"""The shared pieces of training: networks, policy files, checkpoints, curves."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="training needs weftway[train]")
pytest.importorskip("equinox", reason="training needs weftway[train]")

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from weftway.learn.train import checkpoint, curve
from weftway.learn.train.export import CARD, PolicyError, read_policy, read_tensors, write_policy, write_tensors
from weftway.learn.train.networks import LSTM, MLP

KEY = jax.random.key(7)


def card(**other: str) -> dict[str, str]:
    """A card for two inputs."""
    return {**dict.fromkeys(CARD, "x"), "inputs": "a,b", "head": "greedy", **other}


def ranges() -> dict[str, Any]:
    """The ranges of two inputs."""
    return {"low": [0.0, 0.0], "high": [1.0, 4.0]}


def test_mlp_is_act_of_x_w_plus_b() -> None:
    # x W1 + b1 = (1·1 + 2·-1, 1·0 + 2·3) + (0, 1) = (-1, 7); ReLU: (0, 7); · (5, 2) + 1 = 15.
    tensors: dict[str, Any] = {"w1": [[1.0, 0.0], [-1.0, 3.0]], "b1": [0.0, 1.0], "w2": [[5.0], [2.0]], "b2": [1.0]}
    assert MLP.of(tensors)(jnp.array([1.0, 2.0])).tolist() == [15.0]


def test_mlp_has_its_sizes_and_follows_its_key() -> None:
    one, same, other = (MLP([3, 5, 2], key) for key in (KEY, KEY, jax.random.key(8)))
    assert {name: value.shape for name, value in one.tensors().items()} == {
        "w1": (3, 5),
        "b1": (5,),
        "w2": (5, 2),
        "b2": (2,),
    }
    assert (one.weights[0] == same.weights[0]).all()
    assert (one.weights[0] != other.weights[0]).any()
    assert one(jnp.zeros((4, 6, 3))).shape == (4, 6, 2)


def test_gradient_of_an_mlp_is_that_of_finite_differences() -> None:
    with jax.enable_x64(True):
        net = jax.tree.map(lambda v: v.astype(jnp.float64), MLP([3, 4, 2], KEY, "tanh"))
        x = jnp.array([0.3, -0.7, 1.1])
        flat, form = ravel_pytree(net)

        def loss(values: jax.Array) -> jax.Array:
            out: jax.Array = form(values)(x)
            return (out**2).sum()

        slope = jax.grad(loss)(flat)
        step = 1e-5
        for i in range(flat.size):
            gradient = (loss(flat.at[i].add(step)) - loss(flat.at[i].add(-step))) / (2 * step)
            assert float(gradient) == pytest.approx(float(slope[i]), abs=1e-8)


def test_lstm_is_the_textbook_recurrence_in_the_order_i_f_g_o() -> None:
    net = LSTM(3, [4, 5], [6, 2], KEY)
    steps = np.random.default_rng(0).normal(size=(7, 3))
    weights = net.tensors()
    h = steps
    for layer, size in enumerate((4, 5)):
        wx, wh, b = (weights[f"l{layer}.{name}"].astype(float) for name in ("wx", "wh", "b"))
        hidden, cell, outputs = np.zeros(size), np.zeros(size), []
        for x in h:
            gates = x @ wx + hidden @ wh + b
            i, f, o = (1 / (1 + np.exp(-gates[k * size : (k + 1) * size])) for k in (0, 1, 3))
            cell = f * cell + i * np.tanh(gates[2 * size : 3 * size])
            hidden = o * np.tanh(cell)
            outputs.append(hidden)
        h = np.array(outputs)
    expected = np.maximum(h[-1] @ weights["w1"] + weights["b1"], 0) @ weights["w2"] + weights["b2"]
    assert np.asarray(net(jnp.asarray(steps))) == pytest.approx(expected, abs=1e-5)
    assert np.asarray(LSTM.of(weights)(jnp.asarray(steps))) == pytest.approx(expected, abs=1e-5)
    assert net(jnp.zeros((9, 7, 3))).shape == (9, 2)


def test_a_policy_comes_back_as_it_was(tmp_path: Path) -> None:
    net = MLP([2, 3, 2], KEY)
    file = tmp_path / "deep" / "one.safetensors"
    write_policy(file, card(task="wait-or-send", note="ä"), {**net.tensors(), **ranges()})
    policy, tensors = read_policy(file)
    assert policy == card(task="wait-or-send", note="ä", format="weftway-policy-1")
    assert tensors["high"].tolist() == [1.0, 4.0]
    assert (np.asarray(MLP.of(tensors)(jnp.ones(2))) == np.asarray(net(jnp.ones(2)))).all()


def test_the_same_policy_is_the_same_bytes(tmp_path: Path) -> None:
    tensors = {**MLP([2, 3, 2], KEY).tensors(), **ranges()}
    write_policy(tmp_path / "a", card(), tensors)
    write_policy(tmp_path / "b", dict(reversed(card().items())), dict(reversed(tensors.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


def test_types_keep_their_alignment(tmp_path: Path) -> None:
    kept = {"a": np.array([True, False, True]), "b": np.arange(3.0), "c": np.array(5, np.int16)}
    write_tensors(tmp_path / "t", {}, kept)
    _, read = read_tensors(tmp_path / "t")
    assert all((read[name] == kept[name]).all() and read[name].dtype == kept[name].dtype for name in kept)


@pytest.mark.parametrize(
    ("change", "tensors", "says"),
    [
        ({"head": "best"}, {}, "head 'best'"),
        ({"inputs": "a,b,c"}, {}, "each of the 3 inputs"),
        ({}, {"w1": [[np.nan]]}, "`w1` has a value that is not finite"),
    ],
)
def test_a_wrong_policy_is_not_written(
    tmp_path: Path, change: dict[str, str], tensors: dict[str, Any], says: str
) -> None:
    with pytest.raises(PolicyError, match=says):
        write_policy(tmp_path / "p", card(**change), {**ranges(), **tensors})
    assert not list(tmp_path.iterdir())


def test_a_card_that_lacks_a_key_names_it(tmp_path: Path) -> None:
    short = card()
    del short["cc"]
    with pytest.raises(PolicyError, match="says nothing of cc"):
        write_policy(tmp_path / "p", short, ranges())


def test_what_is_no_policy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"no policy at all")
    with pytest.raises(PolicyError, match="no safetensors file"):
        read_policy(tmp_path / "p")
    write_tensors(tmp_path / "q", {"format": "other"}, {})
    with pytest.raises(PolicyError, match="format is 'other'"):
        read_policy(tmp_path / "q")


def walk(net: MLP, rng: np.random.Generator, steps: int, memory: np.ndarray, key: jax.Array) -> tuple[MLP, jax.Array]:
    """Some training that reads weights, both generators and a memory."""
    for _ in range(steps):
        memory[rng.integers(len(memory))] += rng.normal()
        key, use = jax.random.split(key)
        push = memory.mean() + jax.random.normal(use)
        net = jax.tree.map(lambda v, push=push: v * 0.9 + 0.1 * push, net)
    return net, key


def test_going_on_from_a_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    net, rng, memory = MLP([2, 3, 1], KEY), np.random.default_rng(3), np.zeros(5)
    half, key = walk(net, rng, 4, memory, KEY)
    checkpoint.save(tmp_path / "c", 4, (half, key, 2, 0.5), rng=rng, arrays={"memory": memory}, notes={"seen": 9})
    whole, _ = walk(half, rng, 5, memory, key)

    other = np.random.default_rng(99)
    like = (MLP([2, 3, 1], jax.random.key(1)), jax.random.key(0), 0, 0.0)
    kept = checkpoint.restore(tmp_path / "c", like, rng=other)
    assert kept is not None
    assert (kept.step, kept.tree[2:], kept.notes) == (4, (2, 0.5), {"seen": 9})
    resumed, _ = walk(kept.tree[0], other, 5, kept.arrays["memory"], kept.tree[1])
    for name, value in whole.tensors().items():
        assert value.tobytes() == resumed.tensors()[name].tobytes()


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    assert checkpoint.restore(tmp_path / "none", {}) is None
    checkpoint.save(tmp_path / "c", 1, MLP([2, 3, 1], KEY))
    for like in (MLP([2, 4, 1], KEY), MLP([2, 3, 3, 1], KEY)):
        with pytest.raises(checkpoint.CheckpointError, match="another training"):
            checkpoint.restore(tmp_path / "c", like)
    with pytest.raises(checkpoint.CheckpointError, match="no state of a generator"):
        checkpoint.restore(tmp_path / "c", MLP([2, 3, 1], KEY), rng=np.random.default_rng(0))


def test_a_write_that_fails_leaves_the_checkpoint_before_it(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", 1, {"w": jnp.ones(2)})
    with pytest.raises(PolicyError):
        checkpoint.save(tmp_path / "c", 2, {"w": np.ones(2, complex)})
    kept = checkpoint.restore(tmp_path / "c", {"w": jnp.zeros(2)})
    assert kept is not None
    assert kept.step == 1


def test_mersenne_twister_too(tmp_path: Path) -> None:
    rng, other = (np.random.Generator(np.random.MT19937(seed)) for seed in (1, 2))
    rng.normal(size=3)
    checkpoint.save(tmp_path / "c", 1, {}, rng=rng)
    checkpoint.restore(tmp_path / "c", {}, rng=other)
    assert (rng.normal(size=700) == other.normal(size=700)).all()


def test_a_curve_goes_on_at_the_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "curve.jsonl"
    first = curve.Curve(file)
    for step in (10, 20, 30):
        first.add(step, **{"return": step / 10})
    with file.open("a") as out:
        out.write('{"step": 40, "ret')  # the process ended here
    second = curve.Curve(file, upto=20)
    second.add(30, loss=0.5)
    points = [{"step": 10, "return": 1.0}, {"step": 20, "return": 2.0}, {"step": 30, "loss": 0.5}]
    assert curve.read(file) == second.points == points
    assert [json.loads(line) for line in file.read_text().splitlines()] == points
    assert second.column("return") == [1.0, 2.0]
    with pytest.raises(ValueError, match="step 5 after step 30"):
        second.add(5)


def test_a_curve_from_the_beginning_forgets_the_one_before(tmp_path: Path) -> None:
    curve.Curve(tmp_path / "c").add(1)
    assert curve.Curve(tmp_path / "c").points == curve.read(tmp_path / "c") == []


def test_weights_are_all_that_can_be_trained() -> None:
    assert len(jax.tree.leaves(eqx.filter(MLP([2, 3, 1], KEY), eqx.is_inexact_array))) == 4
