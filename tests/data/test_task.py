"""The tables of a run are checked together, before anything is trained."""

import os
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostrakon.data.classes import label_indices
from ostrakon.data.domain import Domain
from ostrakon.data.sources import open_table
from ostrakon.data.task import open_described_task, open_task
from ostrakon.validation import InvalidInput


def write(path, frame: pd.DataFrame, **options) -> str:
    frame.to_csv(path, index=False, **options)
    return str(path)


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "user": rng.integers(0, 9, n),
            "age": rng.integers(18, 90, n),
            "city": rng.choice(["Ulm", "Bonn"], n),
            "sick": np.where(np.arange(n) % 3 == 0, "yes", "no"),
        }
    )


@pytest.fixture
def tables(tmp_path):
    private = write(tmp_path / "private.csv", people(60))
    public = write(tmp_path / "public.csv", people(40, seed=1).drop(columns=["user", "sick"]))
    test = write(tmp_path / "test.csv", people(20, seed=2))
    return private, public, test


def test_a_task_that_fits(tables) -> None:
    private, public, test = tables
    task = open_task(private, public, target="sick", by="user", test=test, classes="from-private")
    assert (task.features, task.classes, task.classes_from) == (("age", "city"), ("no", "yes"), "private")
    assert (task.unit, open_task(private, public, target="sick", by="user", classes="from-private").by) == (
        "user",
        "user",
    )
    assert task.units() == people(60)["user"].nunique() == 9
    X = task.public_rows()
    assert (list(X.columns), len(X)) == (["age", "city"], 40)
    assert X["age"].dtype == np.float64
    X_test, y_test = task.test_rows()
    assert (X_test.shape, y_test.sum()) == ((20, 2), 7)


def test_the_whole_record_is_the_identity_without_users(tables) -> None:
    private, public, _ = tables
    with pytest.raises(InvalidInput, match="does not fit"):
        open_task(private, public, target="sick", classes="from-private")
    public_with = write(public, people(40, seed=1).drop(columns="sick"))
    task = open_task(private, public_with, target="sick", classes="from-private")
    assert task.unit == "record"
    assert task.units() == 60


def test_classes_from_the_public_table_or_the_user(tables) -> None:
    private, public, _ = tables
    write(public, people(40, seed=1))
    assert open_task(private, public, target="sick").classes_from == "public"
    task = open_task(private, public, target="sick", classes=["yes", "no", "dead"])
    assert (task.classes, task.classes_from) == (("yes", "no", "dead"), "user")


def test_tables_without_header_take_the_private_names(tmp_path) -> None:
    rows = people(30).drop(columns="user")
    private = write(tmp_path / "private.csv", rows)
    bare = write(tmp_path / "public.csv", people(20, seed=1).drop(columns="user"), header=False)
    short = write(tmp_path / "short.csv", people(20, seed=1)[["age", "city"]], header=False)
    for public in (bare, short):
        assert list(open_task(private, public, target="sick", classes="from-private").public_rows()) == ["age", "city"]
    bare_private = write(tmp_path / "bare.csv", rows, header=False)
    task = open_task(bare_private, bare, target=-1, names=None, classes="from-private")
    assert (task.target, task.classes) == ("column2", ("no", "yes"))
    named = open_task(bare_private, bare, target="sick", names="age,city,sick", classes="from-private")
    assert named.features == ("age", "city")


def test_text_without_header_is_not_taken_for_names(tmp_path) -> None:
    rows = [["Ulm", "old", "y"], ["Bonn", "young", "n"], ["Rom", "old", "n"]] * 4
    private = write(tmp_path / "private.csv", pd.DataFrame(rows), header=False)
    public = write(tmp_path / "public.csv", pd.DataFrame(rows[:8]), header=False)
    short = write(tmp_path / "short.csv", pd.DataFrame(rows[:8])[[0, 1]], header=False)
    for shown in (public, short):
        task = open_task(private, shown, target="sick", names="city,age,sick", classes="from-private")
        assert (task.private.rows(), len(task.public_rows())) == (12, 8)
    headed = write(tmp_path / "headed.csv", pd.DataFrame(rows[:8], columns=["city", "age", "sick"]))
    task = open_task(private, headed, target="sick", names="city,age,sick", classes="from-private")
    assert len(task.public_rows()) == 8
    both = write(tmp_path / "both.csv", pd.DataFrame(rows, columns=["city", "age", "sick"]))
    assert open_task(both, headed, target="sick", names="city,age,sick", classes="from-private").private.rows() == 12


