"""A line for every request: who asked what for, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

class AuditLog:
    """One line of JSON a request: when, who, what for, how many rows, how it ended. Never a row, a label or a vote.

    file: appended to, readable by its owner alone; in private/, as the names of clients are nobody else's business.
    """

    def __init__(self, app: Application, *, file: Path) -> None:
        self._app = app
        file.touch(mode=0o600)
        self._log = file.open("a", buffering=1, encoding="utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told: dict[str, Any] = {}
        scope["audit"] = told
        status = 500

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            # A path may hold anything that a client typed: one that is no route is not repeated.
            line = {"at": at, "client": None, "route": None, "rows": 0, **told, "status": status}
            self._log.write(json.dumps(line) + "\n")
