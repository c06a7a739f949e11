"""How often a student agrees with the private labels, estimated from the released noisy counts.

s[k, j] is the share of the public rows of cell k of which a student, taught without that cell, says class j; c[k, j]
are the private counts, released as Y = c + Z with Gaussian noise. The estimate is that of the sum of s c / n, the
printed lower end that of an interval that holds whatever the student does within a cell.

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
    """What students say of cells, or of single queries, that they were not taught.

    Parameters
    ----------
    counts : array of float, shape (held-out queries, classes)
        What was released there: noisy counts, or one vote for a released label.
    said : array of int, shape (2, held-out queries, classes)
        Public rows of each cell, cut in two halves at random, that the student says each class of.
    frequent : int
        The class that is most frequent in all that was released.
    complete : bool
        Whether all released queries are among them.
    of_queries : array of int, shape (held-out queries, classes), optional
        The part of `said[0]` that is of the queries themselves. A cell is made around its query, so the query is not a
        draw like the records of the cell, and the lower bound leaves it out.
    students : int, default 1
        How many students were compared on what was held out: the best of them may be the luckiest.
    beliefs : array of float, shape (held-out queries, classes), optional
        The mean probabilities of the rows of each cell; None for students without any.
    """

    counts: FloatArray
    said: IntArray
    frequent: int
    complete: bool
    of_queries: IntArray | None = None
    students: int = 1
    beliefs: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.said.shape != (2, *self.counts.shape) or (self.said < 0).any() or not (self.sizes > 0).all():
            raise InvalidInput(f"said must be rows of each cell by half and class, got shape {self.said.shape}.")

    @property
    def sizes(self) -> IntArray:
        """Public rows of each cell."""
        return self.said.sum(axis=(0, 2))

    @property
    def shares(self) -> FloatArray:
        """The share of the public rows of each cell that the student says each class of."""
        return self.said.sum(axis=0) / self.sizes[:, None]

    @property
    def majority(self) -> FloatArray:
        """The same for one that always says the most frequent class."""
        return np.eye(self.counts.shape[1])[np.full(len(self.counts), self.frequent)]

    def always(self, label: int) -> "HeldOut":
        """The same with another class in the place of the most frequent one, which the noise may have chosen."""
        return self if label == self.frequent else replace(self, frequent=label, complete=False)


def with_private_labels(held: HeldOut, *, of: Of, sigma2: float, votes: int | None, counted: str) -> Agreement | None:
    """How often the student (or the majority class) agrees with the private labels.

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
    shares = held.shares if of == "student" else held.majority
    known = votes if held.complete else None
    draws = 1 + held.sizes.sum() / max(votes or np.inf, 1)
    sampled = _sampling(held, shares, sigma2) * draws
    tails = _tails(held) if of == "majority" else _TWO_SIDED
    found = share_of_votes(held.counts, shares, sigma2=sigma2, votes=known, beside=sampled, tails=tails)
    if found is None:
        return None
    share, sd, low, high = found
    if of == "student":
        weights, drawn = _lower_bound(held)
        end = share_of_votes(held.counts, weights, sigma2=sigma2, votes=known, beside=drawn * draws)
        if end is None:
            return None
        low, high = min(end[2], share), 1.0
    return Agreement(of=of, against="private labels", counted=counted, share=share, sd=sd, low=low, high=high)


def _tails(held: HeldOut) -> tuple[float, float]:
    """The tails at both ends of the interval of the majority class, which is chosen by the same noise."""
    classes, miss = held.counts.shape[1], 1 - CONFIDENCE
    if classes == 2:
        return _TWO_SIDED
    return (miss / classes, miss - miss / classes) if held.complete else (miss / (2 * classes), miss / (2 * classes))


def better_than_majority(held: HeldOut, *, sigma2: float) -> bool:
    """Whether the student agrees with the private labels more often than the majority class, beyond the noise.

    One-sided at `CONFIDENCE`, whatever the student's errors within a cell are: the lower bound must exceed the
    majority.
    """
    weights, drawn = _lower_bound(held)
    difference = weights - held.majority
    variance = positive("sigma2", sigma2) ** 2 * float(np.square(difference).sum()) + drawn
    return float((difference * held.counts).sum()) > float(stats.norm.ppf(CONFIDENCE)) * float(np.sqrt(variance))


def gained(held: HeldOut) -> float:
    """By how many held-out votes the student is ahead of the majority class: an estimate, which may be noise."""
    return float(((held.shares - held.majority) * held.counts).sum())


def noise_of_gain(held: HeldOut, sigma2: float | None) -> float:
    """The standard deviation of `gained`, as a share of the held-out votes. sigma2: None for released answers."""
    difference = held.shares - held.majority
    change = (difference * held.counts).sum(axis=1) if sigma2 is None else sigma2 * difference
    return float(np.sqrt(np.square(change).sum())) / max(float(held.counts.sum()), 1.0)


