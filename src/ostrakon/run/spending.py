"""The total cost of fits of estimators: all fits of this process count as fits on the same private records.

The budget of a run is in `ostrakon.run.budget`.
"""

import functools
import inspect
import multiprocessing
import os
import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.identity import row_marks
from ostrakon.statements.repeated import (
    AFTER_FAILURE,
    AFTER_SEARCH,
    FROM_ELSEWHERE,
    IN_SEARCH,
    IN_WORKER,
    with_earlier_fits,
    without_claim,
)
from ostrakon.statements.statement import Statement

_FIT_ONCE = ("sklearn.base", "sklearn.pipeline", "sklearn.utils", "sklearn.compose", "sklearn._config")
"""Modules of scikit-learn that fit an estimator at most once for each call of `fit`."""


class EveryFitSpends(UserWarning):
    """Several fits on the same private rows: their epsilons add up."""


def _may_share(one: NDArray[np.uint64] | None, other: NDArray[np.uint64] | None) -> bool:
    """Return whether two fits may be on the same people, by marks of their users (None: unknown)."""
    return one is None or other is None or bool(np.isin(one, other).any())


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """One fit.

    users: marks of its users; None if they are unknown. Private: marks can be tested against guesses. statement: of
    this fit alone; None if its cost is unknown, for the reason in `unknown`. process: its process. in_ledger: whether a
    ledger has charged it.
    """

    users: NDArray[np.uint64] | None
    statement: Statement | None
    process: str
    in_ledger: bool = False
    unknown: str = AFTER_SEARCH
    number: str = field(default_factory=lambda: uuid.uuid4().hex)


_fits: dict[str, Fit] = {}
_lock = threading.Lock()


@dataclass(kw_only=True)
class _Process:
    """The identity of this process. copy: whether it is a fork, which does not see later fits of its parent."""

    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    copy: bool = False

    def renew(self) -> None:
        """Change the identity in the child after a fork."""
        self.name, self.copy = uuid.uuid4().hex, True


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.renew)


def note_fit(
    statement: Statement, users: Any, *, known: Mapping[str, Fit], in_ledger: bool
) -> tuple[Statement, dict[str, Fit]]:
    """Record a fit; return its statement and all fits that it covers.

    Parameters
    ----------
    statement : Statement
        Of this fit alone.
    users : array-like or None
        The user of each private row; None where users are not named.
    known : mapping
        Fits that the estimator remembers itself.
    in_ledger : bool
        Whether a ledger adds up the fits of all processes.

    Notes
    -----
    Guarantee: as of `with_earlier_fits`, for all fits of this process, whatever their rows. A fit is left out only if
    both name their users and have none in common. Nothing is claimed within a search of scikit-learn, after one, or,
    unless a ledger has charged all fits, in a worker or forked process, or after a fit that another process has
    pickled. Fits of other processes are not covered otherwise.
    """
    searched = next(_frames_of_searches(), None) is not None
    marks = _marks(users)
    new = Fit(users=marks, statement=None if searched else statement, process=_process.name, in_ledger=in_ledger)
    remember(known)
    with _lock:
        related = {number: fit for number, fit in _fits.items() if _may_share(fit.users, marks)}
        _fits[new.number] = new
    earlier = [fit.statement for fit in related.values() if fit.statement is not None]
    unknown = [fit.unknown for fit in related.values() if fit.statement is None]
    all_in_ledger = in_ledger and all(fit.in_ledger for fit in related.values())
    if searched:
        claimed = without_claim(statement, IN_SEARCH)
    elif unknown:
        claimed = without_claim(statement, unknown[0])
    elif (multiprocessing.parent_process() is not None or _process.copy) and not all_in_ledger:
        claimed = without_claim(statement, IN_WORKER)
    elif any(fit.process != new.process for fit in related.values()) and not all_in_ledger:
        claimed = without_claim(statement, FROM_ELSEWHERE)
    else:
        claimed = with_earlier_fits(statement, earlier)
    if not searched and statement.guarantee is not None and claimed.guarantee is None:
        # The number makes every warning different, because Python shows equal ones once.
        warnings.warn(f"Fit {len(_fits)} of this process: {claimed.not_private}", EveryFitSpends, stacklevel=4)
    return claimed, related | {new.number: new}


def note_failure(users: Any) -> dict[str, Fit]:
    """Record and return a fit that failed after it had begun to draw noise. users: as in `note_fit`."""
    fit = Fit(users=_marks(users), statement=None, process=_process.name, unknown=AFTER_FAILURE)
    remember({fit.number: fit})
    return {fit.number: fit}


def _marks(users: Any) -> NDArray[np.uint64] | None:
    return None if users is None else np.unique(row_marks(users))


def remember(known: Mapping[str, Fit]) -> None:
    """Record the earlier fits of an estimator, which may have been pickled in another process."""
    with _lock:
        _fits.update(known)


def note_search() -> None:
    """Record a search of scikit-learn that copies an estimator: its fits may happen in other processes."""
    if next(_frames_of_searches(), None) is None:
        return
    with _lock:
        if not any(
            fit.unknown == AFTER_SEARCH and fit.statement is None and fit.users is None for fit in _fits.values()
        ):
            fit = Fit(users=None, statement=None, process=_process.name)
            _fits[fit.number] = fit


def warn_of_searches() -> None:
    """Warn, once in a process, if this fit is part of a search or a cross-validation of scikit-learn."""
    if next(_frames_of_searches(), None) is not None:
        warn_once()


@functools.cache
def warn_once() -> None:
    """Show the warning. Cached, because Python repeats warnings after a library has changed filters."""
    warnings.warn(
        "A search, a cross-validation or an ensemble fits many times on the same private rows. Every fit spends its "
        "whole epsilon, and which settings win is a further release: the statement claims nothing. Choose settings on "
        "public or simulated data in another process, and fit once.",
        EveryFitSpends,
        stacklevel=4,
    )


def _frames_of_searches() -> Iterator[FrameType]:
    """Yield the callers from parts of scikit-learn that fit several times."""
    frame = inspect.currentframe()  # the only way to see the caller
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("sklearn.") and not module.startswith(_FIT_ONCE):
            yield frame
        frame = frame.f_back
