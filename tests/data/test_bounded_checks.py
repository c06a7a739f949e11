"""The checks for private rows in the public data need memory that does not grow with the private rows."""

import struct
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest

from ostrakon.data import table
from ostrakon.data.changed_rows import refuse_changed_rows
from ostrakon.data.identity import by_row, row_marks
from ostrakon.data.queries import asking
from ostrakon.data.shared_rows import CountedRows
from ostrakon.data.sources import open_table
from ostrakon.run.inputs.task import refuse_shared

ROWS, COLUMNS = 800_000, 8


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{number}": rng.normal(size=ROWS) for number in range(COLUMNS)})
    frame["word"] = np.where(frame["x0"] > 0, "ja", "nein")
    frame.to_parquet(tmp_path / "private.parquet", row_group_size=20_000)
    others = (-frame[:300].drop(columns="word")).assign(word="ja")
    pd.concat([frame[:300], others]).to_csv(tmp_path / "public.csv", index=False)
    return frame, open_table(tmp_path / "private.parquet"), open_table(tmp_path / "public.csv")


def test_a_large_table_is_compared_in_less_memory_than_it_has(tables, monkeypatch):
    frame, private, public = tables
    monkeypatch.setattr(table, "MOST_PRIVATE", 10_000)
    whole = 8 * ROWS * COLUMNS
    monkeypatch.setattr(table, "asking", partial(asking, memory_limit=f"{0.6 * whole / 1e6:.0f}MB", threads=1))
    names = list(frame.columns)
    part = private.sample(names)
    assert len(part) == 10_000
    marks = by_row(frame, lambda identity: f"hash({identity})")
    expected = frame.iloc[np.argsort(marks.astype(np.uint64))[:10_000]]
    assert part.equals(expected.reset_index(drop=True))
    wanted = np.unique(public.marks(names))
    counts = private.counted(names, public).among(wanted)
    assert counts.tolist() == CountedRows.of(row_marks(frame, rounded=True)).among(wanted).tolist()
    assert counts.sum() == 300


def peak_of(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_digests_of_images_are_not_kept():
    digests = (f"{number:064x}"[::-1] for number in range(50_000))
    assert peak_of(lambda: refuse_shared(digests, [64 * "f"] * 30)) < 50_000 * 64


def test_pictures_are_compared_in_memory_that_does_not_grow_with_them():
    pictures = np.random.default_rng(0).integers(0, 256, (60_000, 8, 8)).astype(np.uint8)
    few, many = (
        peak_of(partial(refuse_changed_rows, pictures[:rows], 255 - pictures[:30])) for rows in (10_000, 60_000)
    )
    assert many < 1.1 * few


def test_numbers_are_known_by_their_64_bits():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 2000, dtype=np.uint64).view(np.float64)
    numbers = np.concatenate(
        [bits[~np.isnan(bits)], [0.0, 1e-240, 5e-324, -1e-240, 1e-200, 1.0, -1.5, np.inf, -np.inf]]
    )
    texts = by_row(numbers, lambda identity: identity)
    assert texts.tolist() == [struct.pack(">d", number).hex().upper() for number in numbers]
    assert by_row(np.array([-0.0]), lambda identity: identity).tolist() == ["0" * 16]