@pytest.mark.parametrize("odd", [["x", "1.5", "1"], ["x", "y", "z"], ["0", "word", "1"]])
def test_an_odd_first_record_does_not_become_the_names_of_columns(tmp_path, odd) -> None:
    # Names of columns are published.
    rows = pd.DataFrame({"a": np.arange(30) % 7, "b": np.arange(30) / 8, "c": np.arange(30) % 2}).astype(str)
    public = write(tmp_path / "public.csv", rows[:8], header=False)
    private = write(
        tmp_path / "private.csv", pd.concat([pd.DataFrame([odd], columns=rows.columns), rows]), header=False
    )
    named = write(tmp_path / "named.csv", rows)
    refused("may be a header or a record", private, public, target=-1)
    refused("may be a header or a record", private, public, target=2, by=0)
    assert open_task(named, public, target="c", classes="from-private").private.columns == ("a", "b", "c")
    assert (
        open_task(named, write(tmp_path / "shown.csv", rows[:8]), target=-1, classes="from-private").private.rows()
        == 30
    )
    if odd[-1] == "1":
        assert (
            open_task(private, public, target="c", names=["a", "b", "c"], classes="from-private").private.rows() == 31
        )


def test_a_final_full_stop_makes_no_other_class(tmp_path) -> None:
    private = write(tmp_path / "private.csv", people(30).drop(columns="user"))
    dotted = people(30, seed=1).drop(columns="user")
    dotted["sick"] += "."
    public = write(tmp_path / "public.csv", dotted)
    task = open_task(private, public, target="sick", test=write(tmp_path / "test.csv", dotted.iloc[:9]))
    assert task.classes == ("no", "yes")
    assert task.test_rows()[1].tolist() == [1, 0, 0] * 3
    # Nobody's spelling in the private table shows in the names that are released.
    undotted = people(30)["sick"].where(np.arange(30) > 0, people(30)["sick"] + ".")
    other = write(tmp_path / "other.csv", people(30).drop(columns="user").assign(sick=undotted))
    assert open_task(other, public, target="sick").classes == ("no", "yes")


def test_the_private_table_in_another_format_and_order_is_still_private(tmp_path) -> None:
    private = write(tmp_path / "private.csv", people(30))
    people(30)[::-1].to_parquet(tmp_path / "public.parquet")
    with pytest.raises(InvalidInput, match="is the private one"):
        open_task(private, tmp_path / "public.parquet", target="sick", classes="from-private")


def test_the_signs_of_a_csv_are_those_of_the_public_one(tmp_path) -> None:
    # Found out from private rows, one odd row would decide how all others are cut.
    rows = [f"{place},x{place % 3},{'yes' if place % 2 else 'no'}" for place in range(60)]
    public = tmp_path / "public.csv"
    public.write_text("a,b,y\n" + "\n".join(rows[:30]) + "\n")
    private = tmp_path / "private.csv"
    for odd in ("3;x;yes", "3\tx\tyes", "3|x|yes", "'3','x','yes'", "3,'x',yes"):
        private.write_text("a,b,y\n" + "\n".join([odd, *rows]) + "\n")
        try:
            read = open_task(private, public, target="y", classes=["yes", "no", "'yes'"]).private.read()
        except InvalidInput:
            continue
        assert read["b"].tolist()[1:] == [f"x{place % 3}" for place in range(60)]
    private.write_text("a;b;y\n" + "\n".join(row.replace(",", ";") for row in rows) + "\n")
    with pytest.raises(InvalidInput):
        open_task(private, public, target="y", classes="from-private")


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_public_parquet_decides_by_the_names_of_its_columns(tmp_path, delimiter) -> None:
    people(30, seed=1).to_parquet(tmp_path / "public.parquet")
    text = people(30).to_csv(index=False, sep=delimiter)
    (tmp_path / "private.csv").write_text(text)
    task = open_task(tmp_path / "private.csv", tmp_path / "public.parquet", target="sick", classes="from-private")
    assert task.private.dialect.delim == delimiter
    assert len(task.private.read()) == 30


def test_without_names_in_either_a_csv_is_cut_at_commas(tmp_path) -> None:
    people(30, seed=1).to_parquet(tmp_path / "public.parquet")
    for delimiter, columns in ((",", len(people(1).columns)), (";", 1)):
        file = tmp_path / "private.csv"
        people(30).to_csv(file, index=False, header=False, sep=delimiter)
        assert len(open_table(file, like=open_table(tmp_path / "public.parquet")).columns) == columns


def test_users_without_a_number_are_refused(tmp_path) -> None:
    frame = people(30)
    frame["user"] = frame["user"].astype("object")
    public = write(tmp_path / "public.csv", people(30, seed=1).drop(columns="user"))
    numbers = pa.table(
        {**{name: frame[name].tolist() for name in frame if name != "user"}, "user": [np.nan, *range(29)]}
    )
    pq.write_table(numbers, tmp_path / "private.parquet")
    with pytest.raises(InvalidInput, match="column of users 'user' is missing in 1 rows"):
        open_task(tmp_path / "private.parquet", public, target="sick", by="user", classes="from-private")


