"""Corrections of a fitted student: every record (or user) adds its features times the student's error to sums."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ostrakon.features.corrections import correction_steps
from ostrakon.features.moments import MomentMap
from ostrakon.teachers.blocks import Block
from ostrakon.teachers.gathering import Contributions, renumbered
from ostrakon.teachers.per_record import group_means
from ostrakon.validation import InvalidInput


@dataclass(frozen=True, kw_only=True, eq=False)
class CorrectionRule:
    """The contribution of every unit after a student was fitted, as `correction_steps`.

    Parameters
    ----------
    directions : MomentMap
        Of the released sums of features.
    classes : int

    Notes
    -----
    Guarantee: a unit adds at most a vote (Euclidean length), in whole steps, and nothing else depends on it; a user
    adds the mean of its rows. So two units are at most two votes apart.
    """

    directions: MomentMap
    classes: int
    label: ClassVar[str] = "Correcting the student"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the sums."""
        return self.directions.directions, self.classes

    def empty(self) -> Contributions:
        """Return the contributions of no unit."""
        return Contributions(np.zeros(self.shape, np.int64), None, 0)

    def contributions_of(self, block: Block) -> Contributions:
        """Return the contributions of one block, whose features are probabilities, and then directions of the rows.

        A row with a number that is not finite adds nothing. Errors: `InvalidInput` for other classes.
        """
        owner_ids, rows, targets = block
        rows, labels = np.ascontiguousarray(rows, np.float64), np.asarray(targets, np.int64)
        if len(labels) and not 0 <= labels.min() <= labels.max() < self.classes:
            raise InvalidInput(f"The classes of the private rows must be numbers below {self.classes}.")
        proba, directions = rows[:, : self.classes], rows[:, self.classes :]
        owner, owners = renumbered(owner_ids)
        finite = np.isfinite(rows).all(axis=1, keepdims=True)
        proba, directions = np.where(finite, proba, 1 / self.classes), np.where(finite, directions, 0.0)
        steps = correction_steps(proba, directions, labels).reshape(len(labels), -1)
        if owners < len(owner):
            steps = group_means(owner, steps, owners)
        return Contributions(steps.sum(axis=0).reshape(self.shape), None, owners)
