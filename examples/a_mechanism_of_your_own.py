"""A mechanism of your own: one class, and accounting, calibration, audit and command line know it.

    python examples/a_mechanism_of_your_own.py

GNMax that answers only where a share of the votes, asked with noise, is above one half, without a parameter for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr

import ostrakon
from ostrakon.accounting import calibrate, worst_case
from ostrakon.audit import audit
from ostrakon.mechanisms.base import FloatArray, Mechanism, ThresholdSigma, VoteSigma
from ostrakon.mechanisms.registry import register
from ostrakon.noise import require_rng
from ostrakon.votes import IntArray, Votes


@register
@dataclass(frozen=True, kw_only=True)
class Majority(Mechanism):
    """GNMax where max_j n_j + N(0, sigma1^2) is at least half of the teachers; no answer elsewhere.

    sigma1, sigma2: standard deviations of the check's and of the votes' noise, in votes, above 0.

    Guarantee: a vote moved changes the top count by at most 1 and the histogram by sqrt(2) in L2, so a query is
    Rényi-DP at `order / (2 sigma1^2) + order / sigma2^2`.
    """

    name: ClassVar[str] = "majority"

    sigma1: ThresholdSigma
    sigma2: VoteSigma

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        rng = require_rng(rng)
        check = votes.top + rng.normal(scale=self.sigma1, size=votes.queries) >= votes.teachers / 2
        labels = ostrakon.GNMax(sigma2=self.sigma2).sample(votes, rng)
        return np.where(check, labels, -1)

    def log_probabilities(self, votes: Votes) -> FloatArray:
        above = (votes.top - votes.teachers / 2) / self.sigma1
        labels = ostrakon.GNMax(sigma2=self.sigma2).log_probabilities(votes)[:, :-1]
        return np.column_stack([labels + log_ndtr(above)[:, None], log_ndtr(-above)])

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return orders / (2 * self.sigma1**2) + orders / self.sigma2**2

    def gaussian_dp(self) -> tuple[float, float]:
        return 1 / self.sigma1, math.sqrt(2) / self.sigma2


class Careless(Majority):
    """The same with half of the noise that it claims: the audit's prey."""

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        return Majority(sigma1=self.sigma1 / 2, sigma2=self.sigma2 / 2).sample(votes, rng)


def main() -> None:
    mechanism = Majority(sigma1=20, sigma2=20)
    votes = Votes([[70, 20, 10], [40, 35, 25]])
    print("two queries cost, at most:", round(worst_case(mechanism, queries=2, delta=1e-5).epsilon, 3))
    print("what these votes cost is private:", ostrakon.account(votes, mechanism, delta=1e-5).data_dependent)
    print("noise for an epsilon of 1 over 100 queries:", calibrate(mechanism, epsilon=1, delta=1e-5, queries=100))
    for subject in (mechanism, Careless(sigma1=20, sigma2=20)):
        found = audit(
            subject, like=mechanism, delta=1e-5, queries=8, samples=2_000, rng=np.random.default_rng(0), classes=2
        )
        verdict = f"refuted by {', '.join(found.refuted_by)}" if found.refuted else "not refuted"
        print(f"{type(subject).__name__}: {verdict}")
        assert found.refuted == isinstance(subject, Careless)


if __name__ == "__main__":
    main()
