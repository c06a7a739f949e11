"""The list of classes: who says it, and what no list may hide."""

import re
import shlex

import numpy as np
import pyarrow as pa
import pytest

from ostrakon.data.arrow_cells import label_numbers
from ostrakon.data.classes import MOST_CLASSES, MOST_FRACTIONS, MOST_NUMBERS, agree_on_classes, label_indices, labels_in
from ostrakon.data.labels import Labels, labels_named
from ostrakon.data.task import open_task
from ostrakon.validation import InvalidInput

NAMES = {"target": "income", "public": "public.csv"}


@pytest.mark.parametrize(
    ("counts", "shown", "classes", "expected"),
    [
        ({"b": 2, "a": 1}, None, "from-private", (("b", "a"), "private")),
        ({"b": 2, "a": 1}, ["a", "b", "c"], "from-private", (("b", "a"), "private")),
        ({"b": 2, "a": 1}, ["a", "b", "c", None], None, (("a", "b", "c"), "public")),
        ({"b": 2, "a": 1}, ["a"], ["c", "b", "a"], (("c", "b", "a"), "user")),
        # A final full stop is spelling; the public one decides, and where all have it, none gets it.
        ({"b.": 2, "a": 1}, ["a", "b"], None, (("a", "b"), "public")),
        ({"b": 2, "a": 1}, ["a.", "b."], None, (("a", "b"), "public")),
        ({"b": 2, "a": 1}, ["a.", "b"], None, (("a.", "b"), "public")),
    ],
)
def test_the_user_first_then_the_public_data(counts, shown, classes, expected):
    assert agree_on_classes(counts, shown, classes, **NAMES) == expected


def test_the_private_spelling_never_shows():
    plain, stopped = {"a": 1, "b": 1}, {"a.": 1, "b.": 1}
    assert agree_on_classes(plain, ["a", "b"], None, **NAMES) == agree_on_classes(stopped, ["a", "b"], None, **NAMES)


@pytest.mark.parametrize(
    ("counts", "shown", "classes", "message"),
    [
        ({"a": 3, "b": 1, None: 2}, None, None, "'income' is missing in 2 of 6 private rows"),
        ({"a": 3}, None, None, "same value in every private row"),
        ({}, None, None, "same value in every private row"),
        ({f"c{k}": 1 for k in range(MOST_CLASSES + 1)}, None, None, f"at most {MOST_CLASSES} are classes"),
        (
            {str(k): 1 for k in range(MOST_NUMBERS + 1)},
            None,
            None,
            "for a quantity give its public range, --range LOW,HIGH",
        ),
        ({f"{k}.5": 1 for k in range(MOST_FRACTIONS + 1)}, None, None, "for a quantity give its public range"),
        ({"a": 1, "b": 1}, None, "a,b", r"a list of labels, or 'from-private', got 'a,b'"),
        ({"a": 1, "b": 1}, None, None, r"Give all labels, or --classes from-private, which publishes every"),
        ({str(9 - i): 20 for i in range(12)}, None, None, r"-2,-1,0,1,2.* its public range, --range LOW,HIGH"),
        ({"a b": 10, "c,d": 11, "rare": 9}, None, None, r"""Give --classes 'a b,"c,d"' \(the labels of at least 10"""),
        ({"a": 1, "b": 1}, None, ["a", "a", "b"], "name each label once, got 'a' twice"),
        ({"a": 1, "b": 1}, None, ["", ""], "labels that are not empty"),
        ({"a": 1, "b": 1}, ["a", "a"], None, "one label alone, 'a', in public.csv"),
        (
            {"a": 1, "b": 1, "c": 1},
            ["a", "b"],
            None,
            "In 1 of 3 rows, the label of the private .* does not occur in public.csv",
        ),
        (
            {"a": 1, "b": 1, "c": 1},
            None,
            ["a", "b"],
            "In 1 of 3 rows, the label of the private .* does not occur in the classes given",
        ),
    ],
)
def test_what_is_no_list_is_refused(counts, shown, classes, message):
    with pytest.raises(InvalidInput, match=message):
        agree_on_classes(counts, shown, classes, **NAMES)


