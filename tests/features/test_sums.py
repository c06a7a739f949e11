"""The features whose sums are released: their length, that rows are their own, and how weights are read."""

import numpy as np
import pytest

from ostrakon.features.moments import CONSTANT
from ostrakon.features.sums import SumMap, quantity_steps
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

RNG = np.random.default_rng(3)
PUBLIC = np.column_stack([RNG.normal(size=(90, 3)), RNG.integers(0, 2, 90), np.ones(90)])
MAP = SumMap.of(PUBLIC)
WILD = np.concatenate([PUBLIC, RNG.normal(size=(200, 5)) * 10.0 ** RNG.integers(-3, 30, (200, 1))])


@pytest.mark.parametrize("linear", [0.01, 0.2, 0.4, 0.6, 0.8])
def test_every_row_has_bounded_length(linear):
    sum_map = SumMap.of(PUBLIC, linear=linear)
    of_linear = sum_map.unrounded(WILD)[:, sum_map.blocks[1]]
    assert np.square(of_linear).sum(axis=1).max() == pytest.approx(linear)
    steps = sum_map.steps(WILD)
    assert np.square(steps).sum(axis=1).max() <= CONSTANT**2
    # Rows at an end of every rank and far from the mean are as long as the bound allows, but for rounding.
    assert np.square(steps).sum(axis=1).max() > 0.96 * CONSTANT**2
    longest = np.square(quantity_steps(steps, np.full(len(steps), STEPS))).sum(axis=1).max()
    assert longest == np.square(steps).sum(axis=1).max()
    assert not quantity_steps(steps, np.full(len(steps), STEPS // 2)).any()


def test_a_row_is_its_own_to_the_last_bit():
    together = MAP.steps(WILD)
    order = np.random.default_rng(1).permutation(len(WILD))
    np.testing.assert_array_equal(MAP.steps(WILD[order]), together[order])
    alone = np.concatenate([MAP.steps(WILD[[row]]) for row in range(0, len(WILD), 29)])
    np.testing.assert_array_equal(alone, together[::29])


def test_ranks_get_waves_where_they_vary_and_once():
    assert MAP.ranked.tolist() == [0, 1, 2]
    doubled = SumMap.of(np.column_stack([PUBLIC, 3 * PUBLIC[:, :1] + 1]))
    assert doubled.ranked.tolist() == [0, 1, 2]
    assert SumMap.of(np.zeros((5, 2))).steps(np.ones((3, 2))).shape == (3, 1 + 2 + 4 * 96)


def test_the_table_holds_all_sums():
    sums = MAP.steps(PUBLIC).sum(axis=0)
    table = MAP.table(sums)
    assert table.shape == (MAP.directions, 2)
    np.testing.assert_allclose(MAP.sums(table / STEPS), MAP.unrounded(PUBLIC).sum(axis=0), atol=len(PUBLIC) / 1000)


def test_features_that_are_not_finite_are_refused():
    with pytest.raises(InvalidInput, match="finite"):
        MAP.steps(np.full((1, 5), np.nan))
    with pytest.raises(InvalidInput, match="finite"):
        SumMap.of(np.zeros((0, 2)))
