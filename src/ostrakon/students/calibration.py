"""Calibrated probabilities: temperatures from the released counts and errors, and offsets from the class shares.

Temperature. Held-out students give public rows probabilities p. With a temperature T they become p^(1/T), normalized,
and m[k, j] is their mean over the public rows of cell k. The log loss of cells, -sum of Y[k, j] log m[k, j], is linear
in the released counts Y, so its noise is known: for two temperatures the difference has the standard deviation sigma
times the root of the sum of (log m - log m')^2. A temperature is taken only if it is better than 1 by more than two of
these standard deviations, so that noise alone rarely leads to one, and of those the one with the smallest log loss: the
widest margin would lie nearer to 1, because noise grows with the change. With released labels each answered query is a
cell of one row, and the standard deviation is that of its mean gain. A mechanism that answers where teachers agree
leaves out the hard rows, so probabilities of other rows may then be too large.

Accuracy. Noisy counts of errors estimate how often the final student is right. A last temperature makes the mean
probability of its labels agree with this share, over public rows that are weighted by the noisy totals of their cells:
it minimizes the squared difference in standard deviations of the estimate, plus the squared logarithm of the
temperature in units of `_SPREAD`, so that a noisy estimate changes little. Labels stay as they were counted.

Shares. The released sums of a constant (or the counts) estimate the class frequencies of the private records. Constants
added to the logarithms make the mean probabilities of the public rows agree with these shares.

Balanced decisions. If every class counts the same, the best class of a row has the largest ratio of its probability to
its share.

Ordered classes. The median class, the first up to which the probabilities add up to one half, has the smallest expected
distance in ranks.

Assumption: public and private rows are alike, within cells for the first temperature and as a whole for the last one
and for the shares.
Guarantee: a function of released numbers and public rows, so it costs no privacy.
Source: Guo et al. 2017 (temperature); Saerens et al. 2002 (shares); Elkan 2001 (decisions).
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from ostrakon.features.moments import MomentMap
from ostrakon.students.selection import Released
from ostrakon.votes import FloatArray, IntArray

LEAST = 1e-4
"""Smaller probabilities are replaced by this one."""
HALF = 0.5 - 1e-9
"""Cumulative probability of the median class; less than one half because of rounding."""
_TEMPERATURES = np.exp(np.linspace(np.log(0.2), np.log(3.0), 25))
_MARGIN = 2.0
_OF_ACCURACY = 10.0 ** (np.arange(-40, 20) / 40)
_SPREAD = 0.3
"""Standard deviation of the logarithm of the last temperature before errors are counted. Chosen on tables: see
benchmarks/README.md."""
_LEAST_VARIANCE = 0.02
"""Smallest variance of being right on a row, also where nearly all predictions are right."""
_ROUNDS = 200


@dataclass(eq=False, repr=False)
class CalibratedStudent(ClassifierMixin, BaseEstimator):
    """A fitted student with other probabilities and, if `weights` are given, other labels.

    Parameters
    ----------
    student : fitted classifier
        Has the same classes.
    temperature : float
        Above 0; 1 changes nothing.
    offsets : array of float, shape (classes,)
        Added to the logarithms of the probabilities.
    weights : array of float, shape (classes,), optional
        The label is the class with the largest product of probability and weight. None: the student's own label.
    ordered : bool
        Whether the label is the median class. Not together with weights.

    Notes
    -----
    Guarantee: that of the student.
    """

    student: Any
    temperature: float
    offsets: FloatArray
    weights: FloatArray | None = None
    _: KW_ONLY
    ordered: bool = False

    @property
    def classes_(self) -> Any:
        """Class numbers, those of the student."""
        return self.student.classes_

    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated probabilities, (rows, classes)."""
        return tempered(self.student.predict_proba(X), self.temperature, self.offsets)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a class number for each row, (rows,)."""
        if self.weights is None and not self.ordered:
            return self.student.predict(X)
        return np.asarray(self.classes_)[self.decided(self.predict_proba(X))]

    def calibrated(self, proba: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return (calibrated probabilities, positions of labels) of rows, from those before all calibration."""
        labels = proba.argmax(axis=1)
        if isinstance(self.student, CalibratedStudent):
            proba, labels = self.student.calibrated(proba)
        likely = tempered(proba, self.temperature, self.offsets)
        return likely, labels if self.weights is None and not self.ordered else self.decided(likely)

    def decided(self, proba: FloatArray) -> IntArray:
        """Return the positions of the labels of rows, (rows,), from calibrated probabilities, (rows, classes)."""
        if self.ordered:
            return median_class(proba)
        return proba.argmax(axis=1) if self.weights is None else (np.log(proba) + np.log(self.weights)).argmax(axis=1)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def uncalibrated(student: Any) -> Any:
    """Return the student without any calibration."""
    return uncalibrated(student.student) if isinstance(student, CalibratedStudent) else student


def median_class(proba: FloatArray) -> IntArray:
    """Return the position of the median class of each row, (rows,), from probabilities (rows, classes) in class order.

    >>> median_class(np.array([[0.4, 0.2, 0.4], [0.5, 0.1, 0.4]])).tolist()
    [1, 0]
    """
    return (proba.cumsum(axis=1) >= HALF).argmax(axis=1)


def tempered(proba: FloatArray, temperature: float, offsets: FloatArray) -> FloatArray:
    """Return probabilities (rows, classes) at a temperature, with offsets (classes,) to their logarithms.

    >>> tempered(np.array([[0.8, 0.2]]), 0.5, np.zeros(2)).round(3).tolist()
    [[0.941, 0.059]]
    """
    probabilities: FloatArray = softmax(np.log(np.maximum(proba, LEAST)) / temperature + offsets, axis=1)
    return probabilities


