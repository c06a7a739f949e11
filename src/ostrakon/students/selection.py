"""Selection of the student: candidates are cross-validated on the released answers, which costs no privacy."""

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

FIRST_PARTS = 2
"""Number of parts after which candidates that score lower than the first one are eliminated."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """What was released: the training data of a student.

    Parameters
    ----------
    queries : array of int, shape (queries,)
        Positions of the answered public rows.
    counts : array of float, shape (queries, classes)
        Their votes: noisy histograms, or one vote for a released label.
    sigma2 : float, optional
        Standard deviation of the noise of the histograms; None for labels.
    moments : ReleasedMoments, optional
        Released sums of features over all records.
    pool : (array of float, array of int), optional
        Features of all public rows and positions of the training rows, if others are held out.
    """

    queries: IntArray
    counts: FloatArray
    sigma2: float | None = None
    moments: ReleasedMoments | None = None
    pool: tuple[NDArray[np.float32], IntArray] | None = None

    def fit_student(self, student: Any, X: Any) -> Any:
        """Return the student, fitted on public rows.

        Parameters
        ----------
        student : object
            With `fit_moments`, `fit_counts` or `fit`.
        X : array or DataFrame
            All public rows, or their features.

        Returns
        -------
        object
            Fitted on the released sums if it takes them, else on histograms if there are any and it takes them, else on
            labels.
        """
        if hasattr(student, "fit_moments"):
            return student.fit_moments(X, self)
        if self.sigma2 is not None and hasattr(student, "fit_counts"):
            return student.fit_counts(X, self.queries, self.counts, sigma2=self.sigma2)
        labels = np.full(row_count(X), UNLABELLED, np.int64)
        clear = self.clear
        labels[self.queries[clear]] = self.counts.argmax(axis=1)[clear]
        return student.fit(X, labels)

    @property
    def clear(self) -> NDArray[np.bool_]:
        """Whether the noise leaves the label of each query clear, (queries,); released labels are all clear.

        Histograms are clear if their largest count leads by two standard deviations of a difference, and at least half
        of all queries count as clear, those with the largest leads.
        """
        if self.sigma2 is None or len(self.queries) < 2:
            return np.ones(len(self.queries), bool)
        others, top = np.partition(self.counts, -2, axis=1)[:, -2:].T
        lead = top - others
        return lead >= min(2 * 2**0.5 * self.sigma2, float(np.median(lead)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A student that selection compares with others.

    Parameters
    ----------
    name : str
        As a user would type it.
    student : object
        Unfitted.
    takes_rows : bool
        Whether it learns from public rows themselves instead of their features.
    tried : object, optional
        A quicker student to cross-validate instead of it.
    fallback : bool
        Whether it is chosen if no candidate is better than a guess.
    mean_of : tuple of str
        Names of the candidates whose probabilities it averages, if it is a mean; it is then scored from theirs without
        a fit of its own.
    """

    name: str
    student: Any
    takes_rows: bool = False
    tried: Any = None
    fallback: bool = False
    mean_of: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """The chosen student, fitted on everything that was released.

    Parameters
    ----------
    chosen : Candidate
    student : object
        Fitted.
    agreement : dict of float
        For each candidate that was tried on all parts, the share of the held-out votes that it predicts. It is computed
        from released numbers, so it may be published; with their noise it may exceed 1.
    out_of_fold : HeldOut, optional
        Predictions of the chosen student (or its quicker substitute) for held-out queries; None if it was not tried.
    proba : array of float, shape (rows, classes), optional
        Its probabilities of held-out public rows, NaN for other rows; None if it was not tried or has none.
    cell_index : array of int, shape (rows,), optional
        The cell of each row, or with labels its query; -1 for none.
    cells : Cells, optional
        The cells of noisy counts; None with labels.
    all_cells : HeldOut, optional
        `out_of_fold`, also for labels of another objective; None unless all cells were held out.
    sizes : (array of float, float), optional
        Estimates of the class sizes from released sums, and their noise.
    released : Released, optional
        The training data; None if nothing was held out.
    how : str
        The reason of the choice in words, if neither agreement nor the operator decided.
    compare_with_default : callable
        Computes a warning that a student named by the operator is far worse than the default one, empty without one;
        takes as long as fitting the default.
    """

    chosen: Candidate
    student: Any
    agreement: dict[str, float]
    out_of_fold: HeldOut | None = None
    proba: FloatArray | None = None
    cell_index: IntArray | None = None
    cells: Cells | None = None
    all_cells: HeldOut | None = None
    sizes: tuple[FloatArray, float] | None = None
    released: Released | None = None
    how: str = ""
    compare_with_default: Callable[[], str] = str


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
    """Return the candidate that agrees best with held-out released answers, fitted on all answers.

    Parameters
    ----------
    candidates : sequence of Candidate
        At least one, the preferred ones first.
    X : array or DataFrame
        All public rows.
    features : array of float32, shape (rows, features)
        Their features.
    released : Released
    folds : int, default 5
        Number of random parts of the queries.
    tried : int, optional
        Number of parts that are held out in turn; by default all. Candidates that score lower than the first one after
        `FIRST_PARTS` parts are left out.
    seed : int, default 0

    Returns
    -------
    Selection

    Raises
    ------
    InvalidInput
        If no candidate can learn from what was released.

    Notes
    -----
    The first candidate within the noise of the best agreement (two standard errors for counts, one for labels) is
    chosen: differences within the noise say less than the order of candidates. With labels it is the error of the
    difference of two candidates, which may make the same mistakes (McNemar 1947). If no candidate agrees better than a
    guess among all classes, a fallback is chosen if there is one.

    Histograms: a query is held out with its cell, all public rows nearest to it. A candidate's score is the noisy count
    of the class that it predicts, averaged over the rows of the cell; its agreement is the sum of scores divided by the
    sum of all held-out counts. Labels: the score is 1 if it predicts the held-out label, else 0.

    Guarantee: a function of public rows and released answers, so it costs no privacy of its own. Deterministic under
    `seed` and the candidates' own.
    """
    # A single network is not cross-validated: it would be trained several times.
    single = len(candidates) == 1
    count = 0 if single and candidates[0].takes_rows else len(released.queries)
    parts = _split_queries(count, folds=folds, tried=tried, seed=seed)
    cells = None if released.sigma2 is None else Cells(cell_index=cell_by_query(features, released.queries))
    if cells is None:
        cell_index = np.full(len(features), -1)
        cell_index[released.queries] = np.arange(len(released.queries))
    else:
        cell_index = cells.cell_index
    results = _cross_validated(candidates, X, features, released, parts, cells)
    if results.refusal is not None:
        if single:
            # The answers are too few to hold some out, but may be enough to fit the student.
            parts = []
        elif not results.predicted or not isinstance(results.refusal, InvalidInput):
            raise results.refusal
    chosen, agreement = candidates[0], dict[str, float]()
    if parts:
        agreement = _agreement(released, parts, results.predicted)
        chosen = _best([one for one in candidates if one.name in agreement], agreement, released, parts, results)
    fitted_first, inputs = results.first if chosen is candidates[0] else None, X if chosen.takes_rows else features
    student = fit_candidate(chosen, chosen.student, inputs, released) if fitted_first is None else fitted_first.get()
    out_of_fold = _out_of_fold(released, parts, results.predicted[chosen.name], len(candidates)) if parts else None
    return Selection(
        chosen=chosen,
        student=student,
        agreement={} if single else agreement,
        out_of_fold=out_of_fold,
        proba=results.proba.get(chosen.name) if parts else None,
        cell_index=cell_index,
        cells=cells,
        all_cells=out_of_fold if cells is not None and out_of_fold is not None and out_of_fold.complete else None,
        released=released if parts else None,
    )


