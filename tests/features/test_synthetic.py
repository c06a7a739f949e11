"""Rows from noisy marginals: near what was measured, the same for a seed, and nothing else in the process is moved."""

import importlib.util
import sys

import numpy as np
import pytest

from ostrakon.features.synthetic import of_one_column, require_mbi, synthetic_cells, tables_of, tree
from ostrakon.validation import InvalidInput

with_mbi = pytest.mark.skipif(importlib.util.find_spec("mbi") is None, reason="needs the extra synthetic")

SIZES = (2, 3, 2)
CELLS = np.array([[0, 0, 0]] * 45 + [[0, 1, 0]] * 5 + [[1, 2, 1]] * 40 + [[1, 1, 0]] * 10)
TABLES = tables_of(SIZES)


def measured(noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    exact = [np.zeros([SIZES[column] for column in table]) for table in TABLES]
    for table, cells in zip(TABLES, exact, strict=True):
        np.add.at(cells, tuple(CELLS[:, column] for column in table), 1)
    return [cells + noise * rng.normal(size=cells.shape) for cells in exact]


def drawn(seed, rows=2000):
    return synthetic_cells(measured(), TABLES, sizes=SIZES, noise=0.1, units=100, rows=rows, seed=seed)


def test_which_marginals_follows_from_public_sizes():
    assert TABLES == ((0, 1), (0, 2), (1, 2))
    assert tables_of([100, 101, 5]) == ((0, 2), (1, 2))
    assert tables_of([2] * 41) == tuple((column,) for column in range(41))
    assert len(tables_of([2] * 40)) == 40 * 39 // 2
    assert tables_of([7]) == ((0,),)


def test_the_most_dependent_columns_are_joined_without_a_circle():
    found = dict(zip(TABLES, measured(), strict=True))
    # Columns 1 and 2: 45 of 100 rows decide both; 0 and 1 too; 0 and 2 less.
    assert sorted(tree(found, 0.0, 100)) == [(0, 1), (1, 2)]
    assert sorted(tree(found, 50.0, 100)) in ([(0, 1), (0, 2)], [(0, 1), (1, 2)], [(0, 2), (1, 2)])
    assert tree({(0,): np.array([1.0, 2.0])}, 0.1, 3) == []


def test_a_column_is_what_all_its_tables_say_weighed_by_their_noise():
    noise = 3.0
    cells, deviation = of_one_column(dict(zip(TABLES, measured(), strict=True)), 0, noise)
    assert cells.tolist() == [50, 50]
    # Sums of three and of two cells: variances 3 and 2 times that of a cell.
    assert deviation == pytest.approx(noise / (1 / 3 + 1 / 2) ** 0.5)
    spread = [
        of_one_column(dict(zip(TABLES, measured(noise, seed), strict=True)), 0, noise)[0][0] for seed in range(4000)
    ]
    assert np.std(spread) == pytest.approx(deviation, rel=0.06)


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(InvalidInput, match=r"A synthetic public pool needs mbi: pip install 'ostrakon\[synthetic\]'"):
        require_mbi()


@with_mbi
def test_rows_have_the_marginals_that_were_measured():
    cells = drawn(0)
    assert cells.shape == (2000, 3)
    for pair, there in zip(TABLES, measured(), strict=True):
        if pair != (0, 2):
            bins = [np.arange(SIZES[column] + 1) for column in pair]
            here = np.histogram2d(cells[:, pair[0]], cells[:, pair[1]], bins=bins)[0] / 20
            np.testing.assert_allclose(here, there, atol=1.5)


@pytest.mark.slow
@with_mbi
def test_the_seed_alone_decides_and_numpy_is_left_as_it_was():
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    first = drawn(1)
    after = np.random.get_state()  # noqa: NPY002
    assert before[2:] == after[2:]
    np.testing.assert_array_equal(before[1], after[1])
    np.testing.assert_array_equal(first, drawn(1))
    assert (first != drawn(2)).any()
    assert "jax" not in sys.modules, "its threads are no business of this process"
