"""The features whose sums, times a quantity, every record contributes to, in exactly bounded whole steps."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.features.moments import CONSTANT, bounded_steps, principal_vectors
from ostrakon.mechanisms.moment_gnmax import LINEAR
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS, FloatArray, IntArray

WAVES, DIRECTIONS, KNOTS = 5, 96, 16
"""Waves of each rank; random directions, in each of two widths; intervals between the public quantiles of a rank."""
WIDTHS = (1.0, 2.0)
"""Widths of the waves of directions, in median distances of the public rows from their mean."""
_CLIPPED_FROM = 0.8
"""Share of the public rows that are not clipped. Chosen on tables: see benchmarks/README.md."""
MOST_LINEAR, MOST_RANKED = 256, 64
_FEWEST_VALUES = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    """Weights of the parts of a row, scales included: see `SumMap.weights_by_part`.

    constant: added, (targets,). linear: (features, targets). ranks: (WAVES, ranks, targets). cosines, sines:
    (2 * DIRECTIONS, targets).
    """

    constant: FloatArray
    linear: FloatArray
    ranks: FloatArray
    cosines: FloatArray
    sines: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class SumMap:
    """From a row's features to those that are summed: a constant, the row, waves of its ranks and of random directions.

    Parameters
    ----------
    centre : array of shape (features,)
        Public mean.
    radius : float
        The distance from there that 80% of the public rows do not exceed; longer differences are clipped.
    axes : array of shape (features, linear)
        Directions of the linear part, as orthonormal columns.
    ranked : array of int, shape (ranks,)
        Features whose public ranks get waves.
    knots : array of shape (KNOTS + 1, ranks)
        Their public quantiles.
    waves : array of shape (features, 2 * DIRECTIONS)
        Random directions, each divided by its width.
    linear : float
        Share of the squared length of a row's features for linear ones.
    span : tuple of (int, int)
        The part of the range to which a quantity is clipped before it is summed, in whole steps from 0 to `FINE_STEPS`.

    Notes
    -----
    Guarantee: a function of public features alone. A row's features have at most the length 1. Learners see them as a
    sum of kernels: a linear one, one for each column, and a Gaussian one (Rahimi and Recht 2007).
    """

    centre: FloatArray
    radius: float
    axes: FloatArray
    ranked: IntArray
    knots: FloatArray
    waves: FloatArray
    linear: float = LINEAR
    span: tuple[int, int] = (0, FINE_STEPS)

    @classmethod
    def of(cls, public: ArrayLike, *, linear: float = LINEAR, span: tuple[int, int] = (0, FINE_STEPS)) -> Self:
        """Return the map for features of public rows, (rows, features). Errors: `InvalidInput` for features that are
        not finite."""
        points = np.asarray(public, np.float64)
        if points.ndim != 2 or not points.size or not np.isfinite(points).all():
            raise InvalidInput(f"public must be finite features of shape (rows, features), got {points.shape}.")
        centre = points.mean(axis=0)
        away = points - centre
        lengths = np.sqrt(np.square(away).sum(axis=1))
        median, radius = np.maximum(np.quantile(lengths, [0.5, _CLIPPED_FROM]), 1e-12).tolist()
        axes = np.eye(len(centre)) if len(centre) <= MOST_LINEAR else principal_vectors(away, MOST_LINEAR)
        ranked, knots = _ranked(points)
        directions = np.random.default_rng(0).normal(size=(len(WIDTHS), DIRECTIONS, len(centre)))
        scaled = directions / (median * np.asarray(WIDTHS)[:, None, None])
        waves = np.ascontiguousarray(scaled.reshape(-1, len(centre)).T)
        parts: dict[str, Any] = {"axes": axes.copy(), "ranked": ranked, "knots": knots, "waves": waves}
        return cls(centre=centre, radius=radius, **parts, linear=linear, span=span)

    @property
    def features(self) -> int:
        """Number of features that are summed."""
        return 1 + self.axes.shape[1] + WAVES * len(self.ranked) + 2 * self.waves.shape[1]

    @property
    def constant(self) -> float:
        """The constant feature of every row."""
        return math.sqrt(self._parts[0])

    @property
    def _parts(self) -> tuple[float, float, float, float]:
        """Shares of the squared length of a row's features: constant, linear, waves of ranks, waves of directions."""
        more = self.linear - LINEAR
        return 0.15, self.linear, 0.3 - more * 6 / 13, 0.35 - more * 7 / 13

    @property
    def directions(self) -> int:
        """Number of rows of the released table, which has two columns: the sums fill it row by row."""
        return -(-self.features // 2)

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Where the constant, the linear part, the waves of ranks and those of directions in each width are."""
        sizes = (1, self.axes.shape[1], WAVES * len(self.ranked), *[2 * DIRECTIONS] * len(WIDTHS))
        ends = np.cumsum(sizes).tolist()
        return tuple(slice(end - size, end) for size, end in zip(sizes, ends, strict=True))

    def unrounded(self, features: ArrayLike) -> FloatArray:
        """Return what is summed before rounding, float64 (rows, features), of at most the length 1."""
        given = np.asarray(features, np.float64)
        shares = np.sqrt(self._parts)
        with np.errstate(over="ignore", invalid="ignore"):  # `steps` refuses values that overflow
            away = np.ascontiguousarray(given - self.centre)
            lengths = np.sqrt(np.square(away).sum(axis=1, keepdims=True))
            values = np.empty((len(away), self.features))
            constant, linear, ranks, *directions = self.blocks
            values[:, constant] = shares[0]
            values[:, linear] = shares[1] * ((away / np.maximum(lengths, self.radius)) @ self.axes)
            if len(self.ranked):
                values[:, ranks] = shares[2] * self._rank_waves(given)
            projections = away @ self.waves
            weight = shares[3] / math.sqrt(self.waves.shape[1])
            for number, block in enumerate(directions):
                projected = projections[:, number * DIRECTIONS : (number + 1) * DIRECTIONS]
                values[:, block] = weight * np.concatenate([np.cos(projected), np.sin(projected)], axis=1)
        return values

    @property
    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """(lower ends, widths) of the intervals between public quantiles, (KNOTS, ranks)."""
        return self.knots[:-1], np.maximum(np.diff(self.knots, axis=0), 1e-9)

    def weights_by_part(self, weights: FloatArray) -> Weights:
        """Return the weights of clipped differences, ranks and directions in `unrounded(X) @ weights`.

        weights: (features, targets).
        """
        shares = np.sqrt(self._parts)
        constant, linear, ranks, *directions = self.blocks
        weight = shares[3] / math.sqrt(self.waves.shape[1])
        waves = [weight * weights[block] for block in directions]
        given = weights[ranks].reshape(WAVES, len(self.ranked), weights.shape[1])
        of_ranks = shares[2] * wave_weights(len(self.ranked))[:, None, None] * given
        return Weights(
            constant=shares[0] * weights[constant][0],
            linear=shares[1] * (self.axes @ weights[linear]),
            ranks=of_ranks,
            cosines=np.concatenate([block[:DIRECTIONS] for block in waves]),
            sines=np.concatenate([block[DIRECTIONS:] for block in waves]),
        )

    def _rank_waves(self, features: FloatArray) -> FloatArray:
        low, width = self.intervals
        cells = features[:, self.ranked]
        rank = np.zeros_like(cells)
        for start, step in zip(low, width, strict=True):
            rank += np.clip((cells - start) / step, 0, 1)
        rank *= math.pi / len(low)
        weights = wave_weights(len(self.ranked))
        return np.concatenate([weight * np.cos((k + 1) * rank) for k, weight in enumerate(weights)], axis=1)

    def steps(self, features: ArrayLike) -> IntArray:
        """Return what is summed, times 1/sqrt(2), in whole steps of 1/`STEPS` vote, int64 (rows, features).

        Guarantee: a row has at most the length `CONSTANT` steps, which is below 1/sqrt(2) vote, and depends on itself
        alone, to the last bit. Errors: `InvalidInput` for features that are not finite.
        """
        return bounded_steps(
            self.unrounded,
            features,
            scale=self.longest,
            columns=self.features,
            longest_squared=CONSTANT**2,
            near=(self.centre, self.radius),
        )

    def clipped(self, quantity: IntArray) -> IntArray:
        """Return quantities, whole steps of the range, (rows,), as whole steps of its part `span`, 0 to `STEPS`."""
        low, high = self.span
        return ((np.clip(quantity, low, high) - low) * STEPS + (high - low) // 2) // (high - low)

    @property
    def longest(self) -> float:
        """Steps of the length 1 before rounding, which changes every feature by at most 1/2."""
        return CONSTANT - 1 - math.sqrt(self.features) / 2

    def table(self, sums: IntArray) -> IntArray:
        """Return the tables, (..., directions, 2), of sums in steps, (..., features)."""
        filled = np.zeros((*sums.shape[:-1], 2 * self.directions), np.int64)
        filled[..., : self.features] = sums
        return filled.reshape(*sums.shape[:-1], self.directions, 2)

    def sums(self, table: FloatArray) -> FloatArray:
        """Return the (noisy) sums, (features,), from a (noisy) table in votes; a row of length 1 counts 1."""
        return table.ravel()[: self.features] * (STEPS / self.longest)


def wave_weights(ranks: int) -> FloatArray:
    """Return the weight of the waves of each frequency; all waves of a row together have at most the length 1."""
    falling = 1 / np.arange(1, WAVES + 1)
    return falling / math.sqrt(max(ranks, 1) * np.square(falling).sum())


def quantity_steps(steps: IntArray, quantity: IntArray) -> IntArray:
    """Return what rows add to the sums: their `SumMap.steps` times 2 t - 1, rounded towards 0.

    quantity: t of every row, whole steps from 0 to `STEPS`, (rows,).
    """
    return rounded_product(steps, 2 * quantity - STEPS)


def rounded_product(steps: IntArray, signs: IntArray) -> IntArray:
    """Return `steps` (rows, features) times `signs` (rows,), both in steps, rounded towards 0."""
    product = steps * signs[:, None]
    return np.sign(product) * (np.abs(product) // STEPS)


def _ranked(points: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return (features with many public values and distinct ranks; their public quantiles)."""
    kept: list[int] = []
    known = set[bytes]()
    for number, column in enumerate(points.T):
        different, position = np.unique(column, return_inverse=True)
        mark = position.astype(np.int64).tobytes()
        if len(different) >= _FEWEST_VALUES and mark not in known:
            kept.append(number)
            known.add(mark)
    kept = kept[:MOST_RANKED]
    shares = np.linspace(0, 1, KNOTS + 1)
    knots = np.quantile(points[:, kept], shares, axis=0) if kept else np.zeros((KNOTS + 1, 0))
    return np.array(kept, np.int64), knots
