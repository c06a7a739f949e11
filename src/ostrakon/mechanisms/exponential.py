"""The exponential mechanism: a class with probability proportional to exp(epsilon * votes / 2)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from ostrakon.mechanisms.base import (
    DEFAULT_NOISE,
    EpsilonPerQuery,
    FloatArray,
    Mechanism,
    NoisyArgmax,
    gumbel_deviation,
)
from ostrakon.mechanisms.rdp import rdp_of_bounded_range
from ostrakon.noise import require_rng
from ostrakon.votes import IntArray, Votes


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(Mechanism):
    """Exponential mechanism: class r with probability proportional to exp(epsilon_per_query * n_r / 2). Always answers.

    Parameters
    ----------
    epsilon_per_query : float
        Pure epsilon of one answer; above 0. The same law is argmax_r (n_r + Gumbel noise of scale 2 /
        epsilon_per_query), which is how it is sampled.

    Raises
    ------
    InvalidInput
        If epsilon_per_query is not a finite number above 0.

    Notes
    -----
    Guarantee: moving one vote changes one score by -1 and one by +1, so the log-odds of any two classes change by at
    most epsilon_per_query. The answer has this bounded range, hence is epsilon_per_query-DP, and its Rényi cost is that
    of `rdp_of_bounded_range`, at most order * epsilon_per_query^2 / 8: a fourth of eq. 15 of the paper.

    References
    ----------
    exponential-screening-2024, section 4.3 with the score u = n_r; docs/mathematics.md B.

    Examples
    --------
    >>> mechanism = ExponentialMechanism(epsilon_per_query=0.1)
    >>> bool(mechanism.worst_case(np.array([2.0]))[0] <= 2 * 0.1**2 / 8)
    True
    """

    name: ClassVar[str] = "exponential"

    epsilon_per_query: EpsilonPerQuery

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        return {"epsilon_per_query": gumbel_deviation(DEFAULT_NOISE * teachers)}

    @property
    def vote_noise(self) -> float:
        return gumbel_deviation(self.epsilon_per_query)

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        noise = require_rng(rng).gumbel(scale=2 / self.epsilon_per_query, size=votes.counts.shape)
        return (votes.counts + noise).argmax(axis=1)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        labels = np.asarray(log_softmax(self.epsilon_per_query / 2 * votes.counts, axis=1))
        return np.column_stack([labels, np.full(len(labels), -np.inf)])

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return rdp_of_bounded_range(orders, self.epsilon_per_query)

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax:
        return NoisyArgmax(noise="gumbel", scale=2 / self.epsilon_per_query)

    def pure_dp(self) -> float:
        return self.epsilon_per_query