def _agreement(released: Released, parts: list[IntArray], predicted: dict[str, list[IntArray]]) -> dict[str, float]:
    """Return the share of the held-out votes that each candidate predicts."""
    total = sum(float(released.counts[part].sum()) for part in parts)
    return {name: _score(released, parts, of) / total if total > 0 else 0.0 for name, of in predicted.items()}


def _best(
    usable: list[Candidate],
    agreement: dict[str, float],
    released: Released,
    parts: list[IntArray],
    results: _FoldResults,
) -> Candidate:
    """Return the first candidate within the noise of the best agreement, or a fallback if none exceeds a guess."""
    best = max(agreement, key=lambda name: agreement[name])
    fallback = next((candidate for candidate in usable if candidate.fallback), None)
    if fallback is not None and agreement[best] < 1 / released.counts.shape[1]:
        return fallback
    return next(
        candidate
        for candidate in usable
        if agreement[candidate.name]
        >= agreement[best] - _noise_margin(released, parts, results.predicted[best], results.predicted[candidate.name])
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _FoldResults:
    """Out-of-fold predictions of all candidates.

    predicted: for each candidate and part, a result of `_counts_by_class`. proba: probabilities of each candidate that
    has any, (rows, classes), NaN for rows that were not held out. refusal: the last error of a candidate that cannot
    learn. first: the first candidate, fitted on everything in the meantime, since it is nearly always the chosen one.
    """

    predicted: dict[str, list[IntArray]]
    proba: dict[str, FloatArray]
    refusal: ValueError | None
    first: AsyncResult[Any] | None = None


def _cross_validated(
    candidates: Sequence[Candidate],
    X: Any,
    features: NDArray[np.float32],
    released: Released,
    parts: list[IntArray],
    cells: Cells | None,
) -> _FoldResults:
    """Return out-of-fold predictions; weak candidates are eliminated after `FIRST_PARTS` parts."""
    predicted: dict[str, list[IntArray]] = {candidate.name: [] for candidate in candidates}
    shape = len(features), released.counts.shape[1]
    proba_by_name = {candidate.name: np.full(shape, np.nan) for candidate in candidates}
    refusal: ValueError | None = None

    def run_job(jobs: tuple[Candidate, _HeldOutPart]) -> IntArray | ValueError:
        candidate, out_of_fold = jobs
        try:
            with _without_warnings(candidate):
                return out_of_fold.predictions_of(candidate, X if candidate.takes_rows else features, proba_by_name)
        except ValueError as error:
            return error

    # A mean needs the probabilities of its members.
    running = sorted(candidates, key=lambda candidate: bool(candidate.mean_of))
    fits, done = len(candidates) * len(parts), 0
    with working("Trying students", fits) as report, _thread_pool(candidates) as threads:
        arguments = candidates[0], candidates[0].student, features, released
        first_fit = None if threads is None else threads.apply_async(fit_candidate, arguments)
        for stage, stage_parts in enumerate((parts[:FIRST_PARTS], parts[FIRST_PARTS:])):
            if stage and stage_parts:
                running = _not_eliminated(running, candidates, released, parts, predicted)
            out_of_fold = [_HeldOutPart.of(part, released, features, cells) for part in stage_parts]
            jobs = [(candidate, part) for part in out_of_fold for candidate in running]
            outcomes = (map if threads is None else threads.imap)(run_job, [job for job in jobs if not job[0].mean_of])
            for job in jobs:
                candidate, done = job[0], done + 1
                result = run_job(job) if candidate.mean_of else next(outcomes)
                report(done, fits)
                if candidate not in running:
                    continue
                if not isinstance(result, ValueError):
                    predicted[candidate.name].append(result)
                    continue
                refusal = result
                if not isinstance(result, InvalidInput):
                    return _FoldResults(predicted={}, proba={}, refusal=refusal)
                running.remove(candidate)
                del predicted[candidate.name]
        if first_fit is not None:
            first_fit.wait()
        report(fits, fits)
    finished = {candidate.name for candidate in running}
    return _FoldResults(
        predicted={candidate.name: predicted[candidate.name] for candidate in candidates if candidate.name in finished},
        proba={name: proba for name, proba in proba_by_name.items() if np.isfinite(proba).any()},
        refusal=refusal,
        first=first_fit,
    )


@contextmanager
def _thread_pool(candidates: Sequence[Candidate]) -> Generator[ThreadPool | None]:
    """Yield threads in which to fit candidates; None if they are fitted one after the other."""
    # Networks use all cores and share random numbers, and a user's own student may share anything. Threads reset the
    # warning filters of each other and of the caller's threads, which scikit-learn's forests report.
    shared = len(candidates) == 1 or any(candidate.takes_rows for candidate in candidates)
    if shared or threading.current_thread() is not threading.main_thread():
        yield None
        return
    # These threads are daemons, so an interrupt does not wait for their fits.
    with on_one_thread(api=None), warned_after(), ThreadPool(effective_n_jobs(-1)) as threads:
        yield threads


def _not_eliminated(
    running: list[Candidate],
    candidates: Sequence[Candidate],
    released: Released,
    parts: list[IntArray],
    predicted: dict[str, list[IntArray]],
) -> list[Candidate]:
    """Return the candidates that may still be chosen: the first, those that score no lower, and a fallback."""
    scores = {candidate.name: _score(released, parts[:FIRST_PARTS], predicted[candidate.name]) for candidate in running}
    first = next((candidate.name for candidate in candidates if candidate.name in scores), "")
    kept = {
        candidate.name
        for candidate in running
        if candidate.name == first or candidate.fallback or scores[candidate.name] >= scores[first]
    }
    kept |= {name for candidate in running if candidate.name in kept for name in candidate.mean_of}
    return [candidate for candidate in running if candidate.name in kept]


def _score(released: Released, parts: list[IntArray], predicted: list[IntArray]) -> float:
    """Return the sum of the held-out counts of the predicted classes."""
    return sum(
        float((released.counts[part] * _predicted_shares(of)).sum()) for part, of in zip(parts, predicted, strict=True)
    )


def _out_of_fold(released: Released, parts: list[IntArray], predicted: list[IntArray], students: int) -> HeldOut:
    queries = np.concatenate(parts)
    order = np.argsort(queries)
    queries, predictions = queries[order], np.concatenate(predicted)[order]
    return HeldOut(
        counts=released.counts[queries],
        predicted=predictions,
        # From all answers: without one part of balanced classes, a class that is rarer in that part would lead.
        frequent=int(released.counts.sum(axis=0).argmax()),
        complete=len(queries) == len(released.queries),
        students=students,
    )


def _predicted_shares(predicted: IntArray) -> FloatArray:
    """Return the share of each cell's rows for which each class is predicted, (cells, classes)."""
    return predicted / predicted.sum(axis=1, keepdims=True)


def _noise_margin(released: Released, parts: list[IntArray], best: list[IntArray], other: list[IntArray]) -> float:
    """Return the difference of agreement that noise may cause: two standard errors for counts, one for labels."""
    counts = released.counts[np.concatenate(parts)]
    if released.sigma2 is not None:
        total = float(counts.sum())
        return 2 * released.sigma2 * len(counts) ** 0.5 / total if total > 0 else 0.0
    # If both are equally good, a query on which only one is right favours either with probability 1/2; one more is
    # counted, so that few queries do not look certain.
    difference = _predicted_shares(np.concatenate(best)) - _predicted_shares(np.concatenate(other))
    decisive = np.count_nonzero((counts * difference).sum(axis=1))
    return (decisive + 1) ** 0.5 / len(counts)


def _split_queries(queries: int, *, folds: int, tried: int | None, seed: int) -> list[IntArray]:
    folds = min(folds, queries)
    order = np.random.default_rng([seed, queries]).permutation(queries)
    return [order[number::folds] for number in range(folds)][:tried] if folds > 1 else []


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The cells of noisy counts, by public row.

    Parameters
    ----------
    cell_index : array of int, shape (rows,)
        The cell of each row.
    """

    cell_index: IntArray

    def counted(self, labels: IntArray, classes: int, *, rows: Any = slice(None)) -> IntArray:
        """Count rows by label, (cells, classes). rows: of `labels`."""
        counts = np.zeros((int(self.cell_index.max()) + 1, classes), np.int64)
        np.add.at(counts, (self.cell_index[rows], labels), 1)
        return counts

    def mean(self, values: FloatArray) -> FloatArray:
        """Return means by cell, (cells, columns), of values of rows, (rows, columns)."""
        totals = np.zeros((int(self.cell_index.max()) + 1, values.shape[1]))
        np.add.at(totals, self.cell_index, values)
        return totals / np.bincount(self.cell_index)[:, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class _HeldOutPart:
    """A split for cross-validation: the held-out queries `part`, and the `remaining` training data.

    train: public rows to learn from; None, with labels: all of them. test: public rows to predict: those of the cells
    of `part`, with labels the queries themselves.
    """

    part: IntArray
    released: Released
    remaining: Released
    train: IntArray | None
    test: IntArray
    cells: Cells | None

    @classmethod
    def of(cls, part: IntArray, released: Released, features: NDArray[np.float32], cells: Cells | None) -> _HeldOutPart:
        others = np.setdiff1d(np.arange(len(released.queries)), part)
        queries, train, test = released.queries[others], None, released.queries[part]
        if cells is not None:
            in_part = np.isin(cells.cell_index, part)
            train, test = np.flatnonzero(~in_part), np.flatnonzero(in_part)
            queries = np.searchsorted(train, queries)
        pool = None if train is None else (features, train)
        remaining = replace(released, queries=queries, counts=released.counts[others], pool=pool)
        return cls(part=part, released=released, remaining=remaining, train=train, test=test, cells=cells)

    def predictions_of(self, candidate: Candidate, rows: Any, proba_by_name: dict[str, FloatArray]) -> IntArray:
        """Fit the candidate and return its predictions for `part`, as `_counts_by_class` counts them.

        proba_by_name: probabilities of all candidates, (rows, classes); this candidate's are written into it.
        """
        proba = proba_by_name[candidate.name]
        if candidate.mean_of:
            proba[self.test] = np.mean([proba_by_name[name][self.test] for name in candidate.mean_of], axis=0)
            return self._counts_by_class(proba[self.test].argmax(axis=1))
        student = candidate.student if candidate.tried is None else candidate.tried
        fitted = fit_candidate(
            candidate, student, rows if self.train is None else take_rows(rows, self.train), self.remaining
        )
        inputs = take_rows(rows, self.test)
        if hasattr(fitted, "predict_proba"):
            proba[self.test] = 0.0
            proba[np.ix_(self.test, np.asarray(fitted.classes_, np.int64))] = fitted.predict_proba(inputs)
        return self._counts_by_class(np.asarray(fitted.predict(inputs), np.int64))

    def _counts_by_class(self, predicted: IntArray) -> IntArray:
        """Count rows by predicted class, (queries, classes)."""
        if self.cells is not None:
            classes = self.released.counts.shape[1]
            return self.cells.counted(predicted, classes, rows=self.test)[self.part]
        return np.eye(self.released.counts.shape[1], dtype=np.int64)[predicted]


@contextmanager
def warned_after() -> Generator[None]:
    """Show warnings of threads once each, when the threads are done; convergence warnings are left out."""
    shown, show, finished = dict[tuple[str, str], Any](), warnings.showwarning, False

    def keep(message: Warning | str, category: type[Warning], filename: str, lineno: int, *others: Any) -> None:
        if finished:
            # An interrupted fit restores the function that it saw at its start, which is this one.
            show(message, category, filename, lineno, *others)
        # Threads reset each other's filters.
        elif not issubclass(category, ConvergenceWarning):
            shown[category.__name__, str(message)] = message, category, filename, lineno

    try:
        with warnings.catch_warnings():
            warnings.showwarning = keep
            yield
    finally:
        finished = True
    for warning in shown.values():
        warnings.warn_explicit(*warning)


@contextmanager
def _without_warnings(candidate: Candidate) -> Generator[None]:
    """Use one thread and hide convergence warnings: students are compared by their predictions."""
    # Small matrix products, trees and kernels are faster on one thread than on several that wait for each other.
    threads = nullcontext() if candidate.takes_rows else on_one_thread(api=None)
    with threads, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def fit_candidate(candidate: Candidate, student: Any, rows: Any, released: Released) -> Any:
    """Return a copy of `student`, the candidate's or a quicker one, fitted on what was released."""
    with _without_warnings(candidate):
        return released.fit_student(clone(student), rows)
