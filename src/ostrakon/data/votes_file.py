"""Votes from a file that somebody already has: histograms, or one column per teacher."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput, whole
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
    """Votes of an ensemble from a .npy, .npz, .csv (also .gz) or .parquet file, one row per query.

    kind: "counts": one column per class, each row adding up to the number of teachers. "predictions": one column
        per teacher, each cell the class it chose: 0, 1, 2, ..., or names. "auto": whichever of the two the numbers
        can be; where they can be both, the answer is an error that asks, never a guess.
    teachers, classes: how many there are; checked, and used to tell the two kinds apart.
    abstentions: teachers may abstain: rows of counts may add up to less than `teachers`, which must then be given;
        predictions of -1 and empty cells are abstentions.
    max_contributions: every teacher speaks on at most so many queries (`BoundedVotes`), and abstains on the others;
    verified
        where the file holds predictions, otherwise the caller's word.

    An .npz must hold one array, or one named votes, counts or predictions. A CSV may have a header or none; a
    column named index, query or id is not a vote. Raises `InvalidInput` in one sentence for anything else.
    """
    if kind not in _KINDS:
        raise InvalidInput(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}.")
    teachers = None if teachers is None else whole("teachers", teachers, at_least=1)
    classes = None if classes is None else whole("classes", classes, at_least=2)
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
        return _from_names(
            file,
            array,
            teachers=teachers,
            classes=classes,
            abstentions=abstentions,
            max_contributions=max_contributions,
        )
    if kind == "auto":
        # Who votes on few queries is silent on the others.
        silent = abstentions or max_contributions is not None
        kind = _tell(file, array, teachers=teachers, classes=classes, abstentions=silent)
    if kind == "counts":
        if classes is not None and array.shape[1] != classes:
            raise InvalidInput(f"{file} has {array.shape[1]} columns of counts, but classes is {classes}.")
        if max_contributions is not None:
            return BoundedVotes(array, teachers=teachers, max_contributions=max_contributions)
        return Votes(array, teachers=teachers, abstentions=abstentions)
    _expect(file, array.shape[1], teachers)
    if abstentions:
        array = np.where(np.isnan(array), -1, array) if array.dtype.kind == "f" else array
    return _counted(array, classes=classes, abstentions=abstentions, max_contributions=max_contributions)


def class_names(path: str | os.PathLike[str], votes: Votes) -> tuple[str, ...]:
    """The names of the classes of `votes`, as their file has them: above the counts, or as the predictions themselves.

    Empty where it names none.
    """
    file = Path(path)
    if file.name.removesuffix(".gz").rpartition(".")[2].lower() in ("npy", "npz"):
        return ()
    import pandas as pd

    names, array = _table_with_names(file)
    if array.dtype.kind not in "iuf":
        found = np.unique(array[~pd.isna(array)].astype(str)).tolist()
        return tuple(found) if len(found) == votes.classes else ()
    return names if np.array_equal(array, votes.counts) else ()


def _tell(
    file: Path, array: NDArray[Any], *, teachers: int | None, classes: int | None, abstentions: bool
) -> Literal["counts", "predictions"]:
    """The only kind that the numbers can be, or an error."""
    columns = array.shape[1]
    known = array[~np.isnan(array)] if array.dtype.kind == "f" else array
    odd = known[known != np.round(known)]
    if known.size == 0 or odd.size or (known.size < array.size and not abstentions):
        raise InvalidInput(f"The numbers of {file} must be whole, got {odd[0] if odd.size else 'nan'!s}.")
    sums, most, least = array.sum(axis=1), known.max(), known.min()
    full = teachers if teachers is not None else (None if abstentions else sums[0])
    counts = (
        least >= 0
        and columns >= 2
        and classes in (None, columns)
        and full is not None
        and full >= 1
        and bool(np.all(sums <= full) if abstentions else np.all(sums == full))
    )
    # More classes than teachers is no ensemble that could agree: such numbers are counts. Where rows need not add up,
    # another number of teachers than of columns may be a slip, and does not make counts of predictions.
    predictions = (
        least >= (-1 if abstentions else 0)
        and (abstentions or teachers in (None, columns))
        and most < (classes if classes is not None else max(columns, 2))
    )
    if counts == predictions:
        given = [
            f"{name}={value}" for name, value in (("teachers", teachers), ("classes", classes)) if value is not None
        ]
        rows = "of at most as many votes as there are teachers, whose number is needed" if abstentions else "of one sum"
        neither = f"are neither counts (rows {rows}) nor predictions{' with ' if given else ''}{' and '.join(given)}"
        what = "can be both counts and predictions" if counts else neither
        raise InvalidInput(
            f"The numbers of {file} {what}; their kind must be given: counts (a column per class) "
            "or predictions (a column per teacher), by --kind or the argument `kind`."
        )
    return "counts" if counts else "predictions"


def _from_names(
    file: Path,
    array: NDArray[Any],
    *,
    teachers: int | None,
    classes: int | None,
    abstentions: bool,
    max_contributions: int | None,
) -> Votes:
    import pandas as pd

    from ostrakon.data.classes import MOST_CLASSES

    _expect(file, array.shape[1], teachers)
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
    return _counted(numbers, classes=classes, abstentions=abstentions, max_contributions=max_contributions)


def _counted(
    predictions: NDArray[Any], *, classes: int | None, abstentions: bool, max_contributions: int | None
) -> Votes:
    if max_contributions is not None:
        return BoundedVotes.from_predictions(
            predictions, classes=classes, abstain=-1, max_contributions=max_contributions
        )
    return Votes.from_predictions(predictions, classes=classes, abstain=-1 if abstentions else None)


def _expect(file: Path, columns: int, teachers: int | None) -> None:
    if teachers is not None and columns != teachers:
        raise InvalidInput(f"{file} has {columns} columns, one per teacher, but teachers is {teachers}.")


def _read(file: Path) -> tuple[str, NDArray[Any]]:
    if not file.is_file():
        raise InvalidInput(f"There is no file {file}.")
    suffix = file.name.removesuffix(".gz").rpartition(".")[2].lower()
    if suffix in ("npy", "npz"):
        return _read_numpy(file)
    if suffix in ("csv", "tsv", "txt", "parquet", "pq"):
        return "", _read_table(file)
    raise InvalidInput(f"{file} must be a .npy, .npz, .csv or .parquet file of votes.")


def _read_numpy(file: Path) -> tuple[str, NDArray[Any]]:
    try:
        # Pickled arrays would run code from the file.
        held = np.load(file, allow_pickle=False)
        if isinstance(held, np.ndarray):
            return "", held
        with held:
            names = [name for name in ("votes", "counts", "predictions") if name in held.files]
            if not names and len(held.files) == 1:
                names = held.files
            if len(names) != 1:
                raise InvalidInput(
                    f"{file} must hold one array, or exactly one named votes, counts or predictions; "
                    f"it holds {', '.join(held.files) or 'none'}."
                )
            return names[0], held[names[0]]
    except InvalidInput:
        raise
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise InvalidInput(f"{file} cannot be read as a NumPy file: {str(error).splitlines()[0]}") from error
    except Exception as error:  # a damaged .npz raises what its zip or zlib layer raises
        raise InvalidInput(f"{file} cannot be read as a NumPy file: {type(error).__name__}.") from error


def _read_table(file: Path) -> NDArray[Any]:
    return _table_with_names(file)[1]


def _table_with_names(file: Path) -> tuple[tuple[str, ...], NDArray[Any]]:
    """(names of the columns, () where the file has none, the cells)."""
    import pandas as pd

    # Numbers in a NumPy file need no library of tables, which takes as long to load as they take to price.
    from ostrakon.data.sources import open_table

    table = open_table(file, header=False)
    frame = table.read()
    first = [str(name) for name in frame.columns]
    named = table.kind != "csv"
    if table.kind == "csv":
        first = ["" if pd.isna(cell) else str(cell) for cell in frame.iloc[0]]
        if _is_header(first, frame.iloc[1:]):
            frame, named = frame.iloc[1:], True
    if first[0].strip().lower() in _ROW_NAMES and frame.shape[1] > 1:
        first, frame = first[1:], frame.iloc[:, 1:]
    if table.kind == "csv":
        numbers = frame.apply(pd.to_numeric, errors="coerce")
        if not (numbers.isna() & frame.notna()).to_numpy().any():
            frame = numbers
    return tuple(first) if named else (), frame.to_numpy()


def _is_header(first: list[str], rest: pd.DataFrame) -> bool:
    """Whether the first row of a CSV names columns: by words above numbers, new words above words, or 0, 1, 2, ..."""
    import pandas as pd

    numbers = rest.apply(pd.to_numeric, errors="coerce")
    names = first[1:] if first[0].strip().lower() in _ROW_NAMES else first
    if names == [str(place) for place in range(len(names))]:
        # Whoever saves a frame without names gets these; as votes of two columns they could be a query.
        sums = numbers.iloc[:, -len(names) :].sum(axis=1)
        return len(names) > 2 or bool(len(sums) and sums.nunique() == 1 and sums.iloc[0] != 1)
    if all(re.fullmatch(r"-?\d+(\.0*)?", name) for name in first if name):
        return False
    if (numbers.isna() & rest.notna()).to_numpy().any():
        return not set(names) - {""} <= set(rest.to_numpy().ravel())
    return True
