"""The near-zero-cost papers' immutable noisy argmax: implemented as published, not a guarantee."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from ostrakon.mechanisms.base import (
    DEFAULT_NOISE,
    FloatArray,
    Gamma,
    Mechanism,
    Parameter,
    VoteSigma,
    laplace_deviation,
)
from ostrakon.mechanisms.laws.gaussian import gaussian_argmax_log_probabilities
from ostrakon.mechanisms.laws.laplace import laplace_argmax_log_probabilities
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.mechanisms.registry import register
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, fraction, scale, whole
from ostrakon.votes import IntArray, Votes

# Beyond a lead of this many noise scales nothing changes: the loser's probability is below e^-500.
_LONGEST = 1000.0


@register
@dataclass(frozen=True, kw_only=True)
class Immutable(Mechanism):
    """The immutable noisy argmax of the near-zero-cost papers, as published. It is not private as claimed.

    It returns argmax_j (n_j + constant * [j leads] + noise) with noise Lap(1/gamma) or N(0, sigma2^2). It always
    answers.

    Parameters
    ----------
    constant : float
        c, in votes, added to the leading class (the lowest one where several tie, as `Votes.plurality`); above 0.
    gamma : float, optional
        Inverse scale of Laplace noise, per vote; above 0. Give this or sigma2, not both.
    sigma2 : float, optional
        Standard deviation of Gaussian noise, in votes; above 0.

    Raises
    ------
    InvalidInput
        If a number is not finite and above 0, or not exactly one noise is given.

    Notes
    -----
    The papers charge the noise against a sensitivity of 1. But the private votes decide which class gets the constant,
    so the true L1 sensitivity is 2 (c + 1) and the L2 one sqrt(2) (c + 1). `claimed_epsilon` is what the papers charge.
    Any mechanism that names the plurality with probability 1 - t at every lead of at least 1 has `e^epsilon >= (1 - t -
    delta) / t`; `warning` shows this on two histograms.

    Guarantee (true, and too weak to use): 2 gamma (c + 1)-DP, or sqrt(2) (c + 1) / sigma2 Gaussian-DP;
    `two_class_epsilon` is exact. `releasable` is False: no release may rest on it. Its authors hold a patent on the
    method, reported as US 11,640,527 B2.

    References
    ----------
    near-zero-cost-iclr, section 3.1 and Theorem 4; near-zero-cost-kdd; docs/mathematics.md E.

    Examples
    --------
    >>> mechanism = Immutable(constant=100, gamma=0.1)
    >>> round(mechanism.claimed_epsilon(queries=1, delta=1e-5), 2), round(mechanism.two_class_epsilon(), 2)
    (0.2, 9.08)
    """

    name: ClassVar[str] = "immutable"
    releasable: ClassVar[bool] = False

    constant: Annotated[float, Parameter(help="Votes added to the leading class.", check=partial(scale, at_most=1e100))]
    gamma: Gamma | None = None
    sigma2: VoteSigma | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.gamma is None) == (self.sigma2 is None):
            raise InvalidInput(
                f"gamma or sigma2 must be given, one of the two, got gamma={self.gamma!r} and sigma2={self.sigma2!r}."
            )

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        noise = {} if "sigma2" in given else {"gamma": laplace_deviation(DEFAULT_NOISE * teachers)}
        return {"constant": 0.4 * teachers, **noise}

    @property
    def vote_noise(self) -> float:
        return self.noise_scale if self.gamma is None else laplace_deviation(self.gamma)

    @property
    def noise_scale(self) -> float:
        """Scale of the Laplace noise (1/gamma) or standard deviation of the Gaussian, in votes."""
        if self.gamma is not None:
            return 1 / self.gamma
        assert self.sigma2 is not None
        return self.sigma2

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        draw = require_rng(rng).laplace if self.gamma is not None else require_rng(rng).normal
        noise = draw(scale=self.noise_scale, size=votes.counts.shape)
        return (_raised(votes, self.constant) + noise).argmax(axis=1)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        # Beyond the longest lead the law no longer changes in double precision, but its quadrature would.
        scores = _raised(votes, min(self.constant, _LONGEST * self.noise_scale))
        if self.gamma is not None:
            labels = laplace_argmax_log_probabilities(scores, self.noise_scale)
        else:
            labels = gaussian_argmax_log_probabilities(scores, self.noise_scale)
        return np.column_stack([np.minimum(labels, 0.0), np.full(len(labels), -np.inf)])

    def worst_case(self, orders: FloatArray) -> FloatArray:
        pure = self.pure_dp()
        if pure is not None:
            return rdp_of_pure_dp(orders, pure)
        _, mu = self._gaussian()
        return orders * mu**2 / 2

    def pure_dp(self) -> float | None:
        return None if self.gamma is None else 2 * self.gamma * (self.constant + 1)

    def gaussian_dp(self) -> tuple[float, float] | None:
        return None if self.sigma2 is None else self._gaussian()

    def _gaussian(self) -> tuple[float, float]:
        return 0.0, math.sqrt(2) * (self.constant + 1) / self.noise_scale

    def claimed_epsilon(self, *, queries: int, delta: float) -> float:
        """Return what the papers charge for `queries` queries at `delta`. *Not a guarantee*: the claim is wrong.

        Laplace: 2 gamma a query, or `4 T gamma^2 + 2 gamma sqrt(2 T ln(1/delta))` for T of them, whichever is less.
        Gaussian ("details have been discussed" in pate-2018): Rényi cost order / sigma2^2 a query, converted at the
        best order: `T / sigma2^2 + 2 sqrt(T ln(1/delta)) / sigma2`.
        """
        count, delta = whole("queries", queries), fraction("delta", delta)
        rate = 1 / self.noise_scale
        if self.gamma is not None:
            together = 4 * count * rate**2 + 2 * rate * math.sqrt(2 * count * math.log(1 / delta))
            return min(2 * count * rate, together)
        return count * rate**2 + 2 * math.sqrt(count * math.log(1 / delta)) * rate

    def two_class_epsilon(self) -> float:
        """Return the exact pure epsilon of one query with two classes: ln P(0 | tie) / P(0 | one vote moved to class
        1).
        """
        return self._log_stays(self.constant) - self._log_falls(self.constant + 2)

    def _log_falls(self, lead: float) -> float:
        """Log probability that the noise overturns a (raised) lead between two classes."""
        x = lead / self.noise_scale
        if self.gamma is not None:
            return -x + math.log1p(x / 2) - math.log(2)
        return float(log_ndtr(-x / math.sqrt(2)))

    def _log_stays(self, lead: float) -> float:
        return math.log1p(-math.exp(self._log_falls(lead)))

    @property
    def warning(self) -> str:
        """Why this is not differentially private, in one plain sentence with two neighbouring histograms."""
        lead = self.constant + 1
        low, high = math.exp(self._log_falls(lead)), math.exp(self._log_stays(lead))
        loss = self._log_stays(lead) - self._log_falls(lead)
        claimed = self.claimed_epsilon(queries=1, delta=1e-5)
        return (
            "This is not differentially private, because the constant is added to the class that the private votes "
            f"favour: with votes (1, 0) the first class is answered with probability {high:.6g}, and with votes "
            f"(0, 1), where one teacher voted otherwise, with probability {low:.3g}, a privacy loss of {loss:.3g} "
            f"where {claimed:.3g} is claimed."
        )


def _raised(votes: Votes, constant: float) -> FloatArray:
    scores = votes.counts.astype(np.float64)
    scores[np.arange(votes.queries), votes.plurality] += constant
    return scores
