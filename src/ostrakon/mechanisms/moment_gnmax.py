"""Moment GNMax: per-record teachers vote and add their feature vectors to sums by class, at one joint price."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from ostrakon.mechanisms.base import FloatArray, Parameter, RunCost
from ostrakon.mechanisms.bounded_gnmax import MOST_NOISE, REMOVED, BoundedGNMax
from ostrakon.validation import InvalidInput, fraction, non_negative, whole
from ostrakon.votes import Moments

LINEAR, _MOST_LINEAR = 0.2, 0.8
"""Shares of the squared length of a row's features for linear ones: of earlier versions, and at most."""


def _linear_share(name: str, value: Any) -> float:
    """Return a share above 0, at most `_MOST_LINEAR`; refuse any other value."""
    share = fraction(name, value)
    if share > _MOST_LINEAR:
        raise InvalidInput(f"{name} must be at most {_MOST_LINEAR:g}, got {value!r}.")
    return share


Share = Annotated[
    float,
    Parameter(
        help="Share of the cost for sums of features, 0.5 by default (embeddings, tables of many independent columns, "
        "quantity, several labels: 0.8).",
        check=fraction,
    ),
]

Linear = Annotated[
    float,
    Parameter(
        help="Share of the squared length of a row's features for linear ones.", check=_linear_share, option=False
    ),
]


