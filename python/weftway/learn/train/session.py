"""Parts that every training has: its settings, its results, and the card of its policy."""

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from weftway._native import CODE, ScenarioError, Variant, controller
from weftway.learn.train import export, limits
from weftway.learn.train.curve import Point
from weftway.learn.train.limits import Count, Names, Seed, SettingError
from weftway.sample import distribution
from weftway.vector import Floats, VectorEnv

Progress = Callable[[int, int], None]
"""Is told how many of how many are done: what is counted is the `UNIT` of the settings."""

GIVEN = "_given"
"""Attribute that keeps the names of the given settings until they are made."""

UNRELATED = ("out", "resume", "threads", "checkpoint_every")
"""Settings that change nothing about the policy."""


def quiet(done: int, total: int) -> None:
    """A progress that nobody sees."""


@dataclass(frozen=True, kw_only=True)
class TrainingArgs:
    """Settings that all trainers share."""

    steps: Count = 100_000
    """Decisions to make, over all environments together."""
    seed: Seed = 1
    """Seed of all random draws: scenarios, first weights, exploration, batches."""
    distribution: str
    """Distribution of scenarios to train on: the name of one of ours, or a file."""
    pool: Count = 256
    """Number of scenarios drawn from it."""
    cc: Names
    """Congestion controllers, separated by commas; each episode has one of them."""
    envs: Count = 16
    """Simulations side by side."""
    threads: Count = 1
    """Threads that run the simulations; the policy does not depend on it."""
    held_out: Count = 32
    """Held-out episodes for the curve's last point."""
    cautious: bool = False
    """Finds the margin by which a choice must lead, so that the policy seldom loses to min-RTT."""
    quick: bool = False
    """A short training, to see that everything works. Does not change options that you give."""
    out: Path | None = None
    """Folder for the policy, the learning curve and checkpoints."""
    resume: bool = False
    """Resumes from the checkpoint in the folder, if there is one. The policy is that of an uninterrupted training."""
    checkpoint_every: Count = 50_000
    """Decisions between two checkpoints."""

    ALGORITHM: ClassVar[str]
    UNIT: ClassVar[str] = "decisions"
    """Unit in which a training tells its `Progress` how far it is."""
    PRESETS: ClassVar[tuple[str, ...]] = ("quick",)
    """Settings that set others, to the values under their names in capitals; of two, the later one has its way."""
    QUICK: ClassVar[Mapping[str, Any]] = {}

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Notes what is given: no preset changes it."""
        made = super().__new__(cls)
        vars(made)[GIVEN] = frozenset(given)
        return made

    def __post_init__(self) -> None:
        """Does what the presets say, which are then off: the card names the settings themselves. Then checks all."""
        given = vars(self).pop(GIVEN, frozenset())
        for preset in self.PRESETS:
            if getattr(self, preset):
                values = {**getattr(self, preset.upper()), preset: False}
                vars(self).update({name: value for name, value in values.items() if name not in given - {preset}})
        limits.check(self)
        self.fit_together()

    def fit_together(self) -> None:
        """Raises a `SettingError` for what only the registries know, and for settings that do not go together."""
        for name in self.controllers:
            try:
                controller(name)
            except ScenarioError as error:
                raise SettingError(f"--cc {self.cc}: {error}; `weft list` has those that there are") from None

    @property
    def controllers(self) -> list[str]:
        """The names in `cc`."""
        return [name.strip() for name in self.cc.split(",")]

    def command(self) -> str:
        """The command that trains the same policy."""
        return shlex.join(["weft", "train", self.ALGORITHM, *limits.options(self, UNRELATED)])

    def settings(self) -> dict[str, Any]:
        """Settings that a checkpoint belongs to."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in UNRELATED}

    def file(self, ending: str) -> Path | None:
        """A file of the folder."""
        return None if self.out is None else self.out / f"{self.ALGORITHM}.{ending}"

    def variants(self) -> list[Variant]:
        """The scenarios to train on."""
        return distribution.load(self.distribution).pool(self.seed, self.pool)

    def vector_env(self, task: str, variants: list[Variant] | None = None) -> VectorEnv:
        """The simulations to train in."""
        return VectorEnv(task, variants or self.variants(), self.controllers, self.envs, self.seed, self.threads)

    def held_out_env(self, task: str, variants: list[Variant] | None = None) -> VectorEnv:
        """Simulations that no training sees, an environment for each episode."""
        scenarios = variants or distribution.load(self.distribution).pool(self.seed, self.held_out, "held-out")
        return VectorEnv(task, scenarios, self.controllers, self.held_out, self.seed, self.threads)


@dataclass(frozen=True)
class Trained:
    """Results of a training."""

    policy: export.Policy
    """The card and the tensors."""
    curve: list[Point]
    held_out: dict[str, dict[str, float]]
    """Figures of the policy and of its baselines over the same held-out episodes."""
    file: Path | None
    """The policy's file, if a folder was named."""


