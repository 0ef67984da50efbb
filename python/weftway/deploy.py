"""A network that was trained elsewhere, as a policy file: from torch, or from plain arrays.

The layers are read from the model and written as a policy. Then the code that runs policies reads the file, and both it
and the model are asked the same observations. The file is kept only if all answers agree: a model that does something
between its layers which a policy cannot do is refused, not approximated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weftway import _native, scenario
from weftway._native import ScenarioError
from weftway.learn.train.export import PolicyError, write_policy
from weftway.runs import specs
from weftway.runs.store import whole
from weftway.vector import VectorEnv

ASKED_ON = "video-chunks"
"""A scenario in which every task has a question: its sender pauses."""

QUESTIONS = 256
"""Observations on which model and policy are compared."""

TOLERANCE = 1e-4
"""Largest distance of the policy's answer from the model's, of the largest answer: sums in another order."""

ACTIVATIONS = {"ReLU": "relu", "Tanh": "tanh"}
"""Layers between dense ones that a policy has, by the names of their classes in torch."""

WITHOUT_EFFECT = ("Dropout", "Flatten", "Identity", "Unflatten")
"""Layers that change no number once the training is over."""

Floats = npt.NDArray[np.float32]


class Shape(NamedTuple):
    """Inputs of a task, and its kind of action."""

    names: list[str]
    low: Floats
    high: Floats
    outputs: int
    kind: str
    """Kind of the action: `discrete`, `several` or `shares`."""


@dataclass
class Layers:
    """The layers of a model, as a policy file has them: LSTM layers, then dense ones."""

    cells: list[tuple[Floats, Floats, Floats]] = field(default_factory=list)
    """Arrays of each LSTM layer: `wx` (in, 4H), `wh` (H, 4H) and `b` (4H)."""
    dense: list[tuple[Floats, Floats]] = field(default_factory=list)
    """Arrays of each dense layer: W (in, out) and b (out)."""
    activation: str | None = None

    def network(self) -> str:
        """The card's `network`."""
        if not self.cells:
            return f"mlp:activation={self.activation or 'relu'}"
        if self.activation not in (None, "relu"):
            raise PolicyError(f"{self.activation} after an LSTM: a policy has ReLU there")
        return "lstm"

    def tensors(self) -> dict[str, Floats]:
        """Tensors by their names in the file."""
        named = {
            f"l{i}.{name}": part for i, cell in enumerate(self.cells) for name, part in zip(PARTS, cell, strict=True)
        }
        for i, (w, b) in enumerate(self.dense, 1):
            named |= {f"w{i}": w, f"b{i}": b}
        return named

    @property
    def inputs(self) -> int:
        """Number of inputs; of an LSTM, with each step."""
        return len(self.cells[0][0] if self.cells else self.dense[0][0])

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.dense[-1][1])


PARTS = ("wx", "wh", "b")


def write(
    model: Any,
    task: str,
    file: Path,
    activation: str | None,
    head: str | None,
    ranges: tuple[npt.ArrayLike, npt.ArrayLike] | None,
    fallback: str,
    card: Mapping[str, str],
) -> Path:
    """`weftway.export`, which says what each argument is."""
    if file.suffix != ".safetensors" or set(",:") & set(str(file)):
        raise PolicyError(
            f"{file}: a policy is known by its file's name, which ends in .safetensors without `,` and `:`"
        )
    shape = _shape(task)
    layers = _layers(model, activation)
    if layers.inputs != len(shape.names) and not (layers.cells and len(shape.names) % layers.inputs == 0):
        shown = f"{len(shape.names)}: {', '.join(shape.names)}"
        raise PolicyError(f"the model takes {layers.inputs} numbers; the task `{task}` shows {shown}")
    if layers.outputs != shape.outputs:
        raise PolicyError(f"the model gives {layers.outputs} numbers; the task `{task}` takes {shape.outputs}")
    full_card = _card(task, shape, layers, head, fallback, card)
    low, high = _ranges(ranges, shape)
    with whole(file) as half:
        write_policy(half, full_card, {"low": low, "high": high, **layers.tensors()})
        _compare(half, model, layers, shape)
        try:
            specs.parse(f"{full_card['algorithm']}:policy={half}")
        except ScenarioError as error:
            raise PolicyError(str(error).replace(str(half), str(file))) from error
    return file


