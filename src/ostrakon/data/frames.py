"""Tables of other libraries as pandas frames, column by column; anything but a table of rows is refused."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput, quote

_COMPLEX = complex, np.complexfloating


def as_frame(X: Any, name: str = "X") -> Any:
    """Return a Polars frame or an Arrow table as a pandas frame; arrays, pandas frames and lists as they are.

    Numbers of 16 bits in a table become numbers of 32, which hold the same values and which every reader knows.

    Errors: `InvalidInput` for a sparse matrix, a lazy frame, a single column without a frame, complex numbers, and a
    signalling NaN.

    >>> import pyarrow
    >>> as_frame(pyarrow.table({"age": [30, 50]})).columns.tolist()
    ['age']
    """
    if hasattr(X, "tocsr"):
        raise InvalidInput(f"{name} must be dense, got a sparse matrix of shape {X.shape}: {name}.toarray() is dense.")
    if hasattr(X, "collect") and not hasattr(X, "to_pandas"):
        raise InvalidInput(f"{name} must hold its rows, got a lazy {type(X).__name__}: {name}.collect() reads them.")
    frame = X.to_pandas() if hasattr(X, "to_pandas") and not hasattr(X, "iloc") else X
    if hasattr(frame, "iloc") and not hasattr(frame, "columns"):
        raise InvalidInput(f"{name} must be a table, got one column alone ({type(X).__name__}): to_frame() makes one.")
    if hasattr(frame, "iloc"):
        halves = [column for column, kind in frame.dtypes.items() if kind == np.float16]
        frame = frame.astype(dict.fromkeys(halves, np.float32)) if halves else frame
        complex_ones = [column for column, kind in frame.dtypes.items() if getattr(kind, "kind", "") == "c"]
        if complex_ones:
            raise InvalidInput(f"{name} must hold real numbers, got complex ones in column {complex_ones[0]!r}.")
        for at, (column, kind) in enumerate(frame.dtypes.items()):
            if pd.api.types.is_object_dtype(kind):
                require_quiet(frame.iloc[:, at].to_numpy(), f"The column {column!r} of {name}")
    elif isinstance(frame, np.ndarray):
        require_real(frame, name)
        frame = frame.astype(np.float32) if frame.ndim == 2 and frame.dtype == np.float16 else frame
    return frame


def rows_of(X: Any, name: str = "X") -> Any:
    """Return the rows of an estimator as `as_frame` does.

    Errors: `InvalidInput`, also for a list of rows by name, an array with NaN, and a frame without rows, with two
    columns of one name, or with names of which only some are text.
    """
    if isinstance(X, list) and X and isinstance(X[0], dict):
        raise InvalidInput(f"{name} must be a table, got a list of dictionaries: pandas.DataFrame({name}) makes one.")
    if isinstance(X, list) and any(
        isinstance(cell, _COMPLEX) for row in X if isinstance(row, list | tuple) for cell in row
    ):
        raise InvalidInput(f"Complex data not supported: {name} must hold real numbers or text, got complex ones.")
    frame = as_frame(X, name)
    if hasattr(frame, "iloc"):
        texts = [isinstance(column, str) for column in frame.columns]
        if any(texts) and not all(texts):
            raise InvalidInput(
                f"{name} must have text for every name of a column, got {quote(frame.columns[texts.index(False)])}: "
                f"{name}.columns.astype(str) makes it."
            )
        if frame.columns.has_duplicates:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise InvalidInput(f"{name} must have different names of columns, got {quote(twice)} twice.")
        if not len(frame):
            raise InvalidInput(f"{name} must have at least one row, got none.")
    elif isinstance(frame, np.ndarray) and frame.dtype.kind == "f" and frame.ndim == 2 and np.isnan(frame).any():
        raise InvalidInput(f"{name} must have no NaN if it is an array; a data frame may have missing values.")
    return frame


def require_real(cells: NDArray[Any], name: str) -> None:
    """Refuse complex numbers, and `require_quiet` for objects. name: of the cells, in messages.

    >>> require_real(np.array([1j]), "y")
    Traceback (most recent call last):
    ...
    ostrakon.validation.InvalidInput: Complex data not supported: y must hold real numbers or text, got complex128.
    """
    if cells.dtype.kind == "c":
        raise InvalidInput(f"Complex data not supported: {name} must hold real numbers or text, got {cells.dtype}.")
    if cells.dtype == object:
        require_quiet(cells, name)


def require_quiet(cells: Any, name: str) -> None:
    """Refuse a signalling NaN among objects, which every comparison would end on. name: of the cells, in messages.

    >>> require_quiet(np.array([1, Decimal("sNaN")], dtype=object), "y")
    Traceback (most recent call last):
    ...
    ostrakon.validation.InvalidInput: y must hold numbers or missing values, got Decimal('sNaN'): give None instead.
    """
    if any(isinstance(cell, Decimal) and cell.is_snan() for cell in cells.flat):
        raise InvalidInput(f"{name} must hold numbers or missing values, got Decimal('sNaN'): give None instead.")
