"""The native vector environment with numpy arrays: many simulations, one call per step.

Shapes: `envs` environments run side by side; observations are (envs, inputs) float32. An episode that ends is followed
by the next of its environment within the same step; `final_observations` has what was observed at its end. What
`delayed_rewards` and `episodes` return is kept until they are called: some 30 bytes a step, and a row an episode.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weftway._native import Variant
from weftway._native import VectorEnv as NativeVectorEnv

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class Step(NamedTuple):
    """What one step brought. The arrays are the caller's."""

    obs: Floats
    reward: Floats
    """What became known of earlier decisions since the step before, summed per environment."""
    terminated: Flags
    """The transfer is finished."""
    truncated: Flags
    """Time ran out."""


class DelayedRewards(NamedTuple):
    """Rewards with the decisions that earned them."""

    env: npt.NDArray[np.int32]
    decision: Numbers
    """Counted over all episodes of an environment."""
    reward: Floats


class VectorEnv:
    """Episodes of one task, drawn from a pool of scenarios and controllers.

    >>> from weftway import Scenario
    >>> variants = Scenario.load("scenarios/wifi-lte.toml").variants()
    >>> vector = VectorEnv("path:slots=2", variants, ["bbr1"], envs=4, seed=1)
    >>> vector.reset().shape, vector.kind, vector.choices
    ((4, 10), 'discrete', 3)
    """

    def __init__(
        self,
        task: str,
        variants: Sequence[Variant],
        controllers: Sequence[str],
        envs: int,
        seed: int,
        threads: int = 1,
    ) -> None:
        self._native = NativeVectorEnv(task, list(variants), list(controllers), envs, seed, threads)
        self.task = task
        self.envs = envs
        self.inputs: int = self._native.inputs
        self.names: list[str] = self._native.names
        self.low = np.asarray(self._native.low, np.float32)
        self.high = np.asarray(self._native.high, np.float32)
        self.kind: str = self._native.kind
        """`discrete`, `several` (that many indices) or `shares` (on the simplex)."""
        self.actions: int = self._native.actions
        """How many numbers an answer has."""
        self.choices: int = self._native.choices
        """Of how many choices each is; of shares, how many."""

    def reset(self, seed: int | None = None) -> Floats:
        """Begins anew; equal seeds and actions give equal observations."""
        obs = np.empty((self.envs, self.inputs), np.float32)
        self._native.reset(obs, seed)
        return obs

    def renew(self) -> Floats:
        """Leaves every episode under way for the next of its environment; one that was not stepped yet stays."""
        obs = np.empty((self.envs, self.inputs), np.float32)
        self._native.renew(obs)
        return obs

    def step(self, actions: npt.ArrayLike) -> Step:
        """Takes an action in every environment: (envs,) or (envs, actions)."""
        answers = np.ascontiguousarray(np.asarray(actions, np.float32).reshape(self.envs, self.actions))
        obs = np.empty((self.envs, self.inputs), np.float32)
        reward = np.empty(self.envs, np.float32)
        ended = np.empty((2, self.envs), np.bool_)
        flags = ended.view(np.uint8)
        self._native.step(answers, obs, (reward, flags[0], flags[1]))
        return Step(obs, reward, ended[0], ended[1])

    def final_observations(self) -> Floats:
        """The last observation of the episode that ended last, of each environment."""
        obs = np.empty((self.envs, self.inputs), np.float32)
        self._native.last(obs)
        return obs

    def action_masks(self) -> Flags:
        """Which choices may be taken: (envs, choices)."""
        mask = np.empty((self.envs, self.choices), np.bool_)
        self._native.masks(mask.view(np.uint8))
        return mask

    def decisions(self) -> Numbers:
        """The number of the decision that each environment waits for."""
        numbers = np.empty(self.envs, np.int64)
        self._native.decisions(numbers)
        return numbers

    def delayed_rewards(self) -> DelayedRewards:
        """Rewards that became known since the last call, with their decisions."""
        env, decision, reward = self._native.closed()
        return DelayedRewards(
            np.frombuffer(env, np.int32), np.frombuffer(decision, np.int64), np.frombuffer(reward, np.float32)
        )

    def episodes(self) -> list[dict[str, Any]]:
        """The episodes that ended since the last call: draw, `return`, `steps`, `packets` and the figures of a row."""
        return [json.loads(text) for text in self._native.episodes()]

    def drawn(self) -> list[dict[str, Any]]:
        """The scenario (index into the pool), controller and seed of each environment's present episode."""
        return self._native.drawn()
