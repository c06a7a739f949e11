"""Numbers as text: with a decimal point, or with a decimal comma (0,123 and 1.234,5)."""

from __future__ import annotations

import re
from typing import Any, Literal

import pandas as pd

DECIMAL_COMMA = r"[+-]?(?:(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d*)?|,\d+)(?:[eE][+-]?\d+)?"
"""A number with a decimal comma, its thousands set apart by points or not at all (a regular expression)."""

_THOUSANDS = r"[+-]?[1-9]\d{0,2},\d{3}"
_COMMA_NUMBER = re.compile(DECIMAL_COMMA)

Commas = Literal["decimal", "either", "no"]


def commas_in(text: pd.Series) -> Commas:
    """What the commas of a column's numbers are, decided on all its cells that are such numbers.

    "either": all commas have three digits behind them (1,234), so they may set thousands apart. "no": there are none.

    >>> [commas_in(pd.Series(cells)) for cells in (["0,123", "7"], ["1,234", "999"], ["1", "2"])]
    ['decimal', 'either', 'no']
    """
    with_comma = text[text.str.contains(",", regex=False)]
    if not len(with_comma):
        return "no"
    return "either" if with_comma.str.fullmatch(_THOUSANDS).all() else "decimal"


def with_point(cell: Any) -> Any:
    """A cell of a column of decimal commas with a decimal point; None for text that is not such a number.

    >>> [with_point(cell) for cell in (" 1.234,5", "0,5", "7", 2.5, "0.5", "unbekannt")]
    ['1234.5', '0.5', '7', 2.5, None, None]
    """
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    return text.replace(".", "").replace(",", ".") if _COMMA_NUMBER.fullmatch(text) else None