def test_a_label_that_nobody_listed_is_shown_only_if_it_is_frequent():
    counts = {"a": 20, "secret": 9, "odd": 10}
    several = Labels(names=("a", "b"))
    for refuse in (
        lambda: agree_on_classes(counts, ["a", "b"], None, **NAMES),
        lambda: label_indices(list(counts), ("a", "b"), rows=list(counts.values())),
        lambda: label_indices([label for label, times in counts.items() for _ in range(times)], ("a", "b")),
        lambda: several.indicators([f"a; {label}" for label, times in counts.items() for _ in range(times)]),
        lambda: label_numbers(pa.chunked_array([[a for a, times in counts.items() for _ in range(times)]]), ("a", "b")),
    ):
        with pytest.raises(InvalidInput, match=r"In 19 of 39 rows \('odd' in 10 of them\), the label ") as refused:
            refuse()
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("classes", [None, "from-private"])
def test_cells_with_several_labels_are_no_classes(classes):
    counts = {"x;z": 20, "z": 30, "secret;z": 1, None: 4}
    with pytest.raises(InvalidInput, match=r"as --classes 'x;z' \(the labels of at least 10") as refused:
        agree_on_classes(counts, None, classes, **NAMES)
    assert "secret" not in str(refused.value)
    assert labels_named(shlex.split(re.search(r"--classes .*? \(", str(refused.value))[0][:-2])[1]) == ("x", "z")


def test_spellings_of_rare_labels_are_not_shown():
    for counts, shown in (
        ({"No": 20, "no": 10, "Smith": 1, "smith": 1}, ": 'No', 'no'. Make"),
        ({"No": 20, "yes": 10, "Smith": 1, "smith": 1}, "such as $. Make"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(shown)) as refused:
            agree_on_classes(counts, None, None, **NAMES)
        assert "mith" not in str(refused.value)


def test_classes_may_have_a_semicolon():
    counts = {"sick; chronic": 20, "well; none": 20}
    assert agree_on_classes(counts, None, "from-private", **NAMES) == (tuple(counts), "private")


def test_labels_are_places_in_the_list():
    made = label_indices(["b", "a", "a."], ("a", "b"))
    assert made.dtype == np.int64
    assert made.tolist() == [1, 0, 0]
    # Where both spellings are classes, each is its own.
    assert label_indices(["a", "a."], ("a", "a.")).tolist() == [0, 1]


def test_the_refusal_never_shows_a_rare_label_and_its_list_can_be_pasted():
    with pytest.raises(InvalidInput) as refused:
        agree_on_classes({"no": 40, "later, if": 12, "rare_secret": 1}, None, None, **NAMES)
    assert "rare_secret" not in str(refused.value)
    pasted = shlex.split(re.search(r"--classes .*? \(", str(refused.value))[0][:-2])
    assert labels_in(pasted[1]) == ["no", "later, if"]


def test_numbers_of_another_precision_are_one_class(tmp_path) -> None:
    public, private = tmp_path / "public.csv", tmp_path / "private.csv"
    public.write_text("a\n" + "\n".join(str(row % 7) for row in range(60)))
    cells = ["98.6", "98.60", "98.55", "99.0", "99"]
    private.write_text("a,t\n" + "\n".join(f"{row % 7 + 7},{cells[row % 5]}" for row in range(100)))
    task = open_task(private, public, target="t", classes=["98.60", "98.55", "99"])
    assert task.classes == ("98.60", "98.55", "99")
    assert task.private.label_counts("t") == {"98.55": 20, "98.6": 40, "99": 40}
    assert np.bincount(label_indices(task.private.labels("t"), task.classes)).tolist() == [40, 20, 40]
    with pytest.raises(
        InvalidInput, match=r"different numbers, got '98.60' beside '98.6': in a table they are one class"
    ):
        open_task(private, public, target="t", classes=["98.6", "98.60", "99"])


def test_text_and_whole_numbers_keep_their_zeros() -> None:
    counts = {"v1.10": 5, "v1.1": 5, "70": 5, "7": 5}
    assert agree_on_classes(counts, None, list(counts), **NAMES)[0] == tuple(counts)


def test_many_numbers_with_one_unit_are_a_quantity():
    counts = {f"{place}.5 kg": 12 for place in range(12)}
    with pytest.raises(InvalidInput, match=r"for a quantity give the number alone and the unit, 'kg', in the header"):
        agree_on_classes(counts, None, None, **NAMES)
    assert agree_on_classes(counts, None, list(counts), **NAMES)[0] == tuple(counts)
