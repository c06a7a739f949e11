"""GNMax on the summed tables of several owners: one aggregator adds the noise, or every owner adds its share."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from ostrakon.mechanisms.base import DiscreteShares, FloatArray, Parameter, RunCost
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.noise import discrete_gaussian
from ostrakon.validation import InvalidInput, quote, whole
from ostrakon.votes import STEPS, IntArray, Votes

Owners = Annotated[int, Parameter(help="Owners whose tables are summed.", check=partial(whole, at_least=1))]
SUM, EVERY_TABLE = "sum", "each"


def _released(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in (SUM, EVERY_TABLE):
        raise InvalidInput(f"{name} must be {SUM} or {EVERY_TABLE}, got {quote(value)}.")
    return value


@dataclass(frozen=True, kw_only=True)
class SummedGNMax(BoundedGNMax):
    """`BoundedGNMax` on the sum of several owners' tables.

    Parameters
    ----------
    sigma2, max_contributions, neighbours
        As in `BoundedGNMax`; `max_contributions` holds at each owner, and a person is replaced or removed at all.
    owners_per_person : int, default 1
        h, the number of owners at which one person may have rows; at least 1.
    errors : float, default 0
        Errors are not counted: 0.

    Raises
    ------
    InvalidInput
        As `BoundedGNMax`.

    Notes
    -----
    Guarantee: all queries together are h sqrt(2 r)/sigma2 Gaussian-DP when one person's data change arbitrarily at
    every owner, and h sqrt(r)/sigma2 when one person is removed.

    Proof: docs/mathematics.md M.
    """

    name: ClassVar[str] = "summed-gnmax"
    _may_count_errors: ClassVar[bool] = False

    owners_per_person: Annotated[
        int, Parameter(help="Owners at which one person may have rows.", check=partial(whole, at_least=1))
    ] = 1

    def run_cost(self, *, queries: int) -> RunCost:
        return self._moved(self._moved_entries(queries))

    def _moved(self, entries: int) -> RunCost:
        """Return the cost if this number of entries of each of a person's tables changes by one."""
        return RunCost(mu=self.owners_per_person * math.sqrt(entries) / self.sigma2)


@dataclass(frozen=True, kw_only=True)
class SharedGNMax(SummedGNMax):
    """`SummedGNMax` whose noise is a sum of discrete Gaussians, one from every owner, in whole steps of 1/1024 vote.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the noise of the whole sum, in votes; each share has sigma2 / sqrt(owners).
    owners : int
        Number of owners; at least 1.
    colluders : int, default 0
        Number of owners that may combine all they know against a person; their shares of the noise then count for
        nothing.
    dropouts : int, default 0
        Number of owners whose shares may be missing from the sum as well.
    released : {"sum", "each"}, default "sum"
        With "each", every owner's noisy table is released, so that each share must suffice by itself.
    max_contributions, owners_per_person, neighbours, errors
        As in `SummedGNMax`.

    Raises
    ------
    InvalidInput
        As `SummedGNMax`; also if colluders and dropouts are not fewer than the owners, or released is another word.

    Notes
    -----
    Guarantee: as in `ostrakon.accounting.composition.sum_of_discrete_gaussians`, for the shares of owners that neither
    collude nor drop out and a distance of h sqrt(2 r) votes; with "each", for single shares and a distance of sqrt(2 h
    r). When a person is removed, h sqrt(r) and sqrt(h r).

    Proof: docs/mathematics.md M.

    References
    ----------
    Kairouz, Liu and Steinke 2021 (distributed discrete Gaussian).
    """

    name: ClassVar[str] = "shared-gnmax"
    integer_noise: ClassVar[bool] = True

    owners: Owners
    colluders: Annotated[int, Parameter(help="Owners that may collude.", check=whole)] = 0
    dropouts: Annotated[int, Parameter(help="Owners whose shares may be missing.", check=whole)] = 0
    released: Annotated[str, Parameter(help="What leaves: sum, or each table.", check=_released, option=False)] = SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.colluders + self.dropouts < self.owners:
            missing = f" and {self.dropouts} dropouts" if self.dropouts else ""
            raise InvalidInput(
                f"colluders and dropouts must be fewer than the {self.owners} owners, got {self.colluders}{missing}."
            )

    @property
    def share_sigma(self) -> float:
        """The parameter of one owner's discrete Gaussian, in steps of 1/1024 vote."""
        return self.sigma2 * STEPS / math.sqrt(self.owners)

    def share(self, votes: Votes) -> IntArray:
        """Return one owner's table with its share of the noise, in steps of 1/1024 vote, (queries, classes). Draw it
        once.
        """
        self.require_votes(votes)
        noise = discrete_gaussian(votes.counts.size, sigma=self.share_sigma)
        return votes.counts * STEPS + noise.reshape(votes.counts.shape)

    def noisy_counts(self, votes: Votes, rng: np.random.Generator) -> FloatArray:
        """Return the sum of all owners' shares. rng: unused; `discrete_gaussian` has its own entropy."""
        self.require_votes(votes)
        noise = sum(discrete_gaussian(votes.counts.size, sigma=self.share_sigma) for _ in range(self.owners))
        return votes.counts + np.reshape(noise, votes.counts.shape) / STEPS

    def _moved(self, entries: int) -> RunCost:
        # Also if fewer owners are summed: the tables of those that dropped out may have been seen before.
        tables = self.owners_per_person
        cells = tables * entries
        if self.released == EVERY_TABLE:
            count, shift = 1, math.sqrt(cells)
        else:
            count, shift = self.owners - self.colluders - self.dropouts, tables * math.sqrt(entries)
        # The factor covers rounding, so that the noise is not overestimated, nor the shift underestimated.
        scale = self.share_sigma * (1 - 1e-12)
        return RunCost(shares=DiscreteShares(count=count, scale=scale, shift=STEPS * shift, cells=cells))
