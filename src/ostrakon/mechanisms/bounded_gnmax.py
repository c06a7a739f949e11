"""GNMax with bounded contributions: every teacher votes on a few queries, so the number of queries costs nothing."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from ostrakon.mechanisms.base import FloatArray, Parameter, Relation, RunCost, StatefulMechanism
from ostrakon.mechanisms.laws.gaussian import gaussian_argmax_log_probabilities
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, non_negative, one_of, scale, whole
from ostrakon.votes import STEPS, BoundedVotes, IntArray, Moments, Votes

MOST_NOISE = 2.0**32
"""The largest standard deviation at which a noisy table keeps all steps of 1/1024 vote. With more noise, doubles
lose whole steps in a way that depends on the count, and the last bits of the release would reveal it.
"""

REPLACED, REMOVED = NEIGHBOURS = ("replaced", "removed")
"""What happens to the one record in which neighbouring data sets differ."""


def known_neighbours(name: str, value: Any) -> str:
    """Return `value`, refused unless it is one of `NEIGHBOURS`."""
    return one_of(name, value, NEIGHBOURS)


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
    errors : float, default 0
        Share of the cost (of mu squared) that pays for counts of the errors of a student of the answers, to which every
        teacher adds one vote; at least 0, below 1. 0: none are released.

    Raises
    ------
    InvalidInput
        If a parameter is out of range, the noise on counts of errors would exceed 2^32 votes, or votes are not
        `BoundedVotes` with at most this number of contributions.

    Notes
    -----
    Guarantee: everything together is mu Gaussian-DP with mu^2 = 2 r / sigma2^2 + 2 / error_noise^2, however many
    queries there are, when one teacher's data change arbitrarily; mu^2 = r / sigma2^2 + 1 / error_noise^2 when one
    teacher's contributions are removed and the published number of teachers stays. This covers `noisy_counts` as well
    as the answers. The queries are fixed before any vote; errors may be those of a student that was chosen and fitted
    by all that was released before them.

    Proof: docs/mathematics.md H.

    References
    ----------
    Contribution bounding: McSherry and Mironov 2009; Zhu et al. 2020 for votes of neighbours. Dong, Roth and Su 2022,
    Theorem 1 and, for adaptive composition, Corollary 2.

    Examples
    --------
    >>> mechanism = BoundedGNMax(sigma2=100, max_contributions=1)
    >>> mechanism.run_cost(queries=40) == mechanism.run_cost(queries=1000)
    True
    >>> round(mechanism.run_cost(queries=40).mu, 4)
    0.0141
    >>> mechanism = BoundedGNMax(sigma2=100, errors=0.2)
    >>> round(mechanism.error_noise, 4), round(mechanism.run_cost(queries=40).mu, 4)
    (200.0, 0.0158)
    """

    name: ClassVar[str] = "bounded-gnmax"
    releases_counts: ClassVar[bool] = True
    per_record: ClassVar[bool] = True
    _may_count_errors: ClassVar[bool] = True

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
    errors: Annotated[
        float,
        Parameter(
            help="Share of the cost for counts of the student's errors; by default from the number of records (several "
            "labels: always 0).",
            check=non_negative,
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.errors and not self._may_count_errors:
            raise InvalidInput(f"errors must be 0 for {self.name}, which counts no errors, got {self.errors!r}.")
        noise = self.error_noise
        if noise is not None and not noise <= MOST_NOISE:
            raise InvalidInput(
                f"errors must be 0, or a share that leaves counts of errors noise of at most {MOST_NOISE:g} votes, "
                f"got {self.errors!r} at a sigma2 of {self.sigma2:g}, which gives {noise:.4g}."
            )

    def parameters(self) -> dict[str, Any]:
        # Without counts of errors, as before there were any: what a run drew belongs to its parameters.
        return {name: value for name, value in super().parameters().items() if name != "errors" or value}

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        # Not in proportion to the teachers: it is calibrated, or given.
        return {"sigma2": 10.0}

    @property
    def vote_noise(self) -> float:
        return self.sigma2

    @property
    def error_noise(self) -> float | None:
        return self.noise_for(self.errors) if self.errors else None

    @property
    def cost_shares(self) -> dict[str, float]:
        return {"noisy votes": self._of_counts, **self._of_errors}

    @property
    def _of_errors(self) -> dict[str, float]:
        """The share of the cost that pays for counts of errors, by its name; empty without them."""
        return {"counts of errors": self.errors} if self.errors else {}

    @property
    def _of_counts(self) -> float:
        """The share of the cost that pays for the counts of votes."""
        return self._rest()

    def _rest(self, **sums: float) -> float:
        """Return the share of the cost that counts of errors, and sums with the shares `sums`, leave."""
        left = 1 - math.fsum(sums.values())
        # Of 0.7 and 0.3 rounding leaves 1e-16.
        if not left - self.errors > 1e-9:
            given = [f"{name}={share:.6g}" for name, share in sums.items() if share]
            paid = [name for name, share in sums.items() if share]
            last, below = ("errors", left) if left > 1e-9 else (paid[-1], left + sums[paid[-1]])
            beside = f" beside {' and '.join(given)}" if last == "errors" and given else ""
            raise InvalidInput(
                f"{last} must be below {below:.6g}{beside}, so that the votes get a share, got {getattr(self, last)!r}."
            )
        return left - self.errors

    def noise_for(self, share: float) -> float:
        """Return the noise on sums to which every teacher adds once, at most a vote, if they have this share of the
        cost.

        share: above 0, below 1.
        """
        return self.sigma2 * math.sqrt(self._of_counts / (share * self.max_contributions))

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

    def noisy_errors(self, errors: Moments, rng: np.random.Generator) -> FloatArray:
        """Return the counts of errors with noise, in votes, on the grid of 1/1024 vote, (bins, 1). Draw them once."""
        if self.error_noise is None:
            raise InvalidInput("errors must be above 0 for noisy counts of errors, got 0.")
        return self._with_noise(errors, self.error_noise, rng)

    @staticmethod
    def _with_noise(sums: Moments, sigma: float, rng: np.random.Generator) -> FloatArray:
        noise = require_rng(rng).normal(scale=sigma, size=sums.counts.shape)
        return (sums.counts + np.rint(noise * STEPS)) / STEPS

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
        return self._with_errors(math.sqrt(self._moved_entries(queries)) / self.sigma2)

    def _with_errors(self, mu: float) -> RunCost:
        """Return the cost of counts of errors, and of what costs `mu` beside them."""
        if self.error_noise is None:
            return RunCost(mu=mu)
        of_errors = math.sqrt(1 if self.neighbours == REMOVED else 2) / self.error_noise
        # The factor covers rounding, so that the cost is not underestimated.
        return RunCost(mu=math.hypot(mu, of_errors) * (1 + 1e-12))

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