def _shape(task: str) -> Shape:
    (first, *_) = scenario.load(scenario.locate(ASKED_ON)).variants()
    vector = VectorEnv(task, [first], ["cubic"], 1, seed=0)
    outputs = vector.choices * (vector.actions if vector.kind == "several" else 1)
    return Shape(vector.names, vector.low, vector.high, outputs, vector.kind)


def _card(
    task: str, shape: Shape, layers: Layers, head: str | None, fallback: str, facts: Mapping[str, str]
) -> dict[str, str]:
    usual = "shares" if shape.kind == "shares" else "greedy"
    if (head or usual) not in (("shares",) if shape.kind == "shares" else ("greedy", "sample")):
        raise PolicyError(
            f"head {head!r}: the task `{task}` takes {'shares' if usual == 'shares' else 'greedy, sample'}"
        )
    return {
        **dict.fromkeys(("trained_on", "cc", "seed", "steps", "evaluation"), "not told"),
        "command": "weftway.export",
        "code": _native.CODE,
        **facts,
        "algorithm": runner(task),
        "task": task,
        "network": layers.network(),
        "head": head or usual,
        "inputs": ",".join(shape.names),
        "fallback": fallback,
    }


def runner(task: str) -> str:
    """The scheduler that runs policies of a task: the first of the registry that comes with one."""
    name = task.partition(":")[0]
    for entry in _native.schedulers():
        if any(card["task"].partition(":")[0] == name for card in entry["policies"].values()):
            return str(entry["name"])
    raise PolicyError(f"no scheduler runs policies of the task `{task}`")


def _ranges(ranges: tuple[npt.ArrayLike, npt.ArrayLike] | None, shape: Shape) -> tuple[Floats, Floats]:
    if ranges is None:
        return shape.low, shape.high
    wrong = PolicyError(f"ranges: two arrays, the smallest and the largest value of each of {len(shape.names)} inputs")
    try:
        low, high = (np.asarray(bound, np.float32) for bound in ranges)
    except (TypeError, ValueError) as error:
        raise wrong from error
    if low.shape != high.shape or low.shape != (len(shape.names),) or not (low <= high).all():
        raise wrong
    return low, high


def _layers(model: Any, activation: str | None) -> Layers:
    if activation not in (None, *ACTIVATIONS.values()):
        raise PolicyError(f"activation {activation!r}: one of {', '.join(ACTIVATIONS.values())}")
    if isinstance(model, Sequence):
        return _of_arrays(model, activation)
    if not callable(getattr(model, "named_modules", None)):
        raise PolicyError(f"the model is a {type(model).__name__}; expected a torch module, or pairs of arrays (W, b)")
    return _of_torch(model, activation)


def _of_arrays(pairs: Sequence[Any], activation: str | None) -> Layers:
    layers = Layers(activation=activation)
    for number, pair in enumerate(pairs, 1):
        try:
            w, b = (np.asarray(part, np.float32) for part in pair)
        except (TypeError, ValueError) as error:
            raise PolicyError(f"layer {number}: expected a pair of arrays (W, b): {error}") from error
        if w.ndim != 2 or b.shape != w.shape[1:] or (layers.dense and len(layers.dense[-1][1]) != len(w)):
            before = f", {len(layers.dense[-1][1])} in" if layers.dense else ""
            raise PolicyError(f"layer {number}: W {w.shape} and b {b.shape}; expected (in, out) and (out,){before}")
        layers.dense.append((w, b))
    if not layers.dense:
        raise PolicyError("the model has no layer")
    if activation is None and len(layers.dense) > 1:
        raise PolicyError("activation: say what follows each layer but the last, relu or tanh")
    return layers


