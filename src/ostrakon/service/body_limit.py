"""A largest size of requests, refused in the shape that every refusal has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 2**20
"""Bytes of one request."""


class BodyLimit:
    """Hands `app` no more than `LARGEST_BODY` bytes of a request, and then what `error` makes.

    Where the request says its length beforehand, nothing of it is read: `refuse` answers. (Starlette's own limit
    answers in plain text.)
    """

    def __init__(self, app: Application, *, error: Callable[[], Exception], refuse: Application) -> None:
        self._app = app
        self._error = error
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        said = next((value for name, value in scope.get("headers", ()) if name == b"content-length"), b"0")
        if scope["type"] == "http" and (not said.isdigit() or len(said) > 12 or int(said) > LARGEST_BODY):
            await self._refuse(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > LARGEST_BODY:
                raise self._error()
            return message

        await self._app(scope, counted, send)
