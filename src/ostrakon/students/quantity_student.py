"""The student of a quantity: ridge regression from noisy sums, its penalties learned from the sums themselves."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.corrections import correction_length
from ostrakon.features.sums import SumMap, quantity_steps
from ostrakon.students.cells import cell_means, cell_of, likely_totals
from ostrakon.students.moment_students import records_by_row
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, FloatArray, IntArray

SUMS = "sums"
"""The name of the student."""
NEEDS_SUMS = "The student of a quantity learns from the noisy sums of quantity-gnmax, not from values of rows."

_UNEXPLAINED = (0.003, 0.01, 0.03, 0.1, 0.3)
"""Candidate residual variances of the quantity, on the scale from -1 to 1; the likeliest one is used."""
_VARIANCE_OF_CONSTANT = 3.0
_VARIANCES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Prior variance of the weight of the constant, and initial values of those of all others."""
_LARGEST_ERROR = 2.5
"""Errors that are not clipped in a correction, in standard deviations as the first fit estimates them."""
_UNEXPLAINED_ERRORS = (*_UNEXPLAINED, 1.0, 3.0, 10.0)
"""The same of errors: they are larger than the first fit expects where private rows are not like the public ones."""
_SHRINKAGE, _ROUNDS = 6.0, 8
"""Strength of the shrinkage of each block towards the common variance, in weights; rounds of the search."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFit:
    """A linear model of targets that was fitted to noisy sums.

    weights: (features, targets). penalties: prior variance of the weights of each block. precision: of the weights of
    every target, given the sums, (features, features). residual: variance of the targets that is not explained.
    """

    weights: FloatArray
    penalties: FloatArray
    precision: FloatArray
    residual: float

    def uncertainty(self, products: FloatArray) -> float:
        """Return the mean variance of the estimates for rows, from the mean products of their features."""
        return float(np.trace(np.linalg.solve(self.precision, products)))


class QuantityRidge(RegressorMixin, BaseEstimator):
    """Ridge regression without rows whose quantity is known, from public rows and noisy sums of private rows.

    Attributes
    ----------
    coef_ : array of shape (features,)
        Weights of the features of `SumMap`, on the scale from -1 (low) to 1 (high).
    first_coef_ : array of shape (features,)
        The same before they were corrected.
    error_scale_ : float
        Larger errors are clipped in the sums that correct the weights, on the same scale.
    penalties_ : array of shape (blocks,)
        Prior variances of the weights of each block of features.

    Notes
    -----
    A Bayesian linear model. Sums of features times the quantity are N C w but for noise, where C is the mean of
    products of features over public rows; those of a cell are its number of records times the mean of its public
    features times w. The difference from the mean of the quantity is what is learned, because the mean may be far from
    the middle of the range. The noise is known, and so are the variances of all sums; each block of features has a
    prior variance of its own, the likeliest one given the release (MacKay 1992). So linear and curved parts, and sums
    by cell, are weighed by what the noise has left of them.

    A correction starts from the posterior distribution of the weights. Sums of features times errors, divided by the
    scale of errors, are N C d but for noise, where d is the correction. Errors are smaller than the quantity, so the
    noise is smaller in its unit, and they are those of the private records, so it matters little how their features
    differ from those of the public rows. Larger errors than the first fit expects are taken as noise and not as a
    reason for large corrections, because then private rows are not like the public ones.

    Guarantee: a function of public rows and of released sums, so it costs no privacy.

    References
    ----------
    MacKay 1992, Bayesian interpolation. Bernstein and Sheldon 2019 (regression from noisy sufficient statistics).
    """

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Refuse: it learns from sums."""
        raise InvalidInput(NEEDS_SUMS)

    def fit_moments(self, X: Any, released: Any) -> Self:
        """Learn from public features X, (rows, features), and `released`, a `ostrakon.students.selection.Released`.

        Errors: `InvalidInput` where its sums are not those of a quantity, or not finite.
        """
        fit, rows, feature_map = self._fit(X, released)
        variance = fit.residual + fit.uncertainty(rows.T @ rows / len(rows))
        self.coef_ = self.first_coef_ = fit.weights[:, 0]
        self.penalties_, self.directions_ = fit.penalties, feature_map
        self.error_scale_ = min(_LARGEST_ERROR * variance**0.5, 2.0)
        return self

    def fit_corrections(self, X: Any, released: Any, sums: FloatArray, *, sigma: float) -> Self:
        """Correct the weights by noisy sums of the student's errors on the private records.

        Parameters
        ----------
        X, released
            As of `fit_moments`, which fitted the student.
        sums : array of float, shape (directions, 2)
            In votes, by `ostrakon.features.corrections.quantity_correction_steps`.
        sigma : float
            Standard deviation of the noise on each.
        """
        fit, rows, feature_map = self._fit(X, released)
        if sums.shape != (feature_map.directions, 2) or not np.isfinite(sums).all():
            shape = (feature_map.directions, 2)
            raise InvalidInput(f"The released corrections must be {shape} finite numbers, got {sums.shape}.")
        unit = self.error_scale_ * STEPS / correction_length(feature_map.features)
        errors = sums.ravel()[: feature_map.features] * unit
        weight = records_by_row(X, released)
        self.coef_ = self.first_coef_ + _correction(rows, weight, fit, errors, sigma * unit)
        return self

    def _fit(self, X: Any, released: Any) -> tuple[LinearFit, FloatArray, SumMap]:
        """Return (the model of the sums, features of public rows, their map). Errors: as of `fit_moments`."""
        moments = released.moments
        if moments is None or not isinstance(moments.directions, SumMap):
            raise InvalidInput(NEEDS_SUMS)
        feature_map = moments.directions
        sums = feature_map.sums(moments.sums)
        counts = np.asarray(released.counts, np.float64)
        if not (np.isfinite(sums).all() and np.isfinite(counts).all()):
            raise InvalidInput("The released sums must be finite.")
        rows = feature_map.unrounded(X)
        sums = sums + moments.records * _lost_by_rounding(feature_map, rows, sums[0] / moments.records)
        sigma = float(feature_map.sums(np.full(moments.sums.shape, moments.sigma))[0])
        fit = weights_of_sums(
            rows,
            *cells_of_rows(X, released),
            sums=sums[:, None],
            differences=(counts[:, 1] - counts[:, 0])[:, None],
            totals=counts.sum(axis=1),
            noise=(sigma, released.sigma2 * np.sqrt(2)),
            noise_of_totals=released.sigma2 * np.sqrt(2),
            records=moments.records,
            blocks=feature_map.blocks,
        )
        return fit, rows, feature_map

    @property
    def corrected(self) -> bool:
        """Whether the weights were corrected."""
        return not np.array_equal(self.coef_, self.first_coef_)

    def predict(self, X: Any) -> FloatArray:
        """Return the quantity of every row as a share of its range, 0 to 1, (rows,)."""
        check_is_fitted(self, "coef_")
        return np.clip((self.directions_.unrounded(X) @ self.coef_ + 1) / 2, 0, 1)


