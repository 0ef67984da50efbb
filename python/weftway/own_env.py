"""A vector environment whose observation or reward is a Python function of the raw state: `weftway.state`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weftway._native import Variant
from weftway.state import State
from weftway.vector import Flags, Floats, Step, VectorEnv

Observe = Callable[[State], npt.ArrayLike]
"""From the state, (envs,), to an observation of each environment: (envs, …). It has no effect: it is called whenever an
observation is needed. The array is the environment's and is overwritten by the next step."""

Reward = Callable[[State, npt.NDArray[Any], State], npt.ArrayLike]
"""From the state before the step, the actions, and the state after it, to a reward of each environment: (envs,).
Where the episode ended, the state after is the one at its end."""


class OwnVectorEnv(VectorEnv):
    """A `VectorEnv` with an observation of one's own, or a reward, or both.

    `delayed_rewards` are still those of the task. A row's `return` adds up the rewards that were given.
    """

    def __init__(
        self,
        task: str,
        variants: Sequence[Variant],
        controllers: Sequence[str],
        envs: int,
        seed: int,
        threads: int = 1,
        observe: Observe | None = None,
        bounds: tuple[Floats, Floats] | None = None,
        reward: Reward | None = None,
    ) -> None:
        if (observe is None) != (bounds is None):
            raise ValueError("`observe` and `observation_space` belong together: give both or neither")
        super().__init__(task, variants, controllers, envs, seed, threads)
        self._observe, self._reward = observe, reward
        if bounds is not None:
            self.low, self.high = bounds
        self._shape = (envs, *self.low.shape)
        self._now, self._before, self._ended = (self.empty_state() for _ in range(3))
        self._over: Flags = np.zeros(envs, np.bool_)
        self._gained = np.zeros(envs)
        self._returns: list[list[float]] = [[] for _ in range(envs)]

    def reset(self, seed: int | None = None) -> Floats:
        """Begins anew; equal seeds and actions give equal observations."""
        obs = super().reset(seed)
        self._returns = [[] for _ in range(self.envs)]
        return self._begun(obs)

    def renew(self) -> Floats:
        """Leaves every episode under way for the next of its environment; one that was not stepped yet stays."""
        return self._begun(super().renew())

    def step(self, actions: npt.ArrayLike) -> Step:
        """Takes an action in every environment."""
        self._before, self._now = self._now, self._before
        step = super().step(actions)
        self._over = step.terminated | step.truncated
        self.state(self._now)
        if self._over.any():
            self.final_state(self._ended)
        reward = self._rewarded(np.asarray(actions), step.reward)
        self._add_up(reward)
        return step._replace(obs=self._observed(self._now, step.obs), reward=reward)

    def final_observations(self) -> Floats:
        """The last observation of the episode that ended last, of each environment."""
        return self._observed(self.final_state(), super().final_observations())

    def episodes(self) -> list[dict[str, Any]]:
        """The episodes that ended since the last call."""
        return [{**row, "return": self._returns[row["env"]].pop(0)} for row in super().episodes()]

    def _begun(self, obs: Floats) -> Floats:
        self.state(self._now)
        self._gained[:] = 0.0
        return self._observed(self._now, obs)

    def _observed(self, state: State, obs: Floats) -> Floats:
        if self._observe is None:
            return obs
        return _checked(self._observe(state), self._shape, "observe", self.low.dtype)

    def _rewarded(self, actions: npt.NDArray[Any], reward: Floats) -> Floats:
        if self._reward is None:
            return reward
        after = self._now
        if self._over.any():
            after = np.where(self._over, self._ended, self._now)
        return _checked(self._reward(self._before, actions, after), (self.envs,), "reward", np.dtype(np.float32))

    def _add_up(self, reward: Floats) -> None:
        self._gained += reward
        for place in np.flatnonzero(self._over):
            self._returns[place].append(float(self._gained[place]))
            self._gained[place] = 0.0


def _checked(given: npt.ArrayLike, shape: tuple[int, ...], name: str, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """What a function gave, as the environment hands it on: a copy, since the function's array may be the state's."""
    try:
        found = np.array(given, kind)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` returned no array of numbers: {error}") from error
    if found.shape != shape:
        raise ValueError(f"`{name}` returned the shape {found.shape}; expected {shape}: a row for each environment")
    if not np.isfinite(found).all():
        place = int(np.argwhere(~np.isfinite(found))[0][0])
        raise ValueError(f"`{name}` returned a number that is not finite, for environment {place}")
    return found
