"""Numbers as text: 0,123 and 1.234,5 with a decimal comma, $1,234.50 with signs and commas between thousands."""

import re
from typing import Any, Literal

import pandas as pd

_BEFORE, _AFTER = r"[+-]?(?:[$€£¥]\s?)?", r"(?:\s?[$€£¥%])?"
DECIMAL_COMMA = rf"{_BEFORE}(?:(?:\d+|\d{{1,3}}(?:\.\d{{3}})+)(?:,\d*)?|,\d+)(?:[eE][+-]?\d+)?{_AFTER}"
"""A number with a decimal comma, its thousands set apart by points or not at all (a regular expression)."""
AMOUNT = rf"{_BEFORE}(?:(?:\d+|\d{{1,3}}(?:,\d{{3}})+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?{_AFTER}"
"""A number with a decimal point, its thousands set apart by commas or not at all (a regular expression)."""

_THOUSANDS = r"[^\d,.]*[1-9]\d{0,2},\d{3}[^\d,.]*"
_POINT_AFTER = r"\d,\d{3},|\d,\d{3}\.|[$£]"
_COMMA_NUMBER, _AMOUNT = re.compile(DECIMAL_COMMA), re.compile(AMOUNT)
SIGNS = r"[$€£¥%\s]"
"""What may be before or behind a number (a regular expression)."""

Commas = Literal["decimal", "thousands", "either", "no"]


def commas_in(text: pd.Series) -> Commas:
    """Return what the commas of a column's numbers are, decided on all its cells that are such numbers.

    "either": all commas have three digits behind them (1,234), and no dollar, pound or decimal point tells more. "no":
    there are none.

    >>> [commas_in(pd.Series(cells)) for cells in (["0,123", "7"], ["1,234", "999"], ["$1,234"], ["1", "2"])]
    ['decimal', 'either', 'thousands', 'no']
    """
    with_comma = text[text.str.contains(",", regex=False)]
    if not len(with_comma):
        return "no"
    if not (with_comma.str.fullmatch(_THOUSANDS) | with_comma.str.contains(_POINT_AFTER)).all():
        return "decimal"
    return "thousands" if text.str.contains(_POINT_AFTER).any() else "either"


def with_point(cell: Any) -> Any:
    """Return a cell of a column of decimal commas with a decimal point and no signs; None for other text.

    >>> [with_point(cell) for cell in (" 1.234,5", "0,5", "7 €", 2.5, "0.5", "unbekannt")]
    ['1234.5', '0.5', '7', 2.5, None, None]
    """
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    return re.sub(SIGNS, "", text).replace(".", "").replace(",", ".") if _COMMA_NUMBER.fullmatch(text) else None


def without_signs(cell: Any) -> Any:
    """Return a cell of a column of amounts without its signs and commas; None for other text.

    >>> [without_signs(cell) for cell in ("$1,234.50", "-£7", "12.5%", 2.5, "12,34", "unknown")]
    ['1234.50', '-7', '12.5', 2.5, None, None]
    """
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    return re.sub(SIGNS, "", text).replace(",", "") if _AMOUNT.fullmatch(text) else None
