"""LNMax: the largest count with Laplace noise, the aggregation of the first PATE paper."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ostrakon.mechanisms.base import DEFAULT_NOISE, FloatArray, Gamma, Mechanism, NoisyArgmax, laplace_deviation
from ostrakon.mechanisms.laws.laplace import laplace_argmax_log_probabilities
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.noise import require_rng
from ostrakon.votes import IntArray, Votes


@dataclass(frozen=True, kw_only=True)
class LNMax(Mechanism):
    """LNMax: argmax_j (n_j + Lap(1/gamma)). It always answers.

    Parameters
    ----------
    gamma : float
        Inverse scale of the Laplace noise, per vote; above 0 (the papers' scale 20 is gamma = 0.05).

    Raises
    ------
    InvalidInput
        If gamma is not a finite number above 0.

    Notes
    -----
    Guarantee: moving one vote changes the histogram by 2 in L1. One query is therefore 2 gamma-DP, and this is tight.

    References
    ----------
    pate-2017, section 2.1 and Theorem 2; docs/mathematics.md B.

    Examples
    --------
    >>> LNMax(gamma=0.05).pure_dp()
    0.1
    """

    name: ClassVar[str] = "lnmax"

    gamma: Gamma

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        return {"gamma": laplace_deviation(DEFAULT_NOISE * teachers)}

    @property
    def vote_noise(self) -> float:
        return laplace_deviation(self.gamma)

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        noise = require_rng(rng).laplace(scale=1 / self.gamma, size=votes.counts.shape)
        return (votes.counts + noise).argmax(axis=1)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        labels = laplace_argmax_log_probabilities(votes.counts.astype(np.float64), 1 / self.gamma)
        return np.column_stack([labels, np.full(len(labels), -np.inf)])

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return rdp_of_pure_dp(orders, 2 * self.gamma)

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax:
        return NoisyArgmax(noise="laplace", scale=1 / self.gamma)

    def pure_dp(self) -> float:
        return 2 * self.gamma
