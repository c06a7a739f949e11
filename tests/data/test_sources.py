"""Tables are read as they are, and refused in one sentence where they cannot be."""

import gzip
import signal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostrakon.data.partition import assign_teachers
from ostrakon.data.queries import asking
from ostrakon.data.sharding import partition_table
from ostrakon.data.sources import open_table
from ostrakon.data.table import same_content
from ostrakon.data.table_files import digest_of_file
from ostrakon.run.inputs.files import task_from_files
from ostrakon.validation import InvalidInput

ADULT_ROWS = """39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K
50, ?, 83311, Bachelors, 13, Married-civ-spouse, Exec-managerial, Husband, White, Male, 0, 0, 13, United-States, >50K

"""  # noqa: E501


def write(path, text: str):
    path.write_text(text)
    return path


def test_header_separator_quotes_and_missing_values(tmp_path) -> None:
    table = open_table(write(tmp_path / "t.csv", 'a;b;c\n1;"x; y";?\n 2 ; ;NA\n'))
    assert (table.columns, table.header, table.rows()) == (("a", "b", "c"), True, 2)
    frame = table.read()
    assert frame["a"].tolist() == ["1", "2"]
    assert frame["b"].isna().tolist() == [False, True]
    assert frame["b"][0] == "x; y"
    assert frame["c"].isna().all()


def test_quotes_below_the_rows_that_were_looked_at(tmp_path) -> None:
    table = open_table(write(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 50_000 + '"x, ""y""",3\n'))
    assert table.read().iloc[-1].tolist() == ['x, "y"', "3"]


def test_adult_without_header_is_known_by_its_name(tmp_path) -> None:
    file = tmp_path / "adult.data.gz"
    file.write_bytes(gzip.compress(ADULT_ROWS.encode()))
    table = open_table(file)
    assert table.columns[0] == "age"
    assert table.column("income") == table.column(-1) == table.column("14") == "income"
    assert (table.rows(), table.named, table.header) == (2, True, False)
    assert table.label_counts("income") == {"<=50K": 1, ">50K": 1}
    assert table.read(["workclass"])["workclass"].isna().tolist() == [False, True]


@pytest.mark.parametrize("how", ["list", "text", "file", "uci", "beside", "known"])
def test_names_for_tables_without_header(tmp_path, how: str) -> None:
    file = write(tmp_path / "people.csv", ADULT_ROWS)
    names = list(open_table(write(tmp_path / "adult.csv", ADULT_ROWS)).columns)
    described = "| comment\n\n>50K, <=50K.\n\n" + "".join(f"{name}: continuous.\n" for name in names[:-1])
    given = {
        "list": names,
        "text": ",".join(names),
        "file": str(write(tmp_path / "names.txt", "\n".join(names))),
        "uci": str(write(tmp_path / "other.names", described)),
        "beside": None,
        "known": "adult",
    }[how]
    if how == "beside":
        write(tmp_path / "people.names", described)
    assert list(open_table(file, names=given).columns) == names


def test_without_names_columns_have_positions(tmp_path) -> None:
    table = open_table(write(tmp_path / "t.csv", "1,2,x\n3,4,y\n"))
    assert table.columns == ("column0", "column1", "column2")
    assert not table.named
    assert table.column(-1) == table.column("2") == "column2"
    with pytest.raises(InvalidInput, match=r"no header: give --names"):
        table.column("income")


def test_the_header_can_be_told(tmp_path) -> None:
    file = write(tmp_path / "t.csv", "x,y\nu,v\nw,z\n")
    assert open_table(file, header=False).rows() == 3
    assert open_table(file, header=True).columns == ("x", "y")


def test_parquet_files_and_folders(tmp_path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "label": [1.0, np.nan]})
    frame.to_parquet(tmp_path / "one.parquet")
    (tmp_path / "many").mkdir()
    for part in range(3):
        frame.to_parquet(tmp_path / "many" / f"{part}.parquet")
    assert open_table(tmp_path / "one.parquet").label_counts("label") == {"1": 1, None: 1}
    assert open_table(tmp_path / "many").rows() == 6
    assert open_table(tmp_path / "one.parquet").read()["a"].tolist() == [1, 2]


def test_spaces_around_names_do_not_count(tmp_path) -> None:
    assert open_table(write(tmp_path / "t.csv", "a, b ,c\n1, 2,x\n")).columns == ("a", "b", "c")


def test_a_line_before_the_rows_is_left_out(tmp_path) -> None:
    rows = "".join(ADULT_ROWS.splitlines(keepends=True)[:2]) * 30
    table = open_table(write(tmp_path / "adult.test", "|1x3 Cross validator\n" + rows))
    assert (table.rows(), table.columns[0]) == (60, "age")


