"""Supervised training of a graph network on labelled decisions, and a fair comparison of several.

An epoch is one compiled call: a scan over the batches of a permutation that follows from seed and epoch alone. So the
state between epochs is the weights and the optimiser's moments, and a training that is interrupted goes on to the same
weights. Batches are whole; what is left over after the last one has its turn under another epoch's permutation.

Losses, over the alive paths of a decision, where y is 1 for the labelled path (or a soft target):

    bce   mean_i [ log(1 + exp(z_i)) - y_i z_i ]
    ce    -sum_i y_i log softmax(z)_i
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from weftway.learn.train.checkpoint import CheckpointError, restore, save
from weftway.learn.train.curve import Curve, Point
from weftway.learn.train.graph import Network

N = TypeVar("N", bound=Network)

LOSSES = ("bce", "ce")
"""Losses that can be minimised."""

WINDOW = 5
"""Epochs of the moving mean that `plateau` watches, and for how many it must hold still."""

STILL = 0.01
"""Largest change of the moving mean from one epoch to the next on a plateau, as a fraction of itself."""


class Batch(NamedTuple):
    """Decisions as JAX sees them."""

    x: Array
    c: Array
    alive: Array
    target: Array
    label: Array


@dataclass(frozen=True)
class Dataset:
    """Labelled decisions: S samples over N paths, and which of them are for what."""

    x: NDArray[np.float32]
    """(S, N, C, T)"""
    c: NDArray[np.float32]
    """(S, Cp, T)"""
    alive: NDArray[np.float32]
    """(S, N)"""
    label: NDArray[np.int32]
    """(S,): the best path."""
    margin: NDArray[np.float32]
    """(S,): by how much the best path beats the second, in seconds."""
    train: NDArray[np.int64]
    """Indices of samples to learn from."""
    validation: NDArray[np.int64]
    """Indices of samples to choose by."""
    test: NDArray[np.int64]
    """Indices of samples to report, which no training reads."""
    soft: NDArray[np.float32] | None = None
    """(S, N): targets in place of the label's, adding up to 1."""

    def batch(self, part: NDArray[np.int64]) -> Batch:
        """The samples of one part, on the device."""
        hard = np.eye(self.alive.shape[1], dtype=np.float32)[self.label[part]]
        target = hard if self.soft is None else self.soft[part]
        rows = (self.x[part], self.c[part], self.alive[part], target, self.label[part])
        return Batch(*map(jnp.asarray, rows))


class Split(NamedTuple):
    """Indices of samples, each in one part."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def split(instance: NDArray[np.int64], seed: int, scenarios: int | None = None) -> Split:
    """70 / 15 / 15 per cent of the scenario *instances*: all samples of one, (S,) by its id, are in the same part.

    Of so many `scenarios`, numbered from 0, each has its part whichever others have samples.
    """
    ids = np.random.default_rng(seed).permutation(np.unique(instance) if scenarios is None else np.arange(scenarios))
    first, second = round(0.70 * len(ids)), round(0.85 * len(ids))
    return Split(*(np.flatnonzero(np.isin(instance, part)) for part in np.split(ids, [first, second])))


@dataclass(frozen=True)
class FitArgs:
    """Settings of a network's training."""

    epochs: int = 100
    """Passes over the training samples, at most."""
    batch: int = 64
    """Samples per step of the optimiser."""
    rate: float = 0.003
    """Adam's learning rate."""
    loss: str = "bce"
    """`bce`, or `ce`."""
    seed: int = 0
    """Seed of the order of samples and of dropout; the first weights are the caller's."""
    patience: int | None = None
    """Stops after so many epochs without a smaller validation loss."""


@dataclass(frozen=True)
class EpochSettings:
    """Settings that a compiled epoch depends on: neither another seed nor a longer training compiles it again."""

    batch: int
    rate: float
    loss: str


@dataclass(frozen=True)
class Fitted(Generic[N]):
    """A trained network."""

    model: N
    """Network after the last epoch."""
    best: N
    """Network after the epoch with the smallest validation loss."""
    curve: list[Point]
    """Per epoch: `step`, `loss`, `validation_loss`, `validation_accuracy`, `seconds`."""


class State(NamedTuple):
    """State that changes from epoch to epoch; `best` is as the weights are."""

    weights: Any
    moments: Any
    best: Any


