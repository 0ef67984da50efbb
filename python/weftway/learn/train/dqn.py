"""DQN: deep Q-learning from start to end. The other value-based algorithms here train by the same loop.

Reading order: settings, the training loop (`learn`), then its parts: exploration, TD target and update, update
schedule, replay buffer, collector.

`Q(s, a)` is drawn to the TD target `r + γ·max Q'(s', ·)`, over the choices that s' allows, Q' being the target
network. Where the episode ended, it is drawn to r alone, even if a time limit ended it: an actor-critic goes on with V
there, but not every task has an observation then. One update is due for each transition that became complete (`updates`
of them, where an algorithm says so). They are made `TOGETHER` at a time in one compiled loop, so that fewer wait for
the next step. Algorithms differ in their settings, their task and their exploration.

The DQN is that of the comparison of MPQUIC schedulers: wait for the full fast path, or send on the slow one. Six
inputs, two hidden layers of six, two outputs: 98 weights. The paper trains off line under BBRv1 alone and then
freezes; its open question, one scheduler for every controller, has an answer of ours in
`--cc bbr1,cubic,bbr2 --state controller --network 64-64`, which sees how a controller behaves.

Reference: MPQUIC comparison of min-RTT, ECF, BLEST, Q-learning, DQN and UCB, section 4.2 and Table 1. It prints the
inputs, the layers, the actions and the kind of reward. Optimiser, loss, replay, gamma and exploration are ours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from jax import Array

from weftway.learn.train import checkpoint, session
from weftway.learn.train.curve import Curve
from weftway.learn.train.finish import finish
from weftway.learn.train.input_ranges import InputRanges
from weftway.learn.train.limits import Count, CountOrNone, OneOf, Rate, Share, Weight, Whole, Widths
from weftway.learn.train.networks import MLP
from weftway.learn.train.session import Best, ChooseActions, Progress, Trained, TrainingArgs, ValidationSet, quiet
from weftway.vector import DelayedRewards, Flags, Floats, Numbers, VectorEnv

TOGETHER = 16
"""Updates in one compiled loop."""

POINTS = 40
"""Points of a learning curve, about."""

# Settings


@dataclass(frozen=True, kw_only=True)
class QLearningArgs(TrainingArgs):
    """Settings of a Q-learner."""

    network: Widths = "64-64"
    """Widths of the hidden layers, all ReLU."""
    gamma: Share = 0.9
    """Discount of a reward one decision later."""
    learning_rate: Rate = 1e-3
    """Learning rate of Adam."""
    loss: Annotated[str, OneOf("huber", "mse")] = "huber"
    """`huber` (linear beyond 1) or `mse`."""
    clip: Weight = 10.0
    """Largest norm of a gradient; 0: no clipping."""
    batch: Count = 32
    """Transitions in an update."""
    memory: Count = 10_000
    """Capacity of the replay buffer, in transitions."""
    warm_up: CountOrNone = 200
    """Transitions before the first update."""
    updates: Count = 1
    """Updates per transition."""
    target_every: CountOrNone = 100
    """Updates between two copies to the target network; 0: soft updates."""
    target_rate: Rate = 1e-4
    """Step of the target network's soft updates."""
    trials: Count = 64
    """Validation scenarios, on which checkpoints are compared; never trained on."""

    @property
    def widths(self) -> list[int]:
        """The hidden layers."""
        return [int(width) for width in self.network.split("-")]


@dataclass(frozen=True, kw_only=True)
class Args(QLearningArgs):
    """Settings and their defaults."""

    steps: int = 400_000
    distribution: str = "mpquic-pair"
    cc: str = "bbr1"
    network: str = "6-6"
    eps_over: CountOrNone = 5_000
    """Decisions over which epsilon falls from 1 to `eps_last`."""
    eps_last: Share = 0.05
    """Final epsilon: the probability of a random action."""
    state: Annotated[str, OneOf("paper", "credit", "controller")] = "paper"
    """Observation: `paper` (6 numbers), `credit` (7) or `controller` (18)."""
    reward: Annotated[str, OneOf("delivery", "bytes")] = "delivery"
    """Reward: `delivery` (throughput less round-trip time) or `bytes`."""
    w0_kb: Annotated[int, Whole(1, 1_000_000)] = 1000
    """Scale of windows in the observation, in kB."""

    ALGORITHM: ClassVar[str] = "dqn"
    QUICK: ClassVar[Mapping[str, Any]] = {"steps": 40_000, "envs": 64, "pool": 64, "trials": 16}


