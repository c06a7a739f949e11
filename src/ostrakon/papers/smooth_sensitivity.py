"""Smooth sensitivity of the 2018 paper's data-dependent cost: Algorithms 3 to 5 and Theorem 24.

Everything here depends on the votes and is private; `ostrakon.papers.gnss` says what may be released with
it.
"""

from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.accounting.published.pate_2018 import log_pr_answered, rdp_threshold, require_order
from ostrakon.mechanisms import ConfidentGNMax, GNMax
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.papers.local_sensitivity import (
    LabelSensitivity,
    at_distances,
    distinct,
    label_sensitivities,
    sorted_histograms,
)
from ostrakon.validation import InvalidInput, finite, positive, whole
from ostrakon.votes import IntArray, Votes

__all__ = [
    "LabelSensitivity",
    "check_sensitivities",
    "label_sensitivities",
    "smooth_sensitivity",
    "theorem_24",
]

_ENTRIES = 1 << 22
"""Queries times distances held in memory at once."""


def check_sensitivities(
    votes: Votes, *, threshold: float, sigma1: float, order: float, distances: int | None = None
) -> FloatArray:
    """Return the largest local sensitivity of the threshold check's cost within d votes, shape (queries, distances).

    The cost depends on the top count alone, which moves by at most one a vote: every count within d is tried.
    Private. Source: pate-2018, Appendix B.4, for Algorithm 1's first step.
    """
    distances = votes.teachers if distances is None else whole("distances", distances, at_least=1)
    tops, inverse = np.unique(votes.top, return_inverse=True)
    sensitivity = _check_sensitivity_of_counts(votes.teachers, threshold, sigma1, order)
    return _spread(sensitivity, tops, distances)[inverse]


def theorem_24(totals: ArrayLike, *, smoothness: float) -> FloatArray:
    """Return max_d e^(-beta d) times the summed sensitivity at distance d; `totals` has the distances on its last axis.

    smoothness: beta, above 0. Guarantee: a beta-smooth bound on the sum's local sensitivity.
    Source: pate-2018, Theorem 24.
    """
    totals = np.asarray(totals, dtype=np.float64)
    return (totals * np.exp(-positive("smoothness", smoothness) * np.arange(totals.shape[-1]))).max(axis=-1)


def smooth_sensitivity(
    votes: Votes,
    mechanism: Mechanism,
    *,
    order: float,
    smoothness: float,
    answered: ArrayLike | None = None,
) -> float:
    """Return the beta-smooth sensitivity of a run's published cost at one order. Private.

    mechanism: GNMax or ConfidentGNMax. smoothness: beta, above 0.
    answered: which queries were answered, booleans of shape (queries,): the check of every query and the label of
    these are paid for. None: every label is weighted by its chance of being answered, the published code's
    expected cost, whose sensitivity is not covered: only for reproducing tables.

    Guarantee: with `answered` public and conditions C5 and C6 checked (here, numerically), a beta-smooth upper bound
    on the local sensitivity of the sum over queries of Theorem 6's bound: moving one vote in every query changes the
    sum by at most this, and this by at most a factor e^beta.
    Errors: `InvalidInput` for other mechanisms, where teachers abstain, or where C5 or C6 fails (names the order).
    Source: pate-2018, Algorithm 5 and Theorem 24.

    >>> votes = Votes([[240, 10], [180, 70]])
    >>> value = smooth_sensitivity(votes, GNMax(sigma2=40), order=14, smoothness=0.03)
    >>> bool(0 < value < 2 * 14 / 40**2)
    True
    """
    smoothness = positive("smoothness", smoothness)
    weights = None if answered is None else _booleans(answered, votes)
    return _smooth(_parts(mechanism, votes, require_order(order), weights), votes.teachers, smoothness)


