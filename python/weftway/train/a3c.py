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

from weftway.parallel import LocalPool, Pool, RayPool
from weftway.train import actor_critic, checkpoint, session
from weftway.train.actor_critic import ActorCritic, Compiled, Learned, Learner, Places, Rollout, Rule
from weftway.train.chance import Shares
from weftway.train.curve import Curve
from weftway.train.replay import Ranges
from weftway.train.session import Best, Choose, Progress, Trained, Validation, quiet
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
        return rollouts % self._between == 0 or rollouts == self.rollouts

    def is_tried(self, rollouts: int) -> bool:
        """Whether validation is due; only where a point is."""
        return rollouts % (max(1, POINTS // session.TRIALS) * self._between) == 0 or rollouts == self.rollouts

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
    """Trains, chooses the checkpoint and the head that did best, evaluates them over held-out episodes, and exports."""
    trained = _together if args.workers == 1 and not args.ray else _apart
    return concluded(args, course, rivals, trained(args, course, progress))


class Judge:
    """What the curve says of the policy as it would be deployed: with the head that does better on the validation."""

    def __init__(self, args: Learner, course: Course, vector: actor_critic.Simulations, curve: Curve) -> None:
        self._args, self._course, self._vector, self._curve = args, course, vector, curve
        self._validation = Validation(args, course.task, args.trials)

    def chance(self, network: ActorCritic) -> None:
        """The first point. First weights give nearly equal outputs, and which is the largest is an accident of the
        seed: until something is learned, the policy draws from them."""
        head, choose = list(choosers(self._args, self._course, network, self._vector).items())[-1]
        self._curve.add(0, kind="chance", trial=self._validation.speed(choose), head=head)

    def meet(self, best: Best[ActorCritic], network: ActorCritic, step: int) -> dict[str, float | str]:
        """The point's figures of a checkpoint, which may be the best so far."""
        heads = choosers(self._args, self._course, network, self._vector)
        speeds = {name: self._validation.speed(choose) for name, choose in heads.items()}
        head = max(speeds, key=lambda name: speeds[name])
        best.meet(network, (speeds[head], step, head))
        return {"trial": speeds[head], "head": head}


def _together(args: Learner, course: Course, progress: Progress) -> tuple[Best[ActorCritic], Curve, Ranges]:
    """In this process."""
    places, pace, tally = Places(args.vector(course.task)), Pace(args), Tally()
    act = course.compiled(args, places.vector)
    state, best, done = resumed(args, first(args, course, places.vector), places)
    curve = Curve(args.file("jsonl"), done * pace.each)
    judge = Judge(args, course, places.vector, curve)
    if done == 0:
        judge.chance(state.network)
    for rollout in range(done, pace.rollouts):
        state, rows, loss = turn(act, places, state, (key_of(args, 0, rollout), args.rollout))
        tally.note(places.vector.episodes(), rows.reward, loss)
        if pace.is_point(rollout + 1):
            step = (rollout + 1) * pace.each
            more = judge.meet(best, state.network, step) if pace.is_tried(rollout + 1) else {}
            curve.add(step, **tally.values(), **more)
            progress(min(step, args.steps), args.steps)
        if pace.is_kept(rollout + 1):
            keep(args, rollout + 1, (state, best), places)
    return best, curve, places.ranges


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


def _apart(args: Learner, course: Course, progress: Progress) -> tuple[Best[ActorCritic], Curve, Ranges]:
    """In processes of their own. A checkpoint has the weights: the simulations begin anew."""
    vector = args.vector(course.task)
    state, best, done = resumed(args, first(args, course, vector), None)
    curve = Curve(args.file("jsonl"), done * Pace(args).each)
    judge = Judge(args, course, vector, curve)
    if done == 0:
        judge.chance(state.network)
    with _pool(args) as pool:
        # Those that go on have other episodes than those before.
        workers = [pool.actors(Worker, 1, args, course, done + number)[0] for number in range(args.workers)]
        for ready in [worker.ready() for worker in workers]:
            ready.result()
        _shared(args, course.compiled(args, vector), (state, best, done, curve), (workers, judge, progress))
        ranges = Ranges(vector.low, vector.high)
        for found in [worker.ranges() for worker in workers]:
            ranges.merge(found.result())
    return best, curve, ranges


def _pool(args: Learner) -> Pool:
    return RayPool(args.ray) if args.ray else LocalPool(args.workers)


def _shared(
    args: Learner,
    act: Compiled,
    begun: tuple[Learned, Best[ActorCritic], int, Curve],
    who: tuple[list[Any], Judge, Progress],
) -> None:
    """Applies gradients as they come, and gives each worker the weights as they are then."""
    (state, best, done, curve), (workers, judge, progress) = begun, who
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
                more = judge.meet(best, state.network, done * pace.each) if pace.is_tried(done) else {}
                curve.add(done * pace.each, **tally.values(), **more, seconds=round(time.monotonic() - start, 2))
                progress(min(done * pace.each, args.steps), args.steps)
            if pace.is_kept(done):
                keep(args, done, (state, best), None)


def keep(args: Learner, done: int, learned: tuple[Learned, Best[ActorCritic]], places: Places | None) -> None:
    """Writes a checkpoint after so many rollouts, if there is a folder."""
    state, best = learned
    if file := args.file("checkpoint"):
        arrays = {"taken": np.array(places.taken, np.float32)} if places else {}
        notes = {"settings": args.settings(), "best": best.notes}
        checkpoint.save(file, done, (state, best.network), arrays=arrays, notes=notes)


def resumed(args: Learner, state: Learned, places: Places | None) -> tuple[Learned, Best[ActorCritic], int]:
    """Where a checkpoint left off, if that is asked and there is one; the simulations go the same way again."""
    file = args.file("checkpoint")
    found = checkpoint.restore(file, (state, state.network)) if args.resume and file else None
    if found is None:
        return state, Best(state.network), 0
    if found.notes["settings"] != args.settings():
        raise checkpoint.CheckpointError(f"{file} was written under other settings: remove it, or name another folder")
    if places:
        places.retrace(found.arrays["taken"])
    state, network = found.tree
    return state, Best(network, *found.notes["best"]), found.step


def concluded(
    args: Learner, course: Course, rivals: Rivals, learned: tuple[Best[ActorCritic], Curve, Ranges]
) -> Trained:
    """The policy, once it is evaluated over held-out episodes."""
    best, curve, ranges = learned
    vector = args.held_out_vector(course.task)
    heads = choosers(args, course, best.network, vector)
    figures = {args.ALGORITHM: session.trial(vector, heads[best.head])}
    figures |= {f"{name} head": session.trial(vector, heads[name]) for name in heads if name != best.head}
    for name, (task, choose) in rivals.items():
        figures[name] = session.trial(args.held_out_vector(task), choose)
    curve.add(Pace(args).rollouts * Pace(args).each, kind="held-out", head=best.head, **figures[args.ALGORITHM])
    low, high = ranges.bounds()
    actor, said = best.network.actor(), session.sentence(figures, vector.envs, args.cc)
    about = {"network": actor.spec(), "head": best.head, "chosen": best.words(args.trials), "evaluation": said}
    card = session.card(args, vector, **about)
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
