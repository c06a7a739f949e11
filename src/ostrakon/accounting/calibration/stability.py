"""Mechanisms on the distance to instability, set to a budget: how far from a tie a vote must be to be answered."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtri

from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.mechanisms.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.sparse_vector import SparseVector
from ostrakon.validation import fraction, positive, whole


def propose_test_release_within(*, epsilon: float, delta: float, queries: int) -> ProposeTestRelease:
    """The form that keeps `queries` queries within (epsilon, delta): the lower threshold of Laplace and Gaussian.

    One half of delta is spent on failures and one on the checks.
    Errors: `InvalidInput` for an epsilon that is not above 0, a delta outside (0, 1), less than one query.

    >>> propose_test_release_within(epsilon=1.0, delta=1e-5, queries=15).sigma1 is None
    False
    """
    epsilon, delta = positive("epsilon", epsilon), fraction("delta", delta)
    queries = whole("queries", queries, at_least=1)
    share = delta / 2 / queries

    def gaussian(sigma: float) -> ProposeTestRelease:
        return ProposeTestRelease(threshold=-float(ndtri(share)) * sigma * (1 + 1e-9), sigma1=sigma)

    def laplace(scale: float) -> ProposeTestRelease:
        return ProposeTestRelease(threshold=-math.log(2 * share) * scale * (1 + 1e-9), epsilon_per_query=1 / scale)

    def over(mechanism: ProposeTestRelease) -> bool:
        return run_epsilon(mechanism.run_cost(queries=queries), delta=delta) > epsilon

    fitted = [form(_least(lambda scale, form=form: over(form(scale)), 1e-6)) for form in (gaussian, laplace)]
    return min(fitted, key=lambda mechanism: mechanism.threshold)


def sparse_vector_within(*, epsilon: float, delta: float, queries: int, refusals: int = 1) -> SparseVector:
    """The run of `queries` queries within (epsilon, delta): epsilon in equal shares, delta all for failures.

    Errors: as `propose_test_release_within`, and for less than one refusal.
    """
    epsilon, delta = positive("epsilon", epsilon), fraction("delta", delta)
    queries, refusals = whole("queries", queries, at_least=1), whole("refusals", refusals, at_least=1)
    share = epsilon / refusals / 2 * (1 - 1e-12)

    def at(threshold: float) -> SparseVector:
        return SparseVector(threshold=threshold, refusals=refusals, epsilon1=share, epsilon2=share)

    return at(_least(lambda threshold: at(threshold).failure(queries=queries) > delta, 1e-9))


def _least(over: Callable[[float], bool], accuracy: float) -> float:
    """The least number above 0, from above and to this relative accuracy, at which `over` no longer holds."""
    low, high = 0.0, 1.0
    while over(high):
        low, high = high, high * 2
    while high - low > accuracy * high:
        middle = (low + high) / 2
        low, high = (middle, high) if over(middle) else (low, middle)
    return high
