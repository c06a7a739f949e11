"""Propose-test-release: the exact plurality, if a noisy test shows that no single vote decides it."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import log_ndtr

from ostrakon.mechanisms.base import (
    NO_ANSWER,
    EpsilonPerQuery,
    FloatArray,
    Mechanism,
    RunCost,
    StabilityThreshold,
    ThresholdSigma,
)
from ostrakon.mechanisms.laws.laplace import laplace_log_above
from ostrakon.mechanisms.laws.stability import distance_to_instability
from ostrakon.mechanisms.registry import register
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, fraction, positive, whole
from ostrakon.votes import IntArray, Votes


@register
@dataclass(frozen=True, kw_only=True)
class ProposeTestRelease(Mechanism):
    """If d + noise > threshold, the exact plurality; else no answer. d is the distance to instability.

    Parameters
    ----------
    threshold : float
        w, in moved votes; above 0.
    epsilon_per_query : float, optional
        Laplace noise of scale 1/epsilon_per_query; above 0. Give this or sigma1, not both.
    sigma1 : float, optional
        Gaussian noise of this standard deviation, in votes; above 0.

    Raises
    ------
    InvalidInput
        If a parameter is not a finite number above 0, or not exactly one noise is given.

    Notes
    -----
    Guarantee: d changes by at most 1 when a vote moves. Where the plurality changes too, d is 0 on both sides, and an
    answer passes only with probability f = exp(-epsilon_per_query * threshold) / 2, or Phi(-threshold / sigma1).
    `queries` answers are (epsilon, delta + queries * f)-DP if the checks alone are (epsilon, delta)-DP: one query is
    exactly (epsilon_per_query, f)-DP; Gaussian checks are sqrt(queries) / sigma1 Gaussian-DP. This holds for adaptive
    queries. No Rényi and no pure guarantee exists.

    Proof: where the plurality differs between neighbours, both refuse with the same probability 1 - f; draw those coins
    first. Outside an event of probability at most queries * f, equal on both sides, every answer is a function of its
    check alone.

    References
    ----------
    Dwork and Lei 2009; docs/mathematics.md E (i).

    Examples
    --------
    >>> mechanism = ProposeTestRelease.for_delta(epsilon_per_query=1.0, delta_per_query=1e-6)
    >>> mechanism.failure(queries=1) <= 1e-6
    True
    """

    name: ClassVar[str] = "propose-test-release"

    threshold: StabilityThreshold
    epsilon_per_query: EpsilonPerQuery | None = None
    sigma1: ThresholdSigma | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.epsilon_per_query is None) == (self.sigma1 is None):
            raise InvalidInput(
                "epsilon_per_query or sigma1 must be given, one of the two, "
                f"got epsilon_per_query={self.epsilon_per_query!r} and sigma1={self.sigma1!r}."
            )

    @classmethod
    def for_delta(cls, *, epsilon_per_query: float, delta_per_query: float) -> Self:
        """Return the Laplace form with an (epsilon_per_query, delta_per_query)-DP query; delta_per_query below 1/2."""
        epsilon, delta = positive("epsilon_per_query", epsilon_per_query), fraction("delta_per_query", delta_per_query)
        if not delta < 0.5:
            raise InvalidInput(f"delta_per_query must be below 1/2, got {delta_per_query!r}.")
        # Slightly above the formula, so that rounding cannot raise the failure above delta_per_query.
        return cls(threshold=(1e-11 - math.log(2 * delta)) / epsilon, epsilon_per_query=epsilon)

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        rng = require_rng(rng)
        distance = distance_to_instability(votes)
        if self.epsilon_per_query is not None:
            check = distance + rng.laplace(scale=1 / self.epsilon_per_query, size=votes.queries)
        else:
            assert self.sigma1 is not None
            check = distance + rng.normal(scale=self.sigma1, size=votes.queries)
        return np.where(check > self.threshold, votes.plurality, NO_ANSWER)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        passed, refused = self.log_check(distance_to_instability(votes).astype(np.float64) - self.threshold)
        result = np.full((votes.queries, votes.classes + 1), -np.inf)
        result[np.arange(votes.queries), votes.plurality] = passed
        result[:, -1] = refused
        return result

    def log_check(self, margin: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (log probability to answer, to refuse) if the distance is the threshold plus `margin`, same shape."""
        if self.epsilon_per_query is not None:
            return laplace_log_above(margin, 1 / self.epsilon_per_query)
        assert self.sigma1 is not None
        return np.asarray(log_ndtr(margin / self.sigma1)), np.asarray(log_ndtr(-margin / self.sigma1))

    def worst_case(self, orders: FloatArray) -> FloatArray:
        # An answer that is possible on one side only has an infinite Rényi divergence, even if it is rare.
        return np.full(np.shape(orders), np.inf)

    def failure(self, *, queries: int) -> float:
        """Return an upper bound on the delta that `queries` queries spend on answers to unstable ones."""
        passed, _ = self.log_check(np.array([-self.threshold]))
        return whole("queries", queries) * math.exp(float(passed[0])) * (1 + 1e-12)

    def run_cost(self, *, queries: int) -> RunCost:
        k = whole("queries", queries, at_least=1)
        if self.epsilon_per_query is not None:
            return RunCost(epsilon=self.epsilon_per_query, checks=k, failure=self.failure(queries=k))
        assert self.sigma1 is not None
        return RunCost(mu=math.sqrt(k) / self.sigma1, failure=self.failure(queries=k))
