"""Who releases what, and what for: told by the operator, shown in the report, and never made up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ostrakon.options.option import Option, Settings, sentence

_REPORT = "Report"


@dataclass(frozen=True, kw_only=True)
class ReportDetails(Settings):
    """What only the operator knows of a release. None: not given, and the report says so.

    operator: who releases it. contact: where to ask about it. purpose: what it is for. data_name: what the private data
    is called in public; the name of its file stays inside.

    Errors: `InvalidInput` for what is not text, blank or too long, or holds control characters.
    """

    operator: Annotated[
        str | None,
        Option(help="Who releases the student, for the report.", panel=_REPORT, check=sentence, advanced=True),
    ] = None
    contact: Annotated[
        str | None, Option(help="Where to ask about it, for the report.", panel=_REPORT, check=sentence, advanced=True)
    ] = None
    purpose: Annotated[
        str | None, Option(help="What it is for, for the report.", panel=_REPORT, check=sentence, advanced=True)
    ] = None
    data_name: Annotated[
        str | None,
        Option(help="What the private data is called in the report.", panel=_REPORT, check=sentence, advanced=True),
    ] = None
