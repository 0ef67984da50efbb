"""FALCON: a meta-model for each kind of network, and a detector that says when the kind has changed.

Off line: scenarios fall into twelve groups by the ratio of the bandwidths of the slower and the faster path (below
1/3, about 1, above 3), the larger loss (below 0.5 %, or not) and the ratio of the round-trip times (below 2, or not).
A group's meta-model is trained by Reptile: visit a scenario of the group, make a few steps of Adam from the
meta-model's weights on what the scenario has shown so far, and move the meta-model a tenth of the way there. The
values that the inner steps are drawn to are those of the meta-model as it was when they began.
On line, the scheduler `falcon` (crates/sched/src/learned/falcon) watches for a change, copies the meta-model of the
group that it finds itself in, and adapts it with at most ten steps on the newest 256 transitions.
The policy holds a model per group: `g0.w1`, `g0.b1`, …; its card's `groups` says which group each is. A group that the
distribution never draws has the model of the one with the nearest number. Groups whose model loses to min-RTT over the
training's own scenarios are listed under `fallback_groups`: there min-RTT decides.

Reference: FALCON (Wu et al., 2022), of which the abstract says meta-models, grouping and adaptation; MPQUIC
comparison, section 3.2.5 and Table 1, for inputs, actions and reward. Every number is ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import numpy as np

from weftway._native import ScenarioError, Variant
from weftway.learn.train import checkpoint, session
from weftway.learn.train.curve import Curve
from weftway.learn.train.dqn import (
    POINTS,
    Collector,
    EpsilonGreedy,
    Hyperparameters,
    QLearningArgs,
    Stats,
    TrainState,
    greedy,
    q_values,
    updater,
)
from weftway.learn.train.finish import finish
from weftway.learn.train.input_ranges import InputRanges
from weftway.learn.train.limits import Count, OneOf, Rate, SettingError, Share
from weftway.learn.train.networks import MLP
from weftway.learn.train.session import Best, Progress, Trained, ValidationSet, quiet
from weftway.sample import distribution
from weftway.sample.distribution import Drawn
from weftway.sample.quantities import quantity, share
from weftway.vector import VectorEnv

GROUPS = 12
RATES, LOSSES, TIMES = ("rate<1/3", "rate~1", "rate>3"), ("loss<0.5%", "loss>=0.5%"), ("rtt<2", "rtt>=2")


@dataclass(frozen=True, kw_only=True)
class Args(QLearningArgs):
    """Settings and their defaults."""

    steps: int = 460_800
    """Decisions to make: 300 visits to each of twelve groups, of `visit` decisions each."""
    distribution: str = "mpquic-pair"
    cc: str = "bbr1,cubic,bbr2"
    envs: int = 4
    memory: int = 2_048
    """Capacity of each scenario's replay buffer, in transitions."""
    visit: Count = 128
    """Decisions per visit to a scenario."""
    inner: Count = 8
    """Steps of Adam in a visit, at `learning_rate`."""
    outer: Rate = 0.1
    """Step of the meta-model towards the result of the inner steps."""
    kinds: Count = 8
    """Scenarios in each group, at most."""
    eps_last: Share = 0.05
    """Epsilon, the probability of a random action, in the second half of the training; it falls from 1 in the first."""

    reward: Annotated[str, OneOf("bytes", "delivery")] = "bytes"
    """Reward: `bytes`, as published, or `delivery` (throughput less round-trip time)."""

    ALGORITHM: ClassVar[str] = "falcon"
    QUICK: ClassVar[Mapping[str, Any]] = {"steps": 61_440, "pool": 128, "kinds": 4, "trials": 24, "held_out": 16}

    @property
    def per_group(self) -> int:
        """Validation scenarios of a group, at most."""
        return max(1, self.trials // GROUPS)

    def fit_together(self) -> None:
        super().fit_together()
        if self.visit < self.envs:
            raise SettingError(f"--visit {self.visit}: expected at least --envs {self.envs}, a decision of each")
        if self.memory < self.batch:
            raise SettingError(
                f"--memory {self.memory}: expected at least --batch {self.batch}, what a step is made on"
            )
        if self.gamma == 1:
            raise SettingError("--gamma 1: expected a number from 0 to below 1, as the scheduler learns on with it")
        if self.cautious:
            raise SettingError("--cautious: not for `falcon`, which has no margin but `fallback_groups`")


def task(args: Args) -> str:
    """The task these settings mean."""
    return f"wait-or-send:state=credit:reward={args.reward}"


def group(fast: tuple[float, float], slow: tuple[float, float], loss: float) -> int:
    """The number of a group, from (bandwidth, round-trip time) of either path and the larger loss, a fraction."""
    rate, time = slow[0] / fast[0], slow[1] / fast[1]
    return 4 * int((rate >= 1 / 3) + (rate > 3)) + 2 * int(loss >= 0.005) + int(time >= 2)


def label(number: int) -> str:
    """Name of a group in words: rate, loss and round-trip time."""
    return f"{RATES[number // 4]} {LOSSES[number // 2 % 2]} {TIMES[number % 2]}"


def group_of(drawn: Drawn) -> int:
    """The group of a drawn scenario of two paths."""
    names = {key.split(".")[1] for key in drawn.values if key.startswith("path.")}
    own = [[drawn.values.get(f"path.{name}.{key}") for key in ("rate", "delay", "loss")] for name in names]
    if len(own) != 2 or any(rate is None or delay is None for rate, delay, _ in own):
        raise ScenarioError(
            f"{drawn.id}: expected two paths, each with a `rate` and a `delay`, for its group to follow"
        )
    of = [(float(quantity(rate, "rate", "rate")), float(quantity(delay, "time", "delay"))) for rate, delay, _ in own]
    fast, slow = sorted(of, key=lambda path: path[1])
    return group(fast, slow, max(share("0 %" if loss is None else loss, "loss") for *_, loss in own))


def grouped(args: Args, seed: int, most: int, split: str = "train") -> dict[int, list[Variant]]:
    """The scenarios of each group that the pool of this seed has, the first `most` of them."""
    there = distribution.load(args.distribution)
    groups: dict[int, list[Variant]] = {}
    for index in range(args.pool):
        drawn = there.sample(seed, index, split)
        members = groups.setdefault(group_of(drawn), [])
        if len(members) < most:
            members.append(there.variant(drawn))
    return dict(sorted(groups.items()))


class Meta(NamedTuple):
    """A group's meta-model, and a collector for each of its scenarios."""

    number: int
    network: MLP
    collectors: list[Collector]
    best: Best[MLP]
    """Best network so far, which is exported."""


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a meta-model for each group, in turns."""
    rng = np.random.default_rng(args.seed)
    members, held_out = (grouped(args, args.seed, args.kinds, split) for split in distribution.SPLITS)
    if not members.keys() & held_out.keys():
        raise SettingError(f"--pool {args.pool}: expected more, as no group has both training and held-out scenarios")
    metas = [_begun(args, at, variants) for at, variants in members.items()]
    turns, first = max(1, args.steps // (GROUPS * args.visit)), 0
    if resumed := _resumed(args, metas, rng):
        metas, first = resumed
    curve, stats = Curve(args.file("jsonl"), first * len(metas) * args.visit), Stats()
    between = max(1, turns // POINTS)
    tried_every, validation = max(1, POINTS // session.TRIALS) * between, GroupValidation(args)
    if first == 0:
        curve.add(0, kind="chance", trial=validation.chance())
    kept_every = max(1, args.checkpoint_every // (between * GROUPS * args.visit)) * between
    for turn in range(first, turns):
        epsilon = EpsilonGreedy(1.0, args.eps_last, turns / 2).at(turn)
        metas = [visited(args, meta, epsilon, (rng, stats)) for meta in metas]
        done = (turn + 1) * len(metas) * args.visit
        is_last = turn + 1 == turns
        if (turn + 1) % between == 0 or is_last:
            more = {"trial": validation.measure(metas, done)} if (turn + 1) % tried_every == 0 or is_last else {}
            curve.add(done, **stats.take(), **more, eps=round(epsilon, 4))
            progress(min(done, args.steps), args.steps)
        if (turn + 1) % kept_every == 0 and not is_last:
            _keep(args, metas, rng, turn + 1)
    return _concluded(args, [meta._replace(network=meta.best.network) for meta in metas], held_out, curve)


class GroupValidation:
    """Validation by group: each has a few scenarios that no model is trained on."""

    def __init__(self, args: Args) -> None:
        self._seed = args.seed
        members = grouped(args, args.seed + 1, args.per_group)
        self._validations = {
            at: ValidationSet(args, task(args), len(variants), variants) for at, variants in members.items()
        }

    def chance(self) -> float | None:
        """The geometric mean of the groups' speeds where chance decides."""
        return _mean(
            [validation.speed(session.uniform_random(self._seed)) for validation in self._validations.values()]
        )

    def measure(self, metas: list[Meta], step: int) -> float | None:
        """Measures the models' speed, each of which may be the best of its group so far.

        A group without scenarios here has the last model.
        """
        speeds = []
        for meta in metas:
            if validation := self._validations.get(meta.number):
                speeds.append(validation.speed(greedy(meta.network)))
                meta.best.offer(meta.network, (speeds[-1], step, "greedy"))
            else:
                meta.best.network, meta.best.step = meta.network, step
        return _mean(speeds)


def _mean(speeds: list[float]) -> float | None:
    """Geometric mean; none where a small pool has no group in common with the training's."""
    return round(float(np.exp(np.mean(np.log(speeds)))), 6) if speeds else None


def _begun(args: Args, at: int, members: list[Variant]) -> Meta:
    collectors = [Collector(args.vector_env(task(args), [member]), args.memory) for member in members]
    sizes = [collectors[0].env.inputs, *args.widths, collectors[0].env.choices]
    network = MLP(sizes, jax.random.key(args.seed))
    return Meta(at, network, collectors, Best(network))


def visited(args: Args, meta: Meta, epsilon: float, rest: tuple[np.random.Generator, Stats]) -> Meta:
    """The meta-model after a visit to one of its scenarios."""
    rng, stats = rest
    collector = meta.collectors[int(rng.integers(len(meta.collectors)))]
    explore = EpsilonGreedy(epsilon, epsilon, 1)
    for _ in range(args.visit // args.envs):
        q = np.asarray(q_values(meta.network, collector.obs))
        _, rewards = collector.step(explore.choose(q, collector.mask, epsilon, rng))
        stats.add(collector.env.episodes(), rewards, [])
    if len(collector.buffer) < args.batch:
        return meta
    inner, losses = adapted(args, meta.network, collector, rng)
    stats.add([], np.zeros(0, np.float32), [losses])
    network = jax.tree.map(lambda old, new: old + args.outer * (new - old), meta.network, inner)
    return meta._replace(network=network)


def adapted(args: Args, network: MLP, collector: Collector, rng: np.random.Generator) -> tuple[MLP, jax.Array]:
    """Adapts a network by `inner` steps of Adam to what a scenario has shown."""
    # The target is copied every so many updates: never, within a visit.
    hyper = Hyperparameters.of(args)._replace(target_every=args.inner + 1)
    state = TrainState(network, network, hyper.optimiser().init(network), jax.numpy.zeros((), jax.numpy.int32))
    state, losses = updater(hyper)(state, collector.buffer.sample(rng, args.inner, args.batch))
    return state.network, losses


def _keep(args: Args, metas: list[Meta], rng: np.random.Generator, turn: int) -> None:
    if file := args.file("checkpoint"):
        taken = {
            f"{meta.number}.{k}": collector.actions for meta in metas for k, collector in enumerate(meta.collectors)
        }
        networks = [(meta.network, meta.best.network) for meta in metas]
        notes = {"settings": args.settings(), "best": [meta.best.notes for meta in metas]}
        checkpoint.save(file, turn, networks, rng=rng, arrays=taken, notes=notes)


def _resumed(args: Args, metas: list[Meta], rng: np.random.Generator) -> tuple[list[Meta], int] | None:
    file = args.file("checkpoint")
    like = [(meta.network, meta.network) for meta in metas]
    kept = checkpoint.restore(file, like, rng=rng) if args.resume and file else None
    if kept is None:
        return None
    if kept.notes["settings"] != args.settings():
        raise checkpoint.CheckpointError(f"{file} was written under other settings: remove it, or name another folder")
    for meta in metas:
        for k, collector in enumerate(meta.collectors):
            collector.replay(kept.arrays[f"{meta.number}.{k}"])
    rows = zip(metas, kept.tree, kept.notes["best"], strict=True)
    return [meta._replace(network=now, best=Best(best, *notes)) for meta, (now, best), notes in rows], kept.step


def _concluded(args: Args, metas: list[Meta], held_out: Mapping[int, list[Variant]], curve: Curve) -> Trained:
    """The policy, once every meta-model is evaluated, as it is, over held-out scenarios of its group."""
    rows: dict[str, list[dict[str, float]]] = {"falcon": [], "random": [], "min-rtt": [], "wait": []}
    vector = metas[0].collectors[0].env
    for meta in metas:
        if meta.number in held_out:
            vector = args.held_out_env(task(args), held_out[meta.number])
            choices = greedy(meta.network), session.uniform_random(args.seed), session.constant(1), session.constant(0)
            for name, choose in zip(rows, choices, strict=True):
                rows[name].append(session.evaluate(vector, choose))
    figures = {
        name: {key: float(np.mean([row[key] for row in measured])) for key in measured[0]}
        for name, measured in rows.items()
    }
    curve.add(
        max(args.steps, *(point["step"] for point in curve.points)), kind="held-out", eps=0.0, **figures["falcon"]
    )
    evaluation = session.sentence(figures, args.held_out * len(rows["falcon"]), args.cc)
    chosen = ", ".join(f"g{meta.number} after {meta.best.step}" for meta in metas)
    about = {
        "groups": ",".join(f"g{meta.number}={label(meta.number)}" for meta in metas),
        "fallback_groups": ",".join(map(str, fallback_groups(args, metas))),
        "gamma": f"{args.gamma:g}",
        "chosen": f"of each group the fastest checkpoint on up to {args.per_group} validation scenarios: {chosen}",
    }
    card = session.card(args, vector, network=f"falcon:groups={GROUPS}", evaluation=evaluation, **about)
    return finish(args, card, _tensors(metas, vector), (curve.points, figures))


def fallback_groups(args: Args, metas: list[Meta]) -> list[int]:
    """The groups whose model takes longer than min-RTT over scenarios of the training: there the fallback decides."""
    members, slower = grouped(args, args.seed, args.kinds), []
    for meta in metas:
        vector = args.held_out_env(task(args), members[meta.number])
        ours, others = (session.evaluate(vector, choose) for choose in (greedy(meta.network), session.constant(1)))
        if ours["fct"] >= others["fct"]:
            slower.append(meta.number)
    missing = set(range(GROUPS)) - {meta.number for meta in metas}
    return sorted([*slower, *missing])


def _tensors(metas: list[Meta], vector: VectorEnv) -> dict[str, Any]:
    ranges = InputRanges(vector.low, vector.high)
    for collector in (collector for meta in metas for collector in meta.collectors):
        ranges.merge(collector.ranges)
    nearest = {at: min(metas, key=lambda meta: abs(meta.number - at)) for at in range(GROUPS)}
    named = {f"g{at}.{key}": tensor for at, meta in nearest.items() for key, tensor in meta.network.tensors().items()}
    low, high = ranges.bounds()
    return {"low": low, "high": high, **named}
