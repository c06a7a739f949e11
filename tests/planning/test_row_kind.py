"""The kind of the public rows, which decides how the cost is divided."""

import numpy as np
import pandas as pd
import pytest

from ostrakon.features.tables import TableFeatures
from ostrakon.planning.row_kind import RowKind, effective_dimension


def table(columns, rank, rows=600, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))).add_prefix("c")


def test_tables_are_wide_if_many_columns_depend_little_on_each_other():
    rng = np.random.default_rng(0)
    yes = pd.DataFrame(rng.integers(0, 2, (600, 40))).add_prefix("b")
    words = pd.DataFrame(np.array(list("abc"))[rng.integers(0, 3, (600, 20))]).add_prefix("q")
    for wide in (yes, words, yes.to_numpy(float), rng.normal(size=(600, 40))):
        assert RowKind.of(wide, "auto") == RowKind.of(wide, "table") == RowKind(wide=True)
    for narrow in (table(40, 4), yes[["b0", "b1"]], yes.iloc[:, :20], words[["q0", "q1"]]):
        assert RowKind.of(narrow, "auto") == RowKind()
    assert RowKind.of(yes, "pca") == RowKind()


def test_other_rows_are_not_wide():
    rng = np.random.default_rng(0)
    embeddings = pd.DataFrame(rng.normal(size=(50, 60))).add_prefix("v.")
    assert RowKind.of(embeddings, "auto") == RowKind(embedded=True)
    assert RowKind.of(rng.random((50, 10, 10)), "auto") == RowKind(images=True)


@pytest.mark.parametrize(
    "bad", [pd.DataFrame({"a": [np.inf, 1.0]}), pd.DataFrame({"a": []}), pd.DataFrame({"a": [1.0]})]
)
def test_rows_that_a_run_refuses_or_cannot_tell_apart_are_a_plain_table(bad):
    assert RowKind.of(bad, "auto") == RowKind()


def test_the_dimension_is_that_of_equal_directions_and_depends_on_few_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 30))
    assert effective_dimension(rows) == pytest.approx(30, rel=0.01)
    assert effective_dimension(3 * rows + 5) == pytest.approx(effective_dimension(rows))
    assert effective_dimension(np.column_stack([rows, rows])) == pytest.approx(effective_dimension(rows))
    assert effective_dimension(rows[:, :1] * np.arange(1, 9)) == pytest.approx(1)
    assert effective_dimension(np.ones((4, 2))) == 0
    whole = effective_dimension(TableFeatures().fit(rows[:, :24]).transform(rows[:, :24]))
    assert (whole >= 25) == RowKind.of(rows[:, :24], "auto").wide
