"""Distributions that an actor draws its actions from: a softmax over choices, or a Dirichlet over shares.

Both take the outputs of a network, (…, outputs), and an action mask, (…, choices), and are compiled code.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma, gammaln, logsumexp

MASKED = -1e9
"""The logit of a masked choice: its probability is 0 and its gradient too."""


@dataclass(frozen=True)
class Categorical:
    """`count` indices, each drawn from the softmax of `choices` outputs of its own."""

    count: int
    choices: int

    @property
    def outputs(self) -> int:
        """Number of the actor's outputs."""
        return self.count * self.choices

    def sample(self, key: Array, outputs: Array, mask: Array) -> Array:
        """Indices (…, count)."""
        return jax.random.categorical(key, self._logits(outputs, mask))

    def mode(self, outputs: Array, mask: Array) -> Array:
        """The likeliest indices (…, count)."""
        return self._logits(outputs, mask).argmax(-1)

    def log_prob(self, outputs: Array, mask: Array, drawn: Array) -> Array:
        """The logarithm of the probability of what was drawn."""
        logs = jax.nn.log_softmax(self._logits(outputs, mask))
        return jnp.take_along_axis(logs, drawn[..., None], -1)[..., 0].sum(-1)

    def entropy(self, outputs: Array, mask: Array) -> Array:
        """The sum over the indices, in nats."""
        logs = jax.nn.log_softmax(self._logits(outputs, mask))
        return -(jnp.exp(logs) * logs).sum((-1, -2))

    def action(self, drawn: Array) -> Array:
        """Action as a simulation takes it."""
        return drawn

    def _logits(self, outputs: Array, mask: Array) -> Array:
        each = outputs.reshape(*outputs.shape[:-1], self.count, self.choices)
        return jnp.where(mask[..., None, :], each, MASKED)


@dataclass(frozen=True)
class Dirichlet:
    """Shares drawn from the Dirichlet distribution whose mean is the softmax of the outputs.

    Its concentrations add up to `concentration`: the larger it is, the nearer to the mean shares are. What is drawn
    are the logarithms of the shares, which are exact where a share is too small for a number of single precision.
    """

    count: int
    concentration: float

    @property
    def outputs(self) -> int:
        """Number of the actor's outputs."""
        return self.count

    def sample(self, key: Array, outputs: Array, mask: Array) -> Array:
        """Logarithms of shares (…, count)."""
        logs = jax.random.loggamma(key, self._alpha(outputs))
        return logs - logsumexp(logs, -1, keepdims=True)

    def mode(self, outputs: Array, mask: Array) -> Array:
        """The logarithms of the mean shares (…, count)."""
        return jax.nn.log_softmax(outputs)

    def log_prob(self, outputs: Array, mask: Array, drawn: Array) -> Array:
        """The logarithm of the density over the simplex."""
        alpha = self._alpha(outputs)
        return ((alpha - 1) * drawn).sum(-1) - self._log_beta(alpha)

    def entropy(self, outputs: Array, mask: Array) -> Array:
        """The differential entropy over the simplex, in nats."""
        alpha = self._alpha(outputs)
        total = alpha.sum(-1)
        spread = (total - self.count) * digamma(total) - ((alpha - 1) * digamma(alpha)).sum(-1)
        return self._log_beta(alpha) + spread

    def action(self, drawn: Array) -> Array:
        """Action as a simulation takes it."""
        return jnp.exp(drawn)

    def _alpha(self, outputs: Array) -> Array:
        return jax.nn.softmax(outputs) * self.concentration

    def _log_beta(self, alpha: Array) -> Array:
        return gammaln(alpha).sum(-1) - gammaln(alpha.sum(-1))


ActionDistribution = Categorical | Dirichlet
