"""PATEClassifier: the whole pipeline in memory, as a scikit-learn estimator."""

from __future__ import annotations

import os
import warnings
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

from ostrakon.data.changed_rows import refuse_changed_rows
from ostrakon.data.classes import (
    CLASSES_FROM,
    FROM_PRIVATE,
    IN_PYTHON,
    offered_classes,
    refuse_quantity,
    require_different,
    unnamed_classes,
)
from ostrakon.data.columns import alike, alike_in_words
from ostrakon.data.domain import Domain
from ostrakon.data.frames import as_frame
from ostrakon.data.images import require_same_scale
from ostrakon.data.outside_range import in_words, is_standardised, outside_memory
from ostrakon.data.owners import likely_owners
from ostrakon.data.partition import row_marks
from ostrakon.data.shared_rows import CountedRows, compared_columns, refuse_shared_rows
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.registry import find
from ostrakon.options.options import ACCURACY, AUTO, WORST_CASE, Options
from ostrakon.options.report_details import ReportDetails
from ostrakon.run.day import today
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task, of_described, of_protection
from ostrakon.run.spending import note_fit, note_search, warn_of_searches
from ostrakon.run.steps import FinishedRun, run_steps
from ostrakon.run.storage import InMemory
from ostrakon.statements.statement import PROTECTS
from ostrakon.validation import InvalidInput


class OutsidePublicRange(UserWarning):
    """Private values look wrong beside the public ones: another unit, or an identifier. The message is private."""


_SCALED = (
    "The steps of a Pipeline learn from X and leave X_public as it is. Fit them on public rows instead, "
    "FrozenEstimator(scaler.fit(X_public)), and give the Pipeline transform_input=['X_public'] under "
    "sklearn.set_config(enable_metadata_routing=True)."
)


class PrivateEstimator(BaseEstimator):
    """What `PATEClassifier` and `PATERegressor` share: a run in memory, and its release."""

    protect: Any = "records"
    partition: Any = "hash"
    mechanism: Any = AUTO
    allow_shared_rows: bool = False
    random_state: Any = None

    def _run(self, task: Task, noise: np.random.Generator | None) -> None:
        """Do the run of `task`, whose rows are in memory, and keep what it gives."""
        assert isinstance(task.private, Rows)
        memory = InMemory()
        try:
            # The learners pass weights to each other, so the caller's metadata routing does not apply to them.
            with config_context(enable_metadata_routing=False):
                finished = run_steps(task, self._options(), memory, rng=noise)
        except InvalidInput as error:
            error.args = (in_python_words(str(error)),)
            raise
        # `_fits` travels with a pickled estimator: other processes compose its earlier fits, too.
        statement, self._fits = note_fit(
            finished.statement,
            task.private.users,
            known=getattr(self, "_fits", {}),
            in_ledger=finished.budget is not None,
        )
        self._store(replace(finished, statement=statement), memory)

    def _public_part(self, given: Any, X_public: Any) -> tuple[Any, dict[str, Any]]:
        """Check X_public and return (X as its domain types it, the task's public arguments)."""
        if self.protect not in PROTECTS:
            raise InvalidInput(f"protect must be one of {', '.join(PROTECTS)}, got {self.protect!r}.")
        only_labels = self.protect == "labels"
        if only_labels and X_public is not None:
            raise InvalidInput(
                "X_public cannot be given where labels alone are protected: the rows of X are public, and are asked "
                "about."
            )
        if X_public is None and not only_labels:
            raise InvalidInput(
                "X_public must be given: fit(X, y, X_public=...) needs unlabelled public rows for the teachers to "
                "label; private rows cannot stand in for them."
            )
        own: dict[str, Any] = dict(of_protection(self.protect))
        if isinstance(X_public, Domain):
            _require_described(given, X_public)
            # The domain types each cell alone; a column's own type would depend on all private rows.
            given = X_public.typed(given)
            own = of_described(X_public)
        else:
            own["X_public"] = given if only_labels else self._same_form(X_public, "X_public")
        _require_same_images(given, own["X_public"])
        if not (self.allow_shared_rows or only_labels or isinstance(X_public, Domain)):
            _require_apart(given, own["X_public"])
        if self.partition not in ("hash", "random"):
            raise InvalidInput(f"partition must be 'hash' or 'random', got {self.partition!r}.")
        return given, own

    def _store(self, finished: FinishedRun, memory: InMemory) -> None:
        self.votes_, self.teachers_ = memory.cast, memory.teachers
        self.queries_ = finished.queries
        self.answers_, self.counts_ = finished.answers.labels, finished.answers.counts
        self.mechanism_ = finished.plan.mechanism
        self.statement_, self.finished_ = finished.statement, finished
        self.student_name_, self.agreement_ = finished.student_name, finished.agreement
        self.released_ = finished.student

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
        """Predict a label for every row.

        Parameters
        ----------
        X : same form as in `fit`

        Returns
        -------
        ndarray of shape (n_rows,)
            The student's labels.
        """
        check_is_fitted(self)
        return self.released_.predict(self._same_form(X))

    def _options(self) -> Options:
        """The options of a run, from the arguments of the same or of scikit-learn's name."""
        names = {name: one.python or name for name, one in Options.options().items()}
        given: dict[str, Any] = {name: getattr(self, own) for name, own in names.items() if hasattr(self, own)}
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

    def _same_form(self, X: Any, name: str = "X") -> Any:
        rows = as_frame(X, name)
        if hasattr(rows, "iloc") and _is_free_form(rows):
            return validate_data(self, rows, reset=False, skip_check_array=True)
        if _is_free_form(rows):
            return np.asarray(rows)
        return validate_data(self, rows, reset=False, dtype=None, accept_sparse=False)