def fit(
    model: N,
    data: Dataset,
    args: FitArgs,
    *,
    folder: Path | None = None,
    progress: Callable[[Point], None] = lambda point: None,
) -> Fitted[N]:
    """Trains `model`; with a `folder`, goes on from the checkpoint there and leaves one after each epoch.

    The first epoch's `seconds` has the compiler's time in it.
    """
    weights, code = eqx.partition(model, eqx.is_inexact_array)
    state, curve = _begin(State(weights, optax.adam(args.rate).init(weights), weights), args, folder)
    learn, judge = data.batch(data.train), data.batch(data.validation)
    settings = EpochSettings(args.batch, args.rate, args.loss)
    for epoch in range(len(curve.points), args.epochs):
        if _is_stale(curve, args):
            break
        began = time.perf_counter()
        weights, moments, loss = _epoch(state.weights, state.moments, code, learn, _keys(args, epoch), settings)
        validation_loss, accuracy = evaluate(eqx.combine(weights, code), judge, args.loss)
        better = validation_loss < min(curve.column("validation_loss"), default=math.inf)
        state = State(weights, moments, weights if better else state.best)
        values = {"loss": float(loss), "validation_loss": validation_loss, "validation_accuracy": accuracy}
        point = curve.add(epoch + 1, **values, seconds=time.perf_counter() - began)
        if folder:
            save(folder / "checkpoint", epoch + 1, state, notes=_settings(args))
        progress(point)
    return Fitted(eqx.combine(state.weights, code), eqx.combine(state.best, code), curve.points)


def _begin(first: State, args: FitArgs, folder: Path | None) -> tuple[State, Curve]:
    """The state to go on from, and the curve that led there."""
    if folder is None:
        return first, Curve(None)
    kept = restore(folder / "checkpoint", first)
    if kept is None:
        return first, Curve(folder / "curve.jsonl")
    if kept.notes != _settings(args):
        raise CheckpointError(f"{folder} belongs to a training with other settings: {kept.notes}")
    curve = Curve(folder / "curve.jsonl", kept.step)
    if len(curve.points) != kept.step:
        raise CheckpointError(f"{folder}: the curve has {len(curve.points)} of the checkpoint's {kept.step} epochs")
    return kept.tree, curve


def _settings(args: FitArgs) -> dict[str, Any]:
    """Settings that two parts of one training agree on: the number of epochs may grow, patience change."""
    return {name: value for name, value in asdict(args).items() if name not in ("epochs", "patience")}


def _keys(args: FitArgs, epoch: int) -> Array:
    return jax.random.fold_in(jax.random.key(args.seed), epoch)


def _is_stale(curve: Curve, args: FitArgs) -> bool:
    losses = curve.column("validation_loss")
    return args.patience is not None and bool(losses) and len(losses) - 1 - int(np.argmin(losses)) >= args.patience


