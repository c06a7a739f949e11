"""A student of noisy histograms: it learns from how clear the votes are, not only from what won."""

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
from ostrakon.validation import InvalidInput, positive, whole

EXAMPLES = ("rows", "means")
MOST_ROWS = 20_000
"""Public rows that are learned from at most, a random choice of them; more would cost time and teach little."""


def examples_for(estimator: Any) -> str:
    """What an estimator learns from by default: a kernel machine of every public row would take minutes."""
    return "means" if isinstance(estimator, SVC) else "rows"


@dataclass(eq=False, repr=False)
class NoisyCountStudent(ClassifierMixin, BaseEstimator):
    """A classifier of public cells, each weighed by the noisy votes that its representative got.

    estimator: takes sample_weight (cloned); None: logistic regression with a penalty of C=0.3.
    representation: as in `ostrakon.features.learn_representation`, learned from the public rows of fit.
    examples: "rows": every public row is an example of each class, as heavy as its share of the class's count in its
        cell; "means": the mean of every cell is. Cells are fewer than rows, so this is the quicker way.
    rounds: how often the estimator is then fitted again, the count of a cell shared out among its rows by what the fit
        before believes of them, as far as the count allows (`shared_out`): the count says how many rows of a cell are
        of a class, the other cells which. Needs predict_proba.

    fit_counts(X, queries, counts, sigma2=...): X all public rows; queries the positions of the representatives in X;
    counts their noisy histograms (queries, classes), as `BoundedGNMax.noisy_counts` gives them. Every public row
    belongs to the cell of its nearest representative. Learned from are the likeliest counts (`likely_counts`) in units
    of sigma2, so that a penalty grows with the noise. Fitted: `classes_`, `estimator_`, `representation_`.
    Guarantee: a function of public rows and of counts released under their own guarantee; it costs nothing more.
    Source: learning from label proportions, Quadrianto 2009; sharing out as in expectation maximisation.
    """

    estimator: Any = None
    _: KW_ONLY
    representation: Any = "auto"
    examples: str = "rows"
    rounds: int = 0
    random_state: int | None = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train on plain labels, -1 for unlabelled: each labelled row speaks for its cell with one vote."""
        labels = require_labels(y, row_count(X))
        queries = np.flatnonzero(labels != UNLABELLED)
        one_hot = np.eye(max(2, int(labels.max()) + 1))[labels[queries]]
        return self.fit_counts(X, queries, one_hot, sigma2=1.0)

    def fit_counts(self, X: Any, queries: ArrayLike, counts: ArrayLike, *, sigma2: float) -> Self:
        """Train on noisy counts. sigma2: the noise that they carry, a public parameter."""
        sigma2 = positive("sigma2", sigma2)
        places, noisy = require_counts(queries, counts, row_count(X))
        if self.examples not in EXAMPLES:
            raise InvalidInput(f"examples must be one of {', '.join(EXAMPLES)}, got {self.examples!r}.")
        if not (noisy > 0).any():
            raise InvalidInput(ALL_NOISE)
        self.representation_ = learn_representation(self.representation, X, random_state=self.random_state)
        features = self.representation_.transform(X)
        rows, own, counts = self._examples(features, features[places], noisy, sigma2)
        sizes = np.bincount(own, minlength=len(counts))
        total = counts.sum(axis=1, keepdims=True)
        shares, heavy = counts / np.maximum(total, 1e-12), (total[:, 0] / np.maximum(sizes, 1))[own]
        said = np.flatnonzero(counts.sum(axis=0) > 0)
        self.classes_ = said
        if len(said) == 1:
            self.estimator_ = None
            return self
        given = shares[own][:, said]
        rounds = whole("rounds", self.rounds)
        learned = self._learned(rows, given, heavy, said)
        for _ in range(rounds):
            given = shared_out(learned.predict_proba(rows), own, shares[:, said], sizes=sizes)
            learned = self._learned(rows, given, heavy, said)
        self.estimator_ = learned
        return self

    def _learned(
        self, rows: NDArray[Any], given: NDArray[np.float64], heavy: NDArray[np.float64], said: NDArray[np.int64]
    ) -> Any:
        """The estimator, fitted on every row as an example of each class that it may have, by its share and weight."""
        fresh = LogisticRegression(C=0.3, max_iter=1000) if self.estimator is None else clone(self.estimator)
        if not takes_weights(fresh):
            raise InvalidInput(f"estimator must take sample_weight in fit, got {fresh!r}.")
        if len(said) == 2 and isinstance(fresh, Boosting):
            spoken = heavy > 0
            weighed = {"classes": said, "sample_weight": heavy[spoken]}
            return seeded(fresh, self.random_state).fit_shares(rows[spoken], given[spoken, 1], **weighed)
        weights = given * heavy[:, None]
        # A thousandth of a row would only make the examples many; but every class keeps the rows likeliest to have it.
        worth = (given > 1e-3) | (weights == weights.max(axis=0, keepdims=True))
        row, spoken = np.nonzero(worth & (weights > 0))
        return seeded(fresh, self.random_state).fit(rows[row], said[spoken], sample_weight=weights[row, spoken])

    def _examples(
        self, features: NDArray[Any], centres: NDArray[Any], noisy: NDArray[np.float64], sigma2: float
    ) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64]]:
        """(rows to learn from, the cell of each, the counts that are likely there in units of the noise)."""
        own = cell_of(features, centres)
        counts = likely_counts(noisy, np.bincount(own, minlength=len(centres)), sigma2=sigma2) / sigma2
        if not counts.any():
            raise InvalidInput(ALL_NOISE)
        if self.examples == "means":
            return cell_means(features, own, centres), np.arange(len(centres)), counts
        kept = np.arange(len(features))
        if len(kept) > MOST_ROWS:
            kept = np.sort(np.random.default_rng(self.random_state).permutation(len(kept))[:MOST_ROWS])
        return features[kept], own[kept], counts

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class number of every row, shape (rows,)."""
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.full(row_count(X), self.classes_[0])
        return self.estimator_.predict(self._features(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, (rows, len(classes_)); 0 and 1 where the estimator has none.

        A temperature then softens them (`ostrakon.students.calibration`): far from a cell that was held out, decision
        values are too sure of other classes.
        """
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.ones((row_count(X), 1))
        if hasattr(self.estimator_, "predict_proba"):
            return self.estimator_.predict_proba(self._features(X))
        return (self.predict(X)[:, None] == self.classes_[None, :]).astype(float)

    def _features(self, X: Any) -> NDArray[np.float64]:
        # In doubles, as the released student computes.
        return np.asarray(self.representation_.transform(X), np.float64)
