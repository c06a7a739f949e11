"""Finish a study: add up the owners' tables, add noise if they have none, and train a student on the sum."""

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from ostrakon.data.checksummed import read_regular, sha256
from ostrakon.data.files import write_atomically
from ostrakon.data.table_files import digest_of_file
from ostrakon.data.understood import understood_table
from ostrakon.mechanisms.base import Relation
from ostrakon.planning.plan import Plan
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.task import Task
from ostrakon.run.noise_log import Log
from ostrakon.run.pipeline import Outcome
from ostrakon.run.stages.features import View
from ostrakon.run.steps import Say, run_steps
from ostrakon.run.storage import Collect
from ostrakon.statements.sentences import DROPPED_OUT
from ostrakon.statements.statement import Protects, Unit
from ostrakon.study.exchange import STUDY_NOT_COVERED
from ostrakon.study.study import Study
from ostrakon.study.study_storage import StudyStorage
from ostrakon.study.tables import read_shares, read_sum, shares_folder
from ostrakon.teachers.per_record import Block
from ostrakon.teachers.shards import Shards
from ostrakon.validation import InvalidInput
from ostrakon.votes import BoundedVotes, IntArray, Votes

_SUMMED = ".summed"


_ANNOUNCED = "The number of teachers follows from the numbers of people that the owners announced; it is not a count."


def finish_study(
    study: Study | str | os.PathLike[str],
    *,
    shares: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    without: Sequence[str] = (),
    test: str | os.PathLike[str] | None = None,
    rng: np.random.Generator | None = None,
    say: Say = lambda stage: None,
) -> Outcome:
    """Add up what the owners handed over and train the student.

    `ostrakon.report.release.publish` writes the release.

    Parameters
    ----------
    study : Study, or str or path-like
        The study or its folder.
    shares : str or path-like, optional
        The folder of the owners' files, or of the sum that they opened. Default: `shares_folder`.
    out : str or path-like, optional
        The folder of this run. Default: STUDY-finished beside the study.
    without : sequence of str
        Owners that dropped out. The guarantee holds without them, and the release names them.
    test : str or path-like, optional
        A public table with labels to measure the student on.
    rng : numpy.random.Generator, optional
        As of `ostrakon.run.pipeline.run`, if an aggregator draws the noise.
    say : callable
        Called with a sentence about each stage.

    Returns
    -------
    Outcome

    Raises
    ------
    InvalidInput
        If the study was changed, or shares are missing, damaged or of another study.

    Notes
    -----
    Guarantee: as the study says. If the call is killed and repeated, noise is not drawn twice.
    """
    terms = study if isinstance(study, Study) else Study.read(study)
    folder = shares_folder(terms, shares)
    owners, tables = (_read_sum if terms.exchange.summed else _read_tables)(terms, folder, without)
    path = terms.folder.resolve()
    home = RunFolder(path.with_name(f"{path.name}-finished") if out is None else out)
    plan = terms.plan(teachers=terms.voters(map(terms.owner, owners)), owners=len(owners))
    task = _task(terms, owners, tables, test)
    storage = _SumStorage(home, task, terms, plan, {"owners": owners}, tables, folder)
    outcome = run_steps(task, terms.options(), storage, rng=rng, say=say)
    parts: dict[str, Any] = {**vars(outcome), "paid_by_owners": True}
    return Outcome(folder=home.path, **parts)


def _read_sum(study: Study, folder: Path, without: Sequence[str]) -> tuple[list[str], dict[str, IntArray]]:
    """Return the owners that took part and the sum that they opened."""
    owners, table = read_sum(folder, study)
    left = [owner.name for owner in study.owners if owner.name not in owners]
    if without and {study.owner(name, given_as="without").name for name in without} != set(left):
        raise InvalidInput(f"without must name whose tables are not in the sum, {', '.join(left) or 'none'}.")
    return owners, {"opened sum": table}


def _read_tables(study: Study, folder: Path, without: Sequence[str]) -> tuple[list[str], dict[str, IntArray]]:
    """Return the owners that took part and their tables."""
    left = {study.owner(name, given_as="without").name for name in without}
    tables = {name: table for name, table in read_shares(folder, study).items() if name not in left}
    missing = [owner.name for owner in study.owners if owner.name not in tables and owner.name not in left]
    if missing:
        raise InvalidInput(
            f"{folder} lacks the share of {', '.join(missing)}; wait for it, or finish without "
            f"(--without {missing[0]})."
        )
    if not tables:
        raise InvalidInput(f"{folder} holds no share that is to be summed.")
    return list(tables), {f"share of {name}": table for name, table in tables.items()}


def _dropped_out(study: Study, owners: list[str]) -> str:
    """Say who dropped out; empty if nobody did."""
    left = [owner.name for owner in study.owners if owner.name not in owners]
    if not left:
        return ""
    return (
        f"{', '.join(left)}{DROPPED_OUT}{'its' if len(left) == 1 else 'their'} data is in this release, to "
        f"which {', '.join(owners)} contributed"
    )


