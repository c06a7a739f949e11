"""A student of noisy histograms: it hears how clearly the teachers spoke, not only what won."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from ostrakon.public.representation import learn_representation
from ostrakon.students.labelled import ALL_NOISE, UNLABELLED, require_counts, require_labels, row_count, seeded
from ostrakon.validation import InvalidInput, positive


class NoisyCountStudent(ClassifierMixin, BaseEstimator):
    """A classifier of public clusters, each weighed by the noisy votes that its representative got.

    estimator: takes sample_weight (cloned); None: logistic regression whose penalty grows with the noise.
    representation: as in `ostrakon.public.learn_representation`, learned from the public rows of fit.

    fit_counts(X, queries, counts, sigma2=...): X all public rows; queries the positions of the representatives in X;
    counts their noisy histograms (queries, classes), as `BoundedGNMax.noisy_counts` gives them. Every public row
    belongs to its nearest representative; the mean of its cluster is an example of each class, as heavy as the class's
    noisy count, where that is positive. Fitted: `classes_`, `estimator_`, `representation_`.
    Guarantee: a function of public rows and of counts released under their own guarantee; it costs nothing more.
    """

    def __init__(self, estimator: Any = None, *, representation: Any = "auto", random_state: int | None = None) -> None:
        self.estimator = estimator
        self.representation = representation
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train on plain labels, -1 for unlabelled: each labelled row speaks for its cluster with one vote."""
        labels = require_labels(y, row_count(X))
        queries = np.flatnonzero(labels != UNLABELLED)
        one_hot = np.eye(max(2, int(labels.max()) + 1))[labels[queries]]
        return self.fit_counts(X, queries, one_hot, sigma2=1.0)

    def fit_counts(self, X: Any, queries: ArrayLike, counts: ArrayLike, *, sigma2: float) -> Self:
        """Train on noisy counts. sigma2: the noise that they carry, a public parameter."""
        sigma2 = positive("sigma2", sigma2)
        places, heard = require_counts(queries, counts, row_count(X))
        self.representation_ = learn_representation(self.representation, X, random_state=self.random_state)
        features = self.representation_.transform(X)
        means = cluster_means(features, features[places])
        weights = np.maximum(heard, 0)
        said = np.flatnonzero(weights.sum(axis=0) > 0)
        if not len(said):
            raise InvalidInput(ALL_NOISE)
        self.classes_ = said
        if len(said) == 1:
            self.estimator_ = None
            return self
        examples = np.tile(means, (len(said), 1))
        labels = np.repeat(said, len(means))
        weight = weights[:, said].T.ravel()
        spoken = weight > 0
        # A penalty in proportion to the noise keeps the classifier from learning it; 0.3 did best in simulations.
        fresh = LogisticRegression(C=0.3 / sigma2, max_iter=1000) if self.estimator is None else clone(self.estimator)
        self.estimator_ = seeded(fresh, self.random_state).fit(
            examples[spoken], labels[spoken], sample_weight=weight[spoken]
        )
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class number of every row, shape (rows,)."""
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.full(row_count(X), self.classes_[0])
        return self.estimator_.predict(self._features(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, (rows, len(classes_))."""
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.ones((row_count(X), 1))
        return self.estimator_.predict_proba(self._features(X))

    def _features(self, X: Any) -> NDArray[np.float64]:
        # In doubles, as the released student computes.
        return np.asarray(self.representation_.transform(X), np.float64)


def cluster_means(features: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.float64]:
    """The mean of the rows nearest to each centre, (centres, features); a centre's own row is among them."""
    squares = np.square(centres).sum(axis=1)
    own = np.concatenate(
        [(squares - 2 * features[at : at + 4096] @ centres.T).argmin(axis=1) for at in range(0, len(features), 4096)]
    )
    sums = np.zeros(centres.shape)
    np.add.at(sums, own, features)
    members = np.bincount(own, minlength=len(centres))
    return np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], centres)
