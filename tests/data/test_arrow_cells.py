"""Cells of Arrow tables are read as those of frames are, one by one, whatever stands beside them."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from ostrakon.data.arrow_cells import label_numbers, owner_numbers, typed_cells
from ostrakon.data.columns import Columns
from ostrakon.validation import InvalidInput

CELLS = {
    "double": pa.array([1.0, None, float("nan"), float("inf"), -0.0, 2**53 + 2.0, 7.5, 7.0]),
    "float": pa.array([0.1, None, -float("inf"), 3.0, 3.0, 1e30, 0.0, -0.0], pa.float32()),
    "whole": pa.array([7, None, -1, 2**53 + 1, 2**62, 0, 7, -(2**60)]),
    "unsigned": pa.array([7, None, 1, 2**64 - 1, 2**63, 0, 7, 9], pa.uint64()),
    "small": pa.array([7, 8, 7, 1, 0, 0, 7, 9], pa.int8()),
    "truth": pa.array([True, None, False, True, True, False, None, None]),
    "text": pa.array(["7", None, " 1,5", "1.234,5", "x", "7", "2020-01-01", "1e400"]),
    "day": pa.array([dt.date(2020, 1, 1), None, dt.date(1, 1, 1), *[dt.date(2262, 5, 5)] * 5]),
    "moment": pa.array([dt.datetime(2020, 1, 1, 12, 30), None, *[dt.datetime(1900, 1, 1)] * 6], pa.timestamp("us")),
    "zone": pa.array([1, None, 2, 3, 4, 5, 6, 7], pa.timestamp("us", tz="Europe/Berlin")),
    "nothing": pa.array([None] * 8, pa.string()),
}


@pytest.mark.parametrize("kind", ["number", "decimal comma", "date", "category", "text"])
@pytest.mark.parametrize("name", CELLS)
def test_every_type_is_read_as_in_a_frame_and_each_cell_as_if_it_stood_alone(name, kind):
    table, columns = pa.table({"cell": CELLS[name]}), Columns({"cell": kind, "other": "left out"})
    try:
        plain = columns.apply(table.to_pandas(date_as_object=False, integer_object_nulls=True))
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            typed_cells(table, columns)
        return
    made = typed_cells(pa.concat_tables([table, table]), columns)
    assert list(made.columns) == ["cell"]
    assert made["cell"].isna().tolist() == 2 * plain["cell"].isna().tolist()
    assert made["cell"].dropna().tolist() == 2 * plain["cell"].dropna().tolist()
    for at in range(8):
        alone = typed_cells(table.slice(at, 1), columns)["cell"]
        assert alone.dropna().tolist() == made["cell"][at : at + 1].dropna().tolist()


def test_labels_and_owners():
    labels = pa.chunked_array([pa.array(["b", "a."]), pa.array(["b"])])
    assert label_numbers(labels, ("a", "b")).tolist() == [1, 0, 1]
    for wrong in (["a", None], ["c"]):
        with pytest.raises(InvalidInput):
            label_numbers(pa.chunked_array([pa.array(wrong)]), ("a", "b"))
    assert label_numbers(pa.chunked_array([], pa.string()), ("a", "b")).shape == (0,)
    owners = owner_numbers(pa.chunked_array([pa.array(["7", "7.0", "x", " 7"])]))
    assert owners.tolist() == [0, 0, 1, 0]
    assert len(np.unique(owner_numbers(pa.chunked_array([pa.array([2**53, 2**53 + 1])])))) == 2
