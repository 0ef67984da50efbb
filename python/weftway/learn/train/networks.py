"""The networks of learned schedulers, in the layout of a policy file: `y = act(x W + b)`, W of shape (in, out).

Each network says its own part of the policy: `spec()` is the card's `network`, `tensors()` what goes into the file.
Whatever is drawn is drawn from the key that is given.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": jax.nn.relu, "tanh": jnp.tanh, "elu": jax.nn.elu}
"""Activations by the name that a policy gives them."""


def glorot(key: Array, shape: tuple[int, ...]) -> Array:
    """Uniform in ±sqrt(6 / (in + out)), where the last two axes are in and out (Glorot & Bengio 2010)."""
    most = (6 / (shape[-2] + shape[-1])) ** 0.5
    return jax.random.uniform(key, shape, minval=-most, maxval=most)


def he(key: Array, shape: tuple[int, ...]) -> Array:
    """Normal with variance 2 / in, for layers before a ReLU (He et al. 2015)."""
    scale: float = (2 / shape[-2]) ** 0.5
    return jax.random.normal(key, shape) * scale


class MLP(eqx.Module):
    """Dense layers with one activation between them; the last is linear."""

    weights: list[Array]
    biases: list[Array]
    activation: str = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], key: Array, activation: str = "relu", last: float = 1.0) -> None:
        """Layers from `sizes[0]` inputs to `sizes[-1]` outputs; biases start at 0.

        `last` scales the last layer's first weights: 0.01 makes a policy begin nearly uniform.
        """
        inner = he if activation == "relu" else glorot
        keys = jax.random.split(key, len(sizes) - 1)
        shapes = list(pairwise(sizes))
        self.weights = [inner(k, shape) for k, shape in zip(keys[:-1], shapes[:-1], strict=True)]
        self.weights.append(glorot(keys[-1], shapes[-1]) * last)
        self.biases = [jnp.zeros(out) for _, out in shapes]
        self.activation = activation

    def __call__(self, x: Array) -> Array:
        """(…, in) to (…, out)."""
        act = ACTIVATIONS[self.activation]
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = act(x @ w + b)
        return x @ self.weights[-1] + self.biases[-1]

    def spec(self) -> str:
        """The card's `network`."""
        return f"mlp:activation={self.activation}"

    def tensors(self) -> dict[str, np.ndarray]:
        """`w1` (in, out), `b1` (out), `w2`, …"""
        weights = {f"w{i}": np.asarray(w) for i, w in enumerate(self.weights, 1)}
        return weights | {f"b{i}": np.asarray(b) for i, b in enumerate(self.biases, 1)}

    @classmethod
    def of(cls, tensors: Mapping[str, ArrayLike], activation: str = "relu") -> Self:
        """The network whose `tensors()` these are."""
        weights = _numbered(tensors, "w{}", 1)
        sizes = [weights[0].shape[0], *(w.shape[1] for w in weights)]
        made = cls(sizes, jax.random.key(0), activation)
        filled: Self = eqx.tree_at(lambda m: (m.weights, m.biases), made, (weights, _numbered(tensors, "b{}", 1)))
        return filled


class Cell(eqx.Module):
    """An LSTM layer; the gates stand in the order input, forget, candidate, output (i, f, g, o)."""

    wx: Array
    wh: Array
    b: Array

    def __init__(self, inputs: int, hidden: int, key: Array) -> None:
        """`wx` (in, 4H), `wh` (H, 4H), `b` (4H); the forget gate starts open (Jozefowicz et al. 2015)."""
        first, second = jax.random.split(key)
        self.wx = glorot(first, (inputs, 4 * hidden))
        self.wh = glorot(second, (hidden, 4 * hidden))
        self.b = jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0)

    def step(self, state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        """State (h, c), each (…, H), and x (…, in), to the next state and its h."""
        h, c = state
        i, f, g, o = jnp.split(x @ self.wx + h @ self.wh + self.b, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def __call__(self, x: Array) -> Array:
        """(T, …, in) to the h of every step, (T, …, H); it begins at zero."""
        zero = jnp.zeros((*x.shape[1:-1], self.wh.shape[0]), x.dtype)
        return jax.lax.scan(lambda state, now: self.step(state, now), (zero, zero), x)[1]


class LSTM(eqx.Module):
    """LSTM layers over a history, then dense layers on the last hidden state."""

    cells: list[Cell]
    head: MLP

    def __init__(self, inputs: int, hidden: Sequence[int], head: Sequence[int], key: Array, last: float = 1.0) -> None:
        """`hidden` sizes of LSTM layers, then an `MLP` with ReLU whose layers give `head` outputs."""
        first, second = jax.random.split(key)
        keys = jax.random.split(first, len(hidden))
        sizes = zip([inputs, *hidden], hidden, keys, strict=False)
        self.cells = [Cell(before, after, k) for before, after, k in sizes]
        self.head = MLP([hidden[-1], *head], second, last=last)

    def __call__(self, x: Array) -> Array:
        """(…, T, in), oldest step first, to (…, out)."""
        steps = jnp.moveaxis(x, -2, 0)
        for cell in self.cells:
            steps = cell(steps)
        return self.head(steps[-1])

    def spec(self) -> str:
        """The card's `network`; the head's activation is ReLU."""
        return "lstm"

    def tensors(self) -> dict[str, np.ndarray]:
        """`l0.wx`, `l0.wh`, `l0.b`, `l1.wx`, …, then the head's `w1`, `b1`, …"""
        named = self.head.tensors()
        for i, cell in enumerate(self.cells):
            named |= {f"l{i}.{name}": np.asarray(getattr(cell, name)) for name in ("wx", "wh", "b")}
        return named

    @classmethod
    def of(cls, tensors: Mapping[str, ArrayLike]) -> Self:
        """The network whose `tensors()` these are."""
        parts = zip(*(_numbered(tensors, f"l{{}}.{name}", 0) for name in ("wx", "wh", "b")), strict=True)
        cells = [eqx.tree_at(lambda c: (c.wx, c.wh, c.b), Cell(1, 1, jax.random.key(0)), part) for part in parts]
        made = cls(1, [1], [1], jax.random.key(0))
        filled: Self = eqx.tree_at(lambda m: (m.cells, m.head), made, (cells, MLP.of(tensors)))
        return filled


def _numbered(tensors: Mapping[str, ArrayLike], name: str, first: int) -> list[Array]:
    """The tensors `name` with a number from `first` on, as far as there are any."""
    arrays: list[Array] = []
    while (key := name.format(first + len(arrays))) in tensors:
        arrays.append(jnp.asarray(tensors[key]))
    return arrays
