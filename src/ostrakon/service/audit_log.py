"""A line for every request: who asked what for, and how it ended."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ostrakon.service.body_limit import Application, Message, Receive, Scope, Send


class AuditLog:
    """One line of JSON a request: when, which client, which route, how many rows, the status. Never a row or a label.

    Whoever answers writes client, route and rows into `scope["audit"]`. file: appended to, readable by its owner alone.
    """

    def __init__(self, app: Application, *, file: Path) -> None:
        self._app = app
        file.touch(mode=0o600)
        self._log = file.open("a", buffering=1, encoding="utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told: dict[str, Any] = {"client": None, "route": None, "rows": 0}
        scope["audit"] = told
        status = 500

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            # The route that was found, never the path that a client typed.
            self._log.write(json.dumps({"at": at, **told, "status": status}) + "\n")
