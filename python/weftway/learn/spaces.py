"""Gymnasium's spaces for what an agent sees and answers."""

from typing import Any

import gymnasium as gym
import numpy as np

from weftway.vector import VectorEnv


def observation_space(vector: VectorEnv) -> gym.spaces.Box:
    """The observation space of one environment."""
    return gym.spaces.Box(vector.low, vector.high, dtype=vector.low.dtype.type)


def action_space(vector: VectorEnv) -> gym.Space[Any]:
    """The action space of one environment."""
    match vector.kind:
        case "discrete":
            return gym.spaces.Discrete(vector.choices)
        case "several":
            return gym.spaces.MultiDiscrete([vector.choices] * vector.actions)
        case _:
            return gym.spaces.Box(0.0, 1.0, (vector.actions,), np.float32)
