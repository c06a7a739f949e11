"""Quadrature for products of Laplace distribution functions: nodes at which every integral is exact to rounding.

In units of the noise scale, between neighbouring kinks the integrand of an outcome is
`e^{k z} prod_below (1 - e^{-(z - v)}/2)`, k the number of counts above. Five kinds of pieces:

- *left of all counts*: a single exponential, integrated in closed form (one node);
- *short pieces* (at most 8): Gauss-Legendre. The Bernstein ellipse that reaches `r` beyond a piece of half-length H
  has rho = R + sqrt(R^2 - 1), R = 1 + r/H, and half-height v = sqrt(r (2H + r)). On it, with |w| = e^{-Re(z - v_j)},
  a factor is at most `sqrt(max (1 - |w|/2)^2 + max |w| min(v^2/2, 2))`, and the exponential grows by e^{k r}. So with n
  nodes the error relative to the piece's own integral is at most `e^B rho^{-2n}`, B the logarithm of these bounds over
  the values at the right end, plus that of the piece's length times the steepest logarithmic slope m (the integrand
  falls no faster than that from its largest value). n and r are chosen such that this is below e^{-38} < 4e-17;
- *left out*: with k >= 3 counts above, whatever lies 45 / (k - 2) left of the next kink is less than e^{-45} of what
  follows, also in differences of neighbouring laws, where one factor decays;
- *plateaus*, farther than 40 above the count below: all factors are 1 to m e^{-40}/2, a single exponential again,
  with rate k for the outcomes above and k - 1 for those below (two weights for one node);
- *right of all counts*: in u = e^{-(z - max)} a polynomial, for which Gauss-Legendre is exact. Counts more than 45
  below the top are constant there to e^{-45} and do not count for its degree.

Source: docs/mathematics.md A.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled

_MOST = 64
_REACH = 1.125
_LONGEST = 8.0
_PLATEAU = 40.0
_NEGLIGIBLE = 45.0


@functools.cache
def gauss_legendre_table() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights on [-1, 1] of the rules with 0 to 64 nodes, row n the n-node rule; shape (65, 64)."""
    x, w = np.zeros((_MOST + 1, _MOST)), np.zeros((_MOST + 1, _MOST))
    for n in range(1, _MOST + 1):
        x[n, :n], w[n, :n] = _gauss_legendre(n)
    return x, w


def _gauss_legendre(n: int) -> tuple[FloatArray, FloatArray]:
    """Return NumPy's rule, polished by Newton's method in extended precision: small weights have an error of 1e-12."""
    x = np.polynomial.legendre.leggauss(n)[0].astype(np.longdouble)
    slope = np.ones_like(x)
    for _ in range(3):
        before, value = np.ones_like(x), x.copy()
        for k in range(2, n + 1):
            before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
        slope = n * (before - x * value) / (1 - x * x)
        x = x - value / slope
    return x.astype(np.float64), (2 / ((1 - x * x) * slope * slope)).astype(np.float64)


@functools.cache
def tail_rules(classes: int) -> tuple[FloatArray, FloatArray]:
    """Return rules on [0, 1] with 8, 16, 32, ... nodes, enough for polynomials of degree classes + 2; shape (rules,
    nodes).
    """
    sizes = [8]
    while 2 * sizes[-1] < classes + 3:
        sizes.append(2 * sizes[-1])
    u, w = np.zeros((len(sizes), sizes[-1])), np.zeros((len(sizes), sizes[-1]))
    for row, n in enumerate(sizes):
        x, v = _gauss_legendre(n)
        u[row, :n], w[row, :n] = (x + 1) / 2, v / 2
    return u, w


