"""Shards of a table are all there or not there."""

import os
import signal
import stat
import subprocess
import sys
import textwrap

import duckdb
import numpy as np
import pandas as pd
import pytest

from ostrakon.data.files import CannotWrite
from ostrakon.data.sharding import MOST_PIECES, ShardFolder, partition_table
from ostrakon.data.sources import open_table
from ostrakon.validation import InvalidInput

KEY = bytes(32)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    file = tmp_path_factory.mktemp("table") / "t.parquet"
    duckdb.execute(
        f"COPY (SELECT i AS person, random() AS x, 'teacher' AS teacher, repeat('text', 20) || i AS note "
        f"FROM range(200000) r(i)) TO '{file}' (FORMAT parquet)"
    )
    return open_table(file)


def test_every_row_is_in_one_shard_and_a_column_named_teacher_survives(table, tmp_path) -> None:
    shards = partition_table(table, tmp_path / "shards", 7, key=KEY, by="person")
    people = [shards.read(teacher) for teacher in range(7)]
    assert [len(rows) for rows in people] == shards.sizes.tolist()
    assert sorted(np.concatenate([rows["person"] for rows in people])) == list(range(200_000))
    assert list(people[0]) == ["person", "x", "teacher", "note"]
    assert set(people[0]["teacher"]) == {"teacher"}
    assert stat.S_IMODE((tmp_path / "shards").stat().st_mode) == 0o700
    assert os.listdir(tmp_path) == ["shards"]


def test_finished_shards_are_kept(table, tmp_path) -> None:
    first = partition_table(table, tmp_path / "shards", 5, key=KEY)
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "shards").rglob("*")}
    again = partition_table(table, tmp_path / "shards", 5, key=KEY)
    np.testing.assert_array_equal(first.sizes, again.sizes)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "shards").rglob("*")} == stamps
    with pytest.raises(InvalidInput, match=r"were made otherwise \(different: key\)"):
        partition_table(table, tmp_path / "shards", 5, key=bytes(31) + b"x")
    with pytest.raises(InvalidInput, match=r"were made otherwise \(different: table\)"):
        partition_table(table, tmp_path / "shards", 5, key=KEY, digest="another")
    with pytest.raises(InvalidInput, match="there are 4 teachers"):
        partition_table(table, tmp_path / "shards", 4, key=KEY)


@pytest.mark.slow
def test_a_full_disk_half_way_leaves_no_shards(table, tmp_path) -> None:
    # A limit on file size stops the writer as a full disk does; in a process of its own, where it harms nobody.
    program = f"""
        import resource, sys
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        from ostrakon.data.files import CannotWrite
        from ostrakon.data.sharding import partition_table
        from ostrakon.data.sources import open_table
        try:
            partition_table(open_table({str(table.path)!r}), {str(tmp_path / "shards")!r}, 5, key=bytes(32))
        except CannotWrite as error:
            print(error)
            sys.exit(7)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert "the disk is full" in done.stdout
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_killed_partition_is_done_again(table, tmp_path) -> None:
    program = f"""
        import os, signal, ostrakon.data.sharding as sharding
        from ostrakon.data.sources import open_table
        sharding.sync_folder = lambda folder: os.kill(os.getpid(), signal.SIGKILL)
        sharding.partition_table(open_table({str(table.path)!r}), {str(tmp_path / "shards")!r}, 5, key=bytes(32))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "shards").exists()
    assert os.listdir(tmp_path) != []
    assert partition_table(table, tmp_path / "shards", 5, key=KEY).sizes.sum() == 200_000
    assert os.listdir(tmp_path) == ["shards"]


def test_an_interruption_leaves_no_shards(table, tmp_path, monkeypatch) -> None:
    def interrupted(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr("ostrakon.data.sharding.sync_folder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        partition_table(table, tmp_path / "shards", 5, key=KEY)
    assert os.listdir(tmp_path) == []


def test_wrong_requests(table, tmp_path) -> None:
    with pytest.raises(InvalidInput, match="column of users 'patient'"):
        partition_table(table, tmp_path / "shards", 5, key=KEY, by="patient")
    with pytest.raises(InvalidInput, match="n_teachers"):
        partition_table(table, tmp_path / "shards", 0, key=KEY)
    with pytest.raises(InvalidInput, match="no shards"):
        ShardFolder.open(tmp_path / "shards", 5)
    assert os.listdir(tmp_path) == []
    assert issubclass(CannotWrite, InvalidInput)


def test_a_teacher_without_rows(table, tmp_path) -> None:
    shards = partition_table(table, tmp_path / "shards", 5, key=KEY, by="teacher")
    assert sorted(shards.sizes) == [0, 0, 0, 0, 200_000]
    assert len(shards.read(int(np.argmin(shards.sizes)))) == 0
    with pytest.raises(InvalidInput, match="index"):
        shards.read(5)


@pytest.mark.slow
def test_hundreds_of_teachers_are_few_files_and_each_reads_its_own_rows(table, tmp_path) -> None:
    shards = partition_table(table, tmp_path / "shards", 130, key=KEY, by="person")
    assert len(list((tmp_path / "shards").iterdir())) <= MOST_PIECES + 1
    alone = [shards.read(teacher) for teacher in range(130)]
    assert [len(rows) for rows in alone] == shards.sizes.tolist()
    # Across the borders of files, and within one of them.
    for teachers in (range(130), range(2, 5), range(7, 8)):
        for teacher, rows in zip(teachers, shards.part(teachers).read(), strict=True):
            pd.testing.assert_frame_equal(rows, alone[teacher])
    people = [set(rows["person"]) for rows in alone]
    assert sum(map(len, people)) == len(set.union(*people))
    with pytest.raises(InvalidInput, match="index"):
        shards.part(range(129, 131))