def card(args: TrainingArgs, vector: VectorEnv, **about: str) -> dict[str, str]:
    """The card of a policy: what follows from the settings, and the algorithm's own in `about`."""
    there = distribution.load(args.distribution)
    return {
        "algorithm": args.ALGORITHM,
        "task": vector.task,
        "head": "greedy",
        "inputs": ",".join(vector.names),
        "fallback": "min-rtt",
        "trained_on": f"{there.name}: {there.title}; {args.pool} instances of seed {args.seed}",
        "cc": ",".join(args.controllers),
        "seed": str(args.seed),
        "steps": str(args.steps),
        "code": CODE,
        "command": args.command(),
        **about,
    }


ChooseActions = Callable[[Floats, np.ndarray], np.ndarray]
"""Observations and action masks to actions; a row per environment."""


def constant(choice: int) -> ChooseActions:
    """Always the same choice."""
    return lambda obs, mask: np.full(len(obs), choice)


def uniform_random(seed: int) -> ChooseActions:
    """Any choice that may be taken, equally likely."""
    rng = np.random.default_rng(seed)
    return lambda obs, mask: np.where(mask, rng.random(mask.shape), -1.0).argmax(1)


LEAST_MBPS = 1e-3
"""Goodput that stands for none, which has no logarithm."""


def evaluate(vector: VectorEnv, choose: ChooseActions) -> dict[str, float]:
    """Means over the first episode of every environment. Whoever acts, the environments have the same episodes."""
    first_episodes: dict[int, dict[str, Any]] = {}
    obs = vector.reset()
    vector.episodes()
    while len(first_episodes) < vector.envs:
        obs = vector.step(choose(obs, vector.action_masks())).obs
        for episode in vector.episodes():
            first_episodes.setdefault(episode["env"], episode)
    vector.delayed_rewards()
    rows = [first_episodes[env] for env in range(vector.envs)]
    decisions = sum(row["steps"] for row in rows)
    return {
        "return": float(np.mean([row["return"] for row in rows])),
        "reward": sum(row["return"] for row in rows) / decisions,
        "goodput": float(np.mean([row["goodput_mbps"] or 0.0 for row in rows])),
        "speed": float(np.exp(np.mean([np.log(max(row["goodput_mbps"] or 0.0, LEAST_MBPS)) for row in rows]))),
        "fct": float(np.mean([row["fct_ms"] or row["elapsed_ms"] for row in rows])),
        "decisions": decisions / len(rows),
    }


TRIALS = 6
"""Measurements of a training for its curve, besides before its first step and after its last."""


def validation_variants(args: TrainingArgs, scenarios: int) -> list[Variant]:
    """Scenarios of the next seed: a training has none of them."""
    return distribution.load(args.distribution).pool(args.seed + 1, scenarios)


class ValidationSet:
    """Scenarios of the training's distribution that no gradient sees, nor the evaluation: checkpoints are chosen here.

    They are the same each time, with the same seeds. Rewards met while learning depend on which scenarios are under
    way and on exploration; these do not. What is measured is speed, the geometric mean of the goodputs: what a
    decision earns depends on how many there are.
    """

    def __init__(self, args: TrainingArgs, task: str, scenarios: int, variants: list[Variant] | None = None) -> None:
        """Takes so many scenarios of the next seed, or `variants`."""
        variants = variants or validation_variants(args, scenarios)
        self._vector = VectorEnv(task, variants, args.controllers, len(variants), args.seed + 1, args.threads)

    def speed(self, choose: ChooseActions) -> float:
        """Mbit/s, as of `evaluate`."""
        return round(evaluate(self._vector, choose)["speed"], 6)


N = TypeVar("N")


@dataclass
class Best(Generic[N]):
    """The checkpoint that is exported: the fastest on the validation scenarios; of equals, the first."""

    network: N
    speed: float = -math.inf
    step: int = 0
    """Decisions before the checkpoint."""
    head: str = "greedy"
    """Use of its outputs."""

    def offer(self, network: N, measured: tuple[float, int, str]) -> None:
        """Another checkpoint: its speed, its step, its head."""
        if measured[0] > self.speed:
            self.network, (self.speed, self.step, self.head) = network, measured

    @property
    def notes(self) -> tuple[float, int, str]:
        """All but the network."""
        return self.speed, self.step, self.head

    def words(self, scenarios: int) -> str:
        """The card's `chosen`."""
        return f"the policy after {self.step} decisions, {self.speed:.2f} Mbit/s on {scenarios} validation scenarios"


def sentence(figures: Mapping[str, Mapping[str, float]], episodes: int, controllers: str) -> str:
    """The card's `evaluation`."""
    parts = [
        f"{name} {measured['goodput']:.2f} Mbit/s, {measured['reward']:.3f} a decision"
        for name, measured in figures.items()
    ]
    return f"{episodes} held-out episodes under {controllers}: {'; '.join(parts)}"
