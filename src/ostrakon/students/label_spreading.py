"""The graph student: few labels spread over the neighbour graph of the public pool."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.graph import build_graph
from ostrakon.features.representation import learn_representation
from ostrakon.features.rowwise import BLOCK, row_count
from ostrakon.students.labelled import ALL_NOISE, UNLABELLED, require_counts, require_labels
from ostrakon.validation import InvalidInput, fraction, positive, whole


@dataclass(eq=False, repr=False)
class LabelSpreadingStudent(ClassifierMixin, BaseEstimator):
    """A student that spreads labels over the graph of nearest public rows; new rows get the mean of their neighbours.

    Parameters
    ----------
    representation : str, transformer, module or callable, default "auto"
        How rows become features, as in `learn_representation`; learned from the public rows of fit.
    neighbours : int, default 10
        Of a row in the graph, at least 1.
    strength : float, default 0.9
        Share of a row's probabilities that comes from its neighbours, in (0, 1).
    random_state : int, optional
        Seed.

    Attributes
    ----------
    classes_ : array of int
    beliefs_ : array of float, shape (rows, classes)
        Probabilities of the public rows.
    representation_ : Representation

    Notes
    -----
    A labelled row may change its class if its neighbours disagree.

    Guarantee: a function of public rows and released labels, so it costs no privacy of its own. Deterministic under
    `random_state`.

    References
    ----------
    Zhou et al. 2004.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> student = LabelSpreadingStudent("raw", neighbours=2).fit(X, np.array([0, -1, -1, 1, -1, -1]))
    >>> student.predict(np.array([[0.3], [4.9]])).tolist()
    [0, 1]
    """

    representation: Any = "auto"
    _: KW_ONLY
    neighbours: int = 10
    strength: float = 0.9
    random_state: int | None = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Spread the labels that are not -1 over all rows."""
        labels = require_labels(y, row_count(X))
        self.classes_ = np.unique(labels[labels != UNLABELLED])
        known = np.where(labels == UNLABELLED, UNLABELLED, np.searchsorted(self.classes_, labels))
        return self._spread(X, known)

    def fit_counts(self, X: Any, queries: ArrayLike, counts: ArrayLike, *, sigma2: float) -> Self:
        """Spread noisy counts (queries, classes) of the rows `queries` of X; see `NoisyCountStudent.fit_counts`.

        Their positive part is spread, so classes with more votes have more weight.
        """
        positions, noisy = require_counts(queries, counts, row_count(X))
        positive("sigma2", sigma2)
        # A class without votes in total would only spread noise.
        self.classes_ = np.flatnonzero(noisy.sum(axis=0) > 0)
        if not len(self.classes_):
            raise InvalidInput(ALL_NOISE)
        seeds = np.zeros((row_count(X), len(self.classes_)))
        seeds[positions] = np.maximum(noisy[:, self.classes_], 0)
        return self._spread(X, seeds)

    def _spread(self, X: Any, known: NDArray[Any]) -> Self:
        """Spread class positions, or the weight of each."""
        neighbours = whole("neighbours", self.neighbours, at_least=1)
        fraction("strength", self.strength)
        if row_count(X) < 3:
            raise InvalidInput(f"A graph student needs at least 3 public rows, got {row_count(X)}.")
        self.representation_ = learn_representation(self.representation, X, random_state=self.random_state)
        features = self.representation_.transform(X)
        seed = 0 if self.random_state is None else self.random_state
        graph = build_graph(features, neighbours=min(neighbours, len(features) - 1), random_state=seed)
        one_class = len(self.classes_) < 2
        self.beliefs_ = (
            np.ones((len(features), 1))
            if one_class
            else graph.spread(known, classes=len(self.classes_), strength=self.strength)
        )
        self.pool_ = features
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities, (rows, len(classes_)): the mean of the nearest pool rows, weighted by nearness.

        Ties at the last of them are all included, so that the order of rows does not matter.
        """
        check_is_fitted(self, "beliefs_")
        features = np.asarray(self.representation_.transform(X), np.float64)
        pool, beliefs = np.asarray(self.pool_, np.float64), np.asarray(self.beliefs_, np.float64)
        proba = np.empty((len(features), beliefs.shape[1]))
        for at, weights in neighbour_weights(features, pool, self.neighbours):
            sums = weights @ beliefs
            proba[at] = sums / sums.sum(axis=1, keepdims=True)
        return proba

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class number of every row, shape (rows,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def neighbour_weights(
    rows: NDArray[np.float64], pool: NDArray[np.float64], neighbours: int
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield slices of the rows and their weights on pool rows, (rows, pool), which are 0 except for the nearest.

    A block of `independent_rows` is one slice: products of slices with other numbers of rows round in other ways.
    """
    near = min(neighbours, len(pool))
    for at in range(0, len(rows), BLOCK):
        distances = squared_distances(rows[at : at + BLOCK], pool)
        last = np.partition(distances, near - 1, axis=1)[:, near - 1 : near]
        weight = np.maximum(np.exp(-distances / np.maximum(last, 1e-24)), 1e-6)
        yield slice(at, at + BLOCK), np.where(distances <= last * (1 + 1e-9), weight, 0.0)


def squared_distances(rows: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return squared distances, (rows, points); rounding errors become 0, so equal rows have distance 0."""
    size = np.square(rows).sum(axis=1)[:, None] + np.square(points).sum(axis=1)[None]
    distances = size - 2 * (rows @ points.T)
    return np.where(distances <= 1e-12 * size, 0.0, distances)
