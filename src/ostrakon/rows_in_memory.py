"""Private rows in memory beside the public ones: what is refused, and what is warned of."""

import warnings
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.data.changed_rows import refuse_changed_rows
from ostrakon.data.columns import (
    Columns,
    Kind,
    is_text,
    kind_of,
    require_same_types,
    typed,
    with_floats,
    word,
    written_as_text,
)
from ostrakon.data.domain import Domain
from ostrakon.data.frames import as_frame, require_real
from ostrakon.data.identity import row_marks
from ostrakon.data.images import require_same_scale
from ostrakon.data.outside_range import in_words, is_standardised, outside_memory
from ostrakon.data.owners import likely_owners
from ostrakon.data.shared_rows import CountedRows, compared_columns, refuse_shared_rows
from ostrakon.data.understood import Understood, columns_in_words
from ostrakon.features.text import holds_text_alone, reads_text
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.validation import InvalidInput, quote


class OutsidePublicRange(UserWarning):
    """Private values look wrong beside the public ones: another unit, or an identifier. The message is private."""


class LeftOut(UserWarning):
    """A public column that names or numbers the rows is not learned from."""


class ReadAsMissing(UserWarning):
    """Some public cells of a column of numbers or dates are neither, and count as missing."""


class ReadAsCategories(UserWarning):
    """Public text that is nearly unique is read as categories, which are released."""


_FIRST = 100
"""Rows of a column that are compared first, because few columns are equal there."""
_FEW, _NEARLY = 20, 0.9
"""Different values up to which text is taken for categories; the share of different values that is nearly all."""
RECIPE = (
    "Pipeline([('scale', FrozenEstimator(scaler.fit(X_public))), ('pate', model.set_fit_request(X_public=True))], "
    "transform_input=['X_public']).fit(X, y, X_public=X_public)"
)
"""A scaler that learns from public rows before an estimator."""
_SCALED = (
    "The steps of a Pipeline learn from X and leave X_public as it is. Fit them on public rows instead, after "
    f"sklearn.set_config(enable_metadata_routing=True): {RECIPE}. What else fit takes, such as users, set_fit_request "
    "names, too."
)


def warn_outside(given: Any, task: Task, *, X: Any, X_public: Any) -> None:
    """Warn of private values that look wrong beside the public ones (`OutsidePublicRange`).

    given: the private rows as they were read. X, X_public: as `fit` got them, with the columns that were left out.
    """
    assert isinstance(task.private, Rows)
    users, public = task.private.users, task.X_public
    names = {str(name) for name in given.columns} if hasattr(given, "iloc") else None
    for sentence in _remarks(_whole(given, X), _whole(public, X_public), used=names, users=users):
        warnings.warn(sentence, OutsidePublicRange, stacklevel=3)


def _whole(read: Any, given: Any) -> Any:
    """Return a frame that was read, and its columns that were left out."""
    if not hasattr(read, "iloc"):
        return read
    rows = as_frame(given)
    return pd.concat([read, rows[[name for name in rows.columns if name not in read.columns]]], axis=1)


def as_written(private: Any, public: Any, representation: Any) -> tuple[Any, Any, Columns]:
    """Return (private rows, public rows, kinds of the columns that were read), reading text as a file's reader does.

    A column is read, or left out with a warning (`LeftOut`), if `written_as_text` says so of the public one. Public
    cells that are then missing are warned of (`ReadAsMissing`). Anything but two frames stays as it is, apart from
    large numbers (`with_floats`).
    Guarantee: a private cell is read alone, in a form that public cells decide.
    Errors: `InvalidInput` for a private column of another type than the public one.
    """
    private = with_floats(private, public)
    if not (hasattr(private, "iloc") and hasattr(public, "iloc")):
        return private, public, Columns({})
    columns = written_as_text(public, text=isinstance(representation, str) and reads_text(representation))
    if not columns.kinds:
        return private, public, columns
    require_same_types(private, public)
    for name in columns.left_out:
        sentence = (
            f"{name!r} is left out: in X_public it is {columns.notes[name].partition(';')[0]}. If it says whose a row "
            "is, give it as users; if it is a quantity, give the column another name, or X and X_public as arrays."
        )
        warnings.warn(sentence, LeftOut, stacklevel=4)
    for name in columns.kept:
        if name in columns.notes:
            warnings.warn(f"{name!r}: {columns.notes[name]}.", ReadAsMissing, stacklevel=4)
    read = [_read(rows, columns) for rows in (private, public)] if private is not public else [_read(public, columns)]
    return read[0], read[-1], columns


