"""Who releases what, and what for: told by the operator, shown in the report, and never made up."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any

from ostrakon.run.settings.option import Option, Settings
from ostrakon.validation import InvalidInput, shown

LONGEST = 1000
"""Characters of one answer."""

_REPORT = "Report"
# Control, surrogate and format characters: unseen, they may make a report read otherwise than it is stored. Two of them
# only say whether letters join.
_UNSEEN = ("Cc", "Cs", "Cf")
_JOINERS = "\u200c\u200d"


def _sentence(name: str, value: Any) -> str:
    """One line: breaks between lines become spaces."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise InvalidInput(f"{name} must be text of 1 to {LONGEST} characters, got {shown(value)}.")
    line = " ".join(value.split())
    if any(unicodedata.category(each) in _UNSEEN and each not in _JOINERS for each in line):
        raise InvalidInput(f"{name} must be text without control characters, got {shown(value)}.")
    return line


@dataclass(frozen=True, kw_only=True)
class Particulars(Settings):
    """What only the operator knows of a release. None: not given, and the report says so.

    operator: who releases it. contact: where to ask about it. purpose: what it is for. data_name: what the private data
    is called in public; the name of its file stays inside.

    Errors: `InvalidInput` for what is not text, blank or too long, or holds control characters.
    """

    operator: Annotated[
        str | None, Option(help="Who releases the student, for the report.", panel=_REPORT, check=_sentence)
    ] = None
    contact: Annotated[
        str | None, Option(help="Where to ask about it, for the report.", panel=_REPORT, check=_sentence)
    ] = None
    purpose: Annotated[str | None, Option(help="What it is for, for the report.", panel=_REPORT, check=_sentence)] = (
        None
    )
    data_name: Annotated[
        str | None,
        Option(help="What the private data is called in the report.", panel=_REPORT, check=_sentence),
    ] = None
