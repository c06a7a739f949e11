"""A quantity as the target: its public range, and private values as whole steps within it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput, finite, quote
from ostrakon.votes import FINE_STEPS

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""A number as a person or a file may write it."""

ENDS = ("low", "high")
"""The names of the two ends between which every record splits its vote."""

_NEARLY_ALL = 0.9
"""A larger share of values outside the range is probably a mistake."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """The public range of a target that is a number. Values outside are clipped.

    Parameters
    ----------
    low, high : float
        The ends of the range, in the unit of the target; finite, low below high.

    Raises
    ------
    InvalidInput
        For ends that are not finite numbers, and for a range without width or with an infinite one.

    Examples
    --------
    >>> Quantity(low=0, high=50).steps([-3, 0, 25, 50, 80]).tolist()
    [0, 0, 536870912, 1073741824, 1073741824]
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = finite("range", self.low), finite("range", self.high)
        if not low < high or not np.isfinite(high - low):
            raise InvalidInput(f"range must be two numbers, the lower one first, got {low:g} and {high:g}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return the range of `0,50` or of a sequence of two numbers. Errors: `InvalidInput` for anything else, and for
        ends between which not all steps differ."""
        parts: Any = value.split(",") if isinstance(value, str) else value
        if isinstance(value, str) and not all(NUMBER.fullmatch(part.strip()) for part in parts):
            parts = None
        if not isinstance(parts, Sequence | np.ndarray) or len(parts) != 2:
            raise InvalidInput(f"range must be two numbers, LOW,HIGH, such as 0,50, got {quote(value)}.")
        ends = [float(part) for part in parts] if isinstance(value, str) else [finite("range", part) for part in parts]
        quantity = cls(low=ends[0], high=ends[1])
        smallest = max(np.spacing(max(map(abs, ends))), np.finfo(float).tiny)
        if not (quantity.high - quantity.low) / FINE_STEPS > smallest:
            raise InvalidInput(f"range must hold {FINE_STEPS:,} different numbers, got {ends[0]!r} and {ends[1]!r}.")
        return quantity

    def steps(self, values: Any) -> NDArray[np.int64]:
        """Return values, numbers or their text, as whole steps from 0 (low, or below) to `FINE_STEPS` (high, or above),
        (rows,).

        Guarantee: the step of a value depends on that value and on the range alone.
        Errors: `InvalidInput` for missing values and for a value that is not a finite number.
        """
        numbers = self.numbers(values)
        with np.errstate(over="ignore"):  # an overflow is clipped
            shares = np.clip((numbers - self.low) / (self.high - self.low), 0, 1)
        return np.rint(shares * FINE_STEPS).astype(np.int64)

    def numbers(self, values: Any) -> NDArray[np.float64]:
        """Return values, numbers or their text, as finite doubles, (rows,). Errors: as of `steps`."""
        cells = pd.Series(values, dtype=object) if not isinstance(values, np.ndarray) else values
        if isinstance(cells, pd.Series) or cells.dtype.kind not in "iuf":
            cells = pd.Series(cells, dtype=object)
            missing = int(cells.isna().sum())
            if missing:
                raise InvalidInput(f"The target is missing in {missing} of {len(cells)} rows.")
            cells = np.array([_number(cell) for cell in cells], np.float64)
        numbers = np.asarray(cells, np.float64)
        if not np.isfinite(numbers).all():
            raise InvalidInput(
                f"The target must be a finite number in every row, got {numbers[~np.isfinite(numbers)][0]}."
            )
        return numbers

    def values(self, shares: Any) -> NDArray[np.float64]:
        """Convert shares of the range, 0 to 1, to the unit of the target."""
        return self.low + (self.high - self.low) * np.asarray(shares, np.float64)

    def part(self, span: tuple[int, int] | None) -> "Quantity":
        """Return a part of the range, from whole steps of 1/`FINE_STEPS`; the range itself for None."""
        if span is None:
            return self
        low, high = self.values(np.array(span) / FINE_STEPS).tolist()
        return Quantity(low=low, high=high)

    def clipped_in_words(self, share: float) -> tuple[str, ...]:
        """Return one sentence for the trusted side on the share of private values outside the range; () if there are
        none.

        A share near 1 is not an error: whether a run ends must not depend on private values.
        """
        if not share:
            return ()
        warning = "Warning: the student will learn almost nothing: " if share > _NEARLY_ALL else ""
        return (
            f"{warning}{share:.2%} of the private values of the target are outside {self.in_words} and are "
            "replaced by its nearest end. (This is private and is not released.)",
        )

    @property
    def zero(self) -> int | None:
        """The step of 0; None if it is outside the range."""
        return int(self.steps(np.zeros(1))[0]) if self.low <= 0 <= self.high else None

    @property
    def in_words(self) -> str:
        """The range in words: `0 to 50`."""
        return f"{self.low:.10g} to {self.high:.10g}"


def rounded(number: Any, *, digits: int = 4) -> str:
    """Return a number in a few digits and without an exponent.

    >>> rounded(11_523.6), rounded(0.5), rounded(10_672, digits=3)
    ('11,520', '0.5', '10,700')
    """
    return f"{float(f'{number:.{digits}g}'):,.10g}"


def _number(cell: Any) -> float:
    if isinstance(cell, str) and NUMBER.fullmatch(cell.strip()):
        return float(cell)
    if isinstance(cell, int | float | Decimal | np.integer | np.floating) and not isinstance(cell, bool):
        try:
            return float(cell)
        except OverflowError:  # an integer beyond all floats
            return math.inf
    raise InvalidInput(
        f"The target must be a number such as 12.5 (a decimal point, not a comma) in every row, got {quote(cell)}."
    )
