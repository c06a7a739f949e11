"""One Rényi order to delta, against every pair of two-point laws on a grid."""

import math

import mpmath
import numpy as np
import pytest

from ostrakon.accounting.composition.rdp_to_delta import renyi_delta


def known(cost: float, epsilon: float, a: float) -> mpmath.mpf:
    """The conversion of Canonne, Kamath and Steinke, with many digits."""
    with mpmath.workdps(60):
        a_, gap = mpmath.mpf(a), mpmath.mpf(cost) - mpmath.mpf(epsilon)
        return mpmath.exp((a_ - 1) * gap) * (1 - 1 / a_) ** a_ / (a_ - 1)


@pytest.mark.parametrize("a", [1.3, 1.9, 2.5, 7.5, 20.0])
@pytest.mark.parametrize("cost", [80.0, 400.0])
def test_rounding_stays_above_the_known_conversion_and_close_to_it(a: float, cost: float) -> None:
    # At such costs no other multiplier helps, and the known conversion is what is left.
    most = cost + min(300.0, 600 / (a - 1))
    epsilon = np.linspace(cost + 3.0 / (a - 1), most, 60)
    for one, bound in zip(epsilon.tolist(), renyi_delta(np.full(60, cost), epsilon, a).tolist(), strict=True):
        exact = known(cost, one, a)
        assert exact <= bound <= exact * (1 + 3e-15 * (1 + a + (a - 1) * (cost + one)))


def reached(cost: float, epsilon: float, a: float, points: int = 600) -> float:
    """The largest p - e^epsilon q of two-point laws whose divergences are at most `cost`: two points suffice."""
    half = np.geomspace(1e-12, 0.5, points)
    grid = np.concatenate([half, 1 - half])
    p, q = grid[:, None], grid[None, :]
    with np.errstate(all="ignore"):
        forward = np.exp(a * np.log(p) + (1 - a) * np.log(q)) + np.exp(a * np.log1p(-p) + (1 - a) * np.log1p(-q))
        backward = np.exp(a * np.log(q) + (1 - a) * np.log(p)) + np.exp(a * np.log1p(-q) + (1 - a) * np.log1p(-p))
    allowed = (forward <= math.exp((a - 1) * cost)) & (backward <= math.exp((a - 1) * cost))
    return float(np.where(allowed, p - math.exp(epsilon) * q, 0.0).max())


@pytest.mark.parametrize(
    ("cost", "epsilon", "a"), [(0.001, 0.5, 10.0), (0.05, 0.5, 10.0), (0.5, 1.5, 10.0), (0.05, 1.5, 2.0)]
)
def test_nearly_tight_above_zero(cost: float, epsilon: float, a: float) -> None:
    bound = renyi_delta(np.array([cost]), np.array([epsilon]), a)[0]
    assert bound <= 1.02 * reached(cost, epsilon, a, points=1500)


def test_no_cost_leaves_what_the_shift_alone_gives() -> None:
    bound = renyi_delta(np.zeros(3), np.array([-2.0, -0.5, 0.5]), 8.0)
    assert bound == pytest.approx([-math.expm1(-2.0), -math.expm1(-0.5), 0.0], abs=1e-7)


def test_extremes_stay_probabilities() -> None:
    cost = np.array([0.0, 1e-12, 1.0, 1e3, np.inf, np.inf])
    epsilon = np.array([1e3, 1e-9, 1e3, -1e3, 3.0, -3.0])
    for a in (1.01, 5.0, 1000.0):
        bound = renyi_delta(cost, epsilon, a)
        assert ((bound >= 0) & (bound <= 1)).all()
        assert (bound[-2:] == 1).all()


@pytest.mark.parametrize("a", [1.3, 2.0, 10.0])
@pytest.mark.parametrize("cost", [1e-3, 0.05, 0.5])
@pytest.mark.parametrize("epsilon", [-1.0, -0.1, 0.0, 0.1, 0.5, 1.5])
def test_never_below_what_two_points_reach(a: float, cost: float, epsilon: float) -> None:
    bound = renyi_delta(np.array([cost]), np.array([epsilon]), a)[0]
    assert reached(cost, epsilon, a) <= bound
    assert bound <= min(1, known(cost, epsilon, a)) * (1 + mpmath.mpf("1e-12"))
