"""From one Rényi order to delta, at an epsilon of either sign."""

import math

import numpy as np

from ostrakon.mechanisms.base import FloatArray

# Likelihood ratios of the complement at which the dual bound is tried, besides 0 (Canonne, Kamath and Steinke).
_COMPLEMENTS = (0.2, 1.0)


def renyi_delta(cost: FloatArray, epsilon: FloatArray, order: float) -> FloatArray:
    """Return the largest delta at `epsilon` of two laws whose Rényi divergences in both directions are at most `cost`.

    cost: nats, shape (n,). epsilon: of either sign, shape (n,). order: a > 1.

    Guarantee: an upper bound on `sup_S P(S) - e^epsilon Q(S)`, rounding included; but for that never above the
    conversion of Canonne, Kamath and Steinke, `e^{(a-1)(cost-epsilon)} (1-1/a)^a / (a-1)`.
    Proof. With p = P(S), q = Q(S) for the best event S, `g(p, q) = p^a q^(1-a) + (1-p)^a (1-q)^(1-a)` is at most
    G = e^{(a-1) cost} by data processing. g is convex, so for any multiplier l >= 0 the largest p - e^epsilon q is at
    most that of p - e^epsilon q - l (g - G), reached where the slopes vanish: with u = p/q, v = (1-p)/(1-q),
    `l a (u^(a-1) - v^(a-1)) = 1` and `l (a-1) (u^a - v^a) = e^epsilon`, of value `l (G - a v^(a-1) + (a-1) v^a)`. Any
    v in [0, 1] with its u gives a bound; v = 0 is the known one. Below epsilon = 0, delta is
    1 - e^epsilon + e^epsilon times that of the pair swapped at -epsilon.
    Source: Canonne, Kamath and Steinke 2020, Proposition 12; Asoodeh et al. 2021 (two points suffice).
    """
    x = np.abs(epsilon)
    a = order
    log_g = (a - 1) * cost
    rounding = 1e-15 * (1 + a + abs(math.log(a - 1)) + log_g + (a - 1) * x)
    best = np.minimum(a * math.log1p(-1 / a) - math.log(a - 1) + log_g - (a - 1) * x + rounding, 0.0)
    with np.errstate(all="ignore"):
        best = np.minimum(best, _dual(log_g, x, a).min(axis=0))
    above = np.exp(best)
    return np.where(epsilon >= 0, above, -np.expm1(-x) + np.exp(-x) * above)


def _dual(log_g: FloatArray, x: FloatArray, a: float) -> FloatArray:
    """Return ln of the bound with each complement ratio v, (ratios, n); 0 if there is none."""
    # u solves (a-1) (u^a - v^a) = a e^x (u^(a-1) - v^(a-1)); Newton in w = ln u, from above: the slope grows with w.
    log_v = np.array([[math.log(v)] for v in _COMPLEMENTS])
    w = np.tile(x + math.log(a / (a - 1)), (len(_COMPLEMENTS), 1))
    constant = math.log((a - 1) / a)
    for _ in range(8):
        before = w
        more, less = np.exp(a * (log_v - w)), np.exp((a - 1) * (log_v - w))
        off = constant + w + np.log1p(-more) - np.log1p(-less) - x
        step = 1 + a * more / (1 - more) - (a - 1) * less / (1 - less)
        w = np.maximum(w - off / step, 1e-9)
        if (w == before).all():  # and would stay there
            break
    less = np.exp((a - 1) * (log_v - w))
    off = constant + w + np.log1p(-np.exp(a * (log_v - w))) - np.log1p(-less) - x
    log_l = -math.log(a) - (a - 1) * w - np.log1p(-less)
    saved = np.array([[a * v ** (a - 1) - (a - 1) * v**a] for v in _COMPLEMENTS])
    inside = log_g + np.log1p(-saved * np.exp(-log_g))
    # Slopes that differ prove nothing (a NaN compares false), and an infinite cost allows everything.
    return np.where((np.abs(off) < 1e-10) & (inside < np.inf), np.minimum(log_l + inside + 1e-8, 0.0), 0.0)
