"""A3C: advantage actor-critic from start to end, in one process or in several.

Reading order: settings, the training loops (`learn`, one worker and several), then their parts: rollout, n-step
returns and loss, network, evaluation and export, checkpoints.

A rollout takes `rollout` decisions of every environment. Backwards from its end, or from that of an episode,
`R_k = r_k + γ·R_{k+1}`, begun with V of the observation there, and with 0 where the transfer is finished. With
`A = R − V(s)` the loss is `Σ −ln π(a|s)·A − β·H + c·A²` over the decisions of an environment, A taken as a constant in
the first term, and the mean over the environments. Actor and critic are one network, whose last output is V.

One worker: rollouts and updates take turns over all environments. The same seed gives the same bytes, and a resumed
training those of an uninterrupted one; `envs` environments in one compiled call are also the quickest, so this is how
policies are made that are shipped.

Several workers (`workers`): A3C. Each is a process with environments of its own. It is given the shared weights, makes
a rollout, and sends the gradient, which is applied to the shared weights as soon as it is there, while the others are
at work. Nobody waits for anybody: a gradient may come from weights that others have changed meanwhile, by as many
updates as there are other workers or more. Weights are never half of one update and half of another, as they are
where threads write to the same memory without locks: one process holds them.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from jax import Array

from weftway.learn.train import checkpoint, session
from weftway.learn.train.action_distributions import ActionDistribution, Categorical, Dirichlet
from weftway.learn.train.curve import Curve
from weftway.learn.train.finish import finish
from weftway.learn.train.input_ranges import InputRanges
from weftway.learn.train.limits import Count, Pattern, Positive, Rate, Share, Weight, Widths
from weftway.learn.train.networks import LSTM, MLP
from weftway.learn.train.session import Best, ChooseActions, Progress, Trained, TrainingArgs, ValidationSet, quiet
from weftway.runs.parallel import LocalPool, Pool, RayPool
from weftway.vector import Flags, Floats, Step, VectorEnv

POINTS = 40
"""Points of a learning curve, about."""

# Settings

ADDRESS = r"|auto|local|(ray://)?\S+:\d{1,5}"
"""Address of a Ray cluster; empty without Ray."""


@dataclass(frozen=True, kw_only=True)
class ActorCriticArgs(TrainingArgs):
    """Settings of an actor-critic."""

    network: Widths
    """Widths of the hidden layers."""
    gamma: Share
    """Discount of a reward one decision later."""
    learning_rate: Rate
    """Learning rate of Adam, whose moments all workers share."""
    rollout: Count = 20
    """Decisions of an environment between two updates."""
    entropy: Weight = 0.01
    """Weight of the entropy, which favours exploration."""
    value: Weight = 0.5
    """Weight of the critic's error."""
    clip: Positive = 40.0
    """Largest norm of a gradient."""
    reward_scale: Positive = 1.0
    """Factor on rewards in training."""
    trials: Count = 64
    """Validation scenarios, on which checkpoints are compared; never trained on."""
    workers: Count = 1
    """Asynchronous processes of `envs` environments each. More than 1 is not repeatable."""
    ray: Annotated[str, Pattern(ADDRESS, "auto, local, HOST:PORT or ray://HOST:PORT")] = ""
    """Address of a Ray cluster for the workers: `auto`, `local`, HOST:PORT."""

    @property
    def widths(self) -> tuple[int, ...]:
        """The hidden layers."""
        return tuple(int(width) for width in self.network.split("-"))


Baselines = Mapping[str, tuple[str, ChooseActions]]
"""Policies that are evaluated beside the learned one: by name, the task and the function that decides."""


