"""GNSS: Gaussian noise scaled by smooth sensitivity; Theorem 23 of the 2018 paper, corrected and as printed.

As printed the theorem is false: `PrintedGNSS` reproduces the paper's Table 2 and can release nothing.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.accounting.epsilons import DataDependent, Sanitized
from ostrakon.accounting.published.pate_2018 import require_order
from ostrakon.mechanisms.base import FloatArray
from ostrakon.noise import require_rng
from ostrakon.papers.smooth_sensitivity import theorem_24
from ostrakon.validation import InvalidInput, fraction, non_negative, positive, settle


class GNSSEstimate(DataDependent):
    """What a release through GNSS would say on average: a data-dependent epsilon and the noise's deviation. Private.

    theorem: "corrected" or "printed". `reveal()` gives {"epsilon", "delta", "order", "sd"}.
    """

    __slots__ = ("__sd", "theorem")

    theorem: str

    def __init__(self, *, epsilon: float, delta: float, order: float, sd: float, theorem: str) -> None:
        super().__init__(epsilon=epsilon, delta=delta, order=order)
        self.__sd, self.theorem = sd, theorem

    def reveal(self) -> dict[str, float]:
        """{"epsilon", "delta", "order", "sd"}: private numbers that must stay where the votes are."""
        return {**super().reveal(), "sd": self.__sd}


@dataclass(frozen=True, kw_only=True)
class _Theorem23(ABC):
    order: float
    beta: float
    sigma: float

    theorem = ""

    def __post_init__(self) -> None:
        settle(self, order=lambda _, order: require_order(order), beta=positive, sigma=positive)

    @abstractmethod
    def rdp(self) -> float:
        """Return the Rényi cost at `order` of releasing the noisy value, by this theorem."""

    def estimate(self, *, data_dependent_rdp: float, smooth_sensitivity: float, delta: float) -> GNSSEstimate:
        """Mean and deviation of the epsilon that a release would print, Mironov's conversion, as in Table 2. Private.

        data_dependent_rdp: the run's data-dependent cost at `order`. smooth_sensitivity: of that cost, for `beta`.
        """
        data_dependent_rdp = non_negative("data_dependent_rdp", data_dependent_rdp)
        return GNSSEstimate(
            epsilon=data_dependent_rdp + self.rdp() + math.log(1 / fraction("delta", delta)) / (self.order - 1),
            delta=delta,
            order=self.order,
            sd=self.sigma * non_negative("smooth_sensitivity", smooth_sensitivity),
            theorem=self.theorem,
        )


@dataclass(frozen=True, kw_only=True)
class PrintedGNSS(_Theorem23):
    """Theorem 23 as printed, false: only to reproduce the paper's Table 2. It has no `release`.

    order: Rényi order, below 1 / (2 beta). beta: smoothness. sigma: noise, in units of the smooth sensitivity.
    The proof needs s^2 >= S(D)^2 / 2, which (14) gives only for beta <= 1/(4 order); the paper uses .3 to .495 / order.
    S(D) = e^beta S(D'), |f(D) - f(D')| = S(D') at its own MNIST parameters has divergence 1.607; it says 0.518.
    Errors: `InvalidInput` where order >= 1 / (2 beta).
    Source: pate-2018, Theorem 23.

    >>> round(PrintedGNSS(order=14, beta=0.0329, sigma=6.23).rdp(), 3)
    0.518
    """

    theorem = "printed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 * self.order * self.beta < 1:
            raise InvalidInput(
                f"beta must be below 1/(2 order) = {1 / (2 * self.order):.4g} at order {self.order:g}, got {self.beta}."
            )

    def rdp(self) -> float:
        """Return `a e^(2 beta) / sigma^2 + (beta a - ln(1 - 2 a beta) / 2) / (a - 1)`: what the paper prints, not a
        bound.
        """
        a, b = self.order, self.beta
        return a * math.exp(2 * b) / self.sigma**2 + (b * a - 0.5 * math.log1p(-2 * a * b)) / (a - 1)


@dataclass(frozen=True, kw_only=True)
class GNSS(_Theorem23):
    """Release f(D) + S(D) N(0, sigma^2), S a beta-smooth bound on f's local sensitivity.

    order: the Rényi order a. beta: smoothness, below ln(a / (a-1)) / 2. sigma: noise, in units of S.

    Guarantee: (a, rdp())-RDP when one vote moves in every query. *Proof:* the release is N(f, (S sigma)^2); with
    S(D) = e^t S(D'), |t| <= beta and |f(D) - f(D')| <= min(S(D), S(D')), the divergence of two Gaussians is at most
    `g(t) = a min(e^(2t), 1) / (2 sigma^2 v) - t - ln(v) / (2 (a-1))`, v = a - (a-1) e^(2t) > 0. Let h be its last two
    terms. h'(t) = e^(2t)/v - 1 has the sign of t, and h'' = 2 a e^(2t) / v^2 grows with t: h is largest at t = beta.
    So is the first term: it grows with t both below 0, where it is a / (2 sigma^2 (a e^(-2t) - a + 1)), and above.
    Hence the supremum over |t| <= beta is g(beta).
    Errors: `InvalidInput` where beta is too large for the order: the divergence is then unbounded.
    Source: pate-2018, Definition 22; Theorem 23 corrected (docs/mathematics.md D0).

    >>> round(GNSS(order=14, beta=0.0329, sigma=6.23).rdp(), 3)
    1.607
    """

    theorem = "corrected"

    def __post_init__(self) -> None:
        super().__post_init__()
        most = -0.5 * math.log1p(-1 / self.order)
        if not self.beta < most * (1 - 1e-9):
            raise InvalidInput(
                f"beta must be below ln(a/(a-1))/2 = {most:.4g} at order {self.order:g}, got {self.beta}."
            )

    def rdp(self) -> float:
        """Return `a / (2 sigma^2 v) - beta - ln(v) / (2 (a-1))`, v = a - (a-1) e^(2 beta); rounded upward."""
        a = self.order
        # v is a difference of numbers of size a: it is taken as small as rounding may have left it.
        v = 1 - (a - 1) * math.expm1(2 * self.beta) - 4e-16 * a
        value = a / (2 * self.sigma**2 * v) - self.beta - math.log(v) / (2 * (a - 1))
        return value * (1 + 1e-14)

    def release(
        self, *, data_dependent_rdp: float, smooth_sensitivity: float, delta: float, rng: np.random.Generator
    ) -> Sanitized:
        """Return a noisy epsilon of the run, this release's own cost included. Publishable as an estimate, not a
        guarantee.

        data_dependent_rdp: the run's data-dependent cost at `order`, of the queries in fact answered.
        smooth_sensitivity: a `beta`-smooth bound on its local sensitivity
        (`ostrakon.papers.smooth_sensitivity`). The noise's deviation is private, so `sd` and `upper` are
        inf: nothing is said about them. Where an upper bound is wanted, release a score of global sensitivity 1 instead
        (docs/mathematics.md D5).
        Guarantee: order, beta and sigma must be chosen on public votes; then the release is (order, rdp())-RDP.
        """
        data_dependent_rdp = non_negative("data_dependent_rdp", data_dependent_rdp)
        sd = self.sigma * positive("smooth_sensitivity", smooth_sensitivity)
        fixed = self.rdp() + math.log(1 / fraction("delta", delta)) / (self.order - 1)
        noisy = data_dependent_rdp + require_rng(rng).normal(scale=sd)
        return Sanitized(mean=fixed + noisy, sd=math.inf, upper=math.inf)


def optimal_gnss(totals: ArrayLike, *, order: float, deviations: float = 2.0) -> GNSS:
    """Return the beta and sigma that minimise rdp() + `deviations` standard deviations of the noise, at one order.

    totals: summed sensitivities by distance (Theorem 24), shape (distances,), of public or simulated votes: chosen on
    the private votes, the parameters would leak. deviations: the paper minimises the cost plus two.
    Source: pate-2018, Appendix B.6, with the corrected theorem.
    """
    order = require_order(order)
    deviations = positive("deviations", deviations)
    limit = -0.5 * math.log1p(-1 / order)
    sensitivities = np.asarray(totals, dtype=np.float64)

    def best_at(share: float) -> tuple[float, float]:
        """Return (objective, sigma) at beta = share * limit: its sigma is where the derivative vanishes."""
        beta = share * limit
        v = 1 - (order - 1) * math.expm1(2 * beta)
        slope = deviations * float(theorem_24(sensitivities, smoothness=beta))
        sigma = (order / (v * slope)) ** (1 / 3)
        return GNSS(order=order, beta=beta, sigma=sigma).rdp() + slope * sigma, sigma

    def objective(share: FloatArray) -> float:
        return best_at(float(share[0]))[0]

    # The maximum over distances bends the objective: a grid finds the valley, a simplex its floor.
    grid = np.linspace(0.002, 0.998, 500)
    start = float(grid[int(np.argmin([best_at(share)[0] for share in grid]))])
    from scipy.optimize import minimize

    solution = minimize(
        objective,
        [start],
        method="Nelder-Mead",
        bounds=[(1e-4, 0.9999)],
        options={"xatol": 1e-10, "initial_simplex": [[start], [min(start + 0.002, 0.9999)]]},
    )
    share = float(solution.x[0]) if solution.fun < best_at(start)[0] else start
    return GNSS(order=order, beta=share * limit, sigma=best_at(share)[1])
