"""Tables of other libraries as pandas frames, column by column."""

from __future__ import annotations

from typing import Any


def as_frame(X: Any) -> Any:
    """A Polars frame or an Arrow table as a pandas frame; all else as it is.

    >>> import pyarrow
    >>> as_frame(pyarrow.table({"age": [30, 50]})).columns.tolist()
    ['age']
    """
    return X.to_pandas() if hasattr(X, "to_pandas") and not hasattr(X, "iloc") else X
