"""How a CSV is written, and names for columns of tables without a header."""

import pytest

from ostrakon.data.csv_form import KNOWN_NAMES, resolve_names
from ostrakon.data.sources import open_table

ADULT = KNOWN_NAMES["adult"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [("a, b,c", ["a", "b", "c"]), (["a", 1], ["a", "1"]), ("adult", ADULT), (None, None)],
)
def test_as_given(tmp_path, names, expected):
    assert resolve_names(names, file=tmp_path / "table.csv", columns=3) == expected


def test_a_table_that_all_know_has_its_names_where_they_fit(tmp_path):
    for name in ("adult.data", "Adult.csv.gz"):
        assert resolve_names(None, file=tmp_path / name, columns=len(ADULT)) == ADULT
    assert resolve_names(None, file=tmp_path / "adult.data", columns=3) is None
    made = resolve_names("adult", file=tmp_path / "x", columns=15)
    made.append("more")
    assert len(KNOWN_NAMES["adult"]) == 15


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("a\nb\n", 2, ["a", "b"]),
        ("a, b", 2, ["a", "b"]),
        ("| a remark\nyes, no.\n\nage: continuous.\ncity: x, y.\n", 3, ["age", "city", "class"]),
        ("age: continuous.\ncity: x, y.\n", 2, ["age", "city"]),
        ("\n".join(f"{name}: continuous." for name in ADULT[:-1]), 15, ADULT),
    ],
)
def test_a_file_of_names(tmp_path, text, columns, expected):
    beside = tmp_path / "table.names"
    beside.write_text(text)
    assert resolve_names(None, file=tmp_path / "table.csv", columns=columns) == expected
    assert resolve_names(str(beside), file=tmp_path / "other.csv", columns=columns) == expected
    # One that does not fit the table beside it is not its own.
    assert resolve_names(None, file=tmp_path / "table.csv", columns=columns + 7) is None


@pytest.mark.parametrize("columns", [2, 3, 45])
def test_decimal_commas_in_every_cell_are_not_the_delimiter(tmp_path, columns):
    header, row = (";".join(part) for part in ([f"n{at}" for at in range(columns)], ["0,5"] * columns))
    (tmp_path / "a.csv").write_text("\n".join([header, *[row] * 50]) + "\n")
    table = open_table(tmp_path / "a.csv")
    assert list(table.columns) == header.split(";")
    assert table.dialect.delim == ";"


def test_lines_above_a_table_do_not_decide_its_delimiter(tmp_path):
    (tmp_path / "a.csv").write_text("Report; of the ward\n" + "a,b,c\n" + "1,2,3\n" * 50)
    assert list(open_table(tmp_path / "a.csv").columns) == ["a", "b", "c"]
