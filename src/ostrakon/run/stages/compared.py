"""A named student beside the default one, on released counts of cells that neither of the two learned from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ostrakon.features.sums import SumMap
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.options import AUTO, is_auto
from ostrakon.run.stages.learning import Learning
from ostrakon.students.calibration import CalibratedStudent, tempered
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.quantity_student import SUMS, QuantityRidge
from ostrakon.students.selection import Candidate, Cells, Released, Selection, select
from ostrakon.students.share_student import HIGH

_SURE = 2.0
"""Standard deviations of the noise by which the default student must be ahead."""
_POINTS, _SHARE = 0.05, 0.5
"""How far behind a named student of classes is, in accuracy, and what part a student of a quantity explains at most."""
_PENALTIES = 10.0 ** np.arange(-6, 2)


def behind_default(learning: Learning, released: Released, selection: Selection, *, classes: int) -> str:
    """A warning if a named student of classes is right on far fewer held-out votes than the default; else empty.

    The default is the first candidate of a run that names none. Labels for another objective are not compared.
    """
    tested = selection.held
    if is_auto(learning.student) or learning.sees_images or released.sigma2 is None or tested is None:
        return ""
    candidates = replace(learning, student=AUTO).candidates(
        counts=True, moments=released.moments is not None, classes=classes, queries=len(released.queries)
    )
    first = candidates[0]
    tried = [first, *(other for other in candidates if other.name in first.mean_of)]
    other = select(tried, learning.X_public, learning.view.public, released, seed=learning.seed)
    total = float(tested.counts.sum())
    if other.held is None or not total > 0:
        return ""
    shares = tested.shares, other.held.shares
    named, default = (float((share * tested.counts).sum()) / total for share in shares)
    noise = released.sigma2 * float(np.sqrt(np.square(shares[1] - shares[0]).sum())) / total
    if default - named <= max(_POINTS, _SURE * noise):
        return ""
    return (
        f"Warning: the student {selection.chosen.name} is right on about {_percent(named)} of the released noisy votes "
        f"in cells that it did not learn from, and the default student, {other.chosen.name}, on about "
        f"{_percent(default)}. {_INSTEAD}"
    )


def behind_sums(learning: Learning, released: Released, selection: Selection) -> str:
    """A warning if a named student of a quantity explains far less than ridge regression from sums; else empty.

    released: with the sums of features, which a named student does not learn from. The ridge regression learns from
    these with as much noise again, and is compared on them without that noise twice, so that the two noises are
    independent (Oliveira, Lei and Tibshirani 2024).
    """
    likely, cells, moments = selection.likely, selection.cells, released.moments
    if likely is None or cells is None or moments is None or not np.isfinite(likely).all():
        return ""
    if isinstance(selection.student, CalibratedStudent):
        likely = tempered(likely, selection.student.temperature, selection.student.offsets)
    more = np.random.default_rng([learning.seed, len(likely)]).normal(0, moments.sigma, moments.sums.shape)
    learned, left = (
        replace(moments, sums=moments.sums + extra, sigma=moments.sigma * 2**0.5) for extra in (more, -more)
    )
    ridge = Candidate(name=SUMS, student=_RidgeOfVotes(learned))
    other = select([ridge], learning.X_public, learning.view.public, released, folds=2, seed=learning.seed)
    if other.likely is None:
        return ""
    judge = _Judge.of(learning.view.public, replace(released, moments=left), cells)
    named, default = (2 * beliefs[:, HIGH] - 1 for beliefs in (likely, other.likely))
    ahead, noise = judge.ahead(default, named)
    explained, by_default = (judge.ahead(one, judge.mean)[0] for one in (named, default))
    if ahead <= _SURE * noise or explained > _SHARE * by_default:
        return ""
    verdict = f"is much further from the quantity than the default student, {SUMS}"
    if explained > 0:
        part = _percent(explained / by_default)
        verdict = f"explains about {part} of what the default student, {SUMS}, explains of the quantity"
    return f"Warning: the student {selection.chosen.name} {verdict}, by released noisy numbers. {_INSTEAD}"


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
