"""The day of a run, for its release."""

import os
from datetime import UTC, datetime

from ostrakon.validation import InvalidInput

_EPOCH = "SOURCE_DATE_EPOCH"


def today() -> str:
    """Return the day in UTC as YYYY-MM-DD.

    The environment variable SOURCE_DATE_EPOCH (seconds since 1970) replaces the clock, so that a release can be built
    again, byte for byte.

    Raises
    ------
    InvalidInput
        If the variable is not a whole number in the range of dates.

    References
    ----------
    https://reproducible-builds.org/specs/source-date-epoch/
    """
    seconds = os.environ.get(_EPOCH)
    if seconds is None:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.fromtimestamp(int(seconds), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(f"{_EPOCH} must be a whole number of seconds since 1970, got {seconds!r}.") from None
