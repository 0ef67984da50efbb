"""Deep Q-learning as all value-based trainers here do it: replay, a target network, one loss.

`Q(s, a)` is drawn to `r + γ·max Q'(s', ·)` over the choices open in s', Q' being the target network; to r alone where
the episode ended. One update is owed per transition that became complete (`updates` of them, where an algorithm
says so); they are made `TOGETHER` at a time in one compiled loop, so that a debt of fewer waits for the next step.
The loop of `learn` is the same for all; what differs is in the settings (`Learner`), the task and the exploration.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from jax import Array

from weftway.train import checkpoint, session
from weftway.train.curve import Curve
from weftway.train.limits import Count, CountOrNone, OneOf, Rate, Share, Weight, Widths
from weftway.train.networks import MLP
from weftway.train.replay import Memory, Practice, Transitions
from weftway.train.session import Best, Choose, Progress, Session, Trained, Validation, quiet
from weftway.vector import Flags, Floats, Numbers

TOGETHER = 16
"""Updates in one compiled loop."""

POINTS = 40
"""Of a learning curve, about."""


@dataclass(frozen=True, kw_only=True)
class Learner(Session):
    """Settings of a Q-learner."""

    network: Widths = "64-64"
    """Widths of the hidden layers, all ReLU."""
    gamma: Share = 0.9
    """What a reward one decision later is worth."""
    learning_rate: Rate = 1e-3
    """Of Adam."""
    loss: Annotated[str, OneOf("huber", "mse")] = "huber"
    """`huber` (linear beyond 1) or `mse`."""
    clip: Weight = 10.0
    """Largest norm of a gradient; 0 clips nothing."""
    batch: Count = 32
    """Transitions in an update."""
    memory: Count = 10_000
    """Transitions that are kept."""
    warm_up: CountOrNone = 200
    """Transitions before the first update."""
    updates: Count = 1
    """Updates per transition."""
    target_every: CountOrNone = 100
    """Updates from one copy of the target network to the next; 0 moves it a little with each."""
    target_rate: Rate = 1e-4
    """How far the target network moves with each update where it is not copied."""
    trials: Count = 64
    """Scenarios on which checkpoints are compared, never used for a step."""

    @property
    def widths(self) -> list[int]:
        """The hidden layers."""
        return [int(width) for width in self.network.split("-")]


class Rule(NamedTuple):
    """What an update depends on."""

    gamma: float
    learning_rate: float
    loss: str
    clip: float
    target_every: int
    target_rate: float

    @classmethod
    def of(cls, args: Learner) -> "Rule":
        """The settings' part."""
        return cls(*(getattr(args, name) for name in cls._fields))

    def optimiser(self) -> optax.GradientTransformation:
        """Adam, behind a clip if there is one."""
        adam = optax.adam(self.learning_rate)
        return optax.chain(optax.clip_by_global_norm(self.clip), adam) if self.clip else adam


class Learned(NamedTuple):
    """The state of a learner."""

    network: MLP
    target: MLP
    optimiser: Any
    updates: Array


def begin(rule: Rule, sizes: list[int], key: Array) -> Learned:
    """First weights; the target network begins as a copy."""
    network = MLP(sizes, key)
    return Learned(network, network, rule.optimiser().init(network), jnp.zeros((), jnp.int32))


@lru_cache
def updater(rule: Rule) -> Callable[[Learned, Transitions], tuple[Learned, Array]]:
    """Makes as many updates as there are batches (batches, size, …): the new state, and the loss of each."""
    optimiser = rule.optimiser()

    def update(state: Learned, rows: Transitions) -> tuple[Learned, Array]:
        wanted = targets(rule.gamma, state.target, rows)
        loss, gradient = jax.value_and_grad(partial(error, rule.loss))(state.network, rows, wanted)
        change, inner = optimiser.update(gradient, state.optimiser)
        network = optax.apply_updates(state.network, change)
        count = state.updates + 1
        return Learned(network, moved(rule, state.target, network, count), inner, count), loss

    return jax.jit(lambda state, rows: jax.lax.scan(update, state, rows))


def targets(gamma: float, target: MLP, rows: Transitions) -> Array:
    """What each transition's value is drawn to."""
    best = jnp.where(rows.open, target(jnp.asarray(rows.following)), -jnp.inf).max(-1)
    return jnp.where(rows.ended, rows.reward, rows.reward + gamma * best)