def refused(sentence: str, *arguments, **options) -> None:
    with pytest.raises(InvalidInput, match=sentence) as caught:
        open_task(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_bad_tables_are_refused(tables, tmp_path) -> None:
    private, public, _ = tables
    frame = people(60)
    refused("target column 'ill' is not in", private, public, target="ill", by="user")
    refused("column of users 'id' is not in", private, public, target="sick", by="id")
    refused("another column than the target", private, public, target="sick", by="sick")
    refused("There is no file", private, str(tmp_path / "none.csv"), target="sick")
    refused("does not fit.*'city'", private, write(tmp_path / "p.csv", frame[["age"]]), target="sick", by="user")
    refused("test table.*no column 'sick'", private, public, target="sick", by="user", test=public)
    alone = write(tmp_path / "alone.csv", frame[["user", "sick"]])
    refused("no column to learn from", alone, public, target="sick", by="user")


def test_a_bad_target_is_refused(tables, tmp_path) -> None:
    _, public, _ = tables
    frame = people(60)
    constant = write(tmp_path / "constant.csv", frame.assign(sick="no"))
    refused("same value in every private row", constant, public, target="sick", by="user")
    gaps = write(tmp_path / "gaps.csv", frame.assign(sick=frame["sick"].where(frame.index > 4)))
    refused("missing in 5 of 60 private rows", gaps, public, target="sick", by="user")
    numbers = write(tmp_path / "numbers.csv", pd.DataFrame({"age": range(3000), "sick": np.arange(3000) / 7}))
    refused(
        r"about (29\d\d|3000) different values",
        numbers,
        write(tmp_path / "p.csv", frame[["age"]]),
        target="sick",
        allow_shared_rows=True,
    )


def test_a_class_the_public_table_does_not_know_is_refused(tables, tmp_path) -> None:
    private, public, _ = tables
    known = write(tmp_path / "known.csv", people(40, seed=1).assign(sick=["no", "maybe"] * 20))
    refused(
        "label of the private target 'sick' does not occur in the public table",
        private,
        known,
        target="sick",
        by="user",
    )
    refused("does not occur in the classes given", private, public, target="sick", by="user", classes=["no", "x"])
    refused("each label once, got 'no' twice", private, public, target="sick", by="user", classes=["no", "no"])
    refused("labels that are not empty", private, public, target="sick", by="user", classes=["no", "yes", ""])


def test_a_wrong_list_of_classes_is_refused_before_rows_are_compared(tables, monkeypatch) -> None:
    private, public, _ = tables
    monkeypatch.setattr("ostrakon.data.task.refuse_changed_rows", lambda *rows: pytest.fail("rows were compared"))
    refused(
        r"^In 60 of 60 rows \('no' in 40 of them, 'yes' in 20 of them\), the label",
        *(private, public),
        target="sick",
        by="user",
        classes=["x", "z"],
    )


def test_the_private_table_given_as_public_is_refused(tables, tmp_path) -> None:
    private, public, _ = tables
    refused("is the private one", private, private, target="sick")
    link, hard, copy = (str(tmp_path / name) for name in ("link.csv", "hard.csv", "copy.csv"))
    os.symlink(private, link)
    os.link(private, hard)
    shutil.copy(private, copy)
    for other in (link, hard, copy):
        refused("is the private one", private, other, target="sick")
        refused("test table.*is the private one", private, public, target="sick", by="user", test=other)


def test_rows_without_user_are_refused(tables, tmp_path) -> None:
    _, public, _ = tables
    frame = people(60).astype({"user": object})
    frame.loc[3, "user"] = None
    gaps = write(tmp_path / "gaps.csv", frame)
    refused("missing in 1 rows", gaps, public, target="sick", by="user")


def test_labels_as_indices() -> None:
    assert label_indices(["b", "a", "b."], ("a", "b")).tolist() == [1, 0, 1]
    with pytest.raises(InvalidInput, match="label is not among the classes a, b"):
        label_indices(["a", "c"], ("a", "b"))
    with pytest.raises(InvalidInput, match="missing in 1 of 2"):
        label_indices(["a", None], ("a", "b"))


def test_rows_that_a_quote_would_swallow_are_missed(tables, tmp_path) -> None:
    private, public, _ = tables
    lines = (tmp_path / "private.csv").read_text().splitlines()
    lines[10], lines[40] = '3,40,"Ulm,no', '3,40,Bonn",no'
    (tmp_path / "private.csv").write_text("\n".join(lines) + "\n")
    domain = Domain.of({"age": {"low": 0, "high": 100}, "city": {"categories": ["Ulm", "Bonn"]}})
    for opened in (
        lambda: open_task(private, public, target="sick", by="user", classes="from-private"),
        lambda: open_described_task(private, domain, target="sick", by="user", classes="from-private"),
    ):
        with pytest.raises(InvalidInput, match="no line break within a cell of the column 'city'"):
            opened()


def test_free_text_may_have_lines(tmp_path) -> None:
    notes = [f"patient {row} came\nand went, said {row}" for row in range(60)]
    private = write(tmp_path / "private.csv", people(60).assign(notes=notes))
    public = write(tmp_path / "public.csv", people(40, seed=1).assign(notes=notes[:40]))
    for text in (False, True):
        assert (
            open_task(private, public, target="sick", by="user", text=text, classes="from-private").private.rows() == 60
        )
