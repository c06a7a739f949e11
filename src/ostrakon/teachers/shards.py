"""The private data as one shard per teacher, read one shard at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ostrakon.data.columns import Columns
from ostrakon.data.labels import Labels, set_numbers
from ostrakon.data.quantity import Quantity
from ostrakon.data.sharding import ShardFolder, ShardPart
from ostrakon.data.target import learned_numbers
from ostrakon.data.task import TableTask
from ostrakon.features.rowwise import take_rows
from ostrakon.validation import InvalidInput, whole


class Part(Protocol):
    """The rows of some teachers, cheap to send to a worker that loads them."""

    def load(self) -> list[tuple[Any, NDArray[np.int64]]]:
        """Return the rows and their class indices, teacher by teacher."""
        ...


class Shards(Protocol):
    """The private data, one shard per teacher."""

    classes: NDArray[Any]
    n_teachers: int
    sizes: NDArray[np.int64]

    def part(self, teachers: range) -> Part:
        """Return the shards of some teachers."""
        ...


@dataclass(frozen=True)
class ArrayPart:
    """Rows that are already in memory."""

    rows: list[tuple[Any, NDArray[np.int64]]]

    def load(self) -> list[tuple[Any, NDArray[np.int64]]]:
        """Return the rows and their class indices, teacher by teacher."""
        return self.rows


class ArrayShards:
    """Shards of arrays in memory.

    Parameters
    ----------
    X : array
        Rows.
    y : array-like, shape (rows,)
        Labels.
    assignment : array-like of int, shape (rows,)
        The teacher of every row, such as `assign_teachers` gives.
    n_teachers : int
        At least 1.
    classes : array-like or int
        All labels; a number m means the labels 0 to m - 1.

    Raises
    ------
    InvalidInput
        For lengths that differ, labels that are not in `classes`, more teachers than rows, and an assignment that names
        teachers that do not exist.
    """

    def __init__(
        self, X: Any, y: ArrayLike, assignment: ArrayLike, *, n_teachers: int, classes: ArrayLike | int
    ) -> None:
        self.classes = class_list(classes)
        self.n_teachers = whole("n_teachers", n_teachers, at_least=1)
        self.X = X if hasattr(X, "shape") else np.asarray(X)
        self.y = class_indices(y, self.classes)
        teachers = np.asarray(assignment)
        rows = self.X.shape[0]
        if not rows == len(self.y) == len(teachers) or teachers.ndim != 1:
            raise InvalidInput(
                f"X, y and assignment must have one entry per row, got {rows}, {len(self.y)} and {len(teachers)}."
            )
        if teachers.dtype.kind not in "iu" or (rows and not 0 <= teachers.min() <= teachers.max() < self.n_teachers):
            raise InvalidInput(f"assignment must be integers from 0 to {self.n_teachers - 1}, one per row.")
        if self.n_teachers > rows:
            raise InvalidInput(f"n_teachers must be at most {rows}, the number of private rows, got {self.n_teachers}.")
        self.sizes = np.bincount(teachers, minlength=self.n_teachers).astype(np.int64)
        self._order = np.argsort(teachers, kind="stable")
        self._start = np.concatenate([[0], np.cumsum(self.sizes)])

    def part(self, teachers: range) -> ArrayPart:
        """Return the rows of some teachers, in the order of the data."""
        chosen = [self._order[self._start[index] : self._start[index + 1]] for index in teachers]
        return ArrayPart([(take_rows(self.X, rows), self.y[rows]) for rows in chosen])


@dataclass(frozen=True, kw_only=True)
class TablePart:
    """Rows on disk: their files, and how they are read."""

    shards: ShardPart
    columns: Columns
    target: str
    classes: tuple[str, ...] | Quantity | Labels
    transform: Callable[[Any], Any] | None

    def load(self) -> list[tuple[Any, NDArray[np.int64]]]:
        """Return the rows, transformed, and their class indices, teacher by teacher."""
        shards = [self._typed(rows) for rows in self.shards.read()]
        if not any(len(labels) for _, labels in shards):
            return shards
        # One transform for all, because it takes as long for a few rows as for thousands; then a separate array for
        # every teacher, so that its position in memory does not depend on the rows of others.
        X = pd.concat([rows for rows, labels in shards if len(labels)])
        X = X if self.transform is None else self.transform(X)
        ends = np.cumsum([len(labels) for _, labels in shards])
        return [
            (take_rows(X, np.arange(end - len(labels), end)) if len(labels) else rows, labels)
            for (rows, labels), end in zip(shards, ends, strict=True)
        ]

    def _typed(self, rows: pd.DataFrame) -> tuple[Any, NDArray[np.int64]]:
        """Return the typed columns and class indices of one teacher, so that rows of others do not change the types."""
        if not len(rows):
            return np.empty((0, 1)), np.empty(0, np.int64)
        labels = learned_numbers(rows[self.target], self.classes)
        return self.columns.apply(rows), labels if labels.ndim == 1 else set_numbers(labels)


class TableShards:
    """Shards of a partitioned table, each read by the worker that trains on it.

    Parameters
    ----------
    folder : ShardFolder
        From `TableTask.partition`.
    task : TableTask
    transform : callable, optional
        From typed columns to the inputs of the teachers, such as `Representation.transform`.

    Notes
    -----
    `transform` must be learned from public data and treat every row independently, to the last bit.
    """

    def __init__(self, folder: ShardFolder, task: TableTask, *, transform: Callable[[Any], Any] | None = None) -> None:
        self.classes = np.array(task.classes)
        self.n_teachers = folder.n_teachers
        self.sizes = folder.sizes
        self._folder, self._task, self._transform = folder, task, transform

    def part(self, teachers: range) -> TablePart:
        """Return the rows of some teachers, not yet read."""
        task = self._task
        return TablePart(
            shards=self._folder.part(teachers),
            columns=task.columns,
            target=task.target,
            classes=task.coding or task.classes,
            transform=self._transform,
        )


def require_rows(shards: Shards, empty: str) -> NDArray[np.int64]:
    """Return the number of rows of every teacher; refuse teachers without rows unless `empty` is "abstain"."""
    sizes = np.asarray(shards.sizes)
    no_rows = np.flatnonzero(sizes == 0)
    if len(no_rows) and empty == "refuse":
        raise InvalidInput(
            f"{len(no_rows)} of {len(sizes)} teachers have no rows (teacher {no_rows[0]} is the first); use fewer "
            "teachers, or let them abstain."
        )
    return sizes


def class_list(classes: ArrayLike | int) -> NDArray[Any]:
    """Return the labels as an array without repetitions; a number m means the labels 0 to m - 1."""
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        return np.arange(whole("classes", classes, at_least=2))
    labels = np.asarray(classes)
    if labels.ndim != 1 or len(labels) < 2 or len(np.unique(labels)) != len(labels):
        raise InvalidInput(f"classes must be a list of at least 2 different labels, got {classes!r}.")
    return labels


def class_indices(y: ArrayLike, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return labels as indices into `classes`. Raises `InvalidInput` for a label that is not listed."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise InvalidInput(f"y must have the shape (rows,), got {labels.shape}.")
    order = np.argsort(classes, kind="stable")
    try:
        position = np.searchsorted(classes, labels, sorter=order).clip(0, len(classes) - 1)
        indices = order[position]
        unknown = classes[indices] != labels
    except TypeError:
        raise InvalidInput(f"y must hold labels like {classes[0]!r}, got values of type {labels.dtype}.") from None
    if np.any(unknown):
        raise InvalidInput(f"y holds the label {labels[unknown][0]!r}, which is not among the classes {list(classes)}.")
    return indices.astype(np.int64)
