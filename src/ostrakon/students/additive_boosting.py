"""The additive student of runs with public rows: boosted trees of one feature each, with optional directions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ostrakon.features.tables import TableFeatures
from ostrakon.students.additive import ADDITIVE
from ostrakon.students.boosting import MOST_BINS, WITHOUT, Boosting
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.sklearn_student import SklearnStudent
from ostrakon.validation import InvalidInput

_INTERACTIONS = "no_interactions"
_ROUNDS = 3


def additive_student(
    representation: Any, *, seed: int | None, counts: bool, increasing: Any = (), decreasing: Any = ()
) -> Any:
    """Return an unfitted additive student, whose log-odds are a sum of one function of each column.

    Parameters
    ----------
    representation : Representation or "auto"
        Features of a table; "auto" if they are not known yet.
    seed : int, optional
    counts : bool
        Whether it learns from noisy counts instead of labels.
    increasing, decreasing : str or sequence of str
        Columns of numbers with which the probability of the second class must increase or decrease.

    Raises
    ------
    InvalidInput
        For columns that are not numbers of the public table, a column in both lists, and other features.

    Notes
    -----
    It is scikit-learn's histogram boosting without interactions. Guarantee: that of `NoisyCountStudent`.
    """
    directions = _directions(increasing, decreasing)
    monotonic: Any = None
    if not isinstance(representation, str):
        table = representation.transformer
        if not isinstance(table, TableFeatures):
            raise InvalidInput(f"student {ADDITIVE} needs the columns of a table, got {type(table).__name__}.")
        if directions:
            monotonic = np.zeros(representation.features, np.int64)
            for name, direction in directions.items():
                monotonic[_features_of(table, name, representation.features)] = direction
    trees = Boosting(
        max_iter=100,
        max_leaf_nodes=4,
        min_samples_leaf=10,
        max_bins=MOST_BINS,
        early_stopping=WITHOUT,
        interaction_cst=_INTERACTIONS,
        monotonic_cst=monotonic,
    )
    if counts:
        return NoisyCountStudent(trees, representation="raw", rounds=_ROUNDS, random_state=seed)
    return SklearnStudent(trees, random_state=seed)


def is_additive(student: Any) -> bool:
    """Return whether a student comes from `additive_student`."""
    return getattr(getattr(student, "estimator", None), "interaction_cst", None) == _INTERACTIONS


def has_directions(student: Any) -> bool:
    """Return whether columns of the student have a direction, which requires two classes."""
    return is_additive(student) and student.estimator.monotonic_cst is not None


def _directions(increasing: Any, decreasing: Any) -> dict[str, int]:
    """Return 1 or -1 for each column with a direction."""
    directions: dict[str, int] = {}
    for option, columns, direction in (("increasing", increasing, 1), ("decreasing", decreasing, -1)):
        names: Sequence[Any] = [columns] if isinstance(columns, str) else columns
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise InvalidInput(f"{option} must be the name of a column or a list of names, got {columns!r}.")
        for name in names:
            if name in directions:
                raise InvalidInput(f"increasing and decreasing must name a column once, got {name!r} twice.")
            directions[name] = direction
    return directions


def _features_of(table: TableFeatures, name: str, features: int) -> list[int]:
    """Return the two features of a column of numbers, its value and its rank."""
    numbers = [str(column) for column in table.numbers_]
    if name not in numbers:
        raise InvalidInput(
            f"increasing and decreasing must be columns of numbers ({', '.join(numbers) or 'there are none'}), got "
            f"{name!r}."
        )
    position = features - 2 * len(numbers) + numbers.index(name)
    return [position, position + len(numbers)]
