"""Which student: candidates are cross-validated on the released answers themselves, which costs no privacy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from ostrakon.students.cells import cell_of
from ostrakon.students.labelled import UNLABELLED, row_count, take_rows
from ostrakon.validation import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """What was released, to learn from.

    queries: positions of the answered public rows. counts: the votes there, (queries, classes): noisy histograms,
    or one vote for a released label. sigma2: the noise of the histograms, None for labels.
    """

    queries: IntArray
    counts: FloatArray
    sigma2: float | None = None

    def fit_student(self, student: Any, X: Any) -> Any:
        """`student`, fitted on public rows X: on the histograms where there are any and it can learn from them."""
        if self.sigma2 is not None and hasattr(student, "fit_counts"):
            return student.fit_counts(X, self.queries, self.counts, sigma2=self.sigma2)
        labels = np.full(row_count(X), UNLABELLED, np.int64)
        labels[self.queries] = self.counts.argmax(axis=1)
        return student.fit(X, labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A student to be tried.

    name: what a user would type. student: unfitted. takes_rows: whether it learns from public rows as they are, not
    from their features. tried: what is cross-validated in its place, because it is much quicker; None: itself.
    fallback: whether it is kept where nobody can be told from a guess.
    """

    name: str
    student: Any
    takes_rows: bool = False
    tried: Any = None
    fallback: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """The student that was kept, fitted on everything released.

    agreement: of each candidate that could be tried, by name: the share of the held-out votes that it predicts. From
    released numbers alone, so it may be published; it carries their noise and may even exceed 1.
    """

    chosen: Candidate
    student: Any
    agreement: dict[str, float]


def select(
    candidates: Sequence[Candidate],
    X: Any,
    features: NDArray[np.float32],
    released: Released,
    *,
    folds: int = 5,
    tried: int | None = None,
    seed: int = 0,
) -> Selection:
    """The candidate that agrees best with what was released and held out, fitted on all of it.

    X, features: all public rows and their features. folds: the queries are cut into so many parts at random; tried:
    parts that are held out in turn (None: all). Kept is the first candidate that agrees as well as the best one but for
    one standard error of the released numbers: within that the order of candidates says more than the agreement.
    Where nobody agrees that clearly better than a guess among all classes, a fallback is kept if there is one.

    Histograms: a held-out query leaves with its cell, all public rows nearest to it; a candidate scores the noisy count
    of the class that it predicts, averaged over the rows of the cell, and its agreement is the sum of scores divided by
    the sum of all held-out counts. Labels: a candidate scores where it predicts the held-out label.
    Guarantee: a function of public rows and released answers, so it costs no privacy of its own. Deterministic
    under `seed` and the candidates' own.
    Errors: `InvalidInput` where no candidate can learn from what was released.
    """
    parts = _parts(len(released.queries), folds=folds, tried=tried, seed=seed) if len(candidates) > 1 else []
    own = None if released.sigma2 is None else cell_of(features, features[released.queries])
    agreement: dict[str, float] = {}
    refused: InvalidInput | None = None
    for candidate in candidates:
        rows = X if candidate.takes_rows else features
        try:
            scored = [_agreement(candidate, rows, released, part, own) for part in parts]
        except InvalidInput as error:
            refused = error
            continue
        total = sum(weight for _, weight in scored)
        agreement[candidate.name] = sum(score for score, _ in scored) / total if total > 0 else 0.0
    if not agreement:
        assert refused is not None
        raise refused
    able = [candidate for candidate in candidates if candidate.name in agreement]
    margin, most = _error(released, parts), max(agreement.values())
    chosen = next(candidate for candidate in able if agreement[candidate.name] >= most - margin)
    if parts and most < 1 / released.counts.shape[1] + margin:
        chosen = next((candidate for candidate in able if candidate.fallback), chosen)
    student = _taught(chosen, chosen.student, X if chosen.takes_rows else features, released)
    return Selection(chosen=chosen, student=student, agreement=agreement if parts else {})


def _error(released: Released, parts: list[IntArray]) -> float:
    """The standard error of an agreement: of the noise on one count of every query, or of that many coin tosses."""
    held = np.concatenate(parts) if parts else np.empty(0, np.int64)
    if not len(held):
        return 0.0
    if released.sigma2 is None:
        return 0.5 / len(held) ** 0.5
    total = float(released.counts[held].sum())
    return released.sigma2 * len(held) ** 0.5 / total if total > 0 else 0.0


def _parts(queries: int, *, folds: int, tried: int | None, seed: int) -> list[IntArray]:
    folds = min(folds, queries)
    order = np.random.default_rng([seed, queries]).permutation(queries)
    # One query alone cannot be held out from itself.
    return [order[number::folds] for number in range(folds)][:tried] if folds > 1 else []


def _agreement(
    candidate: Candidate, rows: Any, released: Released, part: IntArray, own: IntArray | None
) -> tuple[float, float]:
    """(votes that agree with what was predicted, votes) of the queries of `part`, held out."""
    student = candidate.student if candidate.tried is None else candidate.tried
    left = np.setdiff1d(np.arange(len(released.queries)), part)
    if own is None:
        fewer = Released(queries=released.queries[left], counts=released.counts[left])
        predicted = _taught(candidate, student, rows, fewer).predict(take_rows(rows, released.queries[part]))
        return float(released.counts[part, predicted].sum()), float(released.counts[part].sum())
    # A representative may have been told from its cell by a tie: it learns or is held out as its query is.
    cell = own.copy()
    cell[released.queries] = np.arange(len(released.queries))
    held = np.isin(cell, part)
    kept = np.flatnonzero(~held)
    place = np.searchsorted(kept, released.queries[left])
    fewer = Released(queries=place, counts=released.counts[left], sigma2=released.sigma2)
    taught = _taught(candidate, student, take_rows(rows, kept), fewer)
    hidden = np.flatnonzero(held)
    predicted = taught.predict(take_rows(rows, hidden))
    sizes = np.bincount(cell, minlength=len(released.queries))
    score = (released.counts[cell[hidden], predicted] / sizes[cell[hidden]]).sum()
    return float(score), float(released.counts[part].sum())


def _taught(candidate: Candidate, student: Any, rows: Any, released: Released) -> Any:
    # Trees and kernels are quick here, and threads that wait for each other are not where a machine is shared.
    with nullcontext() if candidate.takes_rows else threadpool_limits(1, user_api="openmp"):
        return released.fit_student(clone(student), rows)