@dataclass(frozen=True, kw_only=True)
class MomentGNMax(BoundedGNMax):
    """`BoundedGNMax` that also releases noisy sums of the teachers' features by class.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the noise on the counts, in votes; above 0, at most 2^32.
    max_contributions : int, default 1
        As in `BoundedGNMax`. Every teacher contributes once to the sums.
    neighbours : {"replaced", "removed"}, default "replaced"
        As in `BoundedGNMax`.
    moments : float, default 0.5
        Share of the cost (of mu squared) that pays for the sums; strictly between 0 and 1. The noise on the sums,
        `moment_noise`, follows from it: of the cost when one record is replaced.
    errors : float, default 0
        As in `BoundedGNMax`; with `moments` and `corrections` below 1.
    corrections : float, default 0
        Share of the cost that pays for a correction of the student: sums of features times how far its probabilities
        are from the true class, to which every teacher adds once, at most a vote. At least 0; 0: none are released.
    centred_classes : int or None, default None
        K, at least 2: over how many classes the sums are centred. None: they are not, or it is not known. A run settles
        it; the sums must then be of `MomentMap`s with as many `classes`.

    Raises
    ------
    InvalidInput
        As `BoundedGNMax`; also if moments is outside (0, 1), if moments or corrections are so small that their noise
        exceeds 2^32 votes, and for sums by another number of classes than K.

    Notes
    -----
    Guarantee: everything together is mu Gaussian-DP with mu^2 = 2 r / sigma2^2 + 2 / moment_noise^2 + 4 /
    correction_noise^2 + 2 / error_noise^2, when one teacher's data change arbitrarily; mu^2 = r / sigma2^2 + 1 /
    moment_noise^2 + 1 / correction_noise^2 + 1 / error_noise^2 when one teacher's contributions are removed, with
    (1 - 1/K) / moment_noise^2 for the sums if they are centred. Corrections may be those of a student that was fitted
    on answers and sums, errors those of the corrected student.

    Proof: docs/mathematics.md H.

    References
    ----------
    Sufficient statistics under Gaussian noise: Foulds et al. 2016; Wang 2018. The public pool knows all statistics but
    those that depend on labels.

    Examples
    --------
    >>> mechanism = MomentGNMax(sigma2=10, moments=0.5)
    >>> round(mechanism.moment_noise, 4), round(mechanism.run_cost(queries=40).mu, 4)
    (10.0, 0.2)
    """

    name: ClassVar[str] = "moment-gnmax"
    _removed_sums: ClassVar[float] = 1.0
    """The largest squared length of what one teacher adds to sums that are not centred."""
    _may_correct: ClassVar[bool] = True

    moments: Share = 0.5
    centred_classes: Annotated[
        int | None,
        Parameter(help="Classes over which sums are centred.", check=partial(whole, at_least=2), option=False),
    ] = None
    corrections: Annotated[
        float,
        Parameter(
            help="Share of the cost for a correction of the student; 0.5 by default with enough records (quantity: "
            "0.3; several labels: always 0).",
            check=non_negative,
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.corrections and not self._may_correct:
            raise InvalidInput(f"corrections must be 0 for {self.name}, got {self.corrections!r}.")
        if self.centred_classes is not None and self._removed_sums != 1:
            raise InvalidInput(f"centred_classes must be None for {self.name}, got {self.centred_classes!r}.")
        for share, noise in (("moments", self.moment_noise), ("corrections", self.correction_noise)):
            if noise is not None and not noise <= MOST_NOISE:
                raise InvalidInput(
                    f"{share} must be a share that leaves the sums noise of at most {MOST_NOISE:g} votes, got "
                    f"{getattr(self, share)!r} at a sigma2 of {self.sigma2:g}, which gives {noise:.4g}."
                )

    @property
    def moment_noise(self) -> float | None:
        return self._moment_noise

    @property
    def correction_noise(self) -> float | None:
        # Two teachers are at most two votes apart, not the root of two.
        return math.sqrt(2) * self.noise_for(self.corrections) if self.corrections else None

    @property
    def cost_shares(self) -> dict[str, float]:
        return self._shares(
            {"noisy votes": self._of_counts, **self._of_corrections, **self._of_errors}, "sums of features"
        )

    @property
    def _of_corrections(self) -> dict[str, float]:
        halved = 0.5 if self.neighbours == REMOVED else 1.0
        return {"correction of the student": self.corrections * halved} if self.corrections else {}

    def _shares(self, others: dict[str, float], sums: str) -> dict[str, float]:
        """Return shares of the cost under this definition of neighbours, from those where one record is replaced."""
        paid = {**others, sums: self.moments * (self._removed if self.neighbours == REMOVED else 1.0)}
        return {what: share / math.fsum(paid.values()) for what, share in paid.items()}

    def parameters(self) -> dict[str, Any]:
        # Without them, as before there were any: what a run drew belongs to its parameters.
        before = {"centred_classes": None, "corrections": 0.0, "linear": LINEAR}
        return {
            name: value for name, value in super().parameters().items() if name not in before or value != before[name]
        }

    @property
    def _removed(self) -> float:
        """The largest squared length of what one teacher adds to the sums."""
        return self._removed_sums if self.centred_classes is None else 1 - 1 / self.centred_classes

    @property
    def _of_counts(self) -> float:
        return self._rest(moments=self.moments, corrections=self.corrections)

    @property
    def _moment_noise(self) -> float:
        return self.noise_for(self.moments)

    def noisy_moments(self, moments: Moments, rng: np.random.Generator) -> FloatArray:
        """Return the sums with noise, in votes, on the grid of 1/1024 vote, (directions, classes). Draw them once."""
        if self.centred_classes not in (None, moments.counts.shape[1]):
            raise InvalidInput(f"moments must be sums of features by {self.centred_classes} classes, got {moments!r}.")
        return self._with_noise(moments, self._moment_noise, rng)

    def noisy_corrections(self, corrections: Moments, rng: np.random.Generator) -> FloatArray:
        if self.correction_noise is None:
            raise InvalidInput("corrections must be above 0 for noisy corrections, got 0.")
        return self._with_noise(corrections, self.correction_noise, rng)

    def run_cost(self, *, queries: int) -> RunCost:
        of_counts = math.sqrt(self._moved_entries(queries)) / self.sigma2
        moved = (self._removed if self.neighbours == REMOVED else 2) * self._squared_length
        of_sums = math.sqrt(moved) / self._moment_noise
        of_corrections = 0.0
        if self.correction_noise is not None:
            of_corrections = (1 if self.neighbours == REMOVED else 2) / self.correction_noise
        # The factor covers rounding, so that the cost is not underestimated.
        return self._with_errors(math.hypot(of_counts, of_sums, of_corrections) * (1 + 1e-12))
