"""What is known before anything private is looked at: public rows, perhaps with labels, and the classes."""

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
from ostrakon.data.target import Target, target_of
from ostrakon.data.task import dropped_columns
from ostrakon.data.text_files import holds_texts, is_lines, require_pictures
from ostrakon.features.rowwise import row_count
from ostrakon.run.inputs.files import refuse_private_folder, require_target
from ostrakon.run.inputs.images import rows_of
from ostrakon.run.inputs.texts import open_texts, public_frame_of
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray

FEWEST_TO_REHEARSE = 40
"""Labelled rows below which no part of them would be large enough to play with."""
_UNKNOWN = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicRows:
    """Public rows: a frame, an array, or images.

    y: class numbers, (rows,); of several labels 0 or 1 for each, (rows, labels); -1 in a row without a label. Of a
    quantity its values, NaN where there is none. classes: their labels; of a quantity, its ends. read_by: the range of
    a quantity, or several labels of a row.
    """

    X: Any
    y: Any
    classes: tuple[str, ...]
    read_by: Quantity | Labels | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return row_count(self.X)

    @property
    def target(self) -> Target:
        """What is predicted."""
        return target_of(self.read_by)

    @property
    def labelled(self) -> IntArray:
        """Positions of the rows that have a label, or a value."""
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
        read_by: Quantity | Labels | None = None,
    ) -> "PublicRows":
        """From arrays or frames; y: labels, None among them for rows without one, or no labels at all.

        read_by: the range of a quantity, or several labels of a row.
        Errors: `InvalidInput` for lengths that differ, fewer than two classes, labels that are not among `classes`,
        and classes beside a range or several labels.
        """
        rows = as_frame(X, "X_public")
        rows = rows if hasattr(rows, "iloc") else np.asarray(rows)
        if rows.ndim < 2:
            raise InvalidInput(f"X_public must be a table or images, got an array of shape {rows.shape}.")
        if read_by is not None and classes is not None:
            raise InvalidInput("classes cannot be given with a range or with several labels.")
        if read_by is not None:
            return cls.other(rows, y, read_by)
        if y is None:
            return cls.named(rows, None, classes, what="y_public")
        given = np.asarray(y, object)
        if given.ndim != 1 or len(given) != row_count(rows):
            raise InvalidInput(
                f"y_public must have one label per public row, {row_count(rows)}, got an array of shape {given.shape}."
            )
        named = [None if none else str(label) for label, none in zip(given, pd.isna(given), strict=True)]
        return cls.named(rows, named, classes, what="y_public")

    @classmethod
    def other(cls, X: Any, known: Any, read_by: Quantity | Labels) -> "PublicRows":
        """Public rows for a quantity or several labels.

        known: values of the quantity, None among them for rows without one; or cells such as `a;b`, where None is a row
        with none of the labels, or 0 and 1 with a column for each; None if nothing is known.
        Errors: `InvalidInput` for another number of rows, and for what is not a value or a label.
        """
        rows, given = row_count(X), None if known is None else np.asarray(known, object)
        if given is not None and len(given) != rows:
            raise InvalidInput(f"y_public must have a value or set of labels per public row, {rows}, got {len(given)}.")
        where = np.flatnonzero([] if given is None else ~pd.isna(given).reshape(rows, -1).any(axis=1))
        if isinstance(read_by, Quantity):
            y = np.full(rows, np.nan)
            y[where] = [] if given is None else read_by.numbers(pd.Series(given[where], dtype=object))
            return cls(X=X, y=y, classes=ENDS, read_by=read_by)
        y = np.full((rows, len(read_by.names)), _UNKNOWN, np.int64)
        if given is not None and given.ndim > 1:
            known = np.asarray(columns_by_name(known, read_by.names), object)
            y[where] = require_indicators(known[where], read_by.names)
        elif given is not None and len(where):
            y = read_by.indicators(given)
        return cls(X=X, y=y, classes=read_by.names, read_by=read_by)

    @classmethod
    def named(
        cls, X: Any, labels: Sequence[str | None] | None, classes: Sequence[Any] | None, *, what: str
    ) -> "PublicRows":
        """As `of`, from labels that are text; what: the name of the labels in messages."""
        given = None if classes is None else [str(label) for label in classes]
        known = sorted({label for label in labels or () if label is not None})
        if given is not None and not 1 < len(given) == len(set(given)):
            raise InvalidInput(f"classes must be at least 2 different labels, got {given}.")
        if given is None and len(known) < 2:
            seen = f"one label alone, {known[0]!r}," if known else "no labels"
            raise InvalidInput(
                f"The target {what!r} has {seen} in the public data; name all classes with --classes, or give the "
                "--range of a quantity."
            )
        counts: dict[str | None, int] = dict.fromkeys(known if given is None else given, 1)
        names, _ = agree_on_classes(counts, known, given, target=what, public="the public data")
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
    read_by: Quantity | Labels | None = None,
) -> PublicRows:
    """The public table, images or texts in a file or folder; a table without labels has no target.

    text: whether free text is read from a table. by: the column of users; where it is there, nothing is learned from
    it. drop: columns to leave out. read_by: as of `PublicRows.of`. A .txt file is one of a text a line where `classes`
    are given and no target is.

    Errors: `InvalidInput` in one sentence: what cannot be read, no labels and no classes, a target that is a quantity
    or that the table lacks, a file of a run's private folder.
    """
    refuse_private_folder(path)
    if isinstance(read_by, Quantity) and classes is not None:
        raise InvalidInput("range cannot be given with classes: a quantity has a range.")
    if Path(path).exists() and holds_images(path):
        require_pictures(path)
        images = read_images(path, target=target, read_by=read_by)
        rows, known = rows_of(images), images.labels
    elif holds_texts(path) or (is_lines(path) and target is None and (classes is not None or read_by is not None)):
        texts = open_texts(path)
        rows, known = public_frame_of(texts), texts.labels
    else:
        given: Any = {"by": by, "text": text, "drop": drop, "read_by": read_by}
        rows, known, target = _rows_of_table(path, target, needed=classes is None and read_by is None, **given)
    if read_by is not None:
        return PublicRows.other(rows, known, read_by)
    named = None if known is None else [None if label is None else str(label) for label in known]
    return PublicRows.named(rows, named, classes, what="label" if target is None else target)