# A dataclass only for its __init__: it stores its arguments as scikit-learn asks, and type checkers see them.
@dataclass(eq=False, repr=False)
class PATEClassifier(ClassifierMixin, PrivateEstimator):
    """A classifier that learns from confidential data and releases a differentially private student.

    Teachers vote on public rows, the votes get noise, and a student learns from the noisy answers.

    Parameters
    ----------
    teacher : str or estimator, default "auto"
        A scikit-learn classifier, or a name from `ostrakon.estimators.choices`. With "auto", every record (or user) is
        a teacher.
    student : str or estimator, default "auto"
        A scikit-learn classifier or a name. With "auto", several are tried on released answers.
    n_teachers : int, at least 1, optional
        Default: one per record (or user); about one per hundred records if teachers are trained.
    mechanism : str or Mechanism, default "auto"
        How votes become answers. "auto" is `moment-gnmax` for per-record teachers (`bounded-gnmax` for images or a
        named student) and `confident-gnmax` for trained teachers.
    epsilon : float, positive, optional
        The noise is scaled so that the guarantee stays within it. Default: 2, unless a `Mechanism` is given.
    delta : float in (0, 1), optional
        Default: below 1 / number of records (or users).
    neighbours : {"replaced", "removed"}, optional
        What happens to one record (or user) between the data sets that epsilon compares; their number is public.
        Default: replaced; with trained teachers, added or removed.
    guarantee : {"worst-case", "gate"}, default "worst-case"
        "gate" uses less noise, and releases all answers only if a noisy test finds that the teachers agree. Otherwise
        it releases the answers to the first few queries; if those do not fit either, `fit` fails.
    agreement : float in (0, 1), default 0.85
        The share of the votes that the gate's plan expects for the winner.
    n_queries : int, at least 1, optional
        Number of public rows to label. Default: what epsilon allows.
    max_answers : int, at least 1, optional
        Stop after this number of answers.
    ledger : str, optional
        URL of the ledger that reserves the cost of a fit before its noise is drawn.
    budget : float, positive, optional
        Total epsilon of all fits and runs on these data; opens an account in the ledger.
    ledger_account : str, optional
        Name of the account. Default: the one that the data are bound to.
    objective : {"accuracy", "balanced", "log-loss"}, default "accuracy"
        What the student is for: labels that are often right, labels that find every class equally well, or
        probabilities.
    representation : str or estimator, default "auto"
        Features of a row, learned from public rows.
    trained_on : str, optional
        What the encoder or the given features were trained on, for the statement.
    query_strategy : {"representatives", "random", "all"} or callable, default "representatives"
        Which public rows to label.
    smooth : bool, default False
        Smooth each teacher's predictions over the neighbour graph of the public rows.
    partition : {"hash", "random"}, default "hash"
        Assign rows to teachers by a hash of their content (or user), or at random by row number. "random" needs a
        table whose number of rows is public.
    protect : {"records", "labels"}, default "records"
        With "labels", the features of X and its membership are public, and the rows of X are the public rows.
    classes : array-like of shape (n_classes,) or "from-private"
        All labels, which are public; required. "from-private" publishes those of y.
    allow_shared_rows : bool, default False
        Accept rows of X that are in X_public too. They are not protected.
    random_state : int, RandomState or None, default None
        Seed of splitting and models, never of noise.
    n_jobs : int, optional
        Teachers trained at a time, as in joblib. Default: one.
    noise : numpy.random.Generator, optional
        Default: the cryptographic source. Another generator is for tests; the statement then says "not private".

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    statement_ : Statement
        What the release claims about privacy.
    released_ : estimator
        The student; it maps a raw row to a label.
    student_name_ : str
    agreement_ : dict or None
        Each candidate's agreement with released answers that were kept out of its training.
    mechanism_ : Mechanism
        With its noise.
    queries_ : array-like of shape (n_queries, ...)
    answers_ : ndarray of int, shape (n_queries,)
        Released labels, -1 for none.
    counts_ : ndarray of shape (n_queries, n_classes) or None
        Noisy histograms, if the mechanism releases them.
    votes_, teachers_ : object
        Private. Do not publish them, nor the fitted estimator, which contains them.

    Raises
    ------
    InvalidInput
        For bad parameters, and if `fit` gets no public rows.

    Notes
    -----
    Guarantee: `statement_.guarantee`, the (epsilon, delta)-differential privacy of all attributes except the private
    ones. It covers this fit and all earlier fits of this process together, because changed rows cannot be recognised:
    their epsilons and deltas add up. Fits of different people do not add up if each names its `users` and none is in
    both. Fits in or after a search, a cross-validation or an ensemble of scikit-learn, or in a worker process without a
    ledger, have no guarantee; `statement_.not_private` says why. Only post-processing follows the noisy answers.

    References
    ----------
    pate-2018, Algorithms 1 and 2.

    Examples
    --------
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
    neighbours: str | None = None
    guarantee: str = WORST_CASE
    agreement: float = 0.85
    n_queries: int | None = None
    max_answers: int | None = None
    ledger: str | None = None
    budget: float | None = None
    ledger_account: str | None = None
    objective: str = ACCURACY
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
        """Let teachers of (X, y) vote on X_public under noise, and train the student on the answers.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features), or images of shape (n_rows, height, width[, 3])
            Private rows.
        y : array-like of shape (n_rows,)
            Labels, all among `classes`.
        X_public : same form as X, or Domain
            Unlabelled public rows. Without them, a `Domain` describes the columns of a frame; an additive model then
            learns from noisy counts. Must be None if `protect="labels"`.
        users : array-like of shape (n_rows,), optional
            The user of each private row: text or whole numbers, the same in every fit. The guarantee then protects
            users instead of records, and fits without a common user do not add up. A user votes for the class that most
            of its rows in a cell have; of equally frequent classes always for the first in `classes`.

        Returns
        -------
        PATEClassifier
            The fitted estimator.

        Raises
        ------
        InvalidInput
            For rows, labels or parameters that do not fit together, and where `ostrakon train` refuses to run.

        Notes
        -----
        Guarantee: `statement_.guarantee`, for what the class documentation names publishable.
        """
        warn_of_searches()
        given, labels = self._checked(as_frame(X), y)
        given, own = self._public_part(given, X_public)
        present, numbers = np.unique(labels, return_inverse=True)
        self.classes_, numbers = self._class_numbers(present, numbers)
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
        if not isinstance(X_public, Domain) and self.protect == "records":
            warn_outside(given, task)
        self._run(task, self.noise)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Predict class probabilities for every row.

        Parameters
        ----------
        X : same form as in `fit`

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`; 0 for a class that no answer named.
        """
        check_is_fitted(self)
        student: Any = self.released_
        known = student.predict_proba(self._same_form(X))
        whole_table = np.zeros((len(known), len(self.classes_)))
        whole_table[:, np.asarray(student.student.classes_)] = known
        return whole_table

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        raw = np.asarray(y)
        if raw.dtype == object and raw.ndim and (missing := int(pd.isna(raw).sum())):
            raise InvalidInput(f"y must have a label for every row, got {missing} of {raw.size} missing.")
        if np.ndim(raw) and hasattr(X, "shape") and len(raw) != X.shape[0]:
            raise InvalidInput(f"y must have one label for each of the {X.shape[0]} rows of X, got {len(raw)}.")
        if _is_free_form(X):
            rows: Any = validate_data(self, X, skip_check_array=True) if hasattr(X, "iloc") else np.asarray(X)
            labels: Any = np.asarray(y)
        else:
            rows, labels = validate_data(self, X, y, dtype=None, accept_sparse=False)
        check_classification_targets(labels)
        if type_of_target(labels) not in ("binary", "multiclass") or labels.ndim != 1:
            raise InvalidInput(f"y must be one label per row, got {type_of_target(labels)} of shape {labels.shape}.")
        return rows, labels

    @property
    def _from_private(self) -> bool:
        return isinstance(self.classes, str) and self.classes == FROM_PRIVATE

    def _class_numbers(self, present: Any, numbers: Any) -> tuple[Any, Any]:
        if self.classes is None:
            counts = dict(zip(present.tolist(), np.bincount(numbers).tolist(), strict=True))
            raise InvalidInput(
                unnamed_classes("The classes of the labels y", offered_classes(counts), f"classes={FROM_PRIVATE!r}")
            )
        if self._from_private:
            if len(present) < 2:
                raise InvalidInput(f"y must hold at least two classes, got one class: {present.tolist()!r}.")
            refuse_quantity(present.tolist(), "target y", option=IN_PYTHON)
            return present, numbers
        if isinstance(self.classes, str):
            raise InvalidInput(f"classes must be a list of labels, or {FROM_PRIVATE!r}, got {self.classes!r}.")
        classes = np.asarray(self.classes)
        require_different(classes.tolist())
        number_of = {label: number for number, label in enumerate(classes.tolist())}
        if same := alike(classes.tolist()):
            warnings.warn(
                f"The classes {alike_in_words(same)} differ in capitals, spaces or signs alone.", stacklevel=3
            )
        foreign = [label for label in present.tolist() if label not in number_of]
        if foreign:
            raise InvalidInput(
                f"y holds the label {foreign[0]!r}, which is not among the classes {classes.tolist()!r}."
            )
        return classes, np.array([number_of[label] for label in present.tolist()])[numbers]


