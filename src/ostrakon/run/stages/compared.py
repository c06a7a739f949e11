"""A named student beside the default one, on released counts of cells that neither of the two learned from."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ostrakon.features.sums import SumMap
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.options import AUTO, BALANCED, ORDERED, is_auto
from ostrakon.progress import in_phase
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.selected import calibrated
from ostrakon.students.calibration import CalibratedStudent, class_shares, tempered
from ostrakon.students.label_student import LabelRidge
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.quantity_student import SUMS, QuantityRidge
from ostrakon.students.selection import Candidate, Cells, Released, Selection, select
from ostrakon.students.share_student import HIGH

_SURE = 2.0
"""Standard deviations of the noise by which the default student must be ahead."""
_POINTS, _RANKS, _SHARE = 0.05, 0.1, 0.5
"""How far behind a named student of classes is, in accuracy or ranks, and what part any other one explains at most."""
_PARTS = 5
_COMPARED = "the default one, to compare"
_PENALTIES = 10.0 ** np.arange(-6, 2)


def behind_default(learning: Learning, released: Released, selection: Selection) -> str:
    """A warning if a named student of classes is far behind the default on held-out votes; else empty.

    The default is the first candidate of a run that names none. What counts is how many votes a student is right on, if
    every class counts the same where that is the objective, or by how many ranks it misses them. Networks are not
    compared: the default one takes minutes.
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
    with in_phase(_COMPARED):
        other = select(tried, learning.X_public, learning.view.public, released, seed=learning.seed)
    other = calibrated(other, released, auto)
    compared = other.out_of_fold or other.all_cells
    if compared is None or not tested.counts.sum() > 0:
        return ""
    weights = [_weights(one.shares, released, tested.counts, learning.objective) for one in (tested, compared)]
    named, default = (float((weight * tested.counts).sum()) for weight in weights)
    noise = released.sigma2 * float(np.sqrt(np.square(weights[1] - weights[0]).sum()))
    ordered = learning.objective == ORDERED
    if default - named <= max(_RANKS if ordered else _POINTS, _SURE * noise):
        return ""
    where = "of the released noisy votes in cells that it did not learn from"
    if ordered:
        said, by_default = (f"about {max(-score, 0):.2f} ranks" for score in (named, default))
        said = f"is {said} from the classes {where}"
    else:
        equal = ", if every class counts the same" if learning.objective == BALANCED else ""
        said, by_default = f"is right on about {_percent(named)} {where}{equal}", f"on about {_percent(default)}"
    return (
        f"Warning: the student {selection.chosen.name} {said}, and the default student, {other.chosen.name}, "
        f"{by_default}. {_INSTEAD}"
    )


def _weights(shares: FloatArray, released: Released, votes: FloatArray, objective: str) -> FloatArray:
    """By how much a vote of each cell for each class raises the score of a student, both (cells, classes).

    shares: of the rows of each cell that it says each class of. votes: noisy ones, of the cells.
    """
    total, classes = float(votes.sum()), shares.shape[1]
    if objective == ORDERED:
        ranks = np.arange(classes)
        return -shares @ np.abs(ranks[:, None] - ranks) / total
    return shares / total / (classes * class_shares(released) if objective == BALANCED else 1.0)


def behind_labels(learning: Learning, released: Released, votes: FloatArray, selection: Selection) -> str:
    """A warning if a named student of several labels explains far less than ridge regression from sums; else empty.

    votes: noisy ones in each cell for and against each label, (cells, labels, 2). The ridge regression learns its
    weights without the counts of the cells on which it is judged. What is compared is by how much the squared errors of
    probabilities are below those of the rate of each label.
    """
    likely, sigma2 = selection.proba, released.sigma2
    total = votes.sum(axis=(0, 2))
    if likely is None or selection.cells is None or sigma2 is None or not (total > 0).all():
        return ""
    public, own, default = learning.view.public, selection.cells.cell_index, np.zeros_like(likely)
    order = np.random.default_rng([learning.seed, len(votes)]).permutation(len(votes))
    for part in np.array_split(order, _PARTS):
        rest, left_out = np.setdiff1d(order, part), np.isin(own, part)
        known = replace(released, queries=released.queries[rest], counts=released.counts[rest])
        default[left_out] = LabelRidge().fit_moments(public, known).predict_proba(public[left_out])
    rates = np.broadcast_to(votes[:, :, 1].sum(axis=0) / total, likely.shape)
    # Squared errors on a vote against a label, and on one for it.
    errors = [
        np.stack([selection.cells.mean(np.square(said - right)) for right in (0, 1)], axis=2) / total[:, None]
        for said in (likely, default, rates)
    ]
    named, best = (float(((errors[2] - one) * votes).sum()) for one in errors[:2])
    # Votes against may be what votes for leave of a known number: then their noise is the same.
    noise = sigma2 * float(np.sqrt(np.square(np.abs(errors[0] - errors[1]).sum(axis=2)).sum()))
    return _far_behind(selection, best - named, noise, explained=named, by_default=best, target="the labels")


