"""STSGAT: synchronous attention over the paths and their own past.

Windows of three successive steps become local graphs of 3N nodes; in each, attention layers weigh what a node takes
from its neighbours: e_ij = LeakyReLU(dst · W h_i + src · W h_j), alpha = softmax over the neighbours j of i,
h_i' = ELU(sum_j alpha_ij W h_j), with several heads side by side. A module keeps the largest of its layers' outputs
per feature and of each window the middle step, so that T steps become T - 2.

Reference: the STSGAT paper (S000), Algorithm 1 and equations 1 to 3. The algorithm as printed cannot be run; what is
meant is taken to be the support of `graph.support`, a softmax over all neighbours of a node, and features that change
only after a whole layer is computed.

Departures: without node identity (`identity=False`) the embedding of the path's number is left out, and the same
weights serve any number of paths. A dead path is no one's neighbour but its own.
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from weftway.learn.train.graph import DEAD, Network, Shape, joined, prior, silenced
from weftway.learn.train.networks import glorot

SLOPE = 0.2
"""Slope of LeakyReLU below 0, as in GAT (Veličković et al. 2018)."""

EMBEDDING = 0.1
"""Standard deviation of the embeddings at first: small beside inputs of order 1."""


class Seen(NamedTuple):
    """A step of the windows, as attention sees it: values (W, B, N, K, F'), and scores (W, B, N, K)."""

    values: Array
    dst: Array
    src: Array

    def path(self, j: int) -> "Seen":
        """View of path j that all nodes share: the axis N has one entry."""
        return Seen(*(part[:, :, j : j + 1] for part in self))

    def steps(self, first: int, count: int) -> "Seen":
        """`count` steps from the given one on, of values and scores that are still one per step, not per window."""
        return Seen(*(part[first : first + count] for part in self))


class Attention(eqx.Module):
    """A layer: K heads of size F' side by side."""

    w: Array
    src: Array
    dst: Array

    def __init__(self, hidden: int, heads: int, key: Array) -> None:
        """`w` (F, K F'), `src` and `dst` (K, F'), where F' = F / K."""
        keys = jax.random.split(key, 3)
        self.w = glorot(keys[0], (hidden, hidden))
        self.src = glorot(keys[1], (heads, hidden // heads))
        self.dst = glorot(keys[2], (heads, hidden // heads))

    def see(self, h: Array) -> Seen:
        """h (…, F) projected, and its halves of the score: a pair's score is the sum of two numbers."""
        u = (h @ self.w).reshape(*h.shape[:-1], *self.src.shape)
        return Seen(u, (u * self.dst).sum(-1), (u * self.src).sum(-1))


def attend(here: Seen, beside: list[Seen], alive: Array) -> Array:
    """Attention of one step's nodes to its paths, and to themselves in the steps `beside`: (W, B, N, F).

    It is softmax(E) U of the dense form, over the N + 2 nodes at most that are neighbours, in place of 3N. `alive`
    is (B, N).
    """
    n = alive.shape[1]
    shut = (1 - alive)[:, None, :] * (1 - jnp.eye(n)) * DEAD  # (B, i, j): a dead path counts for itself alone
    among = [here.path(j) for j in range(n)]
    scores = [jax.nn.leaky_relu(here.dst + other.src, SLOPE) for other in among + beside]
    scores[:n] = [score + shut[:, :, j, None] for j, score in enumerate(scores[:n])]
    weights = jax.nn.softmax(jnp.stack(scores), axis=0)
    parts = [weight[..., None] * other.values for weight, other in zip(weights, among + beside, strict=True)]
    return jax.nn.elu(sum(parts[1:], parts[0])).reshape(*here.values.shape[:3], -1)


class STSGAT(Network):
    """Embeddings, a dense layer, modules of attention layers, and a readout that the paths share."""

    temb: Array
    semb: Array | None
    fc_w: Array
    fc_b: Array
    modules: list[list[Attention]]
    out_w: Array
    out_b: Array

    def __init__(
        self,
        shape: Shape,
        key: Array,
        *,
        identity: bool = True,
        hidden: int = 64,
        heads: int = 4,
        modules: int = 2,
        layers: int = 3,
    ) -> None:
        """`identity` says whether the network knows paths by their number; `shape.steps` > 2 `modules`."""
        if shape.steps <= 2 * modules or hidden % heads:
            raise ValueError("each module takes two steps away, and the heads share the hidden size evenly")
        keys = jax.random.split(key, 4)
        self.temb = EMBEDDING * jax.random.normal(keys[0], (1, 1, shape.channels, shape.steps))
        first = EMBEDDING * jax.random.normal(keys[1], (1, shape.paths, shape.channels, 1))
        self.semb = first if identity else None
        self.fc_w = glorot(keys[2], (shape.channels, hidden))
        self.fc_b = jnp.zeros(hidden)
        own = jax.random.split(keys[3], (modules * layers) + 1)
        stack = [Attention(hidden, heads, k) for k in own[:-1]]
        self.modules = [stack[m * layers : (m + 1) * layers] for m in range(modules)]
        self.out_w = glorot(own[-1], ((shape.steps - 2 * modules) * hidden, 1))
        self.out_b = jnp.full(1, prior(shape.paths), jnp.float32)

    def __call__(self, x: Array, c: Array, alive: Array, *, key: Array | None = None) -> Array:
        """x (B, N, C, T), c (B, Cp, T), alive (B, N) to z (B, N); nothing is random."""
        steps = joined(x, c) + jnp.moveaxis(self.temb, 3, 0)
        if self.semb is not None:
            steps += jnp.moveaxis(self.semb, 3, 0)
        h = steps @ self.fc_w + self.fc_b  # (T, B, N, F)
        for layers in self.modules:
            h = module(layers, h, alive)
        kept, _, _, hidden = h.shape
        z = jnp.einsum("tbnf,tf->bn", h, self.out_w.reshape(kept, hidden)) + self.out_b
        return silenced(z, alive)

    def spec(self, shape: Shape) -> str:
        """The card's `network`."""
        sizes = f"paths={shape.paths}:steps={shape.steps}:features={shape.features}"
        heads = self.modules[0][0].src.shape[0]
        inner = f"heads={heads}:modules={len(self.modules)}:layers={len(self.modules[0])}"
        return f"stsgat:{sizes}:packet_features={shape.packet_features}:{inner}"

    def tensors(self) -> dict[str, np.ndarray]:
        """The tensors of a policy file, by name; `semb` is absent without node identity."""
        named = {name: getattr(self, name) for name in ("temb", "semb", "fc_w", "fc_b", "out_w", "out_b")}
        for m, layers in enumerate(self.modules):
            for n, layer in enumerate(layers):
                named |= {f"m{m}.l{n}.{name}": getattr(layer, name) for name in ("w", "src", "dst")}
        return {name: np.asarray(value) for name, value in named.items() if value is not None}

    @classmethod
    def of(cls, tensors: Mapping[str, ArrayLike], shape: Shape) -> Self:
        """The network whose `tensors()` these are."""
        m = sum(name.endswith(".l0.w") for name in tensors)
        n = sum(name.startswith("m0.") and name.endswith(".w") for name in tensors)
        heads, size = np.shape(tensors["m0.l0.src"])
        sizes = {"hidden": heads * size, "heads": heads, "modules": m, "layers": n}
        made = cls(shape, jax.random.key(0), identity="semb" in tensors, **sizes)
        filled: Self = eqx.tree_at(_parts, made, [jnp.asarray(tensors[name]) for name in made.tensors()])
        return filled


def _parts(network: STSGAT) -> list[Array]:
    """The arrays in the order of `STSGAT.tensors`."""
    ends = [network.temb, network.semb, network.fc_w, network.fc_b, network.out_w, network.out_b]
    inner = [part for layers in network.modules for layer in layers for part in (layer.w, layer.src, layer.dst)]
    return [part for part in [*ends, *inner] if part is not None]


def module(layers: list[Attention], h: Array, alive: Array) -> Array:
    """h (T, B, N, F) to (T - 2, B, N, F).

    The first layer projects each step once for all windows that have it. Of the last, only the middle step is ever
    used, so only that is computed.
    """
    windows = h.shape[0] - 2
    all_steps = layers[0].see(h)
    seen = [all_steps.steps(q, windows) for q in range(3)]
    kept = []
    for following in layers[1:]:
        outputs = [attend(seen[q], _beside(seen, q), alive) for q in range(3)]
        kept.append(outputs[1])
        seen = [following.see(output) for output in outputs]
    kept.append(attend(seen[1], _beside(seen, 1), alive))
    return jnp.max(jnp.stack(kept), axis=0)


def _beside(seen: list[Seen], q: int) -> list[Seen]:
    """The steps before and after step q of a window, as far as it has them."""
    return [seen[r] for r in (q - 1, q + 1) if 0 <= r < len(seen)]
