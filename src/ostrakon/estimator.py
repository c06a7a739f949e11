"""PATEClassifier: the whole pipeline in memory, with scikit-learn's face."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from ostrakon.data.classes import CLASSES_FROM, FROM_PRIVATE, offered_classes, unnamed_classes
from ostrakon.data.domain import Domain
from ostrakon.data.frames import as_frame
from ostrakon.data.images import require_same_scale
from ostrakon.data.partition import row_marks
from ostrakon.data.shared_rows import refuse_shared_rows
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.registry import find
from ostrakon.options.options import AUTO, WORST_CASE, Options
from ostrakon.options.report_details import ReportDetails
from ostrakon.run.day import today
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task, of_protection, of_synthetic
from ostrakon.run.spending import PrivateRecords, note_fit, note_search, warn_of_searches
from ostrakon.run.steps import run_steps
from ostrakon.run.storage import InMemory
from ostrakon.statements.statement import PROTECTS
from ostrakon.validation import InvalidInput


# A dataclass for its __init__ alone, which sets what it is given: scikit-learn's convention, seen by type checkers.
@dataclass(eq=False, repr=False)
class PATEClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that never shows its training data: teachers vote under noise, a student learns from the answers.

    teacher, student: scikit-learn classifiers, names (`ostrakon.estimators.choices`), or "auto".
    n_teachers: None: every record (or user) is one, or about a hundred records each where teachers are trained.
    mechanism: a name, a `Mechanism` with its parameters, or "auto":
    `moment-gnmax` (per-record teachers; of images, or for students that were named, `bounded-gnmax`), where nothing is
    asked of teachers; else `confident-gnmax`. epsilon:
    the guarantee stays within it, by scaling the noise; None: 2, unless a `Mechanism` is given. delta: below 1 /
    number of records (or users). guarantee: "worst-case", or "gate": less noise, and a release of all answers only
    where a noisy test finds that the teachers agree, planned on votes of which a share `agreement` goes to the winner;
    where it refuses, what remains are the answers to a short prefix of the queries, and without one `fit` fails.
    n_queries: public rows to ask about; max_answers: stop after so many. ledger: where what a fit costs
    is reserved before its noise is drawn; budget: the epsilon of all fits and runs on these data, of the account
    that is opened for them; ledger_account: its name. representation:
    what the learners see of a row, learned from public rows. trained_on: what a frozen encoder, or whatever made the
    features, was trained on, for the statement. query_strategy: which public rows to ask about. smooth: smooth
    teachers over the public neighbour graph. partition: "hash" of a record's content (or user), or "random" by place,
    for a table whose number of rows is public. protect: "records", or "labels" alone, where the features, and who is in
    the data, are public: then the rows of X are the public ones. classes: all labels, public knowledge, required;
    "from-private": those of y, which are published (the setting for scikit-learn's `check_estimator`).
    allow_shared_rows: rows of X may be in X_public, too; they are not protected. random_state: of splitting and
    models, never of noise. noise: None for the cryptographic source; an ordinary generator is for tests, and the
    statement then says "not private". n_jobs: teachers trained at a time, as of joblib; None: one.

    Fitted: `classes_`, `statement_` (a `Statement`: what may be claimed), `released_` (the student from raw row to
    label), `student_name_`, `agreement_` (of each candidate with held-out released answers, where "auto" chose),
    `mechanism_` (with its noise), `queries_`, `answers_` (released labels, -1 for none) and `counts_` (noisy histograms
    where the mechanism releases them, else None) and `pool_` (public rows that were drawn, else None): these may leave.
    `votes_` and `teachers_` are private, and so is the fitted estimator as a whole, which holds them: publish
    `released_` and `statement_`.

    Guarantee: what `statement_.guarantee` says, for everything named publishable above. It covers this fit and all
    earlier fits of this process on the same private records together. Within or after a search, a cross-validation or
    an ensemble of scikit-learn, and in a worker process without a ledger, there is none, and `statement_.not_private`
    says why.
    Errors: `InvalidInput` without public rows, and wherever `ostrakon train` has one.
    Source: pate-2018, Algorithms 1 and 2.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = PATEClassifier(n_teachers=20, epsilon=4.0, classes=[0, 1], random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(300, 2)))
    >>> model.statement_.guarantee.epsilon <= 4
    True
    """

    teacher: Any = AUTO
    student: Any = AUTO
    _: KW_ONLY
    n_teachers: int | None = None
    mechanism: str | Mechanism = AUTO
    epsilon: float | None = None
    delta: float | None = None
    guarantee: str = WORST_CASE
    agreement: float = 0.85
    n_queries: int | None = None
    max_answers: int | None = None
    ledger: str | None = None
    budget: float | None = None
    ledger_account: str | None = None
    representation: Any = AUTO
    trained_on: str | None = None
    query_strategy: str = "representatives"
    smooth: bool = False
    partition: Literal["hash", "random"] = "hash"
    protect: Literal["records", "labels"] = "records"
    classes: Any = None
    allow_shared_rows: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    noise: np.random.Generator | None = None

    def fit(self, X: Any, y: ArrayLike, X_public: Any = None, *, users: ArrayLike | None = None) -> Self:
        """Train teachers on (X, y), let them vote on X_public, train the student.

        X: private rows: array, frame, or images of shape (rows, height, width). y: labels. X_public: public rows of the
        same form, unlabelled; None where labels alone are protected; or, of frames without any, a `Domain` that
        describes the columns: the rows are then drawn from noisy marginals of X, at a price within epsilon. users:
        whose each private row is, to protect users instead of records.
        """
        warn_of_searches()
        given, labels = self._checked(as_frame(X), y)
        if self.protect not in PROTECTS:
            raise InvalidInput(f"protect must be one of {', '.join(PROTECTS)}, got {self.protect!r}.")
        of_labels = self.protect == "labels"
        if of_labels and X_public is not None:
            raise InvalidInput(
                "X_public cannot be given where labels alone are protected: the rows of X are public, and are asked "
                "about."
            )
        if X_public is None and not of_labels:
            raise InvalidInput(
                "X_public must be given: fit(X, y, X_public=...) needs unlabelled public rows for the teachers to "
                "label; private rows cannot stand in for them."
            )
        own: dict[str, Any] = dict(of_protection(self.protect))
        if isinstance(X_public, Domain):
            _require_described(given, X_public)
            # Each cell by itself: what a column's type is, all of its cells have a say in.
            given = X_public.typed(given)
            own = of_synthetic(X_public)
        else:
            own["X_public"] = given if of_labels else self._same_form(X_public, "X_public")
        _require_same_images(given, own["X_public"])
        if not (self.allow_shared_rows or of_labels or isinstance(X_public, Domain)):
            marks = row_marks(own["X_public"])
            shared = int(np.isin(row_marks(given), marks).sum())
            refuse_shared_rows(shared, marks, len(given), allow="allow_shared_rows=True")
        if self.partition not in ("hash", "random"):
            raise InvalidInput(f"partition must be 'hash' or 'random', got {self.partition!r}.")
        found, numbers = np.unique(labels, return_inverse=True)
        self.classes_, numbers = self._known(found, numbers)
        rows = Rows(
            X=given,
            y=numbers.astype(np.int64),
            users=None if users is None else np.asarray(users),
            fixed=self.partition == "random",
            protects=self.protect,
        )
        task = Task(
            private=rows,
            classes=tuple(self.classes_),
            classes_from=CLASSES_FROM["private"] if self._from_private else "given by the caller",
            names=getattr(self, "feature_names_in_", None),
            kinds=None if not isinstance(X_public, Domain) else dict(X_public.kinds().kinds),
            **own,
        )
        memory = InMemory()
        try:
            # Learners inside give weights to each other, whatever the caller has switched on for pipelines.
            with config_context(enable_metadata_routing=False):
                finished = run_steps(task, self._options(), memory, rng=self.noise)
        except InvalidInput as error:
            error.args = (in_python_words(str(error)),)
            raise
        # What an earlier fit of this estimator left goes with it into files and other processes.
        statement, self._fits = note_fit(
            finished.statement,
            PrivateRecords.of(given, numbers, users),
            known=getattr(self, "_fits", {}),
            in_ledger=finished.budget is not None,
        )
        finished = replace(finished, statement=statement)
        self.votes_, self.teachers_ = memory.cast, memory.teachers
        self.queries_ = finished.queries
        self.answers_, self.counts_ = finished.answers.labels, finished.answers.counts
        self.mechanism_ = finished.plan.mechanism
        self.statement_, self.finished_ = finished.statement, finished
        self.student_name_, self.agreement_ = finished.student_name, finished.agreement
        self.released_ = finished.student
        self.pool_ = finished.pool
        return self

    def __sklearn_clone__(self) -> Self:
        note_search()
        copy: Any = super().__sklearn_clone__()
        return copy

    def save_release(self, folder: str | os.PathLike[str], **details: str) -> Path:
        """Write the files that may be published: student, statement, released labels, model card and report.

        Parameters
        ----------
        folder : path
            A new or empty folder.
        **details : str
            `operator`, `contact`, `purpose` and `data_name`, for the report.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InvalidInput
            If the estimator is not fitted, the folder is not empty, or the student cannot be stored.

        Notes
        -----
        Guarantee: as `statement_.guarantee` says, for all files together.
        """
        from ostrakon.report.release import save_release

        check_is_fitted(self)
        unknown = [name for name in details if name not in ReportDetails.options()]
        if unknown:
            raise InvalidInput(f"{unknown[0]} must be one of {', '.join(ReportDetails.options())}.")
        return save_release(self.finished_, folder, ReportDetails(**details), date=today())

    def _repr_html_inner(self) -> str:
        own = str(super()._repr_html_inner())
        return own + self.statement_.to_html() if hasattr(self, "statement_") else own

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})

    def predict(self, X: Any) -> Any:
        """The student's label of every row."""
        check_is_fitted(self)
        return self.released_.predict(self._same_form(X))

    def predict_proba(self, X: Any) -> Any:
        """The student's class probabilities, (rows, len(classes_)); 0 for classes that no answer named."""
        check_is_fitted(self)
        known = self.released_.predict_proba(self._same_form(X))
        whole_table = np.zeros((len(known), len(self.classes_)))
        whole_table[:, np.asarray(self.released_.student.classes_)] = known
        return whole_table

    def _options(self) -> Options:
        """The options of a run, each from the argument of its name, or of the name that scikit-learn has for it."""
        given: dict[str, Any] = {name: getattr(self, one.python or name) for name, one in Options.options().items()}
        if isinstance(self.mechanism, Mechanism):
            registered = find(self.mechanism.name)
            if type(self.mechanism) is not registered:
                raise InvalidInput(
                    f"mechanism must be a {registered.__name__}, which is what the name {registered.name!r} stands "
                    f"for, got a {type(self.mechanism).__name__}; register it under a name of its own."
                )
            given |= {"mechanism": self.mechanism.name, "parameters": self.mechanism.parameters()}
        given["seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Options(**given)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        told = np.asarray(y)
        if told.dtype == object and told.ndim and (missing := int(pd.isna(told).sum())):
            raise InvalidInput(f"y must have a label for every row, got {missing} of {told.size} missing.")
        if _is_free_form(X):
            rows: Any = validate_data(self, X, skip_check_array=True) if hasattr(X, "iloc") else np.asarray(X)
            labels: Any = np.asarray(y)
        else:
            rows, labels = validate_data(self, X, y, dtype=None, accept_sparse=False)
        check_classification_targets(labels)
        if type_of_target(labels) not in ("binary", "multiclass") or labels.ndim != 1:
            raise InvalidInput(f"y must be one label per row, got {type_of_target(labels)} of shape {labels.shape}.")
        return rows, labels

    def _same_form(self, X: Any, name: str = "X") -> Any:
        rows = as_frame(X, name)
        if hasattr(rows, "iloc") and _is_free_form(rows):
            return validate_data(self, rows, reset=False, skip_check_array=True)
        if _is_free_form(rows):
            return np.asarray(rows)
        return validate_data(self, rows, reset=False, dtype=None, accept_sparse=False)

    @property
    def _from_private(self) -> bool:
        return isinstance(self.classes, str) and self.classes == FROM_PRIVATE

    def _known(self, found: Any, numbers: Any) -> tuple[Any, Any]:
        if self.classes is None:
            counts = dict(zip(found.tolist(), np.bincount(numbers).tolist(), strict=True))
            raise InvalidInput(unnamed_classes("labels y", offered_classes(counts), f"classes={FROM_PRIVATE!r}"))
        if self._from_private:
            if len(found) < 2:
                raise InvalidInput(f"y must hold at least two classes, got one class: {found.tolist()!r}.")
            return found, numbers
        if isinstance(self.classes, str):
            raise InvalidInput(f"classes must be a list of labels, or {FROM_PRIVATE!r}, got {self.classes!r}.")
        classes = np.asarray(self.classes)
        place = {label: number for number, label in enumerate(classes.tolist())}
        if len(place) != len(classes) or len(place) < 2:
            raise InvalidInput(f"classes must be at least two different labels, got {classes.tolist()!r}.")
        foreign = [label for label in found.tolist() if label not in place]
        if foreign:
            raise InvalidInput(
                f"y holds the label {foreign[0]!r}, which is not among the classes {classes.tolist()!r}."
            )
        return classes, np.array([place[label] for label in found.tolist()])[numbers]


def in_python_words(refusal: str) -> str:
    """A refusal of a run's option that has another name here, with that name.

    >>> in_python_words("teachers must be an integer of at least 1, got 0.")
    'n_teachers must be an integer of at least 1, got 0.'
    """
    name, space, rest = refusal.partition(" ")
    option = Options.options().get(name)
    return f"{name if option is None else option.python or name}{space}{rest}"


def _require_described(X: Any, domain: Domain) -> None:
    """Refuse rows that are no frame of the described columns."""
    if not hasattr(X, "iloc") or {str(name) for name in X.columns} != set(domain.names):
        found = ", ".join(map(str, X.columns)) if hasattr(X, "iloc") else type(X).__name__
        raise InvalidInput(
            f"X must be a frame of the columns that are described, {', '.join(domain.names)}, where the public rows "
            f"are to be drawn; got {found}."
        )


def _require_same_images(private: Any, public: Any) -> None:
    """Refuse public images of another shape or scale; anything else passes."""
    if max(np.ndim(private), np.ndim(public)) < 3:
        return
    if np.shape(public)[1:] != np.shape(private)[1:]:
        raise InvalidInput(
            f"X_public must have rows of the shape of those of X, {np.shape(private)[1:]}, got {np.shape(public)[1:]}."
        )
    if len(public) and len(private):
        require_same_scale(private, public, "X_public")


def _is_free_form(X: Any) -> bool:
    """Frames, whose columns may hold words and gaps, and images: forms that scikit-learn would refuse or flatten."""
    return hasattr(X, "iloc") or (hasattr(X, "ndim") and X.ndim > 2)
