"""Outcome law of an argmax under Gaussian noise, in log space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import Compiled, compiled
from ostrakon.numerics.normal import inverse_mills, log_ndtr
from ostrakon.validation import InvalidInput, positive

_REACH = 9.0
_WIDEST = 1e8
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
# The line Im z = 2 of the error bound, the integral of e^{t^2/2} up to it, and the error allowed: e^-34 < 2e-15.
_LINE = 2.0
_INTEGRAL = 4.7276
_ALLOWED = -34.0


def gaussian_argmax_log_probabilities(scores: ArrayLike, sigma: float) -> FloatArray:
    """Log probability that each class has the largest of `scores + N(0, sigma^2)`, shape (queries, classes).

    scores: finite reals, shape (queries, classes). sigma: standard deviation of the noise, above 0.

    Class i wins with probability `int phi(z - x_i) prod_{j != i} Phi(z - x_j) dz`, x in standard deviations, taken
    by the trapezoid rule of step h. Two errors, both relative to that class's own probability, however small:
    - *step*: on the line Im z = c, phi grows by e^{c^2/2} and Phi(t) by at most
      `G(t) = min(e^{c^2/2}, 1 + phi(t)/Phi(t) int_0^c e^{u^2/2} du)`, so the error is at most
      `2 e^{c^2/2} R / (e^{2 pi c / h} - 1)`, R the mean of `prod_{j != i} G(z - x_j)` under the integrand.
      h starts at 1/4 and is halved until this is below 2e-15 for c = 2. (R is bounded from the nodes: on a cell
      the log-concave integrand is at most its larger end, or e^{m h^2/8} times that at the mode, and G falls.)
      At h = 2 pi / sqrt(76 m) the bound with e^{c^2/2} for every factor and c = 2 pi / (h m) is 2 e^{-38} and
      nothing is left to check;
    - *window*: the log of the integrand has a second derivative between -m and -1, so what lies farther than
      9 from its mode is at most 2 sqrt(m) Phi(-9) < 8e-18 for 1,000 classes.
    With rounding, 1e-12 relative is not exceeded where the log probability is above -1,000, and the log itself has
    that relative error below.
    Errors: `InvalidInput` for scores that are not finite, a sigma that is not a finite number above 0, or scores of
    a query that lie more than 1e8 sigma apart, where a step of the rule is near the spacing of floats.
    Source: docs/mathematics.md A.

    >>> np.exp(gaussian_argmax_log_probabilities([[1.0, 1.0]], 40.0)).round(12)
    array([[0.5, 0.5]])
    """
    x = require_finite(scores) / positive("sigma", sigma)
    if x.size and (widest := float((x.max(axis=1) - x.min(axis=1)).max())) > _WIDEST:
        raise InvalidInput(
            f"sigma must be at least a hundred-millionth of the distance between the scores of a query, got {sigma!r} "
            f"beside a distance of {widest * sigma:.6g}."
        )
    return by_sorted_rows(x, _law)


def require_finite(scores: ArrayLike) -> FloatArray:
    """Return `scores` as a float array of shape (queries, classes >= 1), refused unless finite."""
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 2 or not array.shape[1] or not np.isfinite(array).all():
        raise InvalidInput(f"scores must be finite numbers of shape (queries, classes), got {array!r}.")
    return array


def by_sorted_rows(x: FloatArray, law: Compiled[..., Any], *tables: FloatArray) -> FloatArray:
    """Apply `law` to every row of `x`, sorted downwards from 0; equal rows are computed once."""
    if not x.size:
        return np.zeros(x.shape)
    order = np.argsort(-x, axis=1, kind="stable")
    ranked = np.take_along_axis(x, order, axis=1)
    rows, back = np.unique(ranked - ranked[:, :1], axis=0, return_inverse=True)
    # Seconds that plain Python would need, from the shape of the scores.
    run = law.worth(max(1e-3, 5e-5 * x.shape[1] ** 2) * len(rows))
    out = np.empty(x.shape)
    np.put_along_axis(out, order, run(np.ascontiguousarray(rows), *tables)[back.ravel()], axis=1)
    return out


@compiled
def distinct(row: FloatArray, values: FloatArray, counts: FloatArray) -> int:
    """Fill in the distinct values of a sorted row and their multiplicities, and return their number."""
    d = 0
    for v in row:
        if d and values[d - 1] == v:
            counts[d - 1] += 1.0
        else:
            values[d], counts[d] = v, 1.0
            d += 1
    return d


@compiled
def add(total: float, lost: float, term: float) -> tuple[float, float]:
    """Return a sum and its lost low-order digits (Neumaier): a thousand logarithms would lose three digits."""
    new = total + term
    if abs(total) >= abs(term):
        lost += (total - new) + term
    else:
        lost += (term - new) + total
    return new, lost


@compiled
def likely_top(log_p: FloatArray, counts: FloatArray, d: int) -> None:
    """Replace a winner's log probability by that from the others', which stays accurate if it is close to 0."""
    if counts[0] == 1.0 and log_p[0] > -0.5:
        others = 0.0
        for j in range(1, d):
            others += counts[j] * math.exp(log_p[j])
        log_p[0] = math.log1p(-others)


@compiled
def _law(x: FloatArray) -> FloatArray:
    queries, m = x.shape
    out = np.empty((queries, m))
    values, counts, modes = np.empty(m), np.empty(m), np.empty(m)
    log_p = np.empty(m)
    for q in range(queries):
        d = distinct(x[q], values, counts)
        z = 0.0
        for i in range(d):
            z = _mode(values[:d], counts, i, z)
            modes[i] = z
        safe = 2 * math.pi / math.sqrt(76.0 * m)
        h = 0.25
        while not _sweep(values[:d], counts, modes, h, m, log_p) and h > safe:
            h = max(h / 2, safe)
        likely_top(log_p, counts, d)
        k = 0
        for j in range(m):
            if values[k] != x[q, j]:
                k += 1
            out[q, j] = log_p[k]
    return out


@compiled
def _sweep(values: FloatArray, counts: FloatArray, modes: FloatArray, h: float, m: int, log_p: FloatArray) -> bool:
    """Fill `log_p` by the rule of step h; whether its error is proven below e^-34."""
    d = len(values)
    total, grown = np.zeros(d), np.zeros(d)
    peak = np.full(d, -np.inf)
    low, growth = np.empty(d), np.empty(d)
    # Modes fall with the counts, so one sweep from the right visits the union of all windows once.
    k = math.ceil((modes[0] + _REACH) / h)
    first = 0
    while True:
        z = k * h
        while first < d and z < modes[first] - _REACH:
            first += 1
        if first == d:
            break
        if z > modes[first] + _REACH + h:
            k = math.ceil((modes[first] + _REACH) / h)
            continue
        s, lost, g = 0.0, 0.0, 0.0
        for j in range(d):
            t = z - values[j]
            low[j], growth[j] = 0.0, 0.0
            if t > 9.0:  # Phi(t) is 1 but for 1e-19
                continue
            low[j] = log_ndtr(t)
            # Below -2 the logarithm is above 2.4.
            growth[j] = 0.5 * _LINE * _LINE
            if t > -2.0:
                mills = math.exp(-0.5 * t * t - low[j] - _HALF_LOG_2PI)
                growth[j] = min(growth[j], math.log1p(mills * _INTEGRAL))
            s, lost = add(s, lost, counts[j] * low[j])
            g += counts[j] * growth[j]
        i = first
        while i < d and z <= modes[i] + _REACH + h:
            t = z - values[i]
            e = s + lost - low[i] - 0.5 * t * t
            if e > peak[i]:
                shrink = math.exp(peak[i] - e)
                total[i] *= shrink
                grown[i] *= shrink
                peak[i] = e
            w = math.exp(e - peak[i])
            total[i] += w
            # Capped: a class this far from a proof needs the finer step anyway.
            grown[i] += w * math.exp(min(g - growth[i], 600.0))
            i += 1
        k -= 1
    proven = True
    for i in range(d):
        log_p[i] = peak[i] + math.log(total[i] * h) - _HALF_LOG_2PI
        if total[i] < 2.0:  # more than half of the sum on one node: the step is too coarse to judge itself
            proven = False
        margin = math.log(4.0 + 2.0 * math.exp(min(m * h * h / 8, 600.0)))
        ratio = math.log(grown[i] / total[i]) + margin
        if ratio + math.log(2.0) + 0.5 * _LINE * _LINE - 2 * math.pi * _LINE / h > _ALLOWED:
            proven = False
    return proven


@compiled
def _mode(values: FloatArray, counts: FloatArray, i: int, start: float) -> float:
    """Return the maximum of phi(z - x_i) prod_{j != i} Phi(z - x_j), to 1e-3: Newton on a convex, decreasing slope."""
    z = start
    for _ in range(200):
        slope, curvature = values[i] - z, 1.0
        for j in range(len(values)):
            c = counts[j] - (1.0 if j == i else 0.0)
            if c > 0:
                t = z - values[j]
                if t < 9.0:
                    r = inverse_mills(t)
                    slope += c * r
                    curvature += c * r * (t + r)
        step = slope / curvature
        z += step
        if abs(step) < 1e-3:
            break
    return z
