"""What `PATEClassifier` and `PATERegressor` share: a run in memory, and its release."""

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ostrakon.data.domain import Domain
from ostrakon.data.frames import rows_of
from ostrakon.estimators.choices import make_student
from ostrakon.export.student_files import require_exportable
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.registry import find, require_own
from ostrakon.options.call import parse_call
from ostrakon.options.options import AUTO, Options, is_auto
from ostrakon.options.report_details import ReportDetails
from ostrakon.rows_in_memory import (
    as_written,
    is_free_form,
    refuse_column_of_users,
    require_apart,
    require_described,
    require_different_rows,
    require_same_images,
    understood_frame,
    warn_of_text,
)
from ostrakon.run.day import today
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task, described_fields, protection_fields
from ostrakon.run.spending import note_failure, note_fit, note_search, remember
from ostrakon.run.steps import FinishedRun, run_steps
from ostrakon.run.storage import Storage
from ostrakon.statements.repeated import WITHDRAWN
from ostrakon.statements.statement import PROTECTS
from ostrakon.validation import InvalidInput, one_of


class PrivateEstimator(BaseEstimator):
    """The run of an estimator's rows, the options from its arguments, and the release."""

    protect: Any = "records"
    partition: Any = "hash"
    mechanism: Any = AUTO
    allow_shared_rows: bool = False
    random_state: Any = None

    def _run(self, task: Task, noise: np.random.Generator | None) -> None:
        """Do the run of `task`, whose rows are in memory, and keep what it gives."""
        assert isinstance(task.private, Rows)
        if task.private.protects == "records":
            refuse_column_of_users(task.private.X, task.private.users)
        if task.domain is None:
            warn_of_text(task.X_public, getattr(self, "representation", AUTO))
        memory = Storage()
        try:
            # The learners pass weights to each other, so the caller's metadata routing does not apply to them.
            with config_context(enable_metadata_routing=False):
                options = self._options()
                self._warn_of_students_that_stay(options)
                finished = run_steps(task, options, memory, rng=noise)
        except BaseException as error:
            if memory.draws:
                self._fits = getattr(self, "_fits", {}) | note_failure(task.private.users)
            if isinstance(error, InvalidInput):
                error.args = (in_python_words(str(error)),)
            raise
        # `_fits` travels with a pickled estimator.
        statement, self._fits = note_fit(
            finished.statement,
            task.private.users,
            known=getattr(self, "_fits", {}),
            in_ledger=finished.budget is not None,
        )
        self._store(replace(finished, statement=statement), memory)

    def _warn_of_students_that_stay(self, options: Options) -> None:
        """Say before anything is drawn that `save_release` will refuse the named student."""
        if is_auto(options.student):
            return
        student = make_student(options.student, seed=options.seed)
        try:
            require_exportable(student)
        except InvalidInput as refusal:
            warnings.warn(f"It can be used here, but save_release will refuse it: {refusal}", StaysHere, stacklevel=4)

    def _public_part(self, given: Any, X_public: Any) -> tuple[Any, dict[str, Any]]:
        """Check X_public and return (X as its domain types it, the task's public arguments)."""
        only_labels = one_of("protect", self.protect, PROTECTS) == "labels"
        if only_labels and X_public is not None:
            raise InvalidInput(
                "X_public cannot be given if only labels are protected: the rows of X are public, and are asked about."
            )
        if X_public is None and not only_labels:
            raise InvalidInput(
                "X_public must be given: fit(X, y, X_public=...) needs unlabelled public rows for the teachers to "
                "label; private rows cannot stand in for them."
            )
        own: dict[str, Any] = dict(protection_fields(self.protect))
        if isinstance(X_public, Domain):
            require_described(given, X_public)
            # The domain types each cell alone; a column's own type would depend on all private rows.
            given = X_public.typed(given)
            own = described_fields(X_public) | {"kinds": dict(X_public.kinds().kinds)}
        else:
            own["X_public"] = given if only_labels else self._same_form(X_public, "X_public")
            require_different_rows(own["X_public"])
        require_same_images(given, own["X_public"])
        if not (self.allow_shared_rows or only_labels or isinstance(X_public, Domain)):
            require_apart(given, own["X_public"])
        if self.partition not in ("hash", "random"):
            raise InvalidInput(f"partition must be 'hash' or 'random', got {self.partition!r}.")
        if not isinstance(X_public, Domain):
            representation = getattr(self, "representation", AUTO)
            given, own["X_public"], columns = as_written(given, own["X_public"], representation)
            understood = understood_frame(own["X_public"], columns, representation)
            own |= {"kinds": dict(columns.kinds), "understood": understood}
        return given, own

    def _store(self, finished: FinishedRun, memory: Storage) -> None:
        self.votes_, self.teachers_ = memory.cast, memory.teachers
        self.queries_ = finished.queries
        self.answers_, self.counts_ = finished.answers.labels, finished.answers.counts
        self.mechanism_ = finished.plan.mechanism
        self.statement_, self.finished_ = finished.statement, finished
        self.student_name_, self.agreement_ = finished.student_name, finished.agreement
        self.released_ = finished.student

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        remember(state.get("_fits", {}))

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
            If the estimator is not fitted, the folder is not empty, or the student cannot be stored; and if other fits
            left this one without a guarantee, as in a search of scikit-learn.

        Notes
        -----
        Guarantee: as `statement_.guarantee` says, for all files together.
        """
        from ostrakon.report.release import save_release

        check_is_fitted(self)
        if self.statement_.not_private in WITHDRAWN:
            raise InvalidInput(f"A release must have a guarantee; nothing was written. {self.statement_.not_private}")
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
        """Return the options of a run, from the arguments of the same or of scikit-learn's name."""
        names = {name: one.python or name for name, one in Options.options().items()}
        given: dict[str, Any] = {name: getattr(self, own) for name, own in names.items() if hasattr(self, own)}
        if isinstance(self.mechanism, Mechanism):
            registered = find(self.mechanism.name)
            if type(self.mechanism) is not registered:
                raise InvalidInput(
                    f"mechanism must be a {registered.__name__}, which is what the name {registered.name!r} stands "
                    f"for, got a {type(self.mechanism).__name__}; register it under a name of its own."
                )
            # Zeros included: no errors are counted, and nothing is corrected, unless the object says so.
            parameters = {name: getattr(self.mechanism, name) for name in registered.declared()}
            given |= {"mechanism": self.mechanism.name, "parameters": parameters}
        elif isinstance(self.mechanism, str) and "(" in self.mechanism:
            name, parameters = parse_call(self.mechanism)
            given |= {"mechanism": name, "parameters": require_own(name, parameters)}
        given["seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Options(**given)

    def _same_form(self, X: Any, name: str = "X") -> Any:
        rows = rows_of(X, name)
        names = getattr(self, "feature_names_in_", None)
        if name == "X_public" and hasattr(rows, "columns") and names is not None:
            theirs, own = list(rows.columns), list(names)
            if one := [column for column in own if column not in theirs]:
                raise InvalidInput(f"X_public must have the columns of X, got none named {one[0]!r}.")
            if one := [column for column in theirs if column not in own]:
                raise InvalidInput(f"X_public must have the columns of X alone, got {one[0]!r} too.")
            rows = rows[own]
        if hasattr(rows, "iloc") and is_free_form(rows):
            return validate_data(self, rows, reset=False, skip_check_array=True)
        if is_free_form(rows):
            return np.asarray(rows)
        return validate_data(self, rows, reset=False, dtype=None, accept_sparse=False)


class StaysHere(UserWarning):
    """The named student can be used in this process, but not be released."""


def in_python_words(refusal: str) -> str:
    """Replace the option's name at the start of an error message by its name in Python.

    >>> in_python_words("teachers must be an integer of at least 1, got 0.")
    'n_teachers must be an integer of at least 1, got 0.'
    """
    name, space, rest = refusal.partition(" ")
    option = Options.options().get(name)
    return f"{name if option is None else option.python or name}{space}{rest}"
