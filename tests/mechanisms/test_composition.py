import math

import numpy as np
import pytest

from quorate.accounting.gaussian_dp import gaussian_dp_epsilon
from quorate.accounting.pure_dp import pure_dp_epsilon
from quorate.mechanisms.composition import gaussian_checks_epsilon, pure_checks_epsilon


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0, 15.0])
def test_gaussian_checks_agree_with_the_accountant(mu: float, delta: float):
    got = gaussian_checks_epsilon(mu, log_delta=math.log(delta))
    assert got == pytest.approx(gaussian_dp_epsilon(mu, delta), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
@pytest.mark.parametrize(("epsilon", "checks"), [(0.01, 3), (0.2, 40), (1.0, 7), (0.05, 5000)])
def test_pure_checks_agree_with_the_accountant(epsilon: float, checks: int, delta: float):
    got = pure_checks_epsilon(epsilon, checks=checks, log_delta=math.log(delta))
    assert got == pytest.approx(pure_dp_epsilon(epsilon, queries=checks, delta=delta), rel=1e-6, abs=1e-9)
    assert got <= checks * epsilon


def test_without_delta_pure_checks_add():
    assert pure_checks_epsilon(0.3, checks=4, log_delta=-math.inf) == pytest.approx(1.2)


def test_two_checks_by_hand():
    """Two randomized responses: losses 2e, 0, -2e."""
    e, target = 0.5, 0.4
    p = math.exp(e) / (1 + math.exp(e))
    delta = p**2 * (1 - math.exp(target - 2 * e))
    assert pure_checks_epsilon(e, checks=2, log_delta=math.log(delta)) == pytest.approx(target, rel=1e-6)
    assert np.isfinite(target)