def test_labels_are_one_text_for_one_value(tmp_path) -> None:
    table = open_table(write(tmp_path / "t.csv", "a,b\n1,7\n2,7.0\n3, 7 \n4,-3.00\n5,x.0\n6,\n"))
    assert table.labels("b").tolist() == ["7", "7", "7", "-3", "x.0", None]
    pd.DataFrame({"b": [7, 8]}).to_parquet(tmp_path / "i.parquet")
    pd.DataFrame({"b": [7.0, 8.5]}).to_parquet(tmp_path / "f.parquet")
    pd.DataFrame({"b": [True, False]}).to_parquet(tmp_path / "b.parquet")
    assert open_table(tmp_path / "i.parquet").labels("b").tolist() == ["7", "8"]
    assert open_table(tmp_path / "f.parquet").labels("b").tolist() == ["7", "8.5"]
    assert open_table(tmp_path / "b.parquet").labels("b").tolist() == ["true", "false"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"a,b\n", "has no rows"),
        ("latin.csv", "a,b\né,2\nö,3\n".encode("latin1"), "not UTF-8"),
        ("bytes.csv", bytes(range(256)) * 40, "cannot be read"),
        (
            "late.csv",
            b"a,b\n" + b"1,2\n" * 50_000 + b"1,2,3\n",
            "different numbers of cells, 2 expected, 3 found in line 50002",
        ),
        ("text.csv.gz", b"a,b\n1,2\n", "cannot be read"),
        ("cut.csv.gz", gzip.compress(np.random.default_rng(0).bytes(9000).hex().encode())[:4000], "cannot be read"),
        ("cut.parquet", b"PAR1 and then nothing", "cannot be read"),
        ("none.parquet", None, "has no rows"),
    ],
)
def test_unreadable_files_are_refused_in_one_sentence(tmp_path, name: str, content: bytes | None, sentence) -> None:
    file = tmp_path / name
    if content is None:
        pd.DataFrame({"a": pd.Series([], dtype=float)}).to_parquet(file)
    else:
        file.write_bytes(content)
    with pytest.raises(InvalidInput, match=sentence) as caught:
        open_table(file).read()
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
    assert "1,2,3" not in str(caught.value)


