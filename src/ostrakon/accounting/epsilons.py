"""The four epsilons, four types: worst-case, data-dependent, gated, sanitized. The data-dependent one may not leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Never

DATA_DEPENDENT_NOTICE = (
    "data-dependent and published epsilons depend on the private votes: they are not guarantees and must not be "
    "published."
)


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """A data-independent (epsilon, delta)-DP guarantee. Publishable. `basis` names the theorem that gave it."""

    kind: ClassVar[str] = "worst-case"
    epsilon: float
    delta: float
    basis: str


@dataclass(frozen=True, kw_only=True)
class Gated:
    """The unconditional (epsilon, delta)-DP guarantee of a gated release. Publishable.

    order, B, kappa, s: of the gate that gave it (see `Gate`). Source: docs/mathematics.md D6.
    """

    kind: ClassVar[str] = "gated"
    epsilon: float
    delta: float
    order: float
    B: float
    kappa: float
    s: float


@dataclass(frozen=True, kw_only=True)
class Sanitized:
    """A noisy number about the data-dependent cost. Publishable as an estimate; not a guarantee.

    mean, sd: of the estimated epsilon. upper: above it with the probability that the `Sanitizer` was made for.
    Source: docs/mathematics.md D5.
    """

    kind: ClassVar[str] = "sanitized"
    mean: float
    sd: float
    upper: float


class DataDependent:
    """A data-dependent epsilon: itself private, not a guarantee. It refuses to be printed, formatted or serialized.

    epsilon, delta: of the cost at the real votes. order: the Rényi order that gave it. `reveal()` is the one way to
    these numbers, for eyes on the trusted side.
    """

    __slots__ = ("__delta", "__epsilon", "__order")

    kind: ClassVar[str] = "data_dependent"

    def __init__(self, *, epsilon: float, delta: float, order: float) -> None:
        self.__epsilon, self.__delta, self.__order = epsilon, delta, order

    def reveal(self) -> dict[str, float]:
        """{"epsilon", "delta", "order"}: private numbers that must stay where the votes are."""
        return {"epsilon": self.__epsilon, "delta": self.__delta, "order": self.__order}

    def __repr__(self) -> str:
        return "DataDependent(<private: call reveal() on the trusted side>)"

    __str__ = __repr__

    def _refuse(self, *_: Any) -> Never:
        raise TypeError(
            "A data-dependent epsilon is private and cannot be formatted, converted or serialized; "
            "call reveal() where the votes may be seen."
        )

    def __format__(self, spec: str) -> str:
        self._refuse()

    def __float__(self) -> float:
        self._refuse()

    def __reduce__(self) -> Any:
        self._refuse()

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):
            self._refuse()
        object.__setattr__(self, name, value)


Publishable = WorstCase | Gated | Sanitized
"""What `release/` accepts."""
