"""Labels for public rows from a run's trained teachers: one noisy answer a row, until the account is spent."""

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

from ostrakon.export.row_form import RowForm
from ostrakon.features.text import reads_text
from ostrakon.ledger.chain import Tampered
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.location import default_url
from ostrakon.ledger.state import Account, History
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.noise import secure_rng
from ostrakon.numerics.threads import on_one_thread
from ostrakon.options.files import Files
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan
from ostrakon.run.budget import Budget, budget_of
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.features import View, view_of
from ostrakon.run.stages.votes import teachers_of
from ostrakon.run.storage import InFolder, Storage
from ostrakon.service.answers import Answer, AnswerStore
from ostrakon.service.desk import RemoteOwner, join, read_owners
from ostrakon.service.owner import OwnerVotes, Terms
from ostrakon.service.pictures import PictureForm
from ostrakon.teachers import TeacherStore
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import Votes

CHECKS = 2
"""Rows that a block lets the teachers check for every answer that it pays for: a row without an answer costs less."""
DEFAULT_BLOCK = 100


class BudgetSpent(InvalidInput):
    """The budget of the data does not pay for another answer."""


class ClientLimitReached(InvalidInput):
    """A client has asked about as many different rows as it may."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Rows of a client, read as the learners take them.

    Parameters
    ----------
    client : str
    limit : int
        The number of different rows that the client may ask about in all.
    rows : pandas.DataFrame or numpy.ndarray
    """

    client: str
    limit: int
    rows: Any


@dataclass(frozen=True, kw_only=True)
class _NewRow:
    """A row that no client asked about before: which client asks, and the row's features."""

    client: str
    features: Any


@dataclass(kw_only=True)
class _Block:
    """A part of the account that this process has reserved, and how much of it is left."""

    run: str
    checks: int
    answers: int
    labels: list[int] = dataclasses.field(default_factory=list[int])
    shown: set[str] = dataclasses.field(default_factory=set[str])
    """Rows that other owners may have counted, drawn or not."""


