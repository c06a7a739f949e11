"""Numbers and dates as people write them, identifiers, dropped columns and files that are no tables."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.classes import refuse_quantity
from ostrakon.data.columns import (
    DAY_FIRST,
    DIGITS,
    EITHER_ORDER,
    FREE_TEXT,
    IDENTIFIER,
    MONTH_FIRST,
    NUMBERED,
    Columns,
)
from ostrakon.data.outside_range import outside_table
from ostrakon.data.sources import open_table
from ostrakon.data.task import open_task
from ostrakon.data.understood import understood_table
from ostrakon.export.loader import read_amount, read_comma_number, read_day_first, read_digits, read_month_first
from ostrakon.export.row_form import RowForm
from ostrakon.service.request_queue import require_readable
from ostrakon.validation import InvalidInput

N = 400
OPTIONS = {"target": "ill", "classes": ["no", "yes"]}


def rows(seed: int, n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.normal(size=n).round(4), "city": rng.choice(["Ulm", "Bonn"], n)})
    return table.assign(ill=np.where(table["a"] > 0, "yes", "no"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows(0).to_csv(tmp_path / "private.csv", index=False)
    rows(1).drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def files(folder: Path) -> tuple[Path, Path]:
    return folder / "private.csv", folder / "public.csv"


def kinds(**columns: list[str]) -> dict[str, str]:
    n = max(map(len, columns.values()))
    table = {name: (cells * n)[:n] for name, cells in columns.items()}
    return dict(Columns.of(pd.DataFrame(table | {"x": np.arange(n) % 3})).kinds)


def test_amounts_and_dates_are_understood_from_public_cells_alone(folder: Path) -> None:
    rng = np.random.default_rng(2)
    paid = rng.lognormal(8, 1, N).round(2)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, N), unit="D")
    moment = day + pd.to_timedelta(rng.integers(0, 1440, N), unit="m")
    written = rows(1).assign(
        paid=[f"${x:,.2f}" for x in paid],
        day=day.strftime("%d/%m/%Y"),
        moment=[f"{x.month}/{x.day}/{x.year} {x.hour}:{x.minute:02d}" for x in moment],
        half=moment.strftime("%m/%d/%Y %I:%M %p"),
    )
    written.to_csv(folder / "public.csv", index=False)
    written[::-1].assign(a=written["a"] + 1).to_csv(folder / "private.csv", index=False)
    task = open_task(*files(folder), target="ill", allow_shared_rows=True)
    assert task.columns.kinds == {
        "a": "number",
        "city": "category",
        "paid": "amount",
        "day": DAY_FIRST,
        "moment": MONTH_FIRST,
        "half": MONTH_FIRST,
    }
    read = task.public_rows()
    np.testing.assert_array_equal(read["paid"], paid)
    days = (day - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
    minutes = (moment - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
    np.testing.assert_array_equal(read["day"], days)
    for name in ("moment", "half"):
        np.testing.assert_allclose(read[name], minutes, rtol=0, atol=1e-9)
    facts = task.understood(public_rows=N).facts
    assert facts["Numbers with currency or percent signs, or commas between thousands"] == "paid"
    assert facts["Dates (day first)"] == "day"
    assert facts["Dates (month first)"] == "moment, half"
    # What a recipient reads, and the example that the card shows, are in the same form.
    form = RowForm.of(read, kinds=task.columns.kinds)
    raw = written[list(task.columns.kept)].iloc[0].to_dict()
    assert form.read([raw]).iloc[0].to_dict() == read.iloc[0].to_dict()
    assert np.isfinite(form.read([form.example])[["paid", "day", "moment"]].to_numpy(float)).all()


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["$5", "$12", "-$7"], "amount"),
        (["1,234.50", "7"], "amount"),
        (["$1,234", "$999"], "amount"),
        (["1,234,567", "12"], "amount"),
        (["12.5%", "3%"], "amount"),
        (["1.234,50 €", "7,5 €"], "decimal comma"),
        (["0,5", "1.234,5"], "decimal comma"),
        (["31/12/2024", "1/1/2024"], DAY_FIRST),
        (["31.12.2024", "1.1.2024"], DAY_FIRST),
        (["1.2.2024", "3.4.2024"], DAY_FIRST),
        (["12-31-2024", "1-1-2024"], MONTH_FIRST),
        (["3/14/2025 1:20", "3/1/2025 23:59:01"], MONTH_FIRST),
        (["14/3/2025", "3/14/2025"], "category"),
        (["03-Feb-2021", "28-feb-2021"], DAY_FIRST),
        (["3 March 2021", "1 May 2020 13:05"], DAY_FIRST),
        (["03-Feb-2021", "03-02-2021"], "category"),
        (["2024-12-31", "2024-01-01"], "date"),
        (["20241231", "19000101", "21001231"], DIGITS),
        ([20241231, 20240101, None], DIGITS),
        (["20241231", "20241301"], "number"),
        (["18991231", "20241231"], "number"),
        (["20240230", "20240231"], "number"),
    ],
)
def test_one_rule_says_what_a_column_is(cells, kind) -> None:
    assert kinds(c=cells)["c"] == kind


def test_a_quantity_with_a_unit_is_left_out_with_what_to_do() -> None:
    cells = [f"{number}.5 kg" for number in range(400)]
    columns = Columns.of(pd.DataFrame({"mass": cells, "x": np.arange(400) % 3}))
    assert columns.left_out == ("mass",)
    assert "'0.5 kg', write the number alone and the unit" in columns.notes["mass"]


@pytest.mark.parametrize(
    ("form", "noted"),
    [("{}.7 kg", True), ("{} mm", True), ("{}min", True), ("Film {}", False), ("B{}", False), ("{}", False)],
)
def test_few_quantities_with_a_unit_are_categories_with_a_note(form, noted) -> None:
    cells = [form.format(100 + row % 30) for row in range(400)]
    columns = Columns.of(
        pd.DataFrame({"mass": cells, "street": [f"{row % 30} {'abc'[row % 3]}" for row in range(400)]})
    )
    assert columns.kinds["mass"] == ("number" if form == "{}" else "category")
    assert ("write the number alone and the unit in the header" in columns.notes.get("mass", "")) == noted
    assert "street" not in columns.notes
    facts = understood_table(columns, target="y", classes=["0", "1"], classes_from="", by=None, public_rows=400).facts
    assert ("Read as text" in facts) == noted
    assert "Read as missing" not in facts


def test_what_may_be_of_both_sorts_is_decided_by_other_columns() -> None:
    either = [f"{day}/{month}/20{year}" for day in range(1, 13) for month in range(1, 13) for year in range(20, 24)]
    alone = Columns.of(pd.DataFrame({"day": either, "x": np.arange(len(either)) % 3}))
    assert (alone.kinds["day"], alone.notes["day"]) == ("left out", FREE_TEXT + EITHER_ORDER)
    assert kinds(day=either, other=["13/1/2024", "1/1/2024"])["day"] == DAY_FIRST
    assert kinds(day=either, other=["1/13/2024", "1/1/2024"])["day"] == MONTH_FIRST
    assert kinds(day=either, one=["13/1/2024", "1/1/2024"], two=["1/13/2024", "1/1/2024"])["day"] == "left out"
    thousands = [f"{number},{number:03d}" for number in range(1, 400)]
    assert kinds(sum=thousands)["sum"] == "left out"
    assert kinds(sum=thousands, other=["$1,234.50", "$2"])["sum"] == "amount"
    assert kinds(sum=thousands, other=["0,5", "1"])["sum"] == "decimal comma"


AMOUNTS = ["$1,234.50", "-$7", "1,234,567", "12%", "£ 3", " $2.5 ", "1,23", "1.234,5", "$", "five", "", "1e3", "$1e400"]
DATES = [
    *("31/12/2024", "12/31/2024", "1.2.2024", "1-2-2024 3:04", "1/2/2024 13:04:05", "1/2/2024 1:04 PM"),
    *("1/2/2024 12:00 am", "1/2/2024 13:00 PM", "1/2/2024 25:00", "30/2/2024", "1/2-2024", "1/2/24", "2024-01-02"),
    *("20241231", "20241231.0", " 19000101", "20240230", "20241301", "18991231", "21010101", "2024123", "120241231"),
    *("never", "", " 1/2/2024 ", "03-Feb-2021", "3 MARCH 2021 1:04 PM", "30-Feb-2021", "3-Foo-2021", "3-Feb.2021"),
]


@pytest.mark.parametrize(
    ("kind", "cells", "reader", "readable"),
    [
        ("amount", AMOUNTS, read_amount, 7),
        ("decimal comma", AMOUNTS, read_comma_number, 6),
        (DAY_FIRST, DATES, read_day_first, 9),
        (MONTH_FIRST, DATES, read_month_first, 7),
        (DIGITS, [*DATES, 20241231, 20241231.0, 20241231.5, 1e300, True], read_digits, 5),
    ],
)
def test_each_cell_is_read_alone_and_by_the_released_student_alike(kind, cells, reader, readable) -> None:
    columns = Columns({"c": kind})
    together = columns.apply(pd.DataFrame({"c": [*cells, None]}, dtype=object))["c"]
    alone = [columns.apply(pd.DataFrame({"c": [cell]}, dtype=object))["c"].iloc[0] for cell in cells]
    np.testing.assert_array_equal(together[:-1], alone)
    np.testing.assert_array_equal(alone, [reader(cell) for cell in cells])
    assert np.isfinite(alone).sum() == readable


def test_the_service_says_what_such_a_cell_must_be() -> None:
    require_readable([{"c": "$1,234.50"}], [{"name": "c", "kind": "amount"}])
    for cell in (20241231, "20241231"):
        require_readable([{"c": cell}], [{"name": "c", "kind": DIGITS}])
    with pytest.raises(InvalidInput, match="c must be a date such as 20241231 or null, got 20241301"):
        require_readable([{"c": 20241301}], [{"name": "c", "kind": DIGITS}])
    with pytest.raises(InvalidInput, match="c must be a date such as 31/12/2024 or null, got '12/31/2024'"):
        require_readable([{"c": "12/31/2024"}], [{"name": "c", "kind": DAY_FIRST}])


def test_ordinary_numbers_of_eight_digits_are_no_dates() -> None:
    rng = np.random.default_rng(0)
    for numbers in (rng.integers(19_000_101, 21_001_232, N), 20_210_001 + np.arange(N), 20_000_000 + np.arange(N)):
        for cells in (numbers, numbers.astype(str), numbers.astype(float)):
            assert Columns.of(pd.DataFrame({"paid": cells, "x": np.arange(N) % 3})).kinds["paid"] == "number"


@pytest.mark.parametrize("stored", ["csv", "parquet"])
def test_dates_of_eight_digits_are_read_on_the_command_line(folder: Path, stored: str) -> None:
    rng = np.random.default_rng(2)
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 700, N), unit="D")
    numbers = pd.Series(day.strftime("%Y%m%d").astype(int))
    # A sign for a missing date, which is no date, and a private column of floats, since one cell of it is missing.
    public = rows(1).assign(day=numbers.where(np.arange(N) > 0, 99999999)).drop(columns="ill")
    private = rows(0).assign(day=(numbers + 10_000).where(np.arange(N) > 0))
    names = [folder / f"{name}.{stored}" for name in ("private", "public")]
    for frame, name in zip((private, public), names, strict=True):
        frame.to_csv(name, index=False) if stored == "csv" else frame.to_parquet(name)
    task = open_task(*names, **OPTIONS)
    assert task.columns.kinds["day"] == DIGITS
    days = ((day - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)).to_numpy()
    np.testing.assert_array_equal(task.public_rows()["day"][1:], days[1:])
    facts = task.understood(public_rows=N).facts
    assert facts["Dates (eight digits, such as 20241231)"] == "day"
    assert "99999999" in facts["Read as missing"]
    beyond = outside_table(task.private, task.columns, task.public_rows())["day"]
    # A year later: beyond the public range from its last day on.
    assert abs(beyond - (days + 366 > days.max() + 1).mean()) < 0.05
    words = private.assign(day="soon")
    words.to_csv(names[0], index=False) if stored == "csv" else words.to_parquet(names[0])
    with pytest.raises(InvalidInput, match="must hold dates of eight digits \\(20241231\\) as in the public table"):
        open_task(*names, **OPTIONS)


@pytest.mark.parametrize(("private", "sentence"), [("2024-12-31", "dates with the day first"), ("12/31/2024", None)])
def test_dates_of_another_form_are_refused(folder: Path, private: str, sentence: str | None) -> None:
    days = [f"{1 + place % 28}/{1 + place % 12}/2024" for place in range(N)]
    rows(1).assign(day=days).to_csv(folder / "public.csv", index=False)
    rows(0).assign(day=private).to_csv(folder / "private.csv", index=False)
    if sentence is None:  # the order of private dates is not looked at: such cells count as missing
        assert open_task(*files(folder), target="ill").columns.kinds["day"] == DAY_FIRST
        return
    with pytest.raises(InvalidInput, match=f"column 'day' of the private table .* must hold {sentence}"):
        open_task(*files(folder), target="ill")


def test_private_cells_that_are_not_read_are_told_on_the_terminal(folder: Path) -> None:
    private = rows(0)
    private.loc[:99, "a"] = None
    for lost, words in ((90, "30% of 'a' (numbers)"), (9, None)):
        private.assign(a=private["a"].astype(object).mask(private.index >= N - lost, "high")).to_csv(
            folder / "private.csv", index=False
        )
        said = open_task(*files(folder), **OPTIONS).unread
        assert (said is None) if words is None else words in str(said)


@pytest.mark.parametrize(
    "name", ["id", "customer_id", "PassengerId", "Loan ID", "ssn", "RowNumber", "Fall-Nr.", "Fallnummer"]
)
def test_whole_numbers_that_name_the_rows_are_left_out_with_a_hint(name: str) -> None:
    numbers = np.random.default_rng(0).permutation(10**6)[:N]
    for cells in (numbers, numbers.astype(str)):
        found = Columns.of(pd.DataFrame({name: cells, "x": np.arange(N) % 7}))
        assert (found.kinds[name], found.notes[name]) == ("left out", IDENTIFIER)
    assert "--by" in IDENTIFIER


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("income", np.random.default_rng(0).permutation(10**6)[:N]),  # by no name of an identifier
        ("customer_id", np.arange(N) % 200),  # not one for each row
        ("id", np.random.default_rng(0).normal(size=N)),
        ("paid", np.arange(N) + 7),
    ],
)
def test_quantities_stay(name: str, cells: np.ndarray) -> None:
    assert Columns.of(pd.DataFrame({name: cells, "x": np.arange(N) % 7})).kinds[name] == "number"


def test_row_numbers_are_left_out() -> None:
    found = Columns.of(pd.DataFrame({"first": np.arange(N), "second": np.arange(N) + 1.0, "x": np.arange(N) % 7}))
    assert found.notes == {"first": NUMBERED, "second": NUMBERED}


def test_columns_are_dropped_by_name(folder: Path) -> None:
    rows(0).assign(note="secret").to_csv(folder / "private.csv", index=False)
    with pytest.raises(InvalidInput, match=r"has no column 'note' .* --drop note leaves out what it lacks"):
        open_task(*files(folder), **OPTIONS)
    rows(1).assign(note="x", more=1, less=2).to_csv(folder / "wide.csv", index=False)
    with pytest.raises(
        InvalidInput, match=r"private\.csv does not fit the public one.* 'more' \(2 of .*--drop more,less "
    ):
        open_task(folder / "private.csv", folder / "wide.csv", **OPTIONS)
    wide = open_task(folder / "private.csv", folder / "wide.csv", **OPTIONS, drop=["more", "less", "note"])
    assert wide.columns.kept == open_task(*files(folder), **OPTIONS, drop=["note"]).columns.kept
    rows(1)[["ill"]].to_csv(folder / "bare.csv", index=False)
    with pytest.raises(InvalidInput, match=r"3 of 3 that are needed are missing\)\.$"):
        open_task(folder / "private.csv", folder / "bare.csv", **OPTIONS)
    assert open_task(*files(folder), **OPTIONS, drop=["note", "city"]).columns.kept == ("a",)
    with pytest.raises(InvalidInput, match=r"which have none named 'nots'\. Did you mean 'note'"):
        open_task(*files(folder), **OPTIONS, drop=["nots"])
    with pytest.raises(InvalidInput, match="drop must not name the target"):
        open_task(*files(folder), **OPTIONS, drop=["ill"])
    assert not open_task(*files(folder), **OPTIONS, drop=["note"]).understood(public_rows=N).warnings


def test_an_embedding_is_dropped_whole(tmp_path: Path) -> None:
    for seed, name in enumerate(["private", "public"]):
        lists = [list(row) for row in np.random.default_rng(seed).normal(size=(N, 3))]
        rows(seed).assign(e=lists).to_parquet(tmp_path / f"{name}.parquet")
    task = open_task(tmp_path / "private.parquet", tmp_path / "public.parquet", target="ill", drop=["e"])
    assert task.columns.kept == ("a", "city")


def test_words_that_differ_in_capitals_alone_are_pointed_out(folder: Path) -> None:
    public = rows(1).assign(city=["Ulm", "ulm", "Bonn", "B onn"] * (N // 4)).drop(columns="ill")
    public.to_csv(folder / "public.csv", index=False)
    task = open_task(*files(folder), target="ill", classes=["no", "yes", "No"])
    assert [warning.partition("; make")[0] for warning in task.understood(public_rows=N).warnings] == [
        "The classes 'No', 'no' differ only in capitals, spaces, commas or signs such as $",
        "The categories 'Ulm', 'ulm'; 'B onn', 'Bonn' of 'city' differ "
        "only in capitals, spaces, commas or signs such as $",
    ]
    with pytest.raises(InvalidInput, match=r"the label of .* \(a label differs from 'No' only in capitals, spaces"):
        open_task(*files(folder), target="ill", classes=["No", "yes"])
    private = pd.read_csv(folder / "private.csv")
    private["ill"] = np.where(np.arange(len(private)) % 2, private["ill"], private["ill"].str.upper())
    private.to_csv(folder / "private.csv", index=False)
    with pytest.raises(InvalidInput, match=r"such as \$: 'NO', 'no'; 'YES', 'yes'\. Make the spellings the same"):
        open_task(*files(folder), target="ill")


def test_equal_columns_and_numbers_in_two_forms_are_pointed_out(folder: Path) -> None:
    for seed, name in enumerate(["private", "public"]):
        table = rows(seed).assign(
            town=lambda made: made["city"],
            again=lambda made: [f"{x:.4f}" for x in made["a"]],
            size=np.random.default_rng(seed).choice(["1280", "1,280", "2 m"], N),
        )
        table.to_csv(folder / f"{name}.csv", index=False)
    warnings = open_task(*files(folder), target="ill").understood(public_rows=N).warnings
    assert [warning.partition("; ")[0] for warning in warnings] == [
        "The columns 'a', 'again' are equal in every public row",
        "The columns 'city', 'town' are equal in every public row",
        "The categories '1,280', '1280' of 'size' differ only in capitals, spaces, commas or signs such as $",
    ]


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        (50 * np.arange(39), True),  # prices
        (np.arange(39), False),  # classes by number
        (np.arange(18, 60), False),  # warned of when more
        (np.arange(30) / 2, True),
        (np.arange(201), True),
        (np.arange(10) * 100, False),
        ([*range(39), "other"], False),
    ],
)
def test_numbers_with_gaps_are_asked_about(labels, refused) -> None:
    if not refused:
        refuse_quantity(list(labels), "target 'price'")
        return
    with pytest.raises(InvalidInput, match=r"'price' has \d+ different values: for a quantity .* --classes"):
        refuse_quantity(list(labels), "target 'price'")


def test_a_header_with_a_name_twice_is_refused(folder: Path) -> None:
    table = (folder / "public.csv").read_text().splitlines()
    (folder / "public.csv").write_text("\n".join(["a,city,a", *(f"{line},1" for line in table[1:])]) + "\n")
    with pytest.raises(InvalidInput, match=r"public.csv has more than one column named 'a'; remove or rename one"):
        open_task(*files(folder), **OPTIONS)
    named = pd.DataFrame({"a": [1.0, 2.0], "a_1": [3.0, 4.0]})
    named.to_csv(folder / "named.csv", index=False)
    assert open_table(folder / "named.csv").columns == ("a", "a_1")


@pytest.mark.parametrize("place", ["private", "public"])
@pytest.mark.parametrize("cells", ["1.5,Ulm,no,extra", "1.5"])
@pytest.mark.parametrize("at", [3, 300, 15_000])
def test_a_line_with_another_number_of_cells_is_named(folder: Path, place: str, cells: str, at: int) -> None:
    for name in ("private", "public"):
        table = rows(3, 16_000) if name == "private" else rows(4, 16_000).drop(columns="ill")
        table.to_csv(folder / f"{name}.csv", index=False)
    lines = (folder / f"{place}.csv").read_text().splitlines()
    lines[at - 1] = cells if place == "private" or cells.count(",") == 0 else cells.removesuffix(",extra")
    (folder / f"{place}.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InvalidInput, match=rf"{place}.csv .* line {at}\b"):
        open_task(*files(folder), **OPTIONS).private.rows()


def test_lines_above_a_table_are_no_ragged_rows(folder: Path) -> None:
    table = (folder / "public.csv").read_text()
    (folder / "above.csv").write_text(f"# made on Monday\n\n{table}")
    assert open_table(folder / "above.csv").columns == ("a", "city")


def test_other_formats_are_named(tmp_path: Path) -> None:
    rows(0).to_csv(tmp_path / "t.csv", index=False)
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.write(tmp_path / "t.csv")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    (tmp_path / "t.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500))
    rows(0).to_feather(tmp_path / "t.feather")
    records = rows(0).to_dict("records")
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "lines.csv").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "t.json").write_text(json.dumps(records))
    told = {
        "t.zip": "a zip archive; unpack it",
        "t.xlsx": "an Excel workbook; save the sheet as CSV",
        "t.xls": "an Excel workbook; save the sheet as CSV",
        "t.feather": r"a Feather \(Arrow\) file; save it as Parquet",
        **dict.fromkeys(["t.jsonl", "lines.csv", "t.json"], "JSON; save it as CSV or Parquet"),
    }
    for name, sentence in told.items():
        with pytest.raises(InvalidInput, match=f"{name} is {sentence}"):
            open_table(tmp_path / name)
