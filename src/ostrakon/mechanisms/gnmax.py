"""GNMax: the largest count with Gaussian noise."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ostrakon.mechanisms.base import DEFAULT_NOISE, FloatArray, Mechanism, NoisyArgmax, VoteSigma
from ostrakon.mechanisms.laws.gaussian import gaussian_argmax_log_probabilities
from ostrakon.noise import require_rng
from ostrakon.votes import IntArray, Votes


@dataclass(frozen=True, kw_only=True)
class GNMax(Mechanism):
    """GNMax: argmax_j (n_j + N(0, sigma2^2)). It always answers.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the vote noise, in votes; above 0.

    Raises
    ------
    InvalidInput
        If sigma2 is not a finite number above 0.

    Notes
    -----
    Guarantee: moving one vote changes the histogram by sqrt(2) in L2. One query is therefore Rényi-DP at
    `order / sigma2^2`, and sqrt(2)/sigma2 Gaussian-DP as a noisy histogram.

    References
    ----------
    pate-2018, section 4.1 and Proposition 8.

    Examples
    --------
    >>> GNMax(sigma2=40).worst_case(np.array([2.0]))
    array([0.00125])
    """

    name: ClassVar[str] = "gnmax"

    sigma2: VoteSigma

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        return {"sigma2": DEFAULT_NOISE * teachers}

    @property
    def vote_noise(self) -> float:
        return self.sigma2

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        noise = require_rng(rng).normal(scale=self.sigma2, size=votes.counts.shape)
        return (votes.counts + noise).argmax(axis=1)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        labels = gaussian_argmax_log_probabilities(votes.counts.astype(np.float64), self.sigma2)
        return np.column_stack([labels, np.full(len(labels), -np.inf)])

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return orders / self.sigma2**2

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax:
        return NoisyArgmax(noise="gaussian", scale=self.sigma2)

    def gaussian_dp(self) -> tuple[float, float]:
        return 0.0, math.sqrt(2) / self.sigma2
