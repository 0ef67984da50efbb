"""Training of a scheduler for every controller, evolved on what counts: the time that a transfer takes.

The MPQUIC comparison leaves open whether a learned scheduler can hold up under every congestion controller; its DQN
is tied to the one that it was trained under. Two things differ here. What is seen has no units and shows how the
controller behaves (`wait-or-send:state=controller`: windows and data in flight over the path's own bandwidth-delay
product, queueing, delivery and pacing rate, slow start, backlog). And what is earned is not a reward per decision,
which delayed and shared as it is says little about the one decision, but the completion time of whole transfers
against min-RTT's, the mean over instances and controllers of `ln(t_min-RTT / t)`.

Evolution strategies (Salimans et al. 2017, "Evolution Strategies as a Scalable Alternative to Reinforcement
Learning"): w ← Adam((1 - λ) w, Σ_k u_k ε_k / (2nσ)) for n mirrored pairs w ± σ ε_k, u_k the difference of their ranks
within [-0.5, 0.5]. All candidates of a generation run the same instances with the same seeds. The search begins at
"always send", which is min-RTT. Of the generations' centres the one that does best on a part of the training
instances that the gradient never sees is kept.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from weftway._native import Batch, SimulationError, Variant
from weftway.learn.train import checkpoint, session
from weftway.learn.train.curve import Curve
from weftway.learn.train.export import write_policy
from weftway.learn.train.finish import finish
from weftway.learn.train.input_ranges import InputRanges
from weftway.learn.train.limits import Count, Positive, Rate, SettingError
from weftway.learn.train.session import Progress, Trained, TrainingArgs, quiet
from weftway.runs.backends import SIM
from weftway.runs.job import Job
from weftway.runs.specs import SchedulerSpec
from weftway.sample import distribution
from weftway.stats.baselines import REFERENCE

TASK = "wait-or-send:state=controller"
SCHEDULER = "evolved"

WORST = 0.7
"""A cell counts for no more than half or double the time, so that none outweighs the others."""

FIRST_SPREAD = 0.3
"""Standard deviation of the first weights."""

BIAS = 0.2
"""Bias of sending, at first: the search begins next to min-RTT, and near enough to waiting that candidates differ."""

DECAY = 0.05
"""Share by which weights shrink in a generation: where all candidates do the same, they come to differ again."""

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Args(TrainingArgs):
    """Settings and their defaults."""

    steps: int = 60
    """Generations."""
    distribution: str = "phone"
    cc: str = "bbr1,cubic,bbr2"
    pool: int = 512
    hidden: Count = 16
    """Units of the hidden layer."""
    pairs: Count = 16
    """Mirrored pairs of candidates in a generation."""
    instances: Count = 24
    """Scenarios in a generation, drawn from the pool; each under every controller."""
    sigma: Positive = 0.5
    """Standard deviation of candidates around the centre."""
    learning_rate: Rate = 0.1
    """Learning rate of Adam."""
    trials: Count = 64
    """Validation scenarios, on which centres are compared; never trained on."""
    trial_every: Count = 5
    """Generations between two such comparisons."""
    threads: int = 2
    checkpoint_every: int = 5

    ALGORITHM: ClassVar[str] = SCHEDULER
    UNIT: ClassVar[str] = "generations"
    QUICK: ClassVar[Mapping[str, Any]] = {
        "steps": 10,
        "pool": 64,
        "trials": 16,
        "held_out": 16,
        "pairs": 6,
        "instances": 8,
    }

    def fit_together(self) -> None:
        super().fit_together()
        if (left := self.pool - self.trials) < self.instances:
            raise SettingError(
                f"--pool {self.pool}: expected at least {self.trials + self.instances}, "
                f"for --trials {self.trials} leaves {max(left, 0)} of it to --instances {self.instances}"
            )


class Cell(NamedTuple):
    """A transfer: a scenario, a controller, a seed."""

    variant: Variant
    cc: str
    seed: int


def unpacked(weights: Weights, inputs: int, hidden: int) -> dict[str, npt.NDArray[np.float32]]:
    """The tensors of a candidate: inputs to hidden units (ReLU) to the values of waiting and sending."""
    sizes = {"w1": (inputs, hidden), "b1": (hidden,), "w2": (hidden, 2), "b2": (2,)}
    tensors, at = {}, 0
    for name, shape in sizes.items():
        count = int(np.prod(shape))
        tensors[name] = weights[at : at + count].reshape(shape).astype(np.float32)
        at += count
    return tensors


def first(inputs: int, hidden: int, rng: np.random.Generator) -> Weights:
    """Weights that always send."""
    count = inputs * hidden + hidden + hidden * 2 + 2
    weights: Weights = FIRST_SPREAD * rng.standard_normal(count) / np.sqrt(inputs)
    weights[-hidden * 2 - 2 : -2] *= 0.1
    weights[-2:] = [0.0, BIAS]
    return weights


def ranked(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ranks within [-0.5, 0.5]; equals have the same, so that a plateau gives no direction."""
    ranks = ((scores[:, None] > scores).sum(1) + (scores[:, None] >= scores).sum(1) - 1) / 2
    spread: npt.NDArray[np.float64] = ranks / (len(scores) - 1) - 0.5
    return spread


