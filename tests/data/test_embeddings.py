"""Embeddings in tables: lists become columns, and what is not whole is refused in one sentence."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostrakon.data.columns import Columns
from ostrakon.data.embeddings import as_columns, groups
from ostrakon.data.sources import open_table
from ostrakon.data.task import open_task
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)


def write(path, rows, *, kind=None, **columns):
    lists = pa.array([None if row is None else list(row) for row in rows], kind or pa.list_(pa.float32()))
    pq.write_table(pa.table({"seen": lists, **{name: pa.array(values) for name, values in columns.items()}}), path)
    return path


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float64(), 3), pa.list_(pa.int16())])
def test_lists_of_numbers_become_columns(tmp_path, kind):
    rows = [[1, 2, 3], [4, 5, 6]]
    table = open_table(write(tmp_path / "a.parquet", rows, kind=kind, age=[30, 40]))
    assert table.columns == ("seen.0", "seen.1", "seen.2", "age")
    assert table.read().to_numpy().tolist() == [[1, 2, 3, 30], [4, 5, 6, 40]]
    assert groups(table.columns) == {"seen": ["seen.0", "seen.1", "seen.2"]}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([[1.0, 2.0], [1.0, 2.0, 3.0]], "must all have one width, got lists of 2 to 3 numbers"),
        ([[1.0, 2.0], None], "lists of finite numbers in every row, got 1 rows"),
        ([[1.0, 2.0], [np.nan, 2.0]], "got 1 rows with a missing list, a missing number, a NaN or an infinity"),
        ([[1.0, -np.inf], [np.inf, 2.0]], "got 2 rows"),
        ([[1.0, None], [1.0, 2.0]], "got 1 rows"),
        ([[], []], "lists of finite numbers"),
    ],
)
def test_lists_that_are_no_embeddings_are_refused(tmp_path, rows, sentence):
    with pytest.raises(InvalidInput, match=sentence) as refused:
        open_table(write(tmp_path / "a.parquet", rows))
    assert str(refused.value).count(". ") == 0


def test_other_widths_are_refused(tmp_path):
    private = write(tmp_path / "private.parquet", RNG.normal(size=(20, 4)), y=["a", "b"] * 10)
    public = write(tmp_path / "public.parquet", RNG.normal(size=(20, 6)))
    with pytest.raises(InvalidInput, match="one width: 4 numbers in the private data, 6 in the public table"):
        open_task(private, public, target="y", classes=["a", "b"])


def test_a_constant_part_of_an_embedding_stays_one():
    frame = as_columns("seen", RNG.normal(size=(9, 3))).assign(**{"seen.1": 0.5, "fixed": 1.0})
    columns = Columns.of(frame)
    assert columns.kept == ("seen.0", "seen.1", "seen.2")
    assert columns.left_out == ("fixed",)


def test_columns_that_pandas_numbers_are_no_embedding():
    assert groups(["x", "x.1", "x.2"]) == {}
    assert groups(["x.0", "x.2"]) == {}
    assert groups(["x.0"]) == {}
    assert groups(["x.0", "x.01"]) == {}
    assert list(groups(pd.Index([f"e.{n}" for n in (10, 2, 1, 0, *range(3, 10))]))["e"]) == [
        f"e.{n}" for n in range(11)
    ]