def _of_torch(model: Any, activation: str | None) -> Layers:
    layers, between = Layers(), list[str]()
    for name, layer in _leaves(model):
        kind = type(layer).__name__
        if kind == "Linear":
            layers.dense.append((_array(layer.weight).T, _bias(layer, "bias", layer.out_features)))
        elif kind == "LSTM" and not layers.dense:
            layers.cells += _cells(name, layer)
        elif kind in ACTIVATIONS:
            between.append(ACTIVATIONS[kind])
        elif kind not in WITHOUT_EFFECT:
            raise PolicyError(f"layer `{name}` is a {kind}; a policy has LSTM layers, then Linear with ReLU or Tanh")
    if not layers.dense:
        raise PolicyError("the model has no Linear layer")
    if len(set(between)) > 1:
        raise PolicyError("a policy has one activation; the model has ReLU and Tanh")
    if between and activation and between[0] != activation:
        raise PolicyError(f"activation {activation!r}: the model has {between[0]}")
    layers.activation = between[0] if between else activation
    if layers.activation is None and len(layers.dense) > 1:
        raise PolicyError("no layer of the model is an activation: say which one `forward` applies, relu or tanh")
    return layers


def _leaves(model: Any) -> Iterator[tuple[str, Any]]:
    """Layers that consist of no others, in the order in which the model declares them."""
    for name, layer in model.named_modules():
        if not any(True for _ in layer.children()):
            yield name or type(layer).__name__, layer


def _cells(name: str, layer: Any) -> Iterator[tuple[Floats, Floats, Floats]]:
    """The layers of an LSTM. Torch has the gates in our order: input, forget, candidate, output."""
    if layer.bidirectional or getattr(layer, "proj_size", 0):
        raise PolicyError(f"layer `{name}`: a policy has no LSTM that is bidirectional or projected")
    for number in range(layer.num_layers):
        wx, wh = (_array(getattr(layer, f"weight_{part}_l{number}")).T for part in ("ih", "hh"))
        b = sum(_bias(layer, f"bias_{part}_l{number}", wx.shape[1]) for part in ("ih", "hh"))
        yield wx, wh, np.asarray(b, np.float32)


def _bias(layer: Any, name: str, width: int) -> Floats:
    bias = getattr(layer, name, None)
    return np.zeros(width, np.float32) if bias is None else _array(bias)


def _array(tensor: Any) -> Floats:
    # By way of a list: torch of one generation does not know the numpy of the next, and a policy is small.
    return np.asarray(tensor.detach().cpu().tolist(), np.float32)


def _compare(file: Path, model: Any, layers: Layers, shape: Shape) -> None:
    """Refuses a policy that does not answer as the model does."""
    inputs = len(shape.names)
    asked = np.random.default_rng(0).uniform(shape.low, shape.high, (QUESTIONS, inputs)).astype(np.float32)
    try:
        policy = _native.Policy(file)
    except ScenarioError as error:
        raise PolicyError(str(error).replace(str(file), "of this model")) from error
    answers = np.zeros((QUESTIONS, policy.outputs), np.float32)
    policy.forward(asked, answers)
    expected = _dense(layers, asked) if isinstance(model, Sequence) else _asked(model, asked)
    if expected.shape != answers.shape:
        raise PolicyError(
            f"the model gives the shape {expected.shape} for {QUESTIONS} observations; expected {answers.shape}"
        )
    apart = float(np.abs(expected - answers).max())
    if not apart <= TOLERANCE * max(1.0, float(np.abs(expected).max())):
        raise PolicyError(
            f"the model's answers and those of its layers in order are up to {apart:.3g} apart: its `forward` does "
            "something that a policy cannot (another activation, a scale, a second head)"
        )


def _dense(layers: Layers, x: Floats) -> Floats:
    """Output of the arrays, computed with NumPy."""
    for w, b in layers.dense[:-1]:
        x = np.maximum(x @ w + b, 0) if layers.activation == "relu" else np.tanh(x @ w + b)
    w, b = layers.dense[-1]
    return np.asarray(x @ w + b, np.float32)


def _asked(model: Any, asked: Floats) -> Floats:
    """Output of a torch model, as it is when it is not in training."""
    import torch

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            answer = model(torch.tensor(asked.tolist(), dtype=torch.float32, device=next(model.parameters()).device))
    except (RuntimeError, TypeError, ValueError) as error:
        raise PolicyError(f"the model does not take observations of shape {asked.shape}: {error}") from error
    finally:
        model.train(was_training)
    if not isinstance(answer, torch.Tensor):
        raise PolicyError(
            f"the model returns a {type(answer).__name__}; expected a number per choice: export that part"
        )
    return _array(answer)
