"""The worst case of a released label. Gaussian DP overcharges, because it prices the noisy histogram."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from ostrakon.accounting.rdp import require_orders
from ostrakon.mechanisms.base import FloatArray
from ostrakon.validation import positive, whole

_SMALL = 1e-4
"""If a (a-1) mu^2 is below it, e^{(a-1) D} is so near to 1 that its excess over 1 is summed instead."""

_TERMS = 24
"""Terms of the exponential series of that excess: the first omitted one is below 1/24!."""

_SLACK = 1e-6
"""Relative error added to a maximum from refined grids: the last grid's own step changes it by less."""

_FAR = 25.0
"""Beyond this order times mu the label reveals nearly as much as the histogram, and is charged the same."""

_HALF, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_ROUNDS = 5


def argmax_rdp(mu: float, orders: ArrayLike, *, classes: int) -> FloatArray:
    """Return the most that the label of a Gaussian noisy argmax can cost, whatever the votes.

    Parameters
    ----------
    mu : float
        sqrt(2) / sigma2, above 0.
    orders : array-like of float, shape (K,)
        Rényi orders, increasing, above 1.
    classes : int
        At least 2; any number above 2 has the same bound.

    Returns
    -------
    array of float, shape (K,)
        Nats.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Notes
    -----
    Guarantee: at most `order * mu^2 / 2`, the cost of the noisy histogram; about 0.637 of it (2 / pi) for two classes
    and 0.660 for more while order * mu is small. Holds for moves to and from "abstain" too. The supremum is found
    numerically on grids refined around their best point, with 1e-6 charged to it.

    References
    ----------
    docs/mathematics.md I; the bound itself is ostrakon's.

    Examples
    --------
    >>> (argmax_rdp(0.03, [2.0, 8.0], classes=10) / (np.array([2.0, 8.0]) * 0.03**2 / 2)).round(2)
    array([0.66, 0.66])
    """
    mu, a = positive("mu", mu), require_orders(orders)
    classes = whole("classes", classes, at_least=2)
    full = a * mu**2 / 2
    cost = np.array([_supremum(mu, float(order), classes) for order in a])
    # The noisy histogram bounds the label too, also if the computation failed (a NaN compares false).
    return np.where(cost * (1 + _SLACK) < full, cost * (1 + _SLACK), full)


@dataclass(frozen=True)
class _Box:
    low: float
    high: float

    def points(self, count: int) -> FloatArray:
        return np.linspace(self.low, self.high, count)

    def around(self, best: float) -> "_Box":
        width = (self.high - self.low) / 8
        return _Box(best - width, best + width)


@lru_cache(maxsize=4096)
def _supremum(mu: float, a: float, classes: int) -> float:
    reach = a * mu
    if reach > _FAR:
        return math.inf
    shift, centre = _Box(-reach - 3, reach + 3), _Box(-4.0, reach + 4)
    top = reach + 10
    margins = np.concatenate([[0.0], top * (_HALF + 1) / 2])
    small = a * (a - 1) * mu**2 < _SMALL
    moment = _excess_moment if small else _log_moment
    best = 0.0
    for _ in range(_ROUNDS):
        t = shift.points(33)
        if classes == 2:
            logs = moment(t[:, None], np.zeros((1, 1)), mu, a)
            value, row, column = float(logs.max()), int(logs[:, 0].argmax()), 0
        else:
            c0 = centre.points(25)
            # Rows: the chance of no margin, and the density of each positive one, by c0.
            with np.errstate(divide="ignore"):
                nodes = (
                    np.log(_WEIGHTS * top / 2) - (margins[None, 1:] - c0[:, None]) ** 2 / 2 - math.log(2 * math.pi) / 2
                )
            mixture = np.concatenate([log_ndtr(-c0)[:, None], nodes], axis=1)
            logs = moment(t[:, None], margins[None, :], mu, a)
            if small:
                means = logs @ np.exp(mixture).T
            else:
                peak = logs.max(axis=1, keepdims=True)
                with np.errstate(divide="ignore"):  # mixtures far from the peak may underflow: they are not the largest
                    means = np.log(np.exp(logs - peak) @ np.exp(mixture).T) + peak
            row, column = (int(x) for x in np.unravel_index(means.argmax(), means.shape))
            value = float(means[row, column])
            centre = centre.around(float(c0[column]))
        best = max(best, value)
        shift = shift.around(float(t[row]))
    return (math.log1p(best) if small else best) / (a - 1)


