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
from ostrakon.features.rowwise import row_count
from ostrakon.students.labelled import ALL_NOISE, UNLABELLED, require_counts, require_labels
from ostrakon.validation import InvalidInput, fraction, positive, whole

_AT_ONCE = 512


@dataclass(eq=False, repr=False)
class LabelSpreadingStudent(ClassifierMixin, BaseEstimator):
    """Few labels spread over the graph of nearest public neighbours; new rows listen to their neighbours.

    representation: how rows become features: a name ("auto", "hog", "table", "pca", "raw"), a transformer, a frozen
        network or function (see `ostrakon.features.learn_representation`), learned from the public rows of fit.
    neighbours: of the graph. strength: share of its neighbours' belief that a row takes over, in (0, 1).

    fit(X, y): X all public rows, y integers of shape (rows,), -1 for unlabelled. A labelled row may change its
    class: a wrong answer is outvoted by its neighbours. Fitted: `classes_`, `beliefs_` (rows, classes) of the pool,
    `representation_`. Deterministic under `random_state`.
    Guarantee: a function of public rows and released labels, so it costs no privacy of its own.
    Source: Zhou et al. 2004.

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

        Their positive part is what is spread: where a class has many votes it outweighs more of its neighbours.
        """
        places, noisy = require_counts(queries, counts, row_count(X))
        positive("sigma2", sigma2)
        # A class without votes on the whole would only spread noise.
        self.classes_ = np.flatnonzero(noisy.sum(axis=0) > 0)
        if not len(self.classes_):
            raise InvalidInput(ALL_NOISE)
        seeds = np.zeros((row_count(X), len(self.classes_)))
        seeds[places] = np.maximum(noisy[:, self.classes_], 0)
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
        alone = len(self.classes_) < 2
        self.beliefs_ = (
            np.ones((len(features), 1))
            if alone
            else graph.spread(known, classes=len(self.classes_), strength=self.strength)
        )
        self.pool_ = features
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, (rows, len(classes_)): the beliefs of the nearest pool rows, nearer ones weigh more.

        All pool rows as near as the last of the nearest count, so that ties hang on no order.
        """
        check_is_fitted(self, "beliefs_")
        features = np.asarray(self.representation_.transform(X), np.float64)
        pool, beliefs = np.asarray(self.pool_, np.float64), np.asarray(self.beliefs_, np.float64)
        said = np.empty((len(features), beliefs.shape[1]))
        for at, weights in neighbour_weights(features, pool, self.neighbours):
            noisy = weights @ beliefs
            said[at] = noisy / noisy.sum(axis=1, keepdims=True)
        return said

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class number of every row, shape (rows,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def neighbour_weights(
    rows: NDArray[np.float64], pool: NDArray[np.float64], neighbours: int
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Some rows after others, and their weights of the pool's, (rows, pool): above 0 of the nearest, more of nearer."""
    near = min(neighbours, len(pool))
    for at in range(0, len(rows), _AT_ONCE):
        distances = squared_distances(rows[at : at + _AT_ONCE], pool)
        last = np.partition(distances, near - 1, axis=1)[:, near - 1 : near]
        weight = np.maximum(np.exp(-distances / np.maximum(last, 1e-24)), 1e-6)
        yield slice(at, at + _AT_ONCE), np.where(distances <= last * (1 + 1e-9), weight, 0.0)


def squared_distances(rows: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(rows, points); what is nothing but rounding is 0, so that equal rows have distance 0."""
    size = np.square(rows).sum(axis=1)[:, None] + np.square(points).sum(axis=1)[None]
    distances = size - 2 * (rows @ points.T)
    return np.where(distances <= 1e-12 * size, 0.0, distances)
