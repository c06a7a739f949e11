"""What fits on the same private records cost together: every fit of this process is remembered."""

from __future__ import annotations

import functools
import hashlib
import inspect
import multiprocessing
import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.partition import row_marks
from ostrakon.statements.repeated import AFTER_SEARCH, IN_SEARCH, IN_WORKER, with_earlier_fits, without_claim
from ostrakon.statements.statement import Statement

_FIT_ONCE = ("sklearn.base", "sklearn.pipeline", "sklearn.utils", "sklearn.compose", "sklearn._config")
"""Modules of scikit-learn that fit an estimator at most once for each call of `fit`."""


class EveryFitSpends(UserWarning):
    """Several fits on the same private rows: their epsilons add up."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateRecords:
    """By what private records are recognised. Private: hashes of records can be tested against guesses.

    hashes: sorted, of records and of users; None where the records are not known, which then are those of every fit.
    labels: a digest of all labels in their order, which stays the same where columns are scaled, added or left out.
    """

    hashes: NDArray[np.uint64] | None
    labels: str | None = None

    @classmethod
    def of(cls, X: Any, y: Any, users: Any = None) -> PrivateRecords:
        """Of rows, their labels (None: not known), and whose each row is."""
        hashes = [row_marks(X), *([] if users is None else [row_marks(users)])]
        numbers = None if y is None else pd.factorize(np.asarray(y))[0].astype("<i8")
        return cls(
            hashes=np.unique(np.concatenate(hashes)),
            labels=None if numbers is None else hashlib.sha256(numbers.tobytes()).hexdigest(),
        )

    def shares_some_with(self, other: PrivateRecords) -> bool:
        """Whether any record or user, or the whole vector of labels, is the same."""
        if self.hashes is None or other.hashes is None:
            return True
        if self.labels is not None and self.labels == other.labels:
            return True
        return bool(np.isin(self.hashes, other.hashes, assume_unique=True).any())


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """One fit. statement: of this fit alone; None for a search, of whose fits nothing is known."""

    records: PrivateRecords
    statement: Statement | None
    number: str = field(default_factory=lambda: uuid.uuid4().hex)


_fits: dict[str, Fit] = {}
_lock = threading.Lock()


def note_fit(
    statement: Statement, records: PrivateRecords, *, known: Mapping[str, Fit], in_ledger: bool
) -> tuple[Statement, dict[str, Fit]]:
    """Remember a fit; returns what its statement may claim, and all fits on the same records.

    Parameters
    ----------
    statement : Statement
        Of this fit alone.
    records : PrivateRecords
    known : mapping
        Fits that the estimator remembers itself, perhaps from the process in which it was pickled.
    in_ledger : bool
        Whether a ledger adds up the fits of all processes.

    Returns
    -------
    tuple of (Statement, dict)

    Notes
    -----
    Guarantee: as of `with_earlier_fits`. Nothing is claimed within a search of scikit-learn, after one on the same
    records, or, without a ledger, in a worker process. Fits of other processes are not covered otherwise, nor fits on
    rows that were both changed and reordered.
    """
    searched = next(_frames_of_searches(), None) is not None
    with _lock:
        _fits.update(known)
        # Equal records are kept in memory once.
        records = next((fit.records for fit in _fits.values() if _are_equal(fit.records, records)), records)
        own = Fit(records=records, statement=None if searched else statement)
        same = {number: fit for number, fit in _fits.items() if fit.records.shares_some_with(records)}
        _fits[own.number] = own
    earlier = [fit.statement for fit in same.values() if fit.statement is not None]
    if searched:
        claimed = without_claim(statement, IN_SEARCH)
    elif len(earlier) < len(same):
        claimed = without_claim(statement, AFTER_SEARCH)
    elif multiprocessing.parent_process() is not None and not in_ledger:
        claimed = without_claim(statement, IN_WORKER)
    else:
        claimed = with_earlier_fits(statement, earlier)
    return claimed, same | {own.number: own}


def note_search() -> None:
    """Remember a search of scikit-learn that copies an estimator now: its fits may happen in other processes."""
    frames = list(_frames_of_searches())
    if not frames:
        return
    records = PrivateRecords(hashes=None)
    for frame in frames:
        if frame.f_locals.get("X") is not None:
            try:
                records = PrivateRecords.of(frame.f_locals["X"], frame.f_locals.get("y"))
            except Exception:  # rows in a form that only the estimator's own steps read: they count as any rows
                records = PrivateRecords(hashes=None)
            break
    with _lock:
        searches = (fit.records for fit in _fits.values() if fit.statement is None)
        if not any(_are_equal(one, records) for one in searches):
            fit = Fit(records=records, statement=None)
            _fits[fit.number] = fit


def warn_of_searches() -> None:
    """Warn, once a process, where this fit is one of a search or a cross-validation of scikit-learn."""
    if next(_frames_of_searches(), None) is not None:
        warn_once()


@functools.cache
def warn_once() -> None:
    """The warning. Cached, because Python forgets what it has warned of whenever a library changes filters."""
    warnings.warn(
        "A search, a cross-validation or an ensemble fits many times on the same private rows. Every fit spends its "
        "whole epsilon, and which settings win is a further release: the statement claims nothing. Choose settings on "
        "public or simulated data, and fit once.",
        EveryFitSpends,
        stacklevel=4,
    )


def _frames_of_searches() -> Iterator[FrameType]:
    """The callers that belong to a part of scikit-learn which fits several times."""
    frame = inspect.currentframe()  # nothing else tells an estimator who fits it
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("sklearn.") and not module.startswith(_FIT_ONCE):
            yield frame
        frame = frame.f_back


def _are_equal(one: PrivateRecords, other: PrivateRecords) -> bool:
    if one.hashes is None or other.hashes is None:
        return one.hashes is other.hashes
    return one.labels == other.labels and np.array_equal(one.hashes, other.hashes)
