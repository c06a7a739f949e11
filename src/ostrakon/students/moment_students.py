"""Students of sums of features by class: logistic regression from released sums, alone or beside another."""

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
    "The students moments and gaussian-process learn from noisy sums of features, which only moment-gnmax releases: "
    "use that mechanism, or another student."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedMoments:
    """Noisy sums of features by class, as they were released.

    sums: in votes, (directions, classes). sigma: standard deviation of the noise on each. records: public number of
    records. directions: the summed features (for the student additive, the counted pairs of columns).
    """

    sums: FloatArray
    sigma: float
    records: int
    directions: MomentMap | PairMap | SumMap | LabelMap

    @property
    def sizes(self) -> FloatArray:
        """Class sizes, estimated from the noisy sums of the constant of a `MomentMap`, (classes,)."""
        assert isinstance(self.directions, MomentMap)
        steps = np.array([round(self.directions.constant * STEPS)])
        classes = self.directions.classes
        shared = 0 if classes is None else int(shared_steps(steps, classes)[0])
        return (self.sums[0] + self.records * shared / STEPS) / self.directions.constant


def records_by_row(X: Any, released: Any, records: int | None = None) -> FloatArray:
    """Return the number of private records that each public row represents, (rows,), the same within a cell.

    X: features of public rows, (rows, features). released: a `ostrakon.students.selection.Released`. records: their
    number; None: that of the released sums. The totals of noisy counts weight the cells; without counts all rows
    have the same weight.
    Guarantee: a function of public rows and of what was released.
    """
    features, weights = np.asarray(X, np.float32), np.ones(len(X))
    known: int = released.moments.records if records is None else records
    if released.sigma2 is not None and len(released.queries):
        queries, counts = require_counts(released.queries, released.counts, len(features))
        cell_index = cell_by_query(features, queries)
        sizes = np.bincount(cell_index, minlength=len(queries))
        # Where cells are held out, the others have a part of all records.
        part = 1.0 if released.pool is None else len(features) / len(released.pool[0])
        sigma = counts.shape[1] ** 0.5 * released.sigma2
        totals = likely_totals(counts.sum(axis=1), sizes, records=part * known, sigma=sigma)
        if totals.any():
            weights = (totals / np.maximum(sizes, 1))[cell_index]
    return known * weights / weights.sum()


class MomentLogistic(ClassifierMixin, BaseEstimator):
    """Logistic regression without labelled rows, from public rows and noisy sums of private rows by class.

    penalty: of the weights, in standard deviations of the noise on the sums; above 0.

    It minimizes, over weights W (directions, classes), the loss of logistic regression on the private records. Labels
    enter this loss only through the sums; the other term, log sum exp of the scores, is taken from public rows, each
    with the weight of `records_by_row`. The loss is convex in W; noise on the sums is a linear term, which the penalty
    bounds.
    fit_moments(X, released): X features of public rows, (rows, features). Fitted: `classes_` (all), `coef_`.
    Guarantee: a function of public rows and of released sums; it costs nothing more.
    Source: sufficient statistics of exponential families (Foulds et al. 2016); public features for private ones.
    """

    def __init__(self, penalty: float = 1.0) -> None:
        self.penalty = penalty

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Refuse: it learns from sums, not from labels of rows."""
        raise InvalidInput(NEEDS_MOMENTS)

    def fit_moments(self, X: Any, released: Any) -> Self:
        """Learn from `released.moments`, a `ReleasedMoments`. Errors: `InvalidInput` where there are none."""
        moments: ReleasedMoments | None = released.moments
        if moments is None or not isinstance(moments.directions, MomentMap):
            raise InvalidInput(NEEDS_MOMENTS)
        directions = moments.directions
        penalty = positive("penalty", self.penalty) * moments.sigma
        if directions.classes is not None:
            # Makes the penalty independent of the scale of features.
            penalty *= 2 * directions.longest**2
        # Scores are (classes, rows): sums over few classes are faster along the first axis.
        rows = directions.unrounded(X).T
        weight = records_by_row(X, released)
        shape = moments.sums.shape

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            weights = flat.reshape(shape)
            scores = weights.T @ rows
            highest = scores.max(axis=0)
            proba = np.exp(scores - highest, out=scores)
            total = proba.sum(axis=0)
            proba *= weight / total
            value = float(weight @ (highest + np.log(total))) - (weights * moments.sums).sum()
            gradient = rows @ proba.T - moments.sums + penalty * weights
            return float(value + penalty / 2 * np.square(weights).sum()), gradient.ravel()

        solution = minimize(loss, np.zeros(moments.sums.size), jac=True, method="L-BFGS-B", options={"maxiter": 300})
        if not np.isfinite(solution.x).all():
            raise InvalidInput("The released sums of features must be finite.")
        self.directions_ = directions
        self.coef_ = solution.x.reshape(shape)
        self.classes_ = np.arange(shape[1])
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of all classes, (rows, classes)."""
        check_is_fitted(self, "coef_")
        return softmax(self.directions_.unrounded(X) @ self.coef_, axis=1)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the likeliest class of every row, (rows,)."""
        return self.predict_proba(X).argmax(axis=1)


def fitted_on_counts(other: Any, X: Any, released: Any) -> Any:
    """Return a copy of a student, fitted on the counts; None if noise exceeds every count."""
    try:
        return released.fit_student(clone(other), X)
    except InvalidInput as refusal:
        if str(refusal) != ALL_NOISE:
            raise
        return None


class MomentVote(ClassifierMixin, BaseEstimator):
    """The mean probabilities of `MomentLogistic` and of another student that learns from the noisy counts.

    other: a student with predict_proba. Fitted: `classes_` (all), `linear_`, `other_` (None where noise exceeds
    every count).
    Guarantee: a function of public rows and of what was released.
    """

    def __init__(self, other: Any, *, penalty: float = 1.0) -> None:
        self.other = other
        self.penalty = penalty

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Refuse: it learns from sums, not from labels of rows."""
        raise InvalidInput(NEEDS_MOMENTS)

    def fit_moments(self, X: Any, released: Any) -> Self:
        """Learn from all that was released, a `ostrakon.students.selection.Released`."""
        self.linear_ = MomentLogistic(self.penalty).fit_moments(X, released)
        self.other_ = fitted_on_counts(self.other, X, released)
        self.classes_ = self.linear_.classes_
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of all classes, (rows, classes)."""
        check_is_fitted(self, "linear_")
        proba = self.linear_.predict_proba(X)
        if self.other_ is None:
            return proba
        proba[:, np.asarray(self.other_.classes_, np.int64)] += self.other_.predict_proba(X)
        return proba / 2

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the likeliest class of every row, (rows,)."""
        return self.predict_proba(X).argmax(axis=1)
