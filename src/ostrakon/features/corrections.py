"""What a row adds to the sums that correct a student: features times the student's error, in bounded whole steps."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.features.moments import principal_variances
from ostrakon.validation import InvalidInput, positive, whole
from ostrakon.votes import STEPS, FloatArray, IntArray

_EXPLAINED = 0.25
"""Share of the variance of errors that is linear in the features, for `worth_correcting`. Chosen on tables: see
benchmarks/README.md.
"""
_EQUAL = 1e-6
"""Relative difference of promises that are treated as equal, because processors round differently."""


def worth_correcting(public: ArrayLike, *, records: int, noise: float) -> int:
    """Return the number of principal directions whose sums promise the best correction, from public numbers alone.

    Parameters
    ----------
    public : array of float, shape (rows, features)
        Features of the public rows.
    records : int
        Number of private records.
    noise : float
        Standard deviation of the noise on each sum, in votes.

    Returns
    -------
    int
        From 1 to the number of features.

    Notes
    -----
    With more directions, each has a smaller part of the length of a vote. Let the errors be linear in the features,
    with weights of the same variance in all directions. Of k directions with the variances v_j, each row then adds a
    part v_j / (v_1 + ... + v_k) of a squared vote to direction j, and the best estimate of its weight from the noisy
    sum has a known variance. The number k at which the estimated errors have the largest variance is returned: all
    directions if their variances are equal, and few if they decrease fast. Of equally good numbers it is the smallest,
    so directions without variance, as of columns that add up to 1, are left out on every processor alike.

    Examples
    --------
    >>> equal, decreasing = np.ones(40), 0.8 ** np.arange(40)
    >>> rows = [np.vstack([np.diag(lengths), -np.diag(lengths)]) for lengths in (equal, decreasing)]
    >>> [worth_correcting(public, records=3000, noise=10.0) for public in rows]
    [40, 13]
    """
    ratio = whole("records", records, at_least=1) / positive("noise", noise)
    variances = principal_variances(public)
    length = np.cumsum(variances)
    if not length[-1] > 0:
        return 1
    signal = _EXPLAINED / length[-1] * ratio**2 / 2 * np.square(variances)
    known = [(variances[:k] * signal[:k] / (signal[:k] + length[k - 1])).sum() for k in range(1, len(length) + 1)]
    return 1 + int(np.argmax(np.array(known) >= (1 - _EQUAL) * max(known)))


def largest_error(proba: FloatArray) -> FloatArray:
    """Return the largest length of (one-hot label - probabilities) over all labels, (rows,).

    >>> largest_error(np.array([[0.5, 0.5], [0.9, 0.1]])).round(4).tolist()
    [0.7071, 1.2728]
    """
    lengths: FloatArray = np.sqrt(np.square(proba).sum(axis=1) - 2 * proba.min(axis=1) + 1)
    return lengths


def correction_steps(proba: FloatArray, directions: FloatArray, labels: IntArray) -> IntArray:
    """Return what rows add to the sums, in whole steps of 1/`STEPS` vote, (rows, directions, classes).

    Parameters
    ----------
    proba : array of float, shape (rows, classes)
        The student's probabilities.
    directions : array of float, shape (rows, directions)
        At most one vote long.
    labels : array of int, shape (rows,)

    Returns
    -------
    array of int
        The directions times the error (one-hot label - probabilities), divided by `largest_error` and rounded towards
        0.

    Raises
    ------
    InvalidInput
        For rows that would add more than a vote (Euclidean length).

    Notes
    -----
    Guarantee: a row adds at most a vote, and what it adds depends on it alone.

    Examples
    --------
    >>> correction_steps(np.array([[0.25, 0.75]]), np.array([[0.5, -0.5]]), np.array([0])).tolist()
    [[[362, -362], [-362, 362]]]
    """
    error = np.eye(proba.shape[1])[labels] - proba
    error /= largest_error(proba)[:, None]
    steps = np.trunc(STEPS * directions[:, :, None] * error[:, None, :]).astype(np.int64)
    return _at_most_a_vote(steps)


def quantity_correction_steps(features: FloatArray, errors: FloatArray, *, scale: float) -> IntArray:
    """Return what rows add to the sums that correct a student of a quantity, in whole steps of 1/`STEPS` vote,
    (rows, features).

    Parameters
    ----------
    features : array of float, shape (rows, features)
        `SumMap.unrounded` of the rows, at most 1 long.
    errors : array of float, shape (rows,)
        The quantity minus the student's estimate, on the scale from -1 to 1.
    scale : float
        Larger errors are clipped to it; above 0.

    Returns
    -------
    array of int
        The features times the clipped error divided by `scale`, times `correction_length`, to the nearest step.

    Raises
    ------
    InvalidInput
        For rows that would add more than a vote (Euclidean length).

    Notes
    -----
    Guarantee: a row adds at most a vote, and what it adds depends on it alone.

    Examples
    --------
    >>> quantity_correction_steps(np.array([[0.6, 0.8]]), np.array([-0.5]), scale=0.25).tolist()
    [[-613, -818]]
    """
    clipped = np.clip(errors / scale, -1, 1)[:, None]
    steps = np.rint(correction_length(features.shape[1]) * clipped * features).astype(np.int64)
    return _at_most_a_vote(steps)


def correction_length(features: int) -> float:
    """Return the steps of the length 1 of a row's features in corrections; rounding makes it at most a vote.

    >>> correction_length(100)
    1018.0
    """
    return STEPS - 1 - math.sqrt(features) / 2


def _at_most_a_vote(steps: IntArray) -> IntArray:
    """Return what rows add, (rows, ...); refuse more than a vote of a row (Euclidean length)."""
    rows = steps.reshape(len(steps), math.prod(steps.shape[1:]))
    # In integers, because the guarantee depends on this bound.
    if len(rows) and int(np.einsum("rf,rf->r", rows, rows).max()) > STEPS**2:
        raise InvalidInput("A private row must add at most one vote to the corrections.")
    return steps
