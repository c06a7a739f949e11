"""The classes of a task: one public list, by which the labels of all parts of the data are read."""

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.columns import alike, alike_in_words, unit_of
from ostrakon.validation import InvalidInput, quote

MOST_CLASSES = 1000
FOLDERS = "folder names"
FROM_PRIVATE = "from-private"
"""The value of `classes` that takes the list from the private labels, which publishes them."""
SEPARATOR = ";"
"""Between several labels in one cell, and between their names in `--classes a;b;c`."""
OFTEN = 10
"""Private rows that a label needs before an error message may suggest it as a class."""
_SHOWN = 3
MANY_NUMBERS, MOST_FRACTIONS, MOST_NUMBERS = 50, 10, 200
"""Above these numbers of numeric classes, the target may be a quantity, and is one (with fractions, and without).
Fewer numbers may have gaps or all be whole."""
_MOST_WITH_GAPS = 20

BY_OPTIONS = "its public range, --range LOW,HIGH; for classes name them all with --classes"
IN_PYTHON = "its public range to PATERegressor(range=(low, high)); for classes name them all in classes=[...]"
"""What an error message says that would do, on the command line and in Python."""

_NEEDS_ORDER = "objective ordered needs the classes in their order from low to high, as --classes low,medium,high"
_CHECK = f"the labels of at least {OFTEN} private rows each; check them first"
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")

CLASSES_FROM = {
    "user": "given by the operator",
    "public": "the labels in the public data",
    "private": "the labels in the private data, which the operator chose to make public",
}
"""Where the list comes from (see `agree_on_classes`), in the words of the statement."""


OF_TARGET = ("target", "label", "classes")
"""What error messages call the column, what a cell holds, and the list of what it may hold."""


def label_indices(
    labels: Any, classes: Sequence[str], *, rows: Any = None, called: tuple[str, str, str] = OF_TARGET
) -> NDArray[np.int64]:
    """Return text labels as indices into `classes`; an unknown class is also looked up with or without a final full
    stop.

    rows: how many rows have each label; None: one. called: as `OF_TARGET`.
    Raises `InvalidInput` for missing labels and for labels that are not among the classes.
    """
    indices = _indices(classes)
    series = pd.Series(labels, dtype=object)
    missing = series.isna().to_numpy()
    if missing.any():
        times = np.ones(len(series), np.int64) if rows is None else np.asarray(rows)
        raise InvalidInput(f"The {called[0]} is missing in {times[missing].sum()} of {times.sum()} rows.")
    different = {label: _index_of(str(label), indices) for label in series.unique()}
    if foreign := [label for label, index in different.items() if index is None]:
        by_row = pd.Series(1 if rows is None else rows, index=series.to_numpy())
        counts: dict[Any, int] = by_row.groupby(level=0, sort=False).sum().to_dict()
        wrong = f"is not among the {called[2]} {', '.join(classes)}"
        unknown = {label: counts[label] for label in foreign}
        raise InvalidInput(foreign_labels(unknown, sum(counts.values()), wrong, noun=called[1]))
    return series.map(different).to_numpy(np.int64)


def foreign_labels(
    counts: Mapping[Any, int], rows: int, wrong: str, *, having: int | None = None, noun: str = "label"
) -> str:
    """Return the sentence that refuses labels nobody listed; it shows the three most frequent ones that `OFTEN` rows
    have.

    counts: how many rows have each of them. rows: the number of all rows. wrong: the predicate. having: how many rows
    have any of them; None: the sum of `counts`. noun: what they are.

    >>> foreign_labels({"rare": 3, "odd": 12, "c": 20}, 100, "is not among the classes a, b")
    "In 35 of 100 rows ('c' in 20 of them, 'odd' in 12 of them), the label is not among the classes a, b."
    """
    often = sorted(_frequent_labels(counts), key=lambda label: (-counts[label], str(label)))[:_SHOWN]
    labels = f" ({', '.join(f'{label!r} in {counts[label]} of them' for label in often)})" if often else ""
    return f"In {sum(counts.values()) if having is None else having} of {rows} rows{labels}, the {noun} {wrong}."


def _indices(classes: Sequence[str]) -> dict[str, int]:
    """Return the index of each class, also under the name that its number has in a table: 98.60 is 98.6 there."""
    index_by_label = {label: index for index, label in enumerate(classes)}
    return {_plain(label): index for label, index in index_by_label.items()} | index_by_label


