"""What happens to a request before the application sees it: a limit on its size, its token, its line in the log."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from limits import RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from ostrakon.service.audit_file import AuditFile
from ostrakon.service.clients import ClientFile, token_digest

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Refuse = Callable[..., Application]

LARGEST_BODY = 2**20
"""Bytes of one request."""
OPEN_PATHS = ("/health", "/ready")
"""Paths that need no token and get no line in the audit log."""
ROUTES = (
    "/v1/labels",
    "/v1/budget",
    "/v1/statement",
    "/v1/owner",
    "/v1/room",
    "/v1/votes",
    "/openapi.json",
    "/metrics",
)
OPEN_PER_SECOND = RateLimitItemPerSecond(20)
"""Requests for `OPEN_PATHS` that one address may send. Further ones get status 429, and end their connection."""
FAILURES_PER_MINUTE = RateLimitItemPerMinute(60)
"""Unknown tokens that one address may send. Further ones are refused with status 429."""


class BodyLimit:
    """Hand the application at most `LARGEST_BODY` bytes of a request.

    A request that declares a larger size is refused before anything of it is read.

    Parameters
    ----------
    app : Application
    error : callable
        Makes the exception that the application gets if a request of undeclared size is too large.
    refuse : Application
        The answer to a request that declares a larger size.
    """

    def __init__(self, app: Application, *, error: Callable[[], Exception], refuse: Application) -> None:
        self._app = app
        self._error = error
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        declared = next((value for name, value in scope.get("headers", ()) if name == b"content-length"), b"0")
        if scope["type"] == "http" and (not declared.isdigit() or len(declared) > 12 or int(declared) > LARGEST_BODY):
            await self._refuse(scope, receive, send)
            return
        size = 0

        async def receive_counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > LARGEST_BODY:
                raise self._error()
            return message

        await self._app(scope, receive_counted, send)


class TokenCheck:
    """Put the client that a token belongs to into `scope["client_of_token"]`, or refuse the request.

    The head of a request decides. For an unknown token, nothing of the body is read.

    Parameters
    ----------
    app : Application
    clients : ClientFile
        Read again when its file changes.
    refuse : callable
        Makes the answer to a request from a status code and a message.
    """

    def __init__(self, app: Application, *, clients: ClientFile, refuse: Refuse) -> None:
        self._app = app
        self._clients = clients
        self._refuse = refuse
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Application | None:
        """Return the refusal; None for a known client, or an open path, within its rate."""
        address = str((scope.get("client") or ["unknown"])[0])
        if scope["path"] in OPEN_PATHS:
            if self._limiter.hit(OPEN_PER_SECOND, "open", address):
                return None
            return self._refuse(429, f"At most {OPEN_PER_SECOND.amount} requests a second without a token.", close=True)
        clients = self._clients.read()
        if clients is None:
            return self._refuse(503, "The clients of this service cannot be read now; come again later.", close=True)
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"").decode("latin-1")
        scheme, _, token = header.partition(" ")
        client = clients.get(token_digest(token)) if scheme.lower() == "bearer" and token else None
        if client is None:
            if not self._limiter.hit(FAILURES_PER_MINUTE, "failed", address):
                return self._refuse(429, "Too many unknown tokens; come again later.", close=True)
            requirement = "A known token must be given, in the header `Authorization: Bearer TOKEN`."
            return self._refuse(401, requirement, close=True)
        scope["audit"] |= {"client": client.name, "route": scope["path"] if scope["path"] in ROUTES else None}
        rate = RateLimitItemPerSecond(client.requests_per_second)
        if not self._limiter.hit(rate, "known", client.name):
            return self._refuse(429, f"At most {client.requests_per_second} requests a second.")
        scope["client_of_token"] = client
        return None


class AuditLog:
    """Write one line for each request: time, client, route, number of rows and status, but no row and no label.

    The application and the other middleware write client, route and rows into `scope["audit"]`. Requests for
    `OPEN_PATHS` get no line.
    """

    def __init__(self, app: Application, *, file: AuditFile) -> None:
        self._app = app
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        line: dict[str, Any] = {"client": None, "route": None, "rows": 0}
        scope["audit"] = line
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        status = 500

        async def send_noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        finally:
            # The route that was found, never the path that a client typed.
            if line["client"] is None:
                self._file.write_refusal((scope.get("client") or [None])[0], {**line, "status": status})
            else:
                self._file.write({**line, "status": status})
