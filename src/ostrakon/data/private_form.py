"""Whether another table writes its cells as the public one does: numbers as numbers, dates as dates."""

import re
from collections.abc import Mapping

from ostrakon.data.columns import DIGITS, FORMS, Columns, Kind
from ostrakon.data.identity import quoted
from ostrakon.data.outside_range import MUCH
from ostrakon.data.table import Table, literal
from ostrakon.validation import InvalidInput

_WORDS = ("category", "text")
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE")


def require_same_form(table: Table, columns: Columns, *, public: Table, what: str) -> dict[str, tuple[int, int]]:
    """Refuse a table in which a whole column would be lost because it is written in another form than in public.

    Returns the numbers of cells of every kept column that are not missing, and that can be read.

    A column of numbers or dates must be readable in at least half of its cells that are not missing. A column of words
    must not have mostly numbers if most of the public cells are not numbers.
    what: "private" or "test", for the message. Cells are counted out of core, in one pass.
    Errors: `InvalidInput` naming the column. The guarantee does not cover the refusal of a run; beside it, the counts
    are only used for `unread_in_words`.
    """
    here = _readable(table, columns)
    there = _readable(public, columns)
    for name, kind in columns.kinds.items():
        if kind == "left out":
            continue
        words = kind in _WORDS
        (present, readable), (present_public, read_public) = here[name], there[name]
        # In a column of words, the readable cells are those that are numbers.
        words_lost = words and 2 * readable > present and 2 * read_public <= present_public
        if words_lost or (not words and 2 * readable < present):
            other = "numbers" if words else "something else"
            raise InvalidInput(
                f"The column {name!r} of the {what} table {table.path} must hold {FORMS[kind].words} as in the public "
                f"table, but most of its cells are {other}."
            )
    return here


def unread_in_words(counts: Mapping[str, tuple[int, int]], columns: Columns) -> str | None:
    """Return one sentence for the terminal on the columns of numbers and dates of which many private cells are neither
    missing nor readable; None where there are none.

    counts: of the private table, from `require_same_form`.
    """
    numbers = {name: one for name, one in counts.items() if columns.kinds[name] not in _WORDS}
    shares = {name: 1 - readable / present for name, (present, readable) in numbers.items() if present}
    much = sorted((name for name, share in shares.items() if share > MUCH), key=lambda name: -shares[name])
    if not much:
        return None
    listed = ", ".join(f"{shares[name]:.0%} of {name!r} ({FORMS[columns.kinds[name]].words})" for name in much[:12])
    return (
        f"Private cells that are written otherwise than the public ones, and count as missing: {listed}. (This is "
        "private and is not released.)"
    )


def _readable(table: Table, columns: Columns) -> dict[str, tuple[int, int]]:
    """Return the numbers of cells of every kept column that are not missing, and that fit the column's kind."""
    types = dict(table.typed_columns)
    expressions = ", ".join(
        f"count({quoted(name)}), count(*) FILTER ({_condition(quoted(name), columns.kinds[name], types[name])})"
        for name in columns.kept
    )
    counts = table.fetch(f"SELECT {expressions} FROM ({table.select(columns.kept)})")[0]
    return {name: (int(counts[2 * at]), int(counts[2 * at + 1])) for at, name in enumerate(columns.kept)}


def _condition(cell: str, kind: Kind, type_name: str) -> str:
    text = f"{cell}::VARCHAR"
    if not kind.startswith("date") and _NUMBERS.fullmatch(type_name):
        return f"{cell} IS NOT NULL"
    form = FORMS[kind].pattern if kind in ("date", DIGITS) or type_name == "VARCHAR" else None
    if form is not None:
        return f"regexp_full_match({text}, {literal(form)})"
    return f"try_cast({text} AS DOUBLE) IS NOT NULL"
