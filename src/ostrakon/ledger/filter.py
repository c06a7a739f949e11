"""The privacy filter of an account, which decides whether a run still fits. Its caps are fixed in advance."""

import contextlib
import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.rdp import Curve
from ostrakon.ledger.cost import ORDERS, Cost
from ostrakon.ledger.total import Total
from ostrakon.numerics.inverse import least
from ostrakon.numerics.rounding import above, below
from ostrakon.validation import InvalidInput, fraction, non_negative, one_of, positive, quote, settle

GAUSSIAN, RENYI, PURE, MIXED = "gaussian", "renyi", "pure", "mixed"

LARGEST = 1000.0
"""The largest epsilon of an account. Far smaller ones already protect nobody."""

KINDS: dict[str, tuple[Fraction, Fraction, Fraction]] = {
    GAUSSIAN: (Fraction(1), Fraction(0), Fraction(0)),
    RENYI: (Fraction(0), Fraction(1), Fraction(0)),
    PURE: (Fraction(0), Fraction(0), Fraction(1)),
    MIXED: (Fraction(9, 20), Fraction(9, 20), Fraction(1, 10)),
}
"""Kinds of accounts → the shares of delta that the Gaussian lane, the Rényi lane and failures have."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """An account's cap (epsilon, delta) and what may be spent below it in each lane. All of it is fixed in advance.

    Parameters
    ----------
    epsilon : float in (0, 1000]
    delta : float in (0, 1)
    kind : {"gaussian", "renyi", "pure", "mixed"}
        Decides the shares of delta of the lanes and the failures (`KINDS`).
    order : float or None
        The one Rényi order of the account, one of `ledger.cost.ORDERS`; None without a Rényi lane.
    mu : float above 0, or None
        All runs together may be mu-Gaussian-DP; None without that lane.
    rho : float above 0, or None
        All runs together may have this Rényi divergence at `order`; None without that lane.
    failure : float of at least 0
        What the probabilities of failures may add up to.

    Raises
    ------
    InvalidInput
        If a value is out of range, or the order is not in the grid or has no lane.

    Notes
    -----
    Guarantee: if `admits` returned True before every run, all runs together are (epsilon, delta)-DP. Each run, its
    mechanism and its cost may be chosen from what earlier runs released. A run is admitted if, with it, the failures
    stay within `failure` and **at least one lane** stays within its cap. Pure epsilons may add up to epsilon in any
    account.

    Proof: docs/mathematics.md L.

    Caps are rounded down, costs are rounded upward, and sums are compared as exact fractions.

    References
    ----------
    Feldman and Zrnic 2021, "Individual privacy accounting via a Rényi filter"; Smith and Thakurta 2022, "Fully adaptive
    composition for Gaussian differential privacy"; Rogers, Roth, Ullman and Vadhan 2016 (filters).

    Examples
    --------
    >>> cap = Filter.create(epsilon=1.0, delta=1e-5)
    >>> half = Cost.of(mu=cap.mu / 2)
    >>> cap.admits([half] * 3), cap.admits([half] * 5)
    (True, False)
    """

    epsilon: float
    delta: float
    kind: str
    order: float | None
    mu: float | None
    rho: float | None
    failure: float

    def __post_init__(self) -> None:
        settle(self, epsilon=_epsilon, delta=fraction, kind=partial(one_of, allowed=KINDS), failure=non_negative)
        for name in ("mu", "rho", "order"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.order is not None:
            _order("order", self.order)
        if (self.order is None) != (self.rho is None):
            raise InvalidInput("order and rho must be given together.")

    @classmethod
    def create(cls, *, epsilon: float, delta: float, kind: str = GAUSSIAN, order: float | None = None) -> Self:
        """Return the filter of a new account.

        Parameters
        ----------
        epsilon, delta, kind
            As of `Filter`.
        order : float, optional
            Default: the order at which most Gaussian runs fit.

        Raises
        ------
        InvalidInput
            If a value is out of range, or the order leaves no room.
        """
        epsilon, delta, kind = _epsilon("epsilon", epsilon), fraction("delta", delta), one_of("kind", kind, KINDS)
        of_gaussian, of_renyi, of_failures = (below(share * Fraction(delta)) for share in KINDS[kind])
        if order is not None and not of_renyi:
            raise InvalidInput(f"order must be left out of an account of kind {kind}: it adds up no Rényi divergences.")
        rho = None
        if of_renyi:
            order = _best_order(epsilon, of_renyi) if order is None else _order("order", order)
            rho = rho_within(epsilon, of_renyi, order)
            if rho is None:
                raise InvalidInput(f"order must be large enough for this cap, got {order:g}: it leaves no room there.")
        mu = mu_within(epsilon, of_gaussian) if of_gaussian else None
        return cls(epsilon=epsilon, delta=delta, kind=kind, order=order, mu=mu, rho=rho, failure=of_failures)

    @classmethod
    def for_runs_like(cls, costs: Iterable[Cost], *, epsilon: float, delta: float) -> Self:
        """Return the filter within which most runs of these costs fit: a public choice, because costs are public.

        Parameters
        ----------
        costs : iterable of Cost
        epsilon, delta
            As of `Filter`.

        Raises
        ------
        InvalidInput
            If no kind of filter can have this cap.
        """
        costs = _costs(costs)
        return min(cls._of_all_kinds(epsilon, delta), key=lambda cap: cap.fraction_used(costs))

    @classmethod
    def least_epsilon(cls, costs: Iterable[Cost], *, delta: float) -> float:
        """Return the epsilon of an account in which these runs together just fit; inf if there is none.

        Proof: a filter of every kind and order is sound if both are fixed before the first run (docs/mathematics.md L).
        The costs are public numbers that are known by then, so the filter with the least epsilon may be chosen.
        """
        costs = _costs(costs)
        return min(cap.spent(costs) for cap in cls._of_all_kinds(LARGEST, delta))

    @classmethod
    def _of_all_kinds(cls, epsilon: float, delta: float) -> list[Self]:
        """Return a filter of every kind and order that this cap allows."""
        # A Gaussian filter exists for every possible cap; an impossible one is refused here.
        caps = [cls.create(epsilon=epsilon, delta=delta)]
        for kind in KINDS:
            for order in ORDERS if KINDS[kind][1] else [None]:
                with contextlib.suppress(InvalidInput):
                    caps.append(cls.create(epsilon=epsilon, delta=delta, kind=kind, order=order))
        return caps

    def require_sound(self) -> None:
        """Refuse a filter with more room than `create` gives."""
        created = type(self).create(epsilon=self.epsilon, delta=self.delta, kind=self.kind, order=self.order)
        for name in ("mu", "rho", "failure"):
            value, limit = getattr(self, name), getattr(created, name)
            if value is not None and (limit is None or value > limit):
                raise InvalidInput(
                    f"{name} of the cap must be at most {limit!r}, as Filter.create gives, got {value!r}."
                )

    @property
    def lanes(self) -> str:
        """How costs add up, in words: the kind and, if there is one, the order."""
        return self.kind if self.order is None else f"{self.kind} at order {self.order:g}"

    def total(self, costs: Iterable[Cost] | Total = ()) -> Total:
        """Return the exact sums of these runs. A total of this filter is returned unchanged."""
        if isinstance(costs, Total):
            if costs.order != self.order:
                raise InvalidInput(f"costs must be a total at order {self.order}, got one at {costs.order}.")
            return costs
        return functools.reduce(Total.add, _costs(costs), Total(order=self.order))

    def admits(self, costs: Iterable[Cost] | Total) -> bool:
        """Return whether all these runs together stay within the cap."""
        failures, lanes = self._used(costs)
        return failures <= 1 and any(used is not None and used <= 1 for used in lanes)

    def fraction_used(self, costs: Iterable[Cost] | Total) -> float:
        """Return the used share of the cap: of the least full lane, or of the failures; inf if unbounded."""
        failures, lanes = self._used(costs)
        known = [used for used in lanes if used is not None]
        return above(max(failures, min(known))) if known else math.inf

    def _used(self, costs: Iterable[Cost] | Total) -> tuple[Fraction, list[Fraction | None]]:
        """Exact shares used: (of the failures, of each lane; None if the filter or a run has no bound there)."""
        total = self.total(costs)
        failures = total.failure / Fraction(self.failure) if self.failure else Fraction(2 if total.failure else 0)
        lanes = [
            (total.mu_squared, None if self.mu is None else Fraction(self.mu) ** 2),
            (total.rho, None if self.rho is None else Fraction(self.rho)),
            (total.pure, Fraction(self.epsilon)),
        ]
        return failures, [None if used is None or cap is None else used / cap for used, cap in lanes]

    def spent(self, costs: Iterable[Cost] | Total) -> float:
        """Return the epsilon of these runs so far, at the account's delta.

        Returns
        -------
        float
            Of the best lane, rounded upward; inf without a bound. It is for planning: the guarantee of runs that were
            chosen one after the other is the cap, not this number.
        """
        failures, (gaussian, renyi, pure) = self._used(costs)
        if failures > 1:
            return math.inf
        epsilons = [math.inf]
        if gaussian is not None and self.mu is not None:
            mu = math.sqrt(above(gaussian)) * self.mu * (1 + 1e-15)
            epsilons.append(gaussian_dp_epsilon(mu, _share_of(self.kind, 0, self.delta)))
        if renyi is not None and self.rho is not None and self.order is not None:
            rho = above(renyi * Fraction(self.rho))
            at_order = Curve(np.array([self.order]), np.array([rho]))
            epsilons.append(at_order.epsilon(delta=_share_of(self.kind, 1, self.delta))[0] if rho else 0.0)
        if pure is not None:
            epsilons.append(above(pure * Fraction(self.epsilon)))
        return min(epsilons)

    def remaining(self, costs: Iterable[Cost] | Total, *, delta: float | None = None) -> float:
        """Return the epsilon of one more run that still fits.

        Parameters
        ----------
        costs : iterable of Cost, or Total
            The runs so far.
        delta : float in (0, 1), optional
            Of that run. Default: the account's.

        Returns
        -------
        float
            Of a Gaussian run, or of a pure one if that is more, rounded down; 0 if nothing fits.
        """
        delta = self.delta if delta is None else fraction("delta", delta)
        failures, (gaussian, renyi, pure) = self._used(costs)
        if failures > 1:
            return 0.0
        epsilons = [0.0]
        if gaussian is not None and gaussian < 1 and self.mu is not None:
            epsilons.append(_epsilon_of(Fraction(self.mu) ** 2 * (1 - gaussian), delta))
        if renyi is not None and renyi < 1 and self.rho is not None and self.order is not None:
            epsilons.append(_epsilon_of(2 * Fraction(self.rho) * (1 - renyi) / Fraction(self.order), delta))
        if pure is not None and pure < 1:
            epsilons.append(below(Fraction(self.epsilon) * (1 - pure)))
        return math.floor(max(epsilons) * 10_000) / 10_000

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with the caps, which an account keeps for ever."""
        return asdict(self)

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Self:
        """Read what `as_dict` wrote."""
        return cls(**content)