class Judge:
    """Runs candidates over cells, on native threads."""

    def __init__(self, args: Args, card: Mapping[str, str], bounds: tuple[Any, Any]) -> None:
        self._args, self._card = args, card
        self._low, self._high = bounds
        self._known: dict[tuple[str, str, int], float] = {}

    def write(self, file: Path, weights: Weights) -> None:
        """The policy file of a candidate."""
        tensors = unpacked(weights, len(self._low), self._args.hidden)
        write_policy(file, self._card, {"low": self._low, "high": self._high, **tensors})

    def times(self, schedulers: Sequence[str], cells: Sequence[Cell]) -> npt.NDArray[np.float64]:
        """Seconds that every transfer takes: (schedulers, cells)."""
        jobs = [
            Job(cell.variant, SchedulerSpec(name, ""), (cell.cc, ""), SIM.name, cell.seed, "", SIM.code())
            for name in schedulers
            for cell in cells
        ]
        batch = Batch(jobs, self._args.threads)
        milliseconds: npt.NDArray[np.float64] = np.empty(len(jobs))
        while batch.remaining:
            for index, kind, text, _ in batch.wait(1.0):
                if kind != "row":
                    batch.cancel()
                    raise SimulationError(text)
                row = json.loads(text)
                milliseconds[index] = row["fct_ms"] or row["elapsed_ms"]
        times: npt.NDArray[np.float64] = milliseconds.reshape(len(schedulers), len(cells))
        return times

    def scores(self, candidates: Sequence[Weights], cells: Sequence[Cell]) -> npt.NDArray[np.float64]:
        """Gain of each candidate over min-RTT in each cell, `ln(t_min-RTT / t)`: (candidates, cells)."""
        with tempfile.TemporaryDirectory(prefix="weftway-") as folder:
            files = [Path(folder) / f"{at}.safetensors" for at in range(len(candidates))]
            for file, weights in zip(files, candidates, strict=True):
                self.write(file, weights)
            names = [REFERENCE, *(f"{SCHEDULER}:fallback=off:policy={file}" for file in files)]
            times = np.log(self.times(names, cells))
        gains: npt.NDArray[np.float64] = np.clip(times[:1] - times[1:], -WORST, WORST)
        return gains


@dataclass
class Search:
    """State of the search: its centre, Adam's moments, and the best candidate."""

    centre: Weights
    mean: Weights
    square: Weights
    best: Weights
    best_score: float = -np.inf

    def step(self, generation: int, gradient: Weights, rate: float) -> None:
        """Adam, uphill."""
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean, square = self.mean / (1 - 0.9**generation), self.square / (1 - 0.999**generation)
        self.centre = (1 - DECAY) * self.centre + rate * mean / (np.sqrt(square) + 1e-8)

    def arrays(self) -> dict[str, npt.NDArray[np.float64]]:
        """Arrays that a checkpoint keeps."""
        kept = {name: getattr(self, name) for name in ("centre", "mean", "square", "best")}
        return {**kept, "best_score": np.array(self.best_score)}


def cells(args: Args, variants: Sequence[Variant], seed: int) -> list[Cell]:
    """Each scenario under every controller."""
    return [Cell(variant, cc, seed + at) for at, variant in enumerate(variants) for cc in args.controllers]


