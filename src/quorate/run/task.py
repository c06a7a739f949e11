"""What a run works on: private rows and their labels, the public pool, perhaps a labelled test set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quorate.accounting.statement import Unit
from quorate.checks import InvalidInput
from quorate.students.labelled import row_count
from quorate.teachers.one_teacher import fingerprint_of

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Data in memory.

    X: private rows. y: their class numbers, shape (rows,), indices into `classes`. classes: labels, public knowledge.
    X_public: public rows, unlabelled. X_test, y_test: labelled rows to measure the student on, or None.
    identity: what decides a row's teacher: user numbers, one per row, where `unit` is "user"; whole records (a frame or
    array with as many rows) or None, which stands for X, where it is "record". unit_column: its name. fixed: rows
    are split at random by their place instead, for a table whose number of rows is public.
    fingerprints: a checksum per data set, compared on resume.

    Errors: `InvalidInput` for lengths that differ, fewer than two classes, an empty pool.
    """

    X: Any
    y: IntArray
    classes: tuple[Any, ...]
    X_public: Any
    X_test: Any = None
    y_test: IntArray | None = None
    identity: Any = None
    unit: Unit = "record"
    fixed: bool = False
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
        if self.unit not in ("record", "user") or (self.unit == "user" and self.identity is None):
            raise InvalidInput(f"unit must be 'record', or 'user' with an identity for every row, got {self.unit!r}.")
        if self.fixed and self.unit == "user":
            raise InvalidInput("A random split cannot protect users: split by the users' identity instead.")
        if self.identity is not None and row_count(self.identity) != rows:
            raise InvalidInput(f"identity must have one entry per private row, {rows}, got {len(self.identity)}.")

    @property
    def units(self) -> int:
        """Number of records, or of users where the private data is split by user."""
        return row_count(self.X) if self.unit == "record" else int(pd.Series(self.identity).nunique(dropna=False))

    @property
    def pool(self) -> int:
        """Number of public rows."""
        return row_count(self.X_public)


def task_from_dataset(data: Any) -> Task:
    """A task from one of `quorate.datasets`; its public labels are left behind."""
    parts = {"private": (data.X, data.y), "public": (data.X_public,), "test": (data.X_test, data.y_test)}
    return Task(
        X=data.X,
        y=data.y,
        classes=data.classes,
        X_public=data.X_public,
        X_test=data.X_test,
        y_test=data.y_test,
        classes_from="the definition of the task",
        fingerprints={name: fingerprint_of(*arrays) for name, arrays in parts.items()},
    )
