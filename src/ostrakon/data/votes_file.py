"""Votes from a file: histograms, or one column per teacher."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput, one_of, whole
from ostrakon.votes import BoundedVotes, Votes

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["auto", "counts", "predictions"]
_KINDS = ("auto", "counts", "predictions")
_ROW_NAMES = ("", "index", "unnamed: 0", "query", "id")


def load_votes(
    path: str | os.PathLike[str],
    *,
    teachers: int | None = None,
    classes: int | None = None,
    kind: Kind = "auto",
    abstentions: bool = False,
    max_contributions: int | None = None,
) -> Votes:
    """Return votes of an ensemble from a .npy, .npz, .csv (also .gz) or .parquet file, one row per query.

    Parameters
    ----------
    path : str or path
        An .npz must have one array, or one named votes, counts or predictions. A CSV may have a header; a column named
        index, query or id is not a vote.
    teachers, classes : int, optional
        Their numbers; checked, and used to distinguish the two kinds.
    kind : {"auto", "counts", "predictions"}
        "counts": one column per class, where every row adds up to the number of teachers. "predictions": one column
        per teacher, with the class it chose: 0, 1, 2, ..., or names. "auto": the kind that the numbers allow; an error
        if they allow both.
    abstentions : bool
        Whether teachers may abstain: then rows of counts may add up to less than `teachers`, which must be given;
        predictions of -1 and empty cells are abstentions.
    max_contributions : int, optional
        The number of queries that every teacher answers at most (`BoundedVotes`); it abstains on the others. Verified
        if the file has predictions, otherwise the caller is responsible.

    Returns
    -------
    Votes
        The counts, shape (queries, classes).

    Raises
    ------
    InvalidInput
        In one sentence for any other file.
    """
    one_of("kind", kind, _KINDS)
    teachers = None if teachers is None else whole("teachers", teachers, at_least=1)
    classes = None if classes is None else whole("classes", classes, at_least=2)
    # Teachers that vote on few queries abstain on the others.
    abstentions = abstentions or max_contributions is not None
    file = Path(path)
    name, array = _read(file)
    if array.ndim != 2 or array.shape[0] == 0:
        raise InvalidInput(f"{file} must hold a table of one row per query, got the shape {array.shape}.")
    if array.dtype.kind not in "iufOSUT":
        raise InvalidInput(f"{file} must hold whole numbers or names, got values of type {array.dtype}.")
    if kind == "auto" and name in ("counts", "predictions"):
        kind = "counts" if name == "counts" else "predictions"
    if array.dtype.kind not in "iuf":
        if kind == "counts":
            raise InvalidInput(f"{file} must hold counts, which are whole numbers, got text such as {array.flat[0]!r}.")
        _expect(file, array.shape, teachers)
        numbers = _from_names(file, array, classes=classes, abstentions=abstentions)
        return _counted(numbers, classes=classes, abstentions=abstentions, max_contributions=max_contributions)
    if kind == "auto":
        kind = _tell(file, array, teachers=teachers, classes=classes, abstentions=abstentions)
    if kind == "counts":
        if classes is not None and array.shape[1] != classes:
            raise InvalidInput(f"{file} has {array.shape[1]} columns of counts, but classes is {classes}.")
        if max_contributions is not None:
            return BoundedVotes(array, teachers=teachers, max_contributions=max_contributions)
        return Votes(array, teachers=teachers, abstentions=abstentions)
    _expect(file, array.shape, teachers)
    if abstentions:
        array = np.where(np.isnan(array), -1, array) if array.dtype.kind == "f" else array
    return _counted(array, classes=classes, abstentions=abstentions, max_contributions=max_contributions)


def class_names(path: str | os.PathLike[str], votes: Votes) -> tuple[str, ...]:
    """Return the names of the classes of `votes`, as their file has them: above the counts, or as the predictions
    themselves.

    Empty where it names none.
    """
    file = Path(path)
    if file.name.removesuffix(".gz").rpartition(".")[2].lower() in ("npy", "npz"):
        return ()
    import pandas as pd

    names, array = _table_with_names(file)
    if array.dtype.kind not in "iuf":
        classes = np.unique(array[~pd.isna(array)].astype(str)).tolist()
        return tuple(classes) if len(classes) == votes.classes else ()
    return names if np.array_equal(array, votes.counts) else ()


def _tell(
    file: Path, array: NDArray[Any], *, teachers: int | None, classes: int | None, abstentions: bool
) -> Literal["counts", "predictions"]:
    """Return the only kind that the numbers can be, or an error."""
    columns = array.shape[1]
    present = array[~np.isnan(array)] if array.dtype.kind == "f" else array
    odd = present[present != np.round(present)]
    if present.size == 0 or odd.size or (present.size < array.size and not abstentions):
        raise InvalidInput(f"The numbers of {file} must be whole, got {odd[0] if odd.size else 'nan'!s}.")
    sums, most, least = array.sum(axis=1), present.max(), present.min()
    if least < (-1 if abstentions else 0):
        silent = "; -1 stands for no vote where abstentions are declared" if least == -1 else ""
        raise InvalidInput(f"The numbers of {file} must be at least 0, got {least:g}{silent}.")
    full = teachers if teachers is not None else (None if abstentions else sums[0])
    counts = (
        least >= 0
        and columns >= 2
        and classes in (None, columns)
        and full is not None
        and full >= 1
        and bool(np.all(sums <= full) if abstentions else np.all(sums == full))
    )
    # With more classes than teachers an ensemble could not agree, so such numbers are counts. Where rows need not add
    # up, a number of teachers that differs from the number of columns may be a mistake, and does not decide the kind.
    predictions = (
        least >= (-1 if abstentions else 0)
        and (abstentions or teachers in (None, columns))
        and most < (classes if classes is not None else max(columns, 2))
    )
    if counts == predictions:
        options = [
            f"{name}={value}" for name, value in (("teachers", teachers), ("classes", classes)) if value is not None
        ]
        rows = "of at most as many votes as there are teachers, whose number is needed" if abstentions else "of one sum"
        neither = (
            f"are neither counts (rows {rows}) nor predictions{' with ' if options else ''}{' and '.join(options)}"
        )
        what = "can be both counts and predictions" if counts else neither
        raise InvalidInput(
            f"The numbers of {file} {what}; their kind must be given: counts (a row per query, a column per class) "
            "or predictions (a row per query, a column per teacher), by --kind or the argument `kind`; its shape is "
            f"{array.shape}."
        )
    if predictions:
        _refuse_turned_counts(file, array)
    return "counts" if counts else "predictions"


def _from_names(file: Path, array: NDArray[Any], *, classes: int | None, abstentions: bool) -> NDArray[np.int64]:
    import pandas as pd

    from ostrakon.data.classes import MOST_CLASSES

    missing = pd.isna(array)
    if missing.any() and not abstentions:
        raise InvalidInput(f"{file} has {int(missing.sum())} empty cells; declare abstentions if teachers may abstain.")
    names, indices = np.unique(array[~missing].astype(str), return_inverse=True)
    if classes is not None and len(names) > classes:
        raise InvalidInput(f"{file} names {len(names)} classes, but classes is {classes}.")
    numbers = np.full(array.shape, -1, np.int64)
    numbers[~missing] = indices
    if len(names) > MOST_CLASSES:
        raise InvalidInput(f"{file} names {len(names)} classes; at most {MOST_CLASSES} are allowed.")
    return numbers


def _counted(
    predictions: NDArray[Any], *, classes: int | None, abstentions: bool, max_contributions: int | None
) -> Votes:
    if max_contributions is not None:
        return BoundedVotes.from_predictions(
            predictions, classes=classes, abstain=-1, max_contributions=max_contributions
        )
    return Votes.from_predictions(predictions, classes=classes, abstain=-1 if abstentions else None)


def _expect(file: Path, shape: tuple[int, ...], teachers: int | None) -> None:
    rows, columns = shape
    if teachers is not None and columns != teachers:
        turned = f": it must have the shape (queries, teachers), and has {shape}" if rows == teachers else ""
        raise InvalidInput(f"{file} has {columns} columns, one per teacher, but teachers is {teachers}{turned}.")


def _refuse_turned_counts(file: Path, array: NDArray[Any]) -> None:
    """Refuse counts with a row per class: every column has one sum, which many predictions have not by chance."""
    sums, (rows, columns) = array.sum(axis=0), array.shape
    if rows > 1 and columns >= max(2 * rows, 8) and np.all(sums == sums[0]) and len(np.unique(array, axis=1).T) > 2:
        raise InvalidInput(
            f"{file} has the shape {array.shape}, and each of its {columns} columns adds up to {sums[0]:g}: these are "
            f"counts of votes with a row per class, and must have the shape (queries, classes), {array.shape[::-1]}; "
            "where they are predictions, say so by --kind or the argument `kind`."
        )


def _read(file: Path) -> tuple[str, NDArray[Any]]:
    if not file.is_file():
        raise InvalidInput(f"There is no file {file}.")
    suffix = file.name.removesuffix(".gz").rpartition(".")[2].lower()
    if suffix in ("npy", "npz"):
        return _read_numpy(file)
    if suffix in ("csv", "tsv", "txt", "parquet", "pq"):
        return "", _table_with_names(file)[1]
    raise InvalidInput(f"{file} must be a .npy, .npz, .csv or .parquet file of votes.")


def _read_numpy(file: Path) -> tuple[str, NDArray[Any]]:
    try:
        # Pickled arrays would run code from the file.
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return "", content
        with content:
            names = [name for name in ("votes", "counts", "predictions") if name in content.files]
            if not names and len(content.files) == 1:
                names = content.files
            if len(names) != 1:
                raise InvalidInput(
                    f"{file} must hold one array, or exactly one named votes, counts or predictions; "
                    f"it holds {', '.join(content.files) or 'none'}."
                )
            return names[0], content[names[0]]
    except InvalidInput:
        raise
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise InvalidInput(f"{file} cannot be read as a NumPy file: {str(error).splitlines()[0]}") from error
    except Exception as error:  # a damaged .npz raises what its zip or zlib layer raises
        raise InvalidInput(f"{file} cannot be read as a NumPy file: {type(error).__name__}.") from error


def _table_with_names(file: Path) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Return (names of the columns, () where the file has none, the cells)."""
    import pandas as pd

    # Imported late: NumPy files do not need DuckDB, whose import takes as long as the accounting of the votes.
    from ostrakon.data.sources import open_table

    table = open_table(file, header=False)
    frame = table.read()
    first = [str(name) for name in frame.columns]
    has_names = table.kind != "csv"
    if table.kind == "csv":
        first = ["" if pd.isna(cell) else str(cell) for cell in frame.iloc[0]]
        if _is_header(first, frame.iloc[1:]):
            frame, has_names = frame.iloc[1:], True
    if first[0].strip().lower() in _ROW_NAMES and frame.shape[1] > 1:
        first, frame = first[1:], frame.iloc[:, 1:]
    if table.kind == "csv":
        numbers = frame.apply(pd.to_numeric, errors="coerce")
        if not (numbers.isna() & frame.notna()).to_numpy().any():
            frame = numbers
    return tuple(first) if has_names else (), frame.to_numpy()


def _is_header(first: list[str], rest: pd.DataFrame) -> bool:
    """Return whether the first row of a CSV names columns: by words above numbers, new words above words, or 0, 1, 2,
    ...
    """
    import pandas as pd

    numbers = rest.apply(pd.to_numeric, errors="coerce")
    names = first[1:] if first[0].strip().lower() in _ROW_NAMES else first
    if names == [str(index) for index in range(len(names))]:
        # pandas writes these for a frame without names; as votes of two columns they could be a query.
        sums = numbers.iloc[:, -len(names) :].sum(axis=1)
        return len(names) > 2 or bool(len(sums) and sums.nunique() == 1 and sums.iloc[0] != 1)
    if all(re.fullmatch(r"-?\d+(\.0*)?", name) for name in first if name):
        return False
    if (numbers.isna() & rest.notna()).to_numpy().any():
        return not set(names) - {""} <= set(rest.to_numpy().ravel())
    return True