class _Summed:
    """The sum over queries of the label's (weighted) and the check's sensitivity at any distances."""

    def __init__(
        self, votes: Votes, law: LabelSensitivity, weights: FloatArray, of_counts: FloatArray | None = None
    ) -> None:
        self.law = law
        self.within = None if of_counts is None else _maxima(of_counts)
        self.rows, inverse = distinct(sorted_histograms(votes, law, True))
        self.weights = np.bincount(inverse, weights=weights, minlength=len(self.rows))
        self.tops, self.how_many = np.unique(votes.top, return_counts=True)

    def __call__(self, distances: IntArray) -> FloatArray:
        total = np.zeros(len(distances))
        chunk = max(1, _ENTRIES // len(distances))
        for start in range(0, len(self.rows), chunk):
            part = slice(start, start + chunk)
            total += self.weights[part] @ at_distances(self.rows[part], self.law, distances)
        if self.within is not None:
            low = np.maximum(self.tops - distances[:, None], 0)
            high = np.minimum(self.tops + distances[:, None], len(self.within[0]) - 1)
            size = np.log2(high - low + 1).astype(np.int64)
            total += np.maximum(self.within[size, low], self.within[size, high + 1 - (1 << size)]) @ self.how_many
        return total


def _maxima(values: FloatArray) -> FloatArray:
    """[k, i]: the largest of the 2^k values from i on; any interval is the union of two such."""
    rows = [values]
    while (half := 1 << (len(rows) - 1)) < len(values):
        later = np.append(rows[-1][half:], np.full(min(half, len(values)), -np.inf))
        rows.append(np.maximum(rows[-1], later))
    return np.array(rows)


@singledispatch
def _parts(mechanism: Mechanism, votes: Votes, order: float, weights: FloatArray | None) -> _Summed:
    """Return the sensitivity of a run at any distance."""
    raise InvalidInput(f"mechanism must be gnmax or confident-gnmax, got {mechanism.name}.")


@_parts.register
def _(mechanism: GNMax, votes: Votes, order: float, weights: FloatArray | None) -> _Summed:
    law = LabelSensitivity(sigma=mechanism.sigma2, order=order, classes=votes.classes)
    every = np.ones(votes.queries) if weights is None else weights
    return _Summed(votes, law, every)


@_parts.register
def _(mechanism: ConfidentGNMax, votes: Votes, order: float, weights: FloatArray | None) -> _Summed:
    threshold, sigma1 = mechanism.threshold, mechanism.sigma1
    law = LabelSensitivity(sigma=mechanism.sigma2, order=order, classes=votes.classes)
    if weights is None:
        weights = np.exp(log_pr_answered(votes.counts, threshold=threshold, sigma1=sigma1))
    return _Summed(votes, law, weights, _check_sensitivity_of_counts(votes.teachers, threshold, sigma1, order))


def _smooth(summed: _Summed, teachers: int, smoothness: float) -> float:
    """Return max_d e^(-beta d) summed(d), summed being non-decreasing in d, without computing it at every d.

    Between two distances l < r no term exceeds e^(-beta (l+1)) summed(r): intervals whose bound does not beat the best
    value found are dropped, the others are halved.
    """
    at = np.array([0, teachers])
    value = summed(at)
    left, right, ceiling = at[:1], at[1:], value[1:]
    best = float((np.exp(-smoothness * at) * value).max())
    while True:
        open_ = (right - left > 1) & (np.exp(-smoothness * (left + 1)) * ceiling > best)
        left, right, ceiling = left[open_], right[open_], ceiling[open_]
        if not len(left):
            # The rounding of differences of costs is below this.
            return best * (1 + 1e-9)
        middle = (left + right) // 2
        value = summed(middle)
        best = max(best, float((np.exp(-smoothness * middle) * value).max()))
        left, right = np.append(left, middle), np.append(middle, right)
        ceiling = np.append(value, ceiling)


def _check_sensitivity_of_counts(teachers: int, threshold: float, sigma1: float, order: float) -> FloatArray:
    """Return how far the check's cost moves with the top count, for top counts 0 to teachers; (teachers + 1,)."""
    counts = np.column_stack([np.arange(teachers + 1), np.zeros(teachers + 1)])
    costs = rdp_threshold(counts, threshold=finite("threshold", threshold), sigma1=sigma1, orders=[order])[:, 0]
    step = np.abs(np.diff(costs))
    return np.maximum(np.append(step, 0.0), np.append(0.0, step))


def _spread(of_counts: FloatArray, tops: IntArray, distances: int) -> FloatArray:
    """Return the largest value within d of each top count, clipped to the possible counts; (tops, distances)."""
    d = np.arange(distances)
    last = len(of_counts) - 1
    below = of_counts[np.maximum(tops[:, None] - d, 0)]
    above = of_counts[np.minimum(tops[:, None] + d, last)]
    return np.maximum.accumulate(np.maximum(below, above), axis=1)


def _booleans(answered: ArrayLike, votes: Votes) -> FloatArray:
    array: NDArray[np.generic] = np.asarray(answered)
    if array.dtype != np.bool_ or array.shape != (votes.queries,):
        raise InvalidInput(
            f"answered must be booleans of shape ({votes.queries},), got {array.dtype} of shape {array.shape}."
        )
    return array.astype(np.float64)
