"""From counts of one event on two neighbouring datasets to a certified lower bound on epsilon."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from ostrakon.mechanisms.base import FloatArray
from ostrakon.validation import InvalidInput, fraction, whole


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
