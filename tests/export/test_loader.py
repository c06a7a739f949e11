"""The loader that goes out with every student: each cell as the public table was read, and nothing else needed."""

import ast
import datetime
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ostrakon.export import loader
from ostrakon.export.loader import arranged, read_date, read_duration, read_number, read_table, read_word

DAY = datetime.date(2000, 1, 2)


@pytest.mark.parametrize(
    ("read", "cell", "expected"),
    [
        *((read_number, cell, 1.5) for cell in (1.5, " 1.5 ", "+15e-1", np.float32(1.5))),
        *((read_number, cell, math.nan) for cell in ("٥", "1_0")),
        *((read_number, cell, math.nan) for cell in ("", "1,5", "nan", "inf", "1e999", None, 10**400, b"1", DAY)),
        *((read_date, cell, 1.0) for cell in ("2000-01-02", DAY, pd.Timestamp(DAY), np.datetime64("2000-01-02"))),
        *((read_date, cell, 1.5) for cell in ("2000-01-02 12:00", "2000-01-02T12:00:00Z", "2000-01-02T13:00:00+01:00")),
        (read_date, "2000-01-01T00:00:00.1234567", 0.123456 / 86400),
        (read_date, pd.Timestamp("2000-01-01 00:00:00.123456789"), 0.123456 / 86400),
        (read_date, pd.Timestamp("2000-01-02 02:00", tz="Europe/Athens"), 1.0),
        *((read_date, cell, math.nan) for cell in ("", "2000-13-01", "02.01.2000", 7, pd.NaT, np.datetime64("NaT"))),
        *((read_duration, cell, 0.5) for cell in (datetime.timedelta(hours=12), np.timedelta64(12, "h"))),
        (read_duration, pd.Timedelta(hours=12), 0.5),
        *((read_duration, cell, math.nan) for cell in ("12:00", 0.5, None, pd.NaT, np.timedelta64("NaT"))),
    ],
)  # fmt: skip
def test_cells(read, cell, expected):
    assert read(cell) == pytest.approx(expected, abs=1e-15, nan_ok=True)


@pytest.mark.parametrize(
    ("cell", "known", "expected"),
    [
        *((cell, {"7"}, "7") for cell in ("7", " 7 ", 7, 7.0, np.int8(7), np.float32(7))),
        *((cell, {"a"}, "") for cell in (None, math.nan, pd.NA, pd.NaT, "?", " NA ", "")),
        ("NA", {"NA"}, "NA"),
        (" a", {" a"}, " a"),
        ("b ", {"a"}, "b"),
        (7.5, {"7"}, "7.5"),
        ("TRUE", {"True", "False"}, "True"),
        ("TRUE", {"True", "no"}, "TRUE"),
        (np.True_, {"True"}, "True"),
    ],
)
def test_words(cell, known, expected):
    assert read_word(cell, known) == expected


COLUMNS = [{"name": "n", "kind": "number"}, {"name": "w", "kind": "category", "values": ["a"]}]


@pytest.mark.parametrize(
    "rows",
    [
        [{"w": "a", "n": "1", "more": 3}, {"n": 2}],
        {"n": ["1", 2.0], "w": ["a", None]},
        pd.DataFrame({"more": [0, 0], "w": ["a", None], "n": [1, 2]}),
        np.array([[1, "a"], [2, None]], object),
    ],
    ids=["dictionaries", "columns", "frame", "array"],
)
def test_tables_however_they_come(rows):
    read = read_table(rows, COLUMNS)
    assert read["n"].tolist() == [1.0, 2.0]
    assert read["w"].tolist() == ["a", ""]


def test_blanks_around_a_name_do_not_matter_unless_they_tell_columns_apart():
    for spaced in ([{" n": 1.0, "c ": "x"}], {" n": [1.0], "c ": ["x"]}):
        assert read_table(spaced, COLUMNS[:1])["n"].tolist() == [1.0]
    for both in ([{" n": 1.0, "n": 2.0}], {"n": [2.0], " n": [1.0]}):
        assert read_table(both, COLUMNS[:1])["n"].tolist() == [2.0]
    assert read_table([{" n": 1.0}], [{**COLUMNS[0], "name": " n"}])[" n"].tolist() == [1.0]


