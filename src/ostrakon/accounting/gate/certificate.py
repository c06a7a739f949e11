"""The certificate of a gate: the unconditional (epsilon, delta) of releasing outputs only if the score allows."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from ostrakon.accounting.composition.gaussian_dp import LOG_SLACK
from ostrakon.accounting.composition.rdp_to_delta import renyi_delta
from ostrakon.accounting.gate.score import LIPSCHITZ, CostCurve
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.inverse import least
from ostrakon.validation import fraction, non_negative, positive, whole

# The range of the score, in units of s; the supremum is bounded on cells of it.
_REACH = 14.0
CELLS = 1500
LEAST = 1e-9
"""The smallest epsilon of a certificate."""


def gate_delta(curve: CostCurve, *, s: float, epsilon: float, prefix_mu: float = 0.0, cells: int = CELLS) -> float:
    """An upper bound on the delta at which the gate is (epsilon, delta)-DP, whatever the votes.

    The gate: with phi the score, release all outputs iff `phi + N(0, s^2) <= 0`; else refuse, and release outputs of
    a `prefix_mu`-Gaussian-DP mechanism in their place (0: nothing).
    curve: r at its Rényi order. s: standard deviation, in teachers. cells: fewer are faster and looser.

    Guarantee: an upper bound on the supremum over phi and |phi' - phi| <= 1 of
    `pi d_a(r(min(phi, phi')), epsilon - ln(pi/pi')) + (1 - pi) delta_mu(epsilon - ln((1-pi)/(1-pi')))`, with
    `pi = Phi(-phi/s)` and d_a(R, x) = `renyi_delta`, at most `min(1, e^{(a-1)(R-x)} (1-1/a)^a / (a-1))`.
    Proof. The hockey-stick divergence of a union of disjoint outcomes is at most the sum over its parts. The released
    part has Rényi cost at most min(F(D), F(D')) <= r(min(phi, phi')), converted as by Canonne, Kamath and Steinke at
    the shifted epsilon; the refused one is the prefix at its own shift. With phi' = phi + u: for u in [0, 1] the first
    term grows and the second falls with u, for u in [-1, 0] the first falls and the second grows with -u, so the
    ends bound the sum. ln(pi/pi') grows with phi (pi is log-concave) and r too, pi falls: each is taken at the worse
    end of its cell.
    Source: docs/mathematics.md D6; Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    s, epsilon, mu = positive("s", s), non_negative("epsilon", epsilon), non_negative("prefix_mu", prefix_mu)
    cells = whole("cells", cells, at_least=1)
    edges = np.linspace(-_REACH, _REACH, cells + 1) * s
    bound = _cell_bounds(curve, edges, s=s, epsilon=epsilon, mu=mu)
    # Refine the cells with a high bound: they bound the same supremum more tightly.
    high = np.flatnonzero(bound > 0.8 * bound.max())
    first, last = int(high[0]), int(high[-1]) + 1
    fine = np.linspace(edges[first], edges[last], 2 * cells + 1)
    bound = _cell_bounds(curve, np.concatenate([edges[:first], fine, edges[last + 1 :]]), s=s, epsilon=epsilon, mu=mu)
    return min(1.0, float(bound.max()) * (1 + LOG_SLACK) + 2 * float(ndtr(-_REACH)))


def _cell_bounds(curve: CostCurve, edges: FloatArray, *, s: float, epsilon: float, mu: float) -> FloatArray:
    left, right = edges[:-1], edges[1:]
    # Left of the cells everything is better than in the first cell; right of them, release is too rare.
    pi = ndtr(-left / s)
    pi[0] = 1.0
    cost = curve(right)
    apart = log_ndtr(-right / s) - log_ndtr(-(right + LIPSCHITZ) / s)
    far = pi * renyi_delta(cost, epsilon - apart, curve.order)
    near = pi * renyi_delta(cost, np.full_like(cost, epsilon), curve.order)
    refused = ndtr(right / s)
    refused[-1] = 1.0
    # (1 - pi) / (1 - pi') at phi' = phi - 1 falls with phi (1 - pi is log-concave): its worst is on the left.
    closer = log_ndtr(left / s) - log_ndtr((left - LIPSCHITZ) / s)
    stays = refused * _gaussian_delta(mu, np.array([epsilon]))
    moves = refused * _gaussian_delta(mu, epsilon - closer)
    # Left of all cells the ratio is unbounded, but a refusal is rare.
    moves[0] = max(moves[0], float(ndtr(-_REACH)))
    return np.maximum(far + stays, near + moves)


def gate_epsilon(curve: CostCurve, *, s: float, delta: float, prefix_mu: float = 0.0, cells: int = CELLS) -> float:
    """The smallest epsilon, at least `LEAST`, that `gate_delta` certifies at `delta`, rounded upward.

    inf if none up to 1000 does.
    """
    delta = fraction("delta", delta)

    def cost(epsilon: float) -> float:
        return gate_delta(curve, s=s, epsilon=epsilon, prefix_mu=prefix_mu, cells=cells)

    # At a large delta every epsilon is enough, and bisection would run to the smallest float.
    if cost(LEAST) <= delta:
        return LEAST
    return least(cost, delta, start=1.0, tolerance=1e-7, furthest=1000)


def _gaussian_delta(mu: float, epsilon: FloatArray) -> FloatArray:
    """delta of a mu-Gaussian-DP mechanism at any real epsilon."""
    if mu == 0:
        return np.maximum(-np.expm1(epsilon), 0.0)
    high = mu / 2 - epsilon / mu
    first, second = log_ndtr(high), epsilon + log_ndtr(high - mu)
    # The rounding error of the difference is added.
    return np.exp(first) * np.clip(-np.expm1(np.minimum(second - first, 0.0)) + 1e-12, 0.0, 1.0)