def _plain(label: Any) -> Any:
    """Return a number as text without trailing zeros behind its decimal point, as `label_sql` has it; all else as it
    is.

    >>> [_plain(label) for label in ("98.60", "7.0", "70", "v1.10", 98.6)]
    ['98.6', '7', '70', 'v1.10', 98.6]
    """
    if not isinstance(label, str) or not re.fullmatch(r"-?[0-9]+\.[0-9]+", label):
        return label
    return label.rstrip("0").rstrip(".")


def _index_of(label: str, indices: dict[str, int]) -> int | None:
    index = indices.get(label)
    if index is None:
        index = indices.get(label.removesuffix(".") if label.endswith(".") else f"{label}.")
    return index


def looks_like_a_quantity(classes: Sequence[str]) -> bool:
    """Return whether there are many classes and all of them are numbers, so that the target may be a quantity.

    >>> looks_like_a_quantity([str(place) for place in range(60)]), looks_like_a_quantity(["0", "1"])
    (True, False)
    """
    return len(classes) > MANY_NUMBERS and all(_NUMBER.fullmatch(str(label)) for label in classes)


def refuse_quantity(classes: Sequence[Any], what: str, *, option: str = BY_OPTIONS) -> None:
    """Refuse classes that are too many numbers, or numbers with wide gaps: a quantity.

    Parameters
    ----------
    classes : sequence
        Labels that nobody listed.
    what : str
        What has them, such as "target 'price'".
    option : str
        What would do.

    Raises
    ------
    InvalidInput
        For more than 10 numbers with fractions or with one unit, 20 of which most in between are missing, and 200
        numbers.

    Examples
    --------
    >>> refuse_quantity(range(39), "labels y")
    >>> refuse_quantity([50 * place for place in range(39)], "target 'price'")
    Traceback (most recent call last):
    ...
    ostrakon.validation.InvalidInput: The target 'price' has 39 different values: for a quantity give ...
    """
    labels = [str(label) for label in classes]
    if len(labels) > MOST_FRACTIONS and (unit := unit_of(labels)) is not None:
        raise InvalidInput(
            refused_quantity(
                what, len(labels), option=f"the number alone and the unit, {unit!r}, in the header, and {option}"
            )
        )
    if not all(_NUMBER.fullmatch(label) for label in labels):
        return
    numbers = list(map(_value, labels))
    all_integers = all(label.lstrip("+-").isdigit() for label in labels)
    gaps = len(labels) > _MOST_WITH_GAPS and max(numbers) - min(numbers) >= 2 * len(labels)
    if len(labels) > MOST_NUMBERS or (len(labels) > MOST_FRACTIONS and not all_integers) or gaps:
        raise InvalidInput(refused_quantity(what, len(labels), option=option))


def refused_quantity(what: str, different: int, *, about: bool = False, option: str = BY_OPTIONS) -> str:
    """Return the sentence that refuses a target with too many different numbers."""
    return f"The {what} has {'about ' if about else ''}{different} different values: for a quantity give {option}."


def agree_on_classes(
    counts: Mapping[str | None, int],
    public_labels: Sequence[str | None] | None,
    classes: Sequence[str] | str | None,
    *,
    target: str | None,
    public: str,
    alone: bool = True,
) -> tuple[tuple[str, ...], str]:
    """Return the classes in order, and where they come from: "user", "public" or "private".

    counts: how often the private data has each label (None: a missing one). public_labels: those of the public data,
    None where it has none. classes: the user's list, which comes first, or `FROM_PRIVATE`. target (None: folder
    names), public: names for the messages. alone: whether these are all private data of the run, so that a single
    class is refused.
    The list becomes part of the release, so the statement mentions "private".
    Raises `InvalidInput` for missing labels, a constant target, a private class that is not in the list, more than
    `MOST_CLASSES`, too many different numbers (unless the user lists them), and where only the private data names the
    classes and `FROM_PRIVATE` was not given: it would publish the label of a single record.
    """
    what = FOLDERS if target is None else f"target {target!r}"
    if target is not None and (classes is None or classes == FROM_PRIVATE or counts.get(None)):
        _refuse_several(counts, what, sure=classes is not None or public_labels is not None)
    if counts.get(None):
        raise InvalidInput(
            f"The {what} is missing in {counts[None]} of {sum(counts.values())} private rows; "
            "every row needs its label."
        )
    if alone and len(counts) < 2:
        raise InvalidInput(f"The {what} has the same value in every private row: nothing can be learned.")
    if isinstance(classes, str) and classes != FROM_PRIVATE:
        raise InvalidInput(f"classes must be a list of labels, or {FROM_PRIVATE!r}, got {classes!r}.")
    if classes is not None and not isinstance(classes, str):
        names, origin = tuple(str(label) for label in classes), "user"
    elif classes is None and public_labels is not None:
        names, origin = tuple(label for label in public_labels if label is not None), "public"
    else:
        names, origin = tuple(str(label) for label in counts), "private"
    if origin != "user":
        refuse_quantity(names, what)
    if len(counts) > MOST_CLASSES:
        raise InvalidInput(f"The {what} has {len(counts)} different values; at most {MOST_CLASSES} are classes.")
    if origin == "private" and classes is None:
        raise InvalidInput(_unlisted(counts, what))
    if origin == "public" and len(set(names)) < 2:
        only = f"one label alone, {names[0]!r}," if names else "no label"
        raise InvalidInput(f"The {what} has {only} in {public}; name all classes with --classes.")
    require_different(names)
    _require_named(counts, names, what, where=public if origin == "public" else "the classes given")
    if origin == "public" and all(label.endswith(".") for label in names):
        # Decided by the public labels alone: the spelling of private ones must not show in the release.
        names = tuple(label.removesuffix(".") for label in names)
    return names, origin


