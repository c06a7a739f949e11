"""The classes of a task: one list, known to all, which the labels of every part are read by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput

MOST_CLASSES = 1000
MANY_NUMBERS, MOST_FRACTIONS, MOST_NUMBERS = 50, 20, 200
"""Classes that are all numbers: above how many they may be a quantity, and are one (with fractions, and without)."""

_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")

CLASSES_FROM = {
    "user": "given by the operator",
    "public": "the labels in the public data",
    "private": "the labels in the private data, which are thereby treated as public knowledge",
}
"""Who said so (see `agree_on_classes`), as the statement words it."""


def label_indices(labels: Any, classes: Sequence[str]) -> NDArray[np.int64]:
    """Text labels as indices into `classes`; a final full stop makes no difference where the class is else unknown.

    Raises `InvalidInput` for missing labels and for labels that are not among the classes.
    """
    places = {label: place for place, label in enumerate(classes)}
    known = pd.Series(labels, dtype=object)
    if known.isna().any():
        raise InvalidInput(f"The target is missing in {int(known.isna().sum())} of {len(known)} rows.")
    different = {label: _place(str(label), places) for label in known.unique()}
    unknown = next((label for label, place in different.items() if place is None), None)
    if unknown is not None:
        raise InvalidInput(f"The label {unknown!r} is not among the classes {', '.join(classes)}.")
    return known.map(different).to_numpy(np.int64)


def _place(label: str, places: dict[str, int]) -> int | None:
    found = places.get(label)
    if found is None:
        found = places.get(label.removesuffix(".") if label.endswith(".") else f"{label}.")
    return found


def looks_like_a_quantity(classes: Sequence[str]) -> bool:
    """Whether so many classes are all numbers that the target may be one to be estimated.

    >>> looks_like_a_quantity([str(place) for place in range(60)]), looks_like_a_quantity(["0", "1"])
    (True, False)
    """
    return len(classes) > MANY_NUMBERS and all(_NUMBER.fullmatch(str(label)) for label in classes)


def _refuse_quantity(classes: Sequence[str], target: str) -> None:
    numbers = [label for label in classes if _NUMBER.fullmatch(label)]
    fractions = any(not label.lstrip("+-").isdigit() for label in numbers)
    if len(numbers) == len(classes) > (MOST_FRACTIONS if fractions else MOST_NUMBERS):
        raise InvalidInput(quantity(target, len(classes)))


def quantity(target: str, different: int, *, about: bool = False) -> str:
    """The sentence that refuses a target of so many different numbers."""
    return (
        f"The target {target!r} has {'about ' if about else ''}{different} different values: a quantity (regression) "
        "cannot be learned, only classes; cut it into a few ranges, or name all classes with --classes."
    )


def agree_on_classes(
    counts: Mapping[str | None, int],
    shown: Sequence[str | None] | None,
    classes: Sequence[str] | None,
    *,
    target: str,
    public: str,
    alone: bool = True,
) -> tuple[tuple[str, ...], str]:
    """The classes in order, and who said so: "user", "public" or "private".

    counts: how often the private data has each label, None standing for a missing one. shown: the public data's labels,
    None where it has none. classes: the user's list, which comes first. target, public: names for the messages. alone:
    whether these are all private data that there are, so that one class among them cannot be learned.
    The list becomes part of what is released, so "private" belongs into the statement.
    Raises `InvalidInput` for missing labels, a constant target, a private class that is not in the list, more than
    `MOST_CLASSES`, and so many different numbers that they are a quantity (unless the user lists them).
    """
    if counts.get(None):
        raise InvalidInput(
            f"The target {target!r} is missing in {counts[None]} of {sum(counts.values())} private rows; "
            "every row needs its label."
        )
    held = [str(label) for label in counts]
    if alone and len(held) < 2:
        raise InvalidInput(f"The target {target!r} has the same value in every private row: nothing can be learned.")
    if classes is not None:
        given, origin = tuple(str(label) for label in classes), "user"
    elif shown is not None:
        given, origin = tuple(label for label in shown if label is not None), "public"
    else:
        given, origin = tuple(held), "private"
    if origin != "user":
        _refuse_quantity(given, target)
    if len(held) > MOST_CLASSES:
        raise InvalidInput(
            f"The target {target!r} has {len(held)} different values; at most {MOST_CLASSES} are classes."
        )
    if origin == "public" and len(set(given)) < 2:
        only = f"one label alone, {given[0]!r}," if given else "no label"
        raise InvalidInput(f"The target {target!r} has {only} in {public}; name all classes with --classes.")
    if len(set(given)) < 2 or len(set(given)) != len(given):
        raise InvalidInput(f"classes must be at least 2 different labels, got {list(given)}.")
    places = {label: place for place, label in enumerate(given)}
    unseen = [label for label in held if _place(label, places) is None]
    if unseen:
        where = public if origin == "public" else "the classes given"
        raise InvalidInput(
            f"The class {unseen[0]!r} of the private target {target!r} does not occur in {where}; "
            "name all classes with --classes."
        )
    if origin == "public" and all(label.endswith(".") for label in given):
        # Decided by the public labels alone: the spelling of private ones must not show in the release.
        given = tuple(label.removesuffix(".") for label in given)
    return given, origin
