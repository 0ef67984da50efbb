"""Policy files: what a training leaves behind and a scheduler runs.

A policy is a safetensors file. Its metadata is the *card*, text by name: what the policy decides, how it was trained
and how that training is repeated. Its tensors are float32: `low` and `high`, the range of each input in training, and
the network's own.

The container is written here rather than by the `safetensors` package, which puts the metadata into an order that
differs from run to run: the same policy gives the same bytes. Names are sorted, wider types come first, and the
header is padded to eight bytes, so that every tensor is aligned. Reading is the package's, which writing does not need.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weftway.runs.store import whole

FORMAT = "weftway-policy-1"
"""Format that the card of every policy names."""

CARD = (
    "algorithm",
    "task",
    "network",
    "head",
    "inputs",
    "fallback",
    "trained_on",
    "cc",
    "seed",
    "steps",
    "code",
    "command",
    "evaluation",
)
"""Keys of every card; `format` is added on writing."""

HEADS = ("greedy", "sample", "shares", "values")
"""Uses of the outputs: the largest, a draw from their softmax, shares of the traffic, or the values themselves."""

Array = NDArray[Any]
Tensors = dict[str, Array]

_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}


class PolicyError(ValueError):
    """A policy that cannot be written or read: the text says what is wrong with it."""


class Policy(NamedTuple):
    """Contents of a policy file."""

    card: dict[str, str]
    tensors: Tensors


def write_policy(file: Path, card: Mapping[str, str], tensors: Mapping[str, ArrayLike]) -> None:
    """Writes a policy, whole or not at all; the same card and tensors give the same bytes.

    Tensors become float32. A `PolicyError` names a key that the card lacks, a tensor that is not finite, and ranges
    `low` and `high` that do not have one number per input.
    """
    card = {**card, "format": FORMAT}
    single = {name: np.asarray(value, np.float32) for name, value in tensors.items()}
    _check_card(card)
    _check_tensors(card, single)
    write_tensors(file, card, single)


def read_policy(file: Path) -> Policy:
    """The card and the tensors of a policy file; a `PolicyError` where it is none."""
    card, tensors = read_tensors(file)
    if (stored_format := card.get("format")) != FORMAT:
        raise PolicyError(f"{file}: format is {stored_format!r}, and {FORMAT!r} is read here")
    _check_card(card)
    _check_tensors(card, tensors)
    return Policy(card, tensors)


def _check_card(card: Mapping[str, str]) -> None:
    if missing := [key for key in CARD if key not in card]:
        raise PolicyError(f"the card says nothing of {', '.join(missing)}")
    if wrong := [key for key, value in card.items() if not isinstance(value, str)]:
        raise PolicyError(f"the card holds text only, and not so for {', '.join(wrong)}")
    if card["head"] not in HEADS:
        raise PolicyError(f"head {card['head']!r}: one of {', '.join(HEADS)}")


def _check_tensors(card: Mapping[str, str], tensors: Mapping[str, Array]) -> None:
    inputs = len(card["inputs"].split(","))
    for name in ("low", "high"):
        if name not in tensors or tensors[name].shape != (inputs,):
            raise PolicyError(f"`{name}` has one number for each of the {inputs} inputs")
    for name, value in tensors.items():
        if value.dtype != np.float32:
            raise PolicyError(f"`{name}` holds {value.dtype}, and a policy float32")
        if not np.isfinite(value).all():
            raise PolicyError(f"`{name}` has a value that is not finite")


def write_tensors(file: Path, metadata: Mapping[str, str], tensors: Mapping[str, Array]) -> None:
    """Writes a safetensors file, whole or not at all."""
    with whole(file) as half, half.open("wb") as out:
        ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
        header = _header(metadata, ordered)
        out.write(len(header).to_bytes(8, "little"))
        out.write(header)
        for _, value in ordered:
            out.write(_little(value).tobytes())


def _header(metadata: Mapping[str, str], ordered: list[tuple[str, Array]]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    start = 0
    for name, value in ordered:
        if (kind := _TYPES.get(value.dtype.name)) is None:
            raise PolicyError(f"`{name}` holds {value.dtype}, which a safetensors file cannot")
        entries[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [start, start + value.nbytes]}
        start += value.nbytes
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % 8)


def _little(value: Array) -> Array:
    return np.asarray(value, value.dtype.newbyteorder("<"), order="C")


def read_tensors(file: Path) -> tuple[dict[str, str], Tensors]:
    """Metadata and tensors of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as held:
            return dict(held.metadata() or {}), {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise PolicyError(f"{file} is no safetensors file: {error}") from error
