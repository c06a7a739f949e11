"""How often a student recognises each class, estimated from released numbers alone: recall, and balanced accuracy.

c[k, j] are the private counts of cell k and class j, released as Y = c + Z with Gaussian noise; s[k, j] is the share of
the public rows of cell k for which a student predicts class j. Of the records of class j in the cell it recognises at
least c[k, j] - (1 - s[k, j]) n[k], where n[k] is the number of records of the cell, and at most the smaller of c[k, j]
and s[k, j] n[k] (Frechet). Sums of these over cells are linear in the counts. They are divided by the size of the
class, which is known best from released sums. A rare class is predicted in few cells, so little noise is added up.

Lower ends use students that were fitted without the cell. Upper ends use the released student, which tends to predict
a class where noise has raised its count, so that they are too high, not too low.

Assumption: within a cell, public rows and private records are draws of one law. The released student is taken to
recognise each class at least as well as those of the folds.

Guarantee: a function of released numbers and public rows, so it costs no privacy of its own.
Source: docs/mathematics.md O.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from ostrakon.accounting.estimates import CONFIDENCE, Recall
from ostrakon.students.agreement_estimate import HeldOut
from ostrakon.validation import InvalidInput, positive
from ostrakon.votes import FloatArray, IntArray

_KNOWN_FROM = 4.0
"""A class size is taken as known if it exceeds this number of standard deviations of its noise."""
_LAST_BITS = 1e-9
"""Allowance at both ends for the rounding of sums."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassSizes:
    """Class sizes, estimated from released sums.

    Parameters
    ----------
    sizes : array of float, shape (classes,)
    sigma : float
        Standard deviation of the noise on each, above 0.
    """

    sizes: FloatArray
    sigma: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bound:
    """A linear bound on the number of recognised records of a class.

    weights: on the counts, (cells, classes). unseen: the sum over cells of what their public rows show, in records.
    rows: number of records that one public row represents; 0 if none.
    """

    weights: FloatArray
    unseen: float
    rows: float


def recalls(
    tested: HeldOut,
    predicted: IntArray,
    *,
    sigma2: float,
    labels: Sequence[str],
    counted: str,
    sizes: ClassSizes | None = None,
) -> tuple[Recall, ...]:
    """Return ranges of the recall of every class and, last, of their mean, the balanced accuracy.

    Parameters
    ----------
    tested : HeldOut
        Predictions for held-out cells with noisy counts.
    predicted : array of int, shape (3, held-out queries, classes)
        Public rows in each half of a cell, and its query, for which the released student predicts each class.
    sigma2 : float
        Standard deviation of the noise on the counts, above 0.
    labels : sequence of str
        The classes.
    counted : str
        What is counted, in words.
    sizes : ClassSizes, optional
        Of the records that are counted. None: the counts alone say how many there are.

    Returns
    -------
    tuple of Recall
        The ranges of all classes hold together in at least 95% of runs, and that of their mean in as many, whatever the
        student's errors within a cell are, if public and private rows are alike within cells.

    Raises
    ------
    InvalidInput
        For noise that is not above 0, or counts of another shape.
    """
    sigma2, m = positive("sigma2", sigma2), tested.counts.shape[1]
    if predicted.shape != (3, *tested.counts.shape) or len(labels) != m:
        raise InvalidInput(f"predicted must be rows of each cell by half and class, got shape {predicted.shape}.")
    lower = [_lower_bound(tested, label) for label in range(m)]
    upper = [_upper_bound(tested, predicted, label) for label in range(m)]
    ends: list[tuple[float, float]] = []
    for group in (*([label] for label in range(m)), range(m)):
        classes = len(group)
        z = _quantiles((1 - CONFIDENCE) / (2 if classes > 1 else 2 * m))
        shared: dict[str, Any] = {"sigma2": sigma2, "sizes": sizes, "z": z}
        candidates = [
            _end(tested.counts, {label: bounds[label] for label in group}, sign=sign, **shared)
            for sign, bounds in ((-1, lower), (1, upper))
        ]
        ends.append((min(candidates), max(candidates)))
    return tuple(
        Recall(label=label, counted=counted, low=low, high=high)
        for label, (low, high) in zip([*labels, None], ends, strict=True)
    )


