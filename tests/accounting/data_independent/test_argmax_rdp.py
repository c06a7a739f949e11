"""What a label alone can cost: never below any true law, and reached where it claims to be exact."""

import math

import numpy as np
import pytest
from histograms import data_dependent_cost

from ostrakon.accounting.data_dependent.exact import data_dependent_costs
from ostrakon.accounting.data_independent.argmax_rdp import argmax_rdp
from ostrakon.accounting.data_independent.supremum import two_class_costs
from ostrakon.mechanisms import GNMax
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

# Of many classes there are many histograms.
SHAPES = [(8, 2), (7, 3), *(pytest.param(*shape, marks=pytest.mark.slow) for shape in [(6, 4), (5, 5)])]
ORDERS = np.array([1.1, 2.0, 6.0, 20.0, 80.0])


@pytest.mark.parametrize("sigma", [0.8, 2.0, 6.0])
@pytest.mark.parametrize(("teachers", "classes"), SHAPES)
@pytest.mark.parametrize("abstentions", [False, True])
def test_no_small_histogram_costs_more(sigma: float, teachers: int, classes: int, abstentions: bool) -> None:
    bound = argmax_rdp(math.sqrt(2) / sigma, ORDERS, classes=classes)
    for a, most in zip(ORDERS, bound, strict=True):
        exact = data_dependent_cost(GNMax(sigma2=sigma), teachers, classes, float(a), abstentions=abstentions)
        assert max(exact.values()) <= most * (1 + 1e-9)


@pytest.mark.parametrize("classes", [3, 4, 8, 40])
def test_no_close_race_among_many_classes_costs_more(classes: int) -> None:
    # Ties, near ties, a winner just above a tie of two: where the wide search found the largest costs.
    sigma, rng = 30.0, np.random.default_rng(6)
    rows = [
        np.full(classes, 100),
        np.r_[130, 130, np.full(classes - 2, 100)],
        np.r_[110, 100, 100, np.full(classes - 3, 0)],
    ]
    rows += [np.r_[100, 100, np.full(classes - 2, level)] for level in range(0, 130, 10)]
    rows += [
        np.r_[100, 100 - gap, np.full(classes - 2, 100 + level)] for gap in (5, 20, 50) for level in (-60, -30, 0, 15)
    ]
    rows += [rng.integers(60, 140, size=classes) for _ in range(20)]
    counts = np.array(rows)
    teachers = int(counts.sum(axis=1).max())
    found = data_dependent_costs(Votes(counts, teachers=teachers, abstentions=True), GNMax(sigma2=sigma), ORDERS).max(
        axis=0
    )
    bound = argmax_rdp(math.sqrt(2) / sigma, ORDERS, classes=classes)
    assert (found <= bound * (1 + 1e-9)).all()
    # The bound is not far from what a tie of two reaches.
    assert (found >= 0.85 * bound)[:4].all()


@pytest.mark.parametrize("sigma", [10.0, 40.0])
def test_two_classes_reach_it(sigma: float) -> None:
    bound = argmax_rdp(math.sqrt(2) / sigma, ORDERS, classes=2)
    reached = two_class_costs(GNMax(sigma2=sigma), ORDERS, teachers=2000).max(axis=1)
    assert (reached <= bound * (1 + 2e-9)).all()
    # Integer votes cannot tie as finely as real ones.
    assert (reached >= bound * (1 - 0.01)).all()


def test_constants_of_small_costs() -> None:
    mu = 1e-3
    full = 4.0 * mu**2 / 2
    assert argmax_rdp(mu, [4.0], classes=2)[0] / full == pytest.approx(2 / math.pi, rel=1e-4)
    assert argmax_rdp(mu, [4.0], classes=3)[0] / full == pytest.approx(0.6602, abs=2e-4)
    assert argmax_rdp(mu, [4.0], classes=3)[0] == argmax_rdp(mu, [4.0], classes=900)[0]


def test_never_above_the_noisy_histogram_nor_below_two_classes() -> None:
    for mu in (1e-4, 0.05, 1.0, 30.0):
        orders = np.array([1.01, 3.0, 50.0, 1000.0])
        two, more = (argmax_rdp(mu, orders, classes=m) for m in (2, 3))
        assert (two <= more * (1 + 1e-5)).all()
        assert (more <= orders * mu**2 / 2).all()
        assert np.isfinite(more).all()


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_bad_input_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInput):
        argmax_rdp(bad, [2.0], classes=3)
    with pytest.raises(InvalidInput):
        argmax_rdp(0.1, [2.0], classes=bad)
