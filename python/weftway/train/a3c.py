"""The course of an actor-critic training, in one process or in several.

One worker: rollouts and updates take turns over all places. The same seed gives the same bytes, and a resumed
training those of an uninterrupted one; `envs` places in one compiled call are also the quickest, so this is how
policies are made that are shipped.

Several workers (`workers`): A3C. Each is a process with places of its own. It is given the shared weights, makes a
rollout, and sends the gradient, which is applied to the shared weights as soon as it is there, while the others are
at work. Nobody waits for anybody: a gradient may come from weights that others have changed meanwhile, by as many
updates as there are other workers or more. Weights are never half of one update and half of another, as they are
where threads write to the same memory without locks: one process holds them.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array

from weftway import distribution
from weftway.parallel import LocalPool, Pool, RayPool
from weftway.train import actor_critic, checkpoint, session
from weftway.train.actor_critic import ActorCritic, Compiled, Learned, Learner, Places, Rollout, Rule
from weftway.train.chance import Shares
from weftway.train.curve import Curve
from weftway.train.replay import Ranges
from weftway.train.session import Choose, Progress, Trained, quiet
from weftway.vector import Vector

POINTS = 40
"""Of a learning curve, about."""

Rivals = Mapping[str, tuple[str, Choose]]
"""Who is evaluated beside the policy: by name, the task and what decides."""


@dataclass(frozen=True)
class Course:
    """What is learned."""

    task: str
    history: int = 0
    """Rows of what is seen, for an LSTM; 0 is dense layers."""
    concentration: float = 0.0
    """Of the Dirichlet distribution, where shares are answered."""

    def network(self, args: Learner, vector: actor_critic.Simulations, key: Array) -> ActorCritic:
        """First weights."""
        outputs = actor_critic.chance(vector, self.concentration).outputs
        if self.history:
            row = (self.history, vector.inputs // self.history)
            return actor_critic.recurrent(row, args.widths, outputs, key)
        return actor_critic.dense(vector.inputs, args.widths, outputs, key)

    def compiled(self, args: Learner, vector: actor_critic.Simulations) -> Compiled:
        """What acts and updates."""
        return actor_critic.compiled(Rule.of(args), actor_critic.chance(vector, self.concentration))


class Tally:
    """What has happened since the curve's last point."""

    def __init__(self) -> None:
        self._figures: dict[str, list[float]] = {"return": [], "goodput": [], "reward": [], "loss": []}

    def note(self, episodes: list[dict[str, Any]], rewards: np.ndarray, loss: float) -> None:
        """One rollout."""
        self._figures["return"] += [one["return"] for one in episodes]
        self._figures["goodput"] += [one["goodput_mbps"] for one in episodes if one.get("goodput_mbps") is not None]
        self._figures["reward"].append(float(rewards.mean()))
        self._figures["loss"].append(loss)

    def values(self) -> dict[str, float | None]:
        """The point's figures; none where there was nothing."""
        found = {name: round(float(np.mean(all_)), 6) if all_ else None for name, all_ in self._figures.items()}
        for all_ in self._figures.values():
            all_.clear()
        return found


