"""STSGAT: a graph attention network that copies, from what a sender sees, an oracle that sees the queues.

Labels come from the simulator: runs in which several behaviours take turns, and at each question the path that the
oracle would have taken (`weftway.learn.train.labels`). Then rounds of DAgger: the learnt policy takes its turns too,
the oracle labels what that led to, and training goes on over the union. What a choice means for packets is `--mode`;
for how long it holds, `--hold`; whether the oracle judges a path by the message at hand or by all that the choice
binds, `--basis`.

Reference: PDASTSGAT, Algorithm 1; Adam at 0.003, a sigmoid at the end and cross-entropy are printed, which is taken for
that of each path's own sigmoid. Batch, epochs and the size of the data
set are not ("48 iterations"), nor how the optimal subflow is found: the oracle, its mixture of behaviours and DAgger
are ours. The network's own departures are in `weftway.learn.train.graph.stsgat`.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from weftway._native import ScenarioError, Variant
from weftway.learn.train import export, labels, session
from weftway.learn.train.checkpoint import CheckpointError
from weftway.learn.train.curve import Curve, Point
from weftway.learn.train.finish import finish
from weftway.learn.train.graph import Shape
from weftway.learn.train.graph.fit import Dataset, FitArgs, Split, evaluate, fit, split
from weftway.learn.train.graph.stsgat import STSGAT
from weftway.learn.train.labels import Labels
from weftway.learn.train.limits import Count, CountOrNone, Mode, OneOf, Pattern, Rate, SettingError, Whole
from weftway.learn.train.pdaa3c import in_turn
from weftway.learn.train.session import ChooseActions, Progress, Trained, TrainingArgs, quiet
from weftway.sample import distribution
from weftway.sample.distribution import Drawn
from weftway.vector import Floats

MOST_PATHS = 8
"""Number of paths that a network can be made for."""

BASIS = {"preferred": "message", "exclusive": "interval"}
"""Meaning of `--basis auto` where a choice holds for the interval: it binds its class only where nobody stands in."""

MARGIN = 0.1
"""Share by which the fallback's ranges are wider than those of training, on either side."""

PARTS = 0.15 / 0.7
"""Samples to choose and to report by, each, over those to learn from."""

SHARE = 8
"""Scenarios of which one runs again in a round with the learnt policy, whose every decision is a forward pass."""


@dataclass(frozen=True, kw_only=True)
class Args(TrainingArgs):
    """Settings and their defaults."""

    steps: int = 12_000
    """Labelled decisions in an epoch."""
    distribution: str = "four-paths"
    pool: Annotated[int, Whole(6)] = 256
    """Number of scenarios drawn from it: at least six, so that each part (70, 15 and 15 per cent) has one."""
    cc: str = "bbr1"
    envs: int = 16
    """Simulations side by side in the evaluation; labels come from sequential runs."""
    epochs: Count = 4
    """Epochs of each round."""
    rounds: CountOrNone = 2
    """DAgger rounds, in which the learned policy decides as well, after a first round without it."""
    learning_rate: Rate = 0.003
    """Learning rate of Adam."""
    batch: Count = 64
    """Decisions in a batch."""
    mode: Mode = "preferred"
    """Use of the other paths when the chosen one is full: they send (`preferred`), or none does (`exclusive`)."""
    hold: Annotated[str, OneOf("interval", "message")] = "interval"
    """Duration of a choice: for its size class until the `interval` ends, or for a `message`."""
    basis: Annotated[str, OneOf("auto", "message", "interval")] = "auto"
    """Data that the oracle judges: the current `message`, all of its class in the `interval`, or what fits (`auto`)."""
    identity: bool = True
    """Identify paths by their number; without, the network supports any number of them."""
    slots: Annotated[int, Whole(1, MOST_PATHS)] = 4
    """Paths at most, 1 to 8; without identity, 8 are usual."""
    counts: Annotated[
        str, Pattern(r"|[1-8](,[1-8])*", "numbers of paths from 1 to 8 separated by commas, such as 2,4")
    ] = ""
    """Numbers of paths to train on, separated by commas; other scenarios are for evaluation only."""
    held_out: int = 16

    ALGORITHM: ClassVar[str] = "stsgat"
    UNIT: ClassVar[str] = "epochs"
    QUICK: ClassVar[Mapping[str, Any]] = {"steps": 1_600, "epochs": 3, "rounds": 1, "pool": 48, "held_out": 4}

    @property
    def task(self) -> str:
        """The task these settings mean."""
        return f"graph:slots={self.slots}:mode={self.mode}:hold={self.hold}"

    @property
    def judged(self) -> str:
        """The basis of labels."""
        if self.basis != "auto":
            return self.basis
        return "message" if self.hold == "message" else BASIS.get(self.mode, "message")

    @property
    def fit(self) -> FitArgs:
        """Settings of the network's training in a round."""
        return FitArgs(epochs=self.epochs, batch=self.batch, rate=self.learning_rate, seed=self.seed)

    @property
    def shape(self) -> Shape:
        """Sizes of what is seen."""
        return Shape(paths=self.slots)

    def variants(self, part: str = "train") -> list[Variant]:
        """Scenarios with the numbers of paths to train on, or held-out ones with the others."""
        size = self.pool if part == "train" else self.held_out
        there = distribution.load(self.distribution)
        wanted = {int(number) for number in self.counts.split(",") if number}
        if not wanted:
            return there.pool(self.seed, size, part)
        chosen: list[Variant] = []
        for index in count():
            if len(chosen) == size:
                return chosen
            if index > 100 * size:
                raise ScenarioError(
                    f"hardly a scenario of `{self.distribution}` is for {part} with counts {self.counts}"
                )
            drawn = there.sample(self.seed, index, part)
            if (paths(drawn) in wanted) == (part == "train"):
                chosen.append(there.variant(drawn))
        raise AssertionError("count() has no end")


