"""Four types of epsilon: worst-case, data-dependent, gated, sanitized. The data-dependent one is private."""

from dataclasses import dataclass
from typing import Any, ClassVar, Never

DATA_DEPENDENT_NOTICE = (
    "data-dependent and published epsilons depend on the private votes: they are not guarantees and must not be "
    "published."
)


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """A data-independent (epsilon, delta)-DP guarantee. Publishable.

    Parameters
    ----------
    epsilon : float
        At least 0; inf if unbounded.
    delta : float
        In (0, 1).
    basis : str
        Its theorem.
    """

    kind: ClassVar[str] = "worst-case"
    epsilon: float
    delta: float
    basis: str


@dataclass(frozen=True, kw_only=True)
class Gated:
    """The unconditional (epsilon, delta)-DP guarantee of a gated release. Publishable.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        In (0, 1).
    levels : tuple of (float, float, float)
        The table of scores, as in `Gate`.
    grid : (float, int), optional
        As in `Gate`.

    References
    ----------
    docs/mathematics.md D6.
    """

    kind: ClassVar[str] = "gated"
    epsilon: float
    delta: float
    levels: tuple[tuple[float, float, float], ...]
    grid: tuple[float, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Sanitized:
    """A noisy estimate of the data-dependent cost. Publishable; not a guarantee.

    Parameters
    ----------
    mean, sd : float
        Mean and standard deviation of the estimated epsilon.
    upper : float
        Exceeds the data-dependent epsilon with the probability that the `Sanitizer` was planned for.

    References
    ----------
    docs/mathematics.md D5.
    """

    kind: ClassVar[str] = "sanitized"
    mean: float
    sd: float
    upper: float


class Private:
    """Numbers that depend on the private votes: they cannot be printed, formatted, converted, changed or serialized."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private: call reveal() on the trusted side>)"

    __str__ = __repr__

    def _refuse(self, *_: Any) -> Never:
        raise TypeError(
            f"A {type(self).__name__} depends on the private votes and cannot be formatted, converted or serialized; "
            "call reveal() where the votes may be seen."
        )

    __format__ = __float__ = _refuse

    def __reduce__(self) -> Any:
        self._refuse()

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):
            self._refuse()
        object.__setattr__(self, name, value)


class DataDependent(Private):
    """A data-dependent epsilon: private, and not a guarantee.

    Parameters
    ----------
    epsilon, delta : float
        Of the cost at the real votes.
    order : float, optional
        The best Rényi order; None if adaptive composition, which has none, gave a smaller epsilon.

    Notes
    -----
    Only `reveal()` returns the numbers, for the trusted side.
    """

    __slots__ = ("__delta", "__epsilon", "__order")

    kind: ClassVar[str] = "data_dependent"

    def __init__(self, *, epsilon: float, delta: float, order: float | None = None) -> None:
        self.__epsilon, self.__delta, self.__order = epsilon, delta, order

    def reveal(self) -> dict[str, float]:
        """Return the private numbers epsilon, delta and order, if any. They must not leave the trusted side."""
        extra = {} if self.__order is None else {"order": self.__order}
        return {"epsilon": self.__epsilon, "delta": self.__delta, **extra}


class Forecast(Private):
    """Expectations of one run on given votes, for planning. Private, like the votes."""

    __slots__ = ("__totals",)

    def __init__(self, **totals: float) -> None:
        self.__totals = totals

    def reveal(self) -> dict[str, float]:
        """Return queries, expected_answers, expected_agreement, data_dependent_cost and order, for the trusted side.

        expected_agreement: expected share of the answers that equal the noiseless plurality; nan without answers.
        data_dependent_cost: Rényi cost at `order`, the order that gives the data-dependent epsilon.
        """
        return dict(self.__totals)
