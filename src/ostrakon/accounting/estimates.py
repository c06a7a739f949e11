"""Estimates of how good a student is, made of released numbers alone: they may leave, and are no guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ostrakon.validation import InvalidInput

CONFIDENCE = 0.95

Of = Literal["student", "majority"]
Against = Literal["private labels", "held-out released answers"]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How often a student, or the answer that is always the same, says what others say. From released numbers alone.

    of: "student" or "majority". against: "private labels" (estimated from noisy counts), or "held-out released answers"
    where only those are known: then it is not an accuracy. counted: what the share is a share of, in words.
    share: the estimate, from 0 to 1; of private labels it is the agreement by cell, which is low where the student
    tells the records of a cell apart. sd: its standard deviation. low, high: its interval of `CONFIDENCE`. at_most: the
    upper end with all that cells may hide; low to at_most is where the agreement itself lies. None where nothing is
    hidden.

    Errors: `InvalidInput` for numbers that are not finite or out of order.
    Source: `ostrakon.students.agreement_estimate`.
    """

    kind: ClassVar[str] = "agreement"

    of: Of
    against: Against
    counted: str
    share: float
    sd: float
    low: float
    high: float
    at_most: float | None = None

    def __post_init__(self) -> None:
        numbers = [self.sd, self.low, self.high, self.share] + ([] if self.at_most is None else [self.at_most])
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            raise InvalidInput(f"An estimate must have finite numbers from 0, got {numbers}.")
        if not self.low <= self.high <= 1 or not self.low <= self.share <= 1:
            raise InvalidInput(f"An estimate must lie from 0 to 1 and in order, got {numbers}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, in four decimals: the interval is rounded outwards."""
        most = None if self.at_most is None else math.ceil(self.at_most * 1e4) / 1e4
        return {
            "kind": self.kind,
            "of": self.of,
            "against": self.against,
            "counted": self.counted,
            "share": round(self.share, 4),
            "sd": round(self.sd, 4),
            "low": math.floor(self.low * 1e4) / 1e4,
            "high": math.ceil(self.high * 1e4) / 1e4,
            "at_most": most,
            "confidence": CONFIDENCE,
        }

    @property
    def title(self) -> str:
        """What the numbers are, in words."""
        what = "estimated" if self.against == "private labels" else "not an accuracy"
        who = "" if self.of == "student" else ", of always the most frequent class"
        return f"Agreement with {self.against} ({what}){who}"

    @property
    def cells_hide(self) -> bool:
        """Whether what cells may hide shows in the numbers."""
        return self.at_most is not None and self.at_most > self.high + 5e-4

    def in_words(self) -> str:
        """The numbers in one line.

        >>> Agreement(of="student", against="private labels", counted="records", share=0.83, sd=0.003,
        ...           low=0.824, high=0.836, at_most=0.9).in_words()
        '82.4% to 90.0% (83.0% were it blind to differences within a cell)'
        """
        if self.cells_hide:
            return f"{self.low:.1%} to {self.at_most:.1%} ({self.share:.1%} were it blind to differences within a cell)"
        return f"{self.share:.1%} ({self.low:.1%} to {self.high:.1%})"
