"""Rényi cost curves: sums, multiples and conversion to epsilon."""

import math
import numbers
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.mechanisms.base import FloatArray, finite_orders
from ostrakon.validation import InvalidInput, fraction, quote, settle, whole

Conversion = Literal["cks", "mironov"]

DEFAULT_ORDERS: FloatArray = np.concatenate(
    [np.arange(1.05, 2, 0.05), np.arange(2, 40, 0.5), np.arange(40, 100, 4), np.geomspace(100, 1000, 20)]
)
"""The default Rényi orders a > 1, increasing."""
DEFAULT_ORDERS.setflags(write=False)

_ROUNDING = 2e-15
"""Added to every term of an epsilon: exceeds the rounding errors of its cost, logarithms and sum."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Upper bounds on a Rényi divergence at several orders.

    Curves of mechanisms that run one after another add; `k` equal ones are `k * curve`.

    Parameters
    ----------
    orders : ndarray of float, shape (K,)
        Increasing, above 1.
    values : ndarray of float, shape (K,)
        Nats, at least 0; inf means unknown.

    Raises
    ------
    InvalidInput
        For NaN, negative values, or orders not above 1.

    References
    ----------
    Mironov 2017, Proposition 1 (composition).
    """

    orders: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        settle(self, orders=lambda _, orders: require_orders(orders))
        settle(self, values=self._as_values)

    def _as_values(self, name: str, given: ArrayLike) -> FloatArray:
        values = np.array(given, dtype=np.float64)
        if values.shape != self.orders.shape:
            raise InvalidInput(f"{name} must have the shape of orders, {self.orders.shape}, got {values.shape}.")
        if not (values >= 0).all():
            raise InvalidInput(f"{name} must be non-negative, got {values[~(values >= 0)][0]}.")
        values.setflags(write=False)
        return values

    def __add__(self, other: object) -> "Curve":
        if not isinstance(other, Curve):
            return NotImplemented
        if not np.array_equal(self.orders, other.orders):
            raise InvalidInput("Curves must have the same orders to be added.")
        return Curve(self.orders, self.values + other.values)

    def __mul__(self, count: int) -> "Curve":
        if isinstance(count, bool) or not isinstance(count, numbers.Integral):
            raise InvalidInput(
                f"A curve is multiplied by a number of repetitions, an integer of at least 0, got {count!r}."
            )
        count = whole("count", count, at_least=0)
        return Curve(self.orders, self.values * count if count else np.zeros_like(self.values))

    __rmul__ = __mul__

    def epsilon(self, *, delta: float, conversion: Conversion = "cks") -> tuple[float, float]:
        """Return the (epsilon, delta)-DP that this curve implies, rounded upward by about 1e-15 relative.

        Parameters
        ----------
        delta : float in (0, 1)
        conversion : {"cks", "mironov"}
            Canonne, Kamath, Steinke 2020, Proposition 12; or Mironov 2017, Proposition 3.

        Returns
        -------
        tuple of float
            (epsilon, the order that gives it).
        """
        eps = self.epsilons(delta=delta, conversion=conversion)
        best = int(np.argmin(eps))
        # A conversion can give less than 0; (0, delta) already holds then.
        return max(0.0, float(eps[best])), float(self.orders[best])

    def epsilons(self, *, delta: float, conversion: Conversion = "cks") -> FloatArray:
        """Return what each order gives by itself, shape (K,); less than 0 where (0, delta) holds."""
        delta = fraction("delta", delta)
        a, r = self.orders, self.values
        if conversion == "cks":
            eps = r + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
            size = r - np.log1p(-1 / a) + (np.log(a) - math.log(delta)) / (a - 1)
        elif conversion == "mironov":
            eps = size = r - math.log(delta) / (a - 1)
        else:
            raise InvalidInput(f"conversion must be 'cks' or 'mironov', got {conversion!r}.")
        return eps + _ROUNDING * size


def require_orders(orders: ArrayLike) -> FloatArray:
    """Return `orders` as a read-only array of floats.

    Parameters
    ----------
    orders : array-like of float
        Rényi orders.

    Returns
    -------
    array of float, shape (K,)

    Raises
    ------
    InvalidInput
        Unless the orders are one-dimensional, increasing, finite and above 1.
    """
    array = finite_orders(orders)
    if array.ndim != 1 or not (np.diff(array) > 0).all():
        raise InvalidInput(f"orders must be an increasing list of finite numbers above 1, got {quote(orders)}.")
    array.setflags(write=False)
    return array
