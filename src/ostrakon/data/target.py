"""The target of a task: one of several classes, a quantity, or several labels of a row; and its cells as numbers."""

from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from ostrakon.data.classes import label_indices
from ostrakon.data.columns import Columns
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.data.table import Table
from ostrakon.validation import InvalidInput

Target = Literal["classes", "quantity", "labels"]


def other_target(quantity: Quantity | None, labels: Labels | None) -> Quantity | Labels | None:
    """Return the coding of a target other than classes; None for classes. Errors: `InvalidInput` for both."""
    if quantity is not None and labels is not None:
        raise InvalidInput("range cannot be given for several labels, which are 0 or 1.")
    return quantity or labels


def target_of(coding: Quantity | Labels | None) -> Target:
    """Return the kind of target with this coding; None: classes."""
    return "classes" if coding is None else "labels" if isinstance(coding, Labels) else "quantity"


def with_points(table: Table, target: str, coding: Quantity | Labels | None, columns: Columns) -> Table:
    """Return the table with decimal points in a target that is a quantity, if numbers of the public table have decimal
    commas.

    Guarantee: public cells decide how a value is written, so it is read alone.
    """
    commas = columns.of_kind("decimal comma") and not columns.of_kind("amount")
    return table.with_points(target) if commas and isinstance(coding, Quantity) else table


def learned_numbers(cells: Any, coding: Sequence[str] | Quantity | Labels) -> NDArray[Any]:
    """Return the numbers that teachers learn: classes, whole steps of the range, or 0 and 1 for each label."""
    if isinstance(coding, Quantity):
        return coding.steps(cells)
    return coding.indicators(cells) if isinstance(coding, Labels) else label_indices(cells, coding)


def right_numbers(cells: Any, coding: Sequence[str] | Quantity | Labels) -> NDArray[Any]:
    """Return the true numbers of test rows: those of `learned_numbers`, but values of a quantity."""
    return coding.numbers(cells) if isinstance(coding, Quantity) else learned_numbers(cells, coding)