def _lower_bound(held: HeldOut) -> tuple[FloatArray, float]:
    """(weights on the counts whose sum bounds the agreement below, the variance of that sum for drawing public rows).

    The bound of a cell is that of the class which the student says of most rows there: of the rows of one half, where
    the other half and the query, which are not measured there, choose the class.
    """
    queries = np.zeros_like(held.counts, np.int64) if held.of_queries is None else held.of_queries
    said = np.stack([held.said[0] - queries, held.said[1]])
    rows = said.sum(axis=2)
    # Of a cell without other rows nothing is known: its weights stay 0.
    weights, drawn = np.zeros_like(held.counts), np.zeros(len(held.counts))
    for half in (0, 1):
        s = said[half] / np.maximum(rows[half], 1)[:, None]
        others = said[1 - half] + queries
        v = (2 * others > others.sum(axis=1, keepdims=True)).astype(np.float64)
        part = (rows[half] / np.maximum(rows.sum(axis=0), 1))[:, None]
        weights += part * (v + (v * (s - 1)).sum(axis=1, keepdims=True))
        drawn += part[:, 0] * np.sqrt(_variance(v, s, rows[half]) / np.maximum(rows[half], 1))
    return weights, float((np.square(held.counts.sum(axis=1)) * np.square(drawn)).sum())


def _variance(chosen: FloatArray, s: FloatArray, rows: IntArray) -> FloatArray:
    """The variance, among the rows of a cell, of whether the class that is said of a row was chosen."""
    mean = (chosen * s).sum(axis=1)
    several = rows > 1
    if not several.any():
        return np.full(len(mean), 0.25)
    spread = mean * (1 - mean) * rows / np.maximum(rows - 1, 1)
    # One row shows no variance; such a cell is taken to be as mixed as others.
    return np.where(several, spread, spread[several].mean())


def with_released_answers(held: HeldOut, *, of: Of) -> Agreement:
    """How often the student (or the majority class) says the label that was released for a query it was not taught.

    Wilson's interval, as if such queries were drawn at random; the student's low end holds for every student that was
    compared (Bonferroni). Not an accuracy: released answers are what teachers agree on, with noise, on the public rows
    that were asked about.
    """
    right = _right(held, of)
    counted = stats.binomtest(int(right.sum()), len(right))
    compared = held.students if of == "student" else 1
    low = counted.proportion_ci(1 - (1 - CONFIDENCE) / compared, method="wilson").low
    high = counted.proportion_ci(CONFIDENCE, method="wilson").high
    share = float(right.mean())
    return Agreement(
        of=of,
        against="held-out released answers",
        counted="answered queries",
        share=share,
        sd=float(np.sqrt(share * (1 - share) / len(right))),
        low=float(low),
        high=float(high),
    )


def better_than_majority_of_answers(held: HeldOut) -> bool:
    """Whether the student says more held-out released labels than the majority class: McNemar's exact test."""
    student, majority = _right(held, "student"), _right(held, "majority")
    gained, lost = int((student & ~majority).sum()), int((majority & ~student).sum())
    if gained <= lost:
        return False
    return bool(stats.binomtest(gained, gained + lost, alternative="greater").pvalue < 1 - CONFIDENCE)


def _right(held: HeldOut, of: Of) -> NDArray[np.bool_]:
    shares = held.shares if of == "student" else held.majority
    return shares.argmax(axis=1) == held.counts.argmax(axis=1)


def share_of_votes(
    counts: FloatArray,
    weights: FloatArray,
    *,
    sigma2: float,
    votes: int | None,
    beside: float,
    tails: tuple[float, float] = _TWO_SIDED,
) -> tuple[float, float, float, float] | None:
    """(estimate, sd, low, high) of the sum of weights times counts per vote.

    beside: further variance of that sum. tails: with what probability `low` and `high` miss.
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
    """Both ends of Fieller's interval at z standard deviations; None where it is not bounded."""
    total, weighted = float(counts.sum()), float((weights * counts).sum())
    variance = (z * sigma2) ** 2
    square = total**2 - variance * weights.size
    if square <= 0:
        return None
    middle = (weighted * total - variance * float(weights.sum())) / square
    constant = (weighted**2 - variance * float(np.square(weights).sum()) - z**2 * beside) / square
    half = float(np.sqrt(max(middle**2 - constant, 0.0)))
    return middle - half, middle + half


def _sampling(held: HeldOut, shares: FloatArray, sigma2: float) -> float:
    """The variance of the sum of shares times counts for the public rows being a draw, estimated without the noise."""
    mean = (shares * held.counts).sum(axis=1)
    within = (shares * np.square(held.counts)).sum(axis=1) - np.square(mean)
    within -= sigma2**2 * (1 - np.square(shares).sum(axis=1))
    several = held.sizes > 1
    if not several.any():
        return 0.0
    spread = np.empty(len(within))
    spread[several] = within[several] * held.sizes[several] / (held.sizes[several] - 1)
    # Of one row nothing shows; such a cell is taken to be as mixed as others.
    spread[~several] = spread[several].mean()
    return max(float((spread / np.maximum(held.sizes, 1)).sum()), 0.0)