def behind_sums(learning: Learning, released: Released, selection: Selection) -> str:
    """A warning if a named student of a quantity explains far less than ridge regression from sums; else empty.

    released: with the sums of features, which a named student does not learn from. The ridge regression learns from
    these with as much noise again, and is compared on them without that noise twice, so that the two noises are
    independent (Oliveira, Lei and Tibshirani 2024).
    """
    likely, cells, moments = beliefs_of(selection), selection.cells, released.moments
    if likely is None or cells is None or moments is None:
        return ""
    more = np.random.default_rng([learning.seed, len(likely)]).normal(0, moments.sigma, moments.sums.shape)
    learned, left = (
        replace(moments, sums=moments.sums + extra, sigma=moments.sigma * 2**0.5) for extra in (more, -more)
    )
    ridge = Candidate(name=SUMS, student=_RidgeOfVotes(learned))
    with in_phase(_COMPARED):
        other = select([ridge], learning.X_public, learning.view.public, released, folds=2, seed=learning.seed)
    if other.proba is None:
        return ""
    judge = _Judge.of(learning.view.public, replace(released, moments=left), cells)
    named, default = (2 * beliefs[:, HIGH] - 1 for beliefs in (likely, other.proba))
    ahead, noise = judge.ahead(default, named)
    explained, by_default = (judge.ahead(one, judge.mean)[0] for one in (named, default))
    return _far_behind(selection, ahead, noise, explained=explained, by_default=by_default, target="the quantity")


def _far_behind(
    selection: Selection, ahead: float, noise: float, *, explained: float, by_default: float, target: str
) -> str:
    """The warning if the default student is ahead for sure and the named one explains little beside it; else empty."""
    if ahead <= _SURE * noise or explained > _SHARE * by_default:
        return ""
    part = _percent(explained / by_default if explained > 0 else 0)
    return (
        f"Warning: the student {selection.chosen.name} explains about {part} of what the default student, {SUMS}, "
        f"explains of {target}, by released noisy numbers. {_INSTEAD}"
    )


def beliefs_of(selection: Selection) -> FloatArray | None:
    """The probabilities of classes that a student gives where it was held out; None unless that is everywhere."""
    likely, student = selection.proba, selection.student
    if likely is None or not np.isfinite(likely).all():
        return None
    if isinstance(student, CalibratedStudent):
        return tempered(likely, student.temperature, student.offsets)
    return likely


@dataclass(frozen=True, kw_only=True, eq=False)
class _Judge:
    """Which of two estimates of a quantity, from -1 to 1, is nearer to it on the private records.

    rows: features of `SumMap` of public rows. axes: variances and directions of these. cells: theirs. sums,
    differences: noisy sums of features times the quantity, and of the quantity by cell; noise: on each. records: their
    number. mean: the mean of the quantity.
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
        # Users may speak in several cells.
        scale = min(1.0, moments.records / max(float(counts.sum()), 1.0))
        rows = feature_map.of_rows(public)
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

    def ahead(self, better: FloatArray, other: FloatArray | float) -> tuple[float, float]:
        """(by how much the squared errors of `other` exceed those of `better`, the standard deviation of that)."""
        squares = np.square(better) - np.square(other)
        products, variance = self._products(better - other)
        drawn = self.records * float(squares.std()) / len(squares) ** 0.5
        return 2 * products - self.records * float(squares.mean()), float(np.hypot(2 * variance**0.5, drawn))

    def _products(self, values: FloatArray) -> tuple[float, float]:
        """(the sum over records of the quantity times what rows like them have in `values`, its variance).

        What is linear in the features is read from their sums, and the rest from those by cell, in the proportion that
        leaves the least noise.
        """
        variances, vectors = self.axes
        rotated = vectors.T @ (self.rows.T @ values / len(self.rows))
        best = np.inf, 0.0
        for penalty in _PENALTIES:
            weights = vectors @ (rotated / (np.maximum(variances, 0) + penalty))
            rest = self.cells.mean((values - self.rows @ weights)[:, None])[:, 0]
            variance = float((self.noise[0] ** 2 * weights @ weights) + self.noise[1] ** 2 * rest @ rest)
            best = min(best, (variance, float(weights @ self.sums + rest @ self.differences)))
        return best[1], best[0]


_INSTEAD = "Without --student a run takes the default; ostrakon refit trains it from this release at no cost."


class _RidgeOfVotes(QuantityRidge):
    """The student of sums as a classifier of votes for both ends of a range. moments: the sums that it learns from."""

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
    """A share that noise may have moved beyond 0 or 1, in whole percent."""
    return f"{np.clip(share, 0, 1):.0%}"