class Simulations(Protocol):
    """Environments that rollouts are made in: `weftway.vector.VectorEnv`, or anything like it."""

    envs: int
    inputs: int
    kind: str
    actions: int
    choices: int
    low: Floats
    high: Floats

    def reset(self) -> Floats: ...
    def step(self, actions: npt.ArrayLike, /) -> Step: ...
    def final_observations(self) -> Floats: ...
    def action_masks(self) -> Flags: ...
    def episodes(self) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class PolicySpec:
    """Task, kind of network and kind of actions of the policy that is learned."""

    task: str
    history: int = 0
    """Rows of an observation, for an LSTM; 0 is dense layers."""
    concentration: float = 0.0
    """Concentration of the Dirichlet distribution, where actions are shares."""

    def distribution(self, env: Simulations) -> ActionDistribution:
        """Distribution that the actions of these simulations are drawn from."""
        if env.kind == "shares":
            return Dirichlet(env.choices, self.concentration)
        return Categorical(env.actions, env.choices)

    def network(self, args: ActorCriticArgs, env: Simulations, key: Array) -> "ActorCritic":
        """First weights."""
        outputs = self.distribution(env).outputs
        if self.history:
            return recurrent((self.history, env.inputs // self.history), args.widths, outputs, key)
        return dense(env.inputs, args.widths, outputs, key)

    def compiled(self, args: ActorCriticArgs, env: Simulations) -> "Compiled":
        """The functions that act and update."""
        return compiled(Hyperparameters.of(args), self.distribution(env))


# The training loops


def learn(args: ActorCriticArgs, spec: PolicySpec, baselines: Baselines, progress: Progress = quiet) -> Trained:
    """Trains, chooses the checkpoint and the head that did best, evaluates them over held-out episodes, and exports."""
    train = one_worker if args.workers == 1 and not args.ray else several_workers
    return export(args, spec, baselines, train(args, spec, progress))


def one_worker(
    args: ActorCriticArgs, spec: PolicySpec, progress: Progress
) -> tuple[Best["ActorCritic"], Curve, InputRanges]:
    """Rollout, update, and so on, in this process."""
    collector = RolloutCollector(args.vector_env(spec.task))
    functions, schedule, stats = spec.compiled(args, collector.env), Schedule(args), Stats()
    state, best, done = load_checkpoint(args, initial_state(args, spec, collector.env), collector)
    curve = Curve(args.file("jsonl"), done * schedule.decisions)
    validation = Validation(args, spec, collector.env, curve)
    if done == 0:
        validation.first_point(state.network)
    for number in range(done, schedule.rollouts):
        state, rollout, loss = rollout_and_update(
            functions, collector, state, (rollout_key(args, 0, number), args.rollout)
        )
        stats.add(collector.env.episodes(), rollout.reward, loss)
        if schedule.is_point(number + 1):
            step = (number + 1) * schedule.decisions
            more = validation.measure(best, state.network, step) if schedule.is_validated(number + 1) else {}
            curve.add(step, **stats.take(), **more)
            progress(min(step, args.steps), args.steps)
        if schedule.is_kept(number + 1):
            save_checkpoint(args, number + 1, (state, best), collector)
    return best, curve, collector.ranges


def rollout_and_update(
    functions: "Compiled", collector: "RolloutCollector", state: "TrainState", how: tuple[Array, int]
) -> tuple["TrainState", "Rollout", float]:
    """A rollout and its update."""
    rollout = collector.collect(functions, state.network, *how)
    loss, gradient = functions.gradient(state.network, rollout)
    return functions.apply(state, gradient), rollout, float(loss)


def several_workers(
    args: ActorCriticArgs, spec: PolicySpec, progress: Progress
) -> tuple[Best["ActorCritic"], Curve, InputRanges]:
    """A3C: rollouts in processes of their own. A checkpoint has the weights: the simulations begin anew."""
    env = args.vector_env(spec.task)
    state, best, done = load_checkpoint(args, initial_state(args, spec, env), None)
    curve = Curve(args.file("jsonl"), done * Schedule(args).decisions)
    validation = Validation(args, spec, env, curve)
    if done == 0:
        validation.first_point(state.network)
    with _pool(args) as pool:
        # A resumed training has other episodes than it had before: the simulations begin anew from other seeds.
        workers = [pool.actors(Worker, 1, args, spec, done + number)[0] for number in range(args.workers)]
        for ready in [worker.ready() for worker in workers]:
            ready.result()
        apply_gradients(args, spec.compiled(args, env), (state, best, done, curve), (workers, validation, progress))
        ranges = InputRanges(env.low, env.high)
        for worker_ranges in [worker.ranges() for worker in workers]:
            ranges.merge(worker_ranges.result())
    return best, curve, ranges


def apply_gradients(
    args: ActorCriticArgs,
    functions: "Compiled",
    begun: tuple["TrainState", Best["ActorCritic"], int, Curve],
    who: tuple[list[Any], "Validation", Progress],
) -> None:
    """Applies gradients as they come, and gives each worker the weights as they are then."""
    (state, best, done, curve), (workers, validation, progress) = begun, who
    schedule, stats, asked, start = Schedule(args), Stats(), done, time.monotonic()
    form, pending = jax.tree.structure(state.network), {}
    for worker in workers[: schedule.rollouts - done]:
        pending[worker.gradient(arrays(state.network))], asked = worker, asked + 1
    while pending:
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            worker = pending.pop(future)
            gradient, *happened = future.result()
            state, done = functions.apply(state, jax.tree.unflatten(form, gradient)), done + 1
            if asked < schedule.rollouts:
                pending[worker.gradient(arrays(state.network))], asked = worker, asked + 1
            stats.add(*happened)
            if schedule.is_point(done):
                step = done * schedule.decisions
                more = validation.measure(best, state.network, step) if schedule.is_validated(done) else {}
                curve.add(step, **stats.take(), **more, seconds=round(time.monotonic() - start, 2))
                progress(min(step, args.steps), args.steps)
            if schedule.is_kept(done):
                save_checkpoint(args, done, (state, best), None)


class Worker:
    """A process of A3C: simulations, and a copy of the shared weights."""

    def __init__(self, args: ActorCriticArgs, spec: PolicySpec, number: int) -> None:
        # Other episodes for each, of the same scenarios.
        env = VectorEnv(spec.task, args.variants(), args.controllers, args.envs, args.seed + number, args.threads)
        self._args, self._number, self._rollouts = args, number, 0
        self._collector, self._functions = RolloutCollector(env), spec.compiled(args, env)
        self._form = jax.tree.structure(initial_state(args, spec, env).network)

    def ready(self) -> bool:
        """Once it is there."""
        return True

    def gradient(self, shared: list[np.ndarray]) -> tuple[list[np.ndarray], list[dict[str, Any]], np.ndarray, float]:
        """The gradient of one rollout with these weights, and what happened in it."""
        network = jax.tree.unflatten(self._form, shared)
        key = rollout_key(self._args, 1 + self._number, self._rollouts)
        rollout = self._collector.collect(self._functions, network, key, self._args.rollout)
        self._rollouts += 1
        self._collector.actions.clear()
        loss, gradient = self._functions.gradient(network, rollout)
        return arrays(gradient), self._collector.env.episodes(), rollout.reward, float(loss)

    def ranges(self) -> InputRanges:
        """Ranges in which the inputs lay."""
        return self._collector.ranges


def arrays(network: "ActorCritic") -> list[np.ndarray]:
    """Weights and biases, or their gradients: what processes send one another."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(network)]


def _pool(args: ActorCriticArgs) -> Pool:
    return RayPool(args.ray) if args.ray else LocalPool(args.workers)


class Schedule:
    """Number of rollouts, and after which of them something is due."""

    def __init__(self, args: ActorCriticArgs) -> None:
        self.decisions = args.rollout * args.envs
        """Decisions in a rollout."""
        self.rollouts = -(-args.steps // self.decisions)
        self._between = max(1, self.rollouts // POINTS)
        self._kept = max(1, args.checkpoint_every // (self._between * self.decisions)) * self._between

    def is_point(self, rollouts: int) -> bool:
        """Returns whether a point of the curve is due."""
        return rollouts % self._between == 0 or rollouts == self.rollouts

    def is_validated(self, rollouts: int) -> bool:
        """Returns whether validation is due; only where a point is."""
        return rollouts % (max(1, POINTS // session.TRIALS) * self._between) == 0 or rollouts == self.rollouts

    def is_kept(self, rollouts: int) -> bool:
        """Returns whether a checkpoint is due; only where a point is."""
        return rollouts % self._kept == 0 and rollouts < self.rollouts


# Rollout


class Rollout(NamedTuple):
    """Decisions of every environment: (steps, envs, …)."""

    obs: Any
    mask: Any
    drawn: Any
    """The action as the distribution gave it."""
    reward: Any
    done: Any
    """The episode was over after this one, …"""
    terminated: Any
    """… and so was the transfer."""
    next_obs: Any
    """The observation after it; at the end of an episode, that of the end."""


class RolloutCollector:
    """Steps simulations side by side: what they have come to follows from the actions alone."""

    def __init__(self, env: Simulations) -> None:
        self.env = env
        self.ranges = InputRanges(env.low, env.high)
        self.obs = env.reset()
        self.mask = env.action_masks()
        self.actions: list[Floats] = []
        env.episodes()

    def collect(self, functions: "Compiled", network: "ActorCritic", key: Array, steps: int) -> Rollout:
        """The next `steps` decisions of every environment."""
        rows = [self._decide(functions, network, step_key) for step_key in jax.random.split(key, steps)]
        return Rollout(*(np.stack(column) for column in zip(*rows, strict=True)))

    def _decide(self, functions: "Compiled", network: "ActorCritic", key: Array) -> Rollout:
        obs, mask = self.obs, self.mask
        drawn, action = functions.sample(network, key, obs, mask)
        step = self.step(np.asarray(action, np.float32))
        done = step.terminated | step.truncated
        next_obs = np.where(done[:, None], self.env.final_observations(), self.obs) if done.any() else self.obs
        return Rollout(obs, mask, np.asarray(drawn), step.reward, done, step.terminated, next_obs)

    def step(self, actions: Floats) -> Step:
        """Takes these actions: (envs, actions)."""
        self.actions.append(actions)
        self.ranges.add(self.obs)
        step = self.env.step(actions)
        self.obs, self.mask = step.obs, self.env.action_masks()
        return step

    def replay(self, actions: Floats) -> None:
        """Takes the actions of an earlier training again."""
        for row in actions:
            self.step(row)
        self.env.episodes()


def rollout_key(args: ActorCriticArgs, worker: int, rollout: int) -> Array:
    """Key of the draws in a rollout, from its number alone: there is no state to keep."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(args.seed + 1), worker), rollout)


# n-step returns, loss, update


class Hyperparameters(NamedTuple):
    """Settings that an update depends on."""

    gamma: float
    learning_rate: float
    entropy: float
    value: float
    clip: float
    reward_scale: float

    @classmethod
    def of(cls, args: ActorCriticArgs) -> "Hyperparameters":
        """Takes them from the settings of a training."""
        return cls(*(getattr(args, name) for name in cls._fields))

    def optimiser(self) -> optax.GradientTransformation:
        """Adam, behind a clip."""
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adam(self.learning_rate))


class TrainState(NamedTuple):
    """Weights and the optimiser's state, which updates change."""

    network: "ActorCritic"
    optimiser: Any


def initial_state(args: ActorCriticArgs, spec: PolicySpec, env: Simulations) -> TrainState:
    """State before the first update."""
    network = spec.network(args, env, jax.random.key(args.seed))
    return TrainState(network, Hyperparameters.of(args).optimiser().init(network))


def n_step_returns(gamma: float, reward: Array, done: Array, bootstrap: Array) -> Array:
    """n-step returns (steps, …); `bootstrap` is what is still to come after an episode's or the rollout's end."""

    def back(later: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        earned, over, rest = row
        value = earned + gamma * jnp.where(over, rest, later)
        return value, value

    return jax.lax.scan(back, bootstrap[-1], (reward, done, bootstrap), reverse=True)[1]


def actor_critic_loss(
    hyper: Hyperparameters, distribution: ActionDistribution, network: "ActorCritic", rollout: Rollout
) -> Array:
    """Loss of actor and critic over one rollout."""
    outputs, value = network(rollout.obs)
    bootstrap = jnp.where(rollout.terminated, 0.0, network(rollout.next_obs)[1])
    rewards = hyper.reward_scale * rollout.reward
    returns = jax.lax.stop_gradient(n_step_returns(hyper.gamma, rewards, rollout.done, bootstrap))
    advantage = returns - value
    gained = distribution.log_prob(outputs, rollout.mask, rollout.drawn) * jax.lax.stop_gradient(advantage)
    entropy = distribution.entropy(outputs, rollout.mask)
    each = -gained - hyper.entropy * entropy + hyper.value * jnp.square(advantage)
    return each.sum(0).mean()


class Compiled(NamedTuple):
    """The compiled functions of a learner."""

    sample: Callable[["ActorCritic", Array, Floats, Flags], tuple[Array, Array]]
    """A draw of the distribution, and the action that the simulation is told."""
    mode: Callable[["ActorCritic", Floats, Flags], Array]
    """The action without chance."""
    gradient: Callable[["ActorCritic", Rollout], tuple[Array, "ActorCritic"]]
    """The loss and its gradient."""
    apply: Callable[[TrainState, "ActorCritic"], TrainState]
    """Update of the state by a gradient."""


@lru_cache
def compiled(hyper: Hyperparameters, distribution: ActionDistribution) -> Compiled:
    """The functions of a learner."""
    optimiser = hyper.optimiser()

    def sample(network: ActorCritic, key: Array, obs: Array, mask: Array) -> tuple[Array, Array]:
        drawn = distribution.sample(key, network(obs)[0], mask)
        return drawn, distribution.action(drawn)

    def mode(network: ActorCritic, obs: Array, mask: Array) -> Array:
        return distribution.action(distribution.mode(network(obs)[0], mask))

    def apply(state: TrainState, gradient: ActorCritic) -> TrainState:
        change, inner = optimiser.update(gradient, state.optimiser)
        return TrainState(optax.apply_updates(state.network, change), inner)

    gradient = jax.value_and_grad(partial(actor_critic_loss, hyper, distribution))
    return Compiled(jax.jit(sample), jax.jit(mode), jax.jit(gradient), jax.jit(apply))


# Network

FIRST_OUTPUTS = 0.01
"""Scale of the last layer's first weights: the policy begins nearly uniform, and V near 0."""


class ActorCritic(eqx.Module):
    """The outputs of the actor and V, from one trunk."""

    body: MLP | LSTM
    history: int = eqx.field(static=True)
    """Rows of an observation, for an LSTM."""

    def __call__(self, obs: Array) -> tuple[Array, Array]:
        """(…, inputs) to the actor's outputs (…, outputs) and V (…)."""
        rows = obs.reshape(*obs.shape[:-1], self.history, -1) if self.history else obs
        outputs = self.body(rows)
        return outputs[..., :-1], outputs[..., -1]

    def actor(self) -> MLP | LSTM:
        """The network without V: what a policy file holds."""
        if isinstance(self.body, LSTM):
            made: LSTM = eqx.tree_at(lambda net: net.head, self.body, _less_one(self.body.head))
            return made
        return _less_one(self.body)


def _less_one(dense: MLP) -> MLP:
    """Removes the last output."""
    last = lambda net: (net.weights[-1], net.biases[-1])  # noqa: E731
    made: MLP = eqx.tree_at(last, dense, (dense.weights[-1][:, :-1], dense.biases[-1][:-1]))
    return made


def dense(inputs: int, hidden: tuple[int, ...], outputs: int, key: Array) -> ActorCritic:
    """Dense layers with ReLU."""
    return ActorCritic(MLP([inputs, *hidden, outputs + 1], key, last=FIRST_OUTPUTS), 0)


def recurrent(row: tuple[int, int], hidden: tuple[int, ...], outputs: int, key: Array) -> ActorCritic:
    """LSTM layers over (rows, numbers in a row), then a dense layer as wide as the last of them."""
    rows, inputs = row
    return ActorCritic(LSTM(inputs, hidden, [hidden[-1], outputs + 1], key, last=FIRST_OUTPUTS), rows)


# Evaluation and export


def policies(
    args: ActorCriticArgs, spec: PolicySpec, network: ActorCritic, env: Simulations
) -> dict[str, ChooseActions]:
    """Ways to act on a network's outputs, by the name of the head."""
    functions = spec.compiled(args, env)

    def mode(obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return np.asarray(functions.mode(network, obs, mask))

    if isinstance(spec.distribution(env), Dirichlet):
        return {"shares": mode}
    return {"greedy": mode, "sample": sampling(args, functions, network)}


def sampling(args: ActorCriticArgs, functions: Compiled, network: ActorCritic) -> ChooseActions:
    """Draws as in training, from a seed of its own."""
    keys = _keys(args)

    def choose(obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return np.asarray(functions.sample(network, next(keys), obs, mask)[1])

    return choose


def _keys(args: ActorCriticArgs) -> Iterator[Array]:
    key = jax.random.key(args.seed + 2)
    while True:
        key, draw_key = jax.random.split(key)
        yield draw_key


class Validation:
    """Points of the curve for the policy as it would be deployed: with the head that does better on the validation."""

    def __init__(self, args: ActorCriticArgs, spec: PolicySpec, env: Simulations, curve: Curve) -> None:
        self._args, self._spec, self._env, self._curve = args, spec, env, curve
        self._set = ValidationSet(args, spec.task, args.trials)

    def first_point(self, network: ActorCritic) -> None:
        """First weights give nearly equal outputs, and which is the largest is an accident of the seed: until
        something is learned, the policy draws from them."""
        head, choose = list(policies(self._args, self._spec, network, self._env).items())[-1]
        self._curve.add(0, kind="chance", trial=self._set.speed(choose), head=head)

    def measure(self, best: Best[ActorCritic], network: ActorCritic, step: int) -> dict[str, float | str]:
        """The point's figures of a checkpoint, which may be the best so far."""
        heads = policies(self._args, self._spec, network, self._env)
        speeds = {name: self._set.speed(choose) for name, choose in heads.items()}
        head = max(speeds, key=lambda name: speeds[name])
        best.offer(network, (speeds[head], step, head))
        return {"trial": speeds[head], "head": head}


def export(
    args: ActorCriticArgs,
    spec: PolicySpec,
    baselines: Baselines,
    learned: tuple[Best[ActorCritic], Curve, InputRanges],
) -> Trained:
    """Evaluates the best checkpoint over held-out episodes, beside the baselines, and writes the policy."""
    best, curve, ranges = learned
    env = args.held_out_env(spec.task)
    heads = policies(args, spec, best.network, env)
    figures = {args.ALGORITHM: session.evaluate(env, heads[best.head])}
    figures |= {f"{name} head": session.evaluate(env, heads[name]) for name in heads if name != best.head}
    for name, (task, choose) in baselines.items():
        figures[name] = session.evaluate(args.held_out_env(task), choose)
    schedule = Schedule(args)
    curve.add(schedule.rollouts * schedule.decisions, kind="held-out", head=best.head, **figures[args.ALGORITHM])
    low, high = ranges.bounds()
    actor, evaluation = best.network.actor(), session.sentence(figures, env.envs, args.cc)
    about = {"network": actor.spec(), "head": best.head, "chosen": best.words(args.trials), "evaluation": evaluation}
    card = session.card(args, env, **about)
    return finish(args, card, {"low": low, "high": high, **actor.tensors()}, (curve.points, figures))


# Curve and checkpoints


class Stats:
    """Figures since the curve's last point."""

    def __init__(self) -> None:
        self._figures: dict[str, list[float]] = {"return": [], "goodput": [], "reward": [], "loss": []}

    def add(self, episodes: list[dict[str, Any]], rewards: np.ndarray, loss: float) -> None:
        """Adds the figures of a rollout."""
        self._figures["return"] += [episode["return"] for episode in episodes]
        self._figures["goodput"] += [
            episode["goodput_mbps"] for episode in episodes if episode.get("goodput_mbps") is not None
        ]
        self._figures["reward"].append(float(rewards.mean()))
        self._figures["loss"].append(loss)

    def take(self) -> dict[str, float | None]:
        """The point's figures, and begins anew; none where nothing happened."""
        means = {name: round(float(np.mean(all_)), 6) if all_ else None for name, all_ in self._figures.items()}
        for all_ in self._figures.values():
            all_.clear()
        return means


def save_checkpoint(
    args: ActorCriticArgs, done: int, learned: tuple[TrainState, Best[ActorCritic]], collector: RolloutCollector | None
) -> None:
    """Writes a checkpoint after so many rollouts, if there is a folder."""
    state, best = learned
    if file := args.file("checkpoint"):
        arrays = {"actions": np.array(collector.actions, np.float32)} if collector else {}
        notes = {"settings": args.settings(), "best": best.notes}
        checkpoint.save(file, done, (state, best.network), arrays=arrays, notes=notes)


def load_checkpoint(
    args: ActorCriticArgs, state: TrainState, collector: RolloutCollector | None
) -> tuple[TrainState, Best[ActorCritic], int]:
    """Resumes from the checkpoint, if that is asked and there is one; the simulations go the same way again."""
    file = args.file("checkpoint")
    kept = checkpoint.restore(file, (state, state.network)) if args.resume and file else None
    if kept is None:
        return state, Best(state.network), 0
    if kept.notes["settings"] != args.settings():
        raise checkpoint.CheckpointError(f"{file} was written under other settings: remove it, or name another folder")
    if collector:
        collector.replay(kept.arrays["actions"])
    state, network = kept.tree
    return state, Best(network, *kept.notes["best"]), kept.step
