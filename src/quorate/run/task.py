"""What a run works on: private rows and their labels, the public pool, perhaps a labelled test set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quorate.accounting.statement import Unit
from quorate.checks import InvalidInput
from quorate.students.labelled import row_count

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Data in memory.

    X: private rows. y: their class numbers, shape (rows,), indices into `classes`. classes: labels, public knowledge.
    X_public: public rows, unlabelled. X_test, y_test: labelled rows to measure the student on, or None.
    identity: what says who a row belongs to, one entry per row: values of the user's column, or None, where each row
    is its own unit; unit_column: that column's name. fingerprints: a checksum per data set, compared on resume.

    Errors: `InvalidInput` for lengths that differ, fewer than two classes, an empty pool.
    """

    X: Any
    y: IntArray
    classes: tuple[Any, ...]
    X_public: Any
    X_test: Any = None
    y_test: IntArray | None = None
    identity: NDArray[Any] | None = None
    unit_column: str | None = None
    classes_from: str = "given by the caller"
    fingerprints: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        rows = row_count(self.X)
        if len(self.y) != rows:
            raise InvalidInput(f"y must have one label per private row, {rows}, got {len(self.y)}.")
        if rows == 0:
            raise InvalidInput("The private data must have at least one row, got none.")
        if row_count(self.X_public) == 0:
            raise InvalidInput("The public data must have at least one row, got none.")
        if len(self.classes) < 2:
            raise InvalidInput(f"The target must have at least two different labels, got {list(self.classes)!r}.")
        if self.identity is not None and len(self.identity) != rows:
            raise InvalidInput(f"identity must have one entry per private row, {rows}, got {len(self.identity)}.")

    @property
    def unit(self) -> Unit:
        """What one teacher's change stands for: "record", or "user" where rows are split by an identity."""
        return "record" if self.identity is None else "user"

    @property
    def units(self) -> int:
        """Number of records, or of users where the private data is split by user."""
        return row_count(self.X) if self.identity is None else len(np.unique(self.identity))

    @property
    def pool(self) -> int:
        """Number of public rows."""
        return row_count(self.X_public)


def file_fingerprint(path: Any) -> str:
    """SHA-256 of a file. It depends on every private row: it stays out of `release/`."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
