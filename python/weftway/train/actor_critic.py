"""Advantage actor-critic: rollouts, n-step returns, and the loss that actor and critic share.

A rollout takes `rollout` decisions of every place. Backwards from its end, or from that of an episode,
`R_k = r_k + γ·R_{k+1}`, begun with V of what is seen then, and with 0 where the transfer is finished. With
`A = R − V(s)` the loss is `Σ −ln π(a|s)·A − β·H + c·A²` over the decisions of a place, A taken as a constant in the
first term, and the mean over the places. Actor and critic are one network, whose last output is V.
"""

from collections.abc import Callable
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

from weftway.train.chance import Chance, Choices, Shares
from weftway.train.limits import Count, Form, Positive, Rate, Share, Weight, Widths
from weftway.train.networks import LSTM, MLP
from weftway.train.replay import Ranges
from weftway.train.session import Session
from weftway.vector import Flags, Floats, Step

FIRST_OUTPUTS = 0.01
"""Scale of the last layer's first weights: the policy begins nearly uniform, and V near 0."""


ADDRESS = r"|auto|local|(ray://)?\S+:\d{1,5}"
"""Where Ray is; or that it is not used."""


@dataclass(frozen=True, kw_only=True)
class Learner(Session):
    """Settings of an actor-critic."""

    network: Widths
    """Widths of the hidden layers."""
    gamma: Share
    """What a reward one decision later is worth."""
    learning_rate: Rate
    """Of Adam, whose moments all workers share."""
    rollout: Count = 20
    """Decisions of a place between two updates."""
    entropy: Weight = 0.01
    """Weight of the entropy: how much the policy is kept from being certain."""
    value: Weight = 0.5
    """Weight of the critic's error."""
    clip: Positive = 40.0
    """Largest norm of a gradient."""
    reward_scale: Positive = 1.0
    """What rewards are multiplied by before they are learned from."""
    trials: Count = 64
    """Scenarios on which checkpoints are compared, never used for a step."""
    workers: Count = 1
    """Processes, each with `envs` places, that send gradients as they have them. More than 1 is not repeatable."""
    ray: Annotated[str, Form(ADDRESS, "auto, local, HOST:PORT or ray://HOST:PORT")] = ""
    """Address of a Ray cluster on which the workers are: `auto`, `local`, HOST:PORT."""

    @property
    def widths(self) -> tuple[int, ...]:
        """The hidden layers."""
        return tuple(int(width) for width in self.network.split("-"))


class Simulations(Protocol):
    """What is practised in: `weftway.vector.Vector`, or anything like it."""

    envs: int
    inputs: int
    kind: str
    actions: int
    choices: int
    low: Floats
    high: Floats

    def reset(self) -> Floats: ...
    def step(self, actions: npt.ArrayLike, /) -> Step: ...
    def last(self) -> Floats: ...
    def masks(self) -> Flags: ...
    def episodes(self) -> list[dict[str, Any]]: ...


def chance(vector: Simulations, concentration: float = 0.0) -> Chance:
    """What the actions of these simulations are drawn from."""
    if vector.kind == "shares":
        return Shares(vector.choices, concentration)
    return Choices(vector.actions, vector.choices)


class ActorCritic(eqx.Module):
    """The outputs of the actor and V, from one trunk."""

    body: MLP | LSTM
    history: int = eqx.field(static=True)
    """Rows of what is seen, for an LSTM."""

    def __call__(self, seen: Array) -> tuple[Array, Array]:
        """(…, inputs) to the actor's outputs (…, outputs) and V (…)."""
        rows = seen.reshape(*seen.shape[:-1], self.history, -1) if self.history else seen
        found = self.body(rows)
        return found[..., :-1], found[..., -1]

    def actor(self) -> MLP | LSTM:
        """The network without V: what a policy file holds."""
        if isinstance(self.body, LSTM):
            made: LSTM = eqx.tree_at(lambda net: net.head, self.body, _less_one(self.body.head))
            return made
        return _less_one(self.body)


def _less_one(dense: MLP) -> MLP:
    """Without the last output."""
    place = lambda net: (net.weights[-1], net.biases[-1])  # noqa: E731
    made: MLP = eqx.tree_at(place, dense, (dense.weights[-1][:, :-1], dense.biases[-1][:-1]))
    return made


def dense(inputs: int, hidden: tuple[int, ...], outputs: int, key: Array) -> ActorCritic:
    """Dense layers with ReLU."""
    return ActorCritic(MLP([inputs, *hidden, outputs + 1], key, last=FIRST_OUTPUTS), 0)


def recurrent(row: tuple[int, int], hidden: tuple[int, ...], outputs: int, key: Array) -> ActorCritic:
    """LSTM layers over (rows, numbers in a row), then a dense layer as wide as the last of them."""
    rows, inputs = row
    return ActorCritic(LSTM(inputs, hidden, [hidden[-1], outputs + 1], key, last=FIRST_OUTPUTS), rows)


