"""The day of a run, as its release tells it."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from ostrakon.validation import InvalidInput

_EPOCH = "SOURCE_DATE_EPOCH"


def today() -> str:
    """The day in UTC as YYYY-MM-DD: no time of day and no time zone leaves.

    The environment variable SOURCE_DATE_EPOCH (seconds since 1970) takes the clock's place, so that a release can be
    made again, byte for byte. Errors: `InvalidInput` where it is no such number.
    Source: https://reproducible-builds.org/specs/source-date-epoch/
    """
    given = os.environ.get(_EPOCH)
    if given is None:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.fromtimestamp(int(given), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(f"{_EPOCH} must be a whole number of seconds since 1970, got {given!r}.") from None
