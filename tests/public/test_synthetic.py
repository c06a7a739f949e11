"""Rows from noisy marginals: near what was measured, the same for a seed, and nothing else in the process is moved."""

import sys

import numpy as np
import pytest

from ostrakon.public.synthetic import require_mbi, synthetic_cells
from ostrakon.validation import InvalidInput

SIZES, TABLES = (2, 3, 2), ((0, 2), (1, 2))
NOISY = [np.array([[30.0, 10.0], [5.0, 55.0]]), np.array([[30.0, 5.0], [5.0, 65.0], [-1.5, -3.0]])]


def drawn(seed, rows=2000):
    return synthetic_cells(NOISY, TABLES, sizes=SIZES, units=100, rows=rows, seed=seed)


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(InvalidInput, match=r"A synthetic public pool needs mbi: pip install 'ostrakon\[synthetic\]'"):
        require_mbi()


def test_rows_have_the_marginals_that_were_measured():
    pytest.importorskip("mbi")
    cells = drawn(0)
    assert cells.shape == (2000, 3)
    first, second = (
        np.histogram2d(cells[:, at], cells[:, 2], bins=(np.arange(size + 1), np.arange(3)))[0] / 20
        for at, size in ((0, 2), (1, 3))
    )
    np.testing.assert_allclose(first, NOISY[0], atol=4)
    np.testing.assert_allclose(second, np.maximum(NOISY[1], 0), atol=4)


def test_the_seed_alone_decides_and_numpy_is_left_as_it_was():
    pytest.importorskip("mbi")
    drawn(0, rows=5)
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    first = drawn(1)
    after = np.random.get_state()  # noqa: NPY002
    assert before[2:] == after[2:]
    np.testing.assert_array_equal(before[1], after[1])
    np.testing.assert_array_equal(first, drawn(1))
    assert (first != drawn(2)).any()
    import jax

    assert not jax.config.jax_enable_x64
