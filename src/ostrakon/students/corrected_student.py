"""The correction of a student by noisy sums of features times its errors on the private records.

A student is fitted on public rows, whose features are not distributed quite like the private ones, and with a penalty.
Its errors on the private records show both: for the best linear correction of its log odds they are orthogonal to the
features. With p the student's probabilities, h(x) = 1 / `largest_error`(p(x)) and x the directions of a row, the sums

    R = sum over private rows of h x (one-hot label - p)

are released with noise. The correction W maximizes <W, R> + sum over public rows of w h (<W, x p> - log sum_k p_k
exp(<W_k, x>)) minus a penalty, where w are the numbers of private records that the public rows represent. Without
noise and penalty, and if public rows are like private ones, this is the maximum of the likelihood with weights h.

Guarantee: a function of public rows and of released numbers, so it costs no privacy beyond that of the sums.
Source: one-step estimators, van der Vaart 1998, section 5.7; docs/mathematics.md H.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.corrections import largest_error
from ostrakon.features.moments import MomentMap
from ostrakon.students.moment_students import records_by_row
from ostrakon.validation import InvalidInput
from ostrakon.votes import FloatArray

LEAST = 1e-3
"""Smaller probabilities are replaced by this one, before they are corrected."""
_EXPONENTS = (0.0, 0.5, 1.0)
"""Whether weights of all directions vary alike (0), or those of rare directions more, as after scaling them (1)."""
_VARIANCES = np.geomspace(1e-4, 1e4, 81)
_USUAL = 0.6
"""Usual variance of the corrections of log odds. Chosen on tables: see benchmarks/README.md."""


def bounded(proba: FloatArray) -> FloatArray:
    """Return probabilities (rows, classes) without those below `LEAST`, in the form in which they are corrected."""
    probabilities: FloatArray = softmax(np.log(np.maximum(proba, LEAST)), axis=1)
    return probabilities


def of_all_classes(values: FloatArray, known: ArrayLike, classes: int) -> FloatArray:
    """Return values of the classes `known`, (rows, known), as those of all, with `LEAST` for the others.

    >>> of_all_classes(np.array([[0.6, 0.4]]), [0, 2], 3).tolist()
    [[0.6, 0.001, 0.4]]
    """
    full = np.full((len(values), classes), LEAST)
    full[:, np.asarray(known, np.int64)] = values
    return full


class CorrectedStudent(ClassifierMixin, BaseEstimator):
    """A fitted student whose log odds get a linear correction.

    Parameters
    ----------
    student : fitted classifier
        With probabilities.
    directions : MomentMap
        Of the sums of features.

    Attributes
    ----------
    classes_ : array of int, shape (classes,)
    coef_ : array of float, shape (directions, classes)

    Notes
    -----
    Guarantee: a function of public rows and of what was released; it costs nothing more.
    """

    def __init__(self, student: Any, directions: MomentMap) -> None:
        self.student = student
        self.directions = directions

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Refuse: it learns from sums, not from labels of rows."""
        raise InvalidInput("A correction learns from noisy sums of a student's errors, not from labels of rows.")

    def fit_corrections(self, X: Any, released: Any, sums: FloatArray, *, sigma: float) -> Self:
        """Learn from noisy sums of the student's errors.

        Parameters
        ----------
        X : array of float, shape (rows, features)
            Features of the public rows.
        released : ostrakon.students.selection.Released
            What the student was fitted on.
        sums : array of float, shape (directions, classes)
            In votes.
        sigma : float
            Standard deviation of the noise on each.
        """
        if not np.isfinite(sums).all():
            raise InvalidInput("The released corrections must be finite.")
        self.classes_ = np.arange(sums.shape[1])
        proba, rows = bounded(self._uncorrected(X)), self.directions.unrounded(X)
        weight, logs = records_by_row(X, released) / largest_error(proba), np.log(proba)
        # Errors sum to 0 over the classes, so what is left of it is noise.
        errors, weighted = sums - sums.mean(axis=1, keepdims=True), rows * weight[:, None]
        target = weighted.T @ proba + errors
        penalty = _penalty(rows, weight, proba, errors, sigma)

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            weights = flat.reshape(sums.shape)
            scores = logs + rows @ weights
            highest = scores.max(axis=1, keepdims=True)
            corrected = np.exp(scores - highest)
            total = corrected.sum(axis=1, keepdims=True)
            penalized = penalty @ weights
            value = float(weight @ (highest + np.log(total))[:, 0]) - (weights * target).sum()
            gradient = weighted.T @ (corrected / total) - target + penalized
            return float(value + (weights * penalized).sum() / 2), gradient.ravel()

        solution = minimize(loss, np.zeros(sums.size), jac=True, method="L-BFGS-B", options={"maxiter": 300})
        self.coef_ = solution.x.reshape(sums.shape)
        return self

    def corrected(self, proba: FloatArray, X: Any) -> FloatArray:
        """Return the student's probabilities of rows with these features, corrected, (rows, classes)."""
        check_is_fitted(self, "coef_")
        scores = np.log(np.maximum(proba, LEAST)) + self.directions.unrounded(X) @ self.coef_
        probabilities: FloatArray = softmax(scores, axis=1)
        return probabilities

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of all classes, (rows, classes)."""
        return self.corrected(self._uncorrected(X), X)

    def _uncorrected(self, X: Any) -> FloatArray:
        return of_all_classes(self.student.predict_proba(X), self.student.classes_, len(self.classes_))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the likeliest class of every row, (rows,)."""
        return self.predict_proba(X).argmax(axis=1)


def _penalty(rows: FloatArray, weight: FloatArray, proba: FloatArray, errors: FloatArray, sigma: float) -> FloatArray:
    """Return the penalty of the weights, (directions, directions), that is most probable given the released errors.

    The errors are about H W, where H is the sum of weight * p (1 - p) * x x^T over public rows, plus the noise and the
    randomness of labels, of variances sigma^2 and H. In the eigenvectors of H, with eigenvalues e, let the weights W be
    normal with variances v e^-a. Then the errors are independent with variances sigma^2 + e + v e^(2 - a), and the mean
    variance of the corrections of log odds is m = v sum e^(1 - a) / sum weight * p (1 - p). Few errors alone would not
    determine it, so its logarithm is normal around that of `_USUAL`, with variance 1. The most probable v and a (one of
    `_EXPONENTS`) are taken, and the penalty (sigma^2 + e) / (v e^(1 - a)) gives W its mean, given the errors.
    """
    classes = errors.shape[1]
    spread = weight * (proba * (1 - proba)).sum(axis=1) / (classes - 1)
    values, vectors = np.linalg.eigh((rows * spread[:, None]).T @ rows)
    values = np.maximum(values, 1e-9 * values.max())
    noise, power = sigma**2 + values, np.square(vectors.T @ errors).sum(axis=1)
    variances = [v * (values / values.max()) ** -exponent for exponent in _EXPONENTS for v in _VARIANCES]
    total = noise + np.array(variances) * values**2
    likelihood = -((classes - 1) * np.log(total) + power / total).sum(axis=1) / 2
    mean = np.array(variances) @ values / max(spread.sum(), 1e-12)
    variance = variances[int((likelihood - np.square(np.log(mean / _USUAL)) / 2).argmax())]
    return (vectors * (noise / (variance * values))) @ vectors.T
