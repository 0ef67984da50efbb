"""Imitation: a network learns to answer a task's questions as another scheduler would.

The teacher runs; the task of the network looks on, and tells for each of its questions what it sees and how often the
teacher then waited for the full fastest path and how often it sent on another. The network learns the odds of waiting:
its first output, wait, less its second, send, is their logarithm.

A copy that errs comes into states that the teacher never shows. So it runs itself then, the teacher says what it would
have done, and the network learns from both (DAgger: Ross, Gordon and Bagnell, AISTATS 2011).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from weftway import _native
from weftway.rank.cells import Cell
from weftway.runs import plan, specs

Floats = NDArray[np.float32]
Weights = dict[str, Any]

MOST_ROWS = 3000
"""Rows of one run, at most: long runs do not outweigh the others."""
LEAST_WEIGHT = 100
"""A run weighs as one, whatever its decisions, but for runs with fewer than these."""
STEPS, BATCH, RATE = 3000, 2048, 3e-3
"""Settings of Adam; the rate falls to 0 (cosine)."""


@dataclass(frozen=True)
class Rows:
    """Observations, the share of the teacher's decisions that was to wait, and the rows' weights."""

    seen: Floats
    waited: Floats
    weight: Floats


def together(shown: Sequence[Rows]) -> Rows:
    """All rows. Those of each weigh the same."""
    return Rows(*(np.concatenate([getattr(rows, part.name) for rows in shown]) for part in fields(Rows)))


def rows(
    cells: Sequence[Cell], teacher: str, task: str, inputs: int, seed: int, threads: int, student: str | None = None
) -> Rows:
    """Decisions of a teacher on these cells, or its answers to the questions that a student met. Questions after which
    it had no such choice count for nothing."""
    [shown] = specs.parse(teacher)
    rng = np.random.default_rng([seed, 1])
    jobs = [plan.simulated(cell.variant, shown, cell.cc, at) for at, cell in enumerate(cells)]
    parts = []
    for text in _native.demonstrations(jobs, task, threads, student):
        run = np.frombuffer(text, np.float32).reshape(-1, inputs + 2)
        if len(run) > MOST_ROWS:
            run = run[np.sort(rng.choice(len(run), MOST_ROWS, replace=False))]
        decisions = run[:, -2:].sum(1, keepdims=True)
        share = run[:, -2:-1] / np.maximum(decisions, 1)
        parts.append(np.hstack([run[:, :-2], share, decisions / max(decisions.sum(), LEAST_WEIGHT)]))
    whole = np.concatenate(parts).astype(np.float32)
    return Rows(whole[:, :-2], whole[:, -2], whole[:, -1] / whole[:, -1].mean())


def forward(weights: Weights, x: Any) -> Any:
    """The outputs of dense layers `w1`, `b1`, `w2`, …, with ReLU between them."""
    return hidden(weights, x) @ weights[f"w{len(weights) // 2}"] + weights[f"b{len(weights) // 2}"]


def hidden(weights: Weights, x: Any) -> Any:
    """Inputs of the last layer."""
    for layer in range(1, len(weights) // 2):
        x = jax.nn.relu(x @ weights[f"w{layer}"] + weights[f"b{layer}"])
    return x


def first_weights(sizes: Sequence[int], seed: int) -> Weights:
    """Layers of these sizes whose last says nothing, whatever is seen."""
    keys = jax.random.split(jax.random.PRNGKey(seed), len(sizes))
    weights: Weights = {}
    for layer, (before, after) in enumerate(pairwise(sizes), 1):
        spread = 0.0 if layer == len(sizes) - 1 else np.sqrt(2 / before)
        weights |= {
            f"w{layer}": spread * jax.random.normal(keys[layer], (before, after)),
            f"b{layer}": jnp.zeros(after),
        }
    return weights


def loss(weights: Weights, x: Any, waited: Any, weight: Any) -> Any:
    """The cross entropy of waiting."""
    outputs = forward(weights, x)
    return (weight * optax.sigmoid_binary_cross_entropy(outputs[:, 0] - outputs[:, 1], waited)).mean()


def fit(shown: Rows, widths: Sequence[int], seed: int) -> Weights:
    """Layers that answer as the teacher did. The scales of the inputs are in the first one."""
    mean, spread = shown.seen.mean(0), shown.seen.std(0) + 1e-6
    x = (shown.seen - mean) / spread
    rng = np.random.default_rng([seed, 2])
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))

    @jax.jit
    def step(weights: Weights, state: Any, x: Any, waited: Any, weight: Any) -> tuple[Weights, Any]:
        updates, state = optimiser.update(jax.grad(loss)(weights, x, waited, weight), state, weights)
        return optax.apply_updates(weights, updates), state

    weights = first_weights([x.shape[1], *widths, 2], seed)
    state = optimiser.init(weights)
    for _ in range(STEPS):
        at = rng.integers(len(x), size=BATCH)
        weights, state = step(weights, state, x[at], shown.waited[at], shown.weight[at])
    tensors: Weights = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    tensors["b1"] = tensors["b1"] - (mean / spread) @ tensors["w1"]
    tensors["w1"] = tensors["w1"] / spread[:, None]
    return tensors
