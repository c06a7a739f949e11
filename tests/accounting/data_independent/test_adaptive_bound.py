"""The exact price of labels: never below one fixed adversary, and near to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln

from ostrakon.accounting.account import account
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import BoundedGNMax, ConfidentGNMax, GNMax, LNMax
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.votes import Votes

ADULT = ConfidentGNMax(threshold=300, sigma1=200, sigma2=40)


def fixed_delta(p: FloatArray, q: FloatArray, queries: int, epsilon: float) -> float:
    """The delta of one pair of laws of three outcomes, asked again and again: an exact multinomial sum."""
    a, b = np.meshgrid(np.arange(queries + 1), np.arange(queries + 1), indexing="ij")
    inside = a + b <= queries
    a, b = a[inside], b[inside]
    c = queries - a - b
    ways = gammaln(queries + 1) - gammaln(a + 1) - gammaln(b + 1) - gammaln(c + 1)
    logs = [ways + a * np.log(r[0]) + b * np.log(r[1]) + (c * np.log(r[2]) if r[2] > 0 else 0.0) for r in (p, q)]
    if p[2] == 0:
        logs = [x[c == 0] for x in logs]
    above = logs[0] > epsilon + logs[1]
    return math.fsum(np.exp(logs[0][above]) * -np.expm1(epsilon + logs[1][above] - logs[0][above]))


def law_of(mechanism: Mechanism, counts: list[int], *, labels: int = 2) -> FloatArray:
    """The first two labels, and everything else as one outcome: a lower bound on what an adversary sees."""
    law = np.exp(mechanism.log_probabilities(Votes([counts])))[0]
    return np.array([law[0], law[1], law[2:].sum()]) if labels == 2 else law


RUNS = [
    (ADULT, 1500, 2, [130, 120], 2.06),
    (GNMax(sigma2=60), 40, 2, [105, 145], 0.425),
]


@pytest.mark.parametrize(("mechanism", "queries", "classes", "counts", "goal"), RUNS)
def test_between_one_fixed_adversary_and_the_goal(
    mechanism: Mechanism, queries: int, classes: int, counts: list[int], goal: float
) -> None:
    found = worst_case(mechanism, queries=queries, delta=1e-5, teachers=250, classes=classes, adaptive=True)
    assert "adaptive" in found.basis
    assert found.epsilon <= goal
    moved = [counts[0] - 1, counts[1] + 1, *counts[2:]]
    p, q = law_of(mechanism, counts), law_of(mechanism, moved)

    def floor(epsilon: float) -> float:
        return max(fixed_delta(p, q, queries, epsilon), fixed_delta(q, p, queries, epsilon))

    assert floor(found.epsilon) <= 1e-5
    # An epsilon that is 2% smaller is refuted by this one adversary.
    assert floor(0.98 * found.epsilon) > 1e-5


def test_account_prints_the_exact_price_and_it_is_never_above_the_others() -> None:
    votes = Votes([[30, 10]] * 12)
    for mechanism in (GNMax(sigma2=8), LNMax(gamma=0.1), ConfidentGNMax(threshold=30, sigma1=10, sigma2=8)):
        sizes = {"queries": 12, "delta": 1e-5, "teachers": 40, "classes": 2}
        plain, exact = worst_case(mechanism, **sizes), worst_case(mechanism, **sizes, adaptive=True)
        assert exact.epsilon < plain.epsilon
        assert account(votes, mechanism, delta=1e-5).worst_case.epsilon == exact.epsilon


def test_what_no_family_of_labels_describes_keeps_its_own_price() -> None:
    bounded = BoundedGNMax(sigma2=20, max_contributions=2)
    sizes = {"queries": 10, "delta": 1e-5, "teachers": 30, "classes": 2}
    assert worst_case(bounded, **sizes, adaptive=True) == worst_case(bounded, **sizes)
    abstaining = worst_case(GNMax(sigma2=8), **sizes, abstentions=True)
    assert worst_case(GNMax(sigma2=8), **sizes, abstentions=True, adaptive=True) == abstaining
