"""Labels GNMax: per-record teachers vote on several labels at once, and add their features to a sum for each."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from ostrakon.mechanisms.base import Parameter
from ostrakon.mechanisms.moment_gnmax import LINEAR, Linear, MomentGNMax, Share
from ostrakon.validation import whole


@dataclass(frozen=True, kw_only=True)
class LabelsGNMax(MomentGNMax):
    """`MomentGNMax` for rows that have several labels: noisy votes and sums of features for every label.

    Parameters
    ----------
    sigma2 : float
        Standard deviation of the noise on each count, in votes; above 0, at most 2^32.
    max_labels : int, default 1
        t, at least 1: the joint length of the votes of one teacher on one query is at most sqrt(t) votes.
    neighbours : {"replaced", "removed"}, default "replaced"
        As in `BoundedGNMax`.
    max_contributions : int, default 1
        r, the number of queries that a teacher may vote on. Every teacher contributes once to the sums.
    moments : float, default 0.8
        Share of the cost (of mu squared) that pays for the sums; strictly between 0 and 1.
    centred_classes : None
        Sums by class alone are centred.
    linear : float, default 0.2
        Share of the squared length of a row's features for linear ones; above 0, at most 0.8. The price is the same. A
        run takes 0.8 for embeddings and for tables of many columns that depend little on each other, else 0.4.
    corrections : float, default 0
        The student is not corrected: 0.
    errors : float, default 0
        Errors are not counted: 0.

    Raises
    ------
    InvalidInput
        As `MomentGNMax`.

    Notes
    -----
    Guarantee: everything together is mu Gaussian-DP with mu^2 = t (2 r / sigma2^2 + 2 / moment_noise^2), when one
    teacher's data change arbitrarily; mu^2 = t (r / sigma2^2 + 1 / (2 moment_noise^2)) when one teacher's
    contributions are removed.

    Proof: docs/mathematics.md H.

    References
    ----------
    Multi-label PATE with bounded votes: Zhu et al. 2022 (arXiv 2211.15410).

    Examples
    --------
    >>> mechanism = LabelsGNMax(sigma2=20, max_labels=4)
    >>> round(mechanism.moment_noise, 4), round(mechanism.run_cost(queries=40).mu, 4)
    (10.0, 0.3162)
    """

    name: ClassVar[str] = "labels-gnmax"
    _removed_sums: ClassVar[float] = 0.5
    _may_correct: ClassVar[bool] = False
    _may_count_errors: ClassVar[bool] = False

    moments: Share = 0.8
    linear: Linear = LINEAR
    max_labels: Annotated[
        int,
        Parameter(
            help="Labels of a row that count in full; by default the square root of the number of labels.",
            check=partial(whole, at_least=1),
        ),
    ] = 1

    @property
    def cost_shares(self) -> dict[str, float]:
        return self._shares({"noisy votes on all labels": self._of_counts}, "sums of features")

    @property
    def _squared_length(self) -> int:
        return self.max_labels
