"""GNMax with bounded contributions: every teacher votes on a few queries, so the number of queries costs nothing."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from ostrakon.mechanisms.base import FloatArray, Parameter, Relation, RunCost, StatefulMechanism
from ostrakon.mechanisms.laws.gaussian import gaussian_argmax_log_probabilities
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, quote, scale, whole
from ostrakon.votes import STEPS, BoundedVotes, IntArray, Votes

MOST_NOISE = 2.0**32
"""The largest standard deviation at which a noisy table keeps all steps of 1/1024 vote. With more noise, doubles
lose whole steps in a way that depends on the count, and the last bits of the release would reveal it.
"""

REPLACED, REMOVED = NEIGHBOURS = ("replaced", "removed")
"""What happens to the one record in which neighbouring data sets differ."""


def known_neighbours(name: str, value: Any) -> str:
    """Return `value`, refused unless it is one of `NEIGHBOURS`."""
    if not isinstance(value, str) or value not in NEIGHBOURS:
        raise InvalidInput(f"{name} must be {REPLACED} or {REMOVED}, got {quote(value)}.")
    return value


@dataclass(frozen=True, kw_only=True)
class BoundedGNMax(StatefulMechanism):
    """GNMax on votes in which every teacher votes on at most `max_contributions` queries.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the vote noise, in votes; above 0, at most 2^32.
    max_contributions : int, default 1
        r, the number of queries that a teacher may vote on, counted over all batches of a run; at least 1. A teacher's
        own data may decide which queries these are.
    neighbours : {"replaced", "removed"}, default "replaced"
        Neighbouring data sets: one record is replaced by any other one, or one record is removed while the published
        number of records stays. It changes the price of the same noise.

    Raises
    ------
    InvalidInput
        If a parameter is out of range, or votes are not `BoundedVotes` with at most this number of contributions.

    Notes
    -----
    Guarantee: all queries together are sqrt(2 r)/sigma2 Gaussian-DP, however many they are, when one teacher's data
    change arbitrarily; sqrt(r)/sigma2 when one teacher's votes are removed and the published number of teachers stays.
    This covers `noisy_counts` as well as the answers. The queries are fixed before any vote.

    Proof: docs/mathematics.md H.

    References
    ----------
    Contribution bounding: McSherry and Mironov 2009; Zhu et al. 2020 for votes of neighbours. Dong, Roth and Su 2022,
    Theorem 1.

    Examples
    --------
    >>> mechanism = BoundedGNMax(sigma2=100, max_contributions=1)
    >>> mechanism.run_cost(queries=40) == mechanism.run_cost(queries=1000)
    True
    >>> round(mechanism.run_cost(queries=40).mu, 4)
    0.0141
    """

    name: ClassVar[str] = "bounded-gnmax"
    releases_counts: ClassVar[bool] = True
    per_record: ClassVar[bool] = True

    sigma2: Annotated[
        float,
        Parameter(
            help="Standard deviation of the vote noise, in votes.", check=partial(scale, at_most=MOST_NOISE), noise=1
        ),
    ]
    max_contributions: Annotated[
        int,
        Parameter(
            help="Number of queries on which each teacher may vote; 1 by default.", check=partial(whole, at_least=1)
        ),
    ] = 1
    neighbours: Annotated[
        str,
        Parameter(help="One record between neighbours: replaced or removed.", check=known_neighbours, option=False),
    ] = REPLACED

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        # Not in proportion to the teachers: it is calibrated, or given.
        return {"sigma2": 10.0}

    @property
    def vote_noise(self) -> float:
        return self.sigma2

    @property
    def contribution_bound(self) -> int:
        return self.max_contributions

    def noisy_counts(self, votes: Votes, rng: np.random.Generator) -> FloatArray:
        """Return the histograms with noise, in steps of 1/1024 vote, shape (queries, classes): publishable like the
        answers.

        A student may use them as weights. Draw them once: a second draw is a second release.
        """
        self.require_votes(votes)
        noise = require_rng(rng).normal(scale=self.sigma2, size=votes.counts.shape)
        # Round the noise alone: rounding the noisy counts would shift the cells of the grid by an ulp with the counts.
        return (votes.counts * (STEPS // votes.steps) + np.rint(noise * STEPS)) / STEPS

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        return self.noisy_counts(votes, rng).argmax(axis=1)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        labels = gaussian_argmax_log_probabilities(votes.counts / votes.steps, self.sigma2)
        return np.column_stack([labels, np.full(len(labels), -np.inf)])

    def worst_case(self, orders: FloatArray) -> FloatArray:
        # One query has no cost of its own: `run_cost` prices a run as a whole.
        return np.full(np.shape(orders), np.inf)

    @property
    def relation(self) -> Relation:
        return "take-out" if self.neighbours == REMOVED else "replace"

    def under(self, relation: Relation) -> "BoundedGNMax":
        if relation not in ("replace", "take-out"):
            raise InvalidInput(f"{self.name} has a price for replace and take-out, got {relation}.")
        return replace(self, neighbours=REMOVED if relation == "take-out" else REPLACED)

    def run_cost(self, *, queries: int) -> RunCost:
        return RunCost(mu=math.sqrt(self._moved_entries(queries)) / self.sigma2)

    @property
    def _squared_length(self) -> int:
        """The largest squared length of a teacher's vote on one query."""
        return 1

    def _moved_entries(self, queries: int) -> int:
        """Return the largest squared distance of two neighbours' counts. A teacher votes on no more queries than there
        are.
        """
        entries = min(self.max_contributions, whole("queries", queries, at_least=1))
        return (entries if self.neighbours == REMOVED else 2 * entries) * self._squared_length

    def require_votes(self, votes: Votes) -> None:
        """Refuse votes without a known bound of at most `max_contributions` per teacher."""
        if not isinstance(votes, BoundedVotes) or votes.max_contributions > self.max_contributions:
            raise InvalidInput(
                f"votes must be BoundedVotes with max_contributions of at most {self.max_contributions}, got {votes!r}"
                + (f" with max_contributions {votes.max_contributions}." if isinstance(votes, BoundedVotes) else ".")
            )
