"""The sanitized estimate: a noisy, publishable estimate of the data-dependent cost."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtri

from ostrakon.accounting.epsilons import Sanitized
from ostrakon.accounting.gate.envelope_tables import Report
from ostrakon.accounting.gate.score import consensus
from ostrakon.accounting.gate.search import GateSearch, require_public
from ostrakon.accounting.rdp import Curve
from ostrakon.mechanisms.base import Mechanism
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, fraction, positive, settle
from ostrakon.votes import PublicVotes, Votes

GRID = 1e-3
"""Published numbers are multiples of this, rounded upward, so that they contain no low-order bits."""


@dataclass(frozen=True, kw_only=True)
class Sanitizer:
    """Publishes an estimate of the votes' data-dependent cost, by Gaussian noise on their score.

    Parameters
    ----------
    mechanism : Mechanism
    order, kappa, s : float
        Rényi order, growth of the cost curve per teacher, standard deviation of the noise in teachers. Public, fixed
        before private votes are seen.
    delta : float in (0, 1)
        Of the estimated epsilon.
    confidence : float in (0, 1)
        Of `upper`.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Notes
    -----
    Guarantee: the score moves by at most 1 with a teacher, so score + N(0, s^2), and everything computed from it, is
    Rényi-DP at a / (2 s^2), which the estimate includes. The estimate is not a guarantee: the answers' own cost stays
    data-dependent. `upper` is at least the data-dependent epsilon at `delta` with probability `confidence`.

    References
    ----------
    docs/mathematics.md D5.
    """

    mechanism: Mechanism
    order: float
    kappa: float
    s: float
    delta: float
    confidence: float = 1 - 1e-5

    def __post_init__(self) -> None:
        settle(self, order=positive, kappa=positive, s=positive, delta=fraction, confidence=fraction)
        if not self.order > 1:
            raise InvalidInput(f"order must be above 1, got {self.order!r}.")

    @classmethod
    def plan(
        cls,
        public_votes: PublicVotes,
        mechanism: Mechanism,
        *,
        delta: float,
        search: GateSearch | None = None,
        report: Report | None = None,
    ) -> Self:
        """Return the order, kappa and s with the smallest mean plus two standard deviations at votes like these.

        search: of the same votes and mechanism, to reuse. report: called with (done, total) distinct histograms.
        """
        require_public(public_votes)
        delta = fraction("delta", delta)
        if search is None:
            search = GateSearch.of(public_votes, mechanism, every_number=False, report=report)
        n = public_votes.teachers
        best, chosen = math.inf, None
        for row, order in enumerate(search.orders):
            cost = search.cost[row, -1]
            if not np.isfinite(cost).all():
                continue
            for kappa in np.geomspace(0.5, 20, 40) / n:
                base = float(np.max(cost * np.exp(-kappa * search.steps)))
                for s in np.geomspace(0.005, 0.2, 40) * n:
                    mean, sd = _moments(base, kappa * s)
                    total = _epsilon(order, mean + order / (2 * s * s), delta) + 2 * sd
                    if total < best:
                        best, chosen = total, (float(order), float(f"{kappa:.4g}"), float(f"{s:.4g}"))
        if chosen is None:
            raise InvalidInput("public_votes must allow a finite cost at some order, got none.")
        return cls(mechanism=mechanism, order=chosen[0], kappa=chosen[1], s=chosen[2], delta=delta)

    def publish(self, votes: Votes, rng: np.random.Generator) -> Sanitized:
        """Return one noisy, publishable estimate. Draw it once: a second draw costs another a / (2 s^2).

        mean: the estimate. sd: the standard deviation of such estimates around it. upper: see `confidence`.
        """
        score = consensus(votes, self.mechanism, order=self.order, kappa=self.kappa)
        return self._sanitize(score + self.s * float(require_rng(rng).normal()))

    def expected(self, public_votes: PublicVotes) -> Sanitized:
        """Return the estimate at the median of its noise, for planning on public votes."""
        return self._sanitize(consensus(public_votes, self.mechanism, order=self.order, kappa=self.kappa))

    def _sanitize(self, noisy: float) -> Sanitized:
        own = self.order / (2 * self.s**2)
        # Everything below is a function of the rounded noisy score.
        base = math.exp(self.kappa * math.ceil(noisy / GRID) * GRID)
        above = base * math.exp(self.kappa * self.s * -float(ndtri(1 - self.confidence)))
        _, sd = _moments(base, self.kappa * self.s)
        return Sanitized(
            mean=_up(_epsilon(self.order, base + own, self.delta)),
            sd=_up(sd),
            upper=_up(_epsilon(self.order, above + own, self.delta)),
        )


def _moments(base: float, spread: float) -> tuple[float, float]:
    """Return the mean and standard deviation of base e^{spread Z}, Z standard normal."""
    mean = base * math.exp(spread**2 / 2)
    return mean, mean * math.sqrt(math.expm1(spread**2))


def _epsilon(order: float, cost: float, delta: float) -> float:
    return Curve(np.array([order]), np.array([cost])).epsilon(delta=delta)[0]


def _up(value: float) -> float:
    return round(math.ceil(value / GRID) * GRID, 9)
