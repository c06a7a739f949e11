"""Quantity GNMax: per-record teachers split a vote between two ends, and add their features times their quantity."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ostrakon.mechanisms.moment_gnmax import LINEAR, Linear, MomentGNMax, Share


@dataclass(frozen=True, kw_only=True)
class QuantityGNMax(MomentGNMax):
    """`MomentGNMax` for a quantity: noisy sums of it by cell, the number of records there, and sums of features.

    Afterwards, if `errors` is above 0, noisy counts of how far the student of these sums is off, for intervals.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the noise on the sums by cell, in votes; above 0, at most 2^32.
    neighbours : {"replaced", "removed"}, default "replaced"
        As in `BoundedGNMax`.
    max_contributions : int, default 1
        As in `BoundedGNMax`. Every teacher contributes once to the sums of features, and once to the counts of
        errors.
    moments : float, default 0.8
        Share of the cost (of mu squared) that pays for the sums of features; strictly between 0 and 1.
    errors : float, default 0
        Share of the cost that pays for counts of errors; at least 0, and with `moments` below 1. 0: none are released.
    centred_classes : None
        Sums by class alone are centred.
    linear : float, default 0.2
        Share of the squared length of a row's features for linear ones; above 0, at most 0.8. The price is the same. A
        run takes 0.6 for embeddings and for tables of many columns that depend little on each other.
    corrections : float, default 0
        The student is not corrected: 0.

    Raises
    ------
    InvalidInput
        As `MomentGNMax`; also if the noise on counts of errors would exceed 2^32 votes.

    Notes
    -----
    Guarantee: everything together is mu Gaussian-DP with mu^2 = 2 r / sigma2^2 + 2 / moment_noise^2 + 2 /
    error_noise^2, when one teacher's data change arbitrarily; mu^2 = r / sigma2^2 + 1 / (2 moment_noise^2) + 1 /
    error_noise^2 when one teacher's contributions are removed. Errors may be those of a student that was chosen and
    fitted by all that was released before them.

    Proof: docs/mathematics.md H.

    References
    ----------
    Sufficient statistics under Gaussian noise: Foulds et al. 2016; Wang 2018. Adaptive composition of Gaussian
    mechanisms: Dong, Roth and Su 2022, Corollary 2.

    Examples
    --------
    >>> mechanism = QuantityGNMax(sigma2=20)
    >>> round(mechanism.moment_noise, 4), round(mechanism.run_cost(queries=40).mu, 4)
    (10.0, 0.1581)
    >>> mechanism = QuantityGNMax(sigma2=20, moments=0.7, errors=0.1)
    >>> round(mechanism.error_noise, 4), round(mechanism.run_cost(queries=40).mu, 4)
    (28.2843, 0.1581)
    """

    name: ClassVar[str] = "quantity-gnmax"
    _removed_sums: ClassVar[float] = 0.5
    _may_correct: ClassVar[bool] = False

    moments: Share = 0.8
    linear: Linear = LINEAR

    @property
    def cost_shares(self) -> dict[str, float]:
        return self._shares({"noisy votes": self._of_counts, **self._of_errors}, "sums of features")

    def parameters(self) -> dict[str, Any]:
        # Stated since the first run of a quantity.
        return {**super().parameters(), "errors": self.errors}
