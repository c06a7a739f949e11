"""Estimates of a student's accuracy from released numbers: publishable, but not guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ostrakon.validation import InvalidInput

CONFIDENCE = 0.95

UNDECIDED = (
    "The released numbers alone do not tell whether the student is right more often than a model that always predicts "
    "the most frequent class"
)
NO_BETTER = "Warning: the held-out "
"""How remarks begin on a student whose estimate allows no decision, and on one whose estimate is not higher."""

Of = Literal["student", "majority"]
Against = Literal["private labels", "held-out released answers"]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How often the student, or the majority class, agrees with a reference. From released numbers alone.

    Parameters
    ----------
    of : {"student", "majority"}
        "majority" always predicts the most frequent class.
    against : str
        "private labels" (estimated from noisy counts) or "held-out released answers" (not an accuracy).
    counted : str
        What is counted, in words, such as "records".
    share : float in [0, 1]
        The estimate. Against private labels it assumes that the student's errors within a cell are random.
    sd : float
        Its standard deviation.
    low, high : float
        An interval that contains the truth in at least 95% of runs, without that assumption.

    Raises
    ------
    InvalidInput
        If numbers are not finite or out of order.

    References
    ----------
    `ostrakon.students.agreement_estimate`.
    """

    kind: ClassVar[str] = "agreement"

    of: Of
    against: Against
    counted: str
    share: float
    sd: float
    low: float
    high: float

    def __post_init__(self) -> None:
        numbers = [self.sd, self.low, self.high, self.share]
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            raise InvalidInput(f"An estimate must have finite numbers from 0, got {numbers}.")
        if not self.low <= self.share <= self.high <= 1:
            raise InvalidInput(f"An estimate must lie from 0 to 1 and in order, got {numbers}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, in four decimals; the interval is rounded outwards, but for what four decimals are."""
        low, high = (round(end * 1e4, 6) for end in (self.low, self.high))
        return {
            "kind": self.kind,
            "of": self.of,
            "against": self.against,
            "counted": self.counted,
            "share": round(self.share, 4),
            "sd": round(self.sd, 4),
            "low": math.floor(low) / 1e4,
            "high": math.ceil(high) / 1e4,
            "confidence": CONFIDENCE,
        }

    @property
    def title(self) -> str:
        """A heading for the numbers."""
        what = "estimated" if self.against == "private labels" else "not an accuracy"
        who = "" if self.of == "student" else ", of always the most frequent class"
        return f"Agreement with {self.against} ({what}){who}"

    def in_words(self) -> str:
        """The interval in one line.

        >>> Agreement(of="student", against="private labels", counted="records", share=0.83, sd=0.003,
        ...           low=0.824, high=0.836).in_words()
        'between 82.4% and 83.6%'
        >>> Agreement(of="student", against="private labels", counted="records", share=0.83, sd=0.003,
        ...           low=0.706, high=1).in_words()
        'at least 70.6%'
        """
        if self.high < 1:
            return f"between {self.low:.1%} and {self.high:.1%}"
        return f"at least {self.low:.1%}"
