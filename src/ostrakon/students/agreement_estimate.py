"""How often a student agrees with the private labels, estimated from the released noisy counts.

Setting. Every private record speaks once: for its class, in the cell of the public query nearest to it. c[k, j] are
the counts of cell k and class j, released as Y = c + Z with independent Gaussian noise Z of standard deviation sigma.
A student that was taught without cell k says class j on the share s[k, j] of the M[k] public rows of that cell.

Estimand. The agreement by cell, A = sum over k, j of s[k, j] c[k, j], divided by n = sum of c.

Estimator, n known. For any fixed t, sum of (s - t) Y / n + t has the mean A: Z has mean 0 and is independent of s,
which rests on the counts of other cells (cross-validation). Its variance is sigma^2 sum of (s - t)^2 / n^2, least at
t = the mean of s = 1 / classes. So a known n makes the noise sd sigma sqrt(K (1 - 1 / classes)) / n for K cells in each
of which the student says one class, where without it (t = 0) it would be sigma sqrt(K) / n.

Estimator, n unknown (some cells only, or users who speak up to r times each, in r cells). The ratio of sum of s Y to
sum of Y, with Fieller's interval: all a for which |sum of (s - a) Y| <= z sigma sqrt(sum of (s - a)^2). At a = A the
left side is Gaussian of just that standard deviation, whatever n is: it covers even where n is small.
What it is a share of is then votes: a user's vote in a cell is the class that most of its rows there have.

Folds share their noise (each is held out once and teaches the others), so errors of two folds are not independent; they
are uncorrelated but for the product of two dependences, each through a student. The simulation of
`benchmarks/estimates.py` shows what that costs.

Public rows as a sample. s is seen on M[k] rows. Where the private rows of a cell are another draw of the same kind, the
share among them differs by chance; the variance of c[k, said of a row] over the rows of the cell, its noise taken away,
divided by M[k], is added up over cells, times 1 + (all M) / n for the private draw itself.

Bias. A cell is not pure. The agreement itself is A plus the sum over cells of n[k] / n times the covariance, within the
cell, of what is said and what is true, summed over classes. It is 0 where the student says one class in the cell, above
0 where it tells the rows of a cell apart better than by chance (so A is then low), and never beyond n[k] / n times
1 - sum of s[k, j]^2 either way, because for each class min(s, p) - s p <= s (1 - s) whatever the share p of the label.
That sum is estimated from the same counts; `at_most` is the upper end with it. A student that is taught all cells is,
besides, rather better than those of the folds.

Guarantee: a function of released counts, public rows and public parameters, so it costs no privacy of its own.
Source: control variates and Fieller 1954 for ratios; Frechet 1951 for the bounds on a cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ostrakon.accounting.estimates import CONFIDENCE, Agreement, Of
from ostrakon.validation import InvalidInput, positive

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_Z = float(stats.norm.ppf((1 + CONFIDENCE) / 2))


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """What students said of cells, or single queries, that they had not been taught.

    counts: what was released there, (held, classes): noisy, or one vote for a released label. shares: the share of the
    public rows of each that the student says each class of, (held, classes), rows of sum 1. majority: the same for the
    class that is most frequent in all that was released. sizes: public rows of each, (held,). complete: whether all
    that was released is among them.
    """

    counts: FloatArray
    shares: FloatArray
    majority: FloatArray
    sizes: IntArray
    complete: bool

    def __post_init__(self) -> None:
        for given in (self.shares, self.majority):
            if given.shape != self.counts.shape or not np.allclose(given.sum(axis=1), 1):
                raise InvalidInput(f"shares must be rows of sum 1 of shape {self.counts.shape}, got {given.shape}.")


def with_private_labels(held: HeldOut, *, of: Of, sigma2: float, votes: int | None, counted: str) -> Agreement | None:
    """How often the student (or the majority class) agrees with the private labels.

    sigma2: noise of the counts. votes: how many there are in all, None where that is not public. counted: what each of
    them is, in words. None where the noise allows no estimate.
    """
    sigma2 = positive("sigma2", sigma2)
    shares = held.shares if of == "student" else held.majority
    known = votes if held.complete else None
    sampled = _sampling(held, shares, sigma2) * (1 + held.sizes.sum() / max(votes or np.inf, 1))
    found = _share(held.counts, shares, sigma2=sigma2, votes=known, beside=sampled)
    mixed = shares + (1 - np.square(shares).sum(axis=1, keepdims=True))
    beyond = _share(held.counts, mixed, sigma2=sigma2, votes=known, beside=sampled)
    if found is None or beyond is None:
        return None
    share, sd, low, high = found
    return Agreement(
        of=of, against="private labels", counted=counted, share=share, sd=sd, low=low, high=high, at_most=beyond[3]
    )


def better_than_majority(held: HeldOut, *, sigma2: float) -> bool:
    """Whether the student agrees with the private labels more often than the majority class does, beyond the noise.

    One-sided at `CONFIDENCE`: the difference of shares times the counts must exceed what noise alone gives.
    """
    difference = held.shares - held.majority
    noise = sigma2 * float(np.sqrt(np.square(difference).sum()))
    return float((difference * held.counts).sum()) > float(stats.norm.ppf(CONFIDENCE)) * noise


def with_released_answers(held: HeldOut, *, of: Of) -> Agreement:
    """How often the student (or the majority class) says the label that was released for a query it was not taught.

    Wilson's interval, as if such queries were drawn at random. Not an accuracy: released answers are what teachers
    agree on, with noise, on the public rows that were asked about.
    """
    right = _right(held, of)
    found = stats.binomtest(int(right.sum()), len(right)).proportion_ci(CONFIDENCE, method="wilson")
    share = float(right.mean())
    return Agreement(
        of=of,
        against="held-out released answers",
        counted="answered queries",
        share=share,
        sd=float(np.sqrt(share * (1 - share) / len(right))),
        low=float(found.low),
        high=float(found.high),
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


def _share(
    counts: FloatArray, weights: FloatArray, *, sigma2: float, votes: int | None, beside: float
) -> tuple[float, float, float, float] | None:
    """(estimate, sd, low, high) of the sum of weights times counts per vote. beside: further variance of that sum."""
    if votes is not None:
        middle = float(weights.mean())
        sd = float(np.sqrt(sigma2**2 * np.square(weights - middle).sum() + beside)) / votes
        share = middle + float(((weights - middle) * counts).sum()) / votes
        low, high = share - _Z * sd, share + _Z * sd
    else:
        total, heard = float(counts.sum()), float((weights * counts).sum())
        variance = (_Z * sigma2) ** 2
        square = total**2 - variance * weights.size
        if total <= 0 or square <= 0:
            return None
        middle = (heard * total - variance * float(weights.sum())) / square
        constant = (heard**2 - variance * float(np.square(weights).sum()) - _Z**2 * beside) / square
        half = float(np.sqrt(max(middle**2 - constant, 0.0)))
        share = heard / total
        sd = float(np.sqrt(sigma2**2 * np.square(weights - share).sum() + beside)) / total
        low, high = middle - half, middle + half
    kept = np.clip([share, low, high], 0.0, 1.0).tolist()
    return kept[0], sd, kept[1], kept[2]


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
