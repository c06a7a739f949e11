"""The target of pictures and texts: labels as text, read as classes, a quantity or several labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ostrakon.data.classes import CLASSES_FROM
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import ENDS, Quantity
from ostrakon.data.target import learned_numbers, right_numbers
from ostrakon.data.understood import understood_images
from ostrakon.run.inputs.task import agreed_classes, protection_fields, target_fields
from ostrakon.statements.statement import Protects
from ostrakon.validation import InvalidInput


@dataclass(frozen=True, kw_only=True)
class ReadTarget:
    """The conversion of labels to numbers.

    coding: the range of a quantity, or several labels; None for classes. classes, classes_from: as in `Task`.
    """

    coding: Quantity | Labels | None
    classes: tuple[str, ...]
    classes_from: str

    @classmethod
    def of(
        cls,
        private: NDArray[Any],
        public: NDArray[Any] | None,
        classes: Sequence[str] | str | None,
        *,
        coding: Quantity | Labels | None,
        target: str | None,
        where: str,
    ) -> "ReadTarget":
        """Return the target for labels of private and public rows. Arguments as in `agreed_classes`."""
        if coding is None:
            names, origin = agreed_classes(private, public, classes, target=target, where=where)
            return cls(coding=None, classes=names, classes_from=origin)
        names = coding.names if isinstance(coding, Labels) else ENDS
        return cls(coding=coding, classes=names, classes_from=CLASSES_FROM["user"])

    def private_rows(self, labels: NDArray[Any]) -> NDArray[Any]:
        """See `learned_numbers`."""
        return learned_numbers(labels, self.coding or self.classes)

    def test_rows(self, labels: NDArray[Any]) -> NDArray[Any]:
        """See `right_numbers`."""
        return right_numbers(labels, self.coding or self.classes)

    def task_fields(
        self, private: NDArray[Any], form: str, *, public_rows: int, protects: Protects, notes: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return the fields of a `Task` on its target and on its reading. private: labels. form: of rows, in words."""
        outside = dict[str, float]()
        if isinstance(self.coding, Quantity):
            values = self.coding.numbers(private)
            share = float(((values < self.coding.low) | (values > self.coding.high)).mean())
            outside, notes = ({"target": share} if share else {}), (*notes, *self.coding.clipped_in_words(share))
        classes_of_target: Any = {"classes": self.classes, "classes_from": self.classes_from, "coding": self.coding}
        return {
            "classes_from": self.classes_from,
            "outside": outside,
            "rows": form,
            "understood": understood_images(
                form, **classes_of_target, public_rows=public_rows, protects=protects, notes=tuple(notes)
            ),
            **target_fields(self.coding, self.classes),
            **protection_fields(protects),
        }


def require_labels_of(labels: Any, what: str, coding: Quantity | Labels | None) -> Any:
    """Return the labels of pictures or texts. Errors: `InvalidInput` without labels. what: their name."""
    if labels is None:
        named = "class" if coding is None else "set of labels, such as a;b"
        named = "value, such as 4.5" if isinstance(coding, Quantity) else named
        raise InvalidInput(f"{what} must have labels: a folder for every {named}, or (of arrays) an array y.")
    return labels