def _rows_of_table(
    path: Any,
    target: str | None,
    *,
    needed: bool,
    by: str | None,
    text: bool,
    drop: Sequence[str],
    read_by: Quantity | Labels | None,
) -> tuple[Any, Any, str | None]:
    """(public rows, their labels or None, the name of the target). needed: whether there must be one."""
    table = open_table(path)
    if needed:
        target = require_target(target)
    parts = () if target is None else label_columns(target, read_by)
    columns = [_target_column(table, one) for one in parts or (() if target is None else (target,))]
    name = target if parts or not columns else columns[0]
    owner = None if by is None else _column(table, by, what="column of users")
    dropped = dropped_columns(drop, table, kept=(name, owner, *parts))
    features = [column for column in table.columns if column not in (name, owner, *parts, *dropped)]
    if not features:
        raise InvalidInput(f"{path} has no column to learn from{'' if name is None else f' beside {name!r}'}.")
    frame = table.read(features)
    if parts:
        table = joined_columns(table, parts, ",".join(parts))
    known = None if name is None else list(table.labels(name))
    return Columns.of(frame, text=text).apply(frame), known, name


def _target_column(table: Table, target: str) -> str:
    """The name of a column that is given by its name or its position."""
    try:
        return table.column(target, what="target column")
    except InvalidInput as refused:
        raise InvalidInput(
            f"{refused} If the public rows have no labels, leave --target out, and name all classes with --classes or "
            "give the --range of a quantity."
        ) from None


def _column(table: Table, given: str, *, what: str) -> str:
    """The name of a column that is given by its name or its position; an unknown name is returned as it is."""
    known = given in table.columns or given.lstrip("-").isdigit()
    return table.column(given, what=what) if known else given
