"""How often a student agrees with released answers that were held out from it.

Guarantee: a function of released numbers and public rows, so it costs no privacy of its own.
Source: docs/mathematics.md O.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ostrakon.accounting.estimates import CONFIDENCE, Agreement, Of
from ostrakon.validation import InvalidInput
from ostrakon.votes import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """Predictions of students for cells, or single queries, that were held out from their training data.

    Parameters
    ----------
    counts : array of float, shape (held-out queries, classes)
        What was released there: noisy counts, or one vote for a released label.
    predicted : array of int, shape (held-out queries, classes)
        Number of public rows of each cell for which the student predicts each class.
    frequent : int
        The most frequent class of all released answers.
    complete : bool
        Whether all released queries were held out.
    students : int, default 1
        Number of students that were compared on these queries: the best of them may be the luckiest.
    """

    counts: FloatArray
    predicted: IntArray
    frequent: int
    complete: bool
    students: int = 1

    def __post_init__(self) -> None:
        rows = self.predicted
        if rows.shape != self.counts.shape or (rows < 0).any() or not rows.any(axis=1).all():
            raise InvalidInput(f"predicted must be rows of each cell by class, got shape {rows.shape}.")

    @property
    def shares(self) -> FloatArray:
        """Share of the public rows of each cell for which the student predicts each class."""
        return self.predicted / self.predicted.sum(axis=1, keepdims=True)

    @property
    def majority(self) -> FloatArray:
        """The same shares if the most frequent class is always predicted."""
        return np.eye(self.counts.shape[1])[np.full(len(self.counts), self.frequent)]


def gained(cells: HeldOut, sigma2: float | None) -> tuple[float, float]:
    """Return how many more of the held-out votes the student predicts than the majority class, as a share of them, and
    its standard deviation. sigma2: of the noise on counts; None for released answers.

    Within a cell the student's errors are taken to be at random.
    """
    difference, total = cells.shares - cells.majority, max(float(cells.counts.sum()), 1.0)
    changes = (difference * cells.counts).sum(axis=1)
    noise = changes if sigma2 is None else sigma2 * difference
    return float(changes.sum()) / total, float(np.sqrt(np.square(noise).sum())) / total


def with_released_answers(cells: HeldOut, *, of: Of) -> Agreement:
    """Estimate how often the student (or the majority class) predicts the released label of a held-out query.

    Wilson's interval, as if queries were drawn at random; the student's low end holds for every student that was
    compared (Bonferroni). It is not an accuracy: released answers are noisy votes of teachers on some public rows.
    """
    correct = _right(cells, of)
    test = stats.binomtest(int(correct.sum()), len(correct))
    compared = cells.students if of == "student" else 1
    low = test.proportion_ci(1 - (1 - CONFIDENCE) / compared, method="wilson").low
    high = test.proportion_ci(CONFIDENCE, method="wilson").high
    share = float(correct.mean())
    return Agreement(
        of=of,
        against="held-out released answers",
        counted="answered queries",
        share=share,
        sd=float(np.sqrt(share * (1 - share) / len(correct))),
        low=float(low),
        high=float(high),
    )


def better_than_majority_of_answers(cells: HeldOut) -> bool:
    """Return whether the student predicts more held-out labels than the majority class, by McNemar's exact test."""
    student, majority = _right(cells, "student"), _right(cells, "majority")
    gained, lost = int((student & ~majority).sum()), int((majority & ~student).sum())
    if gained <= lost:
        return False
    return bool(stats.binomtest(gained, gained + lost, alternative="greater").pvalue < 1 - CONFIDENCE)


def _right(cells: HeldOut, of: Of) -> NDArray[np.bool_]:
    shares = cells.shares if of == "student" else cells.majority
    return shares.argmax(axis=1) == cells.counts.argmax(axis=1)
