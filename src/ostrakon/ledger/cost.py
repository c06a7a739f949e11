"""The worst-case cost of one run in every currency that an account can charge: public, and rounded upward."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, ndtri_exp

from ostrakon.accounting.composition.sum_of_discrete_gaussians import sum_of_discrete_gaussians_rdp
from ostrakon.accounting.data_independent.worst_case import run_mu, worst_case_curve
from ostrakon.accounting.epsilons import Gated
from ostrakon.mechanisms.base import Mechanism, require_mechanism
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.numerics.rounding import product_above, sum_above
from ostrakon.validation import InvalidInput, non_negative, quote, settle, whole

ORDERS: tuple[float, ...] = (
    *(1.25, 1.5, 1.75),
    *np.arange(2, 12, 0.5).tolist(),
    *map(float, (*range(12, 32), *range(32, 64, 4), 64, 80, 96, 128, 192, 256, 512, 1024)),
)
"""The public, increasing grid of Rényi orders at which every entry stores its curve."""

_LARGEST = 1e100
"""No run costs this much, and its square is still a number."""

_UP = 1 + 4e-15
"""More than the few roundings of one formula."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Bounds on what one run costs, for any data, in several currencies. All of them hold.

    Parameters
    ----------
    mu : float of at least 0, or None
        The run is mu-Gaussian-DP. None without such a bound.
    pure : float of at least 0, or None
        The run is pure-DP at this epsilon. None without such a bound.
    rdp : tuple of (float or None), one for each of `ORDERS`
        Its Rényi divergences, in nats. None at an order without a bound.
    failure : float in [0, 1)
        The bounds hold outside an event of at most this probability, equal on both sides.

    Raises
    ------
    InvalidInput
        If a value is out of range, NaN, infinite or not a number, or if there is no bound at all.
    """

    mu: float | None = None
    pure: float | None = None
    rdp: tuple[float | None, ...] = (None,) * len(ORDERS)
    failure: float = 0.0

    def __post_init__(self) -> None:
        settle(self, mu=non_negative, pure=non_negative, rdp=_curve, failure=_failure)
        if self.mu is None and self.pure is None and all(value is None for value in self.rdp):
            raise InvalidInput("The run must have a worst case for a ledger to charge, and it has none.")

    @classmethod
    def of(
        cls,
        *,
        mu: float | None = None,
        pure: float | None = None,
        checks: int = 1,
        rdp: Any = None,
        failure: float = 0.0,
    ) -> Self:
        """Return the cost of a run that is mu-Gaussian-DP, or `checks` adaptive steps that are each pure-DP, or both.

        Every bound that follows is filled in: a pure epsilon implies a mu (`gaussian_of_pure`) and a Rényi curve, and a
        mu implies a Rényi curve.

        Parameters
        ----------
        mu, failure
            As of `Cost`.
        pure : float of at least 0, or None
            Epsilon of each step.
        checks : int of at least 1
        rdp : sequence of floats, optional
            A curve that is known besides. The smaller value counts at each order.
        """
        checks = whole("checks", checks, at_least=1)
        mus = [] if mu is None else [_sound("mu", mu) * _UP]
        with np.errstate(over="ignore"):
            curves = [] if rdp is None else [_numbers(rdp) * _UP]
        orders = np.array(ORDERS)
        if pure is not None:
            pure = _sound("pure", pure)
            mus.append(math.sqrt(checks) * gaussian_of_pure(pure) * _UP)
            # For a small epsilon the curve is lost to rounding, but its bound a e^2 / 2 is not.
            step = np.minimum(rdp_of_pure_dp(orders, pure) * (1 + 1e-12) + 1e-15 * pure, orders * pure**2 / 2 * _UP)
            curves.append(checks * step * _UP)
        if mus:
            curves.append(orders * min(mus) ** 2 / 2 * _UP)
        curve = np.min(curves, axis=0) if curves else np.full(len(ORDERS), np.inf)
        if np.isnan(curve).any():
            raise InvalidInput("rdp must be numbers of at least 0, got NaN.")
        return cls(
            mu=min(mus, default=None),
            pure=None if pure is None else product_above(checks, pure),
            rdp=tuple(float(value) if math.isfinite(value) else None for value in curve),
            failure=failure,
        )

    def __add__(self, other: "Cost") -> "Cost":
        """Return the cost of this run and another one, whose settings were fixed before either."""
        mus = [one.mu for one in (self, other) if one.mu is not None]
        pure = [one.pure for one in (self, other) if one.pure is not None]
        both = zip(self.rdp, other.rdp, strict=True)
        rdp = [None if one is None or two is None else sum_above((one, two)) for one, two in both]
        return Cost(
            mu=math.hypot(*mus) * _UP if len(mus) == 2 else None,
            pure=sum_above(pure) if len(pure) == 2 else None,
            rdp=tuple(rdp),
            failure=sum_above((self.failure, other.failure)),
        )

    def at(self, order: float) -> float | None:
        """Return the Rényi divergence at one of `ORDERS`; None without a bound."""
        return self.rdp[ORDERS.index(order)]

    def is_near(self, other: "Cost") -> bool:
        """Return whether both can be of one run, computed by different machines or versions."""
        ours, theirs = ((cost.mu, cost.pure, cost.failure, *cost.rdp) for cost in (self, other))
        return all(
            a == b if a is None or b is None else math.isclose(a, b, rel_tol=1e-5)
            for a, b in zip(ours, theirs, strict=True)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, which `of_dict` reads back to the last bit."""
        return {"mu": self.mu, "pure": self.pure, "rdp": list(self.rdp), "failure": self.failure}

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Self:
        """Read what `as_dict` wrote."""
        return cls(mu=content["mu"], pure=content["pure"], rdp=tuple(content["rdp"]), failure=content["failure"])


