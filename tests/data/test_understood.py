"""What is said of the data before anything is spent: what each column is, what is not used and why, what cannot be."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.columns import CONSTANT, EITHER, EMPTY, FREE_TEXT, Columns
from ostrakon.data.task import TableTask, open_task
from ostrakon.data.understood import SHOWN
from ostrakon.export.loader import read_comma_number, read_number, read_word
from ostrakon.validation import InvalidInput

N = 400


def rows(seed: int, n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 3)).round(4), columns=["a", "b", "c"])
    return table.assign(city=rng.choice(["Ulm", "Bonn"], n), ill=np.where(table["a"] > 0, "yes", "no"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows(0).to_csv(tmp_path / "private.csv", index=False)
    rows(1).to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def opened(folder: Path, private: str = "private", public: str = "public", **options: object) -> TableTask:
    return open_task(folder / f"{private}.csv", folder / f"{public}.csv", target="ill", **options)  # type: ignore[arg-type]


def test_decimal_commas_are_numbers(tmp_path: Path) -> None:
    for seed, name in enumerate(["private", "public"]):
        table = rows(seed)
        table["big"] = 1.234 * np.arange(1, N + 1) * 1000
        table.to_csv(tmp_path / f"{name}.csv", index=False, sep=";", decimal=",")
    task = opened(tmp_path)
    assert task.columns.of_kind("decimal comma") == ("a", "b", "c", "big")
    np.testing.assert_array_equal(task.public_rows()[["a", "b", "c"]], rows(1)[["a", "b", "c"]])
    assert task.understood(public_rows=N).facts["Numbers with a decimal comma"] == "a, b, c, big"


def test_commas_that_may_be_of_both_sorts_are_decided_by_other_columns() -> None:
    either = [f"{whole},{part:03d}" for whole, part in zip(range(1, 301), range(100, 400), strict=True)]
    alone = Columns.of(pd.DataFrame({"x": either, "y": [1.0, 2.0] * 150}))
    assert (alone.kinds["x"], alone.notes["x"]) == ("left out", FREE_TEXT + EITHER)
    beside = Columns.of(pd.DataFrame({"x": either, "y": ["0,5", "1,75"] * 150}))
    assert beside.kinds == {"x": "decimal comma", "y": "decimal comma"}
    assert beside.apply(pd.DataFrame({"x": ["1,234"], "y": ["1.234,5"]})).iloc[0].tolist() == [1.234, 1234.5]


def test_a_few_words_among_numbers_are_missing_values() -> None:
    age = [str(place % 60) for place in range(95)] + ["unknown"] * 5
    comma = [f"{place % 60},5" for place in range(95)] + ["unknown"] * 5
    day = [f"20{place:02d}-01-01" for place in range(95)] + ["never"] * 5
    deck = ["1", "2", "3"] * 31 + ["crew"] * 7  # mostly numbers, yet few different ones
    half = [str(place) for place in range(50)] + ["unknown"] * 50
    columns = Columns.of(pd.DataFrame({"age": age, "comma": comma, "day": day, "deck": deck, "half": half}))
    assert columns.kinds == {
        "age": "number",
        "comma": "decimal comma",
        "day": "date",
        "deck": "category",
        "half": "category",
    }
    assert columns.notes["age"] == "5.0% of its public cells, such as 'unknown', count as missing"
    assert columns.notes.keys() == {"age", "comma", "day"}
    table = pd.DataFrame({"age": age, "comma": comma, "day": day, "deck": deck, "half": half})
    assert columns.apply(table)[["age", "comma", "day"]].isna().sum().tolist() == [5, 5, 5]


def test_what_is_left_out_has_its_reason() -> None:
    table = pd.DataFrame(
        {
            "x": [place % 7 for place in range(300)],
            "name": [f"person {place}" for place in range(300)],
            "here": ["yes"] * 300,
            "no": [None] * 300,
        }
    )
    assert Columns.of(table).notes == {"name": FREE_TEXT, "here": CONSTANT, "no": EMPTY}
    with pytest.raises(InvalidInput, match=f"here is {CONSTANT}; no is {EMPTY}"):
        Columns.of(table[["here", "no"]])


COMMA_CELLS = [
    "1,5",
    "1.234,5",
    "-0,25",
    ",5",
    "7",
    "1,",
    "1.5",
    "12.34,5",
    "1,2,3",
    "1,5e3",
    " 2,5 ",
    "x",
    "",
    None,
    2.5,
]


def test_the_released_student_reads_decimal_commas_as_the_run_does() -> None:
    columns = Columns({"c": "decimal comma"})
    read = [columns.apply(pd.DataFrame({"c": [cell]}, dtype=object))["c"].iloc[0] for cell in COMMA_CELLS]
    np.testing.assert_array_equal(read, [read_comma_number(cell) for cell in COMMA_CELLS])
    assert np.isfinite(read).sum() == 9


def test_quotes_are_read_alike_in_all_files(folder: Path) -> None:
    label = {"yes": "-1", "no": "1"}
    plain = rows(1).assign(ill=rows(1)["ill"].map(label))
    plain.to_csv(folder / "public.csv", index=False)
    quoted = rows(0).assign(ill=rows(0)["ill"].map(lambda word: f"'{label[word]}'"), city="'Ulm'")
    quoted.assign(a=[f'"{cell}"' for cell in quoted["a"]]).to_csv(folder / "private.csv", index=False, quoting=3)
    task = opened(folder)
    assert task.classes == ("-1", "1")
    private = task.columns.apply(task.private.read())
    assert set(private["city"]) == {"Ulm"}
    np.testing.assert_array_equal(private["a"], rows(0)["a"])
    assert read_word("'Ulm'", {"Ulm"}) == "Ulm"
    assert read_number("'7.5'") == 7.5


@pytest.mark.parametrize(("place", "other"), [("private", "public"), ("public", "private")])
def test_utf_16_and_another_delimiter_are_named(folder: Path, place: str, other: str) -> None:
    rows(2).to_csv(folder / f"{place}.csv", index=False, encoding="utf-16")
    with pytest.raises(InvalidInput, match=f"{place}.csv is UTF-16 text; save it as UTF-8"):
        opened(folder)
    rows(2).to_csv(folder / f"{place}.csv", index=False, sep=";")
    with pytest.raises(InvalidInput, match=r"separates its columns by '[,;]', the public table .* by '[,;]'"):
        opened(folder)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("private", {"b": "word"}, "column 'b' of the private table .* must hold numbers as in the public table"),
        (
            "public",
            {"b": "word"},
            "column 'b' of the private table .* must hold words .* most of its cells are numbers",
        ),
        ("test", {"b": "word"}, "column 'b' of the test table .* must hold numbers"),
    ],
)
def test_a_column_of_another_kind_is_refused(folder: Path, name: str, change: dict[str, str], sentence: str) -> None:
    table = rows(5)
    words = [f"{word}{place % 5}" for word in change.values() for place in range(N)]
    table.assign(**dict.fromkeys(change, words)).to_csv(folder / f"{name}.csv", index=False)
    with pytest.raises(InvalidInput, match=sentence):
        opened(folder, test=folder / "test.csv" if name == "test" else None)


def test_one_odd_cell_is_not_refused(folder: Path) -> None:
    table = rows(0).astype({"b": object})
    table.loc[3, "b"] = "?!"
    table.to_csv(folder / "private.csv", index=False)
    task = opened(folder)
    assert task.columns.apply(task.private.read())["b"].isna().sum() == 1


def test_a_quantity_is_no_list_of_classes(folder: Path) -> None:
    for target in (rows(0)["a"], np.arange(N)):
        rows(0).assign(ill=target).to_csv(folder / "private.csv", index=False)
        rows(1).drop(columns="ill").to_csv(folder / "public.csv", index=False)
        with pytest.raises(InvalidInput, match=r"The target 'ill' has \d+ different values: for a quantity give"):
            opened(folder, classes="from-private")
    ages = rows(0).assign(ill=np.arange(N) % 60)
    ages.to_csv(folder / "private.csv", index=False)
    (warning,) = opened(folder, classes="from-private").understood(public_rows=N).warnings
    assert "'ill' has 60 different numbers: it may be a quantity" in warning


def test_small_and_lacking_tables_are_named(folder: Path) -> None:
    rows(1)[:2].to_csv(folder / "two.csv", index=False)
    with pytest.raises(InvalidInput, match=r"two.csv has 2 rows; at least 5 are needed"):
        opened(folder, public="two")
    rows(1).assign(ill="yes").to_csv(folder / "one.csv", index=False)
    with pytest.raises(InvalidInput, match=r"'ill' has one label alone, 'yes', in the public table"):
        opened(folder, public="one")
    rows(0).drop(columns="b").to_csv(folder / "less.csv", index=False)
    with pytest.raises(InvalidInput, match=r"less.csv does not fit the public one: it has no column 'b'.* --drop b "):
        opened(folder, private="less")


@pytest.mark.slow
def test_many_names_are_counted_and_many_losses_are_said_loudly(tmp_path: Path) -> None:
    for seed, name in enumerate(["private", "public"]):
        wide = rows(seed).drop(columns=["b", "c", "city"])
        wide = wide.assign(**{f"n{place}": [f"{seed} {place} {row}" for row in range(N)] for place in range(30)})
        wide.to_csv(tmp_path / f"{name}.csv", index=False)
    understood = opened(tmp_path).understood(public_rows=N)
    assert f"and {30 - SHOWN} more: {FREE_TEXT}" in understood.facts["Not used"]
    assert understood.warnings[0].startswith("30 of 31 columns are not used")


def test_nothing_said_depends_on_private_cells(folder: Path) -> None:
    before = opened(folder).understood(public_rows=N)
    odd = rows(7).assign(city="elsewhere", a=1e9)
    odd.to_csv(folder / "private.csv", index=False)
    assert opened(folder).understood(public_rows=N) == before
