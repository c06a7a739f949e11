"""Tables in pieces: all rows once and in order, clean as when they are read whole; what is broken is one sentence."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ostrakon.data.arrow_cells import stream
from ostrakon.data.sources import open_table
from ostrakon.validation import InvalidInput

ROWS = pd.DataFrame({"number": np.arange(10_000) / 4, "word": ["' x'", "?", "y", ""] * 2500, "ill": [1.0, 0.0] * 5000})


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("rows", [999, 4096, 10_000, 50_000])
def test_all_rows_come_once_in_pieces_of_one_size(tmp_path, suffix, rows):
    path = tmp_path / f"table.{suffix}"
    ROWS.to_parquet(path, row_group_size=3000) if suffix == "parquet" else ROWS.to_csv(path, index=False)
    table = open_table(path)
    pieces = list(stream(table, ["word", "ill", "number"], labels="ill", rows=rows))
    assert [piece.num_rows for piece in pieces] == [min(rows, 10_000 - at) for at in range(0, 10_000, rows)]
    whole = pa.concat_tables(pieces)
    assert whole.column_names == ["word", "ill", "number"]
    assert whole.column("word").to_pylist() == ["x", None, "y", None] * 2500
    assert whole.column("ill").to_pylist() == table.labels("ill").tolist() == ["1", "0"] * 5000
    assert pd.to_numeric(whole.column("number").to_pandas()).tolist() == ROWS["number"].tolist()


def test_whole_numbers_beyond_64_bits_are_doubles(tmp_path):
    import duckdb

    path = tmp_path / "table.parquet"
    decimals = pa.array([2**70, None], pa.decimal128(38, 0))
    pq.write_table(pa.table({"big": decimals, "ill": ["a", "b"]}), path)
    [piece] = stream(open_table(path), ["big", "ill"], labels="ill", rows=10)
    assert piece.column("big").to_pylist() == [2.0**70, None]
    duckdb.sql(f"COPY (SELECT 5::HUGEINT AS big, 'a' AS ill) TO '{path}'")
    [piece] = stream(open_table(path), ["big", "ill"], labels="ill", rows=10)
    assert piece.column("big").to_pylist() == [5.0]


def test_a_line_that_cannot_be_read_far_down_is_one_sentence_without_it(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("number,ill\n" + "1,a\n" * 200_000 + "2,b,secret\n")
    with pytest.raises(InvalidInput, match="cannot be read") as caught:
        list(stream(open_table(path), ["number", "ill"], labels="ill", rows=1000))
    assert "secret" not in str(caught.value)


def test_a_damaged_file_is_one_sentence(tmp_path):
    path = tmp_path / "table.parquet"
    ROWS.to_parquet(path, row_group_size=3000)
    table = open_table(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 2] = bytes(len(content) // 2 - len(content) // 3)
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="cannot be read"):
        list(stream(table, ["number", "word", "ill"], labels="ill", rows=1000))
