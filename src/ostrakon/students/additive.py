"""The student of a run without public rows: an additive logistic model from noisy counts of cells."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.cells import one_hot, starts
from ostrakon.students.row_law import law_of_rows, on_simplex
from ostrakon.validation import InvalidInput, non_negative, positive
from ostrakon.votes import FloatArray

ADDITIVE = "additive"
"""The name of the student."""

NEEDS_CELLS = (
    "The student additive learns from noisy counts of cells: describe the columns, or take another student where "
    "public rows are given."
)
_FREE = 1e-3
"""Penalty of the intercept, as a part of that of a weight."""


@dataclass(eq=False, repr=False)
class AdditiveLogistic(ClassifierMixin, BaseEstimator):
    """A logistic model that adds up one weight for each column: the weight of the row's cell.

    Parameters
    ----------
    sizes : sequence of int
        Number of cells of each column.
    ranges : sequence of bool
        For each column, whether its cells but the last one are ranges in order; neighbouring ranges have similar
        weights.
    penalty : float, default 6.0
        Penalty of the weights, in standard deviations of the noise on the counts; above 0. Chosen on Adult and eight
        small tables.
    smoothness : float, default 2.0
        Penalty of the differences of neighbouring ranges, likewise; at least 0.
    random_state : int, default 0
        Seed of the rows that stand for the law of the private ones.

    Attributes
    ----------
    coef_ : array of shape (classes, cells)
    intercept_ : array of shape (classes,)
    classes_ : array of shape (classes,)

    Notes
    -----
    The likelihood of a logistic model depends on labels through the sums of features by class alone. The features of an
    additive model are the cells, so these sums are the released counts. The other term, the mean of log sum exp of the
    scores, needs the law of the rows, which `law_of_rows` makes of the released counts of pairs of columns.

    Guarantee: a function of what was released, so it costs no privacy.

    References
    ----------
    Foulds et al. 2016 (sufficient statistics under noise); Hastie and Tibshirani 1986 (additive models).
    """

    sizes: Sequence[int]
    ranges: Sequence[bool]
    _: KW_ONLY
    penalty: float = 6.0
    smoothness: float = 2.0
    random_state: int = 0

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Refuse: labels of rows are not counts of cells."""
        raise InvalidInput(NEEDS_CELLS)

    def fit_moments(self, X: Any, released: Any) -> Self:
        """Learn from the counts and, where there are any, the pairs of `released`; X is not used.

        Raises
        ------
        InvalidInput
            If the counts are not those of the cells, or not finite.
        """
        counts = np.asarray(released.counts, np.float64)
        if len(counts) != sum(self.sizes) or not np.isfinite(counts).all():
            raise InvalidInput(f"The released counts must be finite numbers for {sum(self.sizes)} cells.")
        records = max(float(counts.sum()) / len(self.sizes), 1.0)
        counts, totals = agreeing(counts, self.sizes, records)
        columns = np.split(counts.sum(axis=1), starts(self.sizes)[1:])
        pairs, noise = {}, 1.0
        if released.moments is not None:
            directions = released.moments.directions
            pairs = dict(zip(directions.pairs, directions.counts(released.moments.sums), strict=True))
            noise = float(
                directions.counts(np.full((directions.directions, directions.classes), released.moments.sigma))[0].flat[
                    0
                ]
            )
        rows, weights = law_of_rows(columns, pairs, noise=noise, records=records, seed=self.random_state)
        features = one_hot(rows, self.sizes).astype(np.float64)
        penalties = positive("penalty", self.penalty) * sparse.eye_array(len(counts))
        penalties += non_negative("smoothness", self.smoothness) * roughness(self.sizes, self.ranges)
        penalties = (released.sigma2 * penalties).tocsr()
        self.coef_, self.intercept_ = _fitted(features, records * weights, counts, totals, penalties=penalties)
        self.classes_ = np.arange(counts.shape[1])
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of all classes, (rows, classes), for one-hot features."""
        check_is_fitted(self, "coef_")
        return softmax(np.asarray(X, np.float64) @ self.coef_.T + self.intercept_, axis=1)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the likeliest class of each row, (rows,)."""
        return self.predict_proba(X).argmax(axis=1)


def agreeing(counts: FloatArray, sizes: Sequence[int], records: float) -> tuple[FloatArray, FloatArray]:
    """Return (counts whose columns agree on the size of each class, these sizes, which sum to `records`).

    A total over more cells has more noise, and counts for less.
    """
    parts = np.split(counts, starts(sizes)[1:])
    totals = on_simplex(
        np.average([part.sum(axis=0) for part in parts], axis=0, weights=1 / np.asarray(sizes)), records
    )
    return np.concatenate([part + (totals - part.sum(axis=0)) / len(part) for part in parts]), totals


def roughness(sizes: Sequence[int], ranges: Sequence[bool]) -> Any:
    """Return a sparse matrix R, (cells, cells): w R w is the sum of squared differences of neighbouring ranges.

    >>> roughness([3, 2], [True, False]).toarray().astype(int).tolist()[0]
    [1, -1, 0, 0, 0]
    """
    blocks: list[Any] = []
    for size, ordered in zip(sizes, ranges, strict=True):
        steps = sparse.lil_array((size, size))
        if ordered and size > 2:
            # The last cell is for missing values.
            differences = np.diff(np.eye(size - 1), axis=0)
            steps[: size - 1, : size - 1] = differences.T @ differences
        blocks.append(steps)
    return sparse.block_diag(blocks, format="csr")


def _fitted(
    features: FloatArray, weights: FloatArray, counts: FloatArray, totals: FloatArray, *, penalties: Any
) -> tuple[FloatArray, FloatArray]:
    """Return (weights of cells, (classes, cells); intercept, (classes,)) of maximum penalized likelihood."""
    cells, classes = counts.shape
    free = _FREE * float(penalties.diagonal().min())

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        theta = flat.reshape(cells + 1, classes)
        start, cell_weights = theta[0], theta[1:]
        scores = features @ cell_weights + start
        levels: FloatArray = np.asarray(logsumexp(scores, axis=1))
        expected = weights[:, None] * np.exp(scores - levels[:, None])
        rough = penalties @ cell_weights
        value = weights @ levels - (cell_weights * counts).sum() - start @ totals
        value += ((cell_weights * rough).sum() + free * (start @ start)) / 2
        start_gradient = expected.sum(axis=0) - totals + free * start
        gradient = np.concatenate([start_gradient[None], features.T @ expected - counts + rough])
        return float(value), gradient.ravel()

    initial = np.zeros((cells + 1, classes))
    initial[0] = np.log(totals / totals.sum())
    result = minimize(loss, initial.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    theta = result.x.reshape(cells + 1, classes)
    return theta[1:].T.copy(), theta[0].copy()
