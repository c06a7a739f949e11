"""Mechanisms on the distance to instability, set to a budget: how far a vote must be from a tie to be answered."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtri_exp

from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.numerics.inverse import least
from ostrakon.validation import fraction, positive, whole


def propose_test_release_within(*, epsilon: float, delta: float, queries: int) -> ProposeTestRelease:
    """The mechanism that keeps `queries` queries within (epsilon, delta): the lower threshold of Laplace and Gaussian.

    Half of delta pays for failures, half for the checks.
    Errors: `InvalidInput` for an epsilon that is not above 0, a delta outside (0, 1), less than one query.

    >>> propose_test_release_within(epsilon=1.0, delta=1e-5, queries=15).sigma1 is None
    False
    """
    epsilon, delta = positive("epsilon", epsilon), fraction("delta", delta)
    queries = whole("queries", queries, at_least=1)
    log_share = math.log(delta) - math.log(2) - math.log(queries)

    def gaussian(sigma: float) -> ProposeTestRelease:
        return ProposeTestRelease(threshold=-float(ndtri_exp(log_share)) * sigma * (1 + 1e-9), sigma1=sigma)

    def laplace(scale: float) -> ProposeTestRelease:
        return ProposeTestRelease(
            threshold=-(log_share + math.log(2)) * scale * (1 + 1e-9), epsilon_per_query=1 / scale
        )

    def fitted(form: Callable[[float], ProposeTestRelease]) -> ProposeTestRelease:
        def cost(scale: float) -> float:
            return run_epsilon(form(scale).run_cost(queries=queries), delta=delta)

        return form(least(cost, epsilon, start=1.0, tolerance=1e-6))

    return min((fitted(gaussian), fitted(laplace)), key=lambda mechanism: mechanism.threshold)


def sparse_vector_within(*, epsilon: float, delta: float, queries: int, refusals: int = 1) -> SparseVector:
    """The run of `queries` queries within (epsilon, delta): equal shares of epsilon; all of delta pays for failures.

    Errors: as `propose_test_release_within`, and for less than one refusal.
    """
    epsilon, delta = positive("epsilon", epsilon), fraction("delta", delta)
    queries, refusals = whole("queries", queries, at_least=1), whole("refusals", refusals, at_least=1)
    share = epsilon / refusals / 2 * (1 - 1e-12)

    def at(threshold: float) -> SparseVector:
        return SparseVector(threshold=threshold, refusals=refusals, epsilon1=share, epsilon2=share)

    def failure(threshold: float) -> float:
        return at(threshold).failure(queries=queries)

    return at(least(failure, delta, start=1.0, tolerance=1e-9))
