"""A student of noisy histograms: it learns from all counts of a query, not only from the largest one."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.representation import learn_representation, seeded
from ostrakon.features.rowwise import row_count
from ostrakon.students.boosting import Boosting
from ostrakon.students.cells import cell_means, cell_of, likely_counts, shared_out
from ostrakon.students.labelled import ALL_NOISE, UNLABELLED, require_counts, require_labels
from ostrakon.students.soft_vote import takes_weights
from ostrakon.validation import InvalidInput, one_of, positive, whole

EXAMPLES = ("rows", "means")
MOST_ROWS = 20_000
"""Largest number of public rows to learn from, chosen at random; more take time and help little."""
_LEAST = 1e-3
"""Rows with a smaller share of a class are not examples of it."""


def examples_for(estimator: Any) -> str:
    """Return the default for `examples`: means for kernel machines, which would take minutes on every public row."""
    return "means" if isinstance(estimator, SVC) else "rows"


@dataclass(eq=False, repr=False)
class NoisyCountStudent(ClassifierMixin, BaseEstimator):
    """A classifier of public cells, each weighted by the noisy votes of its representative.

    Parameters
    ----------
    estimator : classifier, optional
        Takes sample_weight in fit; cloned. By default, logistic regression with C=0.3.
    representation : str, transformer, module or callable, default "auto"
        As in `learn_representation`, learned from the public rows of fit.
    examples : {"rows", "means"}, default "rows"
        "rows": every public row is an example of each class, weighted by its share of the class's count in its cell.
        "means": the mean of every cell is, which is faster, because cells are fewer than rows.
    rounds : int, default 0
        Number of further fits, at least 0. For each, the counts of a cell are distributed over its rows by the
        probabilities of the previous fit, which needs predict_proba.
    random_state : int, optional
        Seed of the representation, of the estimator and of the choice of rows.

    Attributes
    ----------
    classes_ : array of int
        Classes with votes.
    estimator_ : classifier or None
        Fitted; None if there is one class only.
    representation_ : Representation

    Notes
    -----
    Every public row belongs to the cell of its nearest representative. The estimator learns from the likeliest counts
    in units of sigma2, so that a penalty grows with the noise. At most `MOST_ROWS` public rows are examples, chosen at
    random.

    Guarantee: a function of public rows and of counts released under their own guarantee; it costs nothing more.

    References
    ----------
    Learning from label proportions, Quadrianto 2009; rounds as in expectation maximisation.

    Examples
    --------
    >>> X = np.concatenate([np.linspace(0, 1, 20), np.linspace(5, 6, 20)])[:, None]
    >>> student = NoisyCountStudent(representation="raw")
    >>> student.fit_counts(X, [10, 30], [[90.0, 10.0], [5.0, 95.0]], sigma2=10.0).predict([[0.5], [5.5]]).tolist()
    [0, 1]
    """

    estimator: Any = None
    _: KW_ONLY
    representation: Any = "auto"
    examples: str = "rows"
    rounds: int = 0
    random_state: int | None = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train on plain labels: each labelled row is one vote for its cell.

        Parameters
        ----------
        X : array or DataFrame
            All public rows.
        y : array-like of int, shape (rows,)
            Class numbers, -1 for unlabelled.

        Returns
        -------
        NoisyCountStudent
        """
        labels = require_labels(y, row_count(X))
        queries = np.flatnonzero(labels != UNLABELLED)
        one_hot = np.eye(max(2, int(labels.max()) + 1))[labels[queries]]
        return self.fit_counts(X, queries, one_hot, sigma2=1.0)

    def fit_counts(self, X: Any, queries: ArrayLike, counts: ArrayLike, *, sigma2: float) -> Self:
        """Train on noisy counts.

        Parameters
        ----------
        X : array or DataFrame
            All public rows.
        queries : array-like of int, shape (queries,)
            Positions of the representatives in X.
        counts : array-like of float, shape (queries, classes)
            Their noisy histograms, as `BoundedGNMax.noisy_counts` gives them.
        sigma2 : float
            Standard deviation of the noise that they carry, a public parameter; above 0.

        Returns
        -------
        NoisyCountStudent

        Raises
        ------
        InvalidInput
            If no count is above 0, and for numbers out of range.
        """
        sigma2 = positive("sigma2", sigma2)
        positions, noisy = require_counts(queries, counts, row_count(X))
        one_of("examples", self.examples, EXAMPLES)
        if not (noisy > 0).any():
            raise InvalidInput(ALL_NOISE)
        self.representation_ = learn_representation(self.representation, X, random_state=self.random_state)
        features = self.representation_.transform(X)
        rows, cell_index, counts = self._examples(features, features[positions], noisy, sigma2)
        sizes = np.bincount(cell_index, minlength=len(counts))
        total = counts.sum(axis=1, keepdims=True)
        shares, row_weight = counts / np.maximum(total, 1e-12), (total[:, 0] / np.maximum(sizes, 1))[cell_index]
        voted_classes = np.flatnonzero(counts.sum(axis=0) > 0)
        self.classes_ = voted_classes
        if len(voted_classes) == 1:
            self.estimator_ = None
            return self
        proba_of_rows = shares[cell_index][:, voted_classes]
        rounds = whole("rounds", self.rounds)
        fitted = self._fit_estimator(rows, proba_of_rows, row_weight, voted_classes)
        for _ in range(rounds):
            proba_of_rows = shared_out(fitted.predict_proba(rows), cell_index, shares[:, voted_classes], sizes=sizes)
            fitted = self._fit_estimator(rows, proba_of_rows, row_weight, voted_classes)
        self.estimator_ = fitted
        return self

    def fit_shares(self, X: Any, shares: ArrayLike) -> Self:
        """Train on known shares of two classes.

        Parameters
        ----------
        X : array or DataFrame
            All public rows.
        shares : array-like of float, shape (rows,)
            The share of class 1 in each row, from 0 to 1.

        Returns
        -------
        NoisyCountStudent
        """
        self.representation_ = learn_representation(self.representation, X, random_state=self.random_state)
        kept, self.classes_ = self._kept(row_count(X)), np.arange(2)
        # A classifier needs examples of both classes.
        high = np.clip(np.asarray(shares, np.float64)[kept], _LEAST, 1 - _LEAST)
        rows, proba_of_rows = self.representation_.transform(X)[kept], np.stack([1 - high, high], axis=1)
        self.estimator_ = self._fit_estimator(rows, proba_of_rows, np.ones(len(kept)), self.classes_)
        return self

    def _kept(self, rows: int) -> NDArray[np.int64]:
        """Return the positions of the rows to learn from."""
        if rows <= MOST_ROWS:
            return np.arange(rows)
        return np.sort(np.random.default_rng(self.random_state).permutation(rows)[:MOST_ROWS])

    def _fit_estimator(
        self,
        rows: NDArray[Any],
        proba_of_rows: NDArray[np.float64],
        row_weight: NDArray[np.float64],
        voted_classes: NDArray[np.int64],
    ) -> Any:
        """Return the estimator, fitted on every row as an example of each possible class, weighted by its share."""
        estimator = LogisticRegression(C=0.3, max_iter=1000) if self.estimator is None else clone(self.estimator)
        if not takes_weights(estimator):
            raise InvalidInput(f"estimator must take sample_weight in fit, got {estimator!r}.")
        if len(voted_classes) == 2 and isinstance(estimator, Boosting):
            example_class = row_weight > 0
            options = {"classes": voted_classes, "sample_weight": row_weight[example_class]}
            return seeded(estimator, self.random_state).fit_shares(
                rows[example_class], proba_of_rows[example_class, 1], **options
            )
        weights = proba_of_rows * row_weight[:, None]
        # Tiny shares would only add examples; every class keeps at least its likeliest rows.
        kept = (proba_of_rows > _LEAST) | (weights == weights.max(axis=0, keepdims=True))
        row, example_class = np.nonzero(kept & (weights > 0))
        return seeded(estimator, self.random_state).fit(
            rows[row], voted_classes[example_class], sample_weight=weights[row, example_class]
        )

    def _examples(
        self, features: NDArray[Any], centres: NDArray[Any], noisy: NDArray[np.float64], sigma2: float
    ) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64]]:
        """Return (rows to learn from, their cells, the likeliest counts of cells in units of the noise)."""
        cell_index = cell_of(features, centres)
        counts = likely_counts(noisy, np.bincount(cell_index, minlength=len(centres)), sigma2=sigma2) / sigma2
        if not counts.any():
            raise InvalidInput(ALL_NOISE)
        if self.examples == "means":
            return cell_means(features, cell_index, centres), np.arange(len(centres)), counts
        kept = self._kept(len(features))
        return features[kept], cell_index[kept], counts

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class number of every row, shape (rows,)."""
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.full(row_count(X), self.classes_[0])
        return self.estimator_.predict(self._features(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities, (rows, len(classes_)); 0 and 1 if the estimator has none.

        A temperature then softens them (`ostrakon.students.calibration`), because models are overconfident far from
        their training cells.
        """
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.ones((row_count(X), 1))
        if hasattr(self.estimator_, "predict_proba"):
            return self.estimator_.predict_proba(self._features(X))
        return (self.predict(X)[:, None] == self.classes_[None, :]).astype(float)

    def _features(self, X: Any) -> NDArray[np.float64]:
        # The released student computes in doubles, too.
        return np.asarray(self.representation_.transform(X), np.float64)
