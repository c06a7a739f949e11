"""What a forecast sees: public rows, labels where there are some, and classes."""

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.forecast.public_rows import PublicRows, read_public
from ostrakon.validation import InvalidInput

X = np.arange(12.0).reshape(6, 2)


def test_labels_become_numbers_and_rows_without_one_are_known_as_such():
    shown = PublicRows.of(X, ["no", "yes", None, "no", float("nan"), "yes"])
    assert shown.classes == ("no", "yes")
    assert shown.y.tolist() == [0, 1, -1, 0, -1, 1]
    assert shown.labelled.tolist() == [0, 1, 3, 5]
    assert (shown.rows, PublicRows.of(X, classes=["a", "b", "c"]).classes) == (6, ("a", "b", "c"))
    assert not len(PublicRows.of(X, classes=[0, 1]).labelled)
    assert PublicRows.of(X, [1, 0, 0, 1, 1, 1], classes=[1, 0, 2]).y.tolist() == [0, 1, 1, 0, 0, 0]


def test_values_and_several_labels_are_read_and_unknown_ones_are_known_as_such():
    values = PublicRows.of(X, [3, "4.5", None, 90, float("nan"), 0], coding=Quantity(low=0, high=9))
    assert (values.target, values.classes, values.labelled.tolist()) == ("quantity", ("low", "high"), [0, 1, 3, 5])
    assert values.y[values.labelled].tolist() == [3, 4.5, 90, 0]
    several = Labels(names=("a", "b"))
    for y in (["a;b", "b", None, "a", "", "b"], np.array([[1, 1], [0, 1], [0, 0], [1, 0], [0, 0], [0, 1]])):
        shown = PublicRows.of(X, y, coding=several)
        assert (shown.target, shown.labelled.tolist()) == ("labels", [0, 1, 2, 3, 4, 5])
        assert shown.y.tolist() == [[1, 1], [0, 1], [0, 0], [1, 0], [0, 0], [0, 1]]
    partly = pd.DataFrame({"b": [1, 0, None, 1, 1, 0], "a": [0, 1, 1, 1, None, 0]})
    shown = PublicRows.of(X, partly, coding=several)
    assert (shown.labelled.tolist(), shown.y[shown.labelled].tolist()) == (
        [0, 1, 3, 5],
        [[0, 1], [1, 0], [1, 1], [0, 0]],
    )
    for coding in (several, Quantity(low=0, high=9)):
        assert not any(len(PublicRows.of(X, y, coding=coding).labelled) for y in (None, [None] * 6))


@pytest.mark.parametrize(
    ("y", "coding", "message"),
    [
        ([1.0, 2.0], Quantity(low=0, high=9), "y_public must have a value or set of labels per public row, 6, got 2"),
        (["x"] * 6, Quantity(low=0, high=9), "The target must be a number"),
        (["a;c"] * 6, Labels(names=("a", "b")), "not among the labels a, b"),
        (np.full((6, 2), 2), Labels(names=("a", "b")), "y must be 0 or 1 for every label, got 2"),
        (np.ones((6, 3)), Labels(names=("a", "b")), "y must have a column for each of the 2 labels"),
    ],
)
def test_other_values_and_labels_are_refused(y, coding, message):
    with pytest.raises(InvalidInput, match=message):
        PublicRows.of(X, y, coding=coding)


@pytest.mark.parametrize(
    ("y", "classes", "told"),
    [
        (None, None, "The public data have no labels; name all classes"),
        (["a"] * 6, None, "The public data have one label alone, 'a', of the target 'y_public'; name"),
        (["a", "b"], None, "y_public must have one label per public row, 6"),
        (["a", "b", "c", "a", "b", "c"], ["a", "b"], "In 2 of 6 rows, the label is not among the classes a, b."),
        (None, ["a"], "classes must be at least 2"),
        (None, ["a", "a"], "classes must be at least 2"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(y, classes, told):
    with pytest.raises(InvalidInput) as refused:
        PublicRows.of(X, y, classes=classes)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_table_is_read_as_a_run_would_read_it(tmp_path):
    table = pd.DataFrame({"age": [20, 30, 40, 50, 60, 70], "colour": list("rgrgrb"), "y": [*"ababa", None]})
    table.to_csv(tmp_path / "public.csv", index=False)
    shown = read_public(tmp_path / "public.csv", target="y")
    assert list(shown.X.columns) == ["age", "colour"]
    assert (shown.classes, shown.y.tolist()) == (("a", "b"), [0, 1, 0, 1, 0, -1])
    table.drop(columns="y").to_csv(tmp_path / "bare.csv", index=False)
    bare = read_public(tmp_path / "bare.csv", classes=["a", "b", "c"])
    assert (list(bare.X.columns), len(bare.labelled), bare.classes) == (["age", "colour"], 0, ("a", "b", "c"))
    # The target must be a column of the table; without labels it is not given.
    others = [{"coding": Quantity(low=0, high=9)}, {"coding": Labels(names=("a", "b"))}]
    for given in ({}, {"classes": ["a", "b"]}, *others):
        with pytest.raises(InvalidInput, match=r"columns are, nearest first, age, colour\..* leave --target out"):
            read_public(tmp_path / "bare.csv", target="ye", **given)
        if given:
            assert not len(read_public(tmp_path / "bare.csv", **given).labelled)
    with pytest.raises(InvalidInput, match=r"'colours' is not in .* nearest first, colour, "):
        read_public(tmp_path / "public.csv", target="colours")
    several = Labels(names=("age", "tall"))
    with pytest.raises(InvalidInput, match="'tall' is not in"):
        read_public(tmp_path / "public.csv", target="age,tall", coding=several)
    with pytest.raises(InvalidInput, match=r"--target must be given.* name all classes with --classes"):
        read_public(tmp_path / "bare.csv")
    with pytest.raises(InvalidInput, match="There is no file"):
        read_public(tmp_path / "other.csv", target="y")


def test_images_are_read_with_their_labels(tmp_path):
    pictures = np.random.default_rng(0).random((4, 8, 8))
    np.savez(tmp_path / "public.npz", X=pictures, y=np.array(["a", "b", "a", "b"]))
    shown = read_public(tmp_path / "public.npz")
    assert (shown.X.shape, shown.y.tolist(), shown.classes) == ((4, 8, 8), [0, 1, 0, 1], ("a", "b"))


def test_rows_of_a_private_folder_are_refused(tmp_path):
    (tmp_path / "private").mkdir()
    (tmp_path / "run.toml").write_text("")
    with pytest.raises(InvalidInput, match="must not be public"):
        read_public(tmp_path / "private" / "rows.csv", target="y")


def test_a_quantity_without_a_range_is_refused_by_the_name_of_its_column(tmp_path):
    path = tmp_path / "public.csv"
    path.write_text("age,price\n" + "".join(f"{row % 7},{50 * row}\n" for row in range(39)))
    with pytest.raises(InvalidInput, match=r"^The target 'price' has 39 different values: for a quantity give "):
        read_public(path, target="price")
