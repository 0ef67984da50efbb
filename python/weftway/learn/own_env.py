"""A vector environment whose observation or reward is a Python function of the raw state: `weftway.state`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weftway._native import Variant
from weftway.state import State
from weftway.vector import Flags, Floats, Step, VectorEnv

Observe = Callable[[State], npt.ArrayLike]
"""Function of the state, (envs,): an observation of each environment, (envs, …). It has no effect: it is called when an
observation is needed. The array is the environment's and is overwritten by the next step."""

Reward = Callable[[State, npt.NDArray[Any], State], npt.ArrayLike]
"""Function of the state before the step, the actions and the state after it: a reward of each environment, (envs,).
Where the episode ended, the state after is the one at its end. The actions are whole numbers, (envs,), if the space is
`Discrete`; whole numbers, (envs, actions), if it is `MultiDiscrete`; float32, (envs, actions), if it is a `Box`."""


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
        for name, given in (("observe", observe), ("reward", reward)):
            if given is not None and not callable(given):
                raise ValueError(f"`{name}` is {given!r}: expected a function of the state")
        super().__init__(task, variants, controllers, envs, seed, threads)
        self._observe, self._reward = observe, reward
        if bounds is not None:
            self.low, self.high = bounds
        self._shape = (envs, *self.low.shape)
        self._now, self._before, self._ended = (self.empty_state() for _ in range(3))
        self._over, self._have_ended = np.zeros(envs, np.bool_), np.zeros(envs, np.bool_)
        self._gained = np.zeros(envs)
        self._rows: list[dict[str, Any]] = []

    def reset(self, seed: int | None = None) -> Floats:
        """Begins anew; equal seeds and actions give equal observations."""
        obs = super().reset(seed)
        self._rows = []
        self._have_ended[:] = False
        return self._begun(obs)

    def renew(self) -> Floats:
        """Leaves every episode under way for the next of its environment; one that was not stepped yet stays."""
        return self._begun(super().renew())

    def step(self, actions: npt.ArrayLike) -> Step:
        """Takes an action in every environment. Of a step that fails, there are neither rewards nor rows."""
        self._gained[self._over] = 0.0
        try:
            step = super().step(actions)
        except BaseException:  # wherever that left the connections, the next step begins there
            self.state(self._now)
            super().episodes()
            raise
        self._before, self._now = self._now, self._before
        self.state(self._now)
        self._over = step.terminated | step.truncated
        self._have_ended |= self._over
        rows = super().episodes()
        reward = self._rewarded(actions, step.reward)
        obs = self._observed(self._now, step.obs)
        self._gained += reward
        self._rows += [{**row, "return": float(self._gained[row["env"]])} for row in rows]
        return step._replace(obs=obs, reward=reward)

    def final_observations(self) -> Floats:
        """The last observation of the episode that ended last, of each environment; zeros where none has ended."""
        obs = self._observed(self._at_the_end(self._have_ended), super().final_observations())
        obs[~self._have_ended] = 0
        return obs

    def episodes(self) -> list[dict[str, Any]]:
        """The episodes that ended since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def _begun(self, obs: Floats) -> Floats:
        self.state(self._now)
        self._gained[:] = 0.0
        return self._observed(self._now, obs)

    def _at_the_end(self, where: Flags) -> State:
        """There the state at the end of the last episode, elsewhere the present one: each is of a connection."""
        return np.where(where, self.final_state(self._ended), self._now) if where.any() else self._now

    def _observed(self, state: State, obs: Floats) -> Floats:
        if self._observe is None:
            return obs
        return _checked(self._observe(state), self._shape, "observe", self.low.dtype)

    def _rewarded(self, actions: npt.ArrayLike, reward: Floats) -> Floats:
        if self._reward is None:
            return reward
        given = self._reward(self._before, self._in_the_space(actions), self._at_the_end(self._over))
        return _checked(given, (self.envs,), "reward", np.dtype(np.float32))

    def _in_the_space(self, actions: npt.ArrayLike) -> npt.NDArray[Any]:
        """Actions that were taken, as the batch of the action space has them, however they were given."""
        shape = (self.envs,) if self.kind == "discrete" else (self.envs, self.actions)
        return np.asarray(actions, np.float32 if self.kind == "shares" else np.int64).reshape(shape)


def _checked(given: npt.ArrayLike, shape: tuple[int, ...], name: str, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns a copy of a function's array, in the type asked for: the array itself may be the state's."""
    try:
        returned = np.asarray(given)
        if returned.dtype.kind not in "biufO":
            raise TypeError(f"it has the type {returned.dtype}")
        with np.errstate(all="ignore"):  # what does not fit is refused below
            array = returned.astype(kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"`{name}` returned no array of numbers of the type {kind}: {error}") from error
    if array.shape != shape:
        raise ValueError(f"`{name}` returned the shape {array.shape}; expected {shape}: a row for each environment")
    fits = np.isfinite(array) if kind.kind == "f" else array == returned
    if not fits.all():
        place, *_ = at = tuple(np.argwhere(~fits)[0])
        wrong = "that is not finite" if kind.kind == "f" else f"that {kind}, the type of its space, does not have"
        raise ValueError(f"`{name}` returned a number {wrong}, for environment {place}: {returned[at]}")
    return array