def _costs(costs: Iterable[Cost]) -> list[Cost]:
    values: list[Any] = list(costs) if isinstance(costs, Iterable) else [None]
    if not all(isinstance(value, Cost) for value in values):
        raise InvalidInput(f"costs must be a list of Cost, got {quote(costs)}.")
    return values


@lru_cache(maxsize=256)
def mu_within(epsilon: float, delta: float) -> float:
    """Return the largest mu at which mu-Gaussian DP is (epsilon, delta)-DP, rounded down."""
    return 1 / least(lambda x: gaussian_dp_epsilon(1 / x, delta), epsilon, start=1.0, tolerance=1e-15)


@lru_cache(maxsize=1024)
def rho_within(epsilon: float, delta: float, order: float) -> float | None:
    """Return the largest divergence at `order` that is (epsilon, delta)-DP, rounded down; None if there is none."""

    def cost(rho: float) -> float:
        return Curve(np.array([order]), np.array([rho])).epsilon(delta=delta)[0]

    if not cost(1e-12) <= epsilon:
        return None
    return 1 / least(lambda x: cost(1 / x), epsilon, start=1.0, tolerance=1e-15)


def _best_order(epsilon: float, delta: float) -> float:
    room = {order: rho_within(epsilon, delta, order) for order in ORDERS}
    known = {order: rho / order for order, rho in room.items() if rho is not None}
    if not known:
        raise InvalidInput(f"epsilon must be larger to add up Rényi divergences at this delta, got {epsilon!r}.")
    return max(known, key=lambda order: known[order])


def _epsilon_of(mu_squared: Fraction, delta: float) -> float:
    """Return the epsilon of a Gaussian run with this mu^2, rounded down, so that it fits."""
    return gaussian_dp_epsilon(math.sqrt(float(mu_squared)) * (1 - 1e-12), delta) * (1 - 1e-8)


def _share_of(kind: str, lane: int, delta: float) -> float:
    return below(KINDS[kind][lane] * Fraction(delta))


def _epsilon(name: str, value: Any) -> float:
    epsilon = positive(name, value)
    if epsilon > LARGEST:
        raise InvalidInput(f"{name} must be at most {LARGEST:g}, got {quote(value)}.")
    return epsilon


def _order(name: str, value: Any) -> float:
    order = positive(name, value)
    if order not in ORDERS:
        raise InvalidInput(
            f"{name} must be one of the ledger's {len(ORDERS)} orders, from {ORDERS[0]:g} to {ORDERS[-1]:g} such as "
            f"8, 10 or 16, got {quote(value)}."
        )
    return order
