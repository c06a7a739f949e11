"""Gaussian differential privacy: the exact (epsilon, delta) of composed Gaussian mechanisms."""

import math

import numpy as np
from scipy.special import erfcx, log_ndtr

from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.inverse import least
from ostrakon.validation import fraction, non_negative

# Assumed error of a computed logarithm of delta; every root is computed with this error against us.
LOG_SLACK = 1e-10

_TINY = math.ulp(0.0)

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def gaussian_dp_log_delta(mu: float, epsilon: float) -> float:
    """Return the natural logarithm of the delta at which a `mu`-Gaussian-DP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    mu, epsilon : float
        Finite, at least 0.

    Returns
    -------
    float
        ln delta, exact up to rounding; -inf if mu is 0.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Notes
    -----
    delta = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

    References
    ----------
    Dong, Roth and Su 2019, Corollary 2.13; Balle and Wang 2018, Theorem 8.
    """
    mu, epsilon = non_negative("mu", mu), non_negative("epsilon", epsilon)
    if mu == 0:
        return -math.inf
    high = mu / 2 - epsilon / mu
    low = high - mu
    # e^epsilon phi(low) = phi(high): with the Mills ratio m = Phi/phi, delta = phi(high) (m(high) - m(low)), which does
    # not cancel for small deltas. Above 30 the ratio overflows while Phi itself is about 1.
    if high > 30:
        ratio = epsilon + float(log_ndtr(low)) - float(log_ndtr(high))
        return float(log_ndtr(high)) + (math.log(-math.expm1(ratio)) if ratio < 0 else -math.inf)
    if mu > 0.5:
        difference = _mills(high) - _mills(low)
    else:  # m' = 1 + x m, integrated: the difference of two nearly equal ratios would lose digits.
        x = low + mu * (_NODES + 1) / 2
        difference = mu / 2 * float(_WEIGHTS @ (1 + x * _mills_array(x)))
    if not difference > 0:
        return float(log_ndtr(high))  # an upper bound, if rounding loses the difference
    return -high * high / 2 - math.log(2 * math.pi) / 2 + math.log(difference)


def gaussian_dp_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta at which a `mu`-Gaussian-DP mechanism is (epsilon, delta)-DP, rounded upward.

    Parameters
    ----------
    mu, epsilon : float
        Finite, at least 0.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Notes
    -----
    Guarantee: never below the true value; above it by at most about 1e-10 relative where mu is below 1e4.

    References
    ----------
    As `gaussian_dp_log_delta`.

    Examples
    --------
    >>> round(gaussian_dp_delta(1.0, 1.0), 6)
    0.126937
    """
    log_delta = gaussian_dp_log_delta(mu, epsilon)
    if log_delta == -math.inf:
        return 0.0
    # The smallest float replaces a result that underflows.
    return min(1.0, max(math.exp(log_delta + _slack(mu, epsilon)), _TINY))


def gaussian_dp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which a `mu`-Gaussian-DP mechanism is (epsilon, delta)-DP, rounded upward.

    Parameters
    ----------
    mu : float
        Finite, at least 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Notes
    -----
    Guarantee: never below the true value; above it by at most about 1e-9 relative.

    References
    ----------
    As `gaussian_dp_log_delta`, inverted.

    Examples
    --------
    >>> round(gaussian_dp_epsilon(1.0, 1e-5), 3)
    4.377
    """
    mu, delta = non_negative("mu", mu), fraction("delta", delta)
    log_delta = math.log(delta)

    def cost(epsilon: float) -> float:
        return gaussian_dp_log_delta(mu, epsilon) + _slack(mu, epsilon)

    if cost(0.0) <= log_delta:
        return 0.0
    # A mu-GDP mechanism is mu^2/2-zCDP, which is nearly enough here (Bun and Steinke 2016, Proposition 1.3).
    start = mu * mu / 2 + mu * math.sqrt(-2 * (log_delta - LOG_SLACK))
    return least(cost, log_delta, start=start, tolerance=1e-12)


def _slack(mu: float, epsilon: float) -> float:
    """Bound the error of ln delta: LOG_SLACK, and the digits that mu/2 - epsilon/mu loses to cancellation."""
    if mu == 0:
        return LOG_SLACK
    return LOG_SLACK + 2e-15 * mu * (1 + max(0.0, epsilon / mu - mu / 2))


def _mills(x: float) -> float:
    return float(_mills_array(np.array([x]))[0])


def _mills_array(x: FloatArray) -> FloatArray:
    return np.sqrt(np.pi / 2) * erfcx(-x / np.sqrt(2))
