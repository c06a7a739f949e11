"""The day of a run, as its release states it."""

import os
from datetime import UTC, datetime

from ostrakon.validation import InvalidInput

_EPOCH = "SOURCE_DATE_EPOCH"


def today() -> str:
    """The day in UTC as YYYY-MM-DD, without a time of day.

    The environment variable SOURCE_DATE_EPOCH (seconds since 1970) replaces the clock, so that a release can be built
    again, byte for byte.

    Raises
    ------
    InvalidInput
        If the variable is not such a number.

    References
    ----------
    https://reproducible-builds.org/specs/source-date-epoch/
    """
    given = os.environ.get(_EPOCH)
    if given is None:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.fromtimestamp(int(given), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(f"{_EPOCH} must be a whole number of seconds since 1970, got {given!r}.") from None