class Rollout(NamedTuple):
    """Decisions of every place: (steps, places, …)."""

    seen: Any
    open: Any
    drawn: Any
    reward: Any
    ended: Any
    """The episode was over after this one, …"""
    finished: Any
    """… and so was the transfer."""
    after: Any
    """What was seen next; at the end of an episode, what was seen then."""


class Rule(NamedTuple):
    """What an update depends on."""

    gamma: float
    learning_rate: float
    entropy: float
    value: float
    clip: float
    reward_scale: float

    @classmethod
    def of(cls, args: Learner) -> "Rule":
        """The settings' part."""
        return cls(*(getattr(args, name) for name in cls._fields))

    def optimiser(self) -> optax.GradientTransformation:
        """Adam, behind a clip."""
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adam(self.learning_rate))


class Learned(NamedTuple):
    """The state of a learner."""

    network: ActorCritic
    optimiser: Any


def begin(rule: Rule, network: ActorCritic) -> Learned:
    """Before the first update."""
    return Learned(network, rule.optimiser().init(network))


def returns(gamma: float, reward: Array, ended: Array, yet: Array) -> Array:
    """n-step returns (steps, …); `yet` is what is still to come after an episode's or the rollout's end."""

    def back(later: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        earned, over, rest = row
        found = earned + gamma * jnp.where(over, rest, later)
        return found, found

    return jax.lax.scan(back, yet[-1], (reward, ended, yet), reverse=True)[1]


def loss(rule: Rule, law: Chance, network: ActorCritic, rows: Rollout) -> Array:
    """Of actor and critic, over one rollout."""
    outputs, value = network(rows.seen)
    yet = jnp.where(rows.finished, 0.0, network(rows.after)[1])
    wanted = jax.lax.stop_gradient(returns(rule.gamma, rule.reward_scale * rows.reward, rows.ended, yet))
    error = wanted - value
    gained = law.log_chance(outputs, rows.open, rows.drawn) * jax.lax.stop_gradient(error)
    each = -gained - rule.entropy * law.entropy(outputs, rows.open) + rule.value * jnp.square(error)
    return each.sum(0).mean()


class Compiled(NamedTuple):
    """What is compiled for a rule and a chance."""

    draw: Callable[[ActorCritic, Array, Floats, Flags], tuple[Array, Array]]
    """What is drawn, and what the simulation is told."""
    best: Callable[[ActorCritic, Floats, Flags], Array]
    """What the simulation is told without chance."""
    gradient: Callable[[ActorCritic, Rollout], tuple[Array, ActorCritic]]
    """The loss and its gradient."""
    apply: Callable[[Learned, ActorCritic], Learned]
    """One update."""


@lru_cache
def compiled(rule: Rule, law: Chance) -> Compiled:
    """The functions of a learner."""
    optimiser = rule.optimiser()

    def draw(network: ActorCritic, key: Array, seen: Array, open_: Array) -> tuple[Array, Array]:
        drawn = law.draw(key, network(seen)[0], open_)
        return drawn, law.answer(drawn)

    def best(network: ActorCritic, seen: Array, open_: Array) -> Array:
        return law.answer(law.best(network(seen)[0], open_))

    def apply(state: Learned, gradient: ActorCritic) -> Learned:
        change, inner = optimiser.update(gradient, state.optimiser)
        return Learned(optax.apply_updates(state.network, change), inner)

    gradient = jax.value_and_grad(partial(loss, rule, law))
    return Compiled(jax.jit(draw), jax.jit(best), jax.jit(gradient), jax.jit(apply))


class Places:
    """Simulations side by side, with what was done in them: what they have come to follows from the actions alone."""

    def __init__(self, vector: Simulations) -> None:
        self.vector = vector
        self.ranges = Ranges(vector.low, vector.high)
        self.seen = vector.reset()
        self.open = vector.masks()
        self.taken: list[Floats] = []
        vector.episodes()

    def roll(self, act: Compiled, network: ActorCritic, key: Array, steps: int) -> Rollout:
        """The next `steps` decisions of every place."""
        rows = [self._decide(act, network, one) for one in jax.random.split(key, steps)]
        return Rollout(*(np.stack(column) for column in zip(*rows, strict=True)))

    def _decide(self, act: Compiled, network: ActorCritic, key: Array) -> Rollout:
        seen, open_ = self.seen, self.open
        drawn, answer = act.draw(network, key, seen, open_)
        step = self.take(np.asarray(answer, np.float32))
        ended = step.terminated | step.truncated
        after = np.where(ended[:, None], self.vector.last(), self.seen) if ended.any() else self.seen
        return Rollout(seen, open_, np.asarray(drawn), step.reward, ended, step.terminated, after)

    def take(self, answer: Floats) -> Step:
        """Takes these actions: (places, actions)."""
        self.taken.append(answer)
        self.ranges.add(self.seen)
        step = self.vector.step(answer)
        self.seen, self.open = step.seen, self.vector.masks()
        return step

    def retrace(self, taken: Floats) -> None:
        """Takes the actions of an earlier training again."""
        for answer in taken:
            self.take(answer)
        self.vector.episodes()