@compiled
def laplace_nodes(
    values: FloatArray,
    counts: FloatArray,
    shift: float,
    gl_x: FloatArray,
    gl_w: FloatArray,
    tail_u: FloatArray,
    tail_w: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes for counts `values` (decreasing, from 0, in noise scales; multiplicities `counts`).

    shift: kinks at every value -shift and +shift are respected too (the counts after a vote moved); 0: none.
    Returns (z, log weight for outcomes at or above z, log weight for those below), z increasing.
    """
    d = len(values)
    m = 0.0
    for j in range(d):
        m += counts[j]
    if shift > 0:
        kinks = np.empty(3 * d)
        _merge(values, shift, kinks)
    else:
        kinks = np.empty(d)
        for j in range(d):
            kinks[d - 1 - j] = values[j]
    size = 1024
    z, up, down = np.empty(size), np.empty(size), np.empty(size)
    z[0] = kinks[0]
    up[0] = down[0] = -math.log(m)
    n = 1
    below = 0.0  # counts at or below the piece
    first = d  # values[first:] lie at or below the piece
    for p in range(len(kinks) - 1):
        low, high = kinks[p], kinks[p + 1]
        if not high > low:
            continue
        while first > 0 and values[first - 1] <= low:
            first -= 1
            below += counts[first]
        rate = m - below
        begin = low if rate < 3 else max(low, high - _NEGLIGIBLE / (rate - 2))
        end = high
        if high - low > _PLATEAU + 2:
            end = low + _PLATEAU
        pieces, nodes, half = 0, 0, 0.0
        if end > begin:
            pieces = math.ceil((end - begin) / _LONGEST)
            while True:
                half = (end - begin) / (2 * pieces)
                nodes = _nodes_needed(values, counts, first, begin, half, rate, m)
                if nodes <= _MOST:
                    break
                pieces *= 2
        need = n + pieces * nodes + 1
        if need > size:
            size = 2 * need
            z, up, down = _longer(z, size), _longer(up, size), _longer(down, size)
        for piece in range(pieces):
            start = begin + 2 * half * piece
            for j in range(nodes):
                z[n] = start + half * (1 + gl_x[nodes, j])
                up[n] = down[n] = math.log(half * gl_w[nodes, j])
                n += 1
        if end < high:
            length = high - max(begin, end)
            z[n] = high
            up[n] = math.log(-math.expm1(-rate * length) / rate)
            down[n] = math.log(-math.expm1(-(rate - 1) * length) / (rate - 1)) if rate > 1 else math.log(length)
            n += 1
    # The tail starts at the last kink.
    start = kinks[-1]
    degree = 3.0
    for j in range(d):
        if values[j] > -_NEGLIGIBLE:
            degree += counts[j]
    row = 0
    while row < len(tail_u) - 1 and 2 * _row_length(tail_w[row]) < degree:
        row += 1
    nodes = _row_length(tail_w[row])
    if n + nodes > size:
        size = n + nodes
        z, up, down = _longer(z, size), _longer(up, size), _longer(down, size)
    for j in range(nodes - 1, -1, -1):
        u = tail_u[row, j]
        z[n] = start - math.log(u)
        up[n] = down[n] = math.log(tail_w[row, j] / u)
        n += 1
    return z[:n], up[:n], down[:n]


@compiled
def _nodes_needed(
    values: FloatArray, counts: FloatArray, first: int, low: float, half: float, rate: float, m: float
) -> int:
    """Return how many Gauss-Legendre nodes prove e^-38 on the leftmost piece, where the factors vary most."""
    fewest = 1_000_000
    reach = _REACH
    for _ in range(6):
        ratio = 1 + reach / half
        rho = ratio + math.sqrt(ratio * ratio - 1)
        height = min(0.5 * reach * (2 * half + reach), 2.0)
        bound = 42.0 + (rate + 1) * reach + math.log(1 + 2 * half * m)
        for j in range(first, len(values)):
            t = low - values[j]
            if t > _NEGLIGIBLE:
                break
            widest, right = math.exp(reach - t), math.exp(-t - 2 * half)
            narrowest = right * math.exp(-reach)
            square = max((1 - 0.5 * narrowest) ** 2, (1 - 0.5 * widest) ** 2) + widest * height
            bound += counts[j] * (0.5 * math.log(square) - math.log(1 - 0.5 * right))
        fewest = min(fewest, math.ceil(bound / (2 * math.log(rho))))
        reach /= 4
    return max(fewest, 2)


@compiled
def _merge(values: FloatArray, shift: float, kinks: FloatArray) -> None:
    """Fill in all of values - shift, values, values + shift, increasing; `values` decreases."""
    d = len(values)
    i = j = k = d - 1
    for n in range(3 * d):
        a = values[i] - shift if i >= 0 else np.inf
        b = values[j] if j >= 0 else np.inf
        c = values[k] + shift if k >= 0 else np.inf
        if a <= b and a <= c:
            kinks[n] = a
            i -= 1
        elif b <= c:
            kinks[n] = b
            j -= 1
        else:
            kinks[n] = c
            k -= 1


@compiled
def _row_length(weights: FloatArray) -> int:
    n = len(weights)
    while n and weights[n - 1] == 0:
        n -= 1
    return n


@compiled
def _longer(array: FloatArray, size: int) -> FloatArray:
    longer = np.empty(size)
    for k in range(len(array)):
        longer[k] = array[k]
    return longer
