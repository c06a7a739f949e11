"""The target of a task: one of several classes, a quantity, or several labels of a row; and its cells as numbers."""

from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from ostrakon.data.classes import label_indices
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.validation import InvalidInput

Target = Literal["classes", "quantity", "labels"]


def other_target(quantity: Quantity | None, labels: Labels | None) -> Quantity | Labels | None:
    """What a target other than classes is read by; None for classes. Errors: `InvalidInput` for both."""
    if quantity is not None and labels is not None:
        raise InvalidInput("range cannot be given for several labels, which are 0 or 1.")
    return quantity or labels


def target_of(read_by: Quantity | Labels | None) -> Target:
    """What is predicted, by how a target other than classes is read."""
    return "classes" if read_by is None else "labels" if isinstance(read_by, Labels) else "quantity"


def learned_numbers(cells: Any, read_by: Sequence[str] | Quantity | Labels) -> NDArray[Any]:
    """What teachers learn from: class numbers, whole steps of the range, or 0 and 1 for every label."""
    if isinstance(read_by, Quantity):
        return read_by.steps(cells)
    return read_by.indicators(cells) if isinstance(read_by, Labels) else label_indices(cells, read_by)


def right_numbers(cells: Any, read_by: Sequence[str] | Quantity | Labels) -> NDArray[Any]:
    """What is right in test rows: as `learned_numbers`, and of a quantity its values."""
    return read_by.numbers(cells) if isinstance(read_by, Quantity) else learned_numbers(cells, read_by)
