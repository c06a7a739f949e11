"""Public rows, their labels if any, and the classes: all inputs of a forecast."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.data.classes import agree_on_classes, label_indices
from ostrakon.data.columns import Columns
from ostrakon.data.frames import as_frame
from ostrakon.data.images import holds_images, read_images
from ostrakon.data.label_cells import joined_columns, label_columns
from ostrakon.data.labels import Labels, columns_by_name, require_indicators
from ostrakon.data.quantity import ENDS, Quantity
from ostrakon.data.sources import open_table
from ostrakon.data.table import Table
from ostrakon.data.target import Target, target_of, with_points
from ostrakon.data.task import dropped_columns
from ostrakon.data.text_files import holds_texts, is_lines, require_pictures
from ostrakon.features.rowwise import row_count
from ostrakon.run.inputs.files import refuse_private_folder
from ostrakon.run.inputs.images import rows_of
from ostrakon.run.inputs.texts import open_texts, public_frame_of
from ostrakon.validation import InvalidInput, did_you_mean
from ostrakon.votes import IntArray

MIN_TO_REHEARSE = 40
"""Smallest number of labelled rows with which runs are simulated."""
_UNKNOWN = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicRows:
    """Public rows: a frame, an array, or images.

    y: class numbers, (rows,), or for several labels 0 or 1 for each, (rows, labels), with -1 in rows without a label;
    for a quantity its values, NaN if unknown. classes: their labels; for a quantity, the ends of its range. coding:
    range of a quantity, or several labels of a row.
    """

    X: Any
    y: Any
    classes: tuple[str, ...]
    coding: Quantity | Labels | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return row_count(self.X)

    @property
    def target(self) -> Target:
        """What is predicted."""
        return target_of(self.coding)

    @property
    def zero(self) -> int | None:
        """The position of 0 in the range of a quantity."""
        return self.coding.zero if isinstance(self.coding, Quantity) else None

    @property
    def labelled(self) -> IntArray:
        """Positions of the rows with a label or a value."""
        if self.target == "quantity":
            return np.flatnonzero(np.isfinite(self.y))
        return np.flatnonzero((self.y if self.y.ndim == 1 else self.y[:, 0]) != _UNKNOWN)

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        coding: Quantity | Labels | None = None,
    ) -> "PublicRows":
        """Return public rows from arrays or frames; y: labels, with None for rows without one, or None.

        Errors: `InvalidInput` for different lengths, fewer than two classes, labels that are not among `classes`, and
        for both `classes` and `coding`.
        """
        rows = as_frame(X, "X_public")
        rows = rows if hasattr(rows, "iloc") else np.asarray(rows)
        if rows.ndim < 2:
            raise InvalidInput(f"X_public must be a table or images, got an array of shape {rows.shape}.")
        if coding is not None and classes is not None:
            raise InvalidInput("classes cannot be given with a range or with several labels.")
        if coding is not None:
            return cls.for_target(rows, y, coding)
        if y is None:
            return cls.for_classes(rows, None, classes, what="y_public")
        labels = np.asarray(y, object)
        if labels.ndim != 1 or len(labels) != row_count(rows):
            raise InvalidInput(
                f"y_public must have one label per public row, {row_count(rows)}, got an array of shape {labels.shape}."
            )
        names = [None if missing else str(label) for label, missing in zip(labels, pd.isna(labels), strict=True)]
        return cls.for_classes(rows, names, classes, what="y_public")

    @classmethod
    def for_target(cls, X: Any, known: Any, coding: Quantity | Labels) -> "PublicRows":
        """Return public rows for a quantity or several labels.

        known: values of the quantity, with None for rows without one; or cells such as `a;b`, with None for rows
        without labels; or 0 and 1 in a column for each label; or None.
        Errors: `InvalidInput` for another number of rows, and for invalid values or labels.
        """
        rows, cells = row_count(X), None if known is None else np.asarray(known, object)
        if cells is not None and len(cells) != rows:
            raise InvalidInput(f"y_public must have a value or set of labels per public row, {rows}, got {len(cells)}.")
        where = np.flatnonzero([] if cells is None else ~pd.isna(cells).reshape(rows, -1).any(axis=1))
        if isinstance(coding, Quantity):
            y = np.full(rows, np.nan)
            y[where] = [] if cells is None else coding.numbers(pd.Series(cells[where], dtype=object))
            return cls(X=X, y=y, classes=ENDS, coding=coding)
        y = np.full((rows, len(coding.names)), _UNKNOWN, np.int64)
        if cells is not None and cells.ndim > 1:
            known = np.asarray(columns_by_name(known, coding.names), object)
            y[where] = require_indicators(known[where], coding.names)
        elif cells is not None and len(where):
            y = coding.indicators(cells)
        return cls(X=X, y=y, classes=coding.names, coding=coding)

    @classmethod
    def for_classes(
        cls, X: Any, labels: Sequence[str | None] | None, classes: Sequence[Any] | None, *, what: str
    ) -> "PublicRows":
        """Return public rows with labels that are text; what: name of the labels in messages. Errors: as `of`."""
        names = None if classes is None else [str(label) for label in classes]
        known = sorted({label for label in labels or () if label is not None})
        if names is not None and not 1 < len(names) == len(set(names)):
            raise InvalidInput(f"classes must be at least 2 different labels, got {names}.")
        if names is None and len(known) < 2:
            have = f"one label alone, {known[0]!r}, of the target {what!r}" if known else "no labels"
            raise InvalidInput(
                f"The public data have {have}; name all classes with --classes, or give the --range of a quantity."
            )
        counts: dict[str | None, int] = dict.fromkeys(known if names is None else names, 1)
        names, _ = agree_on_classes(counts, known, names, target=what, public="the public data")
        numbers = np.full(row_count(X), _UNKNOWN, np.int64)
        where = [row for row, label in enumerate(labels or ()) if label is not None]
        if where and labels is not None:
            numbers[where] = label_indices([labels[row] for row in where], names)
        return cls(X=X, y=numbers, classes=names)


def read_public(
    path: Any,
    *,
    target: str | None = None,
    by: str | None = None,
    classes: Sequence[str] | None = None,
    text: bool = False,
    drop: Sequence[str] = (),
    coding: Quantity | Labels | None = None,
) -> PublicRows:
    """Return the public table, images or texts in a file or folder; a table without labels has no target.

    text: whether free text is read from a table. by: the column of users, not a feature. drop: columns to leave
    out. coding: see `PublicRows`. With `classes` and without a target, a .txt file has one text per line.

    Errors: `InvalidInput` for unreadable files, neither labels nor classes, a target that is a quantity or is missing,
    and a file of a run's private folder.
    """
    refuse_private_folder(path)
    if isinstance(coding, Quantity) and classes is not None:
        raise InvalidInput("range cannot be given with classes: a quantity has a range.")
    if Path(path).exists() and holds_images(path):
        require_pictures(path)
        images = read_images(path, target=target, coding=coding)
        rows, known = rows_of(images), images.labels
    elif holds_texts(path) or (is_lines(path) and target is None and (classes is not None or coding is not None)):
        texts = open_texts(path)
        rows, known = public_frame_of(texts), texts.labels
    else:
        options: Any = {"by": by, "text": text, "drop": drop, "coding": coding}
        rows, known, target = _rows_of_table(path, target, needed=classes is None and coding is None, **options)
    if coding is not None:
        return PublicRows.for_target(rows, known, coding)
    names = None if known is None else [None if label is None else str(label) for label in known]
    return PublicRows.for_classes(rows, names, classes, what="label" if target is None else target)


def _rows_of_table(
    path: Any,
    target: str | None,
    *,
    needed: bool,
    by: str | None,
    text: bool,
    drop: Sequence[str],
    coding: Quantity | Labels | None,
) -> tuple[Any, Any, str | None]:
    """Return (public rows, their labels or None, the name of the target). needed: whether a target is required."""
    table = open_table(path)
    if needed and target is None:
        raise InvalidInput(
            "--target must be given: the column to predict. If the public rows have no labels, name all classes with "
            "--classes, or give the --range of a quantity."
        )
    parts = () if target is None else label_columns(target, coding)
    columns = [_target_column(table, one) for one in parts or (() if target is None else (target,))]
    name = target if parts or not columns else columns[0]
    owner = None if by is None else _column(table, by, what="column of users")
    dropped = dropped_columns(drop, table, required=(name, owner, *parts))
    features = [column for column in table.columns if column not in (name, owner, *parts, *dropped)]
    if not features:
        raise InvalidInput(f"{path} has no column to learn from{'' if name is None else f' beside {name!r}'}.")
    frame = table.read(features)
    kinds = Columns.of(frame, text=text)
    if parts:
        table = joined_columns(table, parts, ",".join(parts))
    known = None if name is None else list(with_points(table, name, coding, kinds).labels(name))
    return kinds.apply(frame), known, name


def _target_column(table: Table, target: str) -> str:
    """Return the name of a column from its name or position."""
    try:
        return table.column(target, what="target column")
    except InvalidInput as refused:
        if did_you_mean(target, table.columns):
            raise
        raise InvalidInput(
            f"{refused} If the public rows have no labels, leave --target out, and name all classes with --classes or "
            "give the --range of a quantity."
        ) from None


def _column(table: Table, name: str, *, what: str) -> str:
    """Return the name of a column from its name or position; an unknown name is returned unchanged."""
    known = name in table.columns or name.lstrip("-").isdigit()
    return table.column(name, what=what) if known else name
