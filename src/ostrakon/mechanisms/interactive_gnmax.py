"""Interactive-GNMax: ask for a label only if the teachers, with noise, contradict the student."""

import hashlib
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from ostrakon.mechanisms.base import (
    NO_ANSWER,
    FloatArray,
    Mechanism,
    NoisyArgmax,
    Parameter,
    Threshold,
    ThresholdSigma,
    ThresholdTest,
    VoteSigma,
)
from ostrakon.mechanisms.laws.gaussian import gaussian_argmax_log_probabilities
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, fraction
from ostrakon.votes import IntArray, Votes


def _scores(name: str, value: ArrayLike) -> FloatArray:
    return require_scores(value)


@dataclass(frozen=True, kw_only=True, eq=False)
class InteractiveGNMax(Mechanism):
    """If max_j (n_j - N p_j) + N(0, sigma1^2) >= threshold, argmax_j (n_j + N(0, sigma2^2)); else no answer.

    Parameters
    ----------
    threshold : float
        T, in votes; finite.
    sigma1 : float
        Standard deviation of the check's noise, in votes; above 0.
    sigma2 : float
        Standard deviation of the vote noise, in votes; above 0.
    scores : array of float, shape (queries, classes)
        The student's class probabilities p, one row per query of the votes. They must be public: from a student trained
        on public data and released labels only.

    Raises
    ------
    InvalidInput
        If a threshold, sigma or score is out of range, or votes do not have the shape of scores.

    Notes
    -----
    Guarantee: p is public and is not rounded, so moving one vote changes max_j (n_j - N p_j) by at most 1 and the
    histogram by sqrt(2). The cost is that of Confident-GNMax, `order / (2 sigma1^2) + order / sigma2^2`. (Rounding N
    p_j half to even, as the published 2018 accountant does, would make the sensitivity 2.) The student's own label may
    reinforce a refused query at no further cost: see `reinforce`.

    References
    ----------
    pate-2018, Algorithm 2; docs/mathematics.md G.

    Examples
    --------
    >>> InteractiveGNMax(threshold=20, sigma1=15, sigma2=4, scores=[[0.5, 0.5]]).fixed_queries
    1
    """

    name: ClassVar[str] = "interactive-gnmax"

    threshold: Threshold
    sigma1: ThresholdSigma
    sigma2: VoteSigma
    scores: Annotated[FloatArray, Parameter(help="The student's class probabilities.", check=_scores, option=False)]

    @property
    def vote_noise(self) -> float:
        return self.sigma2

    def check_scores(self, votes: Votes) -> FloatArray:
        """Return n_j - N p_j, whose maximum is checked; shape (queries, classes)."""
        self.require_votes(votes)
        return votes.counts - votes.teachers * self.scores

    def require_votes(self, votes: Votes) -> None:
        """Refuse votes of another shape than the scores."""
        if self.scores.shape != votes.counts.shape:
            raise InvalidInput(
                f"scores must have one row per query and one column per class, {votes.counts.shape}, "
                f"got {self.scores.shape}."
            )

    @property
    def fixed_queries(self) -> int:
        """The number of rows of scores."""
        return len(self.scores)

    def for_queries(self, rows: NDArray[np.intp]) -> "InteractiveGNMax":
        """Return the same mechanism for the chosen queries, in their order; for `votes[rows]`."""
        return type(self)(
            threshold=self.threshold, sigma1=self.sigma1, sigma2=self.sigma2, scores=np.atleast_2d(self.scores[rows])
        )

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        top = self.check_scores(votes).max(axis=1)
        check = top + require_rng(rng).normal(scale=self.sigma1, size=votes.queries)
        labels = (votes.counts + rng.normal(scale=self.sigma2, size=votes.counts.shape)).argmax(axis=1)
        return np.where(check >= self.threshold, labels, NO_ANSWER)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        labels = gaussian_argmax_log_probabilities(votes.counts.astype(np.float64), self.sigma2)
        margin = (self.check_scores(votes).max(axis=1) - self.threshold) / self.sigma1
        return np.column_stack([labels + log_ndtr(margin)[:, None], log_ndtr(-margin)])

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax:
        threshold_test = ThresholdTest(
            threshold=self.threshold, noise="gaussian", scale=self.sigma1, offsets=votes.teachers * self.scores
        )
        return NoisyArgmax(noise="gaussian", scale=self.sigma2, threshold_test=threshold_test)

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return orders / (2 * self.sigma1**2) + orders / self.sigma2**2

    def gaussian_dp(self) -> tuple[float, float]:
        return 1 / self.sigma1, math.sqrt(2) / self.sigma2

    def parameters(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "sigma1": self.sigma1,
            "sigma2": self.sigma2,
            "scores": f"{self.scores.shape[0]} x {self.scores.shape[1]} student probabilities, sha256 {self._digest}",
        }

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self.scores.tobytes()).hexdigest()[:16]

    def _key(self) -> tuple[float, float, float, tuple[int, ...], bytes]:
        return self.threshold, self.sigma1, self.sigma2, self.scores.shape, self.scores.tobytes()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"InteractiveGNMax(threshold={self.threshold}, sigma1={self.sigma1}, sigma2={self.sigma2}, "
            f"scores=<{self.scores.shape[0]} x {self.scores.shape[1]}, sha256 {self._digest}>)"
        )

    def __reduce__(self) -> Any:
        # Pickle through the constructor, so that a copy's scores are checked and read-only again.
        return _rebuild, (self.threshold, self.sigma1, self.sigma2, np.array(self.scores))


