"""Corrections of a fitted student: every record (or user) adds its features times the student's error to sums."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ostrakon.features.corrections import correction_steps, quantity_correction_steps
from ostrakon.features.moments import MomentMap
from ostrakon.features.sums import SumMap
from ostrakon.teachers.blocks import Block
from ostrakon.teachers.errors import known_quantities
from ostrakon.teachers.gathering import Contributions, renumbered
from ostrakon.teachers.per_record import group_means
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, FloatArray, IntArray


class CorrectionRule(ABC):
    """The contribution of every unit to sums of a student's errors, after the student was fitted.

    Notes
    -----
    Guarantee: a unit adds at most a vote (Euclidean length), in whole steps, and nothing else depends on it; a user
    adds the mean of its rows. So two units are at most two votes apart.
    """

    label: ClassVar[str] = "Correcting the student"

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the sums."""

    @property
    @abstractmethod
    def ends(self) -> IntArray:
        """Targets whose contributions differ most for some row."""

    @abstractmethod
    def steps(self, inputs: FloatArray, targets: IntArray) -> IntArray:
        """Return what rows add to the sums, in whole steps, (rows, *shape). Errors: `InvalidInput` for other targets.

        inputs: what the student says of the rows, and their features, finite. targets: of the rows.
        """

    def empty(self) -> Contributions:
        """Return the contributions of no unit."""
        return Contributions(np.zeros(self.shape, np.int64), None, 0)

    def contributions_of(self, block: Block) -> Contributions:
        """Return the contributions of one block, whose features are the inputs of `steps`.

        A row with a number that is not finite adds nothing.
        """
        owner_ids, rows, targets = block
        rows = np.ascontiguousarray(rows, np.float64)
        owner, owners = renumbered(owner_ids)
        finite = np.isfinite(rows).all(axis=1, keepdims=True)
        steps = self.steps(np.where(finite, rows, 0.0), np.asarray(targets, np.int64)).reshape(len(rows), -1) * finite
        if owners < len(owner):
            steps = group_means(owner, steps, owners)
        return Contributions(steps.sum(axis=0).reshape(self.shape), None, owners)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassCorrections(CorrectionRule):
    """Corrections of a student of classes, as `correction_steps`; inputs are probabilities, and then directions.

    Parameters
    ----------
    directions : MomentMap
        Of the released sums of features.
    classes : int
    """

    directions: MomentMap
    classes: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.directions.directions, self.classes

    @property
    def ends(self) -> IntArray:
        return np.arange(self.classes)

    def steps(self, inputs: FloatArray, targets: IntArray) -> IntArray:
        if len(targets) and not 0 <= targets.min() <= targets.max() < self.classes:
            raise InvalidInput(f"The classes of the private rows must be numbers below {self.classes}.")
        return correction_steps(inputs[:, : self.classes], inputs[:, self.classes :], targets)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantityCorrections(CorrectionRule):
    """Corrections of a student of a quantity, as `quantity_correction_steps`; inputs are estimates, from -1 to 1 if
    they are inside the part of the range to which values are clipped, and then features.

    Parameters
    ----------
    features : SumMap
        Of the released sums of features.
    scale : float
        Larger errors are clipped to it.
    """

    features: SumMap
    scale: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.directions, 2

    @property
    def ends(self) -> IntArray:
        return np.array(self.features.span)

    def steps(self, inputs: FloatArray, targets: IntArray) -> IntArray:
        errors = 2 * self.features.clipped(known_quantities(targets)) / STEPS - 1 - inputs[:, 0]
        return self.features.table(quantity_correction_steps(inputs[:, 1:], errors, scale=self.scale))
