"""How often a student agrees with the private labels, estimated from the released noisy counts.

s[k, j] is the share of the public rows of cell k for which a student, fitted without that cell, predicts class j;
c[k, j] are the private counts, released as Y = c + Z with Gaussian noise. The sum of s c / n is estimated; the printed
lower end is that of an interval that is valid whatever the student does within a cell.

Assumption: within a cell, public rows and private records are draws of one law. The released student is taken to be at
least as good as those of the folds.

Guarantee: a function of released counts, public rows and public parameters, so it costs no privacy of its own.
Source: docs/mathematics.md O.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ostrakon.accounting.estimates import CONFIDENCE, Agreement, Of
from ostrakon.validation import InvalidInput, positive
from ostrakon.votes import FloatArray, IntArray

_TWO_SIDED = (1 - CONFIDENCE) / 2, (1 - CONFIDENCE) / 2
"""Probability with which the lower and the upper end of an interval miss."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """Predictions of students for cells, or single queries, that were held out from their training data.

    Parameters
    ----------
    counts : array of float, shape (held-out queries, classes)
        What was released there: noisy counts, or one vote for a released label.
    predicted : array of int, shape (2, held-out queries, classes)
        Number of public rows in each random half of a cell for which the student predicts each class.
    frequent : int
        The most frequent class of all released answers.
    complete : bool
        Whether all released queries were held out.
    query_predictions : array of int, shape (held-out queries, classes), optional
        The part of `predicted[0]` that counts the queries themselves. A cell is built around its query, so the query is
        not a draw like the records of the cell, and the lower bound leaves it out.
    students : int, default 1
        Number of students that were compared on these queries: the best of them may be the luckiest.
    mean_proba : array of float, shape (held-out queries, classes), optional
        Mean probabilities of the rows of each cell; None for students without probabilities.
    """

    counts: FloatArray
    predicted: IntArray
    frequent: int
    complete: bool
    query_predictions: IntArray | None = None
    students: int = 1
    mean_proba: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.predicted.shape != (2, *self.counts.shape) or (self.predicted < 0).any() or not (self.sizes > 0).all():
            raise InvalidInput(
                f"predicted must be rows of each cell by half and class, got shape {self.predicted.shape}."
            )

    @property
    def sizes(self) -> IntArray:
        """Number of public rows of each cell."""
        return self.predicted.sum(axis=(0, 2))

    @property
    def shares(self) -> FloatArray:
        """Share of the public rows of each cell for which the student predicts each class."""
        return self.predicted.sum(axis=0) / self.sizes[:, None]

    @property
    def majority(self) -> FloatArray:
        """The same shares if the most frequent class is always predicted."""
        return np.eye(self.counts.shape[1])[np.full(len(self.counts), self.frequent)]

    def always(self, label: int) -> "HeldOut":
        """Return a copy whose majority class is `label`, because the noise may have chosen the most frequent one."""
        return self if label == self.frequent else replace(self, frequent=label, complete=False)


def with_private_labels(cells: HeldOut, *, of: Of, sigma2: float, votes: int | None, counted: str) -> Agreement | None:
    """Estimate how often the student (or the majority class) agrees with the private labels.

    Parameters
    ----------
    held : HeldOut
    of : {"student", "majority"}
    sigma2 : float
        Standard deviation of the noise on the counts, above 0.
    votes : int or None
        Their number, None where it is not public.
    counted : str
        What one of them is, in words.

    Returns
    -------
    Agreement or None
        None where the noise allows no estimate.

    Notes
    -----
    The student's `high` is 1. The interval from `low` to `high` holds the agreement in at least 95% of runs, whatever
    the student's errors within a cell are, if public and private rows are alike within cells. `share` is the agreement
    if they were at random there. That of the majority is too high on average where several classes are about as
    frequent, because the largest noisy sum is chosen; its interval allows for that.
    """
    sigma2 = positive("sigma2", sigma2)
    shares = cells.shares if of == "student" else cells.majority
    public_votes = votes if cells.complete else None
    draws = 1 + cells.sizes.sum() / max(votes or np.inf, 1)
    variance = _sampling(cells, shares, sigma2) * draws
    tails = _tails(cells) if of == "majority" else _TWO_SIDED
    estimate = share_of_votes(cells.counts, shares, sigma2=sigma2, votes=public_votes, beside=variance, tails=tails)
    if estimate is None:
        return None
    share, sd, low, high = estimate
    if of == "student":
        weights, spread = _lower_bound(cells)
        bound = share_of_votes(cells.counts, weights, sigma2=sigma2, votes=public_votes, beside=spread * draws)
        if bound is None:
            return None
        low, high = min(bound[2], share), 1.0
    return Agreement(of=of, against="private labels", counted=counted, share=share, sd=sd, low=low, high=high)


def _tails(cells: HeldOut) -> tuple[float, float]:
    """Return both tails of the interval of the majority class, which the same noise chose."""
    classes, miss = cells.counts.shape[1], 1 - CONFIDENCE
    if classes == 2:
        return _TWO_SIDED
    return (miss / classes, miss - miss / classes) if cells.complete else (miss / (2 * classes), miss / (2 * classes))


def better_than_majority(cells: HeldOut, *, sigma2: float) -> bool:
    """Return whether the student agrees with the private labels more often than the majority class, beyond the noise.

    One-sided at `CONFIDENCE`, whatever the student's errors within a cell are: the lower bound must exceed the
    majority.
    """
    weights, sampling_variance = _lower_bound(cells)
    difference = weights - cells.majority
    variance = positive("sigma2", sigma2) ** 2 * float(np.square(difference).sum()) + sampling_variance
    return float((difference * cells.counts).sum()) > float(stats.norm.ppf(CONFIDENCE)) * float(np.sqrt(variance))


def gained(cells: HeldOut) -> float:
    """Estimate how many held-out votes more the student predicts than the majority class."""
    return float(((cells.shares - cells.majority) * cells.counts).sum())


def noise_of_gain(cells: HeldOut, sigma2: float | None) -> float:
    """Return the standard deviation of `gained` as a share of held-out votes. sigma2: None for released answers."""
    difference = cells.shares - cells.majority
    change = (difference * cells.counts).sum(axis=1) if sigma2 is None else sigma2 * difference
    return float(np.sqrt(np.square(change).sum())) / max(float(cells.counts.sum()), 1.0)


def _lower_bound(cells: HeldOut) -> tuple[FloatArray, float]:
    """Return (weights on the counts whose sum bounds the agreement below, its variance from sampling public rows).

    The bound of a cell uses the class that the student predicts for most of its rows. For the rows of one half, the
    other half and the query choose the class.
    """
    queries = np.zeros_like(cells.counts, np.int64) if cells.query_predictions is None else cells.query_predictions
    predicted = np.stack([cells.predicted[0] - queries, cells.predicted[1]])
    rows = predicted.sum(axis=2)
    # Cells without other rows keep weights of 0.
    weights, deviation = np.zeros_like(cells.counts), np.zeros(len(cells.counts))
    for half in (0, 1):
        shares = predicted[half] / np.maximum(rows[half], 1)[:, None]
        others = predicted[1 - half] + queries
        chosen = (2 * others > others.sum(axis=1, keepdims=True)).astype(np.float64)
        half_share = (rows[half] / np.maximum(rows.sum(axis=0), 1))[:, None]
        weights += half_share * (chosen + (chosen * (shares - 1)).sum(axis=1, keepdims=True))
        deviation += half_share[:, 0] * np.sqrt(_variance(chosen, shares, rows[half]) / np.maximum(rows[half], 1))
    return weights, float((np.square(cells.counts.sum(axis=1)) * np.square(deviation)).sum())


def _variance(chosen: FloatArray, s: FloatArray, rows: IntArray) -> FloatArray:
    """Return the variance, among the rows of a cell, of whether the predicted class is the chosen one."""
    mean = (chosen * s).sum(axis=1)
    several = rows > 1
    if not several.any():
        return np.full(len(mean), 0.25)
    spread = mean * (1 - mean) * rows / np.maximum(rows - 1, 1)
    # Cells with one row get the mean variance of the others.
    return np.where(several, spread, spread[several].mean())


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


def share_of_votes(
    counts: FloatArray,
    weights: FloatArray,
    *,
    sigma2: float,
    votes: int | None,
    beside: float,
    tails: tuple[float, float] = _TWO_SIDED,
) -> tuple[float, float, float, float] | None:
    """Return (estimate, sd, low, high) of the sum of weights times counts per vote.

    beside: variance of that sum from other sources than the noise. tails: probabilities that `low` and `high` miss.
    """
    below, above = (float(z) for z in stats.norm.isf(tails))
    if votes is not None:
        middle = float(weights.mean())
        sd = float(np.sqrt(sigma2**2 * np.square(weights - middle).sum() + beside)) / votes
        share = middle + float(((weights - middle) * counts).sum()) / votes
        low, high = share - below * sd, share + above * sd
    else:
        total = float(counts.sum())
        ends = [_fieller(counts, weights, sigma2=sigma2, beside=beside, z=z) for z in (below, above)]
        if total <= 0 or ends[0] is None or ends[1] is None:
            return None
        share = float((weights * counts).sum()) / total
        sd = float(np.sqrt(sigma2**2 * np.square(weights - share).sum() + beside)) / total
        low, high = ends[0][0], ends[1][1]
    share, low, high = np.clip([share, low, high], 0.0, 1.0).tolist()
    return share, sd, low, high


def _fieller(
    counts: FloatArray, weights: FloatArray, *, sigma2: float, beside: float, z: float
) -> tuple[float, float] | None:
    """Return both ends of Fieller's interval at z standard deviations; None if it is unbounded."""
    total, weighted = float(counts.sum()), float((weights * counts).sum())
    variance = (z * sigma2) ** 2
    square = total**2 - variance * weights.size
    if square <= 0:
        return None
    middle = (weighted * total - variance * float(weights.sum())) / square
    constant = (weighted**2 - variance * float(np.square(weights).sum()) - z**2 * beside) / square
    half = float(np.sqrt(max(middle**2 - constant, 0.0)))
    return middle - half, middle + half


def _sampling(cells: HeldOut, shares: FloatArray, sigma2: float) -> float:
    """Estimate the variance of the sum of shares times counts from sampling public rows, without the noise."""
    mean = (shares * cells.counts).sum(axis=1)
    within = (shares * np.square(cells.counts)).sum(axis=1) - np.square(mean)
    within -= sigma2**2 * (1 - np.square(shares).sum(axis=1))
    several = cells.sizes > 1
    if not several.any():
        return 0.0
    spread = np.empty(len(within))
    spread[several] = within[several] * cells.sizes[several] / (cells.sizes[several] - 1)
    # Cells with one row get the mean variance of the others.
    spread[~several] = spread[several].mean()
    return max(float((spread / np.maximum(cells.sizes, 1)).sum()), 0.0)
