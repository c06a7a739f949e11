"""Private rows that are also in the public data: counted on the trusted side, before anything is trained."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.columns import names_of_rows
from ostrakon.validation import InvalidInput

Marks = NDArray[Any]
_SURE = 3.5
"""Standard deviations that chance is given."""


@dataclass(frozen=True, kw_only=True)
class CountedRows:
    """Private rows by one mark for every row; rows of equal content have equal marks.

    rows: their number. among: from different marks to how many rows have each of them. twice: how many marks two rows
    have, counted when it is needed.
    """

    rows: int
    among: Callable[[Marks], NDArray[np.int64]]
    twice: Callable[[], float]

    @classmethod
    def of(cls, marks: Marks) -> Self:
        """Compare the marks of all rows in memory."""
        values, times = np.unique(marks, return_counts=True)

        def among(marks: Marks) -> NDArray[np.int64]:
            at = np.minimum(np.searchsorted(values, marks), len(values) - 1)
            return np.where(values[at] == marks, times[at], 0)

        return cls(rows=len(marks), among=among, twice=lambda: float((times == 2).sum()))


def compared_columns(public: pd.DataFrame) -> list[list[str]]:
    """Return the columns by which rows are compared: all of them, and without those that number or name the rows of a
    table.

    A record that was exported twice may have another number in each file.
    """
    every = [str(name) for name in public.columns]
    naming = names_of_rows(public)
    others = [name for name in every if name not in naming]
    return [every, others] if naming and others else [every]


def refuse_shared_rows(private: CountedRows, public_marks: Marks, *, allow: str = "--allow-shared-rows") -> None:
    """Refuse private rows that are in the public data more often than chance allows.

    Parameters
    ----------
    private : CountedRows
    public_marks : array of shape (public rows,)
        One mark for every public row, of its content without the target, fractions rounded to six digits.
    allow : str
        The option that allows them, as the user writes it.

    Raises
    ------
    InvalidInput
        If one of two counts is too large.

    Notes
    -----
    Rows of few values are equal by chance. Let two tables be drawn independently, from any two laws, and a content have
    the rates a and b in them. The expected number of contents that are in each table exactly once is the sum of
    a b exp(-a - b), and of those twice in one table and not in the other the sum of (a^2 + b^2) / 2 exp(-a - b), which
    is at least as large. So among all of these at most half are expected to be in both tables.

    Rows that are repeated show less in this way. So the private rows that are in the public data are also compared with
    the share of public rows that are repeated within the public data.

    The refusal depends on private rows. It is for the operator, who is trusted, and nothing of it enters a release.
    """
    values, times = np.unique(public_marks, return_counts=True)
    if not len(values):
        return
    counts = private.among(values)
    shared = int(counts.sum())
    most = _by_repeated_public_rows(times, private.rows)
    once = int(((counts == 1) & (times == 1)).sum())
    apart = float(((counts == 0) & (times == 2)).sum())
    if shared <= most and once - apart > _SURE * math.sqrt(once + apart):
        apart += private.twice() - float((counts == 2).sum())
        if once - apart > _SURE * math.sqrt(once + apart):
            most = min(most, apart + _SURE * math.sqrt(once + apart))
    if shared > most:
        raise InvalidInput(
            f"{shared:,} of the {private.rows:,} private rows are also in the public data (equal in every column but "
            f"the target), and at most {math.floor(most):,} are expected by chance (more, if repeated rows were "
            "deleted from the tables). The guarantee does not protect people whose rows are public. Remove these rows "
            f"from the public data, or give {allow} if the two tables are known to share rows."
        )


def _by_repeated_public_rows(times: NDArray[np.int64], private_rows: int) -> float:
    """Return how many private rows are as likely in the public table as public rows are there again, with a wide
    margin.
    """
    repeated = int(times[times > 1].sum())
    threshold = private_rows / int(times.sum()) * (repeated + 5 * math.sqrt(repeated) + 8)
    return threshold + 3 * math.sqrt(threshold)
