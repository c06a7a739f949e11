"""Sets of labels that contain the right one with a stated probability: thresholds from the released answers.

A set holds the student's label and every class whose probability is at least a threshold. Students that were fitted
without a cell predict the sets of its public rows: m[k, j] is the share of the rows of cell k whose
set holds class j. With the private counts c[k, j], the share of records whose set holds their label is the sum of
m c / n. It is linear in the counts, so the noise of its estimate is known. The threshold is the largest one up to which
a lower bound of that share, at 95% confidence, is at least the coverage; with the threshold 0 a set holds all classes.

Assumption: within a cell, public rows and private records are alike, and sets hold the label of a record no less often
than if labels were shuffled within the cell. The released student is taken to be at least as good as those of the
folds.

Guarantee: a function of released numbers and public rows, so it costs no privacy.
Source: Sadinle et al. 2019 (least ambiguous sets), Bates et al. 2021 (thresholds by a bound on the risk).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from ostrakon.accounting.estimates import CONFIDENCE
from ostrakon.votes import FloatArray, IntArray

COVERAGES = (0.8, 0.9, 0.95)
"""Coverages that are offered."""
_TRIED: tuple[float, ...] = tuple(np.geomspace(1e-3, 0.5, 40).tolist())
"""Thresholds, in the order in which they are tried. Above one half only the student's own label is in a set."""


@dataclass(frozen=True, kw_only=True)
class PredictionSets:
    """Thresholds that turn the probabilities of a student into sets of labels.

    Parameters
    ----------
    thresholds : dict of float to float
        For each coverage, the smallest probability of a class in a set; 0 if only sets of all classes have the
        coverage.
    sizes : dict of float to float
        The mean number of labels in a set of a public row.
    of : str
        What is covered, in words, such as "private records".
    """

    thresholds: dict[float, float]
    sizes: dict[float, float]
    of: str

    def in_words(self) -> str:
        """Describe the sets: their coverage, their sizes and how both were estimated.

        >>> sets = PredictionSets(thresholds={0.8: 0.4, 0.9: 0.0}, sizes={0.8: 1.2, 0.9: 2}, of="private records")
        >>> sets.in_words().split(". ")[1]
        'Mean number of labels in a set: 1.20 at coverage 0.8, all at 0.9'
        """
        sizes = [f"{self.sizes[at]:.2f}" if least else "all" for at, least in self.thresholds.items()]
        numbers = ", ".join(
            f"{size} at {'coverage ' if not number else ''}{coverage:g}"
            for number, (coverage, size) in enumerate(zip(self.thresholds, sizes, strict=True))
        )
        whose = "users" if "users" in self.of else "records"
        return (
            "`predict_sets(rows, coverage=0.9)` gives every row a set of labels; for at least 90% of the "
            f"{self.of}, the right label is in it. Mean number of labels in a set: {numbers}. The coverage was "
            f"estimated from released counts that the student did not learn from: it is right in {CONFIDENCE:.0%} of "
            "runs, if public and private rows with similar features are alike. It is a mean over all "
            f"{whose}: few or none of a rare class may be covered."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class UntaughtRows:
    """Predictions of students for public rows of cells that were held out from their training data.

    Parameters
    ----------
    likely : array of float, shape (rows, classes)
        Probabilities.
    labels : array of int, shape (rows,)
        Their labels.
    own : array of int, shape (rows,)
        The cell of each row, an index into `counts`.
    counts : array of float, shape (cells, classes)
        What was released. Cells without rows here do not matter.
    sigma2 : float
        Standard deviation of the noise on each count.
    """

    proba: FloatArray
    labels: IntArray
    cell_index: IntArray
    counts: FloatArray
    sigma2: float


def in_sets(proba: FloatArray, labels: IntArray, threshold: float) -> NDArray[np.bool_]:
    """Return whether each class is in the set of each row, (rows, classes).

    >>> in_sets(np.array([[0.7, 0.2, 0.1]]), np.array([0]), 0.15).tolist()
    [[True, True, False]]
    """
    inside = proba >= threshold
    inside[np.arange(len(inside)), labels] = True
    return inside


def thresholds_of(
    rows: UntaughtRows, *, votes: int | None, coverages: Sequence[float] = COVERAGES
) -> dict[float, float]:
    """Return the largest threshold for each coverage.

    Parameters
    ----------
    rows : UntaughtRows
    votes : int or None
        Number of votes in all cells; None if it is not public.
    coverages : sequence of float

    Notes
    -----
    Thresholds are tried from 0 on, until the first one with a bound below the coverage. So the probability of taking
    one that is too large is at most 5%, although many are tried.
    """
    chosen: dict[float, float] = dict.fromkeys(coverages, 0.0)
    passing = set(coverages)
    for threshold in _TRIED:
        bound = _covered(rows, in_sets(rows.proba, rows.labels, threshold), votes)
        passing = {coverage for coverage in passing if bound >= coverage}
        if not passing:
            break
        chosen |= dict.fromkeys(passing, threshold)
    return chosen


def _covered(rows: UntaughtRows, inside: NDArray[np.bool_], votes: int | None) -> float:
    """Return a lower bound of the share of votes for classes in the sets of the rows of their cell."""
    cells, index = np.unique(rows.cell_index, return_inverse=True)
    counts, members = rows.counts[cells], np.bincount(index)
    mean = sparse.csr_array((1 / members[index], (index, np.arange(len(index)))), shape=(len(cells), len(index)))
    weights = mean @ inside.astype(np.float64)
    sampling = _sampling_variance(mean, inside, weights, counts[index], rows.sigma2)
    left_out = 1 - len(cells) / len(rows.counts)
    public_votes = None if left_out else votes
    total = max(float(counts.sum()), 1.0) if public_votes is None else float(public_votes)
    share = min(max(float((weights * counts).sum()) / total, 0.5), 1.0)
    # Private records are a sample, and so are the cells.
    sampling += total * share * (1 - share) + left_out * float(
        np.square(((weights - share) * counts).sum(axis=1)).sum()
    )
    tails = 1 - CONFIDENCE, 1 - CONFIDENCE
    bound = share_of_votes(counts, weights, sigma2=rows.sigma2, votes=public_votes, beside=sampling, tails=tails)
    return 0.0 if bound is None else float(bound[2])


def _sampling_variance(
    mean: sparse.csr_array, inside: NDArray[np.bool_], weights: FloatArray, counts: FloatArray, sigma2: float
) -> float:
    """Return the variance of the sum of weights times counts from sampling the public rows of cells, without the noise.

    mean: matrix of means by cell. counts: of the cell of each row, (rows, classes).
    """
    members = np.diff(mean.indptr)
    covered = (inside * counts).sum(axis=1)
    spread = mean @ np.square(covered) - np.square(mean @ covered) - sigma2**2 * (weights * (1 - weights)).sum(axis=1)
    several = members > 1
    if not several.any():
        return 0.0
    spread[several] *= members[several] / (members[several] - 1)
    # Cells with one row get the mean variance of the others.
    spread[~several] = spread[several].mean()
    return max(float((spread / members).sum()), 0.0)


def share_of_votes(
    counts: FloatArray,
    weights: FloatArray,
    *,
    sigma2: float,
    votes: int | None,
    beside: float,
    tails: tuple[float, float],
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
