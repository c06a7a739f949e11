"""What share of private values lies beyond the public range, column by column: other units show there. Private."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.data.columns import DAY_FIRST, DIGITS, FORMS, MONTH_FIRST, Columns, Kind, is_number
from ostrakon.data.embeddings import groups
from ostrakon.data.identity import quoted
from ostrakon.data.table import Table, literal

_FEWEST_ROWS, _EXACTLY = 30, 1e-5
MUCH = 0.05
"""A share above which a column is worth a line on the terminal."""
_ORIGIN = "DATE '2000-01-01'"
_SIGNS = r"[$€£¥%\s]"


def outside_table(private: Table, columns: Columns, public: pd.DataFrame) -> dict[str, float]:
    """Return the share of the private values of each column of numbers or dates that is beyond the public range.

    Parameters
    ----------
    private : Table
        Read in one pass, out of core.
    columns : Columns
    public : DataFrame
        Typed, as `columns` reads the public rows.

    Returns
    -------
    dict of str to float in [0, 1]
        Private: a function of private values without noise. Parts of embeddings are left out.
    """
    parts = {part for names in groups(columns.kept).values() for part in names}
    names = [name for name in columns.kept if columns.kinds[name] not in ("category", "text") and name not in parts]
    ranges = {name: (public[name].min(), public[name].max()) for name in names}
    names = [name for name in names if np.isfinite(ranges[name]).all()]
    if not names:
        return {}
    types, expressions = dict(private.typed_columns), list[str]()
    for name in names:
        value = f"({_value(quoted(name), columns.kinds[name], types[name])})"
        low, high = ranges[name]
        if columns.kinds[name].startswith("date"):
            low, high = np.floor(low), np.ceil(high)  # days
        expressions += [f"count({value})", f"count(*) FILTER ({value} < {float(low)!r} OR {value} > {float(high)!r})"]
    counts = private.fetch(f"SELECT {', '.join(expressions)} FROM ({private.select(names)})")[0]
    return {name: counts[2 * at + 1] / max(counts[2 * at], 1) for at, name in enumerate(names)}


def outside_memory(private: Any, public: Any) -> dict[str, float]:
    """Return `outside_table` of frames, or of arrays of numbers, in memory; nothing else is looked at."""
    if np.ndim(private) != 2 or np.ndim(public) != 2:
        return {}
    here, there = (rows if hasattr(rows, "iloc") else pd.DataFrame(rows) for rows in (private, public))
    shares = dict[str, float]()
    for name in here.columns.intersection(there.columns):
        if is_number(here[name]) and is_number(there[name]):
            values = here[name].dropna().to_numpy(np.float64)
            low, high = there[name].min(), there[name].max()
            if len(values) and np.isfinite([low, high]).all():
                shares[str(name)] = float(((values < low) | (values > high)).mean())
    parts = {part for names in groups(shares).values() for part in names}
    return {name: share for name, share in shares.items() if name not in parts}


def is_standardised(private: Any) -> bool:
    """Return whether every column of numbers that varies has mean 0 and standard deviation 1, as a fitted scaler leaves
    it.
    """
    if np.ndim(private) != 2 or len(private) < _FEWEST_ROWS:
        return False
    frame = private if hasattr(private, "iloc") else pd.DataFrame(private)
    columns = [frame.iloc[:, at].dropna() for at in range(frame.shape[1])]
    numbers = [column.to_numpy(np.float64) for column in columns if is_number(column)]
    varying = [column for column in numbers if len(column) and np.ptp(column) > 0]
    return bool(varying) and all(
        abs(column.mean()) < _EXACTLY and abs(column.std() - 1) < _EXACTLY for column in varying
    )


def in_words(shares: Mapping[str, float], *, public_rows: int) -> str | None:
    """Return one sentence for the terminal on the columns of which much is beyond the public range; None where there
    are none.

    public_rows: of few rows more lies beyond the range by chance, 2 / (rows + 1) of each column on average.
    """
    much = {name: share for name, share in shares.items() if share > max(MUCH, 10 / (public_rows + 1))}
    if not much:
        return None
    listed = ", ".join(f"{share:.0%} of {name!r}" for name, share in sorted(much.items(), key=lambda one: -one[1])[:12])
    return (
        f"Private values beyond the public range: {listed}. Are both in the same unit? Leave out a column that "
        "only numbers or dates the rows (--drop). (This is private and is not released.)"
    )


def _value(cell: str, kind: Kind, type_name: str) -> str:
    """Return the SQL for a cell as a number, of dates days since 2000; NULL where it cannot be read."""
    text, pattern = f"{cell}::VARCHAR", FORMS[kind].pattern or ""
    if kind == "date":
        return f"date_diff('day', {_ORIGIN}, try_cast({cell} AS TIMESTAMP)::DATE)"
    if kind == DIGITS:
        iso = rf"regexp_replace({text}, '^(\d{{4}})(\d{{2}})(\d{{2}})(\.0+)?$', '\1-\2-\3')"
        day = f"date_diff('day', {_ORIGIN}, try_cast({iso} AS DATE))"
        return f"CASE WHEN regexp_full_match({text}, {literal(pattern)}) THEN {day} END"
    if kind in (DAY_FIRST, MONTH_FIRST):
        order = r"\3-\2-\1" if kind == DAY_FIRST else r"\3-\1-\2"
        iso = rf"regexp_replace({text}, '^(\d+)[./-](\d+)[./-](\d+).*$', '{order}')"
        day = f"date_diff('day', {_ORIGIN}, try_cast({iso} AS DATE))"
        return f"CASE WHEN regexp_full_match({text}, {literal(pattern)}) THEN {day} END"
    if type_name != "VARCHAR" or kind == "number":
        return f"CASE WHEN isfinite(try_cast({cell} AS DOUBLE)) THEN try_cast({cell} AS DOUBLE) END"
    plain = f"regexp_replace({text}, {literal(_SIGNS)}, '', 'g')"
    plain = f"replace(replace({plain}, '.', ''), ',', '.')" if kind == "decimal comma" else f"replace({plain}, ',', '')"
    return f"CASE WHEN regexp_full_match({text}, {literal(pattern)}) THEN try_cast({plain} AS DOUBLE) END"