def cost_of(
    mechanism: Mechanism,
    *,
    queries: int,
    max_answers: int | None = None,
    teachers: int | None = None,
    classes: int | None = None,
    abstentions: bool = False,
    gated: Gated | None = None,
) -> Cost:
    """Return what a run costs, from the public numbers that its worst case depends on (see `accounting.worst_case`).

    Parameters
    ----------
    mechanism : Mechanism
    queries : int of at least 1
    max_answers : int, optional
    teachers, classes : int, optional
        Needed by mechanisms whose worst case depends on them.
    abstentions : bool
        Whether a teacher may abstain.
    gated : Gated, optional
        The certificate of the gate that decides about the release. The cost is then the gate's.

    Raises
    ------
    InvalidInput
        If the mechanism has no bound.

    Notes
    -----
    Guarantee: data-independent, because no vote is used. Rounded upward.

    References
    ----------
    docs/mathematics.md L. An (e, d)-DP release is an e-DP one outside an event of probability d (Kairouz, Oh and
    Viswanath 2015), which is how a gate is charged.
    """
    queries = whole("queries", queries, at_least=1)
    max_answers = None if max_answers is None else whole("max_answers", max_answers)
    require_mechanism(mechanism)
    if gated is not None and not isinstance(gated, Gated):
        raise InvalidInput(f"gated must be the certificate of a gate, got {quote(gated)}.")
    if gated is not None:
        return Cost.of(pure=gated.epsilon, failure=gated.delta)
    tied = mechanism.run_cost(queries=queries)
    if tied is not None:
        rdp = None if tied.shares is None else sum_of_discrete_gaussians_rdp(tied.shares, np.array(ORDERS))
        return Cost.of(mu=tied.mu, pure=tied.epsilon, checks=max(1, tied.checks), rdp=rdp, failure=tied.failure)
    curve = worst_case_curve(
        mechanism,
        np.array(ORDERS),
        queries=queries,
        max_answers=max_answers,
        teachers=teachers,
        classes=classes,
        abstentions=abstentions,
    )
    mu = run_mu(mechanism, queries=queries, max_answers=max_answers)
    return Cost.of(mu=mu, pure=mechanism.pure_dp(), checks=queries, rdp=curve.values)


def cost_of_pair(epsilon: float, delta: float) -> tuple[Cost, ...]:
    """Return an (epsilon, delta)-DP run as a cost, or () where there is nothing to charge by it.

    Guarantee: such a run is pure-DP at epsilon outside an event of probability delta, equal on both sides. Epsilon and
    delta must be fixed before the run, as all costs.
    Source: Kairouz, Oh and Viswanath 2015, as of a gate.
    """
    return (Cost.of(pure=epsilon, failure=delta),) if math.isfinite(epsilon) else ()


def require_cost(cost: Any) -> Cost:
    """Return `cost`, refused unless it is a `Cost`."""
    if not isinstance(cost, Cost):
        raise InvalidInput(f"cost must be a Cost, got {quote(cost)}.")
    return cost


def gaussian_of_pure(epsilon: float) -> float:
    """Return the mu at which every epsilon-DP mechanism is mu-Gaussian-DP: 2 Phi^-1(e^eps / (1 + e^eps)).

    Parameters
    ----------
    epsilon : float of at least 0

    Returns
    -------
    float
        Rounded upward.

    References
    ----------
    Dong, Roth and Su 2022, sections 2.2 and 2.3; docs/mathematics.md L.

    Examples
    --------
    >>> round(gaussian_of_pure(1.0), 4)
    1.232
    """
    e = non_negative("epsilon", epsilon)
    # The function is concave, so its tangent at 0 lies above it; the tangent stays exact for a small epsilon.
    tangent = e * math.sqrt(math.pi / 2) * _UP
    return min(tangent, -2 * float(ndtri_exp(log_expit(-e))) * (1 + 1e-12) + 1e-15) if e > 1e-4 else tangent


def _sound(name: str, value: Any) -> float:
    """Return a number whose square, over all checks, is one, too."""
    number = non_negative(name, value)
    if number > _LARGEST:
        raise InvalidInput(f"{name} must be at most {_LARGEST:g}, got {value!r}.")
    return number


def _numbers(rdp: Any) -> NDArray[np.float64]:
    """Return a curve at `ORDERS`; infinite without a bound."""
    try:
        curve = np.asarray(rdp)
        if curve.shape == (len(ORDERS),) and curve.dtype.kind in "iuf":
            return curve.astype(np.float64)
    except ValueError:  # rows of different lengths
        pass
    raise InvalidInput(f"rdp must be one number for each of {len(ORDERS)} orders, got {quote(rdp)}.")


def _curve(name: str, value: Sequence[Any]) -> tuple[float | None, ...]:
    if not isinstance(value, tuple) or len(value) != len(ORDERS):
        raise InvalidInput(f"{name} must hold one number for each of {len(ORDERS)} orders.")
    if all(type(entry) is float and 0 <= entry < math.inf for entry in value):
        return value  # a ledger reads thousands of curves
    return tuple(None if entry is None else non_negative(name, entry) for entry in value)


def _failure(name: str, value: Any) -> float:
    number = non_negative(name, value)
    if not number < 1:
        raise InvalidInput(f"{name} must be below 1, got {value!r}.")
    return number