def task(args: Args) -> str:
    """The task these settings mean."""
    return f"wait-or-send:state={args.state}:reward={args.reward}:w0_kb={args.w0_kb}"


def train(args: Args, progress: Progress = quiet) -> Trained:
    """Trains a policy; always sending on S is min-RTT."""
    explore = EpsilonGreedy(1.0, args.eps_last, args.eps_over)
    return learn(args, task(args), explore, {"min-rtt": 1, "wait": 0}, progress)


# The training loop


def learn(
    args: QLearningArgs,
    task: str,
    explore: "EpsilonGreedy | Boltzmann",
    baselines: Mapping[str, int] | None = None,
    progress: Progress = quiet,
) -> Trained:
    """Trains, chooses the checkpoint that did best, evaluates it over held-out episodes, and exports it.

    `baselines` are constant actions to evaluate beside the policy, by the name of the scheduler that each is.
    """
    rng = np.random.default_rng(args.seed)
    collector = Collector(args.vector_env(task), args.memory)
    layers = [collector.env.inputs, *args.widths, collector.env.choices]
    state = initial_state(Hyperparameters.of(args), layers, jax.random.key(args.seed))
    best, schedule = Best(state.network), UpdateSchedule(args)
    if resumed := load_checkpoint(args, collector, state, rng):
        state, best, schedule = resumed
    curve = Curve(args.file("jsonl"), collector.steps * args.envs)
    stats = Stats()
    total_steps, point_every = -(-args.steps // args.envs), max(1, args.steps // args.envs // POINTS)
    validation, validate_every = ValidationSet(args, task, args.trials), max(1, POINTS // session.TRIALS) * point_every
    checkpoint_every = max(1, args.checkpoint_every // (point_every * args.envs)) * point_every
    if collector.steps == 0:
        # Before it has learned anything, chance decides; what untrained weights prefer is an accident of the seed.
        curve.add(0, kind="chance", trial=validation.speed(session.uniform_random(args.seed)))
    while collector.steps < total_steps:
        # Collect: one step of every environment.
        epsilon = explore.at(collector.steps * args.envs)
        q = np.asarray(q_values(state.network, collector.obs))
        completed, rewards = collector.step(explore.choose(q, collector.mask, epsilon, rng))
        # Learn: the updates that are due, on batches of the replay buffer.
        state, losses = schedule.update(state, collector.buffer, completed, rng)
        stats.add(collector.env.episodes(), rewards, losses)
        # Measure, on the validation set, and keep.
        is_last = collector.steps == total_steps
        if collector.steps % point_every == 0 or is_last:
            done, more = collector.steps * args.envs, {}
            if collector.steps % validate_every == 0 or is_last:
                more["trial"] = speed = validation.speed(greedy(state.network))
                best.offer(state.network, (speed, done, "greedy"))
            curve.add(done, **stats.take(), **more, eps=round(epsilon, 4))
            progress(min(done, args.steps), args.steps)
        if collector.steps % checkpoint_every == 0 and not is_last:
            save_checkpoint(args, collector, (state, best), (rng, schedule))
    return export(args, task, baselines or {}, collector, (best, curve))


def export(
    args: QLearningArgs,
    task: str,
    baselines: Mapping[str, int],
    collector: "Collector",
    learned: tuple[Best[MLP], Curve],
) -> Trained:
    """Evaluates the best checkpoint over held-out episodes, beside the baselines, and writes the policy."""
    best, curve = learned
    network, env = best.network, args.held_out_env(task)
    policies = {args.ALGORITHM: greedy(network), "random": session.uniform_random(args.seed)}
    policies |= {name: session.constant(action) for name, action in baselines.items()}
    figures = {name: session.evaluate(env, choose) for name, choose in policies.items()}
    curve.add(collector.steps * args.envs, kind="held-out", eps=0.0, **figures[args.ALGORITHM])
    low, high = collector.ranges.bounds()
    evaluation = session.sentence(figures, env.envs, args.cc)
    about = {"network": network.spec(), "chosen": best.words(args.trials), "evaluation": evaluation}
    card = session.card(args, env, **about)
    return finish(args, card, {"low": low, "high": high, **network.tensors()}, (curve.points, figures))


# Exploration


@dataclass(frozen=True)
class LinearSchedule:
    """A number that goes down in a line over so many decisions, and stays."""

    first: float
    last: float
    over: float

    def at(self, decisions: int) -> float:
        """Value after so many decisions."""
        return self.first + (self.last - self.first) * min(decisions / max(self.over, 1), 1.0)


class EpsilonGreedy(LinearSchedule):
    """Any choice that may be taken with probability epsilon, else the best."""

    def choose(self, q: Floats, mask: Flags, epsilon: float, rng: np.random.Generator) -> Numbers:
        """Actions; the generator moves alike whatever is chosen."""
        tossed, any_ = rng.random(len(q)), np.where(mask, rng.random(q.shape), -1.0).argmax(1)
        chosen: Numbers = np.where(tossed < epsilon, any_, np.where(mask, q, -np.inf).argmax(1))
        return chosen


class Boltzmann(LinearSchedule):
    """A choice with probability proportional to exp(Q/T), T this temperature."""

    def choose(self, q: Floats, mask: Flags, temperature: float, rng: np.random.Generator) -> Numbers:
        """Actions, by adding Gumbel noise to Q/T."""
        chosen: Numbers = np.where(mask, q / temperature + rng.gumbel(size=q.shape), -np.inf).argmax(1)
        return chosen


@jax.jit
def q_values(network: MLP, obs: Array) -> Array:
    """Q of every choice."""
    return network(obs)


def greedy(network: MLP) -> ChooseActions:
    """The choice of largest value among those that may be taken."""
    return lambda obs, mask: np.where(mask, np.asarray(q_values(network, obs)), -np.inf).argmax(1)


# TD target, loss, update, target network


class Transitions(NamedTuple):
    """Transitions, a row per decision."""

    obs: Floats
    action: Numbers
    reward: Floats
    next_obs: Floats
    """The observation at the next decision."""
    next_mask: Flags
    """Choices that could be taken there."""
    done: Flags
    """There was no next decision: the episode was over."""


class Hyperparameters(NamedTuple):
    """Settings that an update depends on."""

    gamma: float
    learning_rate: float
    loss: str
    clip: float
    target_every: int
    target_rate: float

    @classmethod
    def of(cls, args: QLearningArgs) -> "Hyperparameters":
        """The settings' part."""
        return cls(*(getattr(args, name) for name in cls._fields))

    def optimiser(self) -> optax.GradientTransformation:
        """Adam, behind a clip if there is one."""
        adam = optax.adam(self.learning_rate)
        return optax.chain(optax.clip_by_global_norm(self.clip), adam) if self.clip else adam


class TrainState(NamedTuple):
    """Weights and the optimiser's state, which updates change."""

    network: MLP
    target: MLP
    optimiser: Any
    updates: Array


def initial_state(hyper: Hyperparameters, layers: list[int], key: Array) -> TrainState:
    """First weights; the target network begins as a copy."""
    network = MLP(layers, key)
    return TrainState(network, network, hyper.optimiser().init(network), jnp.zeros((), jnp.int32))


def td_targets(gamma: float, target: MLP, batch: Transitions) -> Array:
    """Targets of the transitions' values."""
    best = jnp.where(batch.next_mask, target(jnp.asarray(batch.next_obs)), -jnp.inf).max(-1)
    return jnp.where(batch.done, batch.reward, batch.reward + gamma * best)


def td_loss(loss: str, network: MLP, batch: Transitions, targets: Array) -> Array:
    """The mean loss of a batch."""
    value = jnp.take_along_axis(network(jnp.asarray(batch.obs)), batch.action[:, None], -1)[:, 0]
    each = optax.huber_loss(value, targets) if loss == "huber" else jnp.square(value - targets)
    return each.mean()


def moved_target(hyper: Hyperparameters, target: MLP, network: MLP, updates: Array) -> MLP:
    """The target network after so many updates: a copy every so often, or a little nearer each time."""
    if hyper.target_every:
        is_due = updates % hyper.target_every == 0
        return jax.tree.map(lambda old, new: jnp.where(is_due, new, old), target, network)  # type: ignore[no-any-return]
    return jax.tree.map(lambda old, new: old + hyper.target_rate * (new - old), target, network)  # type: ignore[no-any-return]


@lru_cache
def updater(hyper: Hyperparameters) -> Callable[[TrainState, Transitions], tuple[TrainState, Array]]:
    """Makes as many updates as there are batches (batches, size, …): the new state, and the loss of each."""
    optimiser = hyper.optimiser()

    def update(state: TrainState, batch: Transitions) -> tuple[TrainState, Array]:
        targets = td_targets(hyper.gamma, state.target, batch)
        loss, gradient = jax.value_and_grad(partial(td_loss, hyper.loss))(state.network, batch, targets)
        change, inner = optimiser.update(gradient, state.optimiser)
        network = optax.apply_updates(state.network, change)
        updates = state.updates + 1
        return TrainState(network, moved_target(hyper, state.target, network, updates), inner, updates), loss

    return jax.jit(lambda state, batches: jax.lax.scan(update, state, batches))


class UpdateSchedule:
    """Schedule of updates: a number for each complete transition, a whole compiled loop at a time."""

    def __init__(self, args: QLearningArgs, due: int = 0) -> None:
        self.due = due
        """Updates that are still to be made."""
        self._args = args
        self._update = updater(Hyperparameters.of(args))

    def update(
        self, state: TrainState, buffer: "ReplayBuffer", completed: int, rng: np.random.Generator
    ) -> tuple[TrainState, list[Array]]:
        """Makes the updates that so many complete transitions bring, as far as they fill a loop."""
        if buffer.added >= max(self._args.warm_up, self._args.batch):
            self.due += completed * self._args.updates
        losses = []
        while self.due >= TOGETHER:
            state, loss = self._update(state, buffer.sample(rng, TOGETHER, self._args.batch))
            self.due -= TOGETHER
            losses.append(loss)
        return state, losses


# Replay buffer and collector


class ReplayBuffer:
    """The newest transitions, to draw batches from."""

    def __init__(self, capacity: int, inputs: int, choices: int) -> None:
        self.capacity = capacity
        self.added = 0
        """Transitions added so far; the buffer holds the last of them."""
        self._rows = Transitions(
            np.zeros((capacity, inputs), np.float32),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.float32),
            np.zeros((capacity, inputs), np.float32),
            np.zeros((capacity, choices), np.bool_),
            np.zeros(capacity, np.bool_),
        )

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, rows: Transitions) -> None:
        """Adds transitions; the oldest make room."""
        count = len(rows.reward)
        kept = range(max(0, count - self.capacity), count)
        at = (self.added + np.asarray(kept, np.int64)) % self.capacity
        pairs: Any = zip(self._rows, rows, strict=True)
        for mine, new in pairs:
            mine[at] = new[kept.start :]
        self.added += count

    def sample(self, rng: np.random.Generator, batches: int, size: int) -> Transitions:
        """Batches (batches, size, …) of equally likely transitions, with repetition."""
        at = rng.integers(0, len(self), (batches, size))
        rows: list[Any] = [rows[at] for rows in self._rows]
        return Transitions(*rows)


WINDOW = 4096
"""Decisions of an environment that may wait for their rewards; older ones are forgotten."""


class PendingTransitions:
    """Decisions whose transitions are not complete: rewards come late, and not in the order of the decisions.

    A decision becomes a transition when both halves are known: what it earned, and the observation at the next
    decision of its environment. A decision that an episode ended with has no next one. Of a decision whose episode
    ended before its reward was known nothing is learned.

    There is a ring for each environment. A decision has the slot of its number modulo the ring's length, so nothing is
    searched for.
    """

    def __init__(self, envs: int, inputs: int, choices: int, window: int = WINDOW) -> None:
        self._window = window
        self._obs = np.zeros((envs, window, inputs), np.float32)
        self._mask = np.zeros((envs, window, choices), np.bool_)
        self._action = np.zeros((envs, window), np.int64)
        self._reward = np.zeros((envs, window), np.float32)
        self._number = np.full((envs, window), -1, np.int64)
        self._is_paid = np.zeros((envs, window), np.bool_)
        self._is_followed = np.zeros((envs, window), np.bool_)
        self._done = np.zeros((envs, window), np.bool_)
        self._envs = np.arange(envs)
        self._now = np.zeros(envs, np.int64)

    def observe(self, obs: Floats, mask: Flags, numbers: Numbers) -> None:
        """Every environment waits for the decision of its number, with this observation and mask."""
        at = (self._envs, numbers % self._window)
        self._obs[at], self._mask[at], self._number[at] = obs, mask, numbers
        self._reward[at] = 0.0
        for flag in (self._is_paid, self._is_followed, self._done):
            flag[at] = False
        self._now = numbers.copy()

    def step(
        self, actions: Numbers, rewards: DelayedRewards, done: Flags, then: tuple[Floats, Flags, Numbers]
    ) -> Transitions:
        """Every environment took its action; `then` is what `observe` is told next. What is complete by now.

        The order is that of the environments and of the slots: it does not depend on when rewards came.
        """
        before, after = self._now, then[2]
        at = (self._envs, before % self._window)
        self._action[at] = actions
        # An action that was not carried out has made no decision, and the next question has its number. If the
        # episode is over, what the decision before led to is not known: the slot is the next episode's.
        moved = after != before
        self._is_followed[at], self._done[at] = moved, moved & done
        cut = done & ~moved
        self._number[self._envs[cut], (before[cut] - 1) % self._window] = -1
        self.observe(*then)
        slots = rewards.decision % self._window
        known = self._number[rewards.env, slots] == rewards.decision
        env, slot = rewards.env[known].astype(np.int64), slots[known]
        np.add.at(self._reward, (env, slot), rewards.reward[known])
        self._is_paid[env, slot] = True
        return self._complete(env * self._window + slot, (self._envs * self._window + at[1])[moved])

    def _complete(self, paid: Numbers, followed: Numbers) -> Transitions:
        """The complete ones among those that something happened to."""
        at = np.divmod(np.unique(np.concatenate([paid, followed])), self._window)
        ready = self._is_paid[at] & self._is_followed[at]
        env, slot = at[0][ready], at[1][ready]
        self._number[env, slot] = -1
        following = (env, (slot + 1) % self._window)
        return Transitions(
            self._obs[env, slot],
            self._action[env, slot],
            self._reward[env, slot],
            self._obs[following],
            self._mask[following],
            self._done[env, slot],
        )


class Collector:
    """Steps a vector environment and fills the replay buffer.

    What it has come to follows from its actions alone. So a training is resumed by taking the same actions again,
    which a simulation does faster than it learned.
    """

    def __init__(self, env: VectorEnv, capacity: int) -> None:
        self.env = env
        self.buffer = ReplayBuffer(capacity, env.inputs, env.choices)
        self.ranges = InputRanges(env.low, env.high)
        self.steps = 0
        """Steps of every environment."""
        self._pending = PendingTransitions(env.envs, env.inputs, env.choices)
        self._actions: list[npt.NDArray[np.uint8]] = []
        self.obs = env.reset()
        self.mask = env.action_masks()
        env.delayed_rewards()
        env.episodes()
        self._pending.observe(self.obs, self.mask, env.decisions())

    def step(self, actions: Numbers) -> tuple[int, Floats]:
        """Takes the actions: how many transitions became complete, and the rewards that became known."""
        self._actions.append(np.asarray(actions, np.uint8))
        self.ranges.add(self.obs)
        step = self.env.step(actions)
        self.obs, self.mask, rewards = step.obs, self.env.action_masks(), self.env.delayed_rewards()
        then = (self.obs, self.mask, self.env.decisions())
        completed = self._pending.step(actions, rewards, step.terminated | step.truncated, then)
        self.buffer.add(completed)
        self.steps += 1
        return len(completed.reward), rewards.reward

    @property
    def actions(self) -> npt.NDArray[np.uint8]:
        """The actions so far: (steps, envs)."""
        return np.array(self._actions, np.uint8).reshape(self.steps, self.env.envs)

    def replay(self, actions: npt.NDArray[np.uint8]) -> None:
        """Takes these actions again, from the beginning."""
        for row in actions:
            self.step(row.astype(np.int64))
        self.env.episodes()


# Curve and checkpoints


def average(values: Sequence[float] | npt.NDArray[Any]) -> float | None:
    """The mean, to six places; none of nothing."""
    return round(float(np.mean(values)), 6) if len(values) else None


class Stats:
    """Figures since the curve's last point."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._returns: list[float] = []
        self._goodputs: list[float] = []
        self._rewards: list[Floats] = []
        self._losses: list[Array] = []

    def add(self, episodes: list[dict[str, Any]], rewards: Floats, losses: list[Array]) -> None:
        """Adds the figures of a step of every environment."""
        self._returns += [episode["return"] for episode in episodes]
        self._goodputs += [episode["goodput_mbps"] for episode in episodes if episode["goodput_mbps"] is not None]
        self._rewards.append(rewards)
        self._losses += losses

    def take(self) -> dict[str, float | None]:
        """The point's figures, and begins anew; none where nothing happened."""
        rewards = np.concatenate([np.zeros(0, np.float32), *self._rewards])
        losses = np.concatenate([np.zeros(0, np.float32), *map(np.asarray, self._losses)])
        figures = {
            "return": average(self._returns),
            "goodput": average(self._goodputs),
            "reward": average(rewards),
            "loss": average(losses),
        }
        self._clear()
        return figures


def save_checkpoint(
    args: QLearningArgs,
    collector: Collector,
    learned: tuple[TrainState, Best[MLP]],
    rest: tuple[np.random.Generator, UpdateSchedule],
) -> None:
    """Writes a checkpoint, if there is a folder."""
    (state, best), (rng, schedule) = learned, rest
    if file := args.file("checkpoint"):
        notes = {"settings": args.settings(), "due": schedule.due, "best": best.notes}
        tree, arrays = (state, best.network), {"actions": collector.actions}
        checkpoint.save(file, collector.steps, tree, rng=rng, arrays=arrays, notes=notes)


def load_checkpoint(
    args: QLearningArgs, collector: Collector, state: TrainState, rng: np.random.Generator
) -> tuple[TrainState, Best[MLP], UpdateSchedule] | None:
    """Resumes from the checkpoint, if that is asked and there is one; the simulations go the same way again."""
    file = args.file("checkpoint")
    kept = checkpoint.restore(file, (state, state.network), rng=rng) if args.resume and file else None
    if kept is None:
        return None
    if kept.notes["settings"] != args.settings():
        raise checkpoint.CheckpointError(f"{file} was written under other settings: remove it, or name another folder")
    collector.replay(kept.arrays["actions"])
    state, network = kept.tree
    return state, Best(network, *kept.notes["best"]), UpdateSchedule(args, kept.notes["due"])