def ranges(args: Args, variants: list[Variant]) -> tuple[Any, Any]:
    """The range of every input while waiting and sending are drawn like coins, which visits more than any policy."""
    vector = args.vector_env(TASK, variants)
    rng = np.random.default_rng(args.seed)
    seen, obs = InputRanges(vector.low, vector.high), vector.reset()
    for _ in range(2000):
        seen.add(obs)
        obs = vector.step(rng.random(vector.envs) < 0.7).obs
        vector.delayed_rewards()
    return seen.bounds()


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Evolves a policy."""
    variants = args.variants()
    trials, variants = variants[: args.trials], variants[args.trials :]
    vector = args.vector_env(TASK, variants[:1])
    card = session.card(args, vector, network="mlp:activation=relu", evaluation="none yet")
    judge = Judge(args, card, ranges(args, variants))
    rng = np.random.default_rng(args.seed)
    centre = first(vector.inputs, args.hidden, rng)
    search = Search(centre, np.zeros_like(centre), np.zeros_like(centre), centre)
    begin = resumed(args, search, rng)
    curve = Curve(args.file("jsonl"), upto=begin)
    for generation in range(begin + 1, args.steps + 1):
        figures = advance(args, judge, search, (generation, rng, variants))
        if generation % args.trial_every == 0 or generation == args.steps:
            figures["trial"] = score = float(judge.scores([search.centre], cells(args, trials, 1)).mean())
            if score > search.best_score:
                search.best, search.best_score = search.centre, score
        curve.add(step=generation, **figures)
        progress(generation, args.steps)
        if (file := args.file("checkpoint")) and generation % args.checkpoint_every == 0:
            checkpoint.save(file, generation, (), rng=rng, arrays=search.arrays(), notes=args.settings())
    return finished(args, judge, search, (card, curve))


def advance(args: Args, judge: Judge, search: Search, where: tuple[int, Any, Sequence[Variant]]) -> dict[str, float]:
    """Makes a generation and returns the gains of its candidates over min-RTT."""
    generation, rng, variants = where
    picked = [variants[at] for at in rng.choice(len(variants), args.instances, replace=False)]
    noise = rng.standard_normal((args.pairs, len(search.centre)))
    candidates = [search.centre + sign * args.sigma * direction for direction in noise for sign in (1, -1)]
    gains = judge.scores(candidates, cells(args, picked, generation * 1000)).mean(1)
    ranks = ranked(gains).reshape(args.pairs, 2)
    gradient = (ranks[:, 0] - ranks[:, 1]) @ noise / (2 * args.pairs * args.sigma)
    search.step(generation, gradient, args.learning_rate)
    return {"return": float(gains.mean()), "best": float(gains.max())}


def resumed(args: Args, search: Search, rng: np.random.Generator) -> int:
    """Goes to where the checkpoint was, if there is one and it is wanted: the generation."""
    file = args.file("checkpoint")
    kept = checkpoint.restore(file, (), rng=rng) if args.resume and file and file.exists() else None
    if kept is None:
        return 0
    if kept.notes != args.settings():
        raise ValueError(f"{file} belongs to a training with other settings")
    for name, value in kept.arrays.items():
        setattr(search, name, float(value) if name == "best_score" else value)
    return kept.step


def finished(args: Args, judge: Judge, search: Search, about: tuple[dict[str, str], Curve]) -> Trained:
    """Measures what was kept on held-out instances, and writes it."""
    card, curve = about
    held_out = distribution.load(args.distribution).pool(args.seed, args.held_out, "held-out")
    gains = judge.scores([search.best], cells(args, held_out, 1))[0].reshape(-1, len(args.controllers))
    figures = {cc: {"gain": float(column.mean())} for cc, column in zip(args.controllers, gains.T, strict=True)}
    parts = [f"{cc} {np.exp(figure['gain']):.3f}" for cc, figure in figures.items()]
    card["evaluation"] = f"speed over min-RTT's on {args.held_out} held-out instances: {', '.join(parts)}"
    curve.add(step=args.steps, kind="held-out", **{"return": float(gains.mean())})
    tensors = {"low": judge._low, "high": judge._high, **unpacked(search.best, len(judge._low), args.hidden)}
    return finish(args, card, tensors, (curve.points, figures))
