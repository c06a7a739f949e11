"""Quantity GNMax: per-record teachers split a vote between two ends, and add their features times their quantity."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from ostrakon.mechanisms.base import FloatArray, Parameter, RunCost
from ostrakon.mechanisms.bounded_gnmax import MOST_NOISE, REMOVED
from ostrakon.mechanisms.moment_gnmax import LINEAR, Linear, MomentGNMax, Share
from ostrakon.validation import InvalidInput, non_negative
from ostrakon.votes import Moments


@dataclass(frozen=True, kw_only=True)
class QuantityGNMax(MomentGNMax):
    """`MomentGNMax` for a quantity: noisy sums of it by cell, the number of records there, and sums of features.

    Before them, if `histogram` is above 0, a noisy histogram of the quantity, which narrows the range to which it is
    clipped. Afterwards, if `corrections` is above 0, noisy sums of the errors of the student of these sums times
    features, which correct it; and if `errors` is above 0, noisy counts of how far it is off, for intervals.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the noise on the sums by cell, in votes; above 0, at most 2^32.
    neighbours : {"replaced", "removed"}, default "replaced"
        As in `BoundedGNMax`.
    max_contributions : int, default 1
        As in `BoundedGNMax`. Every teacher contributes once to the sums of features, to the histogram, to the
        corrections and to the counts of errors.
    moments : float, default 0.8
        Share of the cost (of mu squared) that pays for the sums of features; strictly between 0 and 1.
    errors : float, default 0
        Share of the cost that pays for counts of errors; at least 0, and with all other shares below 1. 0: none are
        released.
    centred_classes : None
        Sums by class alone are centred.
    linear : float, default 0.2
        Share of the squared length of a row's features for linear ones; above 0, at most 0.8. The price is the same. A
        run takes 0.6 for embeddings, tables of many columns that depend little on each other and few records, else
        0.4.
    corrections : float, default 0
        Share of the cost that pays for a correction of the student: sums of features times how far its estimate is from
        the quantity, to which every teacher adds once, at most a vote. At least 0; 0: none are released.
    histogram : float, default 0
        Share of the cost that pays for the histogram; at least 0. 0: none is released, and the range is not narrowed.

    Raises
    ------
    InvalidInput
        As `MomentGNMax`; also if the noise on the histogram or on counts of errors would exceed 2^32 votes.

    Notes
    -----
    Guarantee: everything together is mu Gaussian-DP with mu^2 = 2 / histogram_noise^2 + 2 r / sigma2^2 + 2 /
    moment_noise^2 + 4 / correction_noise^2 + 2 / error_noise^2, when one teacher's data change arbitrarily; mu^2 = 1 /
    histogram_noise^2 + r / sigma2^2 + 1 / (2 moment_noise^2) + 1 / correction_noise^2 + 1 / error_noise^2 when one
    teacher's contributions are removed. Quantities may be clipped to a range that depends on the histogram, and
    corrections and errors may be those of a student that was chosen and fitted by all that was released before them.

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
    >>> mechanism = QuantityGNMax(sigma2=20, moments=0.7, errors=0.08, histogram=0.02)
    >>> round(mechanism.histogram_noise, 4), round(mechanism.run_cost(queries=40).mu, 4)
    (63.2456, 0.1581)
    """

    name: ClassVar[str] = "quantity-gnmax"
    _removed_sums: ClassVar[float] = 0.5

    moments: Share = 0.8
    linear: Linear = LINEAR
    histogram: Annotated[
        float,
        Parameter(
            help="Share of the cost for a noisy histogram of a quantity, which narrows its range; by default from the "
            "number of records.",
            check=non_negative,
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        noise = self.histogram_noise
        if noise is not None and not noise <= MOST_NOISE:
            raise InvalidInput(
                f"histogram must be 0, or a share that leaves the histogram noise of at most {MOST_NOISE:g} votes, "
                f"got {self.histogram!r} at a sigma2 of {self.sigma2:g}, which gives {noise:.4g}."
            )

    @property
    def histogram_noise(self) -> float | None:
        return self.noise_for(self.histogram) if self.histogram else None

    @property
    def cost_shares(self) -> dict[str, float]:
        first = {"histogram of the target": self.histogram} if self.histogram else {}
        return self._shares(
            {**first, "noisy votes": self._of_counts, **self._of_corrections, **self._of_errors}, "sums of features"
        )

    @property
    def _of_counts(self) -> float:
        return self._rest(moments=self.moments, corrections=self.corrections, histogram=self.histogram)

    def parameters(self) -> dict[str, Any]:
        # The share of errors is stated since the first run of a quantity, that of the histogram if there is one.
        given = {**super().parameters(), "errors": self.errors}
        return {name: value for name, value in given.items() if name != "histogram" or value}

    def noisy_histogram(self, histogram: Moments, rng: np.random.Generator) -> FloatArray:
        if self.histogram_noise is None:
            raise InvalidInput("histogram must be above 0 for a noisy histogram, got 0.")
        return self._with_noise(histogram, self.histogram_noise, rng)

    def run_cost(self, *, queries: int) -> RunCost:
        cost = super().run_cost(queries=queries)
        if self.histogram_noise is None:
            return cost
        assert cost.mu is not None
        of_histogram = math.sqrt(1 if self.neighbours == REMOVED else 2) / self.histogram_noise
        # The factor covers rounding, so that the cost is not underestimated.
        return RunCost(mu=math.hypot(cost.mu, of_histogram) * (1 + 1e-12))
