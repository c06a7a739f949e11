"""Who a request is from, decided by its head alone: nothing of a body is read for an unknown token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from limits import RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from ostrakon.service.body_limit import Application, Receive, Scope, Send
from ostrakon.service.clients import ClientFile, digest_of

OPEN = ("/health", "/ready")
"""Paths without a token."""
FAILURES_A_MINUTE = RateLimitItemPerMinute(60)
"""Unknown tokens of one address; beyond, its next ones are refused with 429."""

Refuse = Callable[..., Application]


class TokenCheck:
    """Puts the client of a request's token into `scope["client_of_token"]`, or refuses the request.

    clients: read again when their file changes. refuse: from a status and a message to the answer.
    """

    def __init__(self, app: Application, *, clients: ClientFile, refuse: Refuse) -> None:
        self._app = app
        self._clients = clients
        self._refuse = refuse
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        answer = self._checked(scope)
        await (self._app if answer is None else answer)(scope, receive, send)

    def _checked(self, scope: Scope) -> Application | None:
        """The refusal, or None for a known client within its rate."""
        if not self._clients.readable():
            return self._refuse(503, "The clients of this service cannot be read now; come again later.", close=True)
        head = next((value for name, value in scope["headers"] if name == b"authorization"), b"").decode("latin-1")
        kind, _, token = head.partition(" ")
        client = self._clients.by_token().get(digest_of(token)) if kind.lower() == "bearer" and token else None
        if client is None:
            address: Any = (scope.get("client") or ["unknown"])[0]
            if not self._limiter.hit(FAILURES_A_MINUTE, "failed", str(address)):
                return self._refuse(429, "Too many unknown tokens; come again later.", close=True)
            return self._refuse(401, "A known token must be given.", close=True)
        scope["audit"] |= {"client": client.name, "route": scope["path"] if scope["path"] in ROUTES else None}
        rate = RateLimitItemPerSecond(client.requests_per_second)
        if not self._limiter.hit(rate, "known", client.name):
            return self._refuse(429, f"At most {client.requests_per_second} requests a second.")
        scope["client_of_token"] = client
        return None


ROUTES = ("/v1/labels", "/v1/budget", "/v1/statement", "/openapi.json")