def _log_moment(t: FloatArray, c: FloatArray, mu: float, a: float) -> FloatArray:
    """Return ln sum_i P(i)^a Q(i)^(1-a) of T ~ N(t, 1) against N(t + mu, 1), seen as below -c, between, above c."""
    terms = [
        a * log_ndtr(-c - t) + (1 - a) * log_ndtr(-c - t - mu),
        a * log_ndtr(t - c) + (1 - a) * log_ndtr(t + mu - c),
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        between = a * _log_between(-c - t, c - t) + (1 - a) * _log_between(-c - t - mu, c - t - mu)
    terms.append(np.where(c > 0, between, -np.inf))
    return np.logaddexp.reduce(np.broadcast_arrays(*terms))


def _excess_moment(t: FloatArray, c: FloatArray, mu: float, a: float) -> FloatArray:
    """Return sum_i P(i)^a Q(i)^(1-a) - 1 as sum_i Q(i) h(ln P(i)/Q(i)), h(x) = e^{a x} - 1 - a (e^x - 1): no
    cancellation.
    """
    total = np.zeros(np.broadcast_shapes(t.shape, c.shape))
    for sign in (-1.0, 1.0):  # below -c, above c: T lies beyond c on that side
        x = sign * t - c
        total += np.exp(log_ndtr(x + sign * mu)) * _h(-sign * mu * _mean_over_shift(_tail_score, x, sign * mu), a)
    width = np.where(c > 0, c, 1.0)
    ratio = mu * _mean_over_shift(lambda s: _between_score(s, width[..., None]), t, mu)
    between = np.exp(_log_between(-width - t - mu, width - t - mu)) * _h(ratio, a)
    return total + np.where(c > 0, between, 0.0)


_SHIFTS, _SHIFT_WEIGHTS = np.polynomial.legendre.leggauss(6)


def _mean_over_shift(score: Callable[[FloatArray], FloatArray], x: FloatArray, shift: float) -> FloatArray:
    """Return the mean of a derivative `score` from x to x + shift: the growth of the function per unit of the shift."""
    nodes = x[..., None] + shift * (_SHIFTS + 1) / 2
    return score(nodes) @ (_SHIFT_WEIGHTS / 2)


def _tail_score(x: FloatArray) -> FloatArray:
    """Return d/dx ln Phi(x) = phi(x) / Phi(x)."""
    return np.exp(-x * x / 2 - math.log(2 * math.pi) / 2 - log_ndtr(x))


def _between_score(t: FloatArray, c: FloatArray) -> FloatArray:
    """Return -d/dt ln [Phi(c - t) - Phi(-c - t)]."""
    mass = _log_between(-c - t, c - t) + math.log(2 * math.pi) / 2
    return np.exp(-((c - t) ** 2) / 2 - mass) - np.exp(-((c + t) ** 2) / 2 - mass)


def _h(x: FloatArray, a: float) -> FloatArray:
    """Return e^{a x} - 1 - a (e^x - 1) by its series, for |a x| up to about 1: sum_n (a^n - a) x^n / n!."""
    total, term = np.zeros_like(x), x
    for n in range(2, _TERMS):
        term = term * x / n
        total = total + a * math.expm1((n - 1) * math.log(a)) * term
    return total


def _log_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return ln [Phi(high) - Phi(low)], from the tail nearer to the interval."""
    flip = low + high > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    below = log_ndtr(high)
    return below + np.log1p(-np.exp(log_ndtr(low) - below))
