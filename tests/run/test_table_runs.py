"""Tables on disk: split there, read shard by shard, and the same run as in memory."""

import shutil
import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.changed_rows import MOST_PRIVATE
from ostrakon.data.classes import label_indices
from ostrakon.data.sharding import ShardFolder
from ostrakon.data.table import Table
from ostrakon.data.task import open_task
from ostrakon.options.options import Options
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.inputs.private_data import PrivateTable, Rows
from ostrakon.run.pipeline import run
from ostrakon.validation import InvalidInput

RECIPE = Options(teachers=12, mechanism="gnmax", parameters={"sigma2": 3.0}, queries=80, teacher="naive-bayes")


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 90, n), rng.choice(["Ulm", "Bonn", "Rom"], n)
    ill = (age / 90 + (city == "Ulm") + rng.normal(size=n) / 4) > 0.9
    return pd.DataFrame(
        {
            "name": [f"person {seed} {place}" for place in range(n)],
            "age": age,
            "city": city,
            "user": rng.permutation(n) % 150,
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    private = people(900, 0)
    private.loc[5, "age"] = np.nan
    private.to_csv(folder / "private.csv", index=False)
    private.to_parquet(folder / "private.parquet")
    people(300, 1).drop(columns="ill").to_csv(folder / "public.csv", index=False)
    return folder


def task_of(tables, file, **options):
    return task_from_files(tables / file, tables / "public.csv", target="ill", **{"classes": "from-private", **options})


def in_memory(task):
    """The same task with its private rows in memory."""
    tables = task.private.tables
    frame = tables.private.read()
    rows = Rows(
        X=tables.columns.apply(frame),
        y=label_indices(tables.private.labels(tables.target), tables.classes),
        users=frame[tables.by or "user"],
    )
    return replace(task, private=rows)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["private.csv", pytest.param("private.parquet", marks=pytest.mark.slow)])
def test_the_run_is_the_one_in_memory(tables, tmp_path, file):
    task = task_of(tables, file, by="user")
    assert isinstance(task.private, PrivateTable)
    memory = in_memory(task)
    assert (task.private.units, task.private.unit) == (memory.private.units, memory.private.unit) == (150, "user")
    for name, each in (("disk", task), ("memory", memory)):
        run(tmp_path / name, each, RECIPE)
    one, other = (np.load(tmp_path / name / "private" / "votes.npy") for name in ("disk", "memory"))
    np.testing.assert_array_equal(one, other)
    assert not (tmp_path / "memory" / "private" / "shards").exists()


def test_records_go_to_the_teachers_they_have_in_memory(tables, tmp_path):
    task = task_of(tables, "private.parquet")
    frame = task.private.tables.private.read()
    memory = Rows(X=frame, y=np.zeros(len(frame), np.int64)).assignment(12, seed=3)
    shards = task.private.shards(
        12, classes=len(task.classes), seed=3, transform=lambda X: X, folder=tmp_path / "shards"
    )
    for teacher, (rows, labels) in enumerate(shards.part(range(12)).load()):
        mine = frame[memory == teacher]
        assert sorted(rows["age"].dropna()) == sorted(mine["age"].dropna())
        assert (np.array(task.classes)[labels] == "yes").sum() == (mine["ill"] == "yes").sum()
    assert task.private.units == 900


@pytest.mark.slow
def test_the_private_table_is_never_read_whole(tables, tmp_path, monkeypatch):
    read = []
    whole = Table.frame
    monkeypatch.setattr(Table, "frame", lambda table, sql: read.append((table.path.name, sql)) or whole(table, sql))
    run(tmp_path / "run", task_of(tables, "private.parquet", by="user"), RECIPE)
    assert {name for name, _ in read} == {"public.csv", "private.parquet"}
    # It is compared with the public table, by a limited number of rows.
    assert all(f", {MOST_PRIVATE}))" in sql for name, sql in read if name == "private.parquet")


@pytest.mark.slow
def test_what_is_written_is_what_is_learned_from_and_open_to_its_owner_alone(tables, tmp_path):
    run(tmp_path / "run", task_of(tables, "private.csv", by="user"), RECIPE)
    shards = tmp_path / "run" / "private" / "shards"
    for folder in (shards, shards.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    held = ShardFolder.open(shards, RECIPE.teachers)
    rows = pd.concat([held.read(index) for index in range(held.n_teachers)])
    # Names are of no use, and whose a row is has been decided.
    assert (list(rows), len(rows)) == (["age", "city", "ill"], 900)


@pytest.mark.slow
def test_a_shuffled_table_trains_the_same_teachers(tables, tmp_path):
    shuffled = tmp_path / "shuffled.parquet"
    pd.read_parquet(tables / "private.parquet").sample(frac=1, random_state=0).to_parquet(shuffled, index=False)
    for name, file in (("one", tables / "private.parquet"), ("other", shuffled)):
        task = task_from_files(file, tables / "public.csv", target="ill", classes="from-private")
        run(tmp_path / name, task, replace(RECIPE, teacher="random-forest(n_estimators=5)"))
    one, other = (np.load(tmp_path / name / "private" / "votes.npy") for name in ("one", "other"))
    np.testing.assert_array_equal(one, other)


def test_teachers_do_not_depend_on_who_is_read_beside_them(tmp_path):
    """A missing cell makes whole numbers floating, in its own shard alone."""
    public = pd.DataFrame({"code": ["7", "8", "x"] * 40, "age": range(120)})
    private = pd.DataFrame({"code": [7, 8] * 60, "age": range(120), "ill": ["no", "yes"] * 60})
    public.to_csv(tmp_path / "public.csv", index=False)
    private.astype({"code": "Int64"}).to_parquet(tmp_path / "full.parquet")
    holed = private.astype({"code": "Int64"})
    holed.loc[4, "code"] = pd.NA
    holed.to_parquet(tmp_path / "holed.parquet")
    loaded = []
    for name in ("full", "holed"):
        task = task_from_files(
            tmp_path / f"{name}.parquet", tmp_path / "public.csv", target="ill", by="age", classes="from-private"
        )
        folder = tmp_path / f"shards of {name}"
        loaded.append(task.private.shards(5, classes=len(task.classes), seed=0, transform=lambda X: X, folder=folder))
    before, after = (shards.part(range(5)).load() for shards in loaded)
    changed = [not one[0].equals(other[0]) for one, other in zip(before, after, strict=True)]
    assert sum(changed) == 1
    assert set(before[0][0]["code"]) == {"7", "8"}


def test_users_are_counted_in_parts(tables, monkeypatch):
    tables = open_task(tables / "private.csv", tables / "public.csv", target="ill", by="user", classes="from-private")
    monkeypatch.setattr("ostrakon.data.table._COUNTED_AT_ONCE", 100)
    assert tables.units() == 150


def test_empty_teachers_are_refused(tables, tmp_path):
    with pytest.raises(InvalidInput, match=r"\d+ of 140 would have none of the 150 users; ask for fewer"):
        run(tmp_path / "run", task_of(tables, "private.csv", by="user"), Options(teachers=140))


def flipped(content: bytes) -> bytes:
    place = len(content) // 3
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def test_a_damaged_shard_is_one_sentence_and_made_again_after_it_is_removed(tables, tmp_path):
    task = task_of(tables, "private.csv", by="user")
    folder = tmp_path / "shards"

    def load(teacher: int):
        shards = task.private.shards(5, classes=len(task.classes), seed=0, transform=lambda X: X, folder=folder)
        return shards.part(range(teacher, teacher + 1)).load()[0]

    before = load(2)
    file = folder / "piece-02.parquet"
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :])
    with pytest.raises(InvalidInput, match="damaged, not as they were written; remove that folder"):
        load(2)
    for other in (content[:40], b"", (folder / "piece-01.parquet").read_bytes(), flipped(content)):
        file.write_bytes(other)
        with pytest.raises(InvalidInput, match="damaged, not as they were written; remove that folder"):
            load(2)
    shutil.rmtree(folder)
    after = load(2)
    pd.testing.assert_frame_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])
