"""Labels for public rows from a run's trained teachers, one noisy answer a row, for as long as an account lasts."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.export.row_form import RowForm
from ostrakon.features.text import reads_text
from ostrakon.ledger.chain import Tampered
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.place import beside
from ostrakon.ledger.state import Account, History
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.noise import secure_rng
from ostrakon.options.files import Files
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan, shape
from ostrakon.run.budget import Budget, budget_of
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.queries import Answers
from ostrakon.run.stages.votes import trained
from ostrakon.run.storage import InFolder, InMemory
from ostrakon.service.answers import AnswerStore, Given
from ostrakon.teachers import TeacherStore
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import Votes

CHECKS = 2
"""So many rows may be put to the teachers for every answer that a block pays: those without an answer cost less."""
DEFAULT_BLOCK = 100


class Spent(InvalidInput):
    """The budget of the data does not reach for another answer."""


class TooMany(InvalidInput):
    """A client has asked about as many different rows as it may."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Rows of a client, read as the learners take them. most: so many different rows may it ask about in all."""

    client: str
    most: int
    rows: Any


@dataclass(frozen=True, kw_only=True)
class _Fresh:
    """A row that was never asked: who pays for it, and its features."""

    client: str
    features: Any


@dataclass(kw_only=True)
class _Block:
    """A part of the account that this process has reserved, and how much of it is left."""

    run: str
    checks: int
    answers: int
    labels: list[int] = dataclasses.field(default_factory=list[int])


