"""A row's own bits: blocks of one size where a function keeps to them, row by row where it does not."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from ostrakon.features.rowwise import in_blocks, independent_rows, row_count, take_rows

ROWS = np.random.default_rng(0).normal(size=(1000, 5))
WEIGHTS = np.random.default_rng(1).normal(size=(5, 3))


def own(X):
    return np.tanh(X) * 3


def by_place(X):
    """A function that rounds by a row's place, as linear algebra may."""
    made = X @ WEIGHTS
    made[::7] = np.nextafter(made[::7], np.inf)
    return made


def test_a_row_by_row_function_gets_blocks_and_another_one_row():
    assert independent_rows(own, ROWS) == 768
    assert independent_rows(by_place, ROWS) == 1
    assert independent_rows(own, ROWS[:3]) == 768  # few public rows are repeated


@pytest.mark.parametrize("count", [1, 767, 768, 769, 1000])
def test_blocks_put_together_are_the_whole_and_all_have_one_size(count):
    sizes = []

    def spy(X):
        sizes.append(len(X))
        return own(X)

    made = np.concatenate(in_blocks(spy, ROWS[:count], rows=768))
    np.testing.assert_array_equal(made, own(ROWS[:count]))
    assert set(sizes) == {768}
    assert len(sizes) == -(-count // 768)


def test_no_row_has_a_say_in_another_s_bits():
    before = np.concatenate(in_blocks(by_place, ROWS, rows=1))
    changed = ROWS.copy()
    changed[:500] = changed[499::-1]
    after = np.concatenate(in_blocks(by_place, changed, rows=1))
    assert before[500:].tobytes() == after[500:].tobytes()


def test_rows_of_every_kind_of_table():
    at = np.array([3, 1, 1])
    for given in (ROWS, ROWS.tolist(), pd.DataFrame(ROWS, index=range(5, 1005)), sparse.csr_matrix(ROWS)):
        assert row_count(given) == 1000
        taken = take_rows(given, at)
        np.testing.assert_array_equal(taken.toarray() if sparse.issparse(taken) else np.asarray(taken), ROWS[at])
