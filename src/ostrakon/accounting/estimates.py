"""Estimates of a student's accuracy from released numbers: publishable, but not guarantees."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ostrakon.validation import InvalidInput

CONFIDENCE = 0.95
TOO_LITTLE = "few data or much noise"
"""Why an interval is wide."""
_WIDE = 0.5
"""Width from which an interval says almost nothing."""

UNDECIDED = (
    "The noisy numbers in the release do not tell whether the student is right more often than a model that always "
    "predicts the most frequent class"
)
NO_BETTER = "Warning: the noisy numbers in the release do not show"
"""How remarks begin on a student whose estimate allows no decision, and on one whose estimate is not higher."""

UNTAUGHT = "released answers that the student did not learn from"
"""The held-out released answers, for readers."""

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
        "private labels" (from noisy counts of errors) or "held-out released answers" (not an accuracy).
    counted : str
        What is counted, in words, such as "records".
    share : float in [0, 1]
        The estimate.
    sd : float
        Its standard deviation.
    low, high : float
        An interval that contains the truth in at least 95% of runs.

    Raises
    ------
    InvalidInput
        If numbers are not finite or out of order.

    References
    ----------
    `ostrakon.students.right_counts`, `ostrakon.students.agreement_estimate`.
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
        """Return plain values for JSON, in four decimals; the interval is rounded outwards, but for what four decimals
        are.
        """
        return {
            "kind": self.kind,
            "of": self.of,
            "against": self.against,
            "counted": self.counted,
            "share": round(self.share, 4),
            "sd": round(self.sd, 4),
            **rounded_outwards(self.low, self.high),
            "confidence": CONFIDENCE,
        }

    @property
    def title(self) -> str:
        """A heading for the numbers."""
        private = self.against == "private labels"
        what = "Estimated accuracy" if private else f"Agreement with {UNTAUGHT} (not an accuracy)"
        return f"{what}{'' if self.of == 'student' else ', of always the most frequent class'}"

    def in_words(self) -> str:
        """Return the interval in one line.

        >>> Agreement(of="student", against="private labels", counted="records", share=0.83, sd=0.003,
        ...           low=0.824, high=0.836).in_words()
        'between 82.4% and 83.6%'
        >>> Agreement(of="student", against="private labels", counted="records", share=0.83, sd=0.003,
        ...           low=0.706, high=1).in_words()
        'at least 70.6%'
        """
        low, high = _percents(self.low, self.high)
        words = f"between {low} and {high}" if self.high < 1 else f"at least {low}"
        return f"{words}{_wide(self.low, self.high)}"


@dataclass(frozen=True, kw_only=True)
class Recall:
    """On which share of the records of a class the student says that class; from released numbers alone.

    Parameters
    ----------
    label : str or None
        The class; None for the mean over all classes, which is the balanced accuracy.
    counted : str
        What is counted, in words, such as "records".
    low, high : float
        The ranges of all classes hold together in at least 95% of runs, and that of their mean in as many.

    Raises
    ------
    InvalidInput
        If the ends are not in order from 0 to 1.

    References
    ----------
    `ostrakon.students.right_counts`.
    """

    kind: ClassVar[str] = "recall"

    label: str | None
    counted: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise InvalidInput(f"A recall must lie from 0 to 1 and in order, got {self.low} and {self.high}.")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, in four decimals; the interval is rounded outwards."""
        ends = rounded_outwards(self.low, self.high)
        return {"kind": self.kind, "label": self.label, "counted": self.counted, **ends, "confidence": CONFIDENCE}

    @property
    def title(self) -> str:
        """A heading for the numbers."""
        return "Balanced accuracy (estimated)" if self.label is None else f"Recall of {self.label!r} (estimated)"

    def in_words(self) -> str:
        """Return the interval in a few words.

        >>> Recall(label="ill", counted="records", low=0.0, high=0.448).in_words()
        'at most 44.8%'
        """
        return in_words(self.low, self.high)


def rounded_outwards(low: float, high: float) -> dict[str, float]:
    """Return both ends of an interval in four decimals, outwards but for what four decimals are."""
    low, high = round(low * 1e4, 6), round(high * 1e4, 6)
    return {"low": math.floor(low) / 1e4, "high": math.ceil(high) / 1e4}


def in_words(low: float, high: float) -> str:
    """Return an interval within 0 to 1 in a few words.

    >>> in_words(0.706, 1), in_words(0.5, 0.5)
    ('at least 70.6%', 'exactly 50.0%')
    >>> in_words(0.05, 0.95)
    'between 5.0% and 95.0% (few data or much noise)'
    """
    at_least, at_most = _percents(low, high)
    if low == high and at_least == at_most:
        return f"exactly {at_least}"
    if low <= 0:
        words = "not known" if high >= 1 else f"at most {at_most}"
    else:
        words = f"at least {at_least}" if high >= 1 else f"between {at_least} and {at_most}"
    return f"{words}{_wide(low, high)}"


def _wide(low: float, high: float) -> str:
    """Return why an interval says almost nothing; empty for others."""
    return f" ({TOO_LITTLE})" if high - low >= _WIDE else ""


def _percents(low: float, high: float) -> tuple[str, str]:
    """Return both ends of an interval in percent with one decimal, outwards but for what four decimals are.

    >>> _percents(0.82458, 0.836)
    ('82.4%', '83.6%')
    """
    ends = rounded_outwards(low, high)
    tenths = math.floor(round(ends["low"] * 1e3, 3)), math.ceil(round(ends["high"] * 1e3, 3))
    return f"{tenths[0] / 10:.1f}%", f"{tenths[1] / 10:.1f}%"
