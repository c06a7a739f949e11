"""Permute-and-flip: the largest count with exponential noise, and its outcome law."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ostrakon.mechanisms.base import DEFAULT_NOISE, EpsilonPerQuery, FloatArray, Mechanism, gumbel_deviation
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.mechanisms.registry import register
from ostrakon.noise import require_rng
from ostrakon.validation import positive
from ostrakon.votes import IntArray, Votes


@register
@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(Mechanism):
    """Permute-and-flip: argmax_r (n_r + Exp(2 / epsilon_per_query)), which has the same law. It always answers.

    Parameters
    ----------
    epsilon_per_query : float
        Pure epsilon of one answer; above 0.

    Raises
    ------
    InvalidInput
        If epsilon_per_query is not a finite number above 0.

    Notes
    -----
    Guarantee: epsilon_per_query-DP and no more. Its answers are not of bounded range, so the order * epsilon^2 / 8 of
    the exponential mechanism does not hold (at equal votes its Rényi cost is four times that). It is charged as any
    pure-DP mechanism, about order * epsilon^2 / 2. At equal epsilon it names the plurality at least as often as the
    exponential mechanism.

    References
    ----------
    McKenna and Sheldon 2020, Theorems 1 and 2; docs/mathematics.md B.

    Examples
    --------
    >>> PermuteAndFlip(epsilon_per_query=0.1).pure_dp()
    0.1
    """

    name: ClassVar[str] = "permute-and-flip"

    epsilon_per_query: EpsilonPerQuery

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        return {"epsilon_per_query": gumbel_deviation(DEFAULT_NOISE * teachers)}

    @property
    def vote_noise(self) -> float:
        return gumbel_deviation(self.epsilon_per_query)

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        noise = require_rng(rng).exponential(scale=2 / self.epsilon_per_query, size=votes.counts.shape)
        return (votes.counts + noise).argmax(axis=1)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        labels = exponential_argmax_log_probabilities(votes.counts.astype(np.float64), 2 / self.epsilon_per_query)
        return np.column_stack([labels, np.full(len(labels), -np.inf)])

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return rdp_of_pure_dp(orders, self.epsilon_per_query)

    def pure_dp(self) -> float:
        return self.epsilon_per_query


_CHUNK = 4_000_000


def exponential_argmax_log_probabilities(scores: FloatArray, scale: float) -> FloatArray:
    """Log probability that each class has the largest of `scores + Exp(scale)`, shape (queries, classes).

    scores: real, shape (queries, classes). scale: mean of the exponential noise, above 0.

    With `w_j = exp(-(s_1 - s_j) / scale)` the probability of class i is
    `w_i` times the integral over u in (0, 1) of `prod_{j != i} (1 - w_j u)`: a polynomial of degree
    classes - 1, which Gauss-Legendre sums exactly with ceil(classes / 2) nodes. Every term is positive, so the
    relative error is that of rounding, about `classes` units in the last place, ties included.
    Source: McKenna and Sheldon 2020, Theorem 5 (permute-and-flip); Ding et al. 2021 (its exponential noise).
    """
    scale = positive("scale", scale)
    log_w = scores / scale
    log_w = log_w - log_w.max(axis=1, keepdims=True)
    queries, classes = log_w.shape
    nodes, weights = np.polynomial.legendre.leggauss((classes + 1) // 2)
    u, log_weights = (nodes + 1) / 2, np.log(weights / 2)
    result = np.empty_like(log_w)
    step = max(1, _CHUNK // (classes * len(u)))
    for start in range(0, queries, step):
        rows = slice(start, start + step)
        factors = np.log1p(-np.exp(log_w[rows])[:, :, None] * u)
        terms = factors.sum(axis=1, keepdims=True) - factors + log_weights
        peak = terms.max(axis=2, keepdims=True)
        result[rows] = log_w[rows] + np.log(np.exp(terms - peak).sum(axis=2)) + peak[:, :, 0]
    return np.minimum(result, 0.0)
