"""Columns are read as the public table says, cell by cell."""

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ostrakon.data.columns import Columns, require_same_types, typed, with_floats
from ostrakon.validation import InvalidInput

N = 600
PUBLIC = pd.DataFrame(
    {
        "age": [str(20 + place % 50) for place in range(N)],
        "income": [None if place % 7 == 0 else 1.5 * place for place in range(N)],
        "city": [["Ulm", "Bonn", None][place % 3] for place in range(N)],
        "born": [f"19{50 + place % 50}-03-01" for place in range(N)],
        "seen": pd.date_range("2020-01-01", periods=N),
        "smokes": [place % 2 == 0 for place in range(N)],
        "name": [f"person {place}" for place in range(N)],
        "country": ["here"] * N,
        "nothing": [None] * N,
    }
)


def test_kinds() -> None:
    columns = Columns.of(PUBLIC)
    assert columns.kinds == {
        "age": "number",
        "income": "number",
        "city": "category",
        "born": "date",
        "seen": "date",
        "smokes": "category",
        "name": "left out",
        "country": "left out",
        "nothing": "left out",
    }
    assert columns.left_out == ("name", "country", "nothing")


def test_cells() -> None:
    private = PUBLIC.iloc[:4].copy()
    private["age"] = ["30", "x", "inf", None]
    private["born"] = ["2000-01-02", "never", None, "2000-01-03T12:00:00"]
    private["city"] = ["Ulm", None, "Rom", 5]
    typed = Columns.of(PUBLIC).apply(private)
    np.testing.assert_array_equal(typed["age"], [30, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(typed["born"], [1, np.nan, np.nan, 2.5])
    assert typed["city"].tolist() == ["Ulm", None, "Rom", "5"] or typed["city"].isna().tolist() == [
        False,
        True,
        *[False] * 2,
    ]
    assert typed["seen"].tolist() == [7305.0, 7306.0, 7307.0, 7308.0]
    assert list(typed) == ["age", "income", "city", "born", "seen", "smokes"]


def test_a_row_is_read_the_same_whoever_stands_beside_it() -> None:
    columns = Columns.of(PUBLIC)
    odd = PUBLIC.iloc[:1].assign(age="abc", income="12,5", born="yesterday", smokes="perhaps")
    together = columns.apply(pd.concat([PUBLIC, odd]))
    pd.testing.assert_frame_equal(together.iloc[:N], columns.apply(PUBLIC), check_dtype=False)


def test_whole_numbers_are_words_whether_or_not_one_is_missing() -> None:
    columns = Columns.of(pd.DataFrame({"code": ["7", "8", "x"] * 9}))
    for cells in ([7, 8], [7, None], [7.0, 7.5]):
        assert columns.apply(pd.DataFrame({"code": cells}))["code"][0] == "7"


ODD_CELLS = [
    *("2020-01-01", "2020-01-01T12:00:00", "2020-01-01 12:00:00.123456789", "9999-12-31", "0001-01-01", "1600-01-01"),
    *("2262-04-12T00:00:00.1", "2020-01-01T00:00:00+02:00", "2020-01-01T12:00:00.1234567+01:00", "-0001-01-01"),
    *("infinity", "12000-01-01", "2020-13-01", "20200101", "2020", "now", "today", "2020-W01", "words", "7", "7.0"),
    *(
        "1,5",
        "1.234,5",
        "1e999",
        "-1e-400",
        "nan",
        "9007199254740993",
        "18446744073709551616",
        "0x10",
        "1_000",
        "",
        None,
    ),
]
# In memory a cell may be any object; the first ones made pandas read a column of missing cells as times.
OBJECTS = [pd.Timestamp("2020-01-01"), datetime.datetime(2020, 1, 1), np.datetime64("2020-01-01"), pd.Timedelta("1D")]
OBJECTS += [pd.NaT, pd.NA, datetime.date(2020, 1, 1), Decimal("1.5"), True, 10**400, 2**64, 1j, b"4", "\ud800", 2.5]
KINDS = [
    "number",
    "decimal comma",
    "amount",
    "category",
    "date",
    "date (day first)",
    "date (month first)",
    "date (digits)",
]


@pytest.mark.parametrize("kind", ["number", "decimal comma", "date", "category"])
def test_no_cell_decides_how_another_is_read(kind) -> None:
    # One private cell that rewrites its neighbours would change many votes where one is charged.
    columns = Columns({"c": kind})
    alone = [columns.apply(pd.DataFrame({"c": [cell]}, dtype=object))["c"].iloc[0] for cell in ODD_CELLS]
    for beside in ODD_CELLS:
        both = pd.DataFrame({"c": [*ODD_CELLS, beside]}, dtype=object)
        for read, kept in zip(columns.apply(both)["c"], alone, strict=False):
            assert read == kept or (pd.isna(read) and pd.isna(kept))
    if kind == "date":
        assert sum(not pd.isna(cell) for cell in alone) == 9  # those are read, and to the microsecond
        assert alone[2] == alone[1] + 0.123456 / 86_400


@pytest.mark.parametrize("kind", KINDS)
def test_no_object_in_a_cell_decides_how_others_are_read(kind) -> None:
    columns = Columns({"c": kind})

    def read(*cells) -> list:
        return columns.apply(pd.DataFrame({"c": pd.Series(cells, dtype=object)}))["c"].tolist()

    cells = [None, "unknown", float("nan"), "7", "2020-01-01", "1.234,5", 3]
    alone = [read(cell)[0] for cell in cells]
    for odd in OBJECTS:
        for kept in (slice(3), slice(7)):
            for found, expected in zip(read(*cells[kept], odd), alone[kept], strict=False):
                assert found == expected or (pd.isna(found) and pd.isna(expected)), (odd, found, expected)


def test_frames_in_memory_must_have_the_public_types() -> None:
    public = pd.DataFrame({"n": [1, 2], "t": pd.to_datetime(["2020-01-01", "2020-01-02"]), "w": ["a", "b"]})
    require_same_types(public.astype({"n": float}), public)
    require_same_types(public.drop(columns="t"), public)
    require_same_types(public.to_numpy(), public)
    for name, cells in (("n", ["1", 2]), ("t", ["2020-01-01", "x"]), ("w", [1, 2]), ("n", [True, False])):
        with pytest.raises(InvalidInput, match=f"column '{name}' must hold the same in X as in X_public"):
            require_same_types(public.assign(**{name: cells}), public)


@pytest.mark.parametrize("form", ["frame", "array"])
@pytest.mark.parametrize(
    "odd", [5, 2**53, -(2**60), 2**63, 2**64, 10**400, 1e300, math.inf, None], ids=lambda odd: repr(odd)[:20]
)
def test_a_large_private_number_in_memory_is_read_alone(form: str, odd: Any) -> None:
    public, cells = pd.DataFrame({"n": [1, 2]}), pd.DataFrame({"n": [2**53 + 1, 7, odd]})
    read = with_floats(*((cells.to_numpy(), public.to_numpy()) if form == "array" else (cells, public)))
    require_same_types(read, public)
    assert pd.DataFrame(read).iloc[:2, 0].tolist() == [2.0**53, 7.0]


def test_columns_that_are_read_alike_in_any_case_stay() -> None:
    public = pd.DataFrame({"n": [1, 2], "w": ["a", "b"]})
    for cells in (public, public.assign(n=[None, 1.5]), public.assign(w=["a", 2**60]), public[["n"]].to_numpy()):
        pd.testing.assert_frame_equal(pd.DataFrame(with_floats(cells, public)), pd.DataFrame(cells))


def test_a_word_among_private_numbers_is_named_by_its_row_and_never_shown() -> None:
    public = pd.DataFrame({"age": [50.5, None, 41.0]})
    private = pd.DataFrame({"age": ["50.5", None, "41", "secret"]})
    with pytest.raises(InvalidInput, match=r"'age' must .* X has text .*row 3, .*X_public numbers\. pandas"):
        require_same_types(private, public)
    with pytest.raises(InvalidInput, match=r"X has numbers, X_public text .*row 3, counted from 0\)\. pandas"):
        require_same_types(public, private)
    for cells in (private["age"], private["age"].astype("category"), private["age"].astype("string")):
        with pytest.raises(InvalidInput, match=r"\(first in row 3, counted from 0\)") as refused:
            require_same_types(private.assign(age=cells), public)
        assert "secret" not in str(refused.value)
    with pytest.raises(InvalidInput, match=r"X has text or mixed cells, X_public numbers\."):
        require_same_types(private[:3], public)


def test_public_integers_without_end_are_missing() -> None:
    cells = pd.Series([10**400, *range(20)], dtype=object)
    columns = Columns.of(pd.DataFrame({"n": cells}))
    assert columns.kinds["n"] == "number"
    assert columns.apply(pd.DataFrame({"n": cells}))["n"].isna().tolist() == [True] + [False] * 20


def test_arrays_in_memory_must_have_the_public_types() -> None:
    public = np.array([[0, 1], [1, 0]])
    require_same_types(public.astype(float), public)
    require_same_types(public.astype(bool), public.astype(bool))
    for private in (public.astype(bool), public.astype(str), public.astype(object)):
        with pytest.raises(InvalidInput, match="column 0 must hold the same in X as in X_public"):
            require_same_types(private, public)


def test_tables_that_cannot_be_read() -> None:
    with pytest.raises(InvalidInput, match="'city' is missing"):
        Columns.of(PUBLIC).apply(PUBLIC.drop(columns="city"))
    with pytest.raises(InvalidInput, match="No column of the public table varies"):
        Columns.of(PUBLIC[["country", "nothing"]])


def test_a_cell_that_a_type_cannot_hold_stops_no_other_cell() -> None:
    for unit, far in (("s", "300000-01-01"), ("ms", "290000000-01-01"), ("s", "-300000-01-01")):
        moments = pd.Series(np.array([far, "2000-01-03", "NaT"], f"M8[{unit}]"))
        assert typed(moments, "date").fillna(-1).tolist() == [-1, 2, -1]
    half = typed(pd.Series(["\ud800", "a", None, 7.0], dtype=object), "category")
    assert half.tolist() == ["\ud800", "a", None, "7"]
    decimals = pd.array([Decimal("1.5"), None, Decimal(3)], dtype=pd.ArrowDtype(pa.decimal128(10, 2)))
    assert typed(pd.Series(decimals), "number").fillna(-1).tolist() == [1.5, -1, 3]


def test_columns_of_nullable_types_are_judged_as_others_are() -> None:
    days = [f"{day}" for day in pd.date_range("2020-01-01", periods=60).strftime("%Y%m%d")]
    table = pd.DataFrame({"day": days, "word": ["a", None, "b"] * 20, "number": [1.5, None, 2.5] * 20})
    expected = Columns.of(table).kinds
    assert expected["day"] == "date (digits)"
    assert Columns.of(table.convert_dtypes()).kinds == expected
    assert Columns.of(table.astype({"day": "string", "word": "string"})).kinds == expected
