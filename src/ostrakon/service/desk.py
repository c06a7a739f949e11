"""Where requests wait for the teachers: many of them are put to these at once, off the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from ostrakon.service.cells import require_readable
from ostrakon.service.clients import Client
from ostrakon.service.labeller import Labeller, Request
from ostrakon.validation import InvalidInput

MOST_WAITING = 10_000
"""Rows that may wait; beyond, whoever comes is sent away."""
_LOG = logging.getLogger(__name__)
_AT_ONCE = 2048
_REMEMBERED = 200_000


class Busy(InvalidInput):
    """Too many rows are waiting for the teachers."""


class Unavailable(InvalidInput):
    """New rows cannot be answered: the ledger or the disk fails. Whoever runs the service reads why in its log."""


class Desk:
    """Answers requests of a service; runs on one event loop.

    A row that came before in the same words is answered here, without a thread.
    """

    def __init__(self, labeller: Labeller) -> None:
        self.labeller = labeller
        self._names = tuple(str(column["name"]) for column in labeller.form.columns or ())
        self._seen: OrderedDict[str, str] = OrderedDict()
        self._waiting: list[tuple[Client, Sequence[Mapping[str, Any]], asyncio.Future[Any]]] = []
        self._rows = 0
        self._work = asyncio.Event()
        self._thread = ThreadPoolExecutor(1)
        self._failed = -math.inf

    async def answer(self, client: Client, rows: Sequence[Mapping[str, Any]]) -> tuple[list[int], int]:
        """(class numbers of the rows, -1 for no answer; how many different rows the client has asked about so far).

        Errors: `Busy`; as `Labeller.read`; `TooMany`; `Spent`, and then some of the rows may have been answered: they
        are known when they are asked again.
        """
        # Before any look-up: whether a row was asked before must not show in what is refused.
        require_readable(rows, self.labeller.form.columns or ())
        words = [self._words(row) for row in rows]
        known = [self.labeller.known(self._seen.get(each, "")) for each in words]
        if None not in known:
            return [label for label in known if label is not None], self.labeller.asked(client.name)
        if self._rows + len(rows) > MOST_WAITING:
            raise Busy(f"At most {MOST_WAITING} rows can wait for the teachers; come again later.")
        future: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()
        self._waiting.append((client, rows, future))
        self._rows += len(rows)
        self._work.set()
        keys = await future
        for each, key in zip(words, keys, strict=True):
            self._seen[each] = key
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        labels = [self.labeller.known(key) for key in keys]
        return [label for label in labels if label is not None], self.labeller.asked(client.name)

    @property
    def failed_lately(self) -> bool:
        """Whether the last attempt to answer new rows failed, less than a minute ago."""
        return monotonic() - self._failed < 60

    async def serve(self) -> None:
        """Put what waits to the teachers, for ever."""
        while True:
            await self._work.wait()
            some, rows = [], 0
            while self._waiting and rows < _AT_ONCE:
                some.append(self._waiting.pop(0))
                rows += len(some[-1][1])
            self._rows -= rows
            if not self._waiting:
                self._work.clear()
            asked = [(client, given) for client, given, _ in some]
            try:
                told = await asyncio.get_running_loop().run_in_executor(self._thread, self._put, asked)
            except Exception as error:
                told = [error] * len(some)
            for (_, _, future), each in zip(some, told, strict=True):
                if not future.done():
                    future.set_exception(each) if isinstance(each, Exception) else future.set_result(each)

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncGenerator[Desk]:
        """Serve while the block lasts; what is with the teachers then is finished."""
        task = asyncio.create_task(self.serve())
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            self._thread.shutdown(wait=True)

    def _put(self, asked: Sequence[tuple[Client, Sequence[Mapping[str, Any]]]]) -> list[tuple[str, ...] | Exception]:
        """Of each request the keys of its rows, or why there are none."""
        read: list[Request | Exception] = []
        for client, rows in asked:
            try:
                read.append(self.labeller.read(client.name, client.answers, rows))
            except InvalidInput as error:
                read.append(error)
            except Exception as error:
                _LOG.exception("A request could not be read")
                read.append(error)
        found = iter(self._answered([each for each in read if isinstance(each, Request)]))
        return [next(found) if isinstance(each, Request) else each for each in read]

    def _answered(self, requests: list[Request]) -> Sequence[tuple[str, ...] | Exception]:
        """As `Labeller.answer`; an unexpected error in one request does not fail the others."""
        try:
            found = self.labeller.answer(requests)
            self._failed = -math.inf
            return found
        except InvalidInput as error:
            # It names files and the ledger, which clients must not see.
            _LOG.error("No new row was answered: %s", error)
            self._failed = monotonic()
            return [Unavailable("New rows cannot be answered now; come again later.")] * len(requests)
        except Exception as error:
            if len(requests) == 1:
                _LOG.exception("A request could not be answered")
                return [error]
            return [self._answered([each])[0] for each in requests]

    def _words(self, row: Mapping[str, Any]) -> str:
        return json.dumps([row.get(name) for name in self._names], allow_nan=False)
