"""Choosing a gate: the order, curve and noise that give the smallest epsilon on public votes."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from quorate.accounting.envelope import envelope, highest_cost
from quorate.accounting.gate_certificate import gate_epsilon
from quorate.accounting.score import CostCurve
from quorate.mechanisms.base import FloatArray, Mechanism
from quorate.votes import PublicVotes

_SEARCHED = np.array([3.0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 19, 23, 28, 35, 45, 60, 85, 120])
_DISTANCES = 128
_ROUGH = 400


def search_curve(
    votes: PublicVotes, mechanism: Mechanism, *, delta: float, probability: float, prefix_mu: float = 0.0
) -> tuple[float, float, float, float]:
    """(order, B, kappa, s) of the gate with the smallest epsilon that passes these votes with this probability.

    The search is heuristic and free to be: whatever it returns, the certificate is computed from it. Numbers are
    rounded to four digits, B upward.
    """
    n = votes.teachers
    steps = np.unique(np.round(np.linspace(0, n, min(n, _DISTANCES) + 1)).astype(np.int64))
    cost = envelope(votes, mechanism, orders=_SEARCHED, distances=steps)
    best = (math.inf, 0)
    found: dict[int, tuple[float, float, float]] = {}
    start = (math.log(0.02 * 250 / n), math.log(6 * n / 250))

    def at(index: int) -> float:
        """The epsilon at one order; orders beside each other have much the same best curve."""
        nonlocal start
        if index not in found:
            highest = highest_cost(
                mechanism,
                queries=votes.queries,
                teachers=n,
                classes=votes.classes,
                order=float(_SEARCHED[index]),
                abstentions=votes.abstentions,
            )
            epsilon, kappa, s = _best_at(
                float(_SEARCHED[index]), cost[index], steps, highest, delta, probability, prefix_mu, start
            )
            found[index] = (epsilon, kappa, s)
            start = (math.log(kappa), math.log(s))
        return found[index][0]

    # Epsilon falls and then rises with the order.
    low, high = 0, len(_SEARCHED) - 1
    while high - low > 2:
        middle = (low + high) // 2
        low, high = (low, middle + 1) if at(middle) <= at(middle + 1) else (middle, high)
    best = min(((at(i), i) for i in range(low, high + 1)), key=lambda pair: pair[0])
    index = best[1]
    _, kappa, s = found[index]
    kappa, s = float(f"{kappa:.4g}"), float(f"{s:.4g}")
    exact = envelope(votes, mechanism, orders=[float(_SEARCHED[index])])[0]
    b = _scale(exact, np.arange(n + 1), kappa, s, probability)
    place = 10.0 ** (3 - math.floor(math.log10(b)))
    return float(_SEARCHED[index]), math.ceil(b * place) / place, kappa, s


def _scale(cost: FloatArray, steps: np.ndarray, kappa: float, s: float, probability: float) -> float:
    """The smallest B at which the score leaves the noise room to pass: phi <= -z s."""
    return float(np.max(cost * np.exp(kappa * (float(ndtri(probability)) * s - steps))))


def _best_at(
    order: float,
    cost: FloatArray,
    steps: np.ndarray,
    highest: float,
    delta: float,
    probability: float,
    prefix_mu: float,
    start: tuple[float, float],
) -> tuple[float, float, float]:
    def epsilon(logs: np.ndarray) -> float:
        kappa, s = math.exp(logs[0]), math.exp(logs[1])
        b = _scale(cost, steps, kappa, s, probability)
        if not b < highest:
            return 1e3 + b
        curve = CostCurve(order=order, B=b, kappa=kappa, highest=highest)
        return gate_epsilon(curve, s=s, delta=delta, prefix_mu=prefix_mu, cells=_ROUGH)

    result = minimize(epsilon, np.array(start), method="Nelder-Mead", options={"xatol": 5e-3, "fatol": 1e-4})
    return float(result.fun), math.exp(result.x[0]), math.exp(result.x[1])
