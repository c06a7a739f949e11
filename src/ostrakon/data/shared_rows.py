"""Private rows that are also in the public data: counted on the trusted side, before anything is trained."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput


def most_by_chance(public_marks: NDArray[Any], private_rows: int) -> float:
    """The number of private rows that may be in the public data by chance.

    Parameters
    ----------
    public_marks : array of shape (public rows,)
        One mark for every public row; rows of equal content have equal marks.
    private_rows : int
        Number of private rows.

    Returns
    -------
    float
        The share of public rows that equal another public row, times the private rows, with a margin of several
        standard deviations of both counts; infinite without public rows. Two
        tables that are drawn alike and independently stay below it.

    Examples
    --------
    >>> round(most_by_chance(np.arange(1000), 1000), 1)
    8.2
    """
    if not len(public_marks):
        return math.inf
    times = np.unique(public_marks, return_counts=True)[1]
    repeated = int(times[times > 1].sum())
    expected = private_rows / len(public_marks) * (repeated + 5 * math.sqrt(repeated) + 3)
    return expected + 3 * math.sqrt(expected)


def refuse_shared_rows(shared: int, public_marks: NDArray[Any], private_rows: int, *, allow: str) -> None:
    """Refuse private rows that are in the public data more often than chance allows.

    Parameters
    ----------
    shared : int
        Number of private rows whose content, without the target, is that of a public row.
    public_marks, private_rows
        As of `most_by_chance`.
    allow : str
        The option that allows them, as the user writes it.

    Raises
    ------
    InvalidInput
        If `shared` is above `most_by_chance`.

    Notes
    -----
    The refusal depends on private rows. It is for the operator, who is trusted, and nothing of it enters a release.
    """
    most = most_by_chance(public_marks, private_rows)
    if shared > most:
        raise InvalidInput(
            f"{shared:,} of the {private_rows:,} private rows are also in the public data (equal in every column but "
            f"the target), and at most {math.floor(most):,} are expected by chance. The guarantee does not protect "
            f"people whose rows are public. Remove these rows from the public data, or give {allow} if the two tables "
            "are known to share rows."
        )
