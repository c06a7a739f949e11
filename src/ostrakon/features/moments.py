"""Sums of features: the vector that every record adds to the sums of its class, in exactly bounded whole steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.features.rowwise import in_blocks, independent_rows
from ostrakon.numerics.threads import on_one_thread
from ostrakon.validation import InvalidInput, positive, whole
from ostrakon.votes import STEPS, FloatArray, IntArray

CONSTANT = 724
"""Steps of the constant first direction: the largest whole number whose square is at most half of `STEPS` squared."""
FEWEST, DIRECTIONS = 16, 2.3
"""Of `worth_their_noise`. Chosen on SST-2 and CIFAR-10: see benchmarks/README.md."""
FEW_CLASSES = 20
"""Classes up to which sums of embeddings suffice; with more of them, nearness to centres is summed, too."""
OF_NEARNESS, WIDTH = 0.7, 0.2
"""Share of the squared length of a row for its nearness to centres; squared width of the nearness, in median squared
distances of the public rows from their second nearest centre. Chosen on Banking77: see benchmarks/README.md.
"""


_DISTINCT = 1e-6
"""Least ratio of the smallest to the largest variance at which directions are computed from products of rows."""
LEAST_CONSTANT = 0.25
"""Least share of the constant in the squared length of a row that is centred over the classes. Chosen on seven tables
of two classes: see benchmarks/README.md.
"""


def worth_their_noise(records: int, noise: float) -> int:
    """Return the number of principal directions of the features to sum, given the noise of a sum: a public number.

    records: number of records. noise: standard deviation, in votes. The signal of a sum grows with the number of
    records, and beyond the first directions it is small.

    >>> worth_their_noise(4_613, 7.4), worth_their_noise(50_000, 7.4), worth_their_noise(100, 50.0)
    (57, 189, 16)
    """
    ratio = whole("records", records, at_least=1) / positive("noise", noise)
    return max(FEWEST, round(DIRECTIONS * math.sqrt(ratio)))


def is_centred(classes: int, directions: int) -> bool:
    """Return whether rows without levels of consent are centred over the classes.

    With many classes the features would gain little length, and with many directions rounding would undo the gain.
    """
    return classes <= FEW_CLASSES and 16 * classes * directions <= STEPS**2


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentMap:
    """From features to directions: a constant, the difference from the public mean, clipped at a public length, and,
    where there are centres, the nearness to each of them.

    A row adds its directions to the sums of its class. If the map is centred over the classes (`classes`), it also
    takes the part 1 / classes of them from the sums of every class. A linear student needs no more than these
    differences, two rows are nearer to each other, and so the features may be longer at the same price.

    centre: public mean, (features,). axes: the kept directions, as orthonormal columns, (features, kept); None
    for all features unchanged. radius: the length at which differences are clipped; above 0. centres: public rows,
    (centres, features); None for none. width: squared width of the nearness; above 0. classes: number of classes over
    which rows are centred, at least 2, without centres; None: they are not.
    Made by `MomentMap.of`. Guarantee: a function of public features alone.
    """

    centre: FloatArray
    radius: float
    axes: FloatArray | None = None
    centres: FloatArray | None = None
    width: float = 1.0
    classes: int | None = None

    @classmethod
    def of(
        cls,
        public: ArrayLike,
        *,
        most: int | None = None,
        centres: ArrayLike | None = None,
        classes: int | None = None,
    ) -> Self:
        """Return the map for features of public rows, (rows, features), with their mean and median distance from it.

        most: of more features than that, as many principal components are kept; None keeps all. centres: at least two
        of the public rows, (centres, features), to which every row then has a nearness; None for none. classes: over
        which rows are centred if `is_centred`; None for not.
        Errors: `InvalidInput` for features that are not finite, too many of them (beyond 2,000,000), or no rows.
        """
        points = np.asarray(public, np.float64)
        if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
            raise InvalidInput(f"public must be finite features of shape (rows, features), got {points.shape}.")
        if _room(CONSTANT, points.shape[1]) <= 0:
            raise InvalidInput(f"public must have at most 2,000,000 features for sums, got {points.shape[1]}.")
        centre = points.mean(axis=0)
        axes = None if most is None or points.shape[1] <= most else _principal(points - centre, most)
        away = points - centre if axes is None else (points - centre) @ axes
        lengths = np.sqrt(np.square(away).sum(axis=1))
        fitted = cls(centre=centre, radius=max(float(np.median(lengths)), 1e-12), axes=axes)
        if centres is None:
            return (
                fitted
                if classes is None or not is_centred(classes, fitted.directions)
                else replace(fitted, classes=classes)
            )
        chosen = np.asarray(centres, np.float64)
        second = np.partition(_squared_distances(points, chosen), 1, axis=1)[:, 1]
        return replace(fitted, centres=chosen, width=max(WIDTH * float(np.median(second)), 1e-12))

    @property
    def linear(self) -> int:
        """Number of features or components that are summed, beside the constant and the nearness."""
        return len(self.centre) if self.axes is None else self.axes.shape[1]

    @property
    def directions(self) -> int:
        """Number of directions: the constant, one for every feature or component, one for every centre."""
        return 1 + self.linear + (0 if self.centres is None else len(self.centres))

    @property
    def constant(self) -> float:
        """Every row's first direction, in votes, a whole number of steps."""
        if self.classes is not None:
            share = max(LEAST_CONSTANT, (self.classes - 2) / (2 * (self.classes - 1)))
            return math.isqrt(int(share * self._squared_budget)) / STEPS
        return (CONSTANT if self.centres is None else round(CONSTANT * math.sqrt(1 - OF_NEARNESS))) / STEPS

    @property
    def longest(self) -> float:
        """Maximum length of the features or components, in votes, before rounding."""
        return _room(math.sqrt(self._most_squared), self.linear) / STEPS

    @property
    def _squared_budget(self) -> float:
        """Squared length of a vote, in steps, minus an allowance for rounding if rows are centred."""
        assert self.classes is not None
        return STEPS**2 - self.classes * self.directions / 2

    @property
    def _most_squared(self) -> int:
        """Maximum squared length of the features or components, in steps."""
        constant = round(self.constant * STEPS)
        if self.classes is None:
            return constant**2
        # Rows of one class are at most 2 longest apart, of two classes sqrt(2 (constant^2 + longest^2)).
        return int(
            min(self._squared_budget * self.classes / (2 * (self.classes - 1)), self._squared_budget - constant**2)
        )

    @property
    def nearest(self) -> float:
        """Length of the nearness to all centres, in votes, before rounding."""
        assert self.centres is not None
        whole_length = math.sqrt(2 * (CONSTANT**2 - round(self.constant * STEPS) ** 2))
        return max(_room(whole_length, len(self.centres)), 0.0) / STEPS

    def unrounded(self, features: ArrayLike) -> FloatArray:
        """Return the directions to sum, without rounding, in votes: float64 (rows, directions)."""
        away = np.ascontiguousarray(np.asarray(features, np.float64) - self.centre)
        # `steps` refuses values that overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            away = away if self.axes is None else away @ self.axes
            lengths = np.sqrt(np.square(away).sum(axis=1, keepdims=True))
            away /= np.maximum(lengths, self.radius)
        directions = np.empty((len(away), self.directions))
        directions[:, 0] = self.constant
        np.multiply(away, self.longest, out=directions[:, 1 : 1 + self.linear])
        if self.centres is not None:
            np.multiply(self._nearness(features), self.nearest, out=directions[:, 1 + self.linear :])
        return directions

    def _nearness(self, features: ArrayLike) -> FloatArray:
        """Return nonnegative Gaussian bumps around the centres, with rows of length 1, (rows, centres)."""
        assert self.centres is not None
        with np.errstate(over="ignore", invalid="ignore"):
            squares = _squared_distances(np.asarray(features, np.float64), self.centres)
            bells = np.exp((squares.min(axis=1, keepdims=True) - squares) / (2 * self.width))
            return bells / np.sqrt(np.square(bells).sum(axis=1, keepdims=True))

    def steps(self, features: ArrayLike) -> IntArray:
        """Return the directions of every row, in whole steps of 1/`STEPS` vote, int64 (rows, directions).

        Guarantee: the first is a public constant, the features or components together have at most that length, no
        nearness is negative, and the whole has at most the length of one vote, so no two rows have a negative product.
        Where rows are centred the features may be longer, and what two rows add to all sums is at most sqrt(2) votes
        apart. They depend on the row alone, to the last bit.
        Errors: `InvalidInput` for features that are not finite.
        """
        constant = round(self.constant * STEPS)
        steps = bounded_steps(
            self.unrounded,
            features,
            scale=STEPS,
            columns=self.directions,
            longest_squared=2 * CONSTANT**2 if self.centres is not None else constant**2 + self._most_squared,
            near=(self.centre, self.radius),
        )
        if self.centres is not None:
            features_alone = steps[:, 1 : 1 + self.linear]
            longest = np.einsum("rd,rd->r", features_alone, features_alone).max(initial=0)
            if longest > self._most_squared or steps[:, 1 + self.linear :].min(initial=0) < 0:
                raise InvalidInput("The features of a private row must have a direction of bounded length.")
        return steps