class Pace:
    """How many rollouts there are, and after which of them something is due."""

    def __init__(self, args: Learner) -> None:
        self.each = args.rollout * args.envs
        self.rollouts = -(-args.steps // self.each)
        self._between = max(1, self.rollouts // POINTS)
        self._kept = max(1, args.checkpoint_every // (self._between * self.each)) * self._between

    def is_point(self, rollouts: int) -> bool:
        """Whether a point of the curve is due."""
        return rollouts % self._between == 0

    def is_tried(self, rollouts: int) -> bool:
        """Whether the yardstick is due; only where a point is."""
        return rollouts % (max(1, POINTS // session.TRIALS) * self._between) == 0

    def is_kept(self, rollouts: int) -> bool:
        """Whether a checkpoint is due; only where a point is."""
        return rollouts % self._kept == 0 and rollouts < self.rollouts


def first(args: Learner, course: Course, vector: actor_critic.Simulations) -> Learned:
    """The state before the first update."""
    return actor_critic.begin(Rule.of(args), course.network(args, vector, jax.random.key(args.seed)))


def key_of(args: Learner, worker: int, rollout: int) -> Array:
    """Of what is drawn in a rollout: no state to keep."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(args.seed + 1), worker), rollout)


def learn(args: Learner, course: Course, rivals: Rivals, progress: Progress = quiet) -> Trained:
    """Trains, evaluates over held-out episodes, and exports."""
    trained = _together if args.workers == 1 and not args.ray else _apart
    state, curve, ranges = trained(args, course, progress)
    return concluded(args, course, rivals, (state.network, curve, ranges))


def _together(args: Learner, course: Course, progress: Progress) -> tuple[Learned, Curve, Ranges]:
    """In this process."""
    places, pace, tally = Places(args.vector(course.task)), Pace(args), Tally()
    act = course.compiled(args, places.vector)
    state, done = resumed(args, first(args, course, places.vector), places)
    curve = Curve(args.file("jsonl"), done * pace.each)
    yardstick = session.Yardstick(args, course.task)

    def tried() -> dict[str, float]:
        return yardstick.measure(next(iter(choosers(args, course, state.network, places.vector).values())))

    if done == 0:
        curve.add(0, **tried())
    for rollout in range(done, pace.rollouts):
        state, rows, loss = turn(act, places, state, (key_of(args, 0, rollout), args.rollout))
        tally.note(places.vector.episodes(), rows.reward, loss)
        if pace.is_point(rollout + 1):
            more = tried() if pace.is_tried(rollout + 1) else {}
            curve.add((rollout + 1) * pace.each, **tally.values(), **more)
            progress(min((rollout + 1) * pace.each, args.steps), args.steps)
        if pace.is_kept(rollout + 1):
            keep(args, rollout + 1, state, places)
    return state, curve, places.ranges


def turn(act: Compiled, places: Places, state: Learned, how: tuple[Array, int]) -> tuple[Learned, Rollout, float]:
    """A rollout and its update."""
    rows = places.roll(act, state.network, *how)
    loss, gradient = act.gradient(state.network, rows)
    return act.apply(state, gradient), rows, float(loss)


Numbers = list[np.ndarray]
"""The numbers of a network: what processes send one another."""


def numbers(network: ActorCritic) -> Numbers:
    """Its weights and biases."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(network)]


class Worker:
    """A process of A3C: simulations, and a copy of the shared weights."""

    def __init__(self, args: Learner, course: Course, number: int) -> None:
        # Other episodes for each, of the same scenarios.
        vector = Vector(course.task, args.variants(), args.controllers, args.envs, args.seed + number, args.threads)
        self._args, self._number, self._rollouts = args, number, 0
        self._places, self._act = Places(vector), course.compiled(args, vector)
        self._form = jax.tree.structure(first(args, course, vector).network)

    def ready(self) -> bool:
        """Once it is there."""
        return True

    def gradient(self, shared: Numbers) -> tuple[Numbers, list[dict[str, Any]], np.ndarray, float]:
        """The gradient of one rollout with these weights, and what happened in it."""
        network = jax.tree.unflatten(self._form, shared)
        key = key_of(self._args, 1 + self._number, self._rollouts)
        rows = self._places.roll(self._act, network, key, self._args.rollout)
        self._rollouts += 1
        self._places.taken.clear()
        loss, gradient = self._act.gradient(network, rows)
        return numbers(gradient), self._places.vector.episodes(), rows.reward, float(loss)

    def ranges(self) -> Ranges:
        """Where the inputs lay."""
        return self._places.ranges


def _apart(args: Learner, course: Course, progress: Progress) -> tuple[Learned, Curve, Ranges]:
    """In processes of their own. A checkpoint has the weights: the simulations begin anew."""
    vector = args.vector(course.task)
    state, done = resumed(args, first(args, course, vector), None)
    curve = Curve(args.file("jsonl"), done * Pace(args).each)
    with _pool(args) as pool:
        # Those that go on have other episodes than those before.
        workers = [pool.actors(Worker, 1, args, course, done + number)[0] for number in range(args.workers)]
        for ready in [worker.ready() for worker in workers]:
            ready.result()
        state = _shared(args, course.compiled(args, vector), (state, done, curve), (workers, progress))
        ranges = Ranges(vector.low, vector.high)
        for found in [worker.ranges() for worker in workers]:
            ranges.merge(found.result())
    return state, curve, ranges


def _pool(args: Learner) -> Pool:
    return RayPool(args.ray) if args.ray else LocalPool(args.workers)


def _shared(
    args: Learner, act: Compiled, begun: tuple[Learned, int, Curve], who: tuple[list[Any], Progress]
) -> Learned:
    """Applies gradients as they come, and gives each worker the weights as they are then."""
    (state, done, curve), (workers, progress) = begun, who
    pace, tally, asked, start = Pace(args), Tally(), done, time.monotonic()
    form, pending = jax.tree.structure(state.network), {}
    for worker in workers[: pace.rollouts - done]:
        pending[worker.gradient(numbers(state.network))], asked = worker, asked + 1
    while pending:
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            worker = pending.pop(future)
            gradient, *happened = future.result()
            state, done = act.apply(state, jax.tree.unflatten(form, gradient)), done + 1
            if asked < pace.rollouts:
                pending[worker.gradient(numbers(state.network))], asked = worker, asked + 1
            tally.note(*happened)
            if pace.is_point(done):
                curve.add(done * pace.each, **tally.values(), seconds=round(time.monotonic() - start, 2))
                progress(min(done * pace.each, args.steps), args.steps)
            if pace.is_kept(done):
                keep(args, done, state, None)
    return state


def keep(args: Learner, done: int, state: Learned, places: Places | None) -> None:
    """Writes a checkpoint after so many rollouts, if there is a folder."""
    if file := args.file("checkpoint"):
        arrays = {"taken": np.array(places.taken, np.float32)} if places else {}
        checkpoint.save(file, done, state, arrays=arrays, notes={"settings": args.settings()})


def resumed(args: Learner, state: Learned, places: Places | None) -> tuple[Learned, int]:
    """Where a checkpoint left off, if that is asked and there is one; the simulations go the same way again."""
    file = args.file("checkpoint")
    found = checkpoint.restore(file, state) if args.resume and file else None
    if found is None:
        return state, 0
    if found.notes["settings"] != args.settings():
        raise checkpoint.CheckpointError(f"{file} was written under other settings: remove it, or name another folder")
    if places:
        places.retrace(found.arrays["taken"])
    return found.tree, found.step


def concluded(args: Learner, course: Course, rivals: Rivals, learned: tuple[ActorCritic, Curve, Ranges]) -> Trained:
    """The policy, once it is known which head is the better, and it is evaluated over held-out episodes."""
    network, curve, ranges = learned
    vector = args.held_out_vector(course.task)
    heads = choosers(args, course, network, vector)
    head = better(args, course, heads)
    figures = {args.ALGORITHM: session.trial(vector, heads[head])}
    figures |= {f"{name} head": session.trial(vector, heads[name]) for name in heads if name != head}
    for name, (task, choose) in rivals.items():
        figures[name] = session.trial(args.held_out_vector(task), choose)
    curve.add(max(Pace(args).rollouts * Pace(args).each, args.steps), kind="held-out", **figures[args.ALGORITHM])
    low, high = ranges.bounds()
    actor, said = network.actor(), session.sentence(figures, vector.envs, args.cc)
    card = session.card(args, vector, network=actor.spec(), head=head, evaluation=said)
    return session.finish(args, card, {"low": low, "high": high, **actor.tensors()}, (curve.points, figures))


def choosers(
    args: Learner, course: Course, network: ActorCritic, vector: actor_critic.Simulations
) -> dict[str, Choose]:
    """What a policy may do with its outputs, by the name of the head."""
    act, law = course.compiled(args, vector), actor_critic.chance(vector, course.concentration)

    def best(seen: np.ndarray, open_: np.ndarray) -> np.ndarray:
        return np.asarray(act.best(network, seen, open_))

    return {"shares": best} if isinstance(law, Shares) else {"greedy": best, "sample": sampled(args, act, network)}


def sampled(args: Learner, act: Compiled, network: ActorCritic) -> Choose:
    """Draws as in training, from a seed of its own."""
    keys = _keys(args)

    def choose(seen: np.ndarray, open_: np.ndarray) -> np.ndarray:
        return np.asarray(act.draw(network, next(keys), seen, open_)[1])

    return choose


def _keys(args: Learner) -> Iterator[Array]:
    key = jax.random.key(args.seed + 2)
    while True:
        key, one = jax.random.split(key)
        yield one


def better(args: Learner, course: Course, heads: Mapping[str, Choose]) -> str:
    """The head that earns most a decision, on scenarios for training of another seed: nothing held out is looked at."""
    if len(heads) == 1:
        return next(iter(heads))
    variants = distribution.load(args.distribution).pool(args.seed + 1, args.held_out)
    vector = Vector(course.task, variants, args.controllers, len(variants), args.seed + 1, args.threads)
    return max(heads, key=lambda head: session.trial(vector, heads[head])["reward"])
