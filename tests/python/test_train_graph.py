"""The graph networks, against literal forms of what they compute, and their training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="training needs weftway[train]")
pytest.importorskip("equinox", reason="training needs weftway[train]")
pytest.importorskip("optax", reason="training needs weftway[train]")

import equinox as eqx
import jax
import jax.numpy as jnp

from weftway.learn.train.checkpoint import CheckpointError
from weftway.learn.train.graph import DEAD, Network, Shape, prior, support
from weftway.learn.train.graph.fit import (
    Batch,
    Dataset,
    FitArgs,
    against,
    compare,
    evaluate,
    fit,
    loss_of,
    plateau,
    sign_test,
    split,
)
from weftway.learn.train.graph.stsgat import STSGAT
from weftway.learn.train.graph.stsgcn import STSGCN
from weftway.learn.train.graph.wavenet import WaveNet

KEY = jax.random.key(5)
SHAPE = Shape(paths=3, steps=6, features=2, packet_features=1)
Make = Callable[[Shape, jax.Array], Network]


def small_gat(shape: Shape, key: jax.Array) -> STSGAT:
    return STSGAT(shape, key, hidden=16, heads=2, modules=1, layers=2)


def small_gcn(shape: Shape, key: jax.Array) -> STSGCN:
    return STSGCN(shape, key, hidden=16, layers=1, readout=16)


def small_wave(shape: Shape, key: jax.Array) -> WaveNet:
    return WaveNet(shape, key, width=8, skip=16, end=32, dropout=0.0)


ALL = [small_gat, small_gcn, small_wave]


def seen(shape: Shape = SHAPE, batch: int = 5) -> tuple[Any, Any, Any]:
    """Some x, c and alive, the last path of every second decision dead."""
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 2, (batch, shape.paths, shape.features, shape.steps)).astype(np.float32)
    c = rng.uniform(0, 2, (batch, shape.packet_features, shape.steps)).astype(np.float32)
    alive = np.ones((batch, shape.paths), np.float32)
    alive[::2, -1] = 0
    return x, c, alive


def random_data(samples: int = 64, repeated: int = 1) -> Dataset:
    """Samples with labels that follow from nothing."""
    rng = np.random.default_rng(4)
    x, c, _ = seen(SHAPE, samples)
    label = rng.integers(0, SHAPE.paths, samples).astype(np.int32)
    every = np.arange(samples)
    margin, alive = np.ones(samples, np.float32), np.ones((samples, SHAPE.paths), np.float32)
    return Dataset(x, c, alive, label, margin, np.tile(every, repeated), every, every[:0])


@eqx.filter_jit
def ask(network: Network, x: Any, c: Any, alive: Any, key: jax.Array | None = None) -> jax.Array:
    """The network, compiled."""
    return network(x, c, alive, key=key)


def count(network: Network) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))


def test_stsgat_has_the_parameters_of_the_sheet() -> None:
    # 96 temb + 32 semb + 576 dense + 2·3·(64·64 + 2·64) attention + 8·64 + 1 readout.
    assert count(STSGAT(Shape(), KEY)) == 96 + 32 + 576 + 25_344 + 513 == 26_561
    assert count(STSGAT(Shape(), KEY, identity=False)) == 26_561 - 32
    assert float(STSGAT(Shape(), KEY).out_b[0]) == pytest.approx(np.log(1 / 3))


def test_support_joins_64_of_144_pairs_of_four_paths() -> None:
    joints = support(4)
    assert joints.sum() == 3 * 16 + 4 * 4 == 64
    assert (joints == joints.T).all()
    assert not joints[:4, 8:].any()
    assert (joints[:4, 4:8] == np.eye(4)).all()


def literal(network: STSGAT, x: Any, c: Any, alive: Any) -> np.ndarray:
    """Algorithm 1 for one decision, node by node and neighbour by neighbour, in doubles."""
    t = {name: value.astype(float) for name, value in network.tensors().items()}
    n, _, steps = x.shape
    x1 = np.concatenate([x, np.broadcast_to(c, (n, *c.shape))], axis=1) + t["temb"][0] + t.get("semb", np.zeros(1))[0]
    h = [[x1[i, :, s] @ t["fc_w"] + t["fc_b"] for i in range(n)] for s in range(steps)]
    for m, layers in enumerate(network.modules):
        middle = []
        for start in range(len(h) - 2):
            g, outputs = [h[start + q][i] for q in range(3) for i in range(n)], []
            for number in range(len(layers)):
                w, src, dst = (t[f"m{m}.l{number}.{name}"] for name in ("w", "src", "dst"))
                g = literal_layer(g, w, src, dst, alive)
                outputs.append(g)
            middle.append([np.max([out[n + i] for out in outputs], axis=0) for i in range(n)])
        h = middle
    z = [np.concatenate([step[i] for step in h]) @ t["out_w"][:, 0] + t["out_b"][0] for i in range(n)]
    return np.where(alive > 0, z, DEAD)


def literal_layer(
    g: list[np.ndarray], w: np.ndarray, src: np.ndarray, dst: np.ndarray, alive: np.ndarray
) -> list[np.ndarray]:
    """Attention layer over the 3N nodes of a window: e_ij = LeakyReLU(a · [W h_i || W h_j])."""
    n, heads, size = len(alive), *src.shape
    joints, after = support(n), []
    for i in range(3 * n):
        near = [j for j in range(3 * n) if joints[i, j] and (alive[j % n] or j % n == i % n)]
        taken = []
        for k in range(heads):
            own = w[:, k * size : (k + 1) * size]
            e = [np.concatenate([dst[k], src[k]]) @ np.concatenate([g[i] @ own, g[j] @ own]) for j in near]
            weight = np.exp([v if v > 0 else 0.2 * v for v in e])
            total = sum(a * (g[j] @ own) for a, j in zip(weight / weight.sum(), near, strict=True))
            taken.append(np.where(total > 0, total, np.expm1(np.minimum(total, 0))))
        after.append(np.concatenate(taken))
    return after


@pytest.mark.parametrize("identity", [True, False])
def test_attention_is_that_of_the_literal_loops(identity: bool) -> None:
    network = STSGAT(SHAPE, KEY, identity=identity, hidden=8, heads=2, modules=2, layers=3)
    x, c, alive = seen(batch=2)
    outputs = np.asarray(ask(network, x, c, alive))
    for b in range(2):
        expected = literal(network, x[b].astype(float), c[b].astype(float), alive[b])
        assert outputs[b] == pytest.approx(expected, abs=1e-5)


def dense(network: STSGAT, x: Any, c: Any, alive: Any) -> jax.Array:
    """The dense form: 3N x 3N scores, all layers at all nodes, mask by addition."""
    n = x.shape[1]
    everywhere = jnp.broadcast_to(c[:, None], (*x.shape[:2], *c.shape[1:]))
    assert network.semb is not None
    h = jnp.transpose(jnp.concatenate([x, everywhere], 2) + network.temb + network.semb, (0, 3, 1, 2))
    h = h @ network.fc_w + network.fc_b
    mask = support(n) * jnp.maximum(jnp.tile(alive, 3)[:, None, :], np.tile(np.eye(n), (3, 3)))
    mask = mask[:, None, None]  # (B, 1, 1, 3N, 3N)
    for layers in network.modules:
        windows = h.shape[1] - 2
        g, outputs = jnp.concatenate([h[:, q : q + windows] for q in range(3)], 2), []
        for layer in layers:
            heads, size = layer.src.shape
            u = jnp.moveaxis((g @ layer.w).reshape(*g.shape[:-1], heads, size), 3, 2)
            s, d = (jnp.einsum("bwknf,kf->bwkn", u, part) for part in (layer.dst, layer.src))
            e = jax.nn.leaky_relu(s[..., :, None] + d[..., None, :], 0.2) * mask + (mask - 1) * 1e9
            g = jax.nn.elu(jnp.moveaxis(jax.nn.softmax(e) @ u, 2, 3)).reshape(g.shape)
            outputs.append(g)
        h = jnp.max(jnp.stack(outputs), 0)[:, :, n : 2 * n]
    z = jnp.moveaxis(h, 1, 2).reshape(*x.shape[:2], -1) @ network.out_w + network.out_b
    return jnp.where(alive > 0, z[..., 0], DEAD)


def test_attention_among_neighbours_is_the_dense_form() -> None:
    network, inputs = STSGAT(Shape(), KEY), seen(Shape(), 3)
    assert np.asarray(ask(network, *inputs)) == pytest.approx(
        np.asarray(eqx.filter_jit(dense)(network, *inputs)), abs=1e-5
    )


@pytest.mark.parametrize("identity", [True, False])
def test_renumbered_paths_get_renumbered_logits(identity: bool) -> None:
    network = STSGAT(SHAPE, KEY, identity=identity, hidden=8, heads=2)
    x, c, alive = seen()
    order = np.array([2, 0, 1])
    moved = eqx.tree_at(lambda m: m.semb, network, network.semb[:, order]) if network.semb is not None else network
    expected = np.asarray(ask(network, x, c, alive))[:, order]
    assert np.asarray(ask(moved, x[:, order], c, alive[:, order])) == pytest.approx(expected, abs=1e-5)


def test_without_identity_the_weights_serve_any_number_of_paths() -> None:
    network = STSGAT(SHAPE, KEY, identity=False, hidden=8, heads=2)
    x, c, alive = seen(Shape(7, 6, 2, 1))
    z = np.asarray(ask(network, x, c, alive))
    assert z.shape == (5, 7)
    fewer = np.asarray(ask(network, x[::2, :6], c[::2], alive[::2, :6]))  # the seventh is dead there
    assert z[::2, :6] == pytest.approx(fewer, abs=1e-5)


@pytest.mark.parametrize("make", ALL)
def test_dead_paths_do_not_influence_the_others(make: Make) -> None:
    network = make(SHAPE, KEY)
    x, c, alive = seen()
    other = jnp.where(alive[:, :, None, None] > 0, x, 50.0)
    z = np.asarray(ask(network, x, c, alive))
    assert np.asarray(ask(network, other, c, alive)) == pytest.approx(z, abs=1e-5)
    assert (z[alive == 0] == DEAD).all()
    assert np.isfinite(np.asarray(ask(network, x, c, 0 * alive))).all()


@pytest.mark.parametrize("make", ALL)
def test_the_newest_step_reaches_the_output(make: Make) -> None:
    network = make(SHAPE, KEY)
    x, c, alive = seen()
    later = x.copy()
    later[..., -1] += 1
    assert (
        np.abs(np.asarray(ask(network, later, c, alive)) - np.asarray(ask(network, x, c, alive)))[alive > 0] > 1e-6
    ).all()


def test_a_network_comes_back_from_its_tensors() -> None:
    network = STSGAT(Shape(), KEY)
    inputs = seen(Shape(), 2)
    tensors = network.tensors()
    assert tensors["temb"].shape == (1, 1, 8, 12)
    assert tensors["semb"].shape == (1, 4, 8, 1)
    assert tensors["m1.l2.w"].shape == (64, 64)
    assert tensors["m1.l2.src"].shape == (4, 16)
    assert tensors["out_w"].shape == (512, 1)
    assert (np.asarray(ask(STSGAT.of(tensors, Shape()), *inputs)) == np.asarray(ask(network, *inputs))).all()
    assert "semb" not in STSGAT(Shape(), KEY, identity=False).tensors()
    sizes = "paths=4:steps=12:features=6:packet_features=2:heads=4:modules=2:layers=3"
    assert network.spec(Shape()) == f"stsgat:{sizes}"


@pytest.mark.parametrize(("make", "epochs"), [(small_gat, 6), (small_gcn, 3), (small_wave, 2)])
def test_each_network_can_learn_64_samples_by_heart(make: Make, epochs: int) -> None:
    data = random_data(repeated=80)
    fitted = fit(make(SHAPE, KEY), data, FitArgs(epochs=epochs, batch=32))
    # The validation samples are those learnt. One JAX ends with all of them, another with one missing.
    assert fitted.curve[-1]["validation_accuracy"] >= 63 / 64
    assert fitted.curve[-1]["loss"] < fitted.curve[0]["loss"]


def bytes_of(network: Network) -> bytes:
    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(network))


def test_dropout_is_off_without_a_key() -> None:
    network = WaveNet(SHAPE, KEY, width=4, skip=8, end=8)
    plain, again, dropped = ask(network, *seen()), ask(network, *seen()), ask(network, *seen(), KEY)
    assert (plain == again).all()
    assert (plain != dropped).any()


class Noisy(Network):
    """A readout with dropout and nothing else, which is compiled in a moment."""

    w: jax.Array

    def __call__(self, x: Any, c: Any, alive: Any, *, key: jax.Array | None = None) -> jax.Array:
        kept = 1.0 if key is None else jax.random.bernoulli(key, 0.7, x.shape)
        z: jax.Array = jnp.einsum("bnct,ct->bn", x * kept, self.w)
        return z


def test_a_resumed_training_gives_the_same_bytes(tmp_path: Path) -> None:
    model, data = Noisy(jax.random.normal(KEY, (2, 6))), random_data()
    once = fit(model, data, FitArgs(epochs=4, batch=16, seed=3))
    fit(model, data, FitArgs(epochs=2, batch=16, seed=3), folder=tmp_path)
    with (tmp_path / "curve.jsonl").open("a") as out:
        out.write('{"step": 3, "loss": 0.1}\n')  # a point after the checkpoint
    resumed = fit(model, data, FitArgs(epochs=4, batch=16, seed=3), folder=tmp_path)
    assert bytes_of(once.model) == bytes_of(resumed.model)
    assert bytes_of(once.best) == bytes_of(resumed.best)
    assert [point["loss"] for point in once.curve] == [point["loss"] for point in resumed.curve]
    assert bytes_of(fit(model, data, FitArgs(epochs=4, batch=16, seed=4)).model) != bytes_of(once.model)
    with pytest.raises(CheckpointError, match="other settings"):
        fit(model, data, FitArgs(epochs=4, batch=8, seed=3), folder=tmp_path)


def test_patience_ends_a_training() -> None:
    # Nothing changes at rate 0, so the second epoch is no better than the first.
    fitted = fit(small_gcn(SHAPE, KEY), random_data(), FitArgs(epochs=9, rate=0.0, patience=1))
    assert len(fitted.curve) == 2


def hand_batch(alive: list[float]) -> Batch:
    row = jnp.asarray([alive])
    return Batch(jnp.zeros((1, 3, 1, 1)), jnp.zeros((1, 1, 1)), row, jnp.asarray([[1.0, 0.0, 0.0]]), jnp.asarray([0]))


def test_losses_by_hand() -> None:
    # At logits 0, each alive path costs log 2 under bce; ce among k alive paths costs log k.
    z, batch = jnp.asarray([[0.0, 0.0, DEAD]]), hand_batch([1.0, 1.0, 0.0])
    assert float(loss_of(z, batch, "bce")) == pytest.approx(np.log(2))
    assert float(loss_of(z, batch, "ce")) == pytest.approx(np.log(2))
    assert float(loss_of(jnp.zeros((1, 3)), hand_batch([1.0, 1.0, 1.0]), "ce")) == pytest.approx(np.log(3))
    # With the frequency of the labels as the first bias, bce is the entropy of one in three.
    loss = loss_of(jnp.full((1, 3), prior(3)), hand_batch([1.0, 1.0, 1.0]), "bce")
    assert float(loss) == pytest.approx(-(np.log(1 / 3) + 2 * np.log(2 / 3)) / 3)
    with pytest.raises(ValueError, match="bce, ce"):
        loss_of(z, batch, "huber")


def test_soft_targets_take_the_place_of_labels() -> None:
    hard = random_data(4)
    soft = np.full((4, 3), 1 / 3, np.float32)
    data = Dataset(**{**hard.__dict__, "soft": soft})
    assert (data.batch(hard.train).target == soft).all()
    assert hard.batch(hard.train).target.sum() == 4
    assert np.isnan(evaluate(small_gcn(SHAPE, KEY), data.batch(data.test))).all()


def test_no_instance_is_in_two_parts() -> None:
    instance = np.repeat(np.arange(20), 7)[np.random.default_rng(0).permutation(140)]
    parts = split(instance, 1)
    ids = [set(instance[part]) for part in parts]
    assert [len(part) for part in ids] == [14, 3, 3]  # 70 / 15 / 15 % of 20
    assert not (ids[0] & ids[1] or ids[0] & ids[2] or ids[1] & ids[2])
    assert sorted(np.concatenate(parts)) == list(range(140))


def test_plateaus_by_hand() -> None:
    # Means of five equal losses do not move: the first comparison is at epoch 6, and it holds to epoch 10.
    assert plateau([1.0] * 10) == 6
    assert plateau([1.0] * 9) is None
    # Halved at epoch 6: the means move at 6 to 10 (by 10 % of 1 at first, by 0.1 of 0.6 at last), then hold.
    assert plateau([1.0] * 5 + [0.5] * 10) == 11
    assert plateau([0.9**k for k in range(50)]) is None


def test_signs_by_hand() -> None:
    # Five of five: 1 of 2^5. Four smaller, one larger: (5 + 1) / 32. Equal pairs do not count.
    assert sign_test([1] * 5, [2] * 5) == (5, 0, 0, 1 / 32)
    assert sign_test([1, 1, 1, 1, 3, 2], [2] * 6) == (4, 1, 1, 6 / 32)
    assert sign_test([], []).p == 1.0


def test_a_comparison_goes_on_where_it_was(tmp_path: Path) -> None:
    makers = {name: lambda key: Noisy(jax.random.normal(key, (2, 6))) for name in ("gat", "gcn")}
    data, args = random_data(), FitArgs(epochs=2)
    first = compare(makers, data, [1], args, folder=tmp_path)
    done: list[tuple[str, int]] = []
    runs = compare(makers, data, [1, 2], args, folder=tmp_path, progress=lambda m, s, _: done.append((m, s)))
    assert runs[:2] == first
    assert done == [("gat", 2), ("gat", 2), ("gcn", 2), ("gcn", 2)]
    assert [(run.model, run.seed, len(run.curve)) for run in runs[2:]] == [("gat", 2, 2), ("gcn", 2, 2)]
    assert against(runs, "gat", "gcn", lambda run: run.plateau) == (0, 0, 2, 1.0)  # none has a plateau yet