def _end(
    counts: FloatArray,
    bounds: Mapping[int, _Bound],
    *,
    sign: int,
    sigma2: float,
    sizes: ClassSizes | None,
    z: tuple[float, float],
) -> float:
    """Return the lower (sign -1) or upper (1) end of the range of the mean recall of the classes of `bounds`.

    A class whose size is hidden by noise counts as recall 0, or 1. The error of a recall, the ratio of recognised
    records to the noisy size, is the noise of the former minus the recall times the noise of the latter.
    """
    total = counts.sum(axis=0) if sizes is None else sizes.sizes
    noise = sigma2 * len(counts) ** 0.5 if sizes is None else sizes.sigma
    known = [label for label in bounds if total[label] > _KNOWN_FROM * noise]
    unit = {label: 1 / (len(bounds) * float(total[label])) for label in known}
    weights, end = np.zeros_like(counts), 0.0 if sign < 0 else (len(bounds) - len(known)) / len(bounds)
    variance, largest_row = 0.0, 0.0
    for label in known:
        bound = bounds[label]
        recognised = float((bound.weights * counts).sum())
        recall = float(np.clip(recognised / total[label], 0, 1))
        weights += unit[label] * bound.weights
        if sizes is None:
            weights[:, label] -= unit[label] * recall
        else:
            variance += (unit[label] * recall * noise) ** 2
        end += unit[label] * recognised
        variance += unit[label] ** 2 * bound.rows * bound.unseen
        largest_row = max(largest_row, unit[label] * bound.rows)
    # Wilson's interval for public rows: even if none is predicted, some records may be.
    both, single = z
    row_term = single**2 * largest_row / 2
    deviation = float(np.hypot(both * (variance + sigma2**2 * float(np.square(weights).sum())) ** 0.5, row_term))
    return float(np.clip(end + sign * (row_term + deviation + _LAST_BITS), 0, 1))


def _lower_bound(tested: HeldOut, label: int) -> _Bound:
    """Return a lower bound on the number of records of the class that the student recognises.

    A cell counts if its mean probability and the rows of one half suggest that the class is recognised there; the share
    of rows for which it is predicted is taken from the other half.
    """
    queries = np.zeros_like(tested.predicted[0]) if tested.query_predictions is None else tested.query_predictions
    predicted = np.stack([tested.predicted[0], tested.predicted[1], queries])
    weights, missed, relied_on = (
        np.zeros_like(tested.counts),
        np.zeros(len(tested.counts)),
        np.zeros(len(tested.counts), bool),
    )
    for rows, share, expected in _shares_by_half(predicted, label):
        weight = rows * (_mean_proba(tested, label) + (expected + 0.5) / 2 > 1)
        weights[:, label] += weight
        weights += (weight * (share - 1))[:, None]
        missed += weight * (1 - share)
        relied_on |= weight > 0
    return _Bound(weights=weights, **_row_terms(tested.counts, predicted, missed, relied_on))


def _upper_bound(tested: HeldOut, predicted: IntArray, label: int) -> _Bound:
    """Return an upper bound: predicted rows in cells with few of them, all records of the class in other cells."""
    weights, shown, relied_on = (
        np.zeros_like(tested.counts),
        np.zeros(len(tested.counts)),
        np.zeros(len(tested.counts), bool),
    )
    weights[:, label] = 1.0
    for rows, share, expected in _shares_by_half(predicted, label):
        weight = rows * (expected <= _mean_proba(tested, label))
        weights[:, label] -= weight
        weights += (weight * share)[:, None]
        shown += weight * share
        relied_on |= weight > 0
    return _Bound(weights=weights, **_row_terms(tested.counts, predicted, shown, relied_on))


def _shares_by_half(predicted: IntArray, label: int) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Yield for each half of every cell: its part of the rows, the share of them predicted as the class, and the share
    in the other half and the query."""
    halves = np.stack([predicted[0] - predicted[2], predicted[1]])
    rows = halves.sum(axis=2)
    for half in (0, 1):
        other = halves[1 - half] + predicted[2]
        yield (
            rows[half] / np.maximum(rows.sum(axis=0), 1),
            halves[half, :, label] / np.maximum(rows[half], 1),
            other[:, label] / np.maximum(other.sum(axis=1), 1),
        )


def _mean_proba(tested: HeldOut, label: int) -> FloatArray:
    """Return the mean held-out probability of the class in each cell, (cells,); 0.5 without probabilities."""
    return np.full(len(tested.counts), 0.5) if tested.mean_proba is None else tested.mean_proba[:, label]


def _row_terms(counts: FloatArray, predicted: IntArray, share: FloatArray, used: NDArray[np.bool_]) -> dict[str, float]:
    """Return `unseen` and `rows` of `_Bound`. share: of the rows of each cell; used: the cells that count."""
    rows, records = (predicted[0] + predicted[1] - predicted[2]).sum(axis=1)[used], np.maximum(counts.sum(axis=1), 0)
    records_of_row = float((records[used] ** 2 / rows).sum()) / max(float(records[used].sum()), 1e-12)
    return {"unseen": float((share * records).sum()), "rows": 1 + records_of_row if len(rows) else 0.0}


@cache
def _quantiles(miss: float) -> tuple[float, float]:
    """Return quantiles at the miss probability: of both noises together, however they depend on each other, and of one.

    One noise is on the recognised records, the other on the size of the class. A student of released sums, and so its
    recall, depends on the latter: the direction in which both are compared is any function of it. At worst the event is
    that two normal numbers have length z in a quarter of the plane, or that one exceeds z.
    """

    def excess_probability(z: float) -> float:
        return float(np.exp(-(z**2) / 2)) / 4 + float(stats.norm.sf(z)) - miss

    return optimize.root_scalar(excess_probability, bracket=(0, 40)).root, float(stats.norm.isf(miss))
