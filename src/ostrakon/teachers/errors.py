"""Counts to which every record (or user) adds one vote: values of a quantity, or errors of a fitted student."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ostrakon.teachers.blocks import Block
from ostrakon.teachers.gathering import Contributions, distinct_rows, renumbered
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS, FloatArray, IntArray


class ErrorRule(ABC):
    """The contribution of every unit to counts, most of them of errors after a student was fitted.

    Notes
    -----
    Guarantee: a unit adds one vote, in whole steps, to the bins of its own rows, and nothing else depends on it. So two
    units are at most sqrt(2) votes apart.
    """

    label: ClassVar[str] = "Counting the student's errors"

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table of counts, whose entries are the bins."""

    @abstractmethod
    def bins(self, estimates: FloatArray, targets: IntArray) -> IntArray:
        """Return the bin of every row, (rows,). Errors: `InvalidInput` for other targets.

        estimates: if one is not finite, which must not stop the run, it is as wrong as possible.
        """

    def empty(self) -> Contributions:
        """Return the contributions of no unit."""
        return Contributions(np.zeros(self.shape, np.int64), None, 0)

    def contributions_of(self, block: Block) -> Contributions:
        """Return the contributions of one block, whose features are what the student says, (rows, 1)."""
        owner_ids, estimates, targets = block
        estimates = np.asarray(estimates, np.float64)[:, 0]
        bins, (owner, owners) = self.bins(estimates, np.asarray(targets, np.int64)), renumbered(owner_ids)
        steps = error_steps(owner, bins, owners, n_bins=int(np.prod(self.shape)))
        return Contributions(steps.reshape(self.shape), None, owners)


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram(ErrorRule):
    """Counts of the values of a quantity; the estimates are not used.

    Parameters
    ----------
    edges : array of int, shape (bins + 1,)
        Of the bins, in whole steps of 1/`FINE_STEPS` of the range, from 0 to `FINE_STEPS`.
    """

    label: ClassVar[str] = "Making a noisy histogram of the target"

    edges: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.edges) - 1, 1

    def bins(self, estimates: FloatArray, targets: IntArray) -> IntArray:
        # The largest value is in the last bin.
        return np.searchsorted(self.edges[1:-1], known_quantities(targets), side="right")


@dataclass(frozen=True, kw_only=True, eq=False)
class ErrorSizes(ErrorRule):
    """Counts of the errors of a student of a quantity, by size; it says shares of a part of the range.

    Parameters
    ----------
    edges : array of float, shape (bins,)
        The largest error of each bin, as a share of the part `span`, in ascending order; the last bin has all larger
        ones, too.
    span : tuple of (int, int)
        The part of the range (`SumMap.span`).
    """

    edges: NDArray[np.float64]
    span: tuple[int, int] = (0, FINE_STEPS)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.edges), 1

    def bins(self, estimates: FloatArray, targets: IntArray) -> IntArray:
        low, high = self.span
        error = np.abs((known_quantities(targets) - low) / (high - low) - estimates)
        return np.minimum(np.searchsorted(self.edges, error), len(self.edges) - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class RightAndWrong(ErrorRule):
    """Counts of right and wrong predictions of a student of classes, by true class where they are few.

    Parameters
    ----------
    classes : int
    by_class : bool
        Whether there is a row for each class; else one row for all.
    """

    classes: int
    by_class: bool

    @property
    def shape(self) -> tuple[int, int]:
        return (self.classes if self.by_class else 1), 2

    def bins(self, estimates: FloatArray, targets: IntArray) -> IntArray:
        if len(targets) and not 0 <= targets.min() <= targets.max() < self.classes:
            raise InvalidInput(f"The classes of the private rows must be numbers below {self.classes}.")
        return 2 * (targets if self.by_class else np.zeros_like(targets)) + (estimates != targets)


def known_quantities(targets: IntArray) -> IntArray:
    """Return the targets of private rows; refuse other ones than quantities in whole steps from 0 to `FINE_STEPS`."""
    if len(targets) and not 0 <= targets.min() <= targets.max() <= FINE_STEPS:
        raise InvalidInput(f"The quantities of the private rows must be whole steps from 0 to {FINE_STEPS}.")
    return targets


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
        An owner splits one vote by the shares of its rows, so that its share of rows up to any bin is rounded to the
        nearest step.

    Examples
    --------
    >>> error_steps(np.array([0, 0, 0, 1]), np.array([0, 0, 2, 1]), 2, n_bins=3).ravel().tolist()
    [683, 1024, 341]
    """
    pairs, repeats = distinct_rows(owner, bins)
    rows = np.bincount(owner, minlength=owners)
    # An owner's rows up to and including this bin; rounding every bin by itself would move its rest to one of them.
    so_far = np.cumsum(repeats) - (np.cumsum(rows) - rows)[pairs[:, 0]]
    up_to = (2 * so_far * STEPS + rows[pairs[:, 0]]) // (2 * rows[pairs[:, 0]])
    first = np.append(True, pairs[1:, 0] != pairs[:-1, 0])[: len(pairs)]
    steps = up_to - np.where(first, 0, np.roll(up_to, 1))
    total = np.zeros((n_bins, 1), np.int64)
    np.add.at(total[:, 0], pairs[:, 1], steps)
    return total