def bounded_steps(
    unrounded: Callable[[ArrayLike], FloatArray],
    features: ArrayLike,
    *,
    scale: float,
    columns: int,
    longest_squared: int,
    near: tuple[FloatArray, float],
) -> IntArray:
    """Return the contributions of private rows, `unrounded(features) * scale` in whole steps, int64 (rows, columns).

    longest_squared: of a row in steps. near: the public mean and radius, of rows that test how products are rounded.
    Guarantee: a row has at most that squared length and depends on itself alone, to the last bit.
    Errors: `InvalidInput` for features that are not finite, or whose products are not.
    """
    given = np.asarray(features, np.float64)
    if not np.isfinite(given).all():
        raise InvalidInput("The features of the private rows must be finite numbers.")

    def rounded(rows: FloatArray) -> IntArray:
        values = unrounded(rows)
        if not np.isfinite(values).all():
            raise InvalidInput("The features of the private rows must be numbers whose sums are finite.")
        values *= scale
        return np.rint(values, out=values).astype(np.int64)

    centre, radius = near
    away = np.random.default_rng(0).normal(size=(64, len(centre)))
    test_rows = centre + away * (radius / math.sqrt(len(centre)))
    # The number of threads changes the rounding of products.
    with on_one_thread():
        blocks = in_blocks(rounded, given, rows=independent_rows(unrounded, test_rows), label="Adding up features")
    whole_steps = np.concatenate(blocks) if blocks else np.empty((0, columns), np.int64)
    # In integers, because the guarantee depends on this bound.
    if len(whole_steps) and int(np.einsum("rd,rd->r", whole_steps, whole_steps).max()) > longest_squared:
        raise InvalidInput("The features of a private row must have a direction of bounded length.")
    return whole_steps