def _read(rows: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    cells = {name: rows[name] for name in rows.columns if str(name) not in columns.left_out}
    for name in cells:
        if str(name) in columns.kinds:
            given = rows[name].astype(object)
            # A list in a cell would stop pandas: it counts as missing.
            given = given.where(given.map(pd.api.types.is_scalar), None)
            cells[name] = typed(given, columns.kinds[str(name)])
    return pd.DataFrame(cells, index=rows.index)


def understood_frame(public: Any, columns: Columns, representation: Any) -> Understood:
    """Return how the columns of a frame were read; of arrays nothing is to be said. columns: as of `as_written`."""
    if not hasattr(public, "iloc") or public.columns.has_duplicates:
        return Understood()
    text = isinstance(representation, str) and reads_text(representation)
    kinds: dict[str, Kind] = {str(name): _kind(public[name], text=text) for name in public.columns}
    return Understood(facts=columns_in_words(Columns({**kinds, **columns.kinds}, columns.notes)))


def _kind(column: pd.Series, *, text: bool) -> Kind:
    """Return the kind of a public column that is as its type says."""
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "date"
    if pd.api.types.is_bool_dtype(column.dtype):
        return "category"
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        return "number"
    return "text" if text and is_text(column) else "category"


def warn_of_text(public: Any, representation: Any) -> None:
    """Warn of text columns of a public frame that are probably not categories (`ReadAsCategories`)."""
    if not hasattr(public, "iloc") or not isinstance(representation, str) or holds_text_alone(public):
        return
    for at, name in enumerate(public.columns):
        column = public.iloc[:, at]
        if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
            sentence = _text_remark(str(name), typed(column, "category"), text=reads_text(representation))
            if sentence is not None:
                warnings.warn(sentence, ReadAsCategories, stacklevel=4)


def _text_remark(name: str, column: pd.Series, *, text: bool) -> str | None:
    kind, distinct_count, rows = kind_of(column, text=text), column.nunique(), int(column.notna().sum())
    if kind == "text" or distinct_count <= _FEW:
        return None
    if kind != "left out" and distinct_count <= _NEARLY * rows:
        return None
    return (
        f"{name!r} of X_public is text with {distinct_count:,} different values in {rows:,} rows, which are read as "
        "categories, and student.json lists all of them. If it is an identifier or free text, leave it out of X and "
        "X_public."
    )


def require_apart(private: Any, public: Any) -> None:
    """Refuse private rows that are in the public data, above chance."""
    pairs = [(private, public)]
    if np.ndim(public) == 2 and not hasattr(public, "tocsr"):
        here, there = (rows if hasattr(rows, "iloc") else pd.DataFrame(rows) for rows in (private, public))
        here, there = (frame.set_axis([str(name) for name in frame.columns], axis=1) for frame in (here, there))
        if set(here.columns) == set(there.columns):
            pairs = [(here[names], there[names]) for names in compared_columns(there)]
    for ours, theirs in pairs:
        marks = row_marks(theirs, rounded=True)
        refuse_shared_rows(CountedRows.of(row_marks(ours, rounded=True)), marks, allow="allow_shared_rows=True")
    if np.ndim(public) > 1 and not hasattr(public, "tocsr"):
        refuse_changed_rows(*pairs[-1], allow="allow_shared_rows=True")


def refuse_column_of_users(private: Any, users: Any) -> None:
    """Refuse a table with a column of users: it would be learned from, and its public values released.

    users: the user of every row, or None.
    """
    if users is None or np.ndim(private) != 2 or len(private) != len(users):
        return
    frame = private if hasattr(private, "iloc") else pd.DataFrame(private)
    for at, name in enumerate(frame.columns):
        column = frame.iloc[:, at]
        if all(_same(column.iloc[:rows], users[:rows]) for rows in (_FIRST, len(users))):
            raise InvalidInput(
                f"The column {name!r} of X names the user of each row, as users does, and cannot be learned from: "
                "leave it out of X and X_public."
            )


def _same(column: pd.Series, users: Any) -> bool:
    return list(map(word, column)) == list(map(word, np.asarray(users).tolist()))


def _remarks(private: Any, public: Any, *, used: set[str] | None, users: Any) -> list[str]:
    """Sentences on columns that look like identifiers or leave the public range. used: learned from; None: all."""
    outside, owners = outside_memory(private, public), list[str]()
    if users is None and hasattr(private, "iloc") and hasattr(public, "iloc"):
        columns = {str(name): private[name] for name in private.columns}
        owners = likely_owners(public, outside, lambda name: columns[name].nunique() / max(len(private), 1))
    sentences = [
        f"{name!r} looks like an identifier with several rows each, and only single rows are protected: "
        f"users=X[{name!r}] protects all rows of each; leave the column out of X."
        for name in owners
    ]
    if is_standardised(private):
        sentences.append(
            "Every column of X has mean 0 and standard deviation 1: a scaler seems to have learned from private rows, "
            f"which the guarantee does not cover. {_SCALED}"
        )
    beyond = {name: share for name, share in outside.items() if name not in owners and (used is None or name in used)}
    far = in_words(beyond, public_rows=len(public))
    return sentences if far is None else [*sentences, f"{far} {_SCALED}"]


def require_described(X: Any, domain: Domain) -> None:
    """Refuse X unless it is a frame with exactly the described columns."""
    if not hasattr(X, "iloc") or {str(name) for name in X.columns} != set(domain.names):
        present = ", ".join(map(str, X.columns)) if hasattr(X, "iloc") else type(X).__name__
        raise InvalidInput(
            f"X must be a frame with exactly the described columns, {', '.join(domain.names)}; got {present}."
        )


def require_different_rows(public: Any) -> None:
    """Refuse public rows of a table that are all equal, of which nothing can be learned, and cells of several values.

    >>> require_different_rows(np.ones((3, 2)))
    Traceback (most recent call last):
    ...
    ostrakon.validation.InvalidInput: X_public must have rows that differ, got 3 equal ones.
    """
    if np.ndim(public) != 2 or (isinstance(public, np.ndarray) and public.dtype.hasobject):
        return
    frame = pd.DataFrame(public)
    for name, kind in frame.dtypes.items():
        cells = frame[name] if pd.api.types.is_object_dtype(kind) else ()
        several = next((cell for cell in cells if not pd.api.types.is_scalar(cell)), None)
        if several is not None:
            raise InvalidInput(f"The column {name!r} of X_public must have one value in a cell, got {quote(several)}.")
    if len(frame) > 1 and all(frame[name].nunique(dropna=False) == 1 for name in frame):
        raise InvalidInput(f"X_public must have rows that differ, got {len(frame)} equal ones.")


def require_same_images(private: Any, public: Any) -> None:
    """Refuse public images of another shape or scale; anything else passes."""
    if max(np.ndim(private), np.ndim(public)) < 3:
        return
    if np.shape(public)[1:] != np.shape(private)[1:]:
        raise InvalidInput(
            f"X_public must have rows of the shape of those of X, {np.shape(private)[1:]}, got {np.shape(public)[1:]}."
        )
    if len(public) and len(private):
        require_same_scale(private, public, "X_public")


def target_array(y: Any) -> Any:
    """Return the labels or quantities of the rows as an array of one or two dimensions.

    Errors: `InvalidInput` for none, a sparse matrix, rows of different lengths, other dimensions, complex numbers and
    signalling NaNs.

    >>> target_array([[1], [1, 0]])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ostrakon.validation.InvalidInput: y must have the same number of columns in every row, got rows of different ...
    """
    if y is None:
        raise InvalidInput("y must be given: a fit requires y to be passed, but the target y is None.")
    if hasattr(y, "tocsr"):
        as_frame(y, "y")
    try:
        target = np.asarray(y)
    except ValueError:
        raise InvalidInput(
            "y must have the same number of columns in every row, got rows of different lengths."
        ) from None
    if target.ndim not in (1, 2) or (target.ndim == 2 and not target.shape[1]):
        raise InvalidInput(f"y must have one value or some columns for each row, got the shape {target.shape}.")
    require_real(target, "y")
    return target


def is_free_form(X: Any) -> bool:
    """Return whether X is a frame (with text, with gaps) or images, which scikit-learn would refuse or flatten."""
    return hasattr(X, "iloc") or (hasattr(X, "ndim") and X.ndim > 2)
