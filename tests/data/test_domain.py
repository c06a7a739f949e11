"""Descriptions of columns: cells of values, values of cells, what is read from a file, and what is refused."""

import datetime
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.domain import Described, Domain, drafted
from ostrakon.validation import InvalidInput

TOML = """[columns.age]
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
    assert domain.delimiter == ","
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

    def codes(rows):
        return domain.codes(domain.kinds().apply(rows))

    found = codes(frame)
    assert found.T.tolist() == [[0, 0, 6, 6, 7, 7], [0, 0, 1, 1, 2, 2], [0, 1, 2, 2, 2, 0], [0, 1, 0, 3, 4, 4]]
    for at in range(len(frame)):
        assert codes(frame.iloc[[at]]).tolist() == found[[at]].tolist(), "other rows had a say"


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
    rows = domain.examples()
    assert list(rows) == ["n", "c"]
    assert set(rows["c"].dropna()) == {"a", "7", "7.5"}
    for column, size in enumerate(domain.sizes):
        often = np.bincount(domain.codes(rows)[:, column], minlength=size)
        assert often.max() - often.min() <= 1
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
        ({"edges": [0, 2, 1]}, r"columns\.x must have ends that increase, at most 1000, got"),
        ({"edges": [0]}, r"columns\.x\.edges must be two or more increasing ends"),
        ({"edges": [0, 1], "low": 0}, r"columns\.x\.edges must be two or more increasing ends, beside no low"),
        ({"edges": [0.1, 0.9, 3], "whole": True}, r"columns\.x must have a whole number in every range"),
        ({"categories": []}, r"columns\.x must have categories, a list of words"),
        ({"categories": "ab"}, r"columns\.x must have categories, a list of words"),
        ({"categories": ["a", "a"]}, r"columns\.x\.categories must be fewer than 1000 different words, got 'a' twice"),
        ({"categories": ["a"], "low": 0}, r"columns\.x must have categories, .* and nothing else; got .*low"),
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
    with pytest.raises(InvalidInput, match="delimiter must be one of"):
        Domain.of(sound, delimiter="x")
    with pytest.raises(InvalidInput, match="columns must be a readable TOML file"):
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
    *(None, np.nan, pd.NA, "word", "2003-01-01", "1,5", "007", "TRUE", "1e400", b"x", (1,), "9" * 400),
    *(1e400, -1e400, True, 2**70, 10**400, 7, 1.5, 1 + 2j, Decimal("3.5"), np.float32(0.1), np.int8(3)),
    *(pd.Timestamp("2004-01-01"), pd.Timestamp("2004-01-01", tz="UTC"), datetime.date(2004, 1, 1)),
    *(np.datetime64("2004-01-01"), np.timedelta64(3, "D"), datetime.timedelta(1), pd.Interval(0, 1)),
]
FORMS = {
    "inferred": pd.Series,
    "objects": lambda cells: pd.Series(cells, dtype=object),
    "nullable": lambda cells: pd.Series(cells).convert_dtypes(),
    "an array": lambda cells: pd.Series(np.array(cells)),
    "categorical": lambda cells: pd.Series(pd.Categorical(cells)),
    "read": lambda cells: pd.read_csv(io.StringIO("\n".join(["a", *(f'"{cell}"' for cell in cells)])))["a"],
    "dates": lambda cells: pd.to_datetime(pd.Series(cells)),
}
DAYS = ["2001-01-01", "2003-02-03", "2010-01-01", "2020-01-01", "2000-01-02"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("number", [7, 1000, 5000, 0, 1]),
        ("number", [7.0, 1.5, 5000.25, 0.0, 1.0]),
        ("number", [2**53 + 1, 2**53, 7, 1, 2]),
        ("date", list(pd.to_datetime(DAYS))),
        ("date", [np.datetime64(day) for day in DAYS]),
        ("date", DAYS),
        ("date", [7000, 7001, 7002, 7003, 7004]),
        ("decimal comma", ["7,5", "1", "2,25", "3", "4"]),
        ("category", ["Ulm", "Bonn", "x", "", "7"]),
        ("category", ["001", "007", "007", "1", "7"]),
        ("category", ["TRUE", "FALSE", "TRUE", "TRUE", "FALSE"]),
        ("category", [1.0, 7.0, 7.0, 1.0, 0.5]),
        ("category", list(pd.to_datetime(DAYS))),
    ],
)
def test_one_records_cell_refuses_a_column_or_has_no_say_in_how_others_are_read(kind, cells):
    words = ["7", "7.0", "1.5", "True", "TRUE", "x", "Ulm", "Bonn", "007", "2001-01-01 00:00:00", "1"]
    told = {"categories": words} if kind == "category" else {"kind": kind, "low": 0, "high": 10_000, "bins": 9}
    described = Domain.of({"a": told}).columns["a"]
    seen = {}
    for name, form in FORMS.items():
        for odd in [cells[0], *ODD]:
            try:
                column = form([odd, *cells[1:]])
            except (TypeError, ValueError, OverflowError, ArithmeticError, AttributeError):
                continue  # pandas has no such column
            try:
                codes = described.codes(described.typed("a", column))
            except InvalidInput:
                continue
            # However the others came to stand in a column of that form: together they are read as ever.
            assert seen.setdefault(name, codes[1:].tolist()) == codes[1:].tolist(), (odd, column.dtype)
    if kind != "date" or not isinstance(cells[0], int):
        assert seen, "some forms are read"


def test_types_of_files_are_refused_where_the_description_says_otherwise():
    columns = Domain.of(
        {
            "n": {"low": 0, "high": 9},
            "d": {"kind": "date", "low": 0, "high": 9},
            "c": {"categories": ["a"]},
            "p": {"kind": "decimal comma", "low": 0, "high": 9},
        }
    ).columns
    right = {
        "n": ("BIGINT", "DOUBLE", "DECIMAL(9,2)"),
        "d": ("DATE", "TIMESTAMP_NS"),
        "c": ("VARCHAR", "ENUM('a')"),
        "p": ("VARCHAR",),
    }
    for name, column in columns.items():
        for held in {held for each in right.values() for held in each} | {"BOOLEAN", "BLOB"}:
            if held in right[name] or (name == "p" and held.startswith("ENUM")):
                column.require_type(name, held, "a.parquet")
            else:
                with pytest.raises(InvalidInput, match=r"of a.parquet must hold .* as it is described; got"):
                    column.require_type(name, held, "a.parquet")


def test_cells_have_names():
    domain = Domain.of({"age": {"edges": [0, 25, 100]}, "city": {"categories": ["Ulm", "Bonn"]}})
    assert domain.cell_names() == (
        *("age [0, 25)", "age [25, 100)", "age (missing)"),
        *("city Ulm", "city Bonn", "city (other or missing)"),
    )


def test_which_pairs_are_counted_is_a_public_rule():
    def pairs(*bins):
        return Domain.of({f"x{at}": {"low": 0, "high": 1, "bins": each} for at, each in enumerate(bins)}).pairs

    assert pairs(2, 3, 4) == ((0, 1), (0, 2), (1, 2))
    assert pairs(2, 3, 999) == ((0, 1), (0, 2), (1, 2))
    assert pairs(99, 99, 2) == ((0, 1), (0, 2), (1, 2)), "10,000 cells"
    assert pairs(99, 100, 2) == ((0, 2), (1, 2))
    assert len(pairs(*[2] * 40)) == 780
    assert pairs(*[2] * 41) == ()
    assert pairs(5) == ()


def test_a_header_and_its_types_give_a_draft(tmp_path):
    (tmp_path / "draft.toml").write_text(drafted(["age:whole", "a b:number", "since:date", "x:y:category"]))
    for name in ("age", "a b", "since", "x:y"):
        with pytest.raises(
            InvalidInput, match=r"columns\.age\.low must be filled in with a finite number .*, got '\?'"
        ):
            Domain.read(tmp_path / "draft.toml")
        assert name in (tmp_path / "draft.toml").read_text()
    filled = (tmp_path / "draft.toml").read_text().replace('"?"', "1", 1).replace('"?"', "9", 1)
    filled = filled.replace('"?"', "1", 1).replace('"?"', "9", 1)
    filled = filled.replace('"?"', "2001-01-01", 1).replace('"?"', "2009-01-01", 1)
    (tmp_path / "filled.toml").write_text(filled)
    with pytest.raises(InvalidInput, match=r"columns\.x:y\.categories must be filled in, got '\?'"):
        Domain.read(tmp_path / "filled.toml")
    (tmp_path / "filled.toml").write_text(filled.replace('"?"', '"u", "v"'))
    domain = Domain.read(tmp_path / "filled.toml")
    assert domain.sizes == (10, 17, 17, 3)
    assert [each.kind for each in domain.columns.values()] == ["number", "number", "date", "category"]
    assert domain.columns["age"].whole


@pytest.mark.parametrize("header", [[], ["age"], [":whole"], ["age:int"], ["age:whole", "age:number"]])
def test_headers_without_types_are_refused(header):
    with pytest.raises(InvalidInput, match="columns must be"):
        drafted(header)
