"""A line for every request: who asked what for, and how it ended."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import monotonic
from typing import Any

from ostrakon.service.body_limit import Application, Message, Receive, Scope, Send

LARGEST = 20 * 2**20
"""Bytes of one file of the log."""
FILES = 5
"""Older files that are kept."""
REFUSALS_WRITTEN = 5
"""Refusals of unknown callers that get a line of their own, for each address and minute; others are counted."""
UNWRITTEN = ("/health", "/ready")


class AuditFile:
    """Lines of JSON in a file of limited size, readable by its owner alone; older ones are kept beside it.

    A full disk loses lines, never an answer: what fails is not raised.
    """

    def __init__(self, file: Path) -> None:
        file.touch(mode=0o600)
        self._handler = _Quiet(file, maxBytes=LARGEST, backupCount=FILES, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(message)s"))
        self._lock = threading.Lock()
        self._minute, self._refused, self._unwritten = 0.0, Counter[str](), 0

    def write(self, line: dict[str, Any]) -> None:
        """One line."""
        with self._lock:
            if self._unwritten:
                line, self._unwritten = {**line, "refusals_not_written": self._unwritten}, 0
            content = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **line})
            self._handler.emit(logging.LogRecord("audit", logging.INFO, "", 0, content, None, None))

    def refused(self, address: str | None, line: dict[str, Any]) -> None:
        """A refusal of somebody unknown: the first of a minute as lines, the others as a number in the next line."""
        if monotonic() - self._minute > 60:
            self._minute, self._refused = monotonic(), Counter()
        self._refused[str(address)] += 1
        if self._refused[str(address)] <= REFUSALS_WRITTEN and len(self._refused) <= 1000:
            self.write(line)
        else:
            self._unwritten += 1


class _Quiet(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing: see `AuditFile`."""


class AuditLog:
    """One line of JSON a request: when, which client, which route, how many rows, the status. Never a row or a label.

    The application writes client, route and rows into `scope["audit"]`. Requests for /health and /ready get no line.
    """

    def __init__(self, app: Application, *, file: AuditFile) -> None:
        self._app = app
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"] in UNWRITTEN:
            scope["audit"] = {}
            await self._app(scope, receive, send)
            return
        line: dict[str, Any] = {"client": None, "route": None, "rows": 0}
        scope["audit"] = line
        status = 500

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            # The route that was found, never the path that a client typed.
            if line["client"] is None:
                self._file.refused((scope.get("client") or [None])[0], {**line, "status": status})
            else:
                self._file.write({**line, "status": status})