def warn_outside(given: Any, task: Task) -> None:
    """Warn of private values that look wrong beside the public ones (`OutsidePublicRange`)."""
    assert isinstance(task.private, Rows)
    for sentence in _remarks(given, task.X_public, users=task.private.users):
        warnings.warn(sentence, OutsidePublicRange, stacklevel=3)


def in_python_words(refusal: str) -> str:
    """Replace the option's name at the start of an error message by its name in Python.

    >>> in_python_words("teachers must be an integer of at least 1, got 0.")
    'n_teachers must be an integer of at least 1, got 0.'
    """
    name, space, rest = refusal.partition(" ")
    option = Options.options().get(name)
    return f"{name if option is None else option.python or name}{space}{rest}"


def _require_apart(private: Any, public: Any) -> None:
    """Refuse private rows that are in the public data, above chance."""
    pairs = [(private, public)]
    if np.ndim(public) == 2 and not hasattr(public, "tocsr"):
        here, there = (rows if hasattr(rows, "iloc") else pd.DataFrame(rows) for rows in (private, public))
        here, there = (frame.set_axis([str(name) for name in frame.columns], axis=1) for frame in (here, there))
        if set(here.columns) == set(there.columns):
            pairs = [(here[names], there[names]) for names in compared_columns(there)]
    for ours, theirs in pairs:
        marks = row_marks(theirs, rounded=True)
        refuse_shared_rows(CountedRows.of(row_marks(ours, rounded=True)), marks, allow="allow_shared_rows=True")
    if np.ndim(public) > 1 and not hasattr(public, "tocsr"):
        refuse_changed_rows(*pairs[-1], allow="allow_shared_rows=True")


