"""The nearest query: as in long arithmetic, ties to the earlier one, each row's own whatever the products round."""

import itertools
from fractions import Fraction

import numpy as np
import plain_votes
import pytest

from ostrakon.features import nearest as module
from ostrakon.features.nearest import nearest

RNG = np.random.default_rng(0)


def exactly(rows, queries):
    """By whole fractions: the nearest, and the earlier of those as near."""
    found = []
    for row in rows:
        away = [
            sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(row, q, strict=True)) for q in queries
        ]
        found.append(away.index(min(away)))
    return np.array(found)


def cases():
    """(rows, queries) in which many queries are as near, or nearly so."""
    wide = RNG.normal(size=(60, 7)).astype(np.float32)
    yield "apart", RNG.normal(size=(50, 7)).astype(np.float32), wide
    yield "alike", wide[:50], np.repeat(wide, 3, axis=0)[RNG.permutation(180)]
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), axis=-1).reshape(-1, 3).astype(np.float32)
    yield "ties", np.concatenate([grid + 0.5, grid, grid - 1]), grid[RNG.permutation(27)]
    close = (np.ones((40, 5)) + 1e-4 * RNG.normal(size=(40, 5))).astype(np.float32)
    yield "close", 1 + np.float32(1e-3) * RNG.normal(size=(50, 5)).astype(np.float32), close
    yield "one", wide[:5], wide[:1]
    yield "origin", wide[:5], np.zeros((3, 7), np.float32)


@pytest.mark.parametrize(("rows", "queries"), [case[1:] for case in cases()], ids=[case[0] for case in cases()])
def test_as_in_long_arithmetic_and_as_the_plain_way(rows, queries):
    expected = exactly(rows, queries)
    assert np.array_equal(nearest(rows, queries), expected)
    assert np.array_equal(plain_votes.nearest(rows, queries), expected)


def test_many_rows_as_the_plain_way():
    rows, queries = RNG.normal(size=(5000, 30)).astype(np.float32), RNG.normal(size=(400, 30)).astype(np.float32)
    assert np.array_equal(nearest(rows, queries), plain_votes.nearest(rows, queries))
    words = np.eye(5, dtype=np.float32)
    rows, queries = (words[RNG.integers(0, 5, (count, 4))].reshape(count, -1) for count in (2000, 300))
    assert np.array_equal(nearest(rows, queries), plain_votes.nearest(rows, queries))


@pytest.mark.parametrize("size", [1e-30, 1e15, 1e18, 1e19, 2e19, 1e25, 1e38])
def test_sizes_that_single_numbers_do_not_hold(size):
    rows, queries = (np.float32(size) * RNG.uniform(-1, 1, size=(count, 4)).astype(np.float32) for count in (40, 30))
    assert np.array_equal(nearest(rows, queries), exactly(rows, queries))
    mixed = np.concatenate([rows, RNG.normal(size=(40, 4)).astype(np.float32)])
    assert np.array_equal(nearest(mixed, queries)[:40], nearest(rows, queries))


def test_products_may_round_as_they_like(monkeypatch):
    """Whatever the product gives within its bound, and for whichever rows, the nearest is the same."""
    rows, queries = RNG.normal(size=(500, 30)).astype(np.float32), RNG.normal(size=(200, 30)).astype(np.float32)
    queries = np.concatenate([queries, queries + np.float32(1e-6)])[RNG.permutation(400)]
    before = nearest(rows, queries)
    product = module._Search._near

    def rounded(self, some):
        return product(self, some) + self._error(some)[:, None].astype(np.float32) * RNG.uniform(
            -0.9, 0.9, (len(some), 1)
        )

    def own(self, some):
        worst = self._error(some)[:, None] * RNG.choice([-0.9, 0.9], (len(some), len(self.queries)))
        return product(self, some) + worst.astype(np.float32)

    for other in (rounded, own):
        monkeypatch.setattr(module._Search, "_near", other)
        module._build_search.cache_clear()
        assert np.array_equal(nearest(rows, queries), before)


def test_products_that_break_the_bound_rule_nothing_out(monkeypatch):
    rows, queries = RNG.normal(size=(300, 6)).astype(np.float32), RNG.normal(size=(50, 6)).astype(np.float32)
    before = nearest(rows, queries)
    product = module._Search._near
    monkeypatch.setattr(module._Search, "_near", lambda self, some: product(self, some) + np.arange(50) % 3)
    module._build_search.cache_clear()
    assert np.array_equal(nearest(rows, queries), before)
    monkeypatch.setattr(module._Search, "_respects_bound", lambda self, some: True)
    module._build_search.cache_clear()
    assert not np.array_equal(nearest(rows, queries), before)


def test_the_error_bound_holds_with_room():
    rows, queries = RNG.normal(size=(400, 90)), RNG.normal(size=(300, 90))
    search = module._Search(queries, 1.0)
    off = np.abs(search._near(rows) - (rows @ queries.T - np.square(queries).sum(axis=1) / 2))
    assert (off < search._error(rows)[:, None] / 3).all()
    assert (off > search._error(rows)[:, None] / 1000).any()


def test_sums_that_leave_single_numbers_on_the_way_rule_nothing_out():
    """-3e38 - 3e38 + 3.1e38 + 3.1e38 is above 0, but in single numbers and in this order an infinity below it."""
    queries = np.float32([[0, 0, 0, 0], [-3, -3, 3.1, 3.1], [-3, -3, 3.0, 3.0]]) * np.float32(1e10)
    rows = np.full((20, 4), 1e28, np.float32)
    for order in itertools.permutations(range(4)):
        assert set(nearest(rows, queries[:, order])) == {1} == set(exactly(rows[:1], queries[:, order]))


def test_no_rows():
    assert nearest(np.zeros((0, 3)), np.ones((2, 3))).shape == (0,)
