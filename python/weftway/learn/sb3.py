"""A `VecEnv` of Stable-Baselines3 over a native vector environment. `weftway.env.sb3_vec_env` makes one."""

from collections.abc import Iterable, Sequence
from typing import Any

try:
    from stable_baselines3.common.vec_env import VecEnv  # type: ignore[import-not-found,unused-ignore]
except ImportError as error:
    raise ImportError("weftway.learn.sb3 needs Stable-Baselines3: pip install 'weftway[sb3]'") from error
import numpy as np
import numpy.typing as npt

from weftway.learn.spaces import action_space, observation_space
from weftway.vector import VectorEnv


class Sb3VecEnv(VecEnv):  # type: ignore[misc,unused-ignore]
    """Places of a vector as the environments of a `VecEnv`.

    An episode's end has `terminal_observation` and `TimeLimit.truncated` in its info, `episode` as SB3's monitor has
    it (`r`, `l`), and its figures in `row`.
    """

    def __init__(self, vector: VectorEnv) -> None:
        self.vector = vector
        self.render_mode = None
        self._actions: npt.ArrayLike = []
        super().__init__(vector.envs, observation_space(vector), action_space(vector))

    def reset(self) -> npt.NDArray[np.float32]:
        """Begins anew if `seed` was called since the last time; otherwise goes on with the next episodes."""
        seed = self._seeds[0]
        self._reset_seeds()
        return self.vector.renew() if seed is None else self.vector.reset(seed)

    def step_async(self, actions: npt.ArrayLike) -> None:
        """Keeps the actions for `step_wait`."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Answers every place's question."""
        step = self.vector.step(self._actions)
        self.vector.delayed_rewards()
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(truncated)} for truncated in step.truncated]
        if done.any():
            rows, last = self.vector.episodes(), self.vector.final_observations()
            for row in rows:
                place = row["env"]
                infos[place]["terminal_observation"] = last[place]
                infos[place]["episode"] = {"r": row["return"], "l": row["steps"]}
                infos[place]["row"] = row
        return step.obs, step.reward, done, infos

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Mask of the open actions: (environments, actions)."""
        return self.vector.action_masks()

    def close(self) -> None:
        """Does nothing: no resource is held."""

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """The attribute, once per environment."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Sets it for all: the places share everything."""
        setattr(self, attr_name, value)

    def env_method(
        self, method_name: str, *args: Any, indices: int | Iterable[int] | None = None, **kwargs: Any
    ) -> list[Any]:
        """`action_masks` of each environment; they have no other method."""
        if method_name != "action_masks":
            raise AttributeError(f"the environments have no method `{method_name}`")
        masks = self.action_masks()
        return [masks[place] for place in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: int | Iterable[int] | None = None) -> list[bool]:
        """Returns false for each: no environment is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[None]:
        """There is nothing to see."""
        return [None] * self.num_envs
