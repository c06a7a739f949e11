"""The inverse: never where the cost is above its limit, close to where it meets it, and closed to what is no number."""

import math

import numpy as np
import pytest

from ostrakon.numerics.inverse import least, least_of_power, most


class Counted:
    """A cost that remembers where it was asked."""

    def __init__(self, cost):
        self.cost, self.seen = cost, []

    def __call__(self, x):
        self.seen.append(x)
        return self.cost(x)


@pytest.mark.parametrize("seed", range(40))
def test_least_is_within_its_limit_and_within_its_tolerance(seed):
    rng = np.random.default_rng(seed)
    root, power, start = 10.0 ** rng.uniform(-6, 6), rng.uniform(0.2, 5), 10.0 ** rng.uniform(-3, 3)
    tolerance = 10.0 ** rng.uniform(-13, -1)
    cost = Counted(lambda x: math.inf if x == 0 else (root / x) ** power)
    found = least(cost, 1.0, start=start, tolerance=tolerance)
    assert cost.cost(found) <= 1.0
    assert found in cost.seen
    assert found * (1 - tolerance) <= root <= found * (1 + 1e-15)
    assert 0.0 not in cost.seen


def test_to_the_last_bit():
    found = least(lambda x: 0.0 if x >= math.pi else 1.0, 0.5, start=1.0, tolerance=0.0)
    assert found == math.pi


@pytest.mark.parametrize("seed", range(40))
def test_least_of_a_power_is_within_its_limit_and_within_its_tolerance(seed):
    rng = np.random.default_rng(seed)
    root, power, limit = 10.0 ** rng.uniform(-3, 3), rng.uniform(0.5, 2.5), 10.0 ** rng.uniform(-2, 2)
    bend = rng.uniform(0, 0.3)
    cost = Counted(lambda x: limit * ((root / x) ** power * (1 + bend * math.tanh(math.log(root / x)))))
    found = least_of_power(cost, limit, tolerance=4e-4, growth=4, nearest=1e-9, furthest=1e9)
    assert cost.cost(found) <= limit
    assert found in cost.seen
    assert found / (1 + 4e-4) <= root <= found * (1 + 1e-15)
    assert len(cost.seen) < 20 if bend == 0 else len(cost.seen) < 40


def test_false_position_saves_evaluations():
    cost = Counted(lambda x: (17.3 / x) ** 1.1)
    least_of_power(cost, 1.0, tolerance=4e-4, growth=4, nearest=1e-9, furthest=1e9)
    assert len(cost.seen) <= 8  # three to bracket 17.3 between 16 and 64; a bisection would take twelve more


def test_a_step_is_found_however_the_cost_stalls():
    cost = Counted(lambda x: 2.0 if x < 5 else 1e-9)
    found = least_of_power(cost, 1.0, tolerance=1e-3, growth=4, nearest=1e-9, furthest=1e9)
    assert 5 <= found <= 5 * (1 + 1e-3)
    assert len(cost.seen) < 60


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_cannot_be_computed_is_above_every_limit(wrong):
    assert least(lambda x: wrong, 1.0, start=1.0, tolerance=1e-9) == math.inf
    assert least(lambda x: wrong if x < 30 else 0.0, 1.0, start=1.0, tolerance=1e-9) == pytest.approx(30, rel=1e-9)
    assert least(lambda x: wrong if x < 30 else 0.0, 1.0, start=1.0, tolerance=1e-9) >= 30
    shape = {"tolerance": 1e-4, "growth": 4, "nearest": 1e-9, "furthest": 1e9}
    assert least_of_power(lambda x: wrong, 1.0, **shape) == math.inf
    found = least_of_power(lambda x: wrong if x < 30 else 1 / x, 1.0, **shape)
    assert 30 <= found <= 30 * (1 + 1e-4)
    # Also where the bracket is sought below the start.
    found = least_of_power(lambda x: wrong if x < 0.01 else 1e-3 / x, 1.0, **shape)
    assert 0.01 <= found <= 0.01 * (1 + 1e-4)


def test_a_nan_amid_good_numbers_is_never_the_result():
    def cost(x):
        return math.nan if 3 <= x < 4 else 1 / x

    found = least(cost, 1 / 2, start=1.0, tolerance=1e-12)
    assert cost(found) <= 1 / 2


def test_the_ends_of_the_search():
    assert least(lambda x: 1 / x, 0.5, start=1.0, tolerance=1e-9, furthest=1.9) == math.inf
    assert least(lambda x: 1 / x, 0.5, start=1.0, tolerance=1e-9, furthest=2.0) == 2.0
    shape = {"tolerance": 1e-4, "growth": 4}
    assert least_of_power(lambda x: 1 / x, 0.1, **shape, nearest=0.1, furthest=9.9) == math.inf
    assert least_of_power(lambda x: 1 / x, 0.1, **shape, nearest=0.1, furthest=10.0) == 10.0
    assert least_of_power(lambda x: 1 / x, 20, **shape, nearest=0.1, furthest=9) == 0.0
    assert least_of_power(lambda x: 1 / x, 8, **shape, nearest=0.1, furthest=9) == pytest.approx(0.125, rel=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_most_is_the_last_that_holds(seed):
    rng = np.random.default_rng(seed)
    low, last, below = np.sort(rng.integers(0, 1000, size=3)).tolist()
    below = max(below, low + 1)
    asked = []

    def holds(n):
        asked.append(n)
        return n <= last

    assert most(holds, at_least=low, below=below) == min(max(low, last), below - 1)
    assert all(low < n < below for n in asked)
    assert len(asked) <= 10
