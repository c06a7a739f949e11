"""Requests wait here for the teachers, which answer many of them at once, outside the event loop."""

import asyncio
import contextlib
import hashlib
import json
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from ostrakon.data.columns import DIGITS
from ostrakon.export.loader import READERS, read_word
from ostrakon.service.clients import Client
from ostrakon.service.labeller import BudgetSpent, Labeller, Request
from ostrakon.service.pictures import IMAGE, MAX_WAITING_PICTURES, PICTURES_AT_ONCE, PictureForm
from ostrakon.validation import InvalidInput, quote

MAX_WAITING_ROWS = 10_000
"""Rows that may wait. Further requests are refused."""
_LOG = logging.getLogger(__name__)
_ROWS_AT_ONCE = 2048
_REMEMBERED_ROWS = 200_000
_DESCRIPTIONS = {
    "number": "a number",
    "decimal comma": "a number with a decimal comma",
    "amount": "a number such as $1,234.50",
    "date": "a date such as 2024-12-31",
    "date (day first)": "a date such as 31/12/2024",
    "date (month first)": "a date such as 12/31/2024",
    "date (digits)": "a date such as 20241231",
    IMAGE: "a PNG or JPEG file in base64",
}

Rows = Sequence[Mapping[str, Any]]


class Busy(InvalidInput):
    """Too many rows are waiting for the teachers."""


class Unavailable(InvalidInput):
    """New rows cannot be answered, because the ledger or the disk fails. The service's own log says why."""


class RequestQueue:
    """Answer the requests of a service, on one event loop.

    A row that came before in the same words is answered at once, without a thread.

    Attributes
    ----------
    waiting_rows : int
        The number of rows that wait for the teachers.
    spent : bool
        Whether a new row was refused because the account is spent.
    """

    def __init__(self, labeller: Labeller) -> None:
        self.labeller = labeller
        self._names = tuple(str(column["name"]) for column in labeller.form.columns or ())
        pictures = isinstance(labeller.form, PictureForm)
        self._at_once = PICTURES_AT_ONCE if pictures else _ROWS_AT_ONCE
        self._most_waiting = MAX_WAITING_PICTURES if pictures else MAX_WAITING_ROWS
        self._keys: OrderedDict[str, str] = OrderedDict()
        self._waiting: list[tuple[Client, Rows, asyncio.Future[Any]]] = []
        self.waiting_rows = 0
        self._work = asyncio.Event()
        self._thread = ThreadPoolExecutor(1)
        self._last_failure = -math.inf
        self.spent = False

    async def answer(self, client: Client, rows: Rows) -> tuple[list[int], int]:
        """Answer one request.

        Parameters
        ----------
        client : Client
        rows : sequence of mappings
            Values by the name of the column.

        Returns
        -------
        tuple of (list of int, int)
            The class number of each row, -1 for no answer; and the number of different rows that the client has asked
            about so far.

        Raises
        ------
        InvalidInput
            As of `require_readable` and `Labeller.read`.
        Busy, Unavailable, ClientLimitReached
        BudgetSpent
            Some of the rows may have been answered. They are known when they are asked about again.
        """
        # Before any look-up: a refusal must not show whether a row was asked about before.
        require_readable(rows, self.labeller.form.columns or ())
        texts = [self._text(row) for row in rows]
        stored_labels = [self.labeller.stored_label(self._keys.get(text, "")) for text in texts]
        if None not in stored_labels:
            return [label for label in stored_labels if label is not None], self.labeller.rows_asked(client.name)
        if self.waiting_rows + len(rows) > self._most_waiting:
            raise Busy(f"At most {self._most_waiting} rows can wait for the teachers; come again later.")
        future: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()
        self._waiting.append((client, rows, future))
        self.waiting_rows += len(rows)
        self._work.set()
        keys = await future
        self._keys.update(zip(texts, keys, strict=True))
        while len(self._keys) > _REMEMBERED_ROWS:
            self._keys.popitem(last=False)
        labels = [self.labeller.stored_label(key) for key in keys]
        return [label for label in labels if label is not None], self.labeller.rows_asked(client.name)

    async def in_turn(self, work: Callable[..., Any], *given: Any) -> Any:
        """Return what `work` returns; it waits until the teachers are free."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    @property
    def failed_lately(self) -> bool:
        """Whether the last attempt to answer new rows failed, less than a minute ago."""
        return monotonic() - self._last_failure < 60

    async def process(self) -> None:
        """Hand waiting requests to the teachers, without end."""
        while True:
            await self._work.wait()
            batch, rows = [], 0
            while self._waiting and rows < self._at_once:
                batch.append(self._waiting.pop(0))
                rows += len(batch[-1][1])
            self.waiting_rows -= rows
            if not self._waiting:
                self._work.clear()
            requests = [(client, texts) for client, texts, _ in batch]
            try:
                results = await asyncio.get_running_loop().run_in_executor(self._thread, self._answer_batch, requests)
            except Exception as error:
                results = [error] * len(batch)
            for (_, _, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)

    @contextlib.asynccontextmanager
    async def running(self) -> "AsyncGenerator[RequestQueue]":
        """Process requests while the block lasts. A batch that the teachers have at its end is finished."""
        task = asyncio.create_task(self.process())
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            self._thread.shutdown(wait=True)

    def _answer_batch(self, batch: Sequence[tuple[Client, Rows]]) -> list[tuple[str, ...] | Exception]:
        """For each request, the keys of its rows or the reason why there are none."""
        parsed: list[Request | Exception] = []
        for client, rows in batch:
            try:
                parsed.append(self.labeller.read(client.name, client.answers, rows))
            except InvalidInput as error:
                parsed.append(error)
            except Exception as error:
                _LOG.exception("A request could not be read")
                parsed.append(error)
        results = iter(self._answer_requests([request for request in parsed if isinstance(request, Request)]))
        return [next(results) if isinstance(request, Request) else request for request in parsed]

    def _answer_requests(self, requests: list[Request]) -> Sequence[tuple[str, ...] | Exception]:
        """Answer as `Labeller.answer` does, but an unexpected error in one request does not fail the others."""
        try:
            results = self.labeller.answer(requests)
            self._last_failure = -math.inf
            if not self.spent and any(isinstance(result, BudgetSpent) for result in results):
                self.spent = True
                _LOG.warning("The account is spent: from now on known rows are answered, and new ones get status 403")
            return results
        except InvalidInput as error:
            # The message names files and the ledger, which clients must not see.
            _LOG.error("No new row was answered: %s", error)
            self._last_failure = monotonic()
            return [Unavailable("New rows cannot be answered now; come again later.")] * len(requests)
        except Exception as error:
            if len(requests) == 1:
                _LOG.exception("A request could not be answered")
                return [error]
            return [self._answer_requests([request])[0] for request in requests]

    def _text(self, row: Mapping[str, Any]) -> str:
        """Return a checksum of a row in its client's words: texts and pictures are too large to be remembered."""
        words = json.dumps([row.get(name) for name in self._names], allow_nan=False)
        return hashlib.sha256(words.encode()).hexdigest()