def error(loss: str, network: MLP, rows: Transitions, wanted: Array) -> Array:
    """The mean loss of a batch."""
    value = jnp.take_along_axis(network(jnp.asarray(rows.seen)), rows.action[:, None], -1)[:, 0]
    each = optax.huber_loss(value, wanted) if loss == "huber" else jnp.square(value - wanted)
    return each.mean()


def moved(rule: Rule, target: MLP, network: MLP, count: Array) -> MLP:
    """The target network after `count` updates."""
    if rule.target_every:
        is_due = count % rule.target_every == 0
        return jax.tree.map(lambda old, new: jnp.where(is_due, new, old), target, network)  # type: ignore[no-any-return]
    return jax.tree.map(lambda old, new: old + rule.target_rate * (new - old), target, network)  # type: ignore[no-any-return]


@jax.jit
def values(network: MLP, seen: Array) -> Array:
    """Q of every choice."""
    return network(seen)


def greedy(network: MLP) -> Choose:
    """The open choice of largest value."""
    return lambda seen, open_: np.where(open_, np.asarray(values(network, seen)), -np.inf).argmax(1)


@dataclass(frozen=True)
class Schedule:
    """A number that goes down in a line over so many decisions, and stays."""

    first: float
    last: float
    over: float

    def at(self, decisions: int) -> float:
        """After so many decisions."""
        return self.first + (self.last - self.first) * min(decisions / max(self.over, 1), 1.0)


class Epsilon(Schedule):
    """Any open choice with this probability, else the best."""

    def choose(self, q: Floats, open_: Flags, much: float, rng: np.random.Generator) -> Numbers:
        """Actions; the generator moves alike whatever is chosen."""
        tossed, any_ = rng.random(len(q)), np.where(open_, rng.random(q.shape), -1.0).argmax(1)
        chosen: Numbers = np.where(tossed < much, any_, np.where(open_, q, -np.inf).argmax(1))
        return chosen


class Boltzmann(Schedule):
    """A choice with probability proportional to exp(Q/T), T this temperature."""

    def choose(self, q: Floats, open_: Flags, much: float, rng: np.random.Generator) -> Numbers:
        """Actions, by adding Gumbel noise to Q/T."""
        chosen: Numbers = np.where(open_, q / much + rng.gumbel(size=q.shape), -np.inf).argmax(1)
        return chosen


@dataclass(frozen=True)
class Course:
    """What an algorithm learns, and how it explores."""

    task: str
    explore: Epsilon | Boltzmann
    rivals: Mapping[str, int] = field(default_factory=dict)
    """Constant choices to evaluate beside the policy, by the name of the scheduler that each is."""


class Debt:
    """Updates that are owed."""

    def __init__(self, args: Learner, owed: int = 0) -> None:
        self.owed = owed
        self._args = args
        self._update = updater(Rule.of(args))

    def pay(
        self, state: Learned, memory: Memory, complete: int, rng: np.random.Generator
    ) -> tuple[Learned, list[Array]]:
        """Makes the updates that so many complete transitions bring, as far as they fill a loop."""
        if memory.added >= max(self._args.warm_up, self._args.batch):
            self.owed += complete * self._args.updates
        losses = []
        while self.owed >= TOGETHER:
            state, loss = self._update(state, memory.draw(rng, TOGETHER, self._args.batch))
            self.owed -= TOGETHER
            losses.append(loss)
        return state, losses


def average(values: Sequence[float] | npt.NDArray[Any]) -> float | None:
    """The mean, to six places; none of nothing."""
    return round(float(np.mean(values)), 6) if len(values) else None


class Tally:
    """What has been seen since the curve's last point."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._returns: list[float] = []
        self._goodputs: list[float] = []
        self._rewards: list[Floats] = []
        self._losses: list[Array] = []

    def note(self, episodes: list[dict[str, Any]], rewards: Floats, losses: list[Array]) -> None:
        """One step of every place."""
        self._returns += [episode["return"] for episode in episodes]
        self._goodputs += [episode["goodput_mbps"] for episode in episodes if episode["goodput_mbps"] is not None]
        self._rewards.append(rewards)
        self._losses += losses

    def values(self) -> dict[str, float | None]:
        """The point's figures; none where nothing was seen."""
        rewards = np.concatenate([np.zeros(0, np.float32), *self._rewards])
        losses = np.concatenate([np.zeros(0, np.float32), *map(np.asarray, self._losses)])
        found = {
            "return": average(self._returns),
            "goodput": average(self._goodputs),
            "reward": average(rewards),
            "loss": average(losses),
        }
        self._clear()
        return found