def shared_steps(steps: IntArray, classes: int) -> IntArray:
    """Return what centred rows with `steps` subtract from the sums of every class: 1 / classes, rounded to steps.

    The rounding is the same for all classes, so differences between them have none of it. It adds at most
    classes * directions / 4 to the squared length of what a row adds, and at most four times that to the squared
    distance of two rows.

    >>> shared_steps(np.array([[5, -5, 6, 2]]), 4).tolist()
    [[1, -1, 2, 1]]
    """
    return (2 * steps + classes) // (2 * classes)


def scaled_steps(steps: IntArray, weight: int) -> IntArray:
    """Return `MomentMap.steps` of rows, (rows, directions), scaled to at most `weight` / `STEPS`, rounded towards 0.

    Guarantee: the first direction is the same whole number in all rows, the features or components together are not
    longer, no nearness is negative, and the whole has at most the length `weight`; so no two rows have a negative
    product, whatever their weights.
    """
    # In whole numbers: the constant is scaled first, and nothing else by more than it.
    first = steps[:, :1]
    return np.sign(steps) * (np.abs(steps) * (first * weight // STEPS) // first)


def principal_vectors(away: FloatArray, most: int) -> FloatArray:
    """Return the `most` directions of largest variance of centred rows, as columns (features, most), with any signs."""
    with on_one_thread():
        if most < len(away) < away.shape[1]:
            # The smaller of both products has the same eigenvalues, but for zeros.
            values, vectors = (part[..., -most:] for part in np.linalg.eigh(away @ away.T))
            if values[0] > _DISTINCT * values[-1]:
                return (away.T @ (vectors / np.sqrt(values)))[:, ::-1]
        _, vectors = np.linalg.eigh(away.T @ away)
    return vectors[:, ::-1][:, :most]


def principal_variances(public: ArrayLike) -> FloatArray:
    """Return the variances of the principal directions of rows, (rows, features), the largest first; at most as many as
    rows."""
    rows = np.asarray(public, np.float64)
    away = rows - rows.mean(axis=0)
    with on_one_thread():
        # Both products have the same eigenvalues, but for zeros.
        products = away.T @ away if away.shape[1] <= len(away) else away @ away.T
        return np.maximum(np.linalg.eigvalsh(products / len(away))[::-1], 0.0)


def _principal(away: FloatArray, most: int) -> FloatArray:
    """Return `principal_vectors` with positive largest entries."""
    kept = principal_vectors(away, most)
    signs = np.sign(kept[np.abs(kept).argmax(axis=0), np.arange(most)])
    return np.ascontiguousarray(kept * signs)


def _room(length: float, features: int) -> float:
    """Return the largest length before rounding to `length` steps: rounding changes coordinates by at most 1/2."""
    return length - 1 - float(np.sqrt(features)) / 2


def _squared_distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    """Return squared distances from points to centres, (points, centres)."""
    lengths = np.square(points).sum(axis=1)[:, None] + np.square(centres).sum(axis=1)
    return np.maximum(lengths - 2 * (np.ascontiguousarray(points) @ centres.T), 0.0)
