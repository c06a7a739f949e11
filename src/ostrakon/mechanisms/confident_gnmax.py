"""Confident-GNMax: a noisy test whether the teachers agree, then their noisy label."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from ostrakon.mechanisms.base import (
    DEFAULT_NOISE,
    NO_ANSWER,
    FloatArray,
    Mechanism,
    NoisyArgmax,
    Threshold,
    ThresholdSigma,
    ThresholdTest,
    VoteSigma,
)
from ostrakon.mechanisms.laws.gaussian import gaussian_argmax_log_probabilities
from ostrakon.noise import require_rng
from ostrakon.votes import IntArray, Votes


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(Mechanism):
    """Confident-GNMax: if max_j n_j + N(0, sigma1^2) >= threshold, argmax_j (n_j + N(0, sigma2^2)); else no answer.

    Parameters
    ----------
    threshold : float
        T, in votes; finite.
    sigma1 : float
        Standard deviation of the threshold noise, in votes; above 0.
    sigma2 : float
        Standard deviation of the vote noise, in votes; above 0.

    Raises
    ------
    InvalidInput
        If threshold is not finite, or a sigma is not a finite number above 0.

    Notes
    -----
    Guarantee: the top count has sensitivity 1 and the histogram sqrt(2). One query is therefore Rényi-DP at
    `order / (2 sigma1^2) + order / sigma2^2`; Gaussian-DP 1/sigma1 for the check and sqrt(2)/sigma2 for an answer.

    References
    ----------
    pate-2018, Algorithm 1 and Theorem 2.

    Examples
    --------
    >>> round(float(ConfidentGNMax(threshold=200, sigma1=150, sigma2=40).worst_case(np.array([2.0]))[0]), 6)
    0.001294
    """

    name: ClassVar[str] = "confident-gnmax"

    threshold: Threshold
    sigma1: ThresholdSigma
    sigma2: VoteSigma

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        return {"threshold": 0.7 * teachers, "sigma1": 0.8 * teachers, "sigma2": DEFAULT_NOISE * teachers}

    @property
    def vote_noise(self) -> float:
        return self.sigma2

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        check = votes.top + require_rng(rng).normal(scale=self.sigma1, size=votes.queries)
        labels = (votes.counts + rng.normal(scale=self.sigma2, size=votes.counts.shape)).argmax(axis=1)
        return np.where(check >= self.threshold, labels, NO_ANSWER)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        labels = gaussian_argmax_log_probabilities(votes.counts.astype(np.float64), self.sigma2)
        margin = (votes.top - self.threshold) / self.sigma1
        return np.column_stack([labels + log_ndtr(margin)[:, None], log_ndtr(-margin)])

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return orders / (2 * self.sigma1**2) + orders / self.sigma2**2

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax:
        threshold_test = ThresholdTest(threshold=self.threshold, noise="gaussian", scale=self.sigma1)
        return NoisyArgmax(noise="gaussian", scale=self.sigma2, threshold_test=threshold_test)

    def gaussian_dp(self) -> tuple[float, float]:
        return 1 / self.sigma1, math.sqrt(2) / self.sigma2
