"""Networks that choose a path from the recent past of all paths: one graph, whose nodes are paths.

All three take the same input and give the same output, for a batch of B decisions over N paths:

    x      (B, N, C, T)   C features of each path over T steps, oldest first
    c      (B, Cp, T)     Cp features of what is to be sent
    alive  (B, N)         1 where the path may be chosen, 0 for a slot without a path
    z      (B, N)         a logit per path; the path with the largest is chosen, and a dead one has -1e9

A dead path has no influence on the others' logits. Sources: Luo et al., the paper of STSGAT (S000 of the literature
list), with Song et al. 2020 (STSGCN) and Wu et al. 2019 (Graph WaveNet) as the baselines it names.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

DEAD = -1e9
"""The logit of a dead path, and what is added to a score that must not count: finite, so that nothing becomes NaN."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the input: N paths, T steps, C features per path and step, Cp features of what is to be sent."""

    paths: int = 4
    steps: int = 12
    features: int = 6
    packet_features: int = 2

    @property
    def channels(self) -> int:
        """C + Cp: what a node sees at a step."""
        return self.features + self.packet_features


class Network(eqx.Module):
    """Common interface of the three networks: how they are called."""

    @abstractmethod
    def __call__(self, x: Array, c: Array, alive: Array, *, key: Array | None = None) -> Array:
        """x (B, N, C, T), c (B, Cp, T), alive (B, N) to z (B, N); with a key as in training (dropout)."""


def joined(x: Array, c: Array) -> Array:
    """x (B, N, C, T) and c (B, Cp, T), which every node sees, as (T, B, N, C + Cp)."""
    everywhere = jnp.broadcast_to(c[:, None], (*x.shape[:2], *c.shape[1:]))
    return jnp.moveaxis(jnp.concatenate([x, everywhere], axis=2), 3, 0)


def silenced(z: Array, alive: Array) -> Array:
    """z (B, N) with `DEAD` where alive (B, N) is 0."""
    return jnp.where(alive > 0, z, DEAD)


def prior(paths: int) -> float:
    """The logit of one path in `paths`: with it as its first bias a readout begins at the frequency of the labels."""
    return -math.log(max(paths - 1, 1))


def support(paths: int) -> np.ndarray:
    """(3N, 3N): which nodes of a local graph are joined, those of three successive steps, step by step.

    Within a step all paths are joined, and themselves (the complete graph); each is joined to itself in the step
    before and after; the first step is not joined to the third. 3N² + 4N entries are 1.
    """
    near = np.eye(3, k=1) + np.eye(3, k=-1)
    joints = np.kron(np.eye(3), np.ones((paths, paths))) + np.kron(near, np.eye(paths))
    return joints.astype(np.float32)
