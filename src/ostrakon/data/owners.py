"""Columns that look like identifiers with several rows each, whose people a guarantee for records does not protect."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping

import pandas as pd

from ostrakon.data.columns import may_name

_WORDS = {"account", "card", "client", "customer", "email", "guid", "id", "ids", "iban", "member", "mrn", "name"} | {
    *("passport", "patient", "person", "phone", "ssn", "subject", "uid", "user", "uuid")
}
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NUMBERED = frozenset({"code", "key", "nr", "no", "num", "number"})
_MOSTLY, _DIFFERENT, _REPEATED = 0.5, 0.2, 0.95
"""Shares: of private values beyond the public range, of different public values (least), of private ones (most)."""


def likely_owners(public: pd.DataFrame, outside: Mapping[str, float], different: Callable[[str], float]) -> list[str]:
    """Return columns that look like identifiers with several private rows each.

    Parameters
    ----------
    public : DataFrame
        The public rows.
    outside : dict of str to float in [0, 1]
        The share of private values beyond the public range, by column.
    different : callable
        From a column to the number of its different private values per private row.

    Returns
    -------
    list of str
        Private, for the operator alone.
    """
    likely = [
        str(name)
        for name in public.columns
        if (_is_named_like_one(str(name)) or outside.get(str(name), 0) > _MOSTLY)
        and may_name(public[name], share=_DIFFERENT)
    ]
    return [name for name in likely if different(name) <= _REPEATED]


def owners_in_words(names: Iterable[str], *, features: Iterable[str]) -> list[str]:
    """Return one sentence for each, for the command line. features: columns that are learned from."""
    return [
        f"{name!r} looks like an identifier with several rows each, and only single rows are protected: "
        f"--by {shlex.quote(name)} protects all rows of each"
        f"{f', --drop {shlex.quote(name)} leaves it out' if name in features else ''}."
        for name in names
    ]


def _is_named_like_one(name: str) -> bool:
    """Return whether the last word of a name is one of `_WORDS`, a number after it aside.

    >>> [_is_named_like_one(name) for name in ("Patient Id", "customerNumber", "user_income", "name")]
    [True, True, False, True]
    """
    words = [word.casefold() for word in _PARTS.findall(name)]
    while len(words) > 1 and words[-1] in _NUMBERED:
        words.pop()
    return bool(words) and words[-1] in _WORDS
