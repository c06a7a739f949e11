"""From counts of events on two neighbouring datasets to a certified lower bound on epsilon."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from ostrakon.accounting.data_independent.worst_case import worst_case_at
from ostrakon.audit.runs import for_rows
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import InvalidInput, fraction, non_negative, whole
from ostrakon.votes import Votes


def clopper_pearson(hits: ArrayLike, *, samples: int, error: float) -> tuple[FloatArray, FloatArray]:
    """One-sided exact bounds (lower, upper) on the probability of an event seen `hits` times in `samples`.

    Each of the two fails with probability at most `error`; both together with at most twice that.
    Source: Clopper and Pearson 1934.

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
    """Lower bound on epsilon, valid with probability `confidence`, from one event chosen before the samples.

    hits, other_hits: how often the event was seen among `samples` independent runs on each of two neighbours.
    Any (epsilon, delta)-DP mechanism has P <= e^epsilon Q + delta, hence epsilon >= ln((P - delta) / Q); P is replaced
    by its lower and Q by its upper Clopper-Pearson bound, each at half the error. Never below 0.

    >>> round(float(certified_epsilon(900, 100, samples=1000, delta=0.0, confidence=0.95)), 3)
    1.99
    """
    return certified_epsilons(hits, other_hits, samples=samples, deltas=[delta], confidence=confidence)[0]


def certified_epsilons(
    hits: ArrayLike, other_hits: ArrayLike, *, samples: int, deltas: Sequence[float], confidence: float
) -> list[FloatArray]:
    """`certified_epsilon` for several deltas, valid for all of them together: they share both probability bounds."""
    deltas = [0.0 if delta == 0 else fraction("delta", delta) for delta in deltas]
    error = (1 - fraction("confidence", confidence)) / 2
    lower, _ = clopper_pearson(hits, samples=samples, error=error)
    _, upper = clopper_pearson(other_hits, samples=samples, error=error)
    with np.errstate(divide="ignore", invalid="ignore"):
        return [np.maximum(np.log(np.maximum(lower - delta, 0.0) / upper), 0.0) for delta in deltas]


_OTHER_DELTAS = (1e-3, 1e-2, 0.05, 0.2)


@dataclass(frozen=True, kw_only=True)
class Claims:
    """`levels`: (delta, epsilon) pairs, all of them claimed at once for all queries together; the asked delta first.

    A guarantee proved for every delta is checked at large deltas too: an event of probability 1e-5 is rarely sampled,
    and a large share of a missing noise shows in common events.
    """

    levels: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, law: Mechanism | None, votes: Votes, *, delta: float, epsilon: float | None) -> Self:
        """The claims of `law` for the queries of `votes`, or the one number `epsilon` if it is given."""
        if epsilon is not None:
            return cls(levels=((delta, epsilon if epsilon == np.inf else non_negative("claimed", epsilon)),))
        if law is None:
            raise InvalidInput("claimed must be given for a function that is not a mechanism of ostrakon, got None.")
        deltas = (delta, *(other for other in _OTHER_DELTAS if other > delta))
        claimed = _claimed(law, votes, delta)
        return cls(levels=tuple((level, claimed(level)) for level in deltas))

    @property
    def epsilon(self) -> float:
        """The claim at the asked delta."""
        return self.levels[0][1]

    def excess(
        self, hits: FloatArray, other: FloatArray, *, samples: int, confidence: float
    ) -> tuple[FloatArray, FloatArray]:
        """The largest difference between the certified epsilon and the claim, over all deltas; and that delta.

        Both bounds on the event's probabilities hold for every delta alike, so looking at all of them costs no
        confidence.
        """
        deltas = np.array([delta for delta, _ in self.levels])
        bounds = certified_epsilons(hits, other, samples=samples, deltas=deltas.tolist(), confidence=confidence)
        excesses = [bound - epsilon for bound, (_, epsilon) in zip(bounds, self.levels, strict=True)]
        return np.max(excesses, axis=0), deltas[np.argmax(excesses, axis=0)]


def _claimed(law: Mechanism, votes: Votes, delta: float) -> Callable[[float], float]:
    """The claimed epsilon as a function of delta: the papers' claim, if it differs from what holds."""
    if law.claimed_epsilon(queries=votes.queries, delta=delta) is not None:
        return lambda level: cast(float, law.claimed_epsilon(queries=votes.queries, delta=level))
    at = worst_case_at(
        for_rows(law, 1),
        queries=votes.queries,
        teachers=votes.teachers,
        classes=votes.classes if votes.classes_are_public else None,
        abstentions=votes.abstentions,
        adaptive=True,
        around=delta,
    )
    return lambda level: at(level).epsilon
