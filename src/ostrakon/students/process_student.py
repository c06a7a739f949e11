"""A Gaussian process on released sums of features and on released counts, smooth over a graph of public rows."""

import threading
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.graph import build_graph
from ostrakon.features.moments import MomentMap
from ostrakon.students.cells import cell_by_query
from ostrakon.students.label_spreading import neighbour_weights
from ostrakon.students.labelled import require_counts
from ostrakon.students.moment_students import NEEDS_MOMENTS, MomentLogistic, ReleasedMoments, fitted_on_counts
from ostrakon.validation import InvalidInput

FloatArray = NDArray[np.float64]

_EIGENVECTORS = 200
"""Number of eigenvectors of the graph, the smoothest ones."""
_STRENGTH = 0.98
"""Share of a row's value that comes from its neighbours in each of the two steps of the walk."""
LEAST = 1e-3
"""Smallest value of a class."""
POWER = 1.5
"""Power of the values. It and `_STRENGTH` were tuned on SST-2, MNIST, Banking77 and photos."""
_LOCK = threading.Lock()
"""Students that are fitted at the same time share the functions on the graph."""


class GaussianProcessStudent(ClassifierMixin, BaseEstimator):
    """The mean of `MomentLogistic`, a Gaussian process that learns sums and counts together, and another student.

    other: a student with predict_proba that learns from the noisy counts; None for none. neighbours: of the graph. The
    process has a function for each class, the sum of a constant, a linear function of the summed directions, whose
    weights vary as these do, and a function that is smooth over the graph of public rows. Sums and counts are linear in
    it with Gaussian noise of known size, so the posterior has a closed form, and so has the likelihood of the release,
    which chooses the sizes of the three parts. If labels do not form clusters of rows, the smooth part is nearly 0,
    without any held-out data.
    fit_moments(X, released): X features of public rows, (rows, features). Fitted: `classes_` (all), `linear_`,
    `coef_` (directions, classes), `beliefs_` (rows, classes) of the smooth part, `pool_`, `sizes_` of the three parts,
    `other_`.
    Guarantee: a function of public rows and of what was released; it costs nothing more.
    Source: evidence for linear models, MacKay 1992; kernels of graphs, Smola and Kondor 2003.
    """

    def __init__(self, other: Any = None, *, neighbours: int = 10) -> None:
        self.other = other
        self.neighbours = neighbours

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Refuse: it learns from sums, not from labels of rows."""
        raise InvalidInput(NEEDS_MOMENTS)

    def fit_moments(self, X: Any, released: Any) -> Self:
        """Learn from all that was released, a `ostrakon.students.selection.Released`."""
        self.linear_ = MomentLogistic().fit_moments(X, released)
        self.other_ = None if self.other is None else fitted_on_counts(self.other, X, released)
        moments: ReleasedMoments = released.moments
        assert isinstance(moments.directions, MomentMap)
        features = np.asarray(X, np.float32)
        queries, counts = require_counts(released.queries, released.counts, len(features))
        cell_index = cell_by_query(features, queries)
        rows = moments.directions.unrounded(X)
        scale, linear = _scaled(rows[:, 1:] * rows[:, 1:].std(axis=0))
        pool, training = (features, slice(None)) if released.pool is None else released.pool
        with _LOCK:
            functions = _graph_functions(np.asarray(pool, np.float32).tobytes(), features.shape[1], self.neighbours)
        smooth = _scaled(functions[training])[1]
        basis = np.column_stack([np.ones(len(rows)), linear, smooth])
        group = np.repeat([0, 1, 2], [1, linear.shape[1], smooth.shape[1]])

        weight, classes = moments.records / len(rows), counts.shape[1]
        cells = sparse.csr_matrix(
            (np.ones(len(cell_index)), (cell_index, np.arange(len(cell_index)))), (len(queries), len(cell_index))
        )
        summing = sparse.vstack([sparse.csr_matrix(rows.T), cells]).tocsr()
        noise = np.repeat([moments.sigma, released.sigma2], [rows.shape[1], len(queries)])
        # The variance of the classes of records and of sampling public rows.
        sampling = weight * (1 - 1 / classes) / classes * np.asarray((summing @ summing.T).todense())
        cholesky = np.linalg.cholesky(np.diag(np.square(noise)) + sampling)
        observed = np.vstack([moments.sums, counts])
        observed = solve_triangular(cholesky, observed - observed.mean(axis=1, keepdims=True), lower=True)
        weights, self.sizes_ = _likeliest(
            solve_triangular(cholesky, weight * (summing @ basis), lower=True), observed, group
        )

        self.coef_ = np.empty((rows.shape[1], classes))
        self.coef_[0] = (1 / classes + weights[0]) / moments.directions.constant
        self.coef_[1:] = (rows[:, 1:].std(axis=0) / scale)[:, None] * weights[group == 1]
        self.beliefs_ = smooth @ weights[group == 2]
        self.pool_ = features
        self.classes_ = np.arange(classes)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of all classes, (rows, classes)."""
        check_is_fitted(self, "coef_")
        values = self.linear_.directions_.unrounded(X) @ self.coef_
        features, pool = np.asarray(X, np.float64), np.asarray(self.pool_, np.float64)
        for at, weights in neighbour_weights(features, pool, self.neighbours):
            values[at] += (weights @ self.beliefs_) / weights.sum(axis=1, keepdims=True)
        # Noise shrinks the values towards the mean; a power above 1 undoes a part of that.
        values = np.maximum(values, LEAST) ** POWER
        proba = values / values.sum(axis=1, keepdims=True) + self.linear_.predict_proba(X)
        if self.other_ is None:
            return proba / 2
        proba[:, np.asarray(self.other_.classes_, np.int64)] += self.other_.predict_proba(X)
        return proba / 3

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the likeliest class of every row, (rows,)."""
        return self.predict_proba(X).argmax(axis=1)


def _scaled(columns: FloatArray) -> tuple[float, FloatArray]:
    """Return (scale, columns / scale), after which rows have a mean squared length of 1."""
    scale = max(float(np.sqrt(np.square(columns).sum(axis=1).mean())), 1e-12)
    return scale, columns / scale


@lru_cache(maxsize=1)
def _graph_functions(rows: bytes, width: int, neighbours: int) -> FloatArray:
    """Return functions on the rows whose products are a kernel of the graph, (rows, functions), shared by all fits."""
    features = np.frombuffer(rows, np.float32).reshape(-1, width)
    graph = build_graph(features, neighbours=min(neighbours, len(features) - 1))
    root = np.sqrt(np.maximum(np.asarray(graph.weights.sum(axis=1)).ravel(), 1e-12)).astype(np.float64)
    similar = sparse.diags(1 / root) @ graph.weights @ sparse.diags(1 / root)
    if len(root) <= 2 * _EIGENVECTORS:
        values, vectors = np.linalg.eigh(similar.toarray())
    else:
        try:
            values, vectors = eigsh(similar.tocsr(), k=_EIGENVECTORS, which="LA", v0=np.ones(len(root)))
        except ArpackNoConvergence as partial:
            values, vectors = partial.eigenvalues, partial.eigenvectors
    return vectors / root[:, None] * ((1 - _STRENGTH) / (1 - _STRENGTH * np.minimum(values, 1)))


def _likeliest(basis: FloatArray, observed: FloatArray, group: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Return weights of the functions, (functions, classes), and sizes of the groups, of maximum likelihood.

    basis: the effect of each weight on each observed number, in standard deviations of its noise. Observed numbers sum
    to 0 over the classes.
    """
    product, projected, free = basis.T @ basis, basis.T @ observed, observed.shape[1] - 1

    def posterior(logs: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        scale = np.exp(logs / 2)[group]
        factor = cho_factor(np.eye(len(group)) + scale[:, None] * product * scale, lower=True)
        target = scale[:, None] * projected
        solution = cho_solve(factor, target)
        gradient = free * (1 - np.diag(cho_solve(factor, np.eye(len(group))))) - np.square(solution).sum(axis=1)
        loss = free * np.log(np.diag(factor[0])).sum() - (solution * target).sum() / 2
        return float(loss), np.bincount(group, gradient) / 2, scale[:, None] * solution

    def loss_of(logs: FloatArray) -> tuple[float, FloatArray]:
        return posterior(logs)[:2]

    start, bounds = np.full(3, np.log(0.1)), [(-14.0, 4.0)] * 3
    logs = minimize(loss_of, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 50}).x
    return posterior(logs)[2], np.exp(logs)