def _require_named(counts: Mapping[str | None, int], names: Sequence[str], what: str, *, where: str) -> None:
    """Refuse private labels that are none of the classes. where: the source of the classes, for the message."""
    indices = _indices(names)
    foreign = {label: times for label, times in counts.items() if _index_of(str(label), indices) is None}
    if not foreign:
        return
    near = next((label for label in names for other in foreign if alike([str(other), label])), None)
    hint = (
        "" if near is None else f" (a label differs from {near!r} only in capitals, spaces, commas or signs such as $)"
    )
    wrong = f"of the private {what} does not occur in {where}{hint}; name all classes with --classes"
    raise InvalidInput(foreign_labels(foreign, sum(counts.values()), wrong))


def listed(classes: Any) -> list[Any]:
    """Return the labels of a list or array. Errors: `InvalidInput` for anything else."""
    labels = None if isinstance(classes, str) else np.asarray(classes, dtype=object)
    if labels is None or labels.ndim != 1 or not all(pd.api.types.is_scalar(label) for label in labels):
        raise InvalidInput(f"classes must be a list of labels, or {FROM_PRIVATE!r}, got {quote(classes)}.")
    return np.asarray(classes).tolist()


def _refuse_several(counts: Mapping[str | None, int], what: str, *, sure: bool) -> None:
    """Refuse cells with semicolons. sure: only if the different labels are not more than the different cells."""
    parts = Counter[str]()
    for cell, times in counts.items():
        parts.update(dict.fromkeys({part.strip() for part in str(cell or "").split(SEPARATOR)} - {""}, times))
    cells = [cell for cell in counts if cell is not None]
    if any(SEPARATOR in str(cell) for cell in cells) and not (sure and len(parts) > len(cells)):
        raise InvalidInput(several_labels(parts, what))


def several_labels(rows: Mapping[str, int], what: str) -> str:
    """Return the sentence that refuses cells such as `a;b` for classes. rows: how many rows have each label.

    >>> several_labels({"x": 30, "z": 20, "rare": 1}, "target 'kind'")  # doctest: +ELLIPSIS
    "The target 'kind' has cells with a semicolon, ... --classes 'x;z' (the labels of at least 10 private rows ..."
    """
    labels = sorted(_frequent_labels(rows))
    option = f" as --classes {shlex.quote(SEPARATOR.join(labels))} ({_CHECK})"
    offered = option if len(labels) > 1 else " in --classes, with a semicolon between two"
    return (
        f"The {what} has cells with a semicolon, which is between several labels of a row. The names of the labels are "
        f"published: give all{offered}."
    )


def require_order_given(classes: Any) -> None:
    """Refuse classes that nobody listed, before labels are read, which have no order. Errors: `InvalidInput`."""
    if classes is None or isinstance(classes, str):
        raise InvalidInput(f"{_NEEDS_ORDER}.")


def require_order(classes: Sequence[Any], classes_from: str) -> None:
    """Refuse fewer than three classes, and classes without an order: those that the operator did not list."""
    if len(classes) < 3:
        raise InvalidInput(f"objective ordered needs at least three classes, got {len(classes)}: {listed(classes)}.")
    if classes_from in (CLASSES_FROM["public"], CLASSES_FROM["private"]):
        raise InvalidInput(f"{_NEEDS_ORDER}; they come from {classes_from}, where they have no order.")