def learn(args: Learner, course: Course, progress: Progress = quiet) -> Trained:
    """Trains, chooses the checkpoint that did best, evaluates it over held-out episodes, and exports it."""
    rng = np.random.default_rng(args.seed)
    practice = Practice(args.vector(course.task), args.memory)
    sizes = [practice.vector.inputs, *args.widths, practice.vector.choices]
    state = begin(Rule.of(args), sizes, jax.random.key(args.seed))
    state, best, debt = resumed(args, practice, state, rng)
    curve = Curve(args.file("jsonl"), practice.steps * args.envs)
    tally = Tally()
    rounds, between = -(-args.steps // args.envs), max(1, args.steps // args.envs // POINTS)
    validation, tried_every = Validation(args, course.task, args.trials), max(1, POINTS // session.TRIALS) * between
    if practice.steps == 0:
        # Before it has learned anything, chance decides; what untrained weights prefer is an accident of the seed.
        curve.add(0, kind="chance", trial=validation.speed(session.anything(args.seed)))
    kept_every = max(1, args.checkpoint_every // (between * args.envs)) * between
    while practice.steps < rounds:
        much = course.explore.at(practice.steps * args.envs)
        q = np.asarray(values(state.network, practice.seen))
        complete, rewards = practice.step(course.explore.choose(q, practice.open, much, rng))
        state, losses = debt.pay(state, practice.memory, complete, rng)
        tally.note(practice.vector.episodes(), rewards, losses)
        is_last = practice.steps == rounds
        if practice.steps % between == 0 or is_last:
            done, more = practice.steps * args.envs, {}
            if practice.steps % tried_every == 0 or is_last:
                more["trial"] = speed = validation.speed(greedy(state.network))
                best.meet(state.network, (speed, done, "greedy"))
            curve.add(done, **tally.values(), **more, eps=round(much, 4))
            progress(min(done, args.steps), args.steps)
        if practice.steps % kept_every == 0 and not is_last:
            keep(args, practice, (state, best), (rng, debt))
    return concluded(args, course, practice, (best, curve))


def concluded(args: Learner, course: Course, practice: Practice, learned: tuple[Best[MLP], Curve]) -> Trained:
    """The policy, once it is evaluated over held-out episodes."""
    best, curve = learned
    network, vector = best.network, args.held_out_vector(course.task)
    candidates = {args.ALGORITHM: greedy(network), "random": session.anything(args.seed)}
    candidates |= {name: session.constant(choice) for name, choice in course.rivals.items()}
    figures = {name: session.trial(vector, choose) for name, choose in candidates.items()}
    curve.add(practice.steps * args.envs, kind="held-out", eps=0.0, **figures[args.ALGORITHM])
    low, high = practice.ranges.bounds()
    said = session.sentence(figures, vector.envs, args.cc)
    about = {"network": network.spec(), "chosen": best.words(args.trials), "evaluation": said}
    card = session.card(args, vector, **about)
    return session.finish(args, card, {"low": low, "high": high, **network.tensors()}, (curve.points, figures))


def keep(
    args: Learner, practice: Practice, learned: tuple[Learned, Best[MLP]], rest: tuple[np.random.Generator, Debt]
) -> None:
    """Writes a checkpoint, if there is a folder."""
    (state, best), (rng, debt) = learned, rest
    if file := args.file("checkpoint"):
        notes = {"settings": args.settings(), "owed": debt.owed, "best": best.notes}
        tree = (state, best.network)
        checkpoint.save(file, practice.steps, tree, rng=rng, arrays={"taken": practice.taken}, notes=notes)


def resumed(
    args: Learner, practice: Practice, state: Learned, rng: np.random.Generator
) -> tuple[Learned, Best[MLP], Debt]:
    """Where a checkpoint left off, if that is asked and there is one; the simulations go the same way again."""
    file = args.file("checkpoint")
    found = checkpoint.restore(file, (state, state.network), rng=rng) if args.resume and file else None
    if found is None:
        return state, Best(state.network), Debt(args)
    if found.notes["settings"] != args.settings():
        raise checkpoint.CheckpointError(f"{file} was written under other settings: remove it, or name another folder")
    practice.retrace(found.arrays["taken"])
    state, network = found.tree
    return state, Best(network, *found.notes["best"]), Debt(args, found.notes["owed"])
