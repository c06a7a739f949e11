"""What a row adds to the sums that correct a student: features times the student's error, in bounded whole steps."""

import numpy as np

from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, FloatArray, IntArray


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
    # In integers, because the guarantee depends on this bound.
    if len(steps) and int(np.einsum("rdk,rdk->r", steps, steps).max()) > STEPS**2:
        raise InvalidInput("A private row must add at most one vote to the corrections.")
    return steps