def _task(study: Study, owners: list[str], tables: dict[str, IntArray], test: Any) -> Task:
    pool, left = study.pool, _dropped_out(study, owners)
    X_test, y_test = None, None
    fingerprints = {name: sha256(table.tobytes()) for name, table in tables.items()}
    if test is not None:
        X_test, y_test = pool.labelled(test, target=study.target, classes=study.classes)
        fingerprints["test"] = digest_of_file(test)
    return Task(
        private=People(
            people=sum(study.owner(name).people for name in owners), owners_per_person=study.mechanism.owners_per_person
        ),
        classes=study.classes,
        X_public=pool.X,
        X_test=X_test,
        y_test=y_test,
        classes_from="given by the coordinator of the study",
        fingerprints={"public": digest_of_file(study.public), **fingerprints},
        rows=f"columns {', '.join(pool.columns.kept)}, by name, as the public table has them",
        kinds={name: pool.columns.kinds[name] for name in pool.columns.kept},
        understood=understood_table(
            pool.columns,
            target=study.target,
            classes=study.classes,
            classes_from="given by the coordinator of the study",
            by=None,
            public_rows=len(pool.X),
        ),
        counted=False,
        trust_model="; ".join(filter(None, (study.trust_model, left))),
        remarks=(*([f"{left}."] if left else []), _ANNOUNCED),
        not_covered=STUDY_NOT_COVERED,
    )


@dataclass(frozen=True, kw_only=True)
class People:
    """The people of all owners, as `ostrakon.run.inputs.private_data.PrivateData` without any rows.

    Parameters
    ----------
    people : int
        The announced number.
    owners_per_person : int
        The number of owners at which one person may have rows.
    """

    people: int
    owners_per_person: int

    @property
    def protects(self) -> Protects:
        """What is protected: everything about a person."""
        return "records"

    @property
    def unit(self) -> Unit:
        """The unit of privacy: a person, whom statements call a user."""
        return "user"

    @property
    def units(self) -> int:
        """The announced number of people."""
        return self.people

    @property
    def unit_column(self) -> None:
        """None, because every owner has a column of its own."""
        return None

    @property
    def _scope(self) -> str:
        h = self.owners_per_person
        where = "at the one owner that has any" if h == 1 else f"at the at most {h} owners that have any"
        return f"in all the rows of one person, {where}"

    @property
    def _same(self) -> str:
        h = self.owners_per_person
        return "one owner, the same" if h == 1 else f"at most {h} owners, the same"

    def adjacencies(self, *, counted: bool = False) -> tuple[tuple[Relation, str], ...]:
        """Return all kinds of neighbours in words: see `PrivateData`."""
        start, rows = "Two collections of the owners' data are neighbours when", self._scope.removeprefix("in ")
        if counted:
            own, other = f"{start} they differ {self._scope}, in any way.", f"{start} one lacks {rows}."
            return ("replace", own), ("take-out", other)
        own = f"{start} they differ in all the rows of one person, at {self._same} in both, in any way."
        return ("add-remove", own), ("replace", f"{start} {rows}, are exchanged for those of another one.")

    def fingerprint(self, key: bytes) -> str:
        """Refuse: each owner uses its own ledger."""
        raise InvalidInput("ledger belongs to the owners of a study: give it where each of them joins.")

    def shards(self, teachers: int, **how: Any) -> Shards:
        """Refuse: the rows are elsewhere."""
        raise InvalidInput("The rows of a study stay with their owners.")

    def by_unit(self, **how: Any) -> Iterator[Block]:
        """Refuse: the rows are elsewhere."""
        raise InvalidInput("The rows of a study stay with their owners.")


class _SumStorage(StudyStorage):
    """The storage of a finished study, whose votes and noise come from the owners' tables."""

    def __init__(
        self,
        home: RunFolder,
        task: Task,
        study: Study,
        plan: Plan,
        asked: dict[str, Any],
        tables: dict[str, IntArray],
        shares: Path,
    ) -> None:
        super().__init__(home, task, study, plan, asked)
        self._shares = shares
        self._sum = reduce(np.add, tables.values())
        self._noised = study.exchange.noised

    def votes(self, plan: Plan, view: View, queries: IntArray, collect: Collect, *, spread: bool = False) -> Votes:
        """Return the sum of exact tables; for noisy ones, whose votes nobody knows, return empty tables."""
        counts = np.zeros_like(self._sum) if self._noised else self._sum
        if not self._noised:
            self._claim()
        bound = plan.mechanism.contribution_bound or 1
        # The number of people is unknown here; this one is large enough.
        teachers = max(1, int(counts.sum()))
        return BoundedVotes(counts, teachers=teachers, max_contributions=bound)

    def _claim(self) -> None:
        """Mark exact tables as summed here, before noise is drawn: another run on them would draw a second time."""
        token = (self._home.read() or {}).get("summed", {}).get("token")
        if token is None:
            token = secrets.token_hex(16)
            self._home.add("summed", {"token": token})
        mark = self._shares / _SUMMED
        with FileLock(self._shares / ".lock", mode=0o600):
            if not mark.exists():
                write_atomically(mark, f"{token} {self._home.path.resolve()}")
        digest, _, where = read_regular(mark, largest=8192).decode(errors="replace").partition(" ")
        if digest != token:
            raise InvalidInput(
                f"{self._shares} was summed and noised in another folder: a second draw would cost privacy twice; "
                f"finish there, with --out {where or 'FOLDER'}."
            )

    def log(self) -> Log:
        """Return the noise log; for noisy tables, their sum instead."""
        return _SumLog(self._sum) if self._noised else super().log()


class _SumLog(Log):
    """The sum of noisy tables, as a log that draws nothing more."""

    def __init__(self, table: IntArray) -> None:
        self._table = table

    def draw(self, *given: Any, **more: Any) -> tuple[IntArray, bool]:
        """Return the sum in whole steps: every owner's noise came from the cryptographic source."""
        return self._table, True
