"""Connections of the service: idle and slow ones are closed, so that they cannot keep other clients out."""

import asyncio
import json
from random import uniform
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ostrakon.service.audit_file import AuditFile

MAX_CONNECTIONS = 4000
MAX_PER_ADDRESS = 3000
"""Many clients may share one address."""
SECONDS_FOR_HEAD = 60.0
"""From the start of a connection, or of the next request on it, until the head of the request is complete.

At most: connections that were opened together must not end, and come back, together."""
SECONDS_FOR_BODY = 30.0
"""From the end of the head until the body is complete."""
SECONDS_FOR_ANSWER = 30.0
"""For which a client may leave its answers unread."""

MAX_HEAD = 2**16
"""Bytes of a request's head."""
MAX_REQUEST = 2**23
"""Bytes of a request as it is sent: its body may be sent in many small pieces, and headers may follow it."""

MAX_PIPELINED = 16
"""Requests of one connection that wait for the answer to an earlier one. The next one ends the connection."""

_BUSY = {"error": {"code": "unavailable", "message": "Too many connections; come again later."}}
_TOO_LARGE = {"error": {"code": "too_large", "message": f"The head of a request must be of at most {MAX_HEAD} bytes."}}
_MALFORMED = {"error": {"code": "bad_request", "message": "The request must be HTTP/1.1 with one Host."}}


class Connection(HttpToolsProtocol):
    """One connection of the server.

    If there are too many connections, the oldest one without a request is closed. If every one has a request, the new
    connection is refused. A connection is also closed if the head or the body of a request takes too long, if the
    client does not read its answers, or if it sends more than `MAX_PIPELINED` requests ahead. Refusals have the shape
    of all others, and the audit log counts them. Each server has a subclass of its own.

    Attributes
    ----------
    audit : AuditFile
    max_connections, max_per_address : int
        Limits on connections at the same time.
    """

    audit: AuditFile
    max_connections: int = MAX_CONNECTIONS
    max_per_address: int = MAX_PER_ADDRESS
    _open: "dict[Connection, None]"
    """All connections, the oldest first. A new one takes the same time whatever their number."""
    _open_by_address: "dict[str | None, dict[Connection, None]]"

    def __init_subclass__(cls) -> None:
        """Start without connections."""
        super().__init_subclass__()
        cls._open, cls._open_by_address = {}, {}

    def connection_made(self, transport: Any) -> None:
        """Close a connection if there are too many (called by asyncio)."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._received, self._limit = 0, MAX_HEAD
        self._close_after(SECONDS_FOR_HEAD * uniform(0.5, 1))
        same_address = self._open_by_address.setdefault(self._address, {})
        for group, limit in ((same_address, self.max_per_address), (self._open, self.max_connections)):
            group[self] = None
            if len(group) > limit and not _close_oldest_idle(group, keep=self):
                self._refuse(503, "Service Unavailable", _BUSY)
                return

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers (called by asyncio)."""
        self._stop_timer()
        self._stop_unread()
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the time for the next head (called by asyncio)."""
        if self.transport.is_closing():
            return
        if self._timer is None and self.idle:
            self._close_after(SECONDS_FOR_HEAD * uniform(0.5, 1))
        self._received += len(data)
        super().data_received(data)
        if self._received > self._limit and not self.transport.is_closing():
            self._refuse(431, "Request Header Fields Too Large", _TOO_LARGE)

    def on_message_begin(self) -> None:
        """Start to count the bytes of a request; end the connection if too many requests wait."""
        if len(self.pipeline) >= MAX_PIPELINED:
            self.pipeline.clear()
            self.transport.abort()
            self._write_refusal(429)
            # An error in a callback ends the parser: the rest of what was read makes no further requests.
            raise ConnectionAbortedError
        self._received, self._limit = 0, MAX_HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Refuse another version of HTTP, or a request without one Host. Start the time for the body."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        if self.parser is None or self.parser.get_http_version() != "1.1" or hosts != 1:
            raise ValueError(_MALFORMED)
        self._limit = MAX_REQUEST
        self._close_after(SECONDS_FOR_BODY)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stop the time: the client does not decide how long the answer takes."""
        self._received = 0
        self._stop_timer()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Start the time in which the client must read its answers (called by asyncio)."""
        self._stop_unread()
        self._unread = self.loop.call_later(SECONDS_FOR_ANSWER, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Stop that time (called by asyncio)."""
        self._stop_unread()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP/1.1 (called by uvicorn when the parser fails)."""
        if not self.transport.is_closing():
            self._refuse(400, "Bad Request", _MALFORMED)

    @property
    def idle(self) -> bool:
        """Whether no request is being read or answered, or the client does not read its answer."""
        cycle: Any = self.cycle
        return self._unread is not None or cycle is None or cycle.response_complete

    @property
    def _address(self) -> str | None:
        return self.client[0] if self.client else None

    def close_now(self) -> None:
        """Close without an answer, and make room at once."""
        self.connections.discard(self)
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        self._open.pop(self, None)
        same_address = self._open_by_address.get(self._address, {})
        same_address.pop(self, None)
        if not same_address:
            self._open_by_address.pop(self._address, None)

    def _close_after(self, seconds: float) -> None:
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

    def _refuse(self, status: int, reason: str, problem: dict[str, Any]) -> None:
        content = json.dumps(problem).encode()
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self.transport.write(head.encode() + b"Connection: close\r\n\r\n" + content)
        self.pipeline.clear()
        self.transport.close()
        self._write_refusal(status)

    def _write_refusal(self, status: int) -> None:
        self.audit.write_refusal(self._address, {"client": None, "route": None, "rows": 0, "status": status})


def _close_oldest_idle(connections: dict[Connection, None], *, keep: Connection) -> bool:
    """Close the oldest idle connection besides `keep`. Returns False if none is idle."""
    oldest = next((other for other in connections if other is not keep and other.idle), None)
    if oldest is None:
        return False
    oldest.close_now()
    return True