def temperature_of(proba: FloatArray, cell_index: IntArray, released: Released, *, least: float = 0.0) -> float:
    """Return the temperature for held-out probabilities of public rows: 1 unless another above `least` is clearly
    better.

    proba: (rows, classes), NaN for rows that were not held out; rows of one cell are held out together. cell_index: the
    cell of each row, an index into the released counts, (rows,), below 0 for none.
    """
    tested = _finite(proba) & (cell_index >= 0)
    proba, cell_index = proba[tested], cell_index[tested]
    # Cells that were not held out have no rows here and contribute 0 to all differences.
    cells, no_offsets = len(released.counts), np.zeros(proba.shape[1])
    parts = 1 / np.maximum(np.bincount(cell_index, minlength=cells), 1)[cell_index]
    mean = sparse.csr_array((parts, (cell_index, np.arange(len(cell_index)))), shape=(cells, len(cell_index)))

    def log_means(temperature: float) -> FloatArray:
        return np.log(np.maximum(mean @ tempered(proba, temperature, no_offsets), 1e-6))

    reference, best, best_gain = log_means(1.0), 1.0, 0.0
    for temperature in _TEMPERATURES[least < _TEMPERATURES].tolist():
        change = log_means(temperature) - reference
        gains = (released.counts * change).sum(axis=1)
        gain = float(gains.sum())
        if released.sigma2 is None:
            noise = float(gains.std()) * len(gains) ** 0.5
        else:
            noise = released.sigma2 * float(np.sqrt(np.square(change).sum()))
        if gain > max(_MARGIN * noise, best_gain):
            best, best_gain = temperature, gain
    return best


def temperature_of_accuracy(
    proba: FloatArray, labels: IntArray, weights: FloatArray, *, share: float, sd: float
) -> float:
    """Return the temperature at which a student is about as sure of its labels as it is right.

    proba: of public rows, (rows, classes). labels: positions of the labels of these rows, (rows,). weights: of the
    rows, (rows,), above 0. share: estimate of how often the labels are right, 0 to 1. sd: its standard deviation. Rows
    with probabilities that are not finite, of code from elsewhere, do not count; without any other row the temperature
    is 1.

    >>> sure = np.tile([[0.6, 0.4]], (500, 1))
    >>> labels, weights = np.zeros(500, int), np.ones(500)
    >>> [round(temperature_of_accuracy(sure, labels, weights, share=0.9, sd=sd), 2) for sd in (0.01, 0.5)]
    [0.21, 1.0]
    """
    finite = _finite(proba)
    proba, labels, weights = proba[finite], labels[finite], weights[finite]
    if not len(proba):
        return 1.0
    weights = weights / weights.sum()
    variance = sd**2 + max(share * (1 - share), _LEAST_VARIANCE) * float(weights @ weights)
    at, no_offsets = (np.arange(len(proba)), labels), np.zeros(proba.shape[1])
    sure = np.array([weights @ tempered(proba, one, no_offsets)[at] for one in _OF_ACCURACY.tolist()])
    return float(_OF_ACCURACY[np.argmin((sure - share) ** 2 / variance + (np.log(_OF_ACCURACY) / _SPREAD) ** 2)])


def class_sizes(released: Released) -> tuple[FloatArray, float] | None:
    """Return estimates of the class sizes from the sums of features, (classes,), and their noise; None without sums."""
    moments = released.moments
    if moments is None or not isinstance(moments.directions, MomentMap):
        return None
    return moments.sizes, moments.sigma / moments.directions.constant


def class_shares(released: Released) -> FloatArray:
    """Estimate the shares of all classes among the private records from the least noisy released numbers, (classes,).

    The size of a class is at least half a standard deviation of its noise.
    """
    return _shares_and_noise(released)[0]


def shares_differ(proba: FloatArray, classes: IntArray, released: Released) -> bool:
    """Return whether the estimated class shares differ from mean probabilities by more than their noise explains.

    proba: of public rows, (rows, classes of the student). classes: their numbers.
    """
    shares, noise = _shares_and_noise(released)
    own = np.zeros(len(shares))
    finite = proba[_finite(proba)]
    if not len(finite):
        return False
    own[classes] = finite.mean(axis=0)
    return bool(np.square(shares - own).sum() > _MARGIN**2 * (len(own) - 1) * noise**2)


def _shares_and_noise(released: Released) -> tuple[FloatArray, float]:
    from_counts = released.counts.sum(axis=0), float(released.sigma2 or 1.0) * len(released.counts) ** 0.5
    totals, noise = class_sizes(released) or from_counts
    sizes = np.maximum(totals, noise / 2)
    return sizes / sizes.sum(), noise / sizes.sum()


def agreeing_offsets(proba: FloatArray, shares: FloatArray | None, temperature: float) -> FloatArray:
    """Return offsets (classes,) with which the mean probabilities of rows (rows, classes) are nearly `shares`.

    shares: None: the means before the temperature. Rows with probabilities that are not finite do not count; without
    any other row all offsets are 0.
    """
    proba, offsets = proba[_finite(proba)], np.zeros(proba.shape[1])
    if not len(proba):
        return offsets
    shares = proba.mean(axis=0) if shares is None else shares
    for _ in range(_ROUNDS):
        mean = tempered(proba, temperature, offsets).mean(axis=0)
        offsets += np.log(shares / np.maximum(mean, 1e-12))
        if np.abs(mean - shares).max() < 1e-6:
            break
    return offsets - offsets.mean()


def _finite(proba: FloatArray) -> NDArray[np.bool_]:
    """Return which rows have finite probabilities alone, (rows,)."""
    return np.asarray(np.isfinite(proba).all(axis=1))