class Labeller:
    """Answer rows by the noisy vote of trained teachers (Confident-GNMax), each different row once.

    `open_service` makes it. One thread at a time may use it.

    Attributes
    ----------
    task : Task
    plan : Plan
        Of one block of answers.
    form : RowForm or PictureForm
        What a row must look like.
    classes : tuple of str
    run_epsilon : float
        The epsilon of the run that trained the teachers.
    folder : pathlib.Path
        Of the answers.
    owner : OwnerVotes
        What the desk of another service may ask.
    owners : tuple of RemoteOwner
        The other owners, if this is the desk of several.

    Notes
    -----
    Guarantee: all answers, together with every other run on the data's account, are within the cap of that account,
    for any rows in any order, whether or not they were chosen from earlier answers. Answers are paid for in blocks:
    each block is reserved in the ledger at its worst case before its first noise is drawn (docs/ledger.md). An answer
    is on the disk before it is sent. A row that was answered, or was refused an answer, gets the same result again at
    no cost. What is left of a block when the process ends is not used again.
    """

    def __init__(
        self,
        *,
        task: Task,
        plan: Plan,
        form: RowForm | PictureForm,
        view: Any,
        teachers: Any,
        budget: Budget,
        store: AnswerStore,
        run_epsilon: float,
        owner: OwnerVotes,
        owners: tuple[RemoteOwner, ...] = (),
        terms: Terms,
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
        self.owner = owner
        self.owners = owners
        self._terms = terms
        self._block: _Block | None = None
        self._blocks_left: tuple[Account, int] | None = None
        self._next: Budget | None = None
        self._unstored: list[Answer] = []
        self._rng = secure_rng()

    def stored_label(self, key: str) -> int | None:
        """Return the class number that a row has got, -1 for no answer; None if no client asked about it."""
        return self._store.labels.get(key)

    @property
    def rows_known(self) -> int:
        """The number of different rows that all clients together have asked about."""
        return len(self._store.labels)

    def rows_asked(self, client: str) -> int:
        """Return the number of different rows that a client has asked about."""
        return self._store.rows_asked[client]

    @property
    def account(self) -> Account:
        """The account as of this process's last reservation."""
        return self._budget.account

    def blocks_left(self) -> int:
        """Return the number of blocks that still fit into the account, as of this process's last reservation.

        Of several owners, into the accounts of all of them.
        """
        account = self.account
        if self._blocks_left is None or self._blocks_left[0] is not account:
            # For an account with thousands of blocks this takes a second, and any client may ask.
            self._blocks_left = (account, self._budget.times())
        return min([self._blocks_left[1], *(owner.blocks_left for owner in self.owners)])

    def read(self, client: str, limit: int, rows: Sequence[Mapping[str, Any]]) -> Request:
        """Read the rows of a client.

        Parameters
        ----------
        client : str
        limit : int
            The number of different rows that the client may ask about in all.
        rows : sequence of mappings
            Values by the name of the column.

        Returns
        -------
        Request

        Raises
        ------
        InvalidInput
            If something is not a row like the public ones.
        """
        return Request(client=client, limit=limit, rows=self.form.read(list(rows)))

    def answer(self, requests: Sequence[Request]) -> list[tuple[str, ...] | InvalidInput]:
        """Ask the teachers about all rows that are new.

        Parameters
        ----------
        requests : sequence of Request
            The first request with a new row pays for it.

        Returns
        -------
        list of (tuple of str, or InvalidInput)
            For each request, the keys of its rows (see `stored_label`) or a refusal. A request that would pass its
            client's limit asks nothing (`ClientLimitReached`). If the account is spent (`BudgetSpent`), some of the
            rows may have been answered.

        Raises
        ------
        InvalidInput
            If the ledger or the disk fails.
        """
        # Answers that a failing disk did not take count for their clients first.
        self._store_drawn()
        features, keys = self._features(requests)
        results: list[tuple[str, ...] | InvalidInput] = list(keys)
        new_rows: dict[str, _NewRow] = {}
        for at, (request, own_keys) in enumerate(zip(requests, keys, strict=True)):
            new = [key for key in dict.fromkeys(own_keys) if self.stored_label(key) is None and key not in new_rows]
            already = self.rows_asked(request.client) + sum(row.client == request.client for row in new_rows.values())
            if already + len(new) > request.limit:
                left = max(0, request.limit - already)
                results[at] = ClientLimitReached(f"The client may ask about {left} more new rows, got {len(new)}.")
                continue
            new_rows |= {key: _NewRow(client=request.client, features=features[at][own_keys.index(key)]) for key in new}
        error = self._ask_teachers(new_rows) if new_rows else None
        for at, own_keys in enumerate(keys):
            unanswered = any(self.stored_label(key) is None for key in own_keys)
            if error is not None and unanswered and isinstance(results[at], tuple):
                results[at] = error
        return results

    def close(self) -> None:
        """End the current block."""
        self._end_block()
        self.owner.close()

    def _features(self, requests: Sequence[Request]) -> tuple[list[Any], list[tuple[str, ...]]]:
        """For each request, the features of its rows and a checksum of those of every row."""
        if not requests:
            return [], []
        # Together, because one row takes as long as some hundred.
        parts = [request.rows for request in requests]
        together = pd.concat(parts, ignore_index=True) if hasattr(parts[0], "iloc") else np.concatenate(parts)
        features = np.asarray(self._view.transform(together))
        split = np.split(features, np.cumsum([len(part) for part in parts])[:-1])
        return split, [tuple(_key(row) for row in rows) for rows in split]

    def _ask_teachers(self, new_rows: Mapping[str, _NewRow]) -> BudgetSpent | None:
        """Answer rows by the teachers, one after the other, until the account is spent."""
        features = np.stack([row.features for row in new_rows.values()])
        own = Votes.from_predictions(self._teachers.predict(features), classes=self.plan.classes).counts
        keys, start = list(new_rows), 0
        self._store.require_reserve()
        while start < len(keys):
            try:
                block = self._open_block()
                # This number of rows cannot get more answers than the block pays for.
                part = slice(start, start + min(block.checks, block.answers))
                block.shown.update(keys[part])
                if block.labels and len(block.shown) > self.plan.queries:
                    # While one owner was away, others counted rows that were not drawn, and have no room for these.
                    self._end_block()
                    continue
                counts = sum((owner.votes(block.run, self._terms, features[part]) for owner in self.owners), own[part])
            except Refused:
                return BudgetSpent("The budget of these data is spent: rows answered before still are, new ones not.")
            votes = Votes(counts, teachers=self.plan.teachers)
            answers = np.asarray(self.plan.mechanism.sample(votes, self._rng), np.int64)
            block.checks -= len(answers)
            block.answers -= int((answers != NO_ANSWER).sum())
            block.labels += answers.tolist()
            self._unstored = [
                Answer(row=key, label=int(label), client=new_rows[key].client, block=block.run)
                for key, label in zip(keys[part], answers, strict=True)
            ]
            self._store_drawn()
            start += len(answers)
        return None

    def _store_drawn(self) -> None:
        """Store what was drawn. After a failure the same answers are tried again before anything else is drawn."""
        if self._unstored:
            self._store.add(self._unstored)
            self._unstored = []

    def _open_block(self) -> _Block:
        """Return a block with room for one more row and answer."""
        if self._block is not None and not (self._block.checks and self._block.answers):
            self._end_block()
        if self._block is None:
            # The next attempt finds a reservation that failed half way, by the same receipt.
            self._next = self._budget.again(Storage()) if self._next is None else self._next
            run = self._next.reserve()
            for owner in self.owners:
                # It pays once for a block of this name. If another owner fails, the block is asked for again.
                owner.votes(run, self._terms, self.owner.no_rows)
            self._budget, self._next = self._next, None
            answers = self.plan.max_answers
            assert answers is not None
            self._block = _Block(run=run, checks=self.plan.queries, answers=answers)
        return self._block

    def _end_block(self) -> None:
        block = self._block
        if block is not None:
            labels = np.array(block.labels, np.int64)
            # If an older copy of the ledger refuses, the block stays: no other one is begun in that copy.
            self._budget.settle(Answers(labels=labels, taught=labels, rounds=(), secure=True))
            self._block = None


@contextlib.contextmanager
def open_service(
    folder: str | os.PathLike[str],
    *,
    ledger: str | None = None,
    budget: float | None = None,
    ledger_account: str | None = None,
    block: int = DEFAULT_BLOCK,
    owners: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Generator[Labeller]:
    """Open the teachers of the run in `folder`. No other process can use the folder until the block ends.

    Parameters
    ----------
    folder : str or path-like
        Of a run of trained teachers and Confident-GNMax (`ostrakon train --teachers N`). Its private and public files
        must be where they were.
    ledger : str, optional
        URL of the ledger. Default: the one in which the run has reserved, or budget.db beside its data. The cost of
        the run itself is reserved there first, if it was not yet.
    budget : float above 0, optional
        Epsilon of a new account, if the data have none.
    ledger_account : str, optional
        Name of the account.
    block : int from 1 to 100000
        The number of answers that are reserved at a time.
    owners : str or path-like, optional
        TOML file of other owners (`ostrakon.service.desk.read_owners`), whose teachers vote together with these.
    progress : bool
        Whether to show the progress of teachers that must be trained again.

    Yields
    ------
    Labeller

    Raises
    ------
    InvalidInput
        If the folder does not hold such a run, its data changed, or another owner cannot be asked.
    Refused
        If the account has no room for one block.
    """
    home = RunFolder(folder)
    settings, facts = _read_run(home)
    files = Files.of(Files.from_toml(settings, home.description))
    if ledger is None:
        ledger = default_url(files.private) if facts is None else facts["ledger"]
    spend = {"ledger": ledger, "budget": budget, "ledger_account": ledger_account}
    others = {name: value for name, value in settings.items() if name not in spend}
    limits = {name: value for name, value in spend.items() if value is not None}
    # One process: workers would outlive a service that is killed.
    own = Options.of({**Options.from_toml(others, home.description), **limits, "jobs": 1})
    if facts is not None and facts["ledger"] != own.ledger:
        raise InvalidInput(f"ledger must be {facts['ledger']}, in which this run has reserved, got {own.ledger!r}.")
    task = task_from_files(**files.for_task(), text=reads_text(own.representation))
    task = dataclasses.replace(task, classes=tuple(str(label) for label in task.classes))
    storage = InFolder(home, task, own, settings)
    with contextlib.ExitStack() as stack:
        stack.enter_context(storage.opened())
        plan = storage.plan(_no_plan)
        _require_served(plan, own, home.path)
        remote, terms = _agreed(plan, block, owners)
        # The cost of the run itself comes first: an account without it would be wrong.
        block_plan = terms.plan(plan)
        first = budget_of(plan, task, own, storage, besides=[block_plan])
        assert first is not None
        first.reserve()
        view = storage.view(lambda: view_of(task.X_public, own.representation, seed=own.seed))
        store = TeacherStore(home.private / "teachers")
        shards = home.private / "shards"
        teachers = teachers_of(plan, task.private, view, own, progress=progress, store=store, folder=shards).in_memory()
        answers = stack.enter_context(contextlib.closing(AnswerStore(home.private / "service")))
        _require_paid(answers, first.history())
        stack.enter_context(on_one_thread(api=None))
        of_run = OwnerVotes(plan=plan, classes=task.classes, public=view.public, teachers=teachers, budget=first)
        join(of_run.facts(), remote, terms)
        labeller = Labeller(
            task=task,
            plan=block_plan,
            form=_form_of(task, view),
            view=view,
            teachers=teachers,
            budget=first.of_plan(block_plan, Storage()),
            store=answers,
            run_epsilon=plan.guarantee.epsilon,
            owner=of_run,
            owners=remote,
            terms=terms,
        )
        stack.callback(labeller.close)
        yield labeller


def _read_run(home: RunFolder) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what was asked of a run with trained teachers, and its receipt from a ledger, if it has one."""
    description = home.read()
    if description is None:
        raise InvalidInput(
            f"The folder must be of a run with trained teachers (ostrakon train --teachers N): {home.path}."
        )
    if "store" in description:
        raise InvalidInput(f"The folder must be of a run without --store, whose teachers are in it: {home.path}.")
    settings = description.get("asked", {})
    if settings.get("protect") == "labels":
        raise InvalidInput(
            f"A service must have a run that protects records, and {home.path} holds one that protects labels alone."
        )
    if not {"private", "public"} <= set(settings):
        raise InvalidInput(f"{home.description} must name the private and the public file of its run, and it does not.")
    return settings, description.get("ledger")


def _agreed(plan: Plan, block: int, owners: str | os.PathLike[str] | None) -> tuple[tuple[RemoteOwner, ...], Terms]:
    """Return the other owners, and a block over all votes; unless given, the threshold grows with the teachers."""
    remote, noise = ((), {}) if owners is None else read_owners(owners)
    for owner in remote:
        owner.greet()
    answers = whole("block", block, at_least=1, at_most=100_000)
    teachers = plan.teachers + sum(owner.facts["teachers"] for owner in remote)
    own = plan.mechanism.parameters()
    own["threshold"] *= teachers / plan.teachers
    return remote, Terms(**{**own, **noise}, teachers=teachers, queries=CHECKS * answers, answers=answers)


def _require_paid(answers: AnswerStore, account: History) -> None:
    """Refuse a ledger that lacks a block from which answers were given: it is an older copy."""
    paid = {spend.run for spend in account.spends}
    unknown = sorted(answers.blocks - paid)
    if unknown:
        raise Tampered(
            f"The ledger does not hold {len(unknown)} blocks whose answers were given (the first is {unknown[0]}): it "
            "was restored from an older copy; restore the newest copy, and charge nothing to it until then."
        )


def _require_served(plan: Plan, options: Options, folder: Path) -> None:
    if not isinstance(plan.mechanism, ConfidentGNMax) or plan.gate is not None:
        kind = "a gate" if plan.gate is not None else plan.mechanism.name
        raise InvalidInput(
            f"A service must have a run with trained teachers and confident-gnmax (ostrakon train --teachers N), and "
            f"{folder} holds one of {kind}."
        )
    if plan.labels is not None:
        raise InvalidInput(f"A service must have one label for each row, and the run of {folder} has several.")
    if options.smooth:
        raise InvalidInput(f"A service must have teachers that are not smoothed, and those of {folder} are.")


def _form_of(task: Task, view: View) -> RowForm | PictureForm:
    rows = RowForm.of(task.X_public, kinds={**(task.kinds or {}), **view.texts}, names=task.names)
    return PictureForm.of(task.X_public) if rows.columns is None else rows


def _key(features: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(features).tobytes()).hexdigest()


def _no_plan() -> Plan:
    raise InvalidInput("The run must have settled its plan.")
