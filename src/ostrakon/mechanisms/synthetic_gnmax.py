"""Synthetic GNMax: per-record teachers vote on public rows that were drawn from noisy marginals of their own data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from ostrakon.mechanisms.base import Parameter, RunCost
from ostrakon.mechanisms.bounded_gnmax import MOST_NOISE
from ostrakon.mechanisms.moment_gnmax import MomentGNMax
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, fraction, non_negative, whole
from ostrakon.votes import STEPS, IntArray, Marginals


def _share(name: str, value: Any) -> float:
    number = non_negative(name, value)
    return number if number == 0 else fraction(name, value)


@dataclass(frozen=True, kw_only=True)
class SyntheticGNMax(MomentGNMax):
    """`MomentGNMax` on public rows that are drawn from noisy marginals of the private table.

    Parameters
    ----------
    sigma2, max_contributions
        As in `BoundedGNMax`.
    moments : float, default 0.5
        Share of what is left after the marginals that pays for sums of features; 0 for no sums.
    marginals : float, default 0.2
        Share of the whole cost (of mu squared) that pays for the marginals; strictly between 0 and 1. The noise on
        every cell of a marginal, `marginal_noise`, follows from it.
    tables : int
        Number of marginals that are measured; at least 1.

    Raises
    ------
    InvalidInput
        As `MomentGNMax`; also if a share is out of range or tables is below 1.

    Notes
    -----
    Guarantee: marginals, counts and sums together are mu Gaussian-DP with
    mu^2 = 2 t / marginal_noise^2 + 2 r / sigma2^2 + 2 / moment_noise^2, when one teacher's data change arbitrarily.
    Everything computed from the marginals (the pool, the queries) may decide which queries the teachers answer.

    Proof: to each of t marginals a teacher adds a table without negative cells, of length at most 1 (one cell, or the
    mean of the cells of its rows). Two such tables are at most sqrt(2) apart, t of them side by side sqrt(2 t). Votes
    and sums as in `MomentGNMax`, for any queries. When the second of two Gaussian-DP mechanisms sees what the first
    released, they compose to the root of the sum of squares (Dong, Roth and Su 2022, Corollary 2).

    References
    ----------
    McKenna, Sheldon and Miklau 2019 (private-PGM), for the rows that are drawn from the marginals.

    Examples
    --------
    >>> mechanism = SyntheticGNMax(sigma2=10, moments=0.5, marginals=0.2, tables=5)
    >>> round(mechanism.marginal_noise, 4), round(mechanism.run_cost(queries=40).mu ** 2, 6)
    (31.6228, 0.05)
    """

    name: ClassVar[str] = "synthetic-gnmax"

    moments: Annotated[
        float, Parameter(help="Share of the cost for sums of features by class, 0.5 by default.", check=_share)
    ] = 0.5
    marginals: Annotated[
        float,
        Parameter(help="Share of the cost for the marginals of a synthetic pool, 0.2 by default.", check=fraction),
    ] = 0.2
    tables: Annotated[
        int, Parameter(help="Marginals that are measured.", check=partial(whole, at_least=1), option=False)
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.marginal_noise <= MOST_NOISE:
            raise InvalidInput(
                f"marginals must be a share that leaves each cell noise of at most {MOST_NOISE:g} records, got "
                f"{self.marginals!r} at a sigma2 of {self.sigma2:g}, which gives {self.marginal_noise:.4g}."
            )

    @property
    def moment_noise(self) -> float | None:
        return None if self.moments == 0 else self._moment_noise

    @property
    def cost_shares(self) -> dict[str, float]:
        rest = {what: (1 - self.marginals) * share for what, share in super().cost_shares.items()}
        return {"marginals": self.marginals, **rest}

    @property
    def marginal_noise(self) -> float:
        """Standard deviation of the noise on one cell of a marginal, in records."""
        kept = (1 - self.marginals) * (1 - self.moments)
        return self.sigma2 * math.sqrt(self.tables * kept / (self.marginals * self.max_contributions))

    def noisy_marginals(self, marginals: Marginals, rng: np.random.Generator) -> IntArray:
        """The cells with noise, in whole steps of 1/1024 record, (cells, 1). Draw them once."""
        if marginals.tables != self.tables:
            raise InvalidInput(f"marginals must be of {self.tables} tables, as was paid for, got {marginals.tables}.")
        noise = require_rng(rng).normal(scale=self.marginal_noise, size=marginals.counts.shape)
        # Round the noise alone, as `BoundedGNMax.noisy_counts` does.
        return marginals.counts + np.rint(noise * STEPS).astype(np.int64)

    def _both(self, squared: int, queries: int) -> RunCost:
        entries = min(self.max_contributions, whole("queries", queries, at_least=1))
        of_counts = math.sqrt(squared * entries) / self.sigma2
        of_sums = 0.0 if self.moments == 0 else math.sqrt(squared) / self._moment_noise
        of_marginals = math.sqrt(squared * self.tables) / self.marginal_noise
        # The factor covers rounding, so that the cost is not underestimated.
        return RunCost(mu=math.hypot(of_counts, of_sums, of_marginals) * (1 + 1e-12))
