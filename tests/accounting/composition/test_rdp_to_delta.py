"""One Rényi order to delta, against every pair of two-point laws on a grid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ostrakon.accounting.composition.rdp_to_delta import renyi_delta

_HALF = np.geomspace(1e-12, 0.5, 1500)
_GRID = np.concatenate([_HALF, 1 - _HALF])


def reached(cost: float, epsilon: float, a: float) -> float:
    """The largest p - e^epsilon q of two-point laws whose divergences are at most `cost`: two points suffice."""
    p, q = _GRID[:, None], _GRID[None, :]
    with np.errstate(all="ignore"):
        forward = np.exp(a * np.log(p) + (1 - a) * np.log(q)) + np.exp(a * np.log1p(-p) + (1 - a) * np.log1p(-q))
        backward = np.exp(a * np.log(q) + (1 - a) * np.log(p)) + np.exp(a * np.log1p(-q) + (1 - a) * np.log1p(-p))
    allowed = (forward <= math.exp((a - 1) * cost)) & (backward <= math.exp((a - 1) * cost))
    return float(np.where(allowed, p - math.exp(epsilon) * q, 0.0).max())


@pytest.mark.parametrize("a", [1.3, 2.0, 10.0])
@pytest.mark.parametrize("cost", [1e-3, 0.05, 0.5])
@pytest.mark.parametrize("epsilon", [-1.0, -0.1, 0.0, 0.1, 0.5, 1.5])
def test_never_below_what_two_points_reach(a: float, cost: float, epsilon: float) -> None:
    bound = renyi_delta(np.array([cost]), np.array([epsilon]), a)[0]
    assert reached(cost, epsilon, a) <= bound
    known = min(1.0, math.exp((a - 1) * (cost - epsilon)) * (1 - 1 / a) ** a / (a - 1))
    assert bound <= known * (1 + 1e-12)


@pytest.mark.parametrize(
    ("cost", "epsilon", "a"), [(0.001, 0.5, 10.0), (0.05, 0.5, 10.0), (0.5, 1.5, 10.0), (0.05, 1.5, 2.0)]
)
def test_nearly_tight_above_zero(cost: float, epsilon: float, a: float) -> None:
    bound = renyi_delta(np.array([cost]), np.array([epsilon]), a)[0]
    assert bound <= 1.02 * reached(cost, epsilon, a)


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
