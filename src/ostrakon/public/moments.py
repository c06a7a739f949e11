"""First moments: what every record says of its features beside its vote, as whole steps that are bounded exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.public.rowwise import in_blocks, own_rows
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CONSTANT = 724
"""Steps of the constant first direction: the largest whole number whose square is at most half of `STEPS` squared."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentMap:
    """From features to directions: a constant, then the features from their public mean, cut off at a public length.

    centre: public mean, (features,). radius: the length beyond which a row counts as if it lay there; above 0.
    Made by `MomentMap.of`. Guarantee: a function of public features alone.
    """

    centre: FloatArray
    radius: float

    @classmethod
    def of(cls, public: ArrayLike) -> Self:
        """Of the features of public rows, (rows, features): their mean, and the median length from there.

        Errors: `InvalidInput` for features that are not finite, too many of them (beyond 2,000,000), or no rows.
        """
        points = np.asarray(public, np.float64)
        if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
            raise InvalidInput(f"public must be finite features of shape (rows, features), got {points.shape}.")
        if _room(points.shape[1]) <= 0:
            raise InvalidInput(f"public must have at most 2,000,000 features for moments, got {points.shape[1]}.")
        centre = points.mean(axis=0)
        lengths = np.sqrt(np.square(points - centre).sum(axis=1))
        return cls(centre=centre, radius=max(float(np.median(lengths)), 1e-12))

    @property
    def directions(self) -> int:
        """The constant and one for every feature."""
        return 1 + len(self.centre)

    @property
    def constant(self) -> float:
        """Every row's first direction, in votes."""
        return CONSTANT / STEPS

    @property
    def longest(self) -> float:
        """How long the others may be together, in votes, before they are rounded."""
        return _room(len(self.centre)) / STEPS

    def of_rows(self, features: ArrayLike) -> FloatArray:
        """What is summed, without rounding, in votes: float64 (rows, directions)."""
        away = np.ascontiguousarray(np.asarray(features, np.float64) - self.centre)
        lengths = np.sqrt(np.square(away).sum(axis=1, keepdims=True))
        cut = away / np.maximum(lengths, self.radius)
        return np.column_stack([np.full(len(cut), self.constant), cut * self.longest])

    def steps(self, features: ArrayLike) -> IntArray:
        """What every row says, in whole steps of 1/`STEPS` vote, int64 (rows, directions).

        Guarantee: the first is `CONSTANT`, all others together have at most that length, so the whole has at most the
        length of one vote, and no two rows point away from each other. Each row's own, to the last bit.
        Errors: `InvalidInput` for features that are not finite.
        """
        given = np.asarray(features, np.float64)
        if not np.isfinite(given).all():
            raise InvalidInput("The features of the private rows must be finite numbers.")
        made = in_blocks(self._rounded, given, rows=own_rows(self._rounded, self.centre[None]))
        found = np.concatenate(made) if made else np.empty((0, self.directions), np.int64)
        # In whole numbers: what the guarantee rests on is not left to rounding.
        if len(found) and int(np.square(found[:, 1:]).sum(axis=1).max(initial=0)) > CONSTANT**2:
            raise InvalidInput("The features of a private row must have a direction of bounded length.")
        return found

    def _rounded(self, features: FloatArray) -> IntArray:
        return np.rint(self.of_rows(features) * STEPS).astype(np.int64)


def _room(features: int) -> float:
    """The longest that a direction may be before it is rounded, in steps: no coordinate is rounded by more than 1/2."""
    return CONSTANT - 1 - float(np.sqrt(features)) / 2
