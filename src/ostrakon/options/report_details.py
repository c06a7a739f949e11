"""Details of a release that only the operator knows; the report shows them and invents none."""

from dataclasses import dataclass
from typing import Annotated

from ostrakon.options.option import Option, Settings, sentence

_REPORT = "Report"


@dataclass(frozen=True, kw_only=True)
class ReportDetails(Settings):
    """Details for the report. None: not given, and the report says so.

    operator: who releases it. contact: for questions. purpose: of the release. data_name: the public name of the
    private data; the name of its file is not released.

    Errors: `InvalidInput` for what is not text, blank or too long, or contains control characters.
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
