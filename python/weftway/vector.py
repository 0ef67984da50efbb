"""The native vector environment with numpy arrays: many simulations, one call per step.

Shapes: `envs` environments run side by side; observations are (envs, inputs) float32. An episode that ends is followed
by the next of its environment within the same step; `final_observations` has what was observed at its end. What
`delayed_rewards` and `episodes` return is kept until they are called: some 30 bytes a step, and a row an episode.

`copy.deepcopy` gives environments that go on as these would. `pickle` keeps what they were made from and the actions of
the episodes under way, and plays these again: the code and the traces that scenarios read must be the same.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weftway._native import Variant
from weftway._native import VectorEnv as NativeVectorEnv
from weftway.state import State, empty, numbers

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class Step(NamedTuple):
    """Result of a step. The arrays are the caller's."""

    obs: Floats
    reward: Floats
    """Reward that became known of earlier decisions since the step before, summed per environment."""
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
        envs, threads = count(envs, "environments"), count(threads, "threads")
        self._native = NativeVectorEnv(task, list(variants), list(controllers), envs, _checked(seed), threads)
        self.task = task
        self.envs = envs
        self.inputs: int = self._native.inputs
        self.names: list[str] = self._native.names
        self.low = np.asarray(self._native.low, np.float32)
        self.high = np.asarray(self._native.high, np.float32)
        self.kind: str = self._native.kind
        """`discrete`, `several` (that many indices) or `shares` (on the simplex)."""
        self.actions: int = self._native.actions
        """Number of values in an answer."""
        self.choices: int = self._native.choices
        """Choices of each value; of shares, how many there are."""
        self.space: str = self._native.space
        """The space of one environment's action, as Gymnasium writes it: `Discrete(4)`."""

    def reset(self, seed: int | None = None) -> Floats:
        """Begins anew; equal seeds and actions give equal observations."""
        obs = np.empty((self.envs, self.inputs), np.float32)
        self._native.reset(obs, None if seed is None else _checked(seed))
        return obs

    def renew(self) -> Floats:
        """Leaves every episode under way for the next of its environment; one that was not stepped yet stays."""
        obs = np.empty((self.envs, self.inputs), np.float32)
        self._native.renew(obs)
        return obs

    def step(self, actions: npt.ArrayLike) -> Step:
        """Takes an action in every environment: (envs,) if an action is one number, or (envs, actions).

        What is not in the space is refused with a `ValueError`, and no environment takes a step. Shares need not add up
        to 1: they are brought to it, and are all equal if none is positive.
        """
        shapes = [(self.envs, self.actions), *([(self.envs,)] if self.actions == 1 else [])]
        answers = self.answers(actions, shapes)
        obs = np.empty((self.envs, self.inputs), np.float32)
        reward = np.empty(self.envs, np.float32)
        ended = np.empty((2, self.envs), np.bool_)
        flags = ended.view(np.uint8)
        self._native.step(answers, obs, (reward, flags[0], flags[1]))
        return Step(obs, reward, ended[0], ended[1])

    def answers(self, actions: npt.ArrayLike, shapes: Sequence[tuple[int, ...]], kinds: str = "biuf") -> Floats:
        """The actions as `step` takes them: (envs, actions). They have one of the shapes, and a type of these kinds."""
        try:
            given = np.asarray(actions)
        except ValueError:  # lists of different lengths
            given = np.asarray(None)
        if given.dtype.kind not in kinds or given.shape not in shapes:
            shown = repr(actions) if given.size <= 8 else f"{given.dtype} of shape {given.shape}"
            kind = "numbers" if "f" in kinds else "whole numbers"
            expected = " or ".join(map(str, shapes))
            raise ValueError(f"the action {shown} is not in {self.space}: expected {kind} of shape {expected}")
        return np.ascontiguousarray(given.reshape(self.envs, self.actions), np.float32)

    def final_observations(self) -> Floats:
        """The last observation of the episode that ended last, of each environment."""
        obs = np.empty((self.envs, self.inputs), np.float32)
        self._native.last(obs)
        return obs

    def state(self, out: State | None = None) -> State:
        """The raw state of each connection at its question, written into `out` if given: `weftway.state`."""
        out = self.empty_state() if out is None else out
        self._native.state(numbers(out))
        return out

    def final_state(self, out: State | None = None) -> State:
        """The raw state at the end of the episode that ended last, of each environment."""
        out = self.empty_state() if out is None else out
        self._native.last_state(numbers(out))
        return out

    def empty_state(self) -> State:
        """An array for `state` and `final_state`."""
        return empty(self.envs, self._native.paths)

    def action_masks(self) -> Flags:
        """Mask of the choices that may be taken: (envs, choices)."""
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


def count(number: int, of: str) -> int:
    """Checks a number of something, of which there is at least one."""
    if not isinstance(number, int | np.integer) or not 1 <= number < 2**31:
        raise ValueError(f"{number!r} {of}: expected a whole number from 1 on")
    return int(number)


def _checked(seed: int) -> int:
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise ValueError(f"the seed {seed}: expected a whole number from 0 to 2^64 - 1")
    return int(seed)