class Labeller:
    """Answers rows by the noisy vote of trained teachers (Confident-GNMax), each different row once.

    Made by `opened`. One thread at a time may ask.

    Guarantee: all answers, together with every other run on the data's account, are within the cap of that account,
    whatever rows were asked in whatever order, chosen from earlier answers or not: answers are paid in blocks, each
    reserved in the ledger before its first noise is drawn, at its worst case (docs/ledger.md). An answer is on the disk
    before it leaves, and a row that was answered, or refused an answer, gets that again, for nothing. What is left of a
    block when the process ends is not used again.
    """

    def __init__(
        self,
        *,
        task: Task,
        plan: Plan,
        form: RowForm,
        view: Any,
        teachers: Any,
        budget: Budget,
        store: AnswerStore,
        run_epsilon: float,
    ) -> None:
        self.task = task
        self.plan = plan
        self.run_epsilon = run_epsilon
        self.form = form
        self.classes = tuple(map(str, task.classes))
        self._view = view
        self._teachers = teachers
        self._budget = budget
        self._store = store
        self.folder = store.folder
        self._block: _Block | None = None
        self._left: tuple[Account, int] | None = None
        self._next: Budget | None = None
        self._unstored: list[Given] = []
        self._rng = secure_rng()

    def known(self, key: str) -> int | None:
        """The class number that a row has been given, -1 for no answer; None where it was never asked."""
        return self._store.labels.get(key)

    def asked(self, client: str) -> int:
        """How many different rows a client has put to the teachers."""
        return self._store.asked[client]

    @property
    def account(self) -> Account:
        """The account, as it was when this process last reserved."""
        return self._budget.account

    @property
    def paid_answers(self) -> int:
        """How many answers the block at hand still pays."""
        return 0 if self._block is None else min(self._block.answers, self._block.checks)

    def blocks_left(self) -> int:
        """How many blocks still fit into the account, as it was when this process last reserved."""
        account = self.account
        if self._left is None or self._left[0] is not account:
            # Of an account with thousands of blocks it takes a second, and any client may ask.
            self._left = (account, self._budget.times())
        return self._left[1]

    def read(self, client: str, most: int, rows: Sequence[Mapping[str, Any]]) -> Request:
        """Rows of a client. Errors: `InvalidInput` for what is no row of the public table."""
        return Request(client=client, most=most, rows=self.form.read(list(rows)))

    def answer(self, requests: Sequence[Request]) -> list[tuple[str, ...] | InvalidInput]:
        """Put all rows that were never asked to the teachers; of each request the keys of its rows (see `known`).

        Whoever comes first pays for a row. A request that would pass its client's cap asks nothing (`TooMany`); where
        the account ends (`Spent`), rows that were answered before that are known.
        """
        # What a failing disk did not take counts for its clients first.
        self._store_drawn()
        features, keys = self._features(requests)
        told: list[tuple[str, ...] | InvalidInput] = list(keys)
        fresh: dict[str, _Fresh] = {}
        for at, (each, own) in enumerate(zip(requests, keys, strict=True)):
            new = [key for key in dict.fromkeys(own) if self.known(key) is None and key not in fresh]
            already = self.asked(each.client) + sum(one.client == each.client for one in fresh.values())
            if already + len(new) > each.most:
                left = max(0, each.most - already)
                told[at] = TooMany(f"The client may put {left} more new rows to the teachers, got {len(new)}.")
                continue
            fresh |= {key: _Fresh(client=each.client, features=features[at][own.index(key)]) for key in new}
        error = self._ask(fresh) if fresh else None
        for at, own in enumerate(keys):
            if error is not None and any(self.known(key) is None for key in own) and isinstance(told[at], tuple):
                told[at] = error
        return told

    def close(self) -> None:
        """End the block at hand."""
        self._end_block()

    def _features(self, requests: Sequence[Request]) -> tuple[list[Any], list[tuple[str, ...]]]:
        """Features of each request's rows, and a checksum of those of every row."""
        if not requests:
            return [], []
        # Together: transforming a row takes as long as transforming some hundred.
        parts = [each.rows for each in requests]
        together = pd.concat(parts, ignore_index=True) if hasattr(parts[0], "iloc") else np.concatenate(parts)
        features = np.asarray(self._view.transform(together))
        split = np.split(features, np.cumsum([len(part) for part in parts])[:-1])
        return split, [tuple(_key(row) for row in some) for some in split]

    def _ask(self, fresh: Mapping[str, _Fresh]) -> Spent | None:
        """Answer rows by the teachers, one after the other, until the account ends."""
        predictions = self._teachers.predict(np.stack([each.features for each in fresh.values()]))
        votes = Votes.from_predictions(predictions, classes=self.plan.classes)
        keys, start = list(fresh), 0
        self._store.require_room(len(keys))
        while start < len(keys):
            try:
                block = self._paid()
            except Refused:
                return Spent("The budget of these data is spent: rows answered before still are, new ones not.")
            # No more answers than are paid for can come of so many rows.
            some = slice(start, start + min(block.checks, block.answers))
            drawn = np.asarray(self.plan.mechanism.sample(votes[some], self._rng), np.int64)
            block.checks -= len(drawn)
            block.answers -= int((drawn != NO_ANSWER).sum())
            block.labels += drawn.tolist()
            self._unstored = [
                Given(row=key, label=int(label), client=fresh[key].client, block=block.run)
                for key, label in zip(keys[some], drawn, strict=True)
            ]
            self._store_drawn()
            start += len(drawn)
        return None

    def _store_drawn(self) -> None:
        """Store what was drawn. After a failure the same answers are tried again before anything else is drawn."""
        if self._unstored:
            self._store.keep(self._unstored)
            self._unstored = []

    def _paid(self) -> _Block:
        """A block with room for one more row and answer."""
        if self._block is not None and not (self._block.checks and self._block.answers):
            self._end_block()
        if self._block is None:
            # A reservation that failed half way is found again, by the same receipt, at the next attempt.
            self._next = self._budget.again(InMemory()) if self._next is None else self._next
            run = self._next.reserve()
            self._budget, self._next = self._next, None
            answers = self.plan.max_answers
            assert answers is not None
            self._block = _Block(run=run, checks=self.plan.queries, answers=answers)
        return self._block

    def _end_block(self) -> None:
        block = self._block
        if block is not None:
            labels = np.array(block.labels, np.int64)
            # Refused by an older copy of the ledger, the block stays at hand: no other one is begun in that copy.
            self._budget.settle(Answers(labels=labels, taught=labels, rounds=(), secure=True))
            self._block = None