def paths(drawn: Drawn) -> int:
    """Number of an instance's paths."""
    return len({key.split(".")[1] for key in drawn.values if key.startswith("path.")})


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy; its baselines choose by chance, and in turn."""
    prepare(args)
    curve = Curve(args.file("jsonl"))
    models, data, ranges = rounds(args, curve, progress)
    model, chosen = choose(models, data)
    test = data.batch(data.test)
    loss, accuracy = evaluate(model, test)
    vector = args.held_out_env(args.task, args.variants("held-out"))
    baselines = {"random": session.uniform_random(args.seed), "in turn": in_turn()}
    figures = {
        name: session.evaluate(vector, choose)
        for name, choose in {args.ALGORITHM: greedy(model, args.shape), **baselines}.items()
    }
    last = args.epochs * (args.rounds + 1)
    curve.add(last, kind="held-out", test_loss=loss, test_accuracy=accuracy, **figures[args.ALGORITHM])
    evaluation = (
        f"{session.sentence(figures, vector.envs, args.cc)}; as the oracle in {100 * accuracy:.1f} % of test decisions"
    )
    about = {"network": model.spec(args.shape), "chosen": chosen, "evaluation": evaluation}
    card = session.card(args, vector, **about)
    tensors = {"low": ranges[0], "high": ranges[1], **model.tensors()}
    return finish(args, card, tensors, (curve.points, figures))


def prepare(args: Args) -> None:
    """Makes the folder: a training that does not go on from there begins without what an earlier one left."""
    if args.out is None:
        return
    args.out.mkdir(parents=True, exist_ok=True)
    kept = args.out / "settings.txt"
    settings = "".join(f"{name} = {value!r}\n" for name, value in args.settings().items())
    if args.resume and kept.exists() and kept.read_text(encoding="utf-8") != settings:
        raise CheckpointError(f"{args.out} belongs to a training with other settings: name another folder")
    if not args.resume:
        for place in [*args.out.glob("round-*"), *args.out.glob("runs")]:
            shutil.rmtree(place)
    kept.write_text(settings, encoding="utf-8")


Ranges = tuple[Floats, Floats]


def choose(models: list[STSGAT], data: Dataset) -> tuple[STSGAT, str]:
    """Chooses among the rounds' best networks by loss on the last round's validation; also the card's `chosen`.

    Rounds do not share their validation samples, so that the losses on the curve cannot be compared across them.
    """
    batch = data.batch(data.validation)
    losses = [evaluate(model, batch)[0] for model in models]
    at = int(np.argmin(losses))
    return models[
        at
    ], f"the network of round {at}, loss {losses[at]:.4f} in {len(data.validation)} validation decisions"


def rounds(args: Args, curve: Curve, progress: Progress) -> tuple[list[STSGAT], Dataset, Ranges]:
    """All rounds: the best network of each, the data of the last round, and the ranges of what was seen."""
    variants = args.variants()
    model, models = STSGAT(args.shape, jax.random.key(args.seed), identity=args.identity), []
    every: Labels | None = None
    total = args.epochs * (args.rounds + 1)
    for number in range(args.rounds + 1):
        more = collected(args, variants, model if number else None, number)
        every = more if every is None else every.joined(more)
        data = dataset(every, args)
        place = None if args.out is None else args.out / f"round-{number}"
        if number == 0:
            loss, accuracy = evaluate(model, data.batch(data.validation))
            curve.add(0, round=0, validation_loss=loss, validation_accuracy=accuracy)

        def tell(point: Point, number: int = number) -> None:
            progress(number * args.epochs + point["step"], total)

        fitted = fit(model, data, args.fit, folder=place, progress=tell)
        for point in fitted.curve:
            values = {key: value for key, value in point.items() if key not in ("step", "seconds")}
            curve.add(number * args.epochs + point["step"], round=number, **values)
        model = fitted.best
        models.append(model)
    assert every is not None
    return models, data, ranges(every)


def collected(args: Args, variants: list[Variant], model: STSGAT | None, number: int) -> Labels:
    """The labels of a round, thinned out: successive decisions are much alike.

    The first round has a run of each scenario. With a `model`, which takes turns with the oracle, a run is dearer, and
    there is one of every eighth scenario, of others in each round.
    """
    with tempfile.TemporaryDirectory() as folder:
        behaviours, chosen = list(labels.BEHAVIOURS), np.arange(len(variants))
        if model is not None:
            behaviours = ["oracle", rollout(args, model, Path(folder) / "policy.safetensors")]
            chosen = chosen[number % SHARE :: SHARE]
        sampled = labels.collect(
            [variants[at] for at in chosen],
            args.controllers,
            len(chosen),
            args.seed * 1000 + number,
            behaviours,
            args.task,
            args.threads,
            args.judged,
        )
    sampled = replace(sampled, instance=chosen.astype(np.int32)[sampled.instance])
    rng = np.random.default_rng([args.seed, number])
    most = round(2 * args.steps * (1 + 2 * PARTS))
    return sampled.where(np.sort(rng.permutation(len(sampled))[:most]))


def rollout(args: Args, model: STSGAT, file: Path) -> str:
    """The scheduler that runs `model`, without a fallback: its mistakes are what is to be labelled."""
    tensors, shape = model.tensors(), args.shape
    names = shape.paths * shape.features * shape.steps + shape.packet_features * shape.steps + shape.paths
    card = dict.fromkeys(export.CARD, "-") | {
        "algorithm": args.ALGORITHM,
        "task": args.task,
        "network": model.spec(shape),
        "head": "greedy",
        "fallback": "off",
        "inputs": ",".join(f"x{at}" for at in range(names)),
    }
    export.write_policy(file, card, {"low": np.zeros(names), "high": np.ones(names), **tensors})
    return f"stsgat:policy={file}:fallback=off"


def dataset(decisions: Labels, args: Args) -> Dataset:
    """`args.steps` decisions to learn from, drawn from all there are, and fewer to choose and to report by.

    Parts go by scenario, the same in every round. Equal sizes in every round are compiled once.
    """
    rng = np.random.default_rng(args.seed)
    parts = split(decisions.instance.astype(np.int64), args.seed, args.pool)
    if not len(parts.train):
        raise SettingError(f"--steps {args.steps}: expected more, as no scenario to learn from has a labelled decision")
    sizes = (args.steps, round(args.steps * PARTS), round(args.steps * PARTS))
    kept = Split(*(rng.permutation(part)[:size] for part, size in zip(parts, sizes, strict=True)))
    return Dataset(decisions.X, decisions.c, decisions.alive, decisions.label, decisions.margin, *kept)


def ranges(decisions: Labels) -> Ranges:
    """Ranges in which each input lay, a tenth wider: the same for all paths and steps of a feature.

    The highest thousandth is left out.
    """

    def of(values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        features = np.moveaxis(values, -2, 0).reshape(values.shape[-2], -1)
        low, high = features.min(1), np.quantile(features, 0.999, axis=1)
        return low - MARGIN * (high - low) - 0.01, high + MARGIN * (high - low) + 0.01

    (x_low, x_high), (c_low, c_high) = of(decisions.X), of(decisions.c)
    slots, steps = decisions.X.shape[1], decisions.X.shape[3]

    def flat(x: NDArray[np.float32], c: NDArray[np.float32], alive: float) -> Floats:
        rows = [np.tile(np.repeat(x, steps), slots), np.repeat(c, steps), np.full(slots, alive)]
        return np.concatenate(rows).astype(np.float32)

    return flat(x_low, c_low, -0.01), flat(x_high, c_high, 1.01)


def greedy(model: STSGAT, shape: Shape) -> ChooseActions:
    """The path of largest logit among those that may be chosen."""
    run: Callable[..., Any] = eqx.filter_jit(model.__call__)

    def choose(obs: Floats, mask: np.ndarray) -> np.ndarray:
        x, c, alive = apart(obs, shape)
        z = np.asarray(run(jnp.asarray(x), jnp.asarray(c), jnp.asarray(alive)))
        best: np.ndarray = np.where(mask, z, -np.inf).argmax(1)
        return best

    return choose


def apart(obs: Floats, shape: Shape) -> tuple[Floats, Floats, Floats]:
    """Splits observations of the task `graph`, (B, inputs), into x (B, N, C, T), c (B, Cp, T) and alive (B, N)."""
    ends = np.cumsum([shape.paths * shape.features * shape.steps, shape.packet_features * shape.steps])
    x, c, alive = np.split(obs, ends, axis=1)
    each = (len(obs), -1, shape.steps)
    return x.reshape(len(obs), shape.paths, shape.features, shape.steps), c.reshape(each), alive
