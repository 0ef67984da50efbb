"""The state of a training between two steps, in one file that is written whole or not at all.

It holds a pytree (weights, optimiser, JAX keys), a NumPy generator, further arrays (a replay memory), and a step. A
training that goes on from it gives the bytes that it would have given uninterrupted, if all that it reads is in here:
every array comes back with its bits, the generator with its position.

What in the tree is no number (an activation, a name) is code, not state: it is taken from the tree that `restore` is
given, whose numbers must have the same names, shapes and types.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from weftway.learn.train.export import Array, PolicyError, Tensors, read_tensors, write_tensors

FORMAT = "weftway-checkpoint-1"

T = TypeVar("T")


class CheckpointError(ValueError):
    """A checkpoint that does not belong to this training; remove it, or name another folder."""


@dataclass(frozen=True)
class Checkpoint(Generic[T]):
    """Contents of a checkpoint, as `save` was given them."""

    step: int
    tree: T
    arrays: Tensors
    notes: dict[str, Any]


def save(
    file: Path,
    step: int,
    tree: Any,
    *,
    rng: np.random.Generator | None = None,
    arrays: Mapping[str, Array] | None = None,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Writes the state after `step` steps; `notes` is whatever JSON can hold (counters, settings)."""
    state = None if rng is None else rng.bit_generator.state
    about = {"format": FORMAT, "step": step, "rng": state, "notes": dict(notes or {})}
    named = {f"tree{name}": _numbers(leaf) for name, leaf in _leaves(tree) if _is_number(leaf)}
    named |= {f"array.{name}": np.asarray(value) for name, value in (arrays or {}).items()}
    write_tensors(file, {"about": json.dumps(about, default=_plain, sort_keys=True)}, named)


def restore(file: Path, like: T, *, rng: np.random.Generator | None = None) -> Checkpoint[T] | None:
    """The state in `file`, with the tree in the form of `like`, or `None` if there is no such file.

    `rng` is set to where the kept generator stood. A `CheckpointError` says how the file differs from what is asked.
    """
    if not file.exists():
        return None
    about, tensors = _read(file)
    if rng is not None:
        _set(rng, about["rng"], file)
    arrays = {name.removeprefix("array."): value for name, value in tensors.items() if name.startswith("array.")}
    return Checkpoint(about["step"], _filled(like, tensors, file), arrays, about["notes"])


def _read(file: Path) -> tuple[dict[str, Any], Tensors]:
    try:
        metadata, tensors = read_tensors(file)
        about = json.loads(metadata.get("about", "{}"))
    except (PolicyError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{file} is no checkpoint: {error}") from error
    if about.get("format") != FORMAT:
        raise CheckpointError(f"{file} is no checkpoint of this version")
    return about, tensors


def _filled(like: T, tensors: Tensors, file: Path) -> T:
    """`like` with the numbers of the file."""
    wanted = _leaves(like)
    names = {f"tree{name}" for name, leaf in wanted if _is_number(leaf)}
    if odd := names ^ {name for name in tensors if not name.startswith("array.")}:
        raise CheckpointError(f"{file} belongs to another training: `{min(odd)}` is in only one of the two")
    leaves = [_alike(leaf, tensors[f"tree{name}"], file) if _is_number(leaf) else leaf for name, leaf in wanted]
    filled: T = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return filled


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    """The leaves, named by where they are in the tree, such as `.layers[0].w`."""
    return [(jax.tree_util.keystr(place), leaf) for place, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(leaf: Any) -> Array:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _alike(leaf: Any, stored: Array, file: Path) -> Any:
    """`stored` as what `leaf` is: a JAX array or key, a NumPy array, a number."""
    wanted = _numbers(leaf)
    if (wanted.shape, wanted.dtype) != (stored.shape, stored.dtype):
        kept, asked = f"{stored.dtype}{stored.shape}", f"{wanted.dtype}{wanted.shape}"
        raise CheckpointError(f"{file} belongs to another training: {kept} kept where {asked} is asked")
    if _is_key(leaf):
        return jax.random.wrap_key_data(jax.numpy.asarray(stored), impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array):
        return jax.numpy.asarray(stored)
    return stored if isinstance(leaf, np.ndarray) else type(leaf)(stored.item())


def _set(rng: np.random.Generator, state: dict[str, Any] | None, file: Path) -> None:
    kind = rng.bit_generator.state["bit_generator"]
    if state is None or state["bit_generator"] != kind:
        raise CheckpointError(f"{file} holds no state of a generator {kind}")
    rng.bit_generator.state = state


def _plain(value: Any) -> Any:
    """Numbers of NumPy as JSON has them; some generators keep an array."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
