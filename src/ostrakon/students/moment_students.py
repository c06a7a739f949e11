"""Students of noisy moments: logistic regression from released sums of features by class, alone or beside another."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.cells import PairMap
from ostrakon.features.labels import LabelMap
from ostrakon.features.moments import MomentMap, shared_steps
from ostrakon.features.sums import SumMap
from ostrakon.students.cells import cell_by_query, likely_totals
from ostrakon.students.labelled import ALL_NOISE, require_counts
from ostrakon.validation import InvalidInput, positive
from ostrakon.votes import STEPS

FloatArray = NDArray[np.float64]

NEEDS_MOMENTS = (
    "The student moments learns from noisy sums of features, which moment-gnmax releases: take that mechanism, or "
    "another student."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedMoments:
    """Noisy sums of features by class, as they were released.

    sums: in votes, (directions, classes). sigma: standard deviation of the noise on each. records: how many spoke, a
    public number. directions: what was summed (for the student additive, which pairs of columns were counted).
    """

    sums: FloatArray
    sigma: float
    records: int
    directions: MomentMap | PairMap | SumMap | LabelMap

    @property
    def sizes(self) -> FloatArray:
        """What the noisy sums of the constant of a `MomentMap` say of how many records each class has, (classes,)."""
        assert isinstance(self.directions, MomentMap)
        steps = np.array([round(self.directions.constant * STEPS)])
        classes = self.directions.classes
        shared = 0 if classes is None else int(shared_steps(steps, classes)[0])
        return (self.sums[0] + self.records * shared / STEPS) / self.directions.constant


def records_by_row(X: Any, released: Any) -> FloatArray:
    """How many private records each public row stands for, (rows,): all rows of a cell as many.

    X: features of public rows, (rows, features). released: a `ostrakon.students.selection.Released` with moments. The
    totals of noisy counts say where private records are more frequent than public rows; without counts all rows stand
    for as many.
    Guarantee: a function of public rows and of what was released.
    """
    features, heavy = np.asarray(X, np.float32), np.ones(len(X))
    if released.sigma2 is not None and len(released.queries):
        queries, counts = require_counts(released.queries, released.counts, len(features))
        own = cell_by_query(features, queries)
        sizes = np.bincount(own, minlength=len(queries))
        totals = likely_totals(counts, sizes, sigma2=released.sigma2)
        if totals.any():
            heavy = (totals / np.maximum(sizes, 1))[own]
    return released.moments.records * heavy / heavy.sum()


class MomentLogistic(ClassifierMixin, BaseEstimator):
    """Logistic regression that has seen no labelled row: public rows, and the noisy sums of private ones by class.

    penalty: of the weights, in standard deviations of the noise on the sums; above 0.

    What it minimizes, over weights W (directions, classes), is the loss of logistic regression on the private records,
    in which they appear by their sums alone but for log sum exp of their scores: public rows stand for that, which
    needs no labels, each for as many records as `records_by_row` says. In W it is convex; noise on the sums is a linear
    term, that the penalty outweighs.
    fit_moments(X, released): X features of public rows, (rows, features). Fitted: `classes_` (all), `coef_`.
    Guarantee: a function of public rows and of released sums; it costs nothing more.
    Source: sufficient statistics of exponential families (Foulds et al. 2016); public features for private ones.
    """

    def __init__(self, penalty: float = 1.0) -> None:
        self.penalty = penalty

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Refused: it learns from sums, not from labels of rows."""
        raise InvalidInput(NEEDS_MOMENTS)

    def fit_moments(self, X: Any, released: Any) -> Self:
        """Learn from `released.moments`, a `ReleasedMoments`. Errors: `InvalidInput` where there are none."""
        moments: ReleasedMoments | None = released.moments
        if moments is None or not isinstance(moments.directions, MomentMap):
            raise InvalidInput(NEEDS_MOMENTS)
        directions = moments.directions
        penalty = positive("penalty", self.penalty) * moments.sigma
        if directions.classes is not None:
            # The same for the weights of a feature, however long features are.
            penalty *= 2 * directions.longest**2
        # By class and row: numbers of a class stand side by side, where sums over few classes are quick.
        rows = directions.of_rows(X).T
        weight = records_by_row(X, released)
        shape = moments.sums.shape

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            weights = flat.reshape(shape)
            scores = weights.T @ rows
            highest = scores.max(axis=0)
            likely = np.exp(scores - highest, out=scores)
            total = likely.sum(axis=0)
            likely *= weight / total
            value = float(weight @ (highest + np.log(total))) - (weights * moments.sums).sum()
            gradient = rows @ likely.T - moments.sums + penalty * weights
            return float(value + penalty / 2 * np.square(weights).sum()), gradient.ravel()

        solution = minimize(loss, np.zeros(moments.sums.size), jac=True, method="L-BFGS-B", options={"maxiter": 300})
        if not np.isfinite(solution.x).all():
            raise InvalidInput("The released sums of features must be finite.")
        self.directions_ = directions
        self.coef_ = solution.x.reshape(shape)
        self.classes_ = np.arange(shape[1])
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of all classes, (rows, classes)."""
        check_is_fitted(self, "coef_")
        return softmax(self.directions_.of_rows(X) @ self.coef_, axis=1)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The likeliest class of every row, (rows,)."""
        return self.predict_proba(X).argmax(axis=1)


def taught_by_counts(other: Any, X: Any, released: Any) -> Any:
    """A copy of a student that has learned from the counts; None where noise exceeds every count, not the sums."""
    try:
        return released.fit_student(clone(other), X)
    except InvalidInput as refusal:
        if str(refusal) != ALL_NOISE:
            raise
        return None


class MomentVote(ClassifierMixin, BaseEstimator):
    """The mean of what `MomentLogistic` believes and of what another student does, who learned from the noisy counts.

    other: a student with predict_proba. Fitted: `classes_` (all), `linear_`, `other_` (None where noise exceeds
    every count).
    Guarantee: a function of public rows and of what was released.
    """

    def __init__(self, other: Any, *, penalty: float = 1.0) -> None:
        self.other = other
        self.penalty = penalty

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Refused: it learns from sums, not from labels of rows."""
        raise InvalidInput(NEEDS_MOMENTS)

    def fit_moments(self, X: Any, released: Any) -> Self:
        """Learn from all that was released, a `ostrakon.students.selection.Released`."""
        self.linear_ = MomentLogistic(self.penalty).fit_moments(X, released)
        self.other_ = taught_by_counts(self.other, X, released)
        self.classes_ = self.linear_.classes_
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of all classes, (rows, classes)."""
        check_is_fitted(self, "linear_")
        likely = self.linear_.predict_proba(X)
        if self.other_ is None:
            return likely
        likely[:, np.asarray(self.other_.classes_, np.int64)] += self.other_.predict_proba(X)
        return likely / 2

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The likeliest class of every row, (rows,)."""
        return self.predict_proba(X).argmax(axis=1)
