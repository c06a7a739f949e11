"""Comparison of a named student with the default one, on released counts of cells that both did not learn from."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ostrakon.estimators.registry import in_words
from ostrakon.features.sums import SumMap
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.options import AUTO, BALANCED, ORDERED, is_auto
from ostrakon.progress import in_phase
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.selected import calibrated
from ostrakon.statements.statement import FOR_OPERATOR
from ostrakon.students.calibration import CalibratedStudent, class_shares
from ostrakon.students.label_student import LabelRidge
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.quantity_student import SUMS, QuantityRidge
from ostrakon.students.selection import Candidate, Cells, Released, Selection, select
from ostrakon.students.share_student import HIGH

_MARGIN = 2.0
"""Standard deviations of the noise by which the default student must be better."""
_POINTS, _RANKS, _SHARE = 0.05, 0.1, 0.5
"""Differences that cause a warning: in accuracy, in ranks, and as a part of what the default student explains."""
_PARTS = 5
_PHASE = "the default one, to compare"
_PENALTIES = 10.0 ** np.arange(-6, 2)


def compare_with_default(learning: Learning, released: Released, selection: Selection) -> str:
    """Return a warning if a named student of classes is far worse than the default on held-out votes; else empty.

    The default is the first candidate of a run without a named student. The score is the share of correctly predicted
    votes (with equal weight of all classes for that objective), or the mean rank error. Networks are not compared,
    because the default one takes minutes.
    """
    tested, auto = selection.out_of_fold or selection.all_cells, replace(learning, student=AUTO)
    if is_auto(learning.student) or learning.sees_images or released.sigma2 is None or tested is None:
        return ""
    candidates = auto.candidates(
        counts=True,
        moments=released.moments is not None,
        classes=released.counts.shape[1],
        queries=len(released.queries),
    )
    first = candidates[0]
    tried = [first, *(other for other in candidates if other.name in first.mean_of)]
    with in_phase(_PHASE):
        other = select(tried, learning.X_public, learning.view.public, released, seed=learning.seed)
    other = calibrated(other, released, auto)
    compared = other.out_of_fold or other.all_cells
    if compared is None or not tested.counts.sum() > 0:
        return ""
    weights = [_weights(one.shares, released, tested.counts, learning.objective) for one in (tested, compared)]
    named, default = (float((weight * tested.counts).sum()) for weight in weights)
    noise = released.sigma2 * float(np.sqrt(np.square(weights[1] - weights[0]).sum()))
    ordered = learning.objective == ORDERED
    if default - named <= max(_RANKS if ordered else _POINTS, _MARGIN * noise):
        return ""
    where = "of the released noisy votes that it did not learn from"
    if ordered:
        result, by_default = (f"about {max(-score, 0):.2f} ranks" for score in (named, default))
        result = f"is {result} from the classes {where}"
    else:
        equal = ", if every class counts the same" if learning.objective == BALANCED else ""
        result, by_default = f"is right on about {_percent(named)} {where}{equal}", f"on about {_percent(default)}"
    return (
        f"Warning: the student {selection.chosen.name} {result}, and the default student, "
        f"{in_words(other.chosen.name)}, {by_default}.{_ADVICE}"
    )


def _weights(shares: FloatArray, released: Released, votes: FloatArray, objective: str) -> FloatArray:
    """Return the effect of each vote on the score of a student, (cells, classes).

    shares: of the rows of each cell for which it predicts each class. votes: noisy votes of the cells.
    """
    total, classes = float(votes.sum()), shares.shape[1]
    if objective == ORDERED:
        ranks = np.arange(classes)
        return -shares @ np.abs(ranks[:, None] - ranks) / total
    return shares / total / (classes * class_shares(released) if objective == BALANCED else 1.0)


def compare_label_student(learning: Learning, released: Released, votes: FloatArray, selection: Selection) -> str:
    """Return a warning if a named student of several labels explains far less than ridge regression; else empty.

    votes: noisy votes in each cell for and against each label, (cells, labels, 2). The ridge regression is fitted
    without the counts of the cells on which it is tested. The score is the reduction of squared errors of probabilities
    against the rate of each label.
    """
    proba, sigma2 = selection.proba, released.sigma2
    total = votes.sum(axis=(0, 2))
    if proba is None or selection.cells is None or sigma2 is None or not (total > 0).all():
        return ""
    public, cell_index, default = learning.view.public, selection.cells.cell_index, np.zeros_like(proba)
    order = np.random.default_rng([learning.seed, len(votes)]).permutation(len(votes))
    for part in np.array_split(order, _PARTS):
        others, left_out = np.setdiff1d(order, part), np.isin(cell_index, part)
        training = replace(released, queries=released.queries[others], counts=released.counts[others])
        default[left_out] = LabelRidge().fit_moments(public, training).predict_proba(public[left_out])
    rates = np.broadcast_to(votes[:, :, 1].sum(axis=0) / total, proba.shape)
    # Squared errors on a vote against a label, and on one for it.
    errors = [
        np.stack([selection.cells.mean(np.square(predicted - actual)) for actual in (0, 1)], axis=2) / total[:, None]
        for predicted in (proba, default, rates)
    ]
    named, best = (float(((errors[2] - one) * votes).sum()) for one in errors[:2])
    # Votes against may be a known number minus votes for: then both have the same noise.
    noise = sigma2 * float(np.sqrt(np.square(np.abs(errors[0] - errors[1]).sum(axis=2)).sum()))
    return _warning(selection, best - named, noise, explained=named, by_default=best, target="the labels")


def compare_quantity_student(learning: Learning, released: Released, selection: Selection) -> str:
    """Return a warning if a named student of a quantity explains far less than ridge regression; else empty.

    released: with the sums of features, which a named student does not use. The ridge regression learns from the sums
    plus a draw of equal noise, and is tested on the sums minus this draw, so that both noises are independent
    (Oliveira, Lei and Tibshirani 2024).
    """
    proba, cells, moments = out_of_fold_proba(selection), selection.cells, released.moments
    if proba is None or cells is None or moments is None:
        return ""
    noise_draw = np.random.default_rng([learning.seed, len(proba)]).normal(0, moments.sigma, moments.sums.shape)
    training, test = (
        replace(moments, sums=moments.sums + extra, sigma=moments.sigma * 2**0.5) for extra in (noise_draw, -noise_draw)
    )
    ridge = Candidate(name=SUMS, student=_RidgeOfVotes(training))
    with in_phase(_PHASE):
        other = select([ridge], learning.X_public, learning.view.public, released, folds=2, seed=learning.seed)
    if other.proba is None:
        return ""
    comparison = _Comparison.of(learning.view.public, replace(released, moments=test), cells)
    named, default = (2 * class_proba[:, HIGH] - 1 for class_proba in (proba, other.proba))
    ahead, noise = comparison.gain(default, named)
    explained, by_default = (comparison.gain(one, comparison.mean)[0] for one in (named, default))
    return _warning(selection, ahead, noise, explained=explained, by_default=by_default, target="the quantity")


def _warning(
    selection: Selection, ahead: float, noise: float, *, explained: float, by_default: float, target: str
) -> str:
    """Return the warning if the default student is clearly better and the named one explains much less; else empty."""
    if ahead <= _MARGIN * noise or explained > _SHARE * by_default:
        return ""
    part = _percent(explained / by_default if explained > 0 else 0)
    return (
        f"Warning: the student {selection.chosen.name} explains about {part} of what the default student, "
        f"{in_words(SUMS)}, explains of {target}, by released noisy numbers.{_ADVICE}"
    )


def out_of_fold_proba(selection: Selection) -> FloatArray | None:
    """Return out-of-fold probabilities of classes; None unless all rows were held out."""
    proba, student = selection.proba, selection.student
    if proba is None or not np.isfinite(proba).all():
        return None
    if isinstance(student, CalibratedStudent):
        return student.calibrated(proba)[0]
    return proba


@dataclass(frozen=True, kw_only=True, eq=False)
class _Comparison:
    """Comparison of two estimates of a quantity, from -1 to 1, on the private records.

    rows: features of public rows by `SumMap`. axes: their variances and principal directions. cells: of public rows.
    sums, differences: noisy sums of features times the quantity, and of the quantity by cell; noise: on both. records:
    their number. mean: of the quantity.
    """

    rows: FloatArray
    axes: tuple[FloatArray, FloatArray]
    cells: Cells
    sums: FloatArray
    differences: FloatArray
    noise: tuple[float, float]
    records: int
    mean: float

    @classmethod
    def of(cls, public: Any, released: Released, cells: Cells) -> Self:
        moments, sigma2 = released.moments, released.sigma2
        assert moments is not None
        assert sigma2 is not None
        assert isinstance(moments.directions, SumMap)
        feature_map, counts = moments.directions, released.counts
        sums, differences = feature_map.sums(moments.sums), counts[:, HIGH] - counts[:, 1 - HIGH]
        noise = float(feature_map.sums(np.full(moments.sums.shape, moments.sigma))[0]), sigma2 * 2**0.5
        # A user may count in several cells.
        scale = min(1.0, moments.records / max(float(counts.sum()), 1.0))
        rows = feature_map.unrounded(public)
        return cls(
            rows=rows,
            axes=np.linalg.eigh(rows.T @ rows / len(rows)),
            cells=cells,
            sums=sums,
            differences=scale * differences,
            noise=noise,
            records=moments.records,
            mean=float(np.clip(sums[0] / (feature_map.constant * moments.records), -1, 1)),
        )

    def gain(self, better: FloatArray, other: FloatArray | float) -> tuple[float, float]:
        """Return (by how much the squared errors of `other` exceed those of `better`, its standard deviation)."""
        squares = np.square(better) - np.square(other)
        products, variance = self._product_sum(better - other)
        sampling = self.records * float(squares.std()) / len(squares) ** 0.5
        return 2 * products - self.records * float(squares.mean()), float(np.hypot(2 * variance**0.5, sampling))

    def _product_sum(self, values: FloatArray) -> tuple[float, float]:
        """Return (the sum over records of the quantity times `values`, its variance).

        The part of `values` that is linear in the features uses the sums of features, the residual those by cell, with
        the penalty of least variance.
        """
        variances, vectors = self.axes
        rotated = vectors.T @ (self.rows.T @ values / len(self.rows))
        best = np.inf, 0.0
        for penalty in _PENALTIES:
            weights = vectors @ (rotated / (np.maximum(variances, 0) + penalty))
            residual = self.cells.mean((values - self.rows @ weights)[:, None])[:, 0]
            variance = float((self.noise[0] ** 2 * weights @ weights) + self.noise[1] ** 2 * residual @ residual)
            best = min(best, (variance, float(weights @ self.sums + residual @ self.differences)))
        return best[1], best[0]


_ADVICE = f"{FOR_OPERATOR}a run without a named student takes the default; ostrakon refit trains it at no cost."


class _RidgeOfVotes(QuantityRidge):
    """The student of sums as a classifier of votes for both ends of a range. moments: the training sums."""

    def __init__(self, moments: ReleasedMoments) -> None:
        self.moments = moments
        self.classes_ = np.array([1 - HIGH, HIGH])

    def fit_moments(self, X: Any, released: Any) -> Self:
        return super().fit_moments(X, replace(released, moments=self.moments))

    def predict_proba(self, X: Any) -> FloatArray:
        share = super().predict(X)
        return np.stack([1 - share, share], axis=1)

    def predict(self, X: Any) -> FloatArray:
        return np.rint(super().predict(X))


def _percent(share: float) -> str:
    """Return a noisy share, clipped to [0, 1], in whole percent."""
    return f"{np.clip(share, 0, 1):.0%}"
