"""The attacker's best odds: against every test that the guarantee allows, and the Gaussian curve."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from ostrakon.accounting import gaussian_dp_delta, membership_guess
from ostrakon.validation import InvalidInput


def best_by_linear_program(epsilon: float, delta: float, prior: float) -> float:
    """max prior TPR + (1 - prior) (1 - FPR) over all rates that (epsilon, delta)-DP allows in both directions."""
    e = math.exp(epsilon)
    # TPR <= e FPR + delta, and the same of the complements and of the two hypotheses exchanged.
    above = [[-e, 1], [1, -e], [e, -1], [-1, e]]
    most = [delta, delta, delta + e - 1, delta + e - 1]
    found = linprog([1 - prior, -prior], A_ub=above, b_ub=most, bounds=[(0, 1), (0, 1)])
    assert found.success
    return (1 - prior) - found.fun


@pytest.mark.parametrize("prior", [0.5, 0.1, 0.93])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.0), (0.0, 0.2), (0.3, 1e-5), (1.0, 0.05), (2.0, 1e-5), (4.0, 0.5)]
)
def test_it_is_the_best_of_all_tests_that_the_guarantee_allows(epsilon, delta, prior):
    assert membership_guess([(epsilon, delta)], prior=prior) == pytest.approx(
        best_by_linear_program(epsilon, delta, prior), abs=1e-9
    )


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_the_pairs_of_a_gaussian_say_what_its_curve_says(mu):
    pairs = [(float(epsilon), gaussian_dp_delta(mu, float(epsilon))) for epsilon in np.linspace(0, 8, 40)]
    exact = norm.cdf(mu / 2)
    assert exact <= membership_guess(pairs) <= exact * (1 + 1e-9)
    # A small delta alone says far less.
    assert membership_guess(pairs[20:]) > exact + 0.02


def test_without_any_privacy_a_guess_may_always_be_right():
    assert membership_guess([(800.0, 0.0)]) == 1.0
    assert membership_guess([(0.0, 1.0)]) == 1.0


@pytest.mark.parametrize(
    ("pairs", "prior", "told"),
    [
        ([], 0.5, "at least one pair"),
        ([(math.nan, 0.1)], 0.5, "epsilon"),
        ([(math.inf, 0.1)], 0.5, "epsilon"),
        ([(-1.0, 0.1)], 0.5, "epsilon"),
        ([(True, 0.1)], 0.5, "epsilon"),
        ([(1.0, 1.1)], 0.5, "delta"),
        ([(1.0, -0.1)], 0.5, "delta"),
        ([(1.0, math.nan)], 0.5, "delta"),
        ([(1.0, 0.1)], 0.0, "prior"),
        ([(1.0, 0.1)], 1.0, "prior"),
        ([(1.0, 0.1)], True, "prior"),
    ],
)
def test_what_is_no_guarantee_is_refused(pairs, prior, told):
    with pytest.raises(InvalidInput, match=told):
        membership_guess(pairs, prior=prior)
