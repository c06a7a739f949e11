"""Details of a release that only the operator knows; the report shows them and invents none."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from ostrakon.options.option import Option, Settings, sentence

_option = partial(Option, panel="Report", check=sentence, advanced=True)


@dataclass(frozen=True, kw_only=True)
class ReportDetails(Settings):
    """Details for the report. None: not given, and the report says so.

    operator: who releases it. contact: for questions. purpose: of the release. data_name: the public name of the
    private data; the name of its file is not released.

    Errors: `InvalidInput` for what is not text, blank or too long, or contains control characters.
    """

    operator: Annotated[str | None, _option(help="Who releases the student, for the report.")] = None
    contact: Annotated[str | None, _option(help="Where to ask about it, for the report.")] = None
    purpose: Annotated[str | None, _option(help="What it is for, for the report.")] = None
    data_name: Annotated[str | None, _option(help="What the private data is called in the report.")] = None
