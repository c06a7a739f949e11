"""Certified lower bounds on epsilon from counts of an event on two neighbouring data sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from ostrakon.accounting.data_independent.worst_case import worst_case_at
from ostrakon.audit.runs import for_rows
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import InvalidInput, fraction, fraction_or_zero, non_negative, whole
from ostrakon.votes import Votes


def clopper_pearson(hits: ArrayLike, *, samples: int, error: float) -> tuple[FloatArray, FloatArray]:
    """Return exact one-sided bounds on the probability of an event that happened `hits` times.

    Parameters
    ----------
    hits : array-like of int
        From 0 to `samples`.
    samples : int
        Number of independent runs, at least 1.
    error : float
        In (0, 1).

    Returns
    -------
    tuple of two arrays of float, shape of hits
        Lower and upper bounds.

    Raises
    ------
    InvalidInput
        For numbers outside of these ranges.

    Notes
    -----
    Guarantee: each bound fails with probability at most `error`, both together with at most twice that.

    References
    ----------
    Clopper and Pearson 1934.

    Examples
    --------
    >>> lower, upper = clopper_pearson(0, samples=100, error=0.05)
    >>> float(lower), round(float(upper), 4)
    (0.0, 0.0295)
    """
    samples, error = whole("samples", samples, at_least=1), fraction("error", error)
    k = np.asarray(hits, dtype=np.float64)
    if not ((k >= 0) & (k <= samples)).all():
        raise InvalidInput(f"hits must lie between 0 and samples ({samples}), got {hits!r}.")
    with np.errstate(invalid="ignore"):
        lower = np.where(k > 0, betaincinv(np.maximum(k, 1e-300), samples - k + 1, error), 0.0)
        upper = np.where(k < samples, betaincinv(k + 1, np.maximum(samples - k, 1e-300), 1 - error), 1.0)
    return lower, upper


def certified_epsilon(
    hits: ArrayLike, other_hits: ArrayLike, *, samples: int, delta: float, confidence: float
) -> FloatArray:
    """Return a lower bound on epsilon that holds with probability `confidence`.

    Parameters
    ----------
    hits, other_hits : array-like of int
        How often an event, chosen before, happened on each of two neighbours; from 0 to `samples`.
    samples : int
        Number of independent runs on each neighbour, at least 1.
    delta : float
        In [0, 1).
    confidence : float
        In (0, 1).

    Returns
    -------
    array of float, shape of hits
        At least 0.

    Raises
    ------
    InvalidInput
        For numbers outside of these ranges.

    Notes
    -----
    Any (epsilon, delta)-DP mechanism has P <= e^epsilon Q + delta, hence epsilon >= ln((P - delta) / Q); P is replaced
    by its lower and Q by its upper Clopper-Pearson bound, each at half the error.

    Examples
    --------
    >>> round(float(certified_epsilon(900, 100, samples=1000, delta=0.0, confidence=0.95)), 3)
    1.99
    """
    return certified_epsilons(hits, other_hits, samples=samples, deltas=[delta], confidence=confidence)[0]


def certified_epsilons(
    hits: ArrayLike, other_hits: ArrayLike, *, samples: int, deltas: Sequence[float], confidence: float
) -> list[FloatArray]:
    """Return `certified_epsilon` for several deltas.

    Parameters
    ----------
    hits, other_hits, samples, confidence
        As for `certified_epsilon`.
    deltas : sequence of float
        In [0, 1).

    Returns
    -------
    list of arrays of float, shape of hits
        One for each delta.

    Raises
    ------
    InvalidInput
        As `certified_epsilon`.

    Notes
    -----
    Guarantee: all bounds together hold with probability `confidence`, because they use the same intervals.
    """
    deltas = [fraction_or_zero("delta", delta) for delta in deltas]
    error = (1 - fraction("confidence", confidence)) / 2
    lower, _ = clopper_pearson(hits, samples=samples, error=error)
    _, upper = clopper_pearson(other_hits, samples=samples, error=error)
    with np.errstate(divide="ignore", invalid="ignore"):
        return [np.maximum(np.log(np.maximum(lower - delta, 0.0) / upper), 0.0) for delta in deltas]


_LARGER_DELTAS = (1e-3, 1e-2, 0.05, 0.2)


@dataclass(frozen=True, kw_only=True)
class Claims:
    """All that is claimed for all queries together.

    Parameters
    ----------
    levels : tuple of (float, float)
        Pairs (delta, epsilon), the requested delta first.

    Notes
    -----
    A guarantee for every delta is tested at large deltas too: events of probability 1e-5 are rarely sampled, and common
    events show most of a missing noise.
    """

    levels: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, law: Mechanism | None, votes: Votes, *, delta: float, epsilon: float | None) -> Self:
        """Return the claims of a mechanism.

        Parameters
        ----------
        law : Mechanism or None
            The mechanism; None for a function, which needs `epsilon`.
        votes : Votes
            Their queries are priced.
        delta : float
            In (0, 1), the requested delta.
        epsilon : float or None
            The claim at `delta`, at least 0 or inf. None: what `law` claims at `delta` and at larger deltas.

        Returns
        -------
        Claims

        Raises
        ------
        InvalidInput
            For a function without `epsilon`, and for an epsilon out of range.
        """
        if epsilon is not None:
            return cls(levels=((delta, epsilon if epsilon == np.inf else non_negative("claimed", epsilon)),))
        if law is None:
            raise InvalidInput("claimed must be given for a function that is not a mechanism of ostrakon, got None.")
        deltas = (delta, *(other for other in _LARGER_DELTAS if other > delta))
        claimed = _claimed_epsilons(law, votes, delta)
        return cls(levels=tuple((level, claimed(level)) for level in deltas))

    @property
    def epsilon(self) -> float:
        """The claim at the requested delta."""
        return self.levels[0][1]

    def excess(
        self, hits: FloatArray, other: FloatArray, *, samples: int, confidence: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the largest difference between certified and claimed epsilon, and its delta.

        Parameters
        ----------
        hits, other : array of float
            How often an event happened on each of two neighbours.
        samples : int
            Number of runs on each, at least 1.
        confidence : float
            In (0, 1).

        Returns
        -------
        tuple of two arrays of float, shape of hits
            Differences (above 0 they refute the claim) and the deltas at which they are reached.

        Notes
        -----
        The intervals do not depend on delta, so the maximum over all deltas costs no confidence.
        """
        deltas = np.array([delta for delta, _ in self.levels])
        bounds = certified_epsilons(hits, other, samples=samples, deltas=deltas.tolist(), confidence=confidence)
        excesses = [bound - epsilon for bound, (_, epsilon) in zip(bounds, self.levels, strict=True)]
        return np.max(excesses, axis=0), deltas[np.argmax(excesses, axis=0)]


def _claimed_epsilons(law: Mechanism, votes: Votes, delta: float) -> Callable[[float], float]:
    """Return the claimed epsilon as a function of delta: the papers' claim if it differs from the correct one."""
    if law.claimed_epsilon(queries=votes.queries, delta=delta) is not None:
        return lambda level: cast(float, law.claimed_epsilon(queries=votes.queries, delta=level))
    price = worst_case_at(
        for_rows(law, 1),
        queries=votes.queries,
        teachers=votes.teachers,
        classes=votes.classes if votes.classes_are_public else None,
        abstentions=votes.abstentions,
        adaptive=True,
        around=delta,
    )
    return lambda level: price(level).epsilon
