"""Policy files: what Rust computes with one is what JAX computes, and bad ones are refused."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weftway._native import Policy, ScenarioError

jax = pytest.importorskip("jax")
eqx = pytest.importorskip("equinox")

from weftway.learn.train.export import write_policy  # noqa: E402
from weftway.learn.train.graph import Shape  # noqa: E402
from weftway.learn.train.graph.stsgat import STSGAT  # noqa: E402
from weftway.learn.train.networks import LSTM, MLP  # noqa: E402

ROWS = 1000
"""So many inputs are compared."""

Floats = np.ndarray[Any, np.dtype[np.float32]]


def card(network: str, inputs: int) -> dict[str, str]:
    """A card that says what must be said."""
    about = dict.fromkeys(("trained_on", "cc", "seed", "steps", "code", "command", "evaluation"), "test")
    named = ",".join(f"x{i}" for i in range(inputs))
    return {
        "algorithm": "test",
        "task": "path",
        "network": network,
        "head": "greedy",
        "fallback": "off",
        "inputs": named,
        **about,
    }


def exported(folder: Path, network: Any, spec: str, inputs: int) -> Policy:
    """The network as the Rust side reads it."""
    file = folder / "policy.safetensors"
    ranges = {"low": np.full(inputs, -9.0), "high": np.full(inputs, 9.0)}
    write_policy(file, card(spec, inputs), {**ranges, **network.tensors()})
    return Policy(file)


def forward(policy: Policy, obs: Floats) -> Floats:
    """Outputs that Rust makes of each row."""
    out = np.empty((len(obs), policy.outputs), np.float32)
    policy.forward(np.ascontiguousarray(obs), out)
    return out


def drawn(inputs: int, seed: int = 1) -> Floats:
    """Normalised inputs, as tasks give them."""
    return np.random.default_rng(seed).uniform(0, 4, (ROWS, inputs)).astype(np.float32)


@pytest.mark.parametrize("sizes", [(6, 6, 6, 2), (20, 128, 128, 3), (17, 64, 64, 2)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_dense_layers_agree(tmp_path: Path, sizes: tuple[int, ...], activation: str) -> None:
    network = MLP(list(sizes), jax.random.key(3), activation)
    policy, obs = exported(tmp_path, network, network.spec(), sizes[0]), drawn(sizes[0])
    np.testing.assert_allclose(forward(policy, obs), jax.vmap(network)(obs), atol=1e-5)


def test_an_lstm_agrees(tmp_path: Path) -> None:
    network, steps = LSTM(20, [64, 64], [64, 4], jax.random.key(4)), 8
    policy, obs = exported(tmp_path, network, network.spec(), 20 * steps), drawn(20 * steps)
    expected = network(jax.numpy.asarray(obs.reshape(ROWS, steps, 20)))
    np.testing.assert_allclose(forward(policy, obs), expected, atol=1e-5)


@pytest.mark.parametrize("identity", [True, False])
@pytest.mark.parametrize("paths", [2, 4])
def test_graph_attention_agrees(tmp_path: Path, identity: bool, paths: int) -> None:
    shape = Shape(paths=paths)
    network = STSGAT(shape, jax.random.key(5), identity=identity)
    inputs = (paths * shape.features + shape.packet_features) * shape.steps + paths
    obs = drawn(inputs)
    obs[:, -paths:] = np.random.default_rng(2).integers(0, 2, (ROWS, paths))
    obs[:, -1] = 1
    split = paths * shape.features * shape.steps
    x = obs[:, :split].reshape(ROWS, paths, shape.features, shape.steps)
    c = obs[:, split:-paths].reshape(ROWS, shape.packet_features, shape.steps)
    expected = np.asarray(eqx.filter_jit(network)(*map(jax.numpy.asarray, (x, c, obs[:, -paths:]))))
    outputs = forward(exported(tmp_path, network, network.spec(shape), inputs), obs)
    alive = obs[:, -paths:] > 0
    np.testing.assert_allclose(outputs[alive], expected[alive], atol=1e-5)
    assert (outputs[~alive] == -1e9).all()


def test_bad_files_are_refused_with_their_place(tmp_path: Path) -> None:
    network = MLP([6, 6, 6, 2], jax.random.key(0))
    exported(tmp_path, network, "mlp", 6)
    whole = (tmp_path / "policy.safetensors").read_bytes()
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ScenarioError, match=r"bad\.safetensors: not a whole safetensors file"):
        Policy(bad)
    write_policy(bad, card("mlp", 5), {"low": np.zeros(5), "high": np.ones(5), **network.tensors()})
    with pytest.raises(ScenarioError, match="its card names 5 inputs; its network has 6"):
        Policy(bad)
    with pytest.raises(ScenarioError, match=r"policy .*none: .* a file is expected"):
        Policy(os.devnull + "/none")
