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

    operator: Annotated[str | None, _option(help="Operator who releases the student, for the report.")] = None
    contact: Annotated[str | None, _option(help="Contact for questions, for the report.")] = None
    purpose: Annotated[str | None, _option(help="Purpose of the student, for the report.")] = None
    data_name: Annotated[str | None, _option(help="Public name of the private data, for the report.")] = None
