"""The law of the winner's score by outcome: the weights with which all one-vote moves are computed.

For a query with distinct counts v_1 > v_2 > ..., class i wins with its score at node z with weight g_i(z) (they sum to
1 for each i). A vote taken from class a multiplies the weight by 1 + up_a(z) = F(z - v_a + 1) / F(z - v_a), a vote
given to class b by 1 + down_b(z) = F(z - v_b - 1) / F(z - v_b), F the noise's distribution function; if class i itself
moves, its density f replaces F. So each moved law is a mean under g_i.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, log_ndtr

from ostrakon.accounting.data_dependent._threshold_test import GAUSSIAN, LAPLACE
from ostrakon.mechanisms.base import FloatArray
from ostrakon.mechanisms.laws._laplace_quadrature import laplace_nodes
from ostrakon.numerics.compiled import compiled

# Integrands are cut where they fall to e^-(9^2/2) of their largest value; see gaussian_law.
_DROP = 40.5
_REACH = 9.0
_CLAMP = 39.0
_LINE = 2.0
_INTEGRAL = 4.7276
_ALLOWED = -34.0
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def gaussian_tables(sigma: float, widest: float) -> tuple[int, FloatArray]:
    """Return (units per vote, table of shape (5, length)) for counts that differ by at most `widest` votes.

    Counts are integers and the nodes lie on the same lattice, so everything is looked up. Rows at t = -T ... clamp, in
    units: ln Phi, up, down, the log growth on the line of the error bound (one vote to the left), ln(phi / Phi).
    `up` and `down` come from the integral of phi/Phi over one vote by 12-node Gauss-Legendre on pieces of at most one
    standard deviation: phi/Phi is analytic within 2.8 of the real line, so the rule is exact to rounding, and nothing
    is lost where ln Phi is close to 0.
    """
    units = max(1, math.ceil(32 / sigma))
    lowest = -math.ceil((widest / 2 + (_REACH + 1) * sigma + 4) * units) - 2 * units
    highest = math.ceil((_CLAMP * sigma + 4) * units)
    t = np.arange(lowest, highest + 1) / (units * sigma)
    pieces = math.ceil(1 / sigma)
    x, w = np.polynomial.legendre.leggauss(12)
    at = (np.arange(pieces)[:, None] + (1 + x) / 2).ravel() / (pieces * sigma)
    weights = np.tile(w / 2, pieces) / (pieces * sigma)
    step = np.zeros_like(t)
    for offset, weight in zip(at, weights, strict=True):
        step += weight * _mills(t + offset)
    table = np.zeros((5, len(t)))
    table[0] = log_ndtr(t)
    with np.errstate(over="ignore"):
        table[1] = np.expm1(step)
        before = np.concatenate([np.zeros(units), step[:-units]])
        table[2] = np.expm1(-before)
        mills = _mills(t)
        table[4] = np.log(np.maximum(mills, 1e-320))
        left = _mills(t - 1 / sigma)
        table[3] = np.minimum(_LINE**2 / 2, np.log1p(left * _INTEGRAL))
    table[4] = np.where(t > 30, -0.5 * t * t - _HALF_LOG_2PI, table[4])
    return units, table


def _mills(t: FloatArray) -> FloatArray:
    # erfcx(-t / sqrt 2) overflows above 37, where phi / Phi is phi.
    low = np.minimum(t, 30.0)
    return np.where(t < 30, math.sqrt(2 / math.pi) / erfcx(-low / math.sqrt(2)), np.exp(-0.5 * t * t - _HALF_LOG_2PI))


@compiled
def gaussian_step(
    values: FloatArray,
    counts: FloatArray,
    sigma: float,
    units: int,
    table: FloatArray,
    span: FloatArray,
    windows: FloatArray,
    log_p: FloatArray,
) -> int:
    """Return the coarsest proven step for this query, in units, 0 where none is; fills windows (d, 2), log_p and span.

    span: (first node in units, number of nodes). The step is proven as in `gaussian_law`, with room for the laws after
    a move: their integrands differ by a factor whose logarithm varies by at most `spread` on a window, and by one more
    density where differences are taken (2 nats).
    """
    d = len(values)
    m = 0.0
    for j in range(d):
        m += counts[j]
    lowest = int(units * (values[-1] - values[0]))
    zero = _zero(sigma, units)
    last = table.shape[1] - 1
    first = math.floor(lowest / 2 - (_REACH * sigma + 2) * units)
    right = math.ceil((math.sqrt(2 * math.log(m)) + _REACH) * sigma + 2) * units
    spread = (2 * _REACH + 4 / sigma) * 2 / sigma
    first_index = table.shape[1] - 1 - zero
    step = max(1, int(sigma * units / 4))
    while step >= 1:
        h = step / (units * sigma)
        nodes = (right - first) // step + 1
        s, growth = np.zeros(nodes), np.zeros(nodes)
        for j in range(d):
            base = first + first_index - int(units * (values[j] - values[0]))
            for k in range(nodes):
                t = min(base + k * step, last)
                s[k] += counts[j] * table[0, t]
                growth[k] += counts[j] * table[3, t]
        proven = True
        margin = math.log(4.0 + 2.0 * math.exp(min(m * h * h / 8, 600.0)))
        limit = _ALLOWED + 2 * math.pi * _LINE / h - 0.5 * _LINE * _LINE - math.log(2.0) - margin - spread - 2.0
        more = math.ceil(2 * units / step) + 1
        for i in range(d):
            base = first + first_index - int(units * (values[i] - values[0]))
            peak, mode = -math.inf, 0
            for k in range(nodes):
                e = s[k] + _log_mills(base + k * step, last, first_index, units, sigma, table)
                if e > peak:
                    peak = e
                    mode = k
            low = mode
            total, grown = 0.0, 0.0
            while low >= 0:
                e = s[low] + _log_mills(base + low * step, last, first_index, units, sigma, table) - peak
                if e < -_DROP:
                    break
                w = math.exp(e)
                total += w
                grown += w * math.exp(min(growth[low] - table[3, min(base + low * step, last)], 600.0))
                low -= 1
            high = mode + 1
            while high < nodes:
                e = s[high] + _log_mills(base + high * step, last, first_index, units, sigma, table) - peak
                if e < -_DROP:
                    break
                w = math.exp(e)
                total += w
                grown += w * math.exp(min(growth[high] - table[3, min(base + high * step, last)], 600.0))
                high += 1
            windows[i, 0] = max(0, low - more)
            windows[i, 1] = min(nodes, high + 1 + more)
            log_p[i] = peak + math.log(total * h)
            if total < 2.0 or math.log(grown / total) > limit:
                proven = False
                break
        if proven:
            span[0], span[1] = first, nodes
            return step
        step //= 2
    return 0


@compiled
def _zero(sigma: float, units: int) -> int:
    return math.ceil((_CLAMP * sigma + 4) * units)


@compiled
def _log_mills(t: int, last: int, zero: int, units: int, sigma: float, table: FloatArray) -> float:
    if t <= last:
        return table[4, t]
    z = (t - zero) / (units * sigma)
    return -0.5 * z * z - _HALF_LOG_2PI


@compiled
def gaussian_weights(
    values: FloatArray,
    counts: FloatArray,
    sigma: float,
    units: int,
    table: FloatArray,
    step: int,
    span: FloatArray,
    windows: FloatArray,
    arrays: FloatArray,
) -> None:
    """Fill arrays (5, d, nodes): g, up, down, the weights g f(.+1)/f and g f(.-1)/f of a class that moves itself."""
    d, nodes = len(values), int(span[1])
    first = int(span[0])
    last = table.shape[1] - 1
    zero = last - _zero(sigma, units)
    s = np.zeros(nodes)
    for j in range(d):
        base = first + zero - int(units * (values[j] - values[0]))
        for k in range(nodes):
            t = min(base + k * step, last)
            s[k] += counts[j] * table[0, t]
            arrays[1, j, k] = table[1, t]
            arrays[2, j, k] = table[2, t]
    one = 1 / sigma
    for i in range(d):
        base = first + zero - int(units * (values[i] - values[0]))
        low, high = int(windows[i, 0]), int(windows[i, 1])
        peak = -math.inf
        for k in range(low, high):
            e = s[k] + _log_mills(base + k * step, last, zero, units, sigma, table)
            arrays[0, i, k] = e
            peak = max(peak, e)
        total = 0.0
        for k in range(low, high):
            arrays[0, i, k] = math.exp(arrays[0, i, k] - peak)
            total += arrays[0, i, k]
        for k in range(low, high):
            z = (base + k * step - zero) / (units * sigma)
            g = arrays[0, i, k] / total
            arrays[0, i, k] = g
            arrays[3, i, k] = g * math.exp(-one * z - 0.5 * one * one)
            arrays[4, i, k] = g * math.exp(one * z - 0.5 * one * one)


@compiled
def laplace_weights(
    values: FloatArray,
    counts: FloatArray,
    shift: float,
    z: FloatArray,
    up: FloatArray,
    down: FloatArray,
    arrays: FloatArray,
    log_p: FloatArray,
) -> None:
    """Fill the same arrays for Laplace noise on the nodes of `laplace_nodes`; values in noise scales from 0, shift: one
    vote.

    With all kinks of the moved laws among the pieces' ends, each quotient is one analytic expression on a piece; all
    are differences of `expm1` of the same sign.
    """
    d, nodes = len(values), len(z)
    s = np.zeros(nodes)
    for j in range(d):
        for k in range(nodes):
            t = z[k] - values[j]
            e = math.exp(-abs(t))
            if t <= 0:
                s[k] += counts[j] * (t - math.log(2.0))
                arrays[2, j, k] = math.expm1(-shift)
                if t <= -shift:
                    arrays[1, j, k] = math.expm1(shift)
                else:
                    arrays[1, j, k] = -(math.expm1(-t - shift) + math.expm1(t)) / e
            else:
                f = 1 - 0.5 * e
                s[k] += counts[j] * math.log1p(-0.5 * e)
                arrays[1, j, k] = -0.5 * e * math.expm1(-shift) / f
                if t >= shift:
                    arrays[2, j, k] = -0.5 * e * math.expm1(shift) / f
                else:
                    arrays[2, j, k] = 0.5 * (math.expm1(t - shift) + math.expm1(-t)) / f
    for i in range(d):
        peak = -math.inf
        for k in range(nodes):
            t = z[k] - values[i]
            low = t - math.log(2.0) if t <= 0 else math.log1p(-0.5 * math.exp(-t))
            e = s[k] - low - abs(t) + (up[k] if values[i] >= z[k] else down[k])
            arrays[0, i, k] = e
            peak = max(peak, e)
        total = 0.0
        for k in range(nodes):
            arrays[0, i, k] = math.exp(arrays[0, i, k] - peak)
            total += arrays[0, i, k]
        log_p[i] = peak + math.log(total) - math.log(2.0)
        for k in range(nodes):
            t = z[k] - values[i]
            g = arrays[0, i, k] / total
            arrays[0, i, k] = g
            arrays[3, i, k] = g * math.exp(abs(t) - abs(t + shift))
            arrays[4, i, k] = g * math.exp(abs(t) - abs(t - shift))


@compiled
def outcome_weights(
    noise: int,
    scale: float,
    values: FloatArray,
    counts: FloatArray,
    units: int,
    table: FloatArray,
    gl_x: FloatArray,
    gl_w: FloatArray,
    tail_u: FloatArray,
    tail_w: FloatArray,
    windows: FloatArray,
    log_p: FloatArray,
) -> tuple[bool, FloatArray]:
    """Return (whether a proven step exists, the weights as in `gaussian_weights`); fills windows (d, 2) and log_p (d,).

    Gumbel noise has a closed form and no weights.
    """
    d = len(values)
    arrays = np.empty((5, 0, 0))
    if noise == GAUSSIAN:
        span = np.zeros(2)
        step = gaussian_step(values, counts, scale, units, table, span, windows, log_p)
        if step == 0:
            return False, arrays
        arrays = np.empty((5, d, int(span[1])))
        gaussian_weights(values, counts, scale, units, table, step, span, windows, arrays)
    elif noise == LAPLACE:
        scaled = np.empty(d)
        for i in range(d):
            scaled[i] = (values[i] - values[0]) / scale
        z, up, down = laplace_nodes(scaled, counts, 1 / scale, gl_x, gl_w, tail_u, tail_w)
        arrays = np.empty((5, d, len(z)))
        laplace_weights(scaled, counts, 1 / scale, z, up, down, arrays, log_p)
        for i in range(d):
            windows[i, 1] = len(z)
    else:
        total = 0.0
        for i in range(d):
            total += counts[i] * math.exp((values[i] - values[0]) / scale)
        for i in range(d):
            log_p[i] = (values[i] - values[0]) / scale - math.log(total)
    others = 0.0
    for i in range(1, d):
        others += counts[i] * math.exp(log_p[i])
    if counts[0] == 1 and others < 0.5:
        log_p[0] = math.log1p(-others)
    return True, arrays
