"""The cost of several runs: exact sums, to which one more run is added without reading the others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from ostrakon.ledger.cost import Cost

_SUMS = ("mu_squared", "rho", "pure", "failure")


@dataclass(frozen=True, kw_only=True)
class Total:
    """Sums over runs, as exact fractions; None if one of the runs has no bound in that currency.

    Parameters
    ----------
    order : float or None
        The Rényi order of `rho`; None for an account without a Rényi lane.
    runs : int
        The number of runs.
    mu_squared, rho, pure, failure : Fraction
        Sums of the squares of `Cost.mu`, of the Rényi divergences at `order`, of `Cost.pure` and of `Cost.failure`.

    Examples
    --------
    >>> Total(order=None).add(Cost.of(pure=0.5)).add(Cost.of(pure=0.25)).pure
    Fraction(3, 4)
    """

    order: float | None
    runs: int = 0
    mu_squared: Fraction | None = Fraction(0)
    rho: Fraction | None = Fraction(0)
    pure: Fraction | None = Fraction(0)
    failure: Fraction = Fraction(0)

    def add(self, cost: Cost) -> Self:
        """Return the total with one more run."""
        mu = None if cost.mu is None else Fraction(cost.mu) ** 2
        return replace(
            self,
            runs=self.runs + 1,
            mu_squared=_sum(self.mu_squared, mu),
            rho=None if self.order is None else _sum(self.rho, cost.at(self.order)),
            pure=_sum(self.pure, cost.pure),
            failure=self.failure + Fraction(cost.failure),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, which `of_dict` reads back exactly."""
        sums = {name: getattr(self, name) for name in _SUMS}
        texts = {name: None if value is None else str(value) for name, value in sums.items()}
        return {"order": self.order, "runs": self.runs, **texts}

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Self:
        """Read what `as_dict` wrote."""
        sums: dict[str, Any] = {name: None if content[name] is None else Fraction(content[name]) for name in _SUMS}
        return cls(order=content["order"], runs=content["runs"], **sums)


def _sum(total: Fraction | None, more: Fraction | float | None) -> Fraction | None:
    return None if total is None or more is None else total + Fraction(more)