@eqx.filter_jit
def _epoch(
    weights: Any, moments: Any, code: Any, data: Batch, key: Array, settings: EpochSettings
) -> tuple[Any, Any, Array]:
    """Passes once over `data`: weights, moments, and the mean loss of its batches before their steps."""
    samples = data.label.shape[0]
    size = min(settings.batch, samples)
    shuffle, drop = jax.random.split(key)
    order = jax.random.permutation(shuffle, samples)[: samples // size * size].reshape(-1, size)
    step = partial(_step, code=code, data=data, settings=settings)
    (weights, moments), losses = jax.lax.scan(step, (weights, moments), (order, jax.random.split(drop, len(order))))
    return weights, moments, losses.mean()


def _step(
    state: tuple[Any, Any], turn: tuple[Array, Array], *, code: Any, data: Batch, settings: EpochSettings
) -> tuple[tuple[Any, Any], Array]:
    """Takes a step of Adam on the samples of `turn`, which also has the key for dropout."""
    weights, moments = state
    picked, key = turn
    batch = Batch(*(part[picked] for part in data))

    def objective(weights: Any) -> Array:
        return loss_of(_logits(eqx.combine(weights, code), batch, key), batch, settings.loss)

    loss, slope = jax.value_and_grad(objective)(weights)
    change, moments = optax.adam(settings.rate).update(slope, moments)
    return (optax.apply_updates(weights, change), moments), loss


def _logits(model: Network, batch: Batch, key: Array | None) -> Array:
    return model(batch.x, batch.c, batch.alive, key=key)


def loss_of(z: Array, batch: Batch, loss: str) -> Array:
    """The mean loss of logits z (B, N)."""
    if loss not in LOSSES:
        raise ValueError(f"loss {loss!r}: one of {', '.join(LOSSES)}")
    alive = batch.alive > 0
    if loss == "bce":
        each = jnp.where(alive, jax.nn.softplus(z) - batch.target * z, 0)
        return (each.sum(-1) / jnp.maximum(alive.sum(-1), 1)).mean()
    return -jnp.where(alive, batch.target * jax.nn.log_softmax(z), 0).sum(-1).mean()


def evaluate(model: Network, batch: Batch, loss: str = "bce") -> tuple[float, float]:
    """Loss, and the share of decisions in which the largest logit is the label's; NaN of both for no samples."""
    if batch.label.shape[0] == 0:
        return math.nan, math.nan
    mean_loss, accuracy = _evaluate(model, batch, loss)
    return float(mean_loss), float(accuracy)


@eqx.filter_jit
def _evaluate(model: Network, batch: Batch, loss: str) -> tuple[Array, Array]:
    z = _logits(model, batch, None)
    return loss_of(z, batch, loss), jnp.mean(z.argmax(-1) == batch.label)


def plateau(losses: Sequence[float]) -> int | None:
    """The first epoch, counted from 1, from which the mean of 5 losses changes by less than 1 % for 5 epochs.

    The mean of epoch e is that of epochs e - 4 to e, so that no plateau begins before epoch 6. `None` where there is
    none.
    """
    if len(losses) < 2 * WINDOW:
        return None
    means = np.convolve(losses, np.full(WINDOW, 1 / WINDOW), "valid")  # means[k] is that of epoch k + 5
    still = np.abs(np.diff(means)) < STILL * np.abs(means[:-1])  # still[k]: epoch k + 6 against the one before
    held = np.convolve(still, np.ones(WINDOW, int), "valid") == WINDOW
    return int(np.argmax(held)) + WINDOW + 1 if held.any() else None


@dataclass(frozen=True)
class Run:
    """A network trained with one seed."""

    model: str
    seed: int
    curve: list[Point]
    plateau: int | None
    """Epoch at which the training loss holds still."""
    final_loss: float
    """Training loss of the last epoch."""
    seconds: float
    """Seconds of all epochs together, the compiler's time in the first one included."""
    epoch_seconds: float
    """The median epoch, which the compiler does not touch."""


def compare(
    models: Mapping[str, Callable[[Array], Network]],
    data: Dataset,
    seeds: Sequence[int],
    args: FitArgs,
    *,
    folder: Path | None = None,
    progress: Callable[[str, int, Point], None] = lambda model, seed, point: None,
) -> list[Run]:
    """Trains each network, made from a key, once per seed: same data, same optimiser, same order of samples.

    With a `folder` each run goes on where it was; a finished one is only read.
    """
    runs = []
    for seed in seeds:
        for name, make in models.items():
            own = FitArgs(**{**asdict(args), "seed": seed})
            place = folder / f"{name}-{seed}" if folder else None
            fitted = fit(make(jax.random.key(seed)), data, own, folder=place, progress=partial(progress, name, seed))
            runs.append(_run(name, seed, fitted.curve))
    return runs


def _run(name: str, seed: int, curve: list[Point]) -> Run:
    losses = [point["loss"] for point in curve]
    seconds = [point["seconds"] for point in curve]
    return Run(name, seed, curve, plateau(losses), losses[-1], sum(seconds), float(np.median(seconds)))


class SignTest(NamedTuple):
    """Counts of pairs whose first is smaller, larger or equal, and the sign test's probability."""

    smaller: int
    larger: int
    equal: int
    p: float
    """Probability of at least `smaller` heads in `smaller + larger` throws of a fair coin: one-sided, exact."""


def sign_test(first: Sequence[float], second: Sequence[float]) -> SignTest:
    """The exact sign test of "first is smaller", over pairs; equal pairs say nothing and are left out."""
    pairs = list(zip(first, second, strict=True))
    smaller, larger = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
    n = smaller + larger
    p = sum(math.comb(n, k) for k in range(smaller, n + 1)) / 2**n
    return SignTest(smaller, larger, len(pairs) - n, p)


def against(runs: Sequence[Run], first: str, second: str, measure: Callable[[Run], float | None]) -> SignTest:
    """The sign test of two networks over the seeds that both have; `None` (no plateau) is later than any epoch."""

    def by_seed(model: str) -> dict[int, float]:
        measured = {run.seed: measure(run) for run in runs if run.model == model}
        return {seed: math.inf if value is None else value for seed, value in measured.items()}

    of_first, of_second = by_seed(first), by_seed(second)
    both = sorted(of_first.keys() & of_second.keys())
    return sign_test([of_first[seed] for seed in both], [of_second[seed] for seed in both])
