"""Which student: candidates are cross-validated on the released answers themselves, which costs no privacy."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from multiprocessing.pool import AsyncResult, ThreadPool
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.numerics.threads import on_one_thread
from ostrakon.progress import working
from ostrakon.students.agreement_estimate import HeldOut
from ostrakon.students.cells import cell_by_query
from ostrakon.students.labelled import UNLABELLED
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.validation import InvalidInput
from ostrakon.votes import FloatArray, IntArray

RACED = 2
"""Parts after which candidates that are behind are left out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """What was released, to learn from.

    queries: positions of the answered public rows. counts: the votes there, (queries, classes): noisy histograms,
    or one vote for a released label. sigma2: the noise of the histograms, None for labels. moments: sums of features
    that were released beside them, of all records at once; None: none were. pool: features of all public rows and which
    of them are left to learn from, where others are held out.
    """

    queries: IntArray
    counts: FloatArray
    sigma2: float | None = None
    moments: ReleasedMoments | None = None
    pool: tuple[NDArray[np.float32], IntArray] | None = None

    def fit_student(self, student: Any, X: Any) -> Any:
        """`student`, fitted on public rows X: on the histograms where there are any and it can learn from them."""
        if hasattr(student, "fit_moments"):
            return student.fit_moments(X, self)
        if self.sigma2 is not None and hasattr(student, "fit_counts"):
            return student.fit_counts(X, self.queries, self.counts, sigma2=self.sigma2)
        labels = np.full(row_count(X), UNLABELLED, np.int64)
        heard = self.clear
        labels[self.queries[heard]] = self.counts.argmax(axis=1)[heard]
        return student.fit(X, labels)

    @property
    def clear(self) -> NDArray[np.bool_]:
        """Queries whose label can be told from the noise, (queries,): all of them, where labels were released.

        Of histograms: those whose largest count leads by two standard deviations of a difference, and of the others
        the clearest, until half of all queries are there.
        """
        if self.sigma2 is None or len(self.queries) < 2:
            return np.ones(len(self.queries), bool)
        others, top = np.partition(self.counts, -2, axis=1)[:, -2:].T
        lead = top - others
        return lead >= min(2 * 2**0.5 * self.sigma2, float(np.median(lead)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A student to be tried.

    name: what a user would type. student: unfitted. takes_rows: whether it learns from public rows as they are, not
    from their features. tried: what is cross-validated in its place, because it is much quicker; None: itself.
    fallback: whether it is kept where no candidate is better than a guess. mean_of: names of other candidates, if it
    believes the mean of what they do: where they are tried, nothing is fitted for it.
    """

    name: str
    student: Any
    takes_rows: bool = False
    tried: Any = None
    fallback: bool = False
    mean_of: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """The student that was kept, fitted on everything released.

    agreement: of each candidate that was tried on all parts, by name: the share of the held-out votes that it predicts.
    From released numbers alone, so it may be published; it carries their noise and may even exceed 1. held: what the
    chosen one (or the quicker one tried in its place) said where it was held out; None where it was not tried. likely:
    its probabilities of public rows there, (rows, classes), NaN of rows that were not held out; None if it was not
    tried or gives none. own: the cell of each row, of labels the answer that it got, -1 for none. cells: the cells of
    noisy counts; None of labels. by_class: `held` with the labels that the student gives for its objective, all cells
    in order; None unless all were held out. sizes: what released sums say of the sizes of the classes, and their noise;
    None without sums. released: what it was fitted on; None where nothing was held out. how: why it was kept, in words,
    where neither its agreement nor the operator decided. behind: looks for a warning that it was named and is far worse
    than the default, which takes as long as the default; empty otherwise.
    """

    chosen: Candidate
    student: Any
    agreement: dict[str, float]
    held: HeldOut | None = None
    likely: FloatArray | None = None
    own: IntArray | None = None
    cells: Cells | None = None
    by_class: HeldOut | None = None
    sizes: tuple[FloatArray, float] | None = None
    released: Released | None = None
    how: str = ""
    behind: Callable[[], str] = str


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
    parts that are held out in turn (None: all); a candidate that is behind the first after `RACED` parts is left out.
    Kept is the first candidate that agrees as well as the best one but for the noise (two standard errors of counts,
    one of labels): within that the order of candidates says more than the agreement. With
    labels it is the error of the difference of two candidates, who may err alike (McNemar 1947). Where nobody agrees
    better than a guess among all classes, a fallback is kept if there is one.

    Histograms: a held-out query leaves with its cell, all public rows nearest to it; a candidate scores the noisy count
    of the class that it predicts, averaged over the rows of the cell, and its agreement is the sum of scores divided by
    the sum of all held-out counts. Labels: a candidate scores where it predicts the held-out label.
    Guarantee: a function of public rows and released answers, so it costs no privacy of its own. Deterministic
    under `seed` and the candidates' own.
    Errors: `InvalidInput` where no candidate can learn from what was released.
    """
    # A network that was named is not trained several times over.
    alone = len(candidates) == 1
    parts = (
        [] if alone and candidates[0].takes_rows else _parts(len(released.queries), folds=folds, tried=tried, seed=seed)
    )
    cells = None if released.sigma2 is None else _cells(features, released.queries, seed=seed)
    if cells is None:
        own = np.full(len(features), -1)
        own[released.queries] = np.arange(len(released.queries))
    else:
        own = cells.own
    trials = _tried(candidates, X, features, released, parts, cells)
    said, refused, agreement = trials.said, trials.refused, dict[str, float]()
    if refused is not None and not alone and not isinstance(refused, InvalidInput):
        raise refused
    for name, counted in said.items():
        total = sum(float(released.counts[part].sum()) for part in parts)
        agreement[name] = _score(released, parts, counted) / total if total > 0 else 0.0
    if alone and refused is not None:
        # Too little to hold out a part of it; it may be enough to learn from.
        parts, agreement = [], {candidates[0].name: 0.0}
    if not agreement:
        assert refused is not None
        raise refused
    able = [candidate for candidate in candidates if candidate.name in agreement]
    best = max(agreement, key=lambda name: agreement[name])
    chosen = able[0]
    if parts:
        chosen = next(
            candidate
            for candidate in able
            if agreement[candidate.name] >= agreement[best] - _apart(released, parts, said[best], said[candidate.name])
        )
    if parts and agreement[best] < 1 / released.counts.shape[1]:
        chosen = next((candidate for candidate in able if candidate.fallback), chosen)
    done, rows = trials.first if chosen is candidates[0] else None, X if chosen.takes_rows else features
    student = taught(chosen, chosen.student, rows, released) if done is None else done.get()
    held = _held(released, parts, said[chosen.name], len(candidates)) if parts else None
    likely = trials.beliefs.get(chosen.name) if parts else None
    return Selection(
        chosen=chosen,
        student=student,
        agreement=agreement if parts and not alone else {},
        held=held,
        likely=likely,
        own=own,
        cells=cells,
        by_class=_by_class(held, cells, likely),
        released=released if parts else None,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trials:
    """What candidates said where they were held out.

    said: of each candidate and each part, as `_counted` gives it. beliefs: probabilities, (rows, classes), NaN of rows
    that were not held out, of each candidate that has any. refused: the last refusal of a candidate that cannot learn.
    first: the first candidate, taught meanwhile on everything, since it is nearly always the one that is kept.
    """

    said: dict[str, list[IntArray]]
    beliefs: dict[str, FloatArray]
    refused: ValueError | None
    first: AsyncResult[Any] | None = None


def _tried(
    candidates: Sequence[Candidate],
    X: Any,
    features: NDArray[np.float32],
    released: Released,
    parts: list[IntArray],
    cells: Cells | None,
) -> _Trials:
    """Every candidate, taught without one part after the other; after `RACED` parts, the first leaves others behind."""
    said: dict[str, list[IntArray]] = {candidate.name: [] for candidate in candidates}
    shape = len(features), released.counts.shape[1]
    beliefs = {candidate.name: np.full(shape, np.nan) for candidate in candidates}
    refused: ValueError | None = None

    def outcome(asked: tuple[Candidate, _HeldOutPart]) -> IntArray | ValueError:
        candidate, held = asked
        try:
            with _quietly(candidate):
                return held.said_by(candidate, X if candidate.takes_rows else features, beliefs)
        except ValueError as error:
            return error

    # A mean is tried after those that it is made of.
    running = sorted(candidates, key=lambda candidate: bool(candidate.mean_of))
    fits, done = len(candidates) * len(parts), 0
    with working("Trying students", fits) as report, _at_the_same_time(candidates) as threads:
        of_first = candidates[0], candidates[0].student, features, released
        first = None if threads is None else threads.apply_async(taught, of_first)
        for raced, some in enumerate((parts[:RACED], parts[RACED:])):
            if raced and some:
                running = _ahead(running, candidates, released, parts, said)
            held = [_HeldOutPart.of(part, released, features, cells) for part in some]
            asked = [(candidate, part) for part in held for candidate in running]
            outcomes = (map if threads is None else threads.imap)(outcome, [one for one in asked if not one[0].mean_of])
            for one in asked:
                candidate, done = one[0], done + 1
                result = outcome(one) if candidate.mean_of else next(outcomes)
                report(done, fits)
                if candidate not in running:
                    continue
                if not isinstance(result, ValueError):
                    said[candidate.name].append(result)
                    continue
                refused = result
                if not isinstance(result, InvalidInput):
                    return _Trials(said={}, beliefs={}, refused=refused)
                running.remove(candidate)
                del said[candidate.name]
        if first is not None:
            first.wait()
        report(fits, fits)
    finished = {candidate.name for candidate in running}
    return _Trials(
        said={candidate.name: said[candidate.name] for candidate in candidates if candidate.name in finished},
        beliefs={name: likely for name, likely in beliefs.items() if np.isfinite(likely).any()},
        refused=refused,
        first=first,
    )


@contextmanager
def _at_the_same_time(candidates: Sequence[Candidate]) -> Generator[ThreadPool | None]:
    """Threads in which candidates are taught; None if one is taught after the other."""
    # Networks take all cores and share their random numbers, and a student that was named may share anything. Threads
    # reset each other's filters of warnings, of which scikit-learn's forests warn, and those of the caller's threads.
    shared = len(candidates) == 1 or any(candidate.takes_rows for candidate in candidates)
    if shared or threading.current_thread() is not threading.main_thread():
        yield None
        return
    # These threads are daemons, so an interrupt does not wait for their fits.
    with on_one_thread(api=None), warned_after(), ThreadPool(effective_n_jobs(-1)) as threads:
        yield threads


def _ahead(
    running: list[Candidate],
    candidates: Sequence[Candidate],
    released: Released,
    parts: list[IntArray],
    said: dict[str, list[IntArray]],
) -> list[Candidate]:
    """Those of `running` that may still be kept: the first of all candidates, those not behind it, and a fallback."""
    scores = {candidate.name: _score(released, parts[:RACED], said[candidate.name]) for candidate in running}
    first = next((candidate.name for candidate in candidates if candidate.name in scores), "")
    kept = {each.name for each in running if each.name == first or each.fallback or scores[each.name] >= scores[first]}
    kept |= {name for each in running if each.name in kept for name in each.mean_of}
    return [each for each in running if each.name in kept]


def _score(released: Released, parts: list[IntArray], said: list[IntArray]) -> float:
    """The held-out counts of the classes that were said."""
    return sum(float((released.counts[part] * _shares(of)).sum()) for part, of in zip(parts, said, strict=True))


def _held(released: Released, parts: list[IntArray], said: list[IntArray], students: int) -> HeldOut:
    together = np.concatenate(parts)
    order = np.argsort(together)
    together, counted = together[order], np.concatenate(said, axis=1)[:, order]
    return HeldOut(
        counts=released.counts[together],
        said=counted[:2],
        # Of all that was released: in what is left of even classes, another one leads than in what was held out.
        frequent=int(released.counts.sum(axis=0).argmax()),
        complete=len(together) == len(released.queries),
        of_queries=counted[2] if len(counted) > 2 else None,
        students=students,
    )


def _by_class(held: HeldOut | None, cells: Cells | None, likely: FloatArray | None) -> HeldOut | None:
    """All cells that were held out, with what students believe there; None unless these are all that there are."""
    if held is None or cells is None or not held.complete:
        return None
    return held if likely is None else replace(held, beliefs=cells.mean(likely))


def _shares(said: IntArray) -> FloatArray:
    """The share of each cell's rows that is said to be of each class, both halves together."""
    both = said[:2].sum(axis=0)
    return both / both.sum(axis=1, keepdims=True)


def _apart(released: Released, parts: list[IntArray], best: list[IntArray], other: list[IntArray]) -> float:
    """What noise alone may tell two candidates apart: two standard errors of counts; of labels, one."""
    counts = released.counts[np.concatenate(parts)]
    if released.sigma2 is not None:
        total = float(counts.sum())
        return 2 * released.sigma2 * len(counts) ** 0.5 / total if total > 0 else 0.0
    # Of equal ones, each query on which one alone is right is a toss of a coin; one more keeps few queries from
    # looking certain.
    difference = _shares(np.concatenate(best, axis=1)) - _shares(np.concatenate(other, axis=1))
    tossed = np.count_nonzero((counts * difference).sum(axis=1))
    return (tossed + 1) ** 0.5 / len(counts)


def _parts(queries: int, *, folds: int, tried: int | None, seed: int) -> list[IntArray]:
    folds = min(folds, queries)
    order = np.random.default_rng([seed, queries]).permutation(queries)
    # One query alone cannot be held out from itself.
    return [order[number::folds] for number in range(folds)][:tried] if folds > 1 else []


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The cell of every public row, and in which of two random halves of the cell the row is; queries are in the first.

    query: whether a row is the query of its cell.
    """

    own: IntArray
    half: IntArray
    query: NDArray[np.bool_]

    def counted(self, labels: IntArray, classes: int, *, rows: Any = slice(None)) -> IntArray:
        """Rows by label, (3, cells, classes): in each half of a cell and, third, the query. rows: those of `labels`."""
        own, query = self.own[rows], self.query[rows]
        found = np.zeros((3, int(self.own.max()) + 1, classes), np.int64)
        np.add.at(found, (self.half[rows], own, labels), 1)
        found[2, own[query], labels[query]] = 1
        return found

    def mean(self, values: FloatArray) -> FloatArray:
        """The mean of values of rows, (rows, columns), in each cell, (cells, columns)."""
        totals = np.zeros((int(self.own.max()) + 1, values.shape[1]))
        np.add.at(totals, self.own, values)
        return totals / np.bincount(self.own)[:, None]


def _cells(features: NDArray[np.float32], queries: IntArray, *, seed: int) -> Cells:
    # A tie may put a representative into another cell: it learns or is held out as its query is.
    own = cell_by_query(features, queries)
    order = np.random.default_rng([seed, len(own)]).permutation(len(own))
    order = order[np.argsort(own[order], kind="stable")]
    first = np.searchsorted(own[order], own[order])
    half = np.empty(len(own), np.int64)
    half[order] = (np.arange(len(own)) - first) % 2
    half[queries] = 0
    query = np.zeros(len(own), bool)
    query[queries] = True
    return Cells(own=own, half=half, query=query)


@dataclass(frozen=True, kw_only=True, eq=False)
class _HeldOutPart:
    """Queries that are held out, `part`, and what is left to learn from.

    kept: the public rows that are left; None: all of them, where labels were released. hidden: the rows to be asked
    about: those of the cells of `part`, of labels the queries themselves.
    """

    part: IntArray
    released: Released
    left: Released
    kept: IntArray | None
    hidden: IntArray
    cells: Cells | None

    @classmethod
    def of(cls, part: IntArray, released: Released, features: NDArray[np.float32], cells: Cells | None) -> _HeldOutPart:
        rest = np.setdiff1d(np.arange(len(released.queries)), part)
        queries, kept, hidden = released.queries[rest], None, released.queries[part]
        if cells is not None:
            away = np.isin(cells.own, part)
            kept, hidden = np.flatnonzero(~away), np.flatnonzero(away)
            queries = np.searchsorted(kept, queries)
        pool = None if kept is None else (features, kept)
        left = replace(released, queries=queries, counts=released.counts[rest], pool=pool)
        return cls(part=part, released=released, left=left, kept=kept, hidden=hidden, cells=cells)

    def said_by(self, candidate: Candidate, rows: Any, beliefs: dict[str, FloatArray]) -> IntArray:
        """For each query held out: its public rows, by half, that the candidate says are of each class.

        beliefs: receives its probabilities, (rows, classes), and holds those of others.
        """
        likely = beliefs[candidate.name]
        if candidate.mean_of:
            likely[self.hidden] = np.mean([beliefs[name][self.hidden] for name in candidate.mean_of], axis=0)
            return self._counted(likely[self.hidden].argmax(axis=1))
        student = candidate.student if candidate.tried is None else candidate.tried
        learned = taught(candidate, student, rows if self.kept is None else take_rows(rows, self.kept), self.left)
        asked = take_rows(rows, self.hidden)
        if hasattr(learned, "predict_proba"):
            likely[self.hidden] = 0.0
            likely[np.ix_(self.hidden, np.asarray(learned.classes_, np.int64))] = learned.predict_proba(asked)
        return self._counted(np.asarray(learned.predict(asked), np.int64))

    def _counted(self, predicted: IntArray) -> IntArray:
        """(halves, queries, classes): rows by predicted class; of cells in both halves and, third, of their queries."""
        if self.cells is not None:
            classes = self.released.counts.shape[1]
            return self.cells.counted(predicted, classes, rows=self.hidden)[:, self.part]
        found = np.zeros((2, *self.released.counts.shape), np.int64)
        found[0, self.part, predicted] = 1
        return found[:, self.part]


@contextmanager
def warned_after() -> Generator[None]:
    """Warnings of threads, each once when the threads are done; those of students that stop early are left out."""
    given, show, over = dict[tuple[str, str], Any](), warnings.showwarning, False

    def keep(message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any) -> None:
        if over:
            # Threads restore what they saw when they began: a fit that was interrupted, this function.
            show(message, category, filename, lineno, *more)
        # Threads reset each other's filters.
        elif not issubclass(category, ConvergenceWarning):
            given[category.__name__, str(message)] = message, category, filename, lineno

    try:
        with warnings.catch_warnings():
            warnings.showwarning = keep
            yield
    finally:
        over = True
    for one in given.values():
        warnings.warn_explicit(*one)


@contextmanager
def _quietly(candidate: Candidate) -> Generator[None]:
    """On one thread and without warnings of students that stop early: they are judged by what they have learned."""
    # Products of small matrices, trees and kernels are quick here; threads that wait for each other are not.
    threads = nullcontext() if candidate.takes_rows else on_one_thread(api=None)
    with threads, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def taught(candidate: Candidate, student: Any, rows: Any, released: Released) -> Any:
    """A copy of `student`, the candidate's own or a quicker one, that has learned what was released."""
    with _quietly(candidate):
        return released.fit_student(clone(student), rows)