def require_readable(rows: Rows, columns: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a row that lacks a column or has a cell that cannot be read.

    Parameters
    ----------
    rows : sequence of mappings
        Values by the name of the column; None is a missing value.
    columns : sequence of mappings
        As of `RowForm.columns`.

    Raises
    ------
    InvalidInput
        One sentence that names the row, the column and the value.
    """
    for number, row in enumerate(rows):
        for column in columns:
            name, kind = str(column["name"]), column["kind"]
            if name not in row:
                raise InvalidInput(f"Row {number} must have the column {name!r}.")
            cell = row[name]
            if kind == "embedding":
                if not isinstance(cell, list) or len(cell) != column["width"] or not all(map(_is_finite, cell)):
                    raise InvalidInput(f"Row {number}: {name} must be {describe(column)}, got {quote(cell)}.")
            elif kind == IMAGE:
                if not isinstance(cell, str):
                    raise InvalidInput(f"Row {number}: {name} must be {describe(column)}, got {quote(cell)}.")
            elif cell is not None and not _is_readable(cell, kind):
                raise InvalidInput(f"Row {number}: {name} must be {describe(column)}, got {quote(cell)}.")


def describe(column: Mapping[str, Any]) -> str:
    """Return in words what a cell of this column may be."""
    if column["kind"] == "embedding":
        return f"{column['width']} finite numbers"
    if column["kind"] == IMAGE:
        return _DESCRIPTIONS[IMAGE]
    return f"{_DESCRIPTIONS.get(column['kind'], 'text')} or null"


def _is_readable(cell: Any, kind: str) -> bool:
    if isinstance(cell, list):
        return False
    if kind not in _DESCRIPTIONS:
        return isinstance(cell, str) or _is_finite(cell)
    if isinstance(cell, str) and read_word(cell, frozenset()) == "":
        return True  # one of the usual signs of a missing value
    if kind.startswith("date") and kind != DIGITS and not isinstance(cell, str):
        return False
    return math.isfinite(READERS[kind](cell))


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False
