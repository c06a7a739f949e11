import functools
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.privacy_curve import ALPHAS, PrivacyCurve, curve_of
from ostrakon.mechanisms import GNMax
from ostrakon.planning.plan import Plan
from ostrakon.validation import InvalidInput

SIGMA, TEACHERS, QUERIES = 3.0, 3, 3

SHARE = norm.cdf(np.arange(-TEACHERS, TEACHERS + 1, 2) / (SIGMA * math.sqrt(2)))
EACH = np.column_stack([SHARE, 1 - SHARE]).tolist()
LAWS = [*pairwise(EACH), *pairwise(EACH[::-1])]


@functools.cache
def best_test(log_y, queries):
    """The largest P(S) - y Q(S) over all adaptive choices of two-class votes, by trying all of them."""
    if queries == 0:
        return max(0.0, -math.expm1(log_y))
    return max(
        sum(p * best_test(log_y + math.log(q / p), queries - 1) for p, q in zip(one, other, strict=True))
        for one, other in LAWS
    )


def plan_of(delta):
    mechanism = GNMax(sigma2=SIGMA)
    sizes = {"queries": QUERIES, "delta": delta, "teachers": TEACHERS, "classes": 2}
    return Plan(
        mechanism=mechanism, interactive=False, max_answers=None, tuned={},
        bound=worst_case(mechanism, **sizes, adaptive=True), **sizes,
    )  # fmt: skip


def test_every_point_of_adaptive_queries_holds_and_would_not_if_it_were_2_percent_smaller():
    curve = plan_of(1e-3).curve()
    assert curve.mu is None
    checked = [(epsilon, delta) for epsilon, delta in curve.points if epsilon > 0.05]
    assert len(checked) > 10
    for epsilon, delta in checked:
        assert best_test(epsilon, QUERIES) <= delta
        assert best_test(0.98 * epsilon, QUERIES) > delta


def test_no_test_of_these_queries_errs_less_than_the_trade_off_says():
    curve = plan_of(1e-3).curve()
    for alpha in ALPHAS:
        # P(S) <= y alpha + best_test(y) for every y, and the least such bound is attained by some test; convex in y.
        least = minimize_scalar(
            lambda x, alpha=alpha: math.exp(x) * alpha + best_test(x, QUERIES), bounds=(-3, 3), method="bounded"
        )
        attained = 1 - least.fun
        assert curve.false_negatives(alpha) <= attained + 1e-7
        assert 1.02 * curve.false_negatives(alpha) > attained


def test_a_guess_against_a_gaussian_is_that_of_a_threshold():
    mu = 0.8
    curve = PrivacyCurve(points=((5.0, 1e-5),), mu=mu)
    for prior in (0.2, 0.5, 0.9):
        at = np.linspace(-9, 9, 20_001)
        best = (prior * norm.sf(at - mu) + (1 - prior) * norm.cdf(at)).max()
        assert best <= curve.guess(prior) < best + 1e-6


def test_points_that_another_one_implies_are_left_out():
    pairs = [(0.5, 1e-3), (1.0, 1e-5), (0.5, 1e-2), (math.inf, 1e-9), (1.0, 1e-4), (0.1, 1.0)]
    assert curve_of(pairs).points == ((1.0, 1e-5), (0.5, 1e-3))
    assert curve_of([(math.inf, 1e-5)]) is None


@pytest.mark.parametrize("points", [(), ((1.0, 1e-5), (0.5, 1e-5)), ((math.nan, 1e-5),), ((1.0, 0.0),), ((-1.0, 0.1),)])
def test_points_that_are_none_are_refused(points):
    with pytest.raises(InvalidInput):
        PrivacyCurve(points=points)


@pytest.mark.parametrize("mu", [0.0, math.inf, math.nan, -1.0, True])
def test_a_mu_that_is_none_is_refused(mu):
    with pytest.raises(InvalidInput, match="mu"):
        PrivacyCurve(points=((1.0, 1e-5),), mu=mu)
