"""Connections of the service: slow and idle ones end first, so that they cannot keep honest clients out."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ostrakon.service.audit_log import AuditFile

MOST = 4000
"""Connections at the same time."""
MOST_OF_AN_ADDRESS = 3000
"""Of one address: many clients may share one."""
SECONDS_FOR_HEAD = 10.0
"""From the start of a connection, or of the next request on it, to the end of the request's head."""
SECONDS_FOR_BODY = 30.0
"""From the end of the head to the end of the body."""
SECONDS_FOR_ANSWER = 30.0
"""That a client may leave its answers unread."""

_BUSY = {"error": {"code": "unavailable", "message": "Too many connections; come again later."}}
_MALFORMED = {"error": {"code": "bad_request", "message": "The request must be HTTP/1.1."}}


class Connection(HttpToolsProtocol):
    """One connection. Where there are too many, the oldest one without a request ends; if there is none, the new one.

    A connection that takes too long over a request's head or body ends. Refusals have the shape of all others, and the
    audit log counts them.
    """

    audit: AuditFile
    most: int = MOST
    most_of_an_address: int = MOST_OF_AN_ADDRESS

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._since = monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._allow(SECONDS_FOR_HEAD)
        every: list[Any] = list(self.connections)
        own = [each for each in every if each.client and each.client[0] == self._address]
        for crowd, most in ((own, self.most_of_an_address), (every, self.most)):
            if len(crowd) > most and not _end_oldest(crowd, besides=self):
                self._refuse(503, "Service Unavailable", _BUSY)
                return

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._stop_timer()
        self._stop_unread()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self.transport.is_closing():
            return
        if self._timer is None and self.idle:
            self._allow(SECONDS_FOR_HEAD)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._allow(SECONDS_FOR_BODY)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is whole: how long the answer takes is not the client's doing."""
        self._stop_timer()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read what is sent to it: not for long."""
        self._stop_unread()
        self._unread = self.loop.call_later(SECONDS_FOR_ANSWER, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._stop_unread()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(400, "Bad Request", _MALFORMED)

    @property
    def idle(self) -> bool:
        """Whether no request is being read or answered, or its answer is not read."""
        cycle: Any = self.cycle
        return self._unread is not None or cycle is None or cycle.response_complete

    @property
    def since(self) -> float:
        """When the connection began."""
        return self._since

    @property
    def _address(self) -> str | None:
        return self.client[0] if self.client else None

    def _allow(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, words: str, problem: dict[str, Any]) -> None:
        content = json.dumps(problem).encode()
        head = f"HTTP/1.1 {status} {words}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self.transport.write(head.encode() + b"Connection: close\r\n\r\n" + content)
        self.transport.close()
        self.audit.refused(self._address, {"client": None, "route": None, "rows": 0, "status": status})


def _end_oldest(connections: list[Any], *, besides: Connection) -> bool:
    """End the oldest idle connection; False where none is idle."""
    idle = [each for each in connections if each is not besides and getattr(each, "idle", False)]
    if not idle:
        return False
    oldest = min(idle, key=lambda each: each.since)
    oldest.connections.discard(oldest)
    oldest.transport.abort()
    return True
