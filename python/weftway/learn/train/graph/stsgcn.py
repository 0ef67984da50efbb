"""STSGCN: graph convolutions over the paths and their own past, the first baseline of the STSGAT paper.

Windows of three successive steps become local graphs of 3N nodes with fixed joints times a learned mask; in each,
three convolutions with gated linear units, h' = (A h) W1 * sigmoid((A h) W2), weights of their own for every window.
Each layer keeps the largest of its convolutions' outputs per feature and of each window the middle step.

Reference: Song et al., Spatial-Temporal Synchronous Graph Convolutional Networks (AAAI 2020).

Departures: two layers, as STSGAT has two modules (the original has four); one output per path in place of a forecast;
the loss is that of the comparison, not Huber's.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from weftway.learn.train.graph import Network, Shape, joined, prior, silenced, support
from weftway.learn.train.networks import MLP, glorot, he

EMBEDDING = 0.1
"""Standard deviation of the embeddings at first."""

CONVOLUTIONS = 3
"""Convolutions in each layer, as in the original."""


class Layer(eqx.Module):
    """Embeddings of step and path, then convolutions with weights for each of the W windows."""

    temb: Array
    semb: Array
    weights: list[Array]
    biases: list[Array]

    def __init__(self, steps: int, paths: int, hidden: int, key: Array) -> None:
        """`weights` (W, F, 2F) and `biases` (W, 1, 1, 2F) of each convolution, where W = `steps` - 2."""
        keys = jax.random.split(key, CONVOLUTIONS + 2)
        self.temb = EMBEDDING * jax.random.normal(keys[0], (steps, 1, 1, hidden))
        self.semb = EMBEDDING * jax.random.normal(keys[1], (1, 1, paths, hidden))
        self.weights = [glorot(k, (steps - 2, hidden, 2 * hidden)) for k in keys[2:]]
        self.biases = [jnp.zeros((steps - 2, 1, 1, 2 * hidden)) for _ in keys[2:]]

    def __call__(self, h: Array, joints: Array, alive: Array) -> Array:
        """h (T, B, N, F), joints (3N, 3N) and alive (B, N) to (T - 2, B, N, F)."""
        h = h + self.temb + self.semb
        windows, n = h.shape[0] - 2, h.shape[2]
        middle = slice(n, 2 * n)
        g = jnp.concatenate([h[q : q + windows] for q in range(3)], axis=2)
        present = jnp.tile(alive, 3)[None, :, :, None]
        kept = []
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            g = convolve(joints, g * present, w, b)
            kept.append(g[:, :, middle])
        kept.append(convolve(joints[middle], g * present, self.weights[-1], self.biases[-1]))  # no more is used of it
        return jnp.max(jnp.stack(kept), axis=0)


def convolve(joints: Array, g: Array, w: Array, b: Array) -> Array:
    """g (W, B, 3N, F) along the rows of joints (R, 3N), with w (W, F, 2F): (W, B, R, F)."""
    mixed = jnp.einsum("ij,wbjf->wbif", joints, g)
    value, gate = jnp.split(jnp.einsum("wbif,wfg->wbig", mixed, w) + b, 2, axis=-1)
    return value * jax.nn.sigmoid(gate)


class STSGCN(Network):
    """A dense layer with ReLU, two layers of convolutions, and a readout that the paths share."""

    fc_w: Array
    fc_b: Array
    mask: Array
    layers: list[Layer]
    readout: MLP

    def __init__(self, shape: Shape, key: Array, *, hidden: int = 64, layers: int = 2, readout: int = 128) -> None:
        """`readout` is the hidden size of the readout; `shape.steps` > 2 `layers`."""
        keys = jax.random.split(key, layers + 2)
        self.fc_w = he(keys[0], (shape.channels, hidden))
        self.fc_b = jnp.zeros(hidden)
        self.mask = jnp.ones((3 * shape.paths, 3 * shape.paths))
        own = enumerate(keys[2:])
        self.layers = [Layer(shape.steps - 2 * i, shape.paths, hidden, k) for i, k in own]
        last = MLP([(shape.steps - 2 * layers) * hidden, readout, 1], keys[1])
        self.readout = eqx.tree_at(lambda m: m.biases[-1], last, jnp.full(1, prior(shape.paths), jnp.float32))

    def __call__(self, x: Array, c: Array, alive: Array, *, key: Array | None = None) -> Array:
        """x (B, N, C, T), c (B, Cp, T), alive (B, N) to z (B, N); nothing is random."""
        joints = self.mask * support(x.shape[1])
        h = jax.nn.relu(joined(x, c) @ self.fc_w + self.fc_b)
        for layer in self.layers:
            h = layer(h, joints, alive)
        flat = jnp.moveaxis(h, 0, 2).reshape(*x.shape[:2], -1)
        return silenced(self.readout(flat)[..., 0], alive)