def reinforce(answers: IntArray, scores: ArrayLike, *, confidence: float) -> IntArray:
    """Give a refused query the student's own label if the student is confident: Algorithm 2's last step.

    answers: shape (queries,), -1 if refused. scores: student probabilities, shape (queries, classes). confidence: gamma
    of Algorithm 2, in (0, 1): a student's label is used if its probability exceeds it.
    Guarantee: a function of the released answers and of public scores, so it costs nothing more.
    Source: pate-2018, Algorithm 2, lines 4 to 7.

    >>> reinforce(np.array([-1, -1, 1]), [[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]], confidence=0.8).tolist()
    [0, -1, 1]
    """
    p = require_scores(scores)
    given = np.asarray(answers)
    if given.shape != p.shape[:1] or given.dtype.kind not in "iu":
        raise InvalidInput(
            f"answers must be integers, one per row of scores ({len(p)}), got {given.dtype} {given.shape}."
        )
    sure = (given == NO_ANSWER) & (p.max(axis=1) > fraction("confidence", confidence))
    return np.where(sure, p.argmax(axis=1), given).astype(np.int64)


def require_scores(scores: ArrayLike) -> FloatArray:
    """Return `scores` as a read-only float array, refused unless rows of at least two probabilities that sum to 1."""
    try:
        array = np.array(scores)
    except ValueError:
        raise InvalidInput("scores must be a rectangular array, got rows of different lengths.") from None
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype.kind not in "iuf":
        raise InvalidInput(
            f"scores must be numbers of shape (queries, classes), at least 2 classes, got {array.dtype} {array.shape}."
        )
    array = array.astype(np.float64)
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise InvalidInput(f"scores must be probabilities from 0 to 1, got {array[bad][0]}.")
    # The tolerance admits probabilities in single precision over a thousand classes.
    sums = array.sum(axis=1)
    wrong = np.flatnonzero(~(np.abs(sums - 1) <= 1e-3))
    if len(wrong):
        raise InvalidInput(f"scores must sum to 1 in every row; row {wrong[0]} sums to {sums[wrong[0]]}.")
    array.setflags(write=False)
    return array


def _rebuild(threshold: float, sigma1: float, sigma2: float, scores: FloatArray) -> InteractiveGNMax:
    return InteractiveGNMax(threshold=threshold, sigma1=sigma1, sigma2=sigma2, scores=scores)
