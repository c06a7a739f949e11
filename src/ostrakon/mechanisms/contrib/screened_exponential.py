"""Screening: a noisy test (Laplace) whether the teachers agree, then the exponential mechanism."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from ostrakon.mechanisms.base import (
    DEFAULT_NOISE,
    NO_ANSWER,
    EpsilonPerQuery,
    FloatArray,
    Mechanism,
    NoisyArgmax,
    Threshold,
    ThresholdScale,
    ThresholdTest,
    gumbel_deviation,
)
from ostrakon.mechanisms.laws.laplace import laplace_log_above
from ostrakon.mechanisms.rdp import rdp_of_bounded_range, rdp_of_pure_dp
from ostrakon.mechanisms.registry import register
from ostrakon.noise import require_rng
from ostrakon.votes import IntArray, Votes


@register
@dataclass(frozen=True, kw_only=True)
class ScreenedExponential(Mechanism):
    """If max_j n_j + Lap(sigma1) > threshold, the exponential mechanism's answer; else no answer.

    Parameters
    ----------
    threshold : float
        T, in votes; finite.
    sigma1 : float
        Scale of the threshold's Laplace noise, in votes; above 0 (the paper's symbol; the standard deviation is
        sqrt(2) sigma1).
    epsilon_per_query : float
        Pure epsilon of one answer of the exponential mechanism; above 0 (`1 / sigma2` in the paper).

    Raises
    ------
    InvalidInput
        If threshold is not finite, or sigma1 or epsilon_per_query is not a finite number above 0.

    Notes
    -----
    Guarantee: moving one vote changes the top count by at most 1, so the check is 1/sigma1-DP, and no less. (The
    paper's 2/sigma1 holds and is twice as much; its tighter eq. 12 lacks the logarithm, the refusal and the other
    direction.) The answer has bounded range: `rdp_of_pure_dp(1/sigma1) + rdp_of_bounded_range(epsilon)`, and 1/sigma1 +
    epsilon under pure differential privacy.

    The paper's section 4.6 (publishing a q with noise scaled to its local sensitivity) is not private and is not built:
    at a nominal epsilon of 1 and 80 teachers its delta is 0.034.

    References
    ----------
    exponential-screening-2024, Algorithm 1; docs/mathematics.md B and F.

    Examples
    --------
    >>> ScreenedExponential(threshold=150, sigma1=25, epsilon_per_query=0.25).pure_dp()
    0.29
    """

    name: ClassVar[str] = "screened-exponential"

    threshold: Threshold
    sigma1: ThresholdScale
    epsilon_per_query: EpsilonPerQuery

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        return {
            "threshold": 0.6 * teachers,
            "sigma1": 0.1 * teachers,
            "epsilon_per_query": gumbel_deviation(DEFAULT_NOISE * teachers),
        }

    @property
    def vote_noise(self) -> float:
        return gumbel_deviation(self.epsilon_per_query)

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        check = votes.top + require_rng(rng).laplace(scale=self.sigma1, size=votes.queries)
        noise = rng.gumbel(scale=2 / self.epsilon_per_query, size=votes.counts.shape)
        return np.where(check > self.threshold, (votes.counts + noise).argmax(axis=1), NO_ANSWER)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        passed, refused = laplace_log_above(votes.top.astype(np.float64) - self.threshold, self.sigma1)
        labels = np.asarray(log_softmax(self.epsilon_per_query / 2 * votes.counts, axis=1))
        return np.column_stack([labels + passed[:, None], refused])

    def worst_case(self, orders: FloatArray) -> FloatArray:
        check = rdp_of_pure_dp(orders, 1 / self.sigma1)
        return check + rdp_of_bounded_range(orders, self.epsilon_per_query)

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax:
        threshold_test = ThresholdTest(threshold=self.threshold, noise="laplace", scale=self.sigma1)
        return NoisyArgmax(noise="gumbel", scale=2 / self.epsilon_per_query, threshold_test=threshold_test)

    def pure_dp(self) -> float:
        return 1 / self.sigma1 + self.epsilon_per_query
