"""Quantity GNMax: per-record teachers split a vote between two ends, and add their features times their quantity."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from ostrakon.mechanisms.base import FloatArray, Parameter, RunCost
from ostrakon.mechanisms.bounded_gnmax import MOST_NOISE, REMOVED
from ostrakon.mechanisms.moment_gnmax import MomentGNMax, Share
from ostrakon.validation import InvalidInput, non_negative
from ostrakon.votes import Moments


@dataclass(frozen=True, kw_only=True)
class QuantityGNMax(MomentGNMax):
    """`MomentGNMax` for a quantity: noisy sums of it by cell, the number of records there, and sums with features.

    Afterwards, if `errors` is above 0, noisy counts of how far the student of these sums is off, for intervals.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the noise on the sums by cell, in votes; above 0, at most 2^32.
    neighbours : {"replaced", "removed"}, default "replaced"
        As in `BoundedGNMax`.
    max_contributions : int, default 1
        As in `BoundedGNMax`. Every teacher contributes once to the sums with features, and once to the counts of
        errors.
    moments : float, default 0.8
        Share of the cost (of mu squared) that pays for the sums with features; strictly between 0 and 1.
    errors : float, default 0
        Share of the cost that pays for counts of errors; at least 0, and with `moments` below 1. 0: none are released.
    centred_classes : None
        Sums by class alone are centred.

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

    moments: Share = 0.8
    errors: Annotated[
        float,
        Parameter(
            help="Share of the cost for counts of the student's errors; 0.05 by default, 0.1 with few records.",
            check=non_negative,
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        noise = self.error_noise
        if noise is not None and not noise <= MOST_NOISE:
            raise InvalidInput(
                f"errors must be 0, or a share that leaves counts of errors noise of at most {MOST_NOISE:g} votes, "
                f"got {self.errors!r} at a sigma2 of {self.sigma2:g}, which gives {noise:.4g}."
            )

    @property
    def cost_shares(self) -> dict[str, float]:
        of_errors = {"counts of errors": self.errors} if self.errors else {}
        return self._shares({"sums by cell": self._of_counts, **of_errors}, "sums with features")

    @property
    def error_noise(self) -> float | None:
        return self.noise_for(self.errors) if self.errors else None

    @property
    def _of_counts(self) -> float:
        share = super()._of_counts - self.errors
        # Of 0.7 and 0.3 rounding leaves 1e-16.
        if not share > 1e-9:
            raise InvalidInput(
                f"moments and errors must leave a share of the cost for the sums by cell, so beside moments="
                f"{self.moments!r} errors must be below {1 - self.moments:.6g}, got {self.errors!r}."
            )
        return share

    def noisy_errors(self, errors: Moments, rng: np.random.Generator) -> FloatArray:
        """Return the counts of errors with noise, in votes, on the grid of 1/1024 vote, (bins, 1). Draw them once."""
        if self.error_noise is None:
            raise InvalidInput("errors must be above 0 for noisy counts of errors, got 0.")
        return self._with_noise(errors, self.error_noise, rng)

    def run_cost(self, *, queries: int) -> RunCost:
        before = super().run_cost(queries=queries)
        if self.error_noise is None:
            return before
        assert before.mu is not None
        of_errors = math.sqrt(1 if self.neighbours == REMOVED else 2) / self.error_noise
        return RunCost(mu=math.hypot(before.mu, of_errors) * (1 + 1e-12))