def _remarks(private: Any, public: Any, *, users: Any) -> list[str]:
    """Sentences on private columns that look like identifiers, or have values far beyond the public range."""
    outside, owners = outside_memory(private, public), list[str]()
    if users is None and hasattr(private, "iloc") and hasattr(public, "iloc"):
        columns = {str(name): private[name] for name in private.columns}
        owners = likely_owners(public, outside, lambda name: columns[name].nunique() / max(len(private), 1))
    sentences = [
        f"{name!r} looks like an identifier with several rows each, and only single rows are protected: "
        f"users=X[{name!r}] protects all rows of each; leave the column out of X."
        for name in owners
    ]
    if is_standardised(private):
        sentences.append(
            "Every column of X has mean 0 and standard deviation 1: a scaler seems to have learned from private rows, "
            f"which the guarantee does not cover. {_SCALED}"
        )
    far = in_words({name: share for name, share in outside.items() if name not in owners}, public_rows=len(public))
    return sentences if far is None else [*sentences, f"{far} {_SCALED}"]


def _require_described(X: Any, domain: Domain) -> None:
    """Refuse X unless it is a frame with exactly the described columns."""
    if not hasattr(X, "iloc") or {str(name) for name in X.columns} != set(domain.names):
        present = ", ".join(map(str, X.columns)) if hasattr(X, "iloc") else type(X).__name__
        raise InvalidInput(
            f"X must be a frame of the columns that are described, {', '.join(domain.names)}, where the public rows "
            f"are to be drawn; got {present}."
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
    """Whether X is a frame (which may have text and gaps) or images: scikit-learn would refuse or flatten them."""
    return hasattr(X, "iloc") or (hasattr(X, "ndim") and X.ndim > 2)
