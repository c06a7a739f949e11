"""Embeddings in tables: a column of lists, or the columns name.0, name.1, … that it stands for."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.identity import quoted
from ostrakon.validation import InvalidInput

_NUMBERED = re.compile(r"(.+)\.(0|[1-9]\d*)")
_LIST = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE)\[\d*\]")


def groups(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the embeddings among columns: name → its columns name.0, name.1, … in order, two or more, none missing.

    >>> groups(["age", "note.0", "note.1", "x.1", "x.2"])
    {'note': ['note.0', 'note.1']}
    """
    numbers_of: dict[str, set[int]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is not None:
            numbers_of.setdefault(match[1], set()).add(int(match[2]))
    return {
        name: [f"{name}.{number}" for number in range(len(numbers))]
        for name, numbers in numbers_of.items()
        if len(numbers) > 1 and numbers == set(range(len(numbers)))
    }


def as_columns(name: str, rows: NDArray[Any]) -> pd.DataFrame:
    """Return embeddings (rows, width) as the columns name.0, name.1, …

    >>> import numpy as np
    >>> as_columns("note", np.zeros((1, 2))).columns.tolist()
    ['note.0', 'note.1']
    """
    return pd.DataFrame(rows, columns=pd.Index([f"{name}.{number}" for number in range(rows.shape[1])]))


def unfolded(connection: duckdb.DuckDBPyConnection, relation: str, columns: Mapping[str, str], path: Any) -> str:
    """Return the SQL relation with its columns of lists of numbers as the columns name.0, name.1, …

    columns: DuckDB types by name. path: the file, for messages. One pass over the lists.
    Errors: `InvalidInput` for lists of different lengths, missing ones, and numbers that are missing or not finite.
    """
    lists = [name for name, kind in columns.items() if _LIST.fullmatch(kind)]
    if not lists:
        return relation
    expressions: list[str] = []
    for name in lists:
        cell = f"{quoted(name)}::DOUBLE[]"
        is_complete = f"coalesce(list_count({cell}) = len({cell}) AND isfinite(list_sum({cell})), false)"
        expressions += [f"min(len({cell}))", f"max(len({cell}))", f"count(*) FILTER (NOT {is_complete})"]
    answer = connection.execute(f"SELECT {', '.join(expressions)} FROM {relation}").fetchall()[0]
    widths: dict[str, int] = {}
    for at, name in enumerate(lists):
        least, most, broken = answer[3 * at : 3 * at + 3]
        if least is not None and least != most:
            raise InvalidInput(
                f"The embeddings {name!r} of {path} must all have one width, got lists of {least} to {most} numbers."
            )
        if broken or not least:
            raise InvalidInput(
                f"The embeddings {name!r} of {path} must be lists of finite numbers in every row, got {broken} rows "
                "with a missing list, a missing number, a NaN or an infinity."
            )
        widths[name] = int(most)
    cells: list[str] = []
    for name in columns:
        if name in widths:
            cells += [f"{quoted(name)}[{at + 1}] AS {quoted(f'{name}.{at}')}" for at in range(widths[name])]
        else:
            cells.append(quoted(name))
    return f"(SELECT {', '.join(cells)} FROM {relation})"


def require_same_widths(private: Iterable[str], other: Iterable[str], *, what: str) -> None:
    """Refuse embeddings of another width than the private ones. Errors: `InvalidInput` that names both."""
    here, there = groups(private), groups(other)
    for name, columns in here.items():
        if name in there and len(there[name]) != len(columns):
            raise InvalidInput(
                f"The embeddings {name!r} must have one width: {len(columns)} numbers in the private data, "
                f"{len(there[name])} in the {what}."
            )