def _lost_by_rounding(feature_map: SumMap, rows: FloatArray, of_constant: float) -> FloatArray:
    """Return the effect of rounding on the mean contribution to sums, (features,), at the mean quantity."""
    steps = int(np.clip(np.rint((of_constant / feature_map.constant + 1) / 2 * STEPS), 0, STEPS))
    exact = np.rint(rows * feature_map.longest).astype(np.int64)
    rounded = quantity_steps(exact, np.full(len(exact), steps)).mean(axis=0)
    return (exact.mean(axis=0) * (2 * steps / STEPS - 1) - rounded) / feature_map.longest


def cells_of_rows(X: Any, released: Any) -> tuple[IntArray, int]:
    """Return (the cell of every public row, the number of cells)."""
    features = np.asarray(X, np.float32)
    return cell_of(features, features[released.queries]), len(released.queries)


def weights_of_sums(
    rows: FloatArray,
    cell_index: IntArray,
    cells: int,
    *,
    sums: FloatArray,
    differences: FloatArray,
    totals: FloatArray | None,
    noise: tuple[float, float],
    noise_of_totals: float,
    records: int,
    blocks: tuple[slice, ...],
    zero: float = 0.0,
) -> LinearFit:
    """Return the likeliest linear model.

    Parameters
    ----------
    rows : array of shape (rows, features)
        Features of public rows; the first one is constant.
    cell_index, cells
        From `cells_of_rows`.
    sums : array of shape (features, targets)
        Noisy sums of features times each target, on the scale from -1 to 1.
    differences : array of shape (cells, targets)
        Noisy sums of each target by cell.
    totals : array of shape (cells,) or None
        Noisy numbers of records by cell; None where they are not known.
    noise : tuple of (float, float)
        Standard deviations of the noise on sums and on differences.
    noise_of_totals : float
        The same, of totals.
    records : int
        Number of private records.
    blocks : tuple of slice
        The blocks of features, the constant first. All targets share their prior variances.
    zero : float
        The value of a target at which a record adds nothing to the sums.
    """
    means = cell_means(rows, cell_index, np.zeros((cells, rows.shape[1])))
    members = np.bincount(cell_index, minlength=cells)
    if totals is None:
        expected = records * members / members.sum()
    else:
        expected = likely_totals(totals, members, records=records, sigma=noise_of_totals)
    inflation = 1 + records / len(rows)
    # What is learned is the difference from the mean of each target. Numbers of records and means of features differ by
    # chance between private and public rows, and these differences count as often as the mean is away from `zero`.
    target_means = sums[0] / (records * rows[0, 0])
    # Under much noise the middle of the range is nearer to the mean.
    variance = _VARIANCE_OF_CONSTANT * rows[0, 0] ** 2
    target_means = np.clip(target_means * variance / (variance + (noise[0] / (records * rows[0, 0])) ** 2), -1, 1)
    away = np.square(target_means - zero).mean()
    products, row_means = rows.T @ rows / len(rows), rows.mean(axis=0)
    by_chance = away * (products - np.outer(row_means, row_means))
    sums = sums - records * row_means[:, None] * target_means
    differences = differences - (expected if totals is None else totals)[:, None] * target_means
    # Noise of nearly 0 would leave no inverse.
    noise_of_sums = max(noise[0] ** 2, 1e-9 * records) * np.eye(len(products))
    noise_of_cells = noise[1] ** 2 + away * (expected * inflation if totals is None else noise_of_totals**2)
    fitted: list[tuple[float, LinearFit]] = []
    for residual in _UNEXPLAINED:
        root = np.linalg.cholesky(records * inflation * (residual * products + by_chance) + noise_of_sums)
        design, observed = (solve_triangular(root, part, lower=True) for part in (records * products, sums))
        by_cell = expected * residual * inflation + noise_of_cells
        precision = design.T @ design + (means.T * (expected**2 / by_cell)) @ means
        weighted_sums = design.T @ observed + means.T @ ((expected / by_cell)[:, None] * differences)
        constant = (2 * np.log(np.diag(root)).sum() + np.log(by_cell).sum()) * sums.shape[1]
        constant += np.square(observed).sum() + (differences**2 / by_cell[:, None]).sum()
        weights, penalties, likelihood = _likeliest(precision, weighted_sums, blocks)
        weights[0] += target_means / rows[0, 0]
        prior = np.repeat(1 / penalties, [block.stop - block.start for block in blocks])
        fit = LinearFit(weights=weights, penalties=penalties, precision=precision + np.diag(prior), residual=residual)
        fitted.append((likelihood - constant / 2, fit))
    return max(fitted, key=lambda entry: entry[0])[1]


