"""Several labels of a row as the target: their public names, and cells or columns as 0 or 1 for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.classes import require_different
from ostrakon.validation import InvalidInput, shown

SEPARATOR = ";"
"""Between the labels in one cell, and between their names in `--classes a;b;c`."""
YES, NO = ("1", "yes", "true"), ("0", "no", "false")
"""What a cell of a column of a label may hold, in any capitals."""
MOST_LABELS = 1000


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The public names of the labels that a row may have, none, one or several of them.

    Parameters
    ----------
    names : tuple of str
        2 to 1,000 different names, none with a semicolon.

    Raises
    ------
    InvalidInput
        For names that are not so.

    Examples
    --------
    >>> Labels(names=("a", "b", "c")).indicators(["a;c", None, "b"]).tolist()
    [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        require_different(self.names)
        if len(self.names) > MOST_LABELS:
            raise InvalidInput(f"classes must be at most {MOST_LABELS} labels of rows, got {len(self.names)}.")
        wrong = next((name for name in self.names if SEPARATOR in name), None)
        if wrong is not None:
            raise InvalidInput(f"classes must be labels without a semicolon, which is between two, got {wrong!r}.")

    def indicators(self, cells: Any) -> NDArray[np.int64]:
        """Cells such as `a;b`, whose missing ones stand for no label, as 0 or 1, (rows, labels).

        Guarantee: a row of the result depends on its own cell and on the names alone.
        Errors: `InvalidInput` for a label that is not among the names.
        """
        number, codes = {name: at for at, name in enumerate(self.names)}, pd.Series(cells, dtype=object)
        which, different = pd.factorize(codes)
        rows = np.zeros((len(different) + 1, len(self.names)), np.int64)
        for at, cell in enumerate(different):
            for label in str(cell).split(SEPARATOR):
                if label.strip() and label.strip() not in number:
                    raise InvalidInput(
                        f"The label {label.strip()!r} is not among the labels {', '.join(self.names)}; name all with "
                        f"--classes {shown(SEPARATOR.join(self.names[:2]) + '…')}."
                    )
                if label.strip():
                    rows[at, number[label.strip()]] = 1
        return rows[which]


def labels_named(classes: str | None) -> tuple[str, ...] | None:
    """The names in `a;b;c`; None for what is not written so.

    >>> labels_named("a; b;c"), labels_named("a,b")
    (('a', 'b', 'c'), None)
    """
    if classes is None or SEPARATOR not in classes:
        return None
    return tuple(name.strip() for name in classes.split(SEPARATOR))


def require_indicators(Y: Any, names: Sequence[Any]) -> NDArray[np.int64]:
    """Y as 0 or 1 for every label, (rows, labels). Errors: `InvalidInput` for another shape, or other values."""
    given = np.asarray(Y)
    if given.ndim != 2 or given.shape[1] != len(names):
        raise InvalidInput(
            f"y must have a column for each of the {len(names)} labels in classes, got the shape {given.shape}."
        )
    bad = ~np.isin(given, (0, 1))
    if bad.any():
        raise InvalidInput(f"y must be 0 or 1 for every label, got {given[bad][0]}.")
    return given.astype(np.int64)
