"""The inputs of students: public rows, their features, and the candidates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ostrakon.data.embeddings import groups
from ostrakon.estimators.choices import is_images, make_student, takes_rows
from ostrakon.estimators.registry import name_of
from ostrakon.features.cells import CellFeatures
from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.options.options import ACCURACY, AUTO, is_auto
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.features import View
from ostrakon.students.additive_boosting import has_directions
from ostrakon.students.candidates import image_candidates, table_candidates
from ostrakon.students.selection import Candidate
from ostrakon.validation import InvalidInput

SAMPLE = 500
"""Largest number of public rows for plots of a student."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Learning:
    """Inputs and settings of the student of a run.

    student: a name or an estimator (see `ostrakon.estimators.choices.make_student`), or "auto": the best of several
    candidates. objective: `Options.objective`.
    """

    X_public: Any
    view: View
    student: Any = AUTO
    seed: int = 0
    objective: str = ACCURACY

    def candidates(self, *, counts: bool, classes: int, queries: int, moments: bool = False) -> list[Candidate]:
        """Return the candidates for the student; one if it is named.

        counts, moments: whether noisy counts, and sums of features, are released. queries: number of answered public
        rows.
        """
        if not is_auto(self.student):
            student = make_student(self.student, seed=self.seed, counts=counts, representation=self.view.representation)
            return [
                Candidate(name=name_of(self.student), student=student, takes_rows=takes_rows(student, self.X_public))
            ]
        if self.sees_images:
            return image_candidates(
                counts=counts,
                classes=classes,
                queries=queries,
                representation=self.view.representation,
                seed=self.seed,
            )
        return table_candidates(
            counts=counts,
            classes=classes,
            queries=queries,
            features=self.view.public.shape[1],
            moments=moments,
            embedded=self.view.embedded,
            pool=len(self.view.public),
            seed=self.seed,
        )

    def require_named(self, plan: Plan) -> None:
        """Refuse a named student that cannot be copied or does not fit the number of classes, before noise is spent."""
        if is_auto(self.student):
            return
        student = make_student(self.student, seed=self.seed, representation=self.view.representation)
        try:
            clone(student)
        except Exception as error:  # whatever its code raises
            raise InvalidInput(
                f"student must be an estimator that sklearn.base.clone copies, got {self.student!r}: {error}."
            ) from error
        # A student of labels has two classes for each.
        if has_directions(student) and plan.target == "classes" and plan.classes != 2:
            raise InvalidInput(
                f"increasing and decreasing must be left out unless there are two classes, got {plan.classes} classes."
            )

    def sample(self) -> Any:
        """Return evenly spaced public rows with one column for each feature; None for other kinds of rows."""
        X = self.X_public
        if np.ndim(X) != 2 or self.view.representation.encoder is not None or hasattr(X, "tocsr"):
            return None
        if hasattr(X, "iloc") and groups(map(str, X.columns)):
            return None
        rows = row_count(X)
        return take_rows(X, np.unique(np.linspace(0, rows - 1, SAMPLE).astype(np.int64)))

    @property
    def described(self) -> bool:
        """Whether the columns are described in place of public rows, which are examples then."""
        return isinstance(self.view.fitted, CellFeatures)

    @property
    def sees_images(self) -> bool:
        """Whether students learn from images instead of features."""
        return is_images(self.X_public) and not self.view.is_like_a_table

    def interim(self, *, classes: int, queries: int) -> Candidate:
        """Return the candidate for the labels of a first round: the named one, else a quick one."""
        candidates = self.candidates(counts=False, classes=classes, queries=queries)
        return next((candidate for candidate in candidates if not candidate.takes_rows), candidates[0])

    def rows(self, candidate: Candidate) -> Any:
        """Return the input of a candidate: the public rows themselves or their features."""
        return self.X_public if candidate.takes_rows else self.view.public
