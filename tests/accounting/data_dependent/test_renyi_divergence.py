"""The cost of one move from log ratios, against mpmath at every scale of exponent."""

import math

import mpmath as mp
import numpy as np
import pytest

from ostrakon.accounting.data_dependent.renyi_divergence import both_divergences, both_excesses, excess, label_bound

ORDERS = np.array([1.01, 2.0, 30.0, 1000.0])


@pytest.mark.parametrize("y", [1e-300, 1e-20, 1e-8, 1e-3, 0.1, 0.3999, 0.4, 0.41, 1.0, 30.0, 600.0])
def test_excess_keeps_its_relative_accuracy(y: float):
    for value in (y, -y):
        with mp.workdps(700):
            true = mp.exp(mp.mpf(value)) - 1 - mp.mpf(value)
            assert excess(value) == pytest.approx(float(true), rel=3e-14)
    assert both_excesses(y) == pytest.approx((excess(y), excess(-y)), rel=3e-14)


def true_cost(p: list[mp.mpf], q: list[mp.mpf], a: float) -> mp.mpf:
    a = mp.mpf(a)
    return max(
        mp.log(sum(x**a * y ** (1 - a) for x, y in zip(u, v, strict=True))) / (a - 1) for u, v in ((p, q), (q, p))
    )


@pytest.mark.parametrize(
    ("rare", "ratio"),
    [(1e-2, 0.3), (1e-9, -0.2), (1e-30, 1.0), (1e-30, 30.0), (1e-200, 5.0), (1e-200, -40.0), (0.4, 0.5), (1e-6, -9.0)],
)
def test_two_outcomes_against_mpmath(rare: float, ratio: float):
    with mp.workdps(900):
        p, q = mp.mpf(rare), mp.mpf(rare) * mp.exp(mp.mpf(ratio))
        laws = [[1 - p, p], [1 - q, q]]
        logs = [np.array([[float(mp.log(v)) for v in law]]) for law in laws]
        found = both_divergences(logs[0], logs[1], ORDERS)[0]
        swapped = both_divergences(logs[1], logs[0], ORDERS)[0]
        for value, other, order in zip(found, swapped, ORDERS, strict=True):
            true = true_cost(*laws, order)
            # Errors of 1e-12 in the laws are charged: at most their own cost, and relative to the ratio's.
            allowed = true * (1 + mp.mpf(10) ** -9) + mp.mpf(10) ** -18
            for cost in (value, other):
                assert true * (1 - mp.mpf(10) ** -14) <= cost <= allowed


@pytest.mark.slow
def test_random_laws_are_never_undercut():
    rng = np.random.default_rng(0)
    for scale in (0.01, 1.0, 20.0, 100.0):
        logs = rng.normal(scale=scale, size=(2, 20, 6))
        logs -= np.logaddexp.reduce(logs, axis=2, keepdims=True)
        found = both_divergences(logs[0], logs[1], ORDERS)
        for p, q, row in zip(*logs, found, strict=True):
            with mp.workdps(600):
                laws = [[mp.exp(mp.mpf(float(v))) for v in law] for law in (p, q)]
                # Rounded logarithms do not quite sum to 1; the cost assumes that they do.
                laws = [[v / sum(law) for v in law] for law in laws]
                for value, order in zip(row, ORDERS, strict=True):
                    true = true_cost(*laws, order)
                    assert true * (1 - mp.mpf(10) ** -12) <= value <= true * (1 + mp.mpf(10) ** -9) + mp.mpf(10) ** -18


def test_impossible_outcomes_cost_everything_and_nan_is_no_discount():
    certain = np.array([[0.0, -math.inf]])
    likely = np.array([[math.log(0.5), math.log(0.5)]])
    assert (both_divergences(certain, likely, ORDERS) == math.inf).all()
    assert (both_divergences(likely, certain, ORDERS) == math.inf).all()
    # Two laws whose numbers agree may still differ by what rounding hides: that is charged.
    assert (both_divergences(certain, certain, ORDERS) < 1e-20).all()
    unknown = np.array([[math.nan, 0.0]])
    assert (both_divergences(unknown, likely, ORDERS) == math.inf).all()


def test_the_bound_that_skips_moves_is_one():
    rng = np.random.default_rng(1)
    for scale in (1e-4, 0.05, 1.0):
        logs = rng.normal(scale=scale, size=(2, 200, 5))
        logs -= np.logaddexp.reduce(logs, axis=2, keepdims=True)
        x = logs[1] - logs[0]
        second, largest = (np.exp(logs[0]) * x**2).sum(axis=1), np.abs(x).max(axis=1)
        costs = both_divergences(logs[0], logs[1], ORDERS)
        for k, order in enumerate(ORDERS):
            for row in range(200):
                if costs[row, k] * (order - 1) < 600:
                    bound = label_bound(second[row], largest[row], order - 1)
                    assert math.expm1(costs[row, k] * (order - 1)) <= bound * (1 + 1e-9) + 1e-13
