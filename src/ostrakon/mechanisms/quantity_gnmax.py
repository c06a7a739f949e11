"""Quantity GNMax: per-record teachers split a vote between two ends, and add their features times their quantity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ostrakon.mechanisms.moment_gnmax import MomentGNMax, Share


@dataclass(frozen=True, kw_only=True)
class QuantityGNMax(MomentGNMax):
    """`MomentGNMax` for a quantity: noisy sums of it by cell, the number of records there, and sums with features.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the noise on the sums by cell, in votes; above 0, at most 2^32.
    neighbours : {"replaced", "removed"}, default "replaced"
        As in `BoundedGNMax`.
    max_contributions : int, default 1
        As in `BoundedGNMax`. Every teacher contributes once to the sums with features.
    moments : float, default 0.8
        Share of the cost (of mu squared) that pays for the sums with features; strictly between 0 and 1.

    Raises
    ------
    InvalidInput
        As `MomentGNMax`.

    Notes
    -----
    Guarantee: everything together is mu Gaussian-DP with mu^2 = 2 r / sigma2^2 + 2 / moment_noise^2, when one teacher's
    data change arbitrarily; mu^2 = r / sigma2^2 + 1 / (2 moment_noise^2) when one teacher's contributions are removed.

    Proof: docs/mathematics.md H.

    References
    ----------
    Sufficient statistics under Gaussian noise: Foulds et al. 2016; Wang 2018.

    Examples
    --------
    >>> mechanism = QuantityGNMax(sigma2=20)
    >>> round(mechanism.moment_noise, 4), round(mechanism.run_cost(queries=40).mu, 4)
    (10.0, 0.1581)
    """

    name: ClassVar[str] = "quantity-gnmax"
    _removed_sums: ClassVar[float] = 0.5

    moments: Share = 0.8

    @property
    def cost_shares(self) -> dict[str, float]:
        return {"sums by cell": 1 - self.moments, "sums with features": self.moments}
