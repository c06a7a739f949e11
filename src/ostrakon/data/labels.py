"""Several labels of a row as the target: their public names, and cells or columns as 0 or 1 for each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.classes import SEPARATOR, foreign_labels, labels_in, require_different
from ostrakon.data.frames import as_frame
from ostrakon.validation import InvalidInput, quote

YES, NO = ("1", "yes", "true", "y", "ja", "oui", "si", "sí"), ("0", "no", "false", "n", "nein", "non")
"""What a cell of a column of a label may hold, in any capitals."""
MOST_LABELS = 1000
MOST_OF_TEACHERS = 16
"""Labels that trained teachers vote on: each learns one model for each of them."""


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
        """Return cells such as `a;b`, whose missing ones stand for no label, as 0 or 1, (rows, labels).

        Guarantee: a row of the result depends on its own cell and on the names alone.
        Errors: `InvalidInput` for a label that is not among the names.
        """
        number, codes = {name: at for at, name in enumerate(self.names)}, pd.Series(cells, dtype=object)
        which, different = pd.factorize(codes)
        rows = np.zeros((len(different) + 1, len(self.names)), np.int64)
        foreign, having, times = Counter[str](), 0, np.bincount(which[which >= 0], minlength=len(different)).tolist()
        for at, cell in enumerate(different):
            labels = {label.strip() for label in str(cell).split(SEPARATOR)} - {""}
            rows[at, [number[label] for label in labels if label in number]] = 1
            if unknown := labels - number.keys():
                having += times[at]
                foreign.update(dict.fromkeys(unknown, times[at]))
        if foreign:
            raise InvalidInput(foreign_labels(foreign, len(which), self.not_among, having=having))
        return rows[which]

    @property
    def not_among(self) -> str:
        """The predicate of a refused label."""
        return f"is not among the labels {', '.join(self.names)}; name all of them"


def set_numbers(indicators: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0 or 1 for every label, (rows, labels), as one number for each row, whose bits are the labels.

    >>> set_numbers(np.array([[1, 0, 1], [0, 1, 0]])).tolist()
    [5, 2]
    """
    return indicators @ (1 << np.arange(indicators.shape[1]))


def of_set_numbers(numbers: NDArray[np.int64], labels: int) -> NDArray[np.int64]:
    """Return 0 or 1 for every label, in a last axis, of the numbers of `set_numbers`.

    >>> of_set_numbers(np.array([5, 2]), 3).tolist()
    [[1, 0, 1], [0, 1, 0]]
    """
    return numbers[..., None] >> np.arange(labels) & 1


def labels_named(classes: str | None) -> tuple[str, ...] | None:
    """Return the names in `a;b;c`; None for what is not written so.

    >>> labels_named("a; b;c"), labels_named("a,b")
    (('a', 'b', 'c'), None)
    """
    if classes is None or SEPARATOR not in classes:
        return None
    return tuple(name.strip() for name in classes.split(SEPARATOR))


def labels_of_rows(target: str | None, classes: str | None) -> Labels | None:
    """Return the labels of which a row may have several: columns `a,b,c` of the target, or classes `a;b;c`; None for
    neither.

    Errors: `InvalidInput` for an empty name of a column, and for columns beside classes.
    """
    columns = labels_in(target) or []
    if len(columns) > 1 and "" in columns:
        raise InvalidInput(f"target must name every column, got an empty name in {target!r}.")
    if len(columns) > 1 and classes is not None:
        raise InvalidInput("classes cannot be given with several columns in target: their names are the labels.")
    names = tuple(columns) if len(columns) > 1 else labels_named(classes)
    return None if names is None else Labels(names=names)


def columns_by_name(Y: Any, names: Any) -> Any:
    """Return a frame with the columns in the order of `names`; anything else, and a frame without names, as it is.

    Errors: `InvalidInput` for columns that do not have the names.

    >>> columns_by_name(pd.DataFrame([[1, 0]], columns=["b", "a"]), ["a", "b"]).to_numpy().tolist()
    [[0, 1]]
    """
    if not hasattr(Y, "columns") or len(Y.columns) < 2:
        return Y
    frame = as_frame(Y, "y")
    position, requested = {str(name): at for at, name in enumerate(frame.columns)}, [str(name) for name in names]
    unnamed = isinstance(frame.columns, pd.RangeIndex) and not set(position) & set(requested)
    if not unnamed and sorted(map(str, frame.columns)) != sorted(requested):
        raise InvalidInput(
            f"y must have a column for each label in classes, named like it: {quote(requested)}, got the columns "
            f"{quote(list(frame.columns))}."
        )
    return Y if unnamed else frame.iloc[:, [position[name] for name in requested]]


def require_indicators(Y: Any, names: Sequence[Any]) -> NDArray[np.int64]:
    """Return Y as 0 or 1 for every label, (rows, labels). Errors: `InvalidInput` for another shape, or other values."""
    array = np.asarray(Y)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise InvalidInput(
            f"y must have a column for each of the {len(names)} labels in classes, got the shape {array.shape}."
        )
    bad = ~np.isin(array, (0, 1))
    if bad.any():
        raise InvalidInput(f"y must be 0 or 1 for every label, got {array[bad][0]}.")
    return array.astype(np.int64)