def test_absent_files_wrong_columns_and_wrong_names(tmp_path) -> None:
    with pytest.raises(InvalidInput, match="There is no file"):
        open_table(tmp_path / "nowhere.csv")
    with pytest.raises(InvalidInput, match="or a folder of them; there is none"):
        open_table(tmp_path)
    file = write(tmp_path / "t.csv", "a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="3 names were given"):
        open_table(file, names="x,y,z")
    with pytest.raises(InvalidInput, match="more than one column named"):
        open_table(file, names="x,X")
    for which in ("c", 2, -3, "2", True):
        with pytest.raises(InvalidInput, match="whose 2 columns are, nearest first, a, b"):
            open_table(file).column(which)


def test_blank_lines_are_no_rows(tmp_path) -> None:
    with pytest.raises(InvalidInput, match="has no rows"):
        open_table(write(tmp_path / "blank.csv", "\n\n")).read()


def test_equal_content_is_seen_through_links_and_copies(tmp_path) -> None:
    one = write(tmp_path / "one.csv", "a,b\n1,2\n")
    copy, other = write(tmp_path / "copy.csv", "a,b\n1,2\n"), write(tmp_path / "other.csv", "a,b\n1,3\n")
    link = tmp_path / "link.csv"
    link.symlink_to(one)
    assert same_content(open_table(one), open_table(copy), ["a", "b"])
    assert same_content(open_table(one), open_table(link), ["a", "b"])
    assert not same_content(open_table(one), open_table(other), ["a", "b"])
    assert same_content(open_table(one), open_table(other), ["a"])
    assert digest_of_file(one) == digest_of_file(copy) != digest_of_file(one, key=b"secret")


def test_equal_rows_are_seen_in_another_order_and_format(tmp_path) -> None:
    one = open_table(write(tmp_path / "one.csv", "a,b\n1,x\n2,y\n2,y\n"))
    pd.DataFrame({"b": ["y", "x", "y"], "a": [2, 1, 2]}).to_parquet(tmp_path / "other.parquet")
    pd.DataFrame({"b": ["y", "x", "x"], "a": [2, 1, 1]}).to_parquet(tmp_path / "less.parquet")
    assert same_content(one, open_table(tmp_path / "other.parquet"), ["a", "b"])
    assert not same_content(one, open_table(tmp_path / "less.parquet"), ["a", "b"])


@pytest.mark.slow
def test_hundreds_of_columns_are_read_in_seconds(tmp_path) -> None:
    # As joins, the signs of missing values would take minutes to plan.
    names = [f"c{place}" for place in range(400)]
    table = open_table(write(tmp_path / "wide.csv", ",".join(names) + "\n" + "\n".join([",".join("7" * 400)] * 3)))
    assert table.read().shape == (3, 400)


def test_not_a_number_is_seen_whatever_a_file_s_statistics_say(tmp_path) -> None:
    pq.write_table(pa.table({"a": [np.nan, 0.0, 1.0]}), tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet")
    assert table.fetch(f"SELECT isnan(a) FROM ({table.select()})") == [(True,), (False,), (False,)]


def test_ctrl_c_stops_a_question_as_it_stops_all_else(tmp_path) -> None:
    table = open_table(write(tmp_path / "t.csv", "a,b\n1,2\n"))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            table.fetch("SELECT sum(sin(i)) FROM range(100_000_000_000) r(i)")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_nothing_is_spilled_into_the_current_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = "SELECT DISTINCT i::VARCHAR || 'name' FROM range(2000000) r(i)"
    with pytest.raises(InvalidInput, match="not enough memory"), asking(tmp_path, memory_limit="20MB") as connection:
        connection.execute(f"SELECT count(*) FROM ({names})")
    assert not list(tmp_path.iterdir())


def test_different_values_are_counted_by_value(tmp_path, monkeypatch) -> None:
    pd.DataFrame({"user": ["7", " 7.0", "8", "x", "x "] * 50}).to_csv(tmp_path / "a.csv", index=False)
    table = open_table(tmp_path / "a.csv")
    assert (table.different("user"), table.about_different_labels("user")) == (3, 3)
    monkeypatch.setattr("ostrakon.data.table._COUNTED_AT_ONCE", 20)
    assert table.different("user") == 3


def test_types_that_files_and_frames_hold_each_their_own_way_become_text(tmp_path) -> None:
    file = tmp_path / "odd.parquet"
    duckdb.execute(
        "COPY (SELECT i AS n, (i / 4)::DECIMAL(9, 2) AS price, TIME '10:00:00' + INTERVAL (i) MINUTE AS clock, "
        "uuid() AS id, ['a', i::VARCHAR] AS pair, DATE '2020-01-01' + i::INT AS day, i % 2 = 0 AS even, "
        f"TIMESTAMPTZ '2020-01-01 00:00:00+02' + INTERVAL (i) HOUR AS moment FROM range(40) r(i)) TO '{file}'"
    )
    table = open_table(file)
    frame = table.read()
    assert frame["price"].dtype == np.float64
    assert frame["clock"][1] == "10:01:00"
    assert frame["pair"][1] == "[a, 1]"
    shards = partition_table(table, tmp_path / "shards", 3, key=bytes(32))
    np.testing.assert_array_equal(shards.sizes, np.bincount(assign_teachers(frame, 3, key=bytes(32)), minlength=3))
    read = pd.concat([shards.read(teacher) for teacher in range(3)]).sort_values("n", ignore_index=True)
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)


def test_a_nameless_index_of_pandas_is_no_column(tmp_path) -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5, 3.5], "y": ["u", "v", "u"]}, index=[7, 3, 5])
    frame.to_parquet(tmp_path / "rows.parquet")
    assert pq.read_schema(tmp_path / "rows.parquet").names == ["a", "y", "__index_level_0__"]
    table = open_table(tmp_path / "rows.parquet")
    assert table.columns == ("a", "y")
    assert table.read()["a"].tolist() == frame["a"].tolist()
    # A named one is somebody's column.
    frame.rename_axis("patient").to_parquet(tmp_path / "named.parquet")
    assert open_table(tmp_path / "named.parquet").columns == ("a", "y", "patient")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"n": [1, 2]}, {"n": [2.7, 2.4]}),
        ({"n": [1.5, 2.5]}, {"n": [2, 3]}),
        ({"n": ["a", "7"]}, {"n": [7, None]}),
        ({"n": [1, 2]}, {"n": ["1", "Mary"]}),
        ({"n": [1, 2]}, {"m": [1, 2]}),
    ],
)
def test_no_file_of_a_folder_decides_how_the_others_are_read(tmp_path, first, second) -> None:
    for number, cells in enumerate((first, second)):
        pd.DataFrame({**cells, "y": ["a", "b"]}).to_parquet(tmp_path / f"{number}.parquet")
    with pytest.raises(InvalidInput, match="one schema: the column 'n' is") as refused:
        open_table(tmp_path)
    assert "Mary" not in str(refused.value)


