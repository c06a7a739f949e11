"""Errors of a fitted student: every record (or user) adds one to a count of errors by size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ostrakon.teachers.blocks import Block
from ostrakon.teachers.gathering import Contributions, distinct_rows, renumbered
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class ErrorRule:
    """The contribution of every unit after a student of a quantity was fitted.

    Parameters
    ----------
    edges : array of float, shape (bins,)
        The largest error of each bin, as a share of the range, in ascending order; the last one is 1.

    Notes
    -----
    Guarantee: a unit adds one vote, in whole steps, to the bins of its own rows, and nothing else depends on it. So two
    units are at most sqrt(2) votes apart.
    """

    edges: NDArray[np.float64]

    def empty(self) -> Contributions:
        """Return the contributions of no unit."""
        return Contributions(np.zeros((len(self.edges), 1), np.int64), None, 0)

    def contributions_of(self, block: Block) -> Contributions:
        """Return the contributions of one block, whose features are the student's estimates as shares of the range,
        (rows, 1).

        Errors: `InvalidInput` for estimates that are not finite.
        """
        owner_ids, estimates, steps = block
        quantity = np.asarray(steps, np.int64)
        if len(quantity) and not 0 <= quantity.min() <= quantity.max() <= STEPS:
            raise InvalidInput(f"The quantities of the private rows must be whole steps from 0 to {STEPS}.")
        error = np.abs(quantity / STEPS - np.asarray(estimates, np.float64)[:, 0])
        if not np.isfinite(error).all():
            raise InvalidInput("The student must give a finite estimate for every private row.")
        bins = np.minimum(np.searchsorted(self.edges, error), len(self.edges) - 1)
        owner, owners = renumbered(owner_ids)
        return Contributions(error_steps(owner, bins, owners, n_bins=len(self.edges)), None, owners)


def error_steps(owner: IntArray, bins: IntArray, owners: int, *, n_bins: int) -> IntArray:
    """Return the sum of what all owners add to the bins, in whole steps, (bins, 1).

    Parameters
    ----------
    owner, bins : int arrays of shape (rows,)
        The owner, from 0, and the bin of every row.
    owners, n_bins : int
        Number of owners and of bins.

    Returns
    -------
    int array of shape (n_bins, 1)
        An owner splits one vote by the shares of its rows; the rest from rounding goes to its largest error.

    Examples
    --------
    >>> error_steps(np.array([0, 0, 0, 1]), np.array([0, 0, 2, 1]), 2, n_bins=3).ravel().tolist()
    [682, 1024, 342]
    """
    pairs, repeats = distinct_rows(owner, bins)
    steps = repeats * STEPS // np.bincount(owner, minlength=owners)[pairs[:, 0]]
    last = np.append(pairs[1:, 0] != pairs[:-1, 0], True)
    steps[last] += STEPS - np.bincount(pairs[:, 0], weights=steps, minlength=owners).astype(np.int64)
    total = np.zeros((n_bins, 1), np.int64)
    np.add.at(total[:, 0], pairs[:, 1], steps)
    return total
