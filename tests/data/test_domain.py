"""Descriptions of columns: cells of values, values of cells, what is read from a file, and what is refused."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.domain import DEFAULT_ROWS, Described, Domain
from ostrakon.validation import InvalidInput

TOML = """rows = 50
[columns.age]
low = 18
high = 24
whole = true
[columns.since]
edges = [2001-01-01, 2001-02-01, 2002-01-01]
[columns.city]
categories = ["Ulm", "Bonn"]
[columns.price]
kind = "decimal comma"
low = 0
high = 10
bins = 4
"""


@pytest.fixture
def domain(tmp_path):
    (tmp_path / "columns.toml").write_text(TOML)
    return Domain.read(tmp_path / "columns.toml")


def test_a_file_says_what_columns_hold(domain):
    assert domain.names == ("age", "since", "city", "price")
    assert [column.kind for column in domain.columns.values()] == ["number", "date", "category", "decimal comma"]
    assert domain.sizes == (8, 3, 3, 5)
    assert (domain.rows, domain.delimiter) == (50, ",")
    assert domain.columns["age"].edges == (17.5, 18.5, 19.5, 20.5, 21.5, 22.5, 23.5, 24.5)


def test_every_value_has_a_cell_by_itself(domain):
    frame = pd.DataFrame(
        {
            "age": ["18", "17", "99", "24", "old", None],
            "since": ["2001-01-01", "1999-05-05", "2001-02-01", "2077-01-01", "soon", None],
            "city": ["Ulm", "Bonn", "Rom", None, "ulm", "Ulm"],
            "price": ["2,4", "2,5", "-7", "99,1", None, "dear"],
        }
    )
    found = domain.codes(frame)
    assert found.T.tolist() == [[0, 0, 6, 6, 7, 7], [0, 0, 1, 1, 2, 2], [0, 1, 2, 2, 2, 0], [0, 1, 0, 3, 4, 4]]
    for at in range(len(frame)):
        assert domain.codes(frame.iloc[[at]]).tolist() == found[[at]].tolist(), "other rows had a say"
    # Typed as a run types them, they are in the same cells.
    assert domain.codes(domain.kinds().apply(frame)).tolist() == found.tolist()


def test_values_lie_in_their_cells(domain):
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(size, size=4000) for size in domain.sizes])
    rows = domain.frame(codes, seed=1)
    assert domain.codes(rows).tolist() == codes.tolist()
    ages = rows["age"].dropna()
    assert set(ages) == set(range(18, 25))
    assert rows["city"].isna().sum() == (codes[:, 2] == 2).sum()
    pd.testing.assert_frame_equal(rows, domain.frame(codes, seed=1))
    assert not rows["price"].equals(domain.frame(codes, seed=2)["price"])


def test_whole_numbers_of_wide_ranges_keep_to_them():
    column = Domain.of({"n": {"edges": [0, 1, 10, 20], "whole": True}}).columns["n"]
    drawn = column.values(np.repeat([0, 1, 2], 2000), np.random.default_rng(0)).reshape(3, -1)
    assert [set(part) for part in drawn] == [{0}, set(range(1, 10)), set(range(10, 21))]


def test_rows_drawn_evenly_are_of_public_words_alone():
    domain = Domain.of({"n": {"low": 0, "high": 1}, "c": {"categories": ["a", 7, 7.5]}})
    rows = domain.uniform(seed=3)
    assert (len(rows), list(rows)) == (DEFAULT_ROWS, ["n", "c"])
    assert set(rows["c"].dropna()) == {"a", "7", "7.5"}
    assert rows["n"].min() >= 0
    assert rows["n"].max() <= 1


@pytest.mark.parametrize(
    ("column", "refusal"),
    [
        (
            {},
            r"columns\.x must say in public words what it may hold: categories, low and high, or edges; low is missing",
        ),
        ({"low": 1}, r"high is missing"),
        ({"low": 3, "high": 3}, r"columns\.x\.low must be below high, got 3 and 3"),
        ({"low": float("nan"), "high": 3}, r"columns\.x\.low must be finite numbers or dates, got nan"),
        ({"low": 0, "high": float("inf")}, r"columns\.x\.high must be finite numbers or dates, got inf"),
        ({"low": False, "high": 3}, r"columns\.x\.low must be finite numbers or dates, got False"),
        ({"low": 0, "high": 3, "bins": 0}, r"columns\.x\.bins must be"),
        ({"low": 0, "high": 3, "bins": True}, r"columns\.x\.bins must be"),
        ({"low": 0, "high": 3, "whole": 1}, r"columns\.x\.whole must be true or false, got 1"),
        ({"low": 0.2, "high": 0.8, "whole": True}, r"columns\.x must have (a whole number in every range|at most)"),
        ({"edges": [0, 2, 1]}, r"columns\.x must have at most 1000 increasing ends"),
        ({"edges": [0]}, r"columns\.x\.edges must be two or more increasing ends"),
        ({"edges": [0, 1], "low": 0}, r"columns\.x\.edges must be two or more increasing ends, beside no low"),
        ({"edges": [0.1, 0.9, 3], "whole": True}, r"columns\.x must have a whole number in every range"),
        ({"categories": []}, r"columns\.x must have categories, a list of words"),
        ({"categories": "ab"}, r"columns\.x must have categories, a list of words"),
        ({"categories": ["a", "a"]}, r"columns\.x\.categories must be fewer than 1000 different words, got 'a' twice"),
        ({"categories": ["a"], "low": 0}, r"columns\.x must have categories, a list of words, and nothing else"),
        ({"categories": [None]}, r"columns\.x\.categories must be words"),
        ({"kind": "text"}, r"columns\.x\.kind must be one of number, decimal comma, date, category, got 'text'"),
        ({"kind": "number", "categories": ["a"]}, r"columns\.x must have categories or a range, got both"),
        ({"least": 0}, r"columns\.x may have kind, categories, .*got 'least'"),
        (3, r"columns\.x must be a table, as \[columns\.age\]"),
    ],
)
def test_what_says_too_little_is_refused(column, refusal):
    with pytest.raises(InvalidInput, match=refusal):
        Domain.of({"x": column})


def test_whole_descriptions_that_are_refused(tmp_path):
    sound = {"x": {"low": 0, "high": 1}}
    with pytest.raises(InvalidInput, match="columns must describe at least one column"):
        Domain.of({})
    for rows in (4, 0, -1, 2.5, True, 10**7):
        with pytest.raises(InvalidInput, match="rows must be"):
            Domain.of(sound, rows=rows)
    with pytest.raises(InvalidInput, match="delimiter must be one of"):
        Domain.of(sound, delimiter="x")
    with pytest.raises(InvalidInput, match="synthetic must be a readable TOML file of columns"):
        Domain.read(tmp_path / "none.toml")
    for text in ("rows = 5", "[columns.x]\nlow=0\nhigh=1\n[other]\n", "[x"):
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(InvalidInput, match=r"must hold columns|must be a readable TOML"):
            Domain.read(tmp_path / "bad.toml")
    with pytest.raises(InvalidInput, match="'x' is missing"):
        Domain.of(sound).codes(pd.DataFrame({"y": [1.0]}))


def test_dates_are_days_since_2000():
    column = Domain.of({"d": {"low": datetime.date(2000, 1, 1), "high": datetime.date(2000, 1, 3)}}).columns["d"]
    assert isinstance(column, Described)
    assert (column.kind, column.edges[0], column.edges[-1]) == ("date", 0.0, 2.0)


ODD = [
    *(
        None,
        np.nan,
        pd.NA,
        "word",
        "2003-01-01",
        "1e400",
        1e400,
        -1e400,
        True,
        2**70,
        1.5,
        b"x",
        (1,),
        1 + 2j,
        "9" * 400,
    ),
    *(
        10**400,
        pd.Timestamp("2004-01-01"),
        datetime.date(2004, 1, 1),
        Decimal("3.5"),
        np.float32(0.1),
        np.int8(3),
    ),
]
FORMS = {
    "inferred": pd.Series,
    "objects": lambda cells: pd.Series(cells, dtype=object),
    "nullable": lambda cells: pd.Series(cells).convert_dtypes(),
    "categorical": lambda cells: pd.Series(pd.Categorical(cells)),
}


@pytest.mark.parametrize("kind", ["number", "decimal comma", "date", "category"])
@pytest.mark.parametrize(
    "cells",
    [
        [7, 1000, 5000, 0, 1],
        [7.0, 1.5, 5000.25, 0.0, 1.0],
        [2**53 + 1, 2**53, 7, 1, 2],
        ["7", "1.5", "x", "2003-01-01", "1,5"],
        list(pd.to_datetime(["2001-01-01", "2003-02-03", "2010-01-01", "2020-01-01", "2000-01-02"])),
    ],
)
def test_one_records_cell_has_no_say_in_how_others_are_read(kind, cells):
    words = ["7", "1.5", "True", "x", str(2**53), str(2**53 + 1), "2001-01-01 00:00:00"]
    told = {"categories": words} if kind == "category" else {"kind": kind, "low": 0, "high": 10_000, "bins": 9}
    described = Domain.of({"a": told}).columns["a"]
    expected = described.codes(pd.Series(cells))[1:]
    read = 0
    for odd in ODD:
        for name, form in FORMS.items():
            try:
                column = form([odd, *cells[1:]])
            except (TypeError, ValueError):
                continue  # pandas has no such column
            if name == "categorical" and odd is True:
                continue  # pandas holds True and 1 as one and the same
            assert described.codes(column)[1:].tolist() == expected.tolist(), (odd, column.dtype)
            pd.testing.assert_series_equal(
                described.typed(column)[1:], described.typed(pd.Series(cells))[1:], check_dtype=False
            )
            read += 1
    assert read > 50