@contextlib.contextmanager
def opened(
    folder: str | os.PathLike[str],
    *,
    ledger: str | None = None,
    budget: float | None = None,
    ledger_account: str | None = None,
    block: int = DEFAULT_BLOCK,
    progress: bool = False,
) -> Generator[Labeller]:
    """The teachers of the run in `folder`, ready to answer; the folder is this process's until the block ends.

    folder: of a run of trained teachers and Confident-GNMax on a table (`ostrakon train --teachers N`), whose private
    and public files are where they were. ledger, budget, ledger_account: as of a run; no ledger: the one in which the
    run has reserved, or budget.db beside its data. What the run itself costs is reserved there, too, if it was not yet.
    block: answers that are reserved at a time.
    Errors: `InvalidInput` for a folder without such a run, data that changed, an account without room (`Refused`).
    """
    home = RunFolder(folder)
    held = home.read()
    if held is None:
        raise InvalidInput(
            f"The folder must be of a run with trained teachers (ostrakon train --teachers N): {folder}."
        )
    if "store" in held:
        raise InvalidInput(f"The folder must be of a run without --store, whose teachers are in it: {folder}.")
    asked = held.get("asked", {})
    if asked.get("protect") == "labels":
        raise InvalidInput(
            f"A service must have a run that protects records, and {folder} holds one that protects labels alone."
        )
    if not {"private", "public"} <= set(asked):
        raise InvalidInput(f"{home.description} must name the private and the public file of its run, and it does not.")
    files = Files.of(Files.from_toml(asked, home.description))
    known = held.get("ledger")
    if ledger is None:
        ledger = beside(files.private) if known is None else known["ledger"]
    spend = {"ledger": ledger, "budget": budget, "ledger_account": ledger_account}
    named = {name: value for name, value in asked.items() if name not in spend}
    own = Options.of(
        {**Options.from_toml(named, home.description), **{k: v for k, v in spend.items() if v is not None}}
    )
    task = task_from_files(**files.for_task(), text=reads_text(own.representation))
    task = dataclasses.replace(task, classes=tuple(str(label) for label in task.classes))
    place = InFolder(home, task, own, asked)
    with contextlib.ExitStack() as stack:
        stack.enter_context(place.opened())
        plan = place.plan(_never)
        _require_served(plan, own, task, home.path)
        if known is not None and known["ledger"] != own.ledger:
            raise InvalidInput(f"ledger must be {known['ledger']}, in which this run has reserved, got {own.ledger!r}.")
        # What the run draws, or has drawn, comes first: a budget that forgot it would be a false one.
        each = _block_plan(plan, block)
        first = budget_of(plan, task, own, place, besides=[each])
        assert first is not None
        first.reserve()
        view = place.view(lambda: view_of(task.X_public, own.representation, seed=own.seed))
        private = home.private
        store = TeacherStore(private / "teachers")
        teachers = trained(plan, task.private, view, own, progress=progress, store=store, folder=private / "shards")
        answers = stack.enter_context(contextlib.closing(AnswerStore(private / "service")))
        _require_paid(answers, first.history())
        stack.enter_context(threadpool_limits(1))
        labeller = Labeller(
            task=task,
            plan=each,
            form=RowForm.of(task.X_public, kinds={**(task.kinds or {}), **view.texts}, names=task.names),
            view=view,
            teachers=teachers.in_memory(),
            budget=first.of_plan(each, InMemory()),
            store=answers,
            run_epsilon=plan.guarantee.epsilon,
        )
        stack.callback(labeller.close)
        yield labeller


def _block_plan(plan: Plan, block: int) -> Plan:
    """A block of answers as a plan of its own: no statement of the run speaks of it, the account does."""
    answers = whole("block", block, at_least=1, at_most=100_000)
    queries = CHECKS * answers
    sizes: dict[str, Any] = {"queries": queries, "max_answers": answers, "delta": plan.delta}
    of_votes: dict[str, Any] = shape(False, teachers=plan.teachers, classes=plan.classes)
    bound = worst_case(plan.mechanism, **sizes, **of_votes)
    return dataclasses.replace(plan, interactive=False, bound=bound, **sizes)


def _require_paid(answers: AnswerStore, account: History) -> None:
    """Refuse a ledger that does not know of a block from which answers were given: it is an older copy."""
    paid = {spend.run for spend in account.spends}
    unknown = sorted(answers.blocks - paid)
    if unknown:
        raise Tampered(
            f"The ledger does not hold {len(unknown)} blocks whose answers were given (the first is {unknown[0]}): it "
            "was restored from an older copy; restore the newest copy, and charge nothing to it until then."
        )


def _require_served(plan: Plan, options: Options, task: Task, folder: Path) -> None:
    if not isinstance(plan.mechanism, ConfidentGNMax) or plan.gate is not None:
        told = "a gate" if plan.gate is not None else plan.mechanism.name
        raise InvalidInput(
            f"A service must have a run with trained teachers and confident-gnmax (ostrakon train --teachers N), and "
            f"{folder} holds one of {told}."
        )
    if options.smooth:
        raise InvalidInput(f"A service must have teachers that are not smoothed, and those of {folder} are.")
    if RowForm.of(task.X_public, kinds=task.kinds, names=task.names).columns is None:
        raise InvalidInput(f"A service must have rows of a table, and {folder} holds a run on images.")


def _key(features: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(features).tobytes()).hexdigest()


def _never() -> Plan:
    raise InvalidInput("The run must have settled its plan.")
