"""The claims: an epsilon at the given delta and, for a mechanism, one at every other delta as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ostrakon.accounting.data_independent.worst_case import worst_case_of
from ostrakon.audit.certify import certified_epsilons
from ostrakon.audit.runs import for_rows
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import InvalidInput, non_negative
from ostrakon.votes import Votes

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
        return cls(levels=tuple((level, _claimed(law, votes, level)) for level in deltas))

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


def _claimed(law: Mechanism, votes: Votes, delta: float) -> float:
    # The paper's claim, if it differs from what holds.
    paper = law.claimed_epsilon(queries=votes.queries, delta=delta)
    if paper is not None:
        return paper
    return worst_case_of(votes, for_rows(law, 1), delta=delta).epsilon