def test_text_that_cannot_be_read_is_named_if_asked():
    rows = [{"n": cell} for cell in ("1.5", "62,7", "high", "?", " ", None, 3, math.nan)]
    with pytest.warns(UserWarning, match="'n' must be written like 1234.5: 2 of 8 cells .* the first '62,7'") as seen:
        read = read_table(iter(rows), COLUMNS[:1], warn=True)
    assert len(seen) == 1
    assert np.isnan(read["n"]).tolist() == [False, True, True, True, True, True, False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(rows, COLUMNS[:1])
        read_table([rows[0], *rows[3:]], COLUMNS[:1], warn=True)


def test_words_that_the_student_does_not_know_are_named():
    rows = {"w": ["a", "", None, "?", *"edcbb"]}
    told = r"some values of the column 'w' and reads them as unknown: 'b', 'c', 'd', \.\.\.\.$"
    with pytest.warns(UserWarning, match=told) as seen:
        read = read_table(rows, COLUMNS[1:], warn=True)
    assert len(seen) == 1
    assert read["w"].tolist() == ["a", "", "", "", *"edcbb"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(rows, COLUMNS[1:])
        read_table({"w": ["a", " a ", None]}, COLUMNS[1:], warn=True)


def test_every_form_that_is_named_can_be_read():
    for kind, form in loader._FORMS.items():
        assert not np.isnan(read_table([{"n": form}], [{"name": "n", "kind": kind}])["n"]).any()
    assert loader._FORMS.keys() == loader.READERS.keys() - {"duration"}


def test_what_is_not_there_is_named():
    with pytest.raises(ValueError, match="missing: w"):
        read_table({"n": [1]}, COLUMNS)
    with pytest.raises(ValueError, match=r"2 columns \(n, w\), got shape \(1, 3\)"):
        read_table(np.zeros((1, 3)), COLUMNS)
    assert read_table([], COLUMNS)["n"].shape == (0,)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (None, "got None"),
        (3, "got 3"),
        ("n", "got 'n'"),
        ([None], "a list with None"),
        ([[1.0, "a"]], "a list with \\[1.0, 'a'\\]"),
        ({"n": 1.0, "w": "a"}, "got 1.0 under 'n'; one row is a list of one dictionary"),
        ({"n": "12", "w": "ab"}, "got '12' under 'n'"),
        ({"n": [1.0, 2.0], "w": ["a"]}, "equally long, got 'n': 2, 'w': 1"),
        (pd.Series({"n": 1.0, "w": "a"}), "got 1.0 under 'n'"),
        (pd.Series([1, 2, 3]), "got .*1.* under '0'"),
    ],
)
def test_what_is_no_table_is_refused_by_name(rows: Any, told: str) -> None:
    with pytest.raises(ValueError, match=rf"^(X|The columns of X) must .*{told}"):
        read_table(rows, COLUMNS)


IMAGE = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)  # channels first


@pytest.mark.parametrize("given", [IMAGE, IMAGE.transpose(0, 2, 3, 1), IMAGE.reshape(2, -1)])
def test_images_wherever_their_channels_are(given):
    np.testing.assert_array_equal(arranged(given, ["rows", 3, 4, 5], "float32", "first"), IMAGE)


def test_images_with_channels_last_and_without():
    last = IMAGE.transpose(0, 2, 3, 1)
    for given in (last, IMAGE, last.reshape(2, -1)):
        np.testing.assert_array_equal(arranged(given, ["rows", 4, 5, 3], "float32", "last"), IMAGE)
    for given in (IMAGE[:, 0], IMAGE[:, :1], IMAGE[:, 0, :, :, None], IMAGE[:, 0].reshape(2, -1)):
        np.testing.assert_array_equal(arranged(given, ["rows", 4, 5], "float32", "none"), IMAGE[:, :1])


@pytest.mark.parametrize(
    ("rows", "message"),
    [(np.zeros((2, 4)), "must have the shape"), (np.zeros(3), "shape"), ([[1, np.inf, 0]], "finite")],
)
def test_other_shapes_and_infinities_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        arranged(rows, ["rows", 3], "float64", None)


def test_it_imports_nothing_that_a_stranger_lacks():
    tree = ast.parse(Path(loader.__file__).read_text())
    named = {
        (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert named - set(sys.stdlib_module_names) == {"numpy", "onnxruntime", "torch"}


def test_the_function_of_the_room_is_no_module():
    from ostrakon.export import export_student, load_student

    assert callable(export_student)
    assert callable(load_student)
