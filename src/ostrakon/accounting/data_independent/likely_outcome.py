"""The largest cost of a label if one class wins with probability at least 1 - q."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from ostrakon.accounting.rdp import require_orders
from ostrakon.mechanisms.base import FloatArray
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.validation import InvalidInput, positive

SLACK = 1e-13
"""Added to every computed cost: more than the rounding of a sum of a few probabilities near 1."""

# The position of the revealed mass between the two tails: dense at both ends, ends included.
_SPLITS = np.concatenate([[0.0], 1 / (1 + np.exp(-np.linspace(-16, 16, 49))), [1.0]])


def gaussian_likely_outcome_rdp(q: ArrayLike, *, mu: float, orders: ArrayLike) -> FloatArray:
    """Return beta*(q): the largest Rényi divergence, in either direction, of a label that has a likely outcome.

    Parameters
    ----------
    q : array-like of float, shape (Q,)
        Bounds on the probability of all other outcomes together, in [0, 1].
    mu : float
        Distance of the two Gaussians behind the labels in standard deviations, above 0 (sqrt(2) / sigma2 for a vote
        moved).
    orders : array-like of float, shape (K,)
        Rényi orders, increasing, above 1.

    Returns
    -------
    array of float, shape (K, Q)
        Nats, non-decreasing in q.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Notes
    -----
    Guarantee: if P and Q are the laws of an outcome under N(0, 1) and N(mu, 1) and some outcome has P(i) >= 1 - q, then
    D_a(P||Q) and D_a(Q||P) are at most this, and it is attained.

    References
    ----------
    docs/mathematics.md D1.

    Examples
    --------
    >>> q = np.array([0.1])
    >>> bool(gaussian_likely_outcome_rdp(q, mu=0.05, orders=[8.0])[0, 0] < 8 * 0.05**2 / 2)
    True
    """
    mass = _probabilities(q)
    mu, a = positive("mu", mu), require_orders(orders)
    increasing, where = np.unique(mass, return_inverse=True)
    full = a * mu**2 / 2
    cost = np.empty((len(a), len(increasing)))
    for row, order in enumerate(a):
        best = _best_split(increasing, mu, float(order))
        # The whole pair is a bound too, also if the computation failed (a NaN compares false).
        cost[row] = np.where(best < full[row], best, full[row])
    # The set of laws with P(i) >= 1 - q grows with q.
    cost = np.minimum(np.maximum.accumulate(cost, axis=1) + SLACK, full[:, None])
    return np.where(increasing[None, :] > 0, cost, 0.0)[:, where]


def pure_likely_outcome_rdp(q: ArrayLike, *, epsilon: float, orders: ArrayLike) -> FloatArray:
    """Return the largest Rényi divergence of an epsilon-DP label if some outcome has probability at least 1 - q.

    Parameters
    ----------
    q : array-like of float, shape (Q,)
        In [0, 1].
    epsilon : float
        Of the label, above 0.
    orders : array-like of float, shape (K,)
        Rényi orders, increasing, above 1.

    Returns
    -------
    array of float, shape (K, Q)
        Nats.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Notes
    -----
    Guarantee: for laws P, Q with |ln P/Q| <= epsilon everywhere and P(i) >= 1 - q, both directions are at most this.
    For q <= 1 / (1 + e^epsilon) it is the tight bound; above, the worst case of epsilon-DP.

    Proof. Given that P(i) = 1 - q and Q(i) = 1 - q z, the most extreme pair with that mean reveals the rest as two
    outcomes of ratio e^epsilon and e^-epsilon; the cost is convex in z, so z = e^epsilon or e^-epsilon.

    References
    ----------
    docs/mathematics.md C.
    """
    mass = _probabilities(q)[None, :]
    e, a = positive("epsilon", epsilon), require_orders(orders)[:, None]
    worst = rdp_of_pure_dp(a[:, 0], e)[:, None]
    with np.errstate(all="ignore"):
        candidates: list[FloatArray] = []
        for z in (np.exp(-e), np.exp(e)):
            other = 1 - mass * z
            forward = a * np.log1p(-mass) + (1 - a) * np.log(other)
            backward = (1 - a) * np.log1p(-mass) + a * np.log(other)
            candidates.append(np.logaddexp(forward, np.log(mass) + (1 - a) * np.log(z)))
            candidates.append(np.logaddexp(backward, np.log(mass) + a * np.log(z)))
        best = np.maximum.reduce(candidates) / (a - 1) + SLACK
    tight = (mass <= 1 / (1 + np.exp(e))) & (best < worst)
    return np.where(mass > 0, np.where(tight, best, worst), 0.0)


def _best_split(q: FloatArray, mu: float, a: float) -> FloatArray:
    """Return the largest cost over the splits of q between the tails, both directions, shape (Q,)."""
    with np.errstate(all="ignore"):
        tails = _tails(q[:, None], _SPLITS[None, :])
        low, high = (np.stack([tail, tail]) for tail in tails)
        grid = _both(q[:, None], low, high, mu, a)  # (2, Q, splits)
        best = np.nanmax(grid, axis=2, initial=-np.inf)
        at = np.argmax(np.nan_to_num(grid, nan=-np.inf), axis=2)
        low = _SPLITS[np.maximum(at - 1, 0)]
        high = _SPLITS[np.minimum(at + 1, len(_SPLITS) - 1)]
        for _ in range(18):  # golden section between the neighbours of the best grid point
            third = 0.3819660112501051 * (high - low)
            left, right = low + third, high - third
            ends = _tails(q, np.stack([left, right], axis=1))
            at_left, at_right = np.moveaxis(_both(q, *ends, mu, a), 1, 0)
            best = np.fmax(best, np.fmax(at_left, at_right))
            low, high = np.where(at_left < at_right, left, low), np.where(at_left < at_right, high, right)
        failed = np.isnan(grid).all(axis=2)
    return np.where(failed, np.inf, best).max(axis=0)


def _tails(q: FloatArray, split: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the tails q * split and q * (1 - split)."""
    return ndtri(q * split), -ndtri(q * (1 - split))


def _both(q: FloatArray, low: FloatArray, high: FloatArray, mu: float, a: float) -> FloatArray:
    """Return the Rényi divergence of the pair with both tails revealed, both directions: one for each first index of
    the ends.
    """
    inside = np.log1p(-q)
    other = np.log1p(-(ndtr(low - mu) + ndtr(mu - high)))
    moments = [way(low[k], high[k], inside, other[k], mu, a) for k, way in enumerate((_forward, _backward))]
    return np.log(np.stack(moments)) / (a - 1)


def _forward(low: Any, high: Any, inside: Any, other: Any, mu: float, a: float) -> FloatArray:
    revealed = ndtr(low + (a - 1) * mu) + ndtr((1 - a) * mu - high)
    return np.exp(a * inside + (1 - a) * other) + np.exp(a * (a - 1) * mu * mu / 2) * revealed


def _backward(low: Any, high: Any, inside: Any, other: Any, mu: float, a: float) -> FloatArray:
    revealed = ndtr(low - a * mu) + ndtr(a * mu - high)
    return np.exp(a * other + (1 - a) * inside) + np.exp(a * (a - 1) * mu * mu / 2) * revealed


def _probabilities(q: ArrayLike) -> FloatArray:
    mass = np.array(q, dtype=np.float64)
    if mass.ndim != 1 or not ((mass >= 0) & (mass <= 1)).all():
        raise InvalidInput(f"q must be a list of probabilities between 0 and 1, got {q!r}.")
    return mass
