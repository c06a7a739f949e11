"""Dates that are not in ISO form: 31/12/2024, 12/31/2024 1:20 PM, 31.12.2024, 31-Dec-2024, 20241231."""

import re
from typing import Any, Literal

import pandas as pd

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?:\d{{1,2}}|(?i:(?:{'|'.join(MONTHS)})[a-z]*))"
WRITTEN_DATE = rf"\d{{1,2}}[./ -]{_MONTH}[./ -]\d{{4}}(?:[T, ]+\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?: ?[AaPp][Mm])?)?"
"""A date of day, month and year, perhaps with a time (a regular expression)."""

EIGHT_DIGITS = r"(19\d{2}|20\d{2}|2100)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?:\.0+)?"
"""A date of the years 1900 to 2100 as a whole number, such as 20241231 (a regular expression)."""
FIRST_DIGITS, LAST_DIGITS = 19000101, 21001231

_PARTS = re.compile(
    rf"(\d{{1,2}})([./ -])({_MONTH})\2(\d{{4}})(?:[T, ]+(\d{{1,2}}):(\d{{2}})(?::(\d{{2}}))?(?: ?([AaPp])[Mm])?)?"
)

Order = Literal["day first", "month first", "either", "no"]


def order_in(text: pd.Series) -> Order:
    """Return whether the day or the month is first, decided on all cells of a column that are such dates.

    A number above 12 is a day, and so is one before the name of a month. "either": no number is; with points between
    the parts the day is first. "no": both are.

    >>> [order_in(pd.Series(cells)) for cells in (["31/12/2024"], ["1/2/2024", "3/14/2025 1:20"], ["1/2/2024"])]
    ['day first', 'month first', 'either']
    """
    parts = text.str.extract(rf"(\d{{1,2}})([./ -])({_MONTH})")
    by_name = parts[2].str.fullmatch("[A-Za-z]+")
    if by_name.any():
        return "day first" if by_name.all() else "no"
    first, second = (pd.to_numeric(parts[at]).gt(12).any() for at in (0, 2))
    if first or second:
        return "no" if first and second else "day first" if first else "month first"
    return "day first" if (parts[1] == ".").all() else "either"


def as_iso(cell: Any, *, day_first: bool) -> Any:
    """Return a cell as an ISO date; None for other text.

    >>> as_iso("3/14/2025 1:20 PM", day_first=False), as_iso("1.2.2024", day_first=True), as_iso("2024", day_first=True)
    ('2025-03-14T13:20:00', '2024-02-01', None)
    """
    if not isinstance(cell, str):
        return cell
    match = _PARTS.fullmatch(cell.strip())
    if match is None:
        return None
    first, _, second, year, hour, minute, seconds, half = match.groups()
    by_name = second[:3].lower() in MONTHS
    if by_name and not day_first:
        return None
    second = str(1 + MONTHS.index(second[:3].lower())) if by_name else second
    day, month = (first, second) if day_first else (second, first)
    date = f"{year}-{int(month):02d}-{int(day):02d}"
    if hour is None:
        return date
    if half is not None and not 1 <= int(hour) <= 12:
        return None
    clock = int(hour) if half is None else int(hour) % 12 + (12 if half in "Pp" else 0)
    return f"{date}T{clock:02d}:{minute}:{seconds or '00'}"


def digits_as_iso(cell: Any) -> Any:
    """Return a number of eight digits, or its text, as an ISO date; None for other numbers and text.

    >>> digits_as_iso(20241231), digits_as_iso("20241231"), digits_as_iso(20241301), digits_as_iso("2024")
    ('2024-12-31', '2024-12-31', None, None)
    """
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if not isinstance(cell, str | int | float):
        return cell
    match = re.fullmatch(EIGHT_DIGITS, str(cell).strip())
    return None if match is None else "-".join(match.groups())