def _correction(rows: FloatArray, weight: FloatArray, fit: LinearFit, errors: FloatArray, sigma: float) -> FloatArray:
    """Return the correction of the weights, (features,), from noisy sums of features times errors.

    weight: number of private records that each public row represents. sigma: standard deviation of the noise.
    """
    records, effective = weight.sum(), weight.sum() ** 2 / np.square(weight).sum()
    products = (rows * weight[:, None]).T @ rows
    uncertain = fit.uncertainty(products / records)
    values, vectors = np.linalg.eigh(products)
    values, observed = np.maximum(values, 0), vectors.T @ errors
    prior = vectors.T @ fit.precision @ vectors
    best = -np.inf, np.zeros(len(errors))
    for residual in _UNEXPLAINED_ERRORS:
        # Features of public and private rows differ by chance. Noise of nearly 0 would leave no inverse.
        noise = max(sigma**2, 1e-9 * records) + values * (residual + uncertain * records / effective)
        factor = cho_factor(prior + np.diag(values**2 / noise), lower=True, check_finite=False)
        weighted = values / noise * observed
        weights: FloatArray = cho_solve(factor, weighted)
        log_dets = 2 * np.log(np.diag(factor[0])).sum() + np.log(noise).sum()
        likelihood = float(weighted @ weights - (observed**2 / noise).sum() - log_dets) / 2
        best = max(best, (likelihood, weights), key=lambda entry: entry[0])
    return vectors @ best[1]


def _likeliest(
    precision: FloatArray, weighted_sums: FloatArray, blocks: tuple[slice, ...]
) -> tuple[FloatArray, FloatArray, float]:
    """Return (weights, prior variance of each block, log likelihood up to a constant). weighted_sums: (features,
    targets).

    First one common variance for all blocks except the constant is chosen. With few records the variance of a single
    block is uncertain, so it is shrunk towards the common one.
    """

    def solve(penalties: FloatArray) -> tuple[FloatArray, float, Any, FloatArray]:
        """Return (weights, log likelihood, Cholesky factor, the inverse of each weight's prior variance)."""
        sizes = [block.stop - block.start for block in blocks]
        inverse = np.repeat(1 / penalties, sizes)
        factor = cho_factor(precision + np.diag(inverse), lower=True, check_finite=False)
        weights: FloatArray = cho_solve(factor, weighted_sums)
        log_det = 2 * np.log(np.diag(factor[0])).sum() - np.log(inverse).sum()
        return weights, float((weighted_sums * weights).sum() - targets * log_det) / 2, factor, inverse

    targets = weighted_sums.shape[1]

    starts = [np.array([_VARIANCE_OF_CONSTANT, *[value] * (len(blocks) - 1)]) for value in _VARIANCES]
    penalties = max(starts, key=lambda value: solve(value)[1])
    common = penalties[-1]
    for _ in range(_ROUNDS):
        weights, _, factor, _ = solve(penalties)
        covariance: FloatArray = np.diag(cho_solve(factor, np.eye(len(precision))))
        previous = penalties.copy()
        for number, block in enumerate(blocks[1:], 1):
            size = block.stop - block.start
            if size:
                effective = targets * max(size - covariance[block].sum() / penalties[number], 0)
                penalties[number] = (np.square(weights[block]).sum() + _SHRINKAGE * common) / (effective + _SHRINKAGE)
        if np.abs(np.log(penalties / previous)).max() < 0.05:
            break
    weights, likelihood, *_ = solve(penalties)
    return weights, penalties, likelihood
