"""PATEClassifier: the whole pipeline in memory, as a scikit-learn estimator."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from ostrakon.data.classes import (
    CLASSES_FROM,
    FROM_PRIVATE,
    IN_PYTHON,
    foreign_labels,
    listed,
    offered_classes,
    refuse_quantity,
    require_different,
    require_order_given,
    unnamed_classes,
)
from ostrakon.data.columns import alike, alike_in_words
from ostrakon.data.consent import Consent
from ostrakon.data.domain import Domain
from ostrakon.data.frames import rows_of
from ostrakon.data.labels import Labels, columns_by_name, require_indicators
from ostrakon.mechanisms import Mechanism
from ostrakon.options.options import ACCURACY, AUTO, ORDERED, WORST_CASE
from ostrakon.private_estimator import PrivateEstimator
from ostrakon.rows_in_memory import is_free_form, target_array, warn_outside
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.spending import warn_of_searches
from ostrakon.validation import InvalidInput


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
        How votes become answers, as a name, a call such as "gnmax(sigma2=40)", or an object, whose parameters all count
        as given (`BoundedGNMax(sigma2=10)` counts no errors). "auto" is `moment-gnmax` for per-record teachers
        (`bounded-gnmax` for images or a named student) and `confident-gnmax` for trained teachers. If rows have several
        labels it is `labels-gnmax`; `LabelsGNMax(sigma2=10, max_labels=4)` with an epsilon states how many labels most
        rows do not exceed.
    epsilon : float, positive, optional
        The noise is scaled so that the guarantee stays within it. Default: 2, unless a `Mechanism` is given.
    delta : float in (0, 1), optional
        Default: below 1 / number of records (or users).
    consent : dict of str to float, optional
        The epsilon that the records of each level allow, such as ``{"1": 0.5, "2": 2.0}``; `fit` then takes the level
        of every row. The vote and the features of a record are scaled so that it keeps its own epsilon. The largest one
        takes the place of `epsilon`. Only for per-record teachers.
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
    objective : {"accuracy", "balanced", "log-loss", "ordered"}, default "accuracy"
        What the student is for: labels that are often right, labels that find every class equally well,
        probabilities, or labels few ranks away from the right one of ordered classes.
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
        All labels, which are public; required. "from-private" publishes those of y. Of a y with a column for each
        label, their names.
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
    both. Fits in or after a search, a cross-validation or an ensemble of scikit-learn, and, without a ledger, in a
    worker or forked process or after a fitted estimator was unpickled, have no guarantee: `statement_.not_private` says
    why, and `save_release` refuses. Only post-processing follows the noisy answers.

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
    consent: Any = None
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

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        X_public: Any = None,
        *,
        users: ArrayLike | None = None,
        consent: ArrayLike | None = None,
    ) -> Self:
        """Let teachers of (X, y) vote on X_public under noise, and train the student on the answers.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features), or images of shape (n_rows, height, width[, 3])
            Private rows. Numbers and dates as text are read as in a file, in the form that the cells of X_public have.
        y : array-like of shape (n_rows,) or (n_rows, n_labels)
            Labels, all among `classes`; or 0 and 1 for each label of `classes`, of which a row may have several.
        X_public : same form as X, or Domain
            Unlabelled public rows. Without them, a `Domain` describes the columns of a frame; an additive model then
            learns from noisy counts. Must be None if `protect="labels"`.
        users : array-like of shape (n_rows,), optional
            The user of each private row: text or whole numbers, the same in every fit. The guarantee then protects
            users instead of records, and fits without a common user do not add up. A user votes for the class that most
            of its rows in a cell have; of equally frequent classes always for the first in `classes`.
        consent : array-like of shape (n_rows,), optional
            The level of each private row, one of the keys of the parameter `consent`. A user with rows of several
            levels has the smallest of their weights. `statement_.consent` says what holds for each level. Not a
            `sample_weight`: it bounds what a record reveals, and more weight costs it more privacy.

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
        given, labels = self._checked(rows_of(X), y)
        several = labels.ndim == 2
        if several:
            self._require_labels(given, labels, X_public)
            classes, numbers = np.asarray(self.classes), require_indicators(labels, self.classes)
        else:
            classes, numbers = self._class_numbers(*np.unique(labels, return_inverse=True))
        given, own = self._public_part(given, X_public)
        levels = self._levels(consent, len(labels), X_public, several=several)
        if several:
            own |= {"coding": Labels(names=tuple(str(name) for name in self.classes))}
        self.classes_ = classes
        rows = Rows(
            X=given,
            y=numbers.astype(np.int64),
            users=None if users is None else np.asarray(users),
            fixed=self.partition == "random",
            protects=self.protect,
            levels=levels,
        )
        task = Task(
            private=rows,
            classes=tuple(classes),
            classes_from=CLASSES_FROM["private"] if self._from_private else "given by the caller",
            names=getattr(self, "feature_names_in_", None),
            consent=None if levels is None else Consent(epsilons=self.consent),
            **own,
        )
        if not isinstance(X_public, Domain) and self.protect == "records":
            warn_outside(given, task, X=X, X_public=X_public)
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
            Columns in the order of `classes_`; 0 for a class that no answer named. If rows may have several labels,
            the probability of each.
        """
        check_is_fitted(self)
        student: Any = self.released_
        proba = student.predict_proba(self._same_form(X))
        whole_table = np.zeros((len(proba), len(self.classes_)))
        whole_table[:, np.asarray(student.student.classes_)] = proba
        return whole_table

    def predict_sets(self, X: Any, coverage: float = 0.9) -> list[list[Any]]:
        """Predict a set of labels for every row, so that the right label is in it at least this often.

        Parameters
        ----------
        X : same form as in `fit`
        coverage : {0.8, 0.9, 0.95}, default 0.9
            The share of records, like the private ones, whose label is in their set.

        Returns
        -------
        list of list
            The labels of each set, in the order of `classes_`: all of them if the noise allows no smaller sets.

        Raises
        ------
        InvalidInput
            If rows may have several labels, for trained teachers, if fewer than 50 queries were answered, and for
            another coverage.

        Notes
        -----
        Estimated from released answers that were held out (`ostrakon.students.prediction_sets`), so it costs no
        privacy; the coverage holds in 95% of fits if private and public rows are alike within cells. It is a mean over
        all records: fewer of a rare class may be covered.
        """
        check_is_fitted(self)
        student: Any = self.released_
        return student.predict_sets(self._same_form(X), coverage)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose label, or all of whose labels, are predicted.

        Parameters
        ----------
        X : same form as in `fit`
        y : same form as in `fit`
            The columns of a frame are taken by name.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        float
            From 0 to 1.
        """
        check_is_fitted(self)
        y = columns_by_name(y, self.classes_)
        if self.classes_.dtype.kind == "f":  # scikit-learn takes labels with fractions for quantities
            return float(np.average(target_array(y) == self.predict(X), weights=sample_weight))
        return super().score(X, y, sample_weight)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        y = y if self.classes is None or isinstance(self.classes, str) else columns_by_name(y, listed(self.classes))
        raw = target_array(y)
        if raw.dtype == object and (missing := int(pd.isna(raw).sum())):
            raise InvalidInput(f"y must have a label for every row, got {missing} of {raw.size} missing.")
        several = raw.ndim == 2 and raw.shape[1] > 1
        if hasattr(X, "shape") and len(raw) != X.shape[0]:
            raise InvalidInput(f"y must have one label for each of the {X.shape[0]} rows of X, got {len(raw)}.")
        if is_free_form(X):
            rows: Any = validate_data(self, X, skip_check_array=True) if hasattr(X, "iloc") else np.asarray(X)
            labels: Any = raw
        else:
            rows, labels = validate_data(self, X, y, dtype=None, accept_sparse=False, multi_output=several)
        if several or self._lists(labels):
            return rows, labels
        if labels.dtype == object and type_of_target(labels) == "unknown":
            raise InvalidInput(
                f"Unknown label type: objects of type {type(labels.flat[0]).__name__}. y must be text, or an array of "
                "integers below 2**63, which y.astype(int) makes."
            )
        check_classification_targets(labels)
        if type_of_target(labels) not in ("binary", "multiclass") or labels.ndim != 1:
            raise InvalidInput(f"y must be one label per row, got {type_of_target(labels)} of shape {labels.shape}.")
        return rows, labels

    def _lists(self, labels: Any) -> bool:
        """Return whether `classes` lists all of these labels, which are numbers with fractions or without."""
        if labels.dtype.kind != "f" or labels.ndim != 1 or self.classes is None or isinstance(self.classes, str):
            return False
        return set(np.unique(labels).tolist()) <= set(listed(self.classes))

    def _levels(self, given: Any, rows: int, X_public: Any, *, several: bool) -> Any:
        """Return the number of every row's level of consent; None without any."""
        if (given is None) != (self.consent is None):
            raise InvalidInput(
                "consent must be given twice: to the constructor, the epsilon of every level, and to fit, the level of "
                "every row."
            )
        if given is None:
            return None
        if several or isinstance(X_public, Domain) or self.protect == "labels":
            raise InvalidInput("consent is for records with one class each and public rows, got other data.")
        levels = np.asarray(given, dtype=object)
        if levels.shape != (rows,):
            raise InvalidInput(f"consent must have one level for each of {rows} rows, got the shape {levels.shape}.")
        return Consent(epsilons=self.consent).numbers(levels)

    def _require_labels(self, X: Any, Y: Any, X_public: Any) -> None:
        """Refuse what several labels of a row do not go with. Errors: `InvalidInput`."""
        if self.classes is None or isinstance(self.classes, str):
            raise InvalidInput(
                f"classes must name the {Y.shape[1]} labels that are the columns of y, such as "
                f"classes={[f'label {at}' for at in range(min(Y.shape[1], 2))]}, got {self.classes!r}."
            )
        require_different(listed(self.classes))
        if isinstance(X_public, Domain) or self.protect == "labels":
            raise InvalidInput(
                "y must be one label per row for described columns and if only labels are protected: several "
                f"labels need public rows; got a y of shape {np.shape(Y)}."
            )

    @property
    def _from_private(self) -> bool:
        return isinstance(self.classes, str) and self.classes == FROM_PRIVATE

    def _class_numbers(self, present: Any, numbers: Any) -> tuple[Any, Any]:
        counts = dict(zip(present.tolist(), np.bincount(numbers).tolist(), strict=True))
        if self.classes is None:
            if self.objective == ORDERED:
                require_order_given(None)
            raise InvalidInput(
                unnamed_classes("The classes of the labels y", offered_classes(counts), f"classes={FROM_PRIVATE!r}")
            )
        if self._from_private:
            if len(present) < 2:
                raise InvalidInput(f"y must hold at least two classes, got one class: {present.tolist()!r}.")
            refuse_quantity(present.tolist(), "target y", option=IN_PYTHON)
            return present, numbers
        classes = np.asarray(listed(self.classes))
        require_different(classes.tolist())
        number_of = {label: number for number, label in enumerate(classes.tolist())}
        if same := alike(classes.tolist()):
            words = "only in capitals, spaces, commas or signs such as $"
            warnings.warn(f"The classes {alike_in_words(same)} differ {words}.", stacklevel=3)
        foreign = {label: times for label, times in counts.items() if label not in number_of}
        if foreign:
            raise InvalidInput(foreign_labels(foreign, len(numbers), f"is not among the classes {classes.tolist()!r}"))
        return classes, np.array([number_of[label] for label in present.tolist()])[numbers]