def require_different(classes: Sequence[Any]) -> None:
    """Refuse classes that are fewer than two, given twice, empty or missing. Errors: `InvalidInput`."""
    if any(pd.isna(label) for label in classes):
        raise InvalidInput(f"classes must be labels, none of them missing, got {list(classes)}.")
    if "" in classes:
        raise InvalidInput(
            f"classes must be labels that are not empty, got {list(classes)}: is a comma or a semicolon left over?"
        )
    twice = next((label for at, label in enumerate(classes) if label in classes[:at]), None)
    if twice is not None:
        raise InvalidInput(f"classes must name each label once, got {twice!r} twice.")
    plain = [_plain(label) for label in classes]
    twice = next((label for at, label in enumerate(classes) if plain[at] in plain[:at]), None)
    if twice is not None:
        raise InvalidInput(
            f"classes must be different numbers, got {twice!r} beside {classes[plain.index(_plain(twice))]!r}: in a "
            "table they are one class; write labels that are not numbers with a letter, such as v1.10."
        )
    if len(classes) < 2:
        raise InvalidInput(f"classes must be at least 2 different labels, got {list(classes)}.")


def _frequent_labels(counts: Mapping[Any, int]) -> list[Any]:
    """Return the labels that occur often; numbers from low to high.

    >>> _frequent_labels({"10": 30, "9": 20, "rare": 1})
    ['9', '10']
    """
    labels = [label for label, times in counts.items() if times >= OFTEN]
    return sorted(labels, key=_value) if all(_NUMBER.fullmatch(str(label)) for label in labels) else labels


def _value(label: Any) -> float:
    """Return the value of a label that is a number."""
    return float(str(label).replace(",", "."))


def _unlisted(counts: Mapping[str | None, int], what: str) -> str:
    """Return the sentence that refuses private labels where nobody listed the classes."""
    labels, seen = _frequent_labels(counts), list(map(str, counts))
    if alike(seen):
        frequent = f": {alike_in_words(same)}" if (same := alike(labels)) else ""
        return (
            f"The {what} has labels that differ only in capitals, spaces, commas or signs such as ${frequent}. Make "
            "the spellings the same in the files, then name the classes with --classes."
        )
    option = f"--classes {shlex.quote(joined(labels))}" if len(labels) > 1 else None
    subject = f"The classes of the {what}" if what != FOLDERS else f"The classes are the {FOLDERS}; they"
    many = len(labels) > MOST_FRACTIONS and all(_NUMBER.fullmatch(label) for label in seen)
    quantity = " If it is a quantity, give its public range, --range LOW,HIGH." if many else ""
    return unnamed_classes(subject, option, f"--classes {FROM_PRIVATE}") + quantity


def unnamed_classes(subject: str, option: str | None, from_private: str) -> str:
    """Return the sentence that refuses a missing list of classes.

    It shows private labels: it is for the terminal of the trusted side alone.

    Parameters
    ----------
    subject : str
        The subject of the sentence.
    option : str or None
        The option with the labels that occur at least `OFTEN` times, or None where fewer than two do.
    from_private : str
        The option that takes the classes from the private labels.
    """
    offered = "all labels"
    if option is not None:
        offered = f"{option} ({_CHECK})"
    return (
        f"{subject} are published, and no public data names them. Give {offered}, or {from_private}, "
        "which publishes every private label, even one that a single record has."
    )


def offered_classes(counts: Mapping[Any, int]) -> str | None:
    """Return the argument `classes=` with the labels that occur often, for Python; None where fewer than two do.

    >>> offered_classes({"no": 40, "rare": 1, "yes": 30})
    "classes=['no', 'yes']"
    """
    labels = _frequent_labels(counts)
    return f"classes={labels!r}" if len(labels) > 1 else None


def joined(labels: Sequence[Any]) -> str:
    """Return labels as one line, as `labels_in` reads it.

    >>> joined(["no", "yes, later"])
    'no,"yes, later"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([str(label) for label in labels])
    return line.getvalue()


def labels_in(classes: str | None) -> list[str] | None:
    """Return the labels in `a,b,c`; one with a comma is written in double quotes.

    >>> labels_in('no, "yes, later"')
    ['no', 'yes, later']
    """
    if classes is None:
        return None
    return [label.strip() for label in next(csv.reader([classes], skipinitialspace=True), [])]