def test_a_quote_that_swallows_rows_is_refused(tmp_path) -> None:
    rows = [f"u{row},{row}" for row in range(60)]
    table = open_table(write(tmp_path / "t.csv", "\n".join(["a,b", *rows, ""])))
    table.require_one_line(["a", "b"])
    # Each odd row alone leaves the others as they are, or is refused; together they hide twenty-nine.
    rows[10], rows[40] = '"x,10', 'z",40'
    table = open_table(write(tmp_path / "t.csv", "\n".join(["a,b", *rows, ""])), header=True)
    assert table.rows() == 30
    with pytest.raises(InvalidInput, match="no line break within a cell of the column 'a'"):
        table.require_one_line(["b", "a"])
    table.require_one_line(["b"])
    # Lines that end in the two signs of another system are no breaks within cells.
    windows = open_table(write(tmp_path / "w.csv", "a,b\r\n1,x\r\n2,y\r\n"))
    windows.require_one_line(["a", "b"])
    assert windows.rows() == 2


def test_what_cannot_be_converted_is_not_quoted(tmp_path) -> None:
    table = open_table(write(tmp_path / "t.csv", "a,b\n1,2\nMary,4\n"))
    with pytest.raises(InvalidInput, match="a cell is not of the type") as refused:
        table.fetch(f"SELECT a::INTEGER FROM {table.relation}")
    assert "Mary" not in str(refused.value)


def test_a_file_that_is_called_parquet_and_is_none_is_said_to_be_none(tmp_path):
    (tmp_path / "patients.parquet").write_bytes(b"<html>not found</html>")
    with pytest.raises(InvalidInput, match=r"patients\.parquet must be a Parquet file, as its name says"):
        open_table(tmp_path / "patients.parquet")


def parquet(path, values):
    pd.DataFrame({"a": values}).to_parquet(path)


def test_hidden_parts_are_left_and_a_part_by_two_names_is_refused(tmp_path):
    folder = tmp_path / "table"
    (folder / ".temporary").mkdir(parents=True)
    parquet(folder / "a.parquet", [1.0, 2.0])
    parquet(folder / ".b.parquet", [3.0])
    parquet(folder / "D.PARQUET", [5.0])
    parquet(folder / ".temporary" / "c.parquet", [4.0])
    assert open_table(folder).rows() == 3
    (folder / "b.parquet").symlink_to(folder / "a.parquet")
    with pytest.raises(InvalidInput, match=r"every file once, and .*b\.parquet is .*a\.parquet by another name"):
        open_table(folder)


@pytest.mark.parametrize("change", ["written", "added", "removed"])
@pytest.mark.parametrize("way", ["records", "users", "shards"])
def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path, change, way):
    """Between its checksum and its rows, and while it is split: else one would be of another table than the other."""
    folder = tmp_path / "private"
    folder.mkdir()
    for name in "ab":
        frame = pd.DataFrame({"a": np.arange(50.0), "who": np.arange(50) // 2, "ill": ["yes", "no"] * 25})
        frame.to_parquet(folder / f"{name}.parquet")
    frame.drop(columns="ill").assign(a=frame["a"] + 0.5).to_parquet(tmp_path / "public.parquet")
    by = "who" if way == "users" else None
    task = task_from_files(folder, tmp_path / "public.parquet", target="ill", by=by, classes="from-private")

    def changed():
        if change == "removed":
            (folder / "b.parquet").unlink()
        else:
            frame[:30].to_parquet(folder / ("a.parquet" if change == "written" else "c.parquet"))

    where = {"seed": 0, "transform": lambda rows: rows[["a"]].to_numpy(), "folder": tmp_path / "shards"}

    def read():
        if way == "shards":
            task.private.shards(5, classes=2, **where)
        else:
            list(task.private.by_unit(**where))

    assert task.private.units == (25 if way == "users" else 100)
    changed()
    with pytest.raises(InvalidInput, match=r"changed while it was read|No files found|cannot be read"):
        read()
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", b"PK\x03\x04rest", "a zip archive; unpack it"),
        ("a.feather", b"ARROW1rest", "save it as Parquet"),
        ("a.jsonl", b'{"a": 1}\n{"a": 2}\n', "is JSON; save it as CSV or Parquet"),
    ],
)
def test_other_formats_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        open_table(tmp_path / name)


def test_a_misspelled_column_is_answered_with_the_nearest_one(tmp_path):
    (tmp_path / "a.csv").write_text("age,Readmitted\n1,no\n2,yes\n")
    with pytest.raises(InvalidInput, match=r"'readmited' is not .*, whose 2 columns are, nearest first, Readmitted, a"):
        open_table(tmp_path / "a.csv").column("readmited")
    write(tmp_path / "wide.csv", f"{','.join(f'gene{at}' for at in range(3000))},ill\n" + "1," * 3000 + "no\n")
    with pytest.raises(InvalidInput, match=r"whose 3,001 columns are, nearest first, gene777, .* …") as refused:
        open_table(tmp_path / "wide.csv").column("gen777")
    assert str(refused.value).count("gene") == 8
