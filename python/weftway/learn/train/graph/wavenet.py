"""Graph WaveNet: gated dilated convolutions in time, with a learned graph between the paths; the second baseline.

Four blocks of two layers, dilations 1 and 2, see 13 steps; inputs of 12 get a step of zeros before them. Each layer:
h' = tanh(conv h) * sigmoid(conv h); a skip connection adds h' of the last step to the readout; a graph convolution
mixes h' among the paths, and the sum with h goes on. The learned graph is softmax(relu(E1 E2)).

Reference: Wu et al., Graph WaveNet for Deep Spatial-Temporal Graph Modeling (IJCAI 2019).

Departures: no batch normalisation; the fixed graph is complete, so that one diffusion step over it says all, while
the learned graph has two; one output per path. Skip connections are computed for the last step only and the graph
convolution of the last layer is left out, since nothing reads the rest.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from weftway.learn.train.graph import DEAD, Network, Shape, joined, prior, silenced
from weftway.learn.train.networks import MLP, glorot

DILATIONS = (1, 2) * 4
"""Dilations of the eight layers."""

FIELD = 1 + sum(DILATIONS)
"""Steps that the last output sees: 13."""

GRAPHS = 4
"""Inputs of a graph convolution: h itself, h over the complete graph, over the learned one, and over it twice."""


class Layer(eqx.Module):
    """A gated convolution of two taps, its skip connection, and its graph convolution."""

    old: Array
    new: Array
    gate_b: Array
    skip_w: Array
    mix_w: Array | None
    mix_b: Array | None

    def __init__(self, width: int, skip: int, key: Array, *, mixes: bool) -> None:
        """`old`, `new` (width, 2 width), `skip_w` (width, skip), `mix_w` (4 width, width) if it `mixes`."""
        keys = jax.random.split(key, 4)
        self.old = glorot(keys[0], (width, 2 * width))
        self.new = glorot(keys[1], (width, 2 * width))
        self.gate_b = jnp.zeros(2 * width)
        self.skip_w = glorot(keys[2], (width, skip))
        self.mix_w = glorot(keys[3], (GRAPHS * width, width)) if mixes else None
        self.mix_b = jnp.zeros(width) if mixes else None

    def gated(self, h: Array, dilation: int) -> Array:
        """h (T, B, N, D) to (T - dilation, B, N, D)."""
        both = h[:-dilation] @ self.old + h[dilation:] @ self.new + self.gate_b
        value, gate = jnp.split(both, 2, axis=-1)
        return jnp.tanh(value) * jax.nn.sigmoid(gate)


def spread(weights: Array, h: Array) -> Array:
    """weights (B, N, N) times h (T, B, N, D): what each path i takes from the paths j."""
    return jnp.einsum("bij,tbjd->tbid", weights, h)


class WaveNet(Network):
    """Graph WaveNet with one output per path."""

    start_w: Array
    start_b: Array
    sources: Array
    targets: Array
    layers: list[Layer]
    readout: MLP
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        shape: Shape,
        key: Array,
        *,
        width: int = 32,
        skip: int = 256,
        end: int = 512,
        rank: int = 10,
        dropout: float = 0.3,
    ) -> None:
        """Takes at most 13 steps; `rank` is that of the learned graph."""
        if shape.steps > FIELD:
            raise ValueError(f"the network sees {FIELD} steps, fewer than {shape.steps}")
        keys = jax.random.split(key, 4 + len(DILATIONS))
        self.start_w = glorot(keys[0], (shape.channels, width))
        self.start_b = jnp.zeros(width)
        self.sources = jax.random.normal(keys[1], (shape.paths, rank))
        self.targets = jax.random.normal(keys[2], (rank, shape.paths))
        last = len(DILATIONS) - 1
        self.layers = [Layer(width, skip, k, mixes=i < last) for i, k in enumerate(keys[4:])]
        readout = MLP([skip, end, 1], keys[3])
        self.readout = eqx.tree_at(lambda m: m.biases[-1], readout, jnp.full(1, prior(shape.paths), jnp.float32))
        self.dropout = dropout

    def graphs(self, alive: Array) -> tuple[Array, Array]:
        """The complete and the learned graph among alive paths, (B, N, N); rows add up to 1."""
        shut = ((1 - alive) * DEAD)[:, None, :]
        scores = jax.nn.relu(self.sources @ self.targets)
        return jax.nn.softmax(jnp.zeros_like(scores) + shut), jax.nn.softmax(scores + shut)

    def __call__(self, x: Array, c: Array, alive: Array, *, key: Array | None = None) -> Array:
        """x (B, N, C, T), c (B, Cp, T), alive (B, N) to z (B, N); dropout only with a key."""
        complete, learned = self.graphs(alive)
        steps = joined(x, c)
        padded = jnp.pad(steps, ((FIELD - steps.shape[0], 0), (0, 0), (0, 0), (0, 0)))
        h = padded @ self.start_w + self.start_b
        total = jnp.zeros(())
        for i, (layer, dilation) in enumerate(zip(self.layers, DILATIONS, strict=True)):
            g = layer.gated(h, dilation)
            total = total + g[-1] @ layer.skip_w
            if layer.mix_w is not None and layer.mix_b is not None:
                once = spread(learned, g)
                near = jnp.concatenate([g, spread(complete, g), once, spread(learned, once)], axis=-1)
                mixed = near @ layer.mix_w + layer.mix_b
                h = h[dilation:] + self._dropped(mixed, key, i)
        return silenced(self.readout(jax.nn.relu(total))[..., 0], alive)

    def _dropped(self, h: Array, key: Array | None, layer: int) -> Array:
        if key is None or self.dropout == 0:
            return h
        keep = jax.random.bernoulli(jax.random.fold_in(key, layer), 1 - self.dropout, h.shape)
        return jnp.where(keep, h / (1 - self.dropout), 0)
