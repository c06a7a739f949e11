"""The noisy median: for ordered classes, bisection by noisy comparisons of the votes below and above."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from ostrakon.mechanisms.base import DEFAULT_NOISE, FloatArray, Mechanism, VoteSigma
from ostrakon.mechanisms.gnmax import GNMax
from ostrakon.mechanisms.registry import register
from ostrakon.noise import require_rng
from ostrakon.votes import IntArray, Votes


@register
@dataclass(frozen=True, kw_only=True)
class NoisyMedian(Mechanism):
    """The median class of the votes, by bisection: the classes must have an order. It always answers.

    Of the classes from low to high that are left, the lower and the upper half are compared: the lower half stays if
    F + noise > n - F + noise, where F votes are at or below its last class, and n - F above. Both noises are
    N(0, r sigma2^2), r = ceil(log2(classes)), the largest number of comparisons.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the noise that one comparison alone would have, in votes; above 0.

    Raises
    ------
    InvalidInput
        If sigma2 is not a finite number above 0.

    Notes
    -----
    Guarantee: each comparison is a query with two classes of GNMax(sqrt(r) sigma2): a vote that moves changes F by at
    most 1, as one vote for one of two classes; a vote that is removed changes one of both counts by 1. The answer is a
    function of at most r comparisons, each chosen by the ones before it. So r times as many queries of two classes
    bound the price, which is at most that of GNMax(sigma2).

    References
    ----------
    docs/mathematics.md Q.

    Examples
    --------
    >>> votes = Votes([[20, 20, 21, 19, 20]])
    >>> np.exp(NoisyMedian(sigma2=5).log_probabilities(votes)).round(2)
    array([[0.  , 0.05, 0.91, 0.04, 0.  , 0.  ]])
    """

    name: ClassVar[str] = "noisy-median"
    ranked: ClassVar[bool] = True

    sigma2: VoteSigma

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        return {"sigma2": DEFAULT_NOISE * teachers}

    @property
    def vote_noise(self) -> float:
        return self.sigma2

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        lead = _leads(votes)
        low, high = np.zeros(votes.queries, np.int64), np.full(votes.queries, votes.classes - 1)
        deviation = self._deviation(votes.classes)
        rows = np.arange(votes.queries)
        for _ in range(_comparisons(votes.classes)):
            noise = require_rng(rng).normal(scale=deviation, size=votes.queries)
            middle = (low + high) // 2
            lower = lead[rows, middle] + noise > 0
            # Where one class is left, the middle is that class, and the comparison of no consequence.
            high, low = np.where(lower, middle, high), np.where(lower, low, np.minimum(middle + 1, high))
        return low

    def log_probabilities(self, votes: Votes) -> FloatArray:
        lead = _leads(votes) / self._deviation(votes.classes)
        below, above = log_ndtr(lead), log_ndtr(-lead)
        result = np.full((votes.queries, votes.classes + 1), -np.inf)
        result[:, :-1] = 0.0
        left = [(0, votes.classes - 1)]
        while left:
            low, high = left.pop()
            if low == high:
                continue
            middle = (low + high) // 2
            result[:, low : middle + 1] += below[:, [middle]]
            result[:, middle + 1 : high + 1] += above[:, [middle]]
            left += [(low, middle), (middle + 1, high)]
        return result

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return orders / self.sigma2**2

    def gaussian_dp(self) -> tuple[float, float]:
        return 0.0, math.sqrt(2) / self.sigma2

    def comparison(self, classes: int) -> GNMax:
        return GNMax(sigma2=math.sqrt(_comparisons(classes)) * self.sigma2)

    def _deviation(self, classes: int) -> float:
        """Return the standard deviation of the noise on the difference of both counts."""
        return math.sqrt(2 * _comparisons(classes)) * self.sigma2


def _comparisons(classes: int) -> int:
    """Return ceil(log2(classes))."""
    return (classes - 1).bit_length()


def _leads(votes: Votes) -> IntArray:
    """Return votes at or below each class, less those above it; shape (queries, classes)."""
    below = votes.counts.cumsum(axis=1)
    return 2 * below - below[:, -1:]
