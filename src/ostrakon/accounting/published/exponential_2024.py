"""The 2024 paper's data-dependent bound for the exponential mechanism, eq. 13 to 16, and its q, eq. 17 and 18."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ostrakon.accounting.published.pate_2017 import rdp_pure_eps
from ostrakon.accounting.published.pate_2018 import require_histograms
from ostrakon.mechanisms.base import FloatArray
from ostrakon.validation import positive, whole


def log_q_exponential(counts: ArrayLike, *, epsilon: float) -> FloatArray:
    """Return the natural log of the probability that the exponential mechanism misses the plurality, exact, shape
    (queries,).

    counts: finite reals, shape (queries, classes). epsilon: of one query.
    Source: exponential-screening-2024, eq. 13.

    >>> round(float(np.exp(log_q_exponential([[60, 60]], epsilon=0.1))[0]), 9)
    0.5
    """
    scores = np.sort(require_histograms(counts), axis=1) * (positive("epsilon", epsilon) / 2)
    # Without the last, which is the plurality: a difference from 1 would lose the small probabilities.
    return np.asarray(logsumexp(scores[:, :-1], axis=1)) - np.asarray(logsumexp(scores, axis=1))


def rdp_exponential(counts: ArrayLike, *, epsilon: float, orders: ArrayLike) -> FloatArray:
    """Return the paper's cost of every answer, shape (queries, orders): Theorem 3 of 2017 at the q of eq. 13.

    Its data-independent part is eq. 15, order * epsilon^2 / 2: four times what bounded range allows.
    Guarantee: none, because it depends on the votes; it bounds the divergence from these votes to any neighbour's.
    Source: exponential-screening-2024, eq. 14 to 16.
    """
    return rdp_pure_eps(log_q_exponential(counts, epsilon=epsilon), epsilon=epsilon, orders=orders)


def q_sensitivity(counts: ArrayLike, log_q: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return how far q moves with one vote, as the paper defines its local sensitivity, shape (queries,).

    counts: whole numbers, shape (queries, classes). log_q: from histograms to ln q, for any order of classes. The
    larger of two moves of a vote: from the runner-up to the leader (none if the leader has all), and back. If the lead
    is at most 1, the leader gives to the first class below the runner-up, or to the runner-up if there is none.
    Guarantee: none. Noise of this scale does not make q private (section 4.6): the scale itself depends on the votes.
    Source: exponential-screening-2024, eq. 17 and 18.

    >>> q_sensitivity([[60, 20]], lambda n: log_q_exponential(n, epsilon=0.1)).round(4)
    array([0.0109])
    """
    votes = -np.sort(-require_histograms(counts), axis=1)
    rows = np.arange(len(votes))
    further, nearer = votes.copy(), votes.copy()
    gives = votes[:, 1] > 0
    further[:, 0] += gives
    further[:, 1] -= gives
    below = votes[:, 1:2] - votes >= 1
    other = np.where((votes[:, 0] - votes[:, 1] <= 1) & below.any(axis=1), below.argmax(axis=1), 1)
    nearer[:, 0] -= 1
    nearer[rows, other] += 1
    q = np.exp(log_q(votes))
    return np.maximum(np.abs(np.exp(log_q(further)) - q), np.abs(np.exp(log_q(nearer)) - q))


def delta_of_local_noise(teachers: int, log_q: Callable[[FloatArray], FloatArray], *, epsilon: float) -> float:
    """Return the least delta with which section 4.6 could keep its `epsilon`. It is far from 0, so the section is not
    private.

    The largest over all neighbouring histograms of two classes, of `q + Lap(q_sensitivity / epsilon)`.
    teachers: number of votes. log_q: as in `q_sensitivity`.
    Source: exponential-screening-2024, section 4.6; docs/mathematics.md F.

    >>> round(delta_of_local_noise(80, lambda n: log_q_exponential(n, epsilon=0.3), epsilon=1.0), 3)
    0.055
    """
    positive("epsilon", epsilon)
    leader = np.arange((whole("teachers", teachers, at_least=4) + 1) // 2 + 1, teachers)
    counts = np.column_stack([leader, teachers - leader])
    centres, scales = np.exp(log_q(counts.astype(np.float64))), q_sensitivity(counts, log_q) / epsilon
    laws = list(zip(centres.tolist(), scales.tolist(), strict=True))
    return max(
        (_excess(p, r, epsilon) for one, two in pairwise(laws) for p, r in ((one, two), (two, one))), default=0.0
    )


def _excess(p: tuple[float, float], r: tuple[float, float], epsilon: float) -> float:
    """Return the integral of max(p - e^epsilon r, 0), p and r Laplace densities (centre, scale): exact."""
    (a, b), (c, d) = p, r

    def loss(x: float) -> float:
        return -abs(x - a) / b + abs(x - c) / d + math.log(d / b) - epsilon

    # The loss is linear between the centres and beyond them: its sign changes at the centres or at its roots only.
    low, high = min(a, c), max(a, c)
    ends = {low, high}
    width = max(b, d, high - low)
    for start, stop in ((low - width, low), (low, high), (high, high + width)):
        slope = (loss(stop) - loss(start)) / (stop - start) if stop > start else 0.0
        root = start - loss(start) / slope if slope else math.nan
        inside = (root < low, low < root < high, root > high)[(start >= low) + (start >= high)]
        if inside:
            ends.add(root)
    points = [-math.inf, *sorted(ends), math.inf]
    total = 0.0
    for start, stop in pairwise(points):
        middle = stop - width if math.isinf(start) else start + width if math.isinf(stop) else (start + stop) / 2
        if loss(middle) > 0:
            total += _mass(p, start, stop) - math.exp(epsilon) * _mass(r, start, stop)
    return total


def _mass(law: tuple[float, float], start: float, stop: float) -> float:
    centre, scale = law

    def below(x: float) -> float:
        z = (x - centre) / scale
        return math.exp(z) / 2 if z < 0 else 1 - math.exp(-z) / 2

    return below(stop) - below(start)
