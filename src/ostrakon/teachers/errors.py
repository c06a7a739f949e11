"""How far a fitted student is off: every record (or user) adds one to a count of errors by size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ostrakon.teachers.blocks import Block
from ostrakon.teachers.gathering import Said, distinct, numbered
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class ErrorsAsked:
    """What every unit is asked after a student of a quantity was fitted.

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

    def nothing(self) -> Said:
        """The contributions of no unit."""
        return Said(np.zeros((len(self.edges), 1), np.int64), None, 0)

    def contributions_of(self, block: Block) -> Said:
        """The contributions of one block, whose features are the student's estimates as shares of the range, (rows, 1).

        Errors: `InvalidInput` for estimates that are not finite.
        """
        owners, estimates, given = block
        quantity = np.asarray(given, np.int64)
        if len(quantity) and not 0 <= quantity.min() <= quantity.max() <= STEPS:
            raise InvalidInput(f"The quantities of the private rows must be whole steps from 0 to {STEPS}.")
        off = np.abs(quantity / STEPS - np.asarray(estimates, np.float64)[:, 0])
        if not np.isfinite(off).all():
            raise InvalidInput("The student must give a finite estimate for every private row.")
        bins = np.minimum(np.searchsorted(self.edges, off), len(self.edges) - 1)
        whose, everyone = numbered(owners)
        return Said(errors_said(whose, bins, everyone, bins_in_all=len(self.edges)), None, everyone)


def errors_said(whose: IntArray, bins: IntArray, everyone: int, *, bins_in_all: int) -> IntArray:
    """What all owners add to the bins, in whole steps, (bins, 1).

    Parameters
    ----------
    whose, bins : int arrays of shape (rows,)
        The owner, from 0, and the bin of every row.
    everyone, bins_in_all : int
        Number of owners and of bins.

    Returns
    -------
    int array of shape (bins_in_all, 1)
        An owner splits one vote by the shares of its rows; what rounding leaves goes to its largest error.

    Examples
    --------
    >>> errors_said(np.array([0, 0, 0, 1]), np.array([0, 0, 2, 1]), 2, bins_in_all=3).ravel().tolist()
    [682, 1024, 342]
    """
    said, often = distinct(whose, bins)
    steps = often * STEPS // np.bincount(whose, minlength=everyone)[said[:, 0]]
    last = np.append(said[1:, 0] != said[:-1, 0], True)
    steps[last] += STEPS - np.bincount(said[:, 0], weights=steps, minlength=everyone).astype(np.int64)
    total = np.zeros((bins_in_all, 1), np.int64)
    np.add.at(total[:, 0], said[:, 1], steps)
    return total
