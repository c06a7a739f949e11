"""Gaussian DP against 60-digit arithmetic."""

import math

import mpmath as mp
import pytest

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_delta, gaussian_dp_epsilon, gaussian_dp_log_delta
from ostrakon.validation import InvalidInput


def exact_log_delta(mu: float, epsilon: float) -> mp.mpf:
    with mp.workdps(80):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.log(mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2))


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.01, 0.1, 0.49, 0.51, 1.0, 3.0, 10.0, 59.0, 61.0, 200.0])
@pytest.mark.parametrize("z", [-30.0, -10.0, -3.0, -1.0, 0.0, 0.5])
def test_log_delta_agrees_with_high_precision(mu: float, z: float) -> None:
    epsilon = max(0.0, mu * mu / 2 - z * mu)
    assert gaussian_dp_log_delta(mu, epsilon) == pytest.approx(float(exact_log_delta(mu, epsilon)), abs=2e-12)


@pytest.mark.parametrize("mu", [1e-6, 0.03, 0.56, 2.0, 40.0])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-12, 1e-200])
def test_epsilon_is_the_root_rounded_upward(mu: float, delta: float) -> None:
    epsilon = gaussian_dp_epsilon(mu, delta)
    assert exact_log_delta(mu, epsilon) <= mp.log(delta)
    if epsilon > 0:
        assert exact_log_delta(mu, epsilon * (1 - 1e-8)) > mp.log(delta)


@pytest.mark.parametrize("mu", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("z", [-30.0, -10.0, -3.0, 0.0, 3.0])
def test_what_cancels_in_a_huge_mu_is_charged(mu: float, z: float) -> None:
    """mu / 2 - epsilon / mu has hardly a digit left, and ln Phi is as steep as that is large."""
    for nudge in range(-40, 41):
        epsilon = (mu * mu / 2 - z * mu) * (1 + nudge * 2.0**-52)
        exact = exact_log_delta(mu, epsilon)
        charged = mp.log(gaussian_dp_delta(mu, epsilon))
        assert exact <= charged <= exact + 2e-10 + 1e-14 * mu * (1 + abs(z))


def test_edges() -> None:
    assert gaussian_dp_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_dp_delta(0.0, 0.0) == 0.0
    assert gaussian_dp_delta(1e4, 0.0) == 1.0
    assert math.isfinite(gaussian_dp_epsilon(1e6, 1e-300))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, True, "1", None])
def test_bad_mu_and_delta_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match=r"^mu must"):
        gaussian_dp_epsilon(bad, 1e-5)
    with pytest.raises(InvalidInput, match=r"^delta must"):
        gaussian_dp_epsilon(1.0, bad)
    with pytest.raises(InvalidInput, match=r"^mu must"):
        gaussian_dp_delta(bad, 1.0)
    with pytest.raises(InvalidInput, match=r"^epsilon must"):
        gaussian_dp_delta(1.0, bad)
