"""The audit log of a service: lines of JSON in files of limited size."""

import json
import logging
import os
import threading
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import monotonic
from typing import Any

LARGEST_FILE = 20 * 2**20
"""Bytes of one file of the log."""
OLDER_FILES = 5
REFUSALS_WRITTEN = 5
"""Refusals of unknown callers that get a line, per address and minute. Further ones are counted."""
_MOST_ADDRESSES = 1000


class AuditFile:
    """Write lines into a file that its owner alone may read; older files stay beside it, up to `OLDER_FILES`.

    On a full disk lines are lost, but no request fails. If another program renames or removes the file, the next line
    goes into a new one.

    Attributes
    ----------
    requests : collections.Counter
        The number of requests by route and status, whether or not they have a line.
    rows : int
        The number of rows in all of them.
    """

    def __init__(self, file: Path) -> None:
        self._handler = _QuietHandler(file, maxBytes=LARGEST_FILE, backupCount=OLDER_FILES, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(message)s"))
        self._lock = threading.Lock()
        self._minute, self._refused, self._unwritten = 0.0, Counter[str](), 0
        self.requests, self.rows = Counter[tuple[str | None, int]](), 0

    def write(self, line: dict[str, Any]) -> None:
        """Write one line.

        Parameters
        ----------
        line : dict
            Plain values for JSON, route, rows and status among them; the time is added.
        """
        self._count(line)
        self._write(line)

    def _count(self, line: dict[str, Any]) -> None:
        self.requests[line["route"], line["status"]] += 1
        self.rows += line["rows"]

    def _write(self, line: dict[str, Any]) -> None:
        with self._lock:
            if self._unwritten:
                line, self._unwritten = {**line, "refusals_not_written": self._unwritten}, 0
            content = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **line})
            self._handler.emit(logging.LogRecord("audit", logging.INFO, "", 0, content, None, None))

    def write_refusal(self, address: str | None, line: dict[str, Any]) -> None:
        """Write a line about an unknown caller, or only count it: see `REFUSALS_WRITTEN`.

        Parameters
        ----------
        address : str or None
            The caller's network address; it is not written.
        line : dict
            As of `write`. The next line that is written carries the number of lines that were not.
        """
        self._count(line)
        if monotonic() - self._minute > 60:
            self._minute, self._refused = monotonic(), Counter()
        countable = str(address) in self._refused or len(self._refused) < _MOST_ADDRESSES
        if countable:
            self._refused[str(address)] += 1
        if countable and self._refused[str(address)] <= REFUSALS_WRITTEN:
            self._write(line)
        else:
            self._unwritten += 1


class _QuietHandler(RotatingFileHandler):
    def emit(self, record: logging.LogRecord) -> None:
        """Open the file again if another program has moved it, and write the record."""
        stream: Any = self.stream
        try:
            same = stream is not None and os.path.samestat(os.fstat(stream.fileno()), os.stat(self.baseFilename))
        except (OSError, ValueError):
            same = False
        if not same:
            self.close()
        super().emit(record)

    def _open(self) -> Any:
        # A file that a rotation makes has the same rights as the first one.
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=partial(os.open, mode=0o600))

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore the error: see `AuditFile`."""
