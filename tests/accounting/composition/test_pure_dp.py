"""Optimal composition of pure DP against enumeration of randomized response."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import pytest

from ostrakon.accounting.composition.pure_dp import pure_dp_epsilon, pure_dp_log_delta


@pytest.mark.parametrize("e", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_delta_is_that_of_composed_randomized_response(e: float, k: int) -> None:
    p = math.exp(e) / (1 + math.exp(e))
    for epsilon in (0.0, 0.3 * e, 0.9 * k * e):
        exact = 0.0
        for bits in itertools.product([p, 1 - p], repeat=k):
            first, second = math.prod(bits), math.prod(1 - b for b in bits)
            exact += max(0.0, first - math.exp(epsilon) * second)
        got = pure_dp_log_delta(e, queries=k, epsilon=epsilon)
        if exact < 1e-15:  # the enumeration itself rounds
            assert got < math.log(1e-14)
        else:
            assert got == pytest.approx(math.log(exact), abs=1e-9)
            assert got >= math.log(exact) - 1e-13


def test_epsilon_is_rounded_upward_and_below_plain_composition() -> None:
    epsilon = pure_dp_epsilon(0.1, queries=1000, delta=1e-5)
    assert pure_dp_log_delta(0.1, queries=1000, epsilon=epsilon) <= math.log(1e-5)
    assert pure_dp_log_delta(0.1, queries=1000, epsilon=epsilon * (1 - 1e-8)) > math.log(1e-5)
    assert pure_dp_epsilon(0.1, queries=3, delta=1e-300) == pytest.approx(0.3, rel=1e-9)
    assert pure_dp_epsilon(0.1, queries=3, delta=1e-300) <= 3 * 0.1


def test_large_counts_against_high_precision() -> None:
    k, e, epsilon = 5000, 0.02, 6.0
    with mp.workdps(50):
        p = mp.exp(mp.mpf(e)) / (1 + mp.exp(mp.mpf(e)))
        exact = mp.mpf(0)
        for i in range(k + 1):
            loss = (2 * i - k) * mp.mpf(e)
            if loss > epsilon:
                exact += mp.binomial(k, i) * p**i * (1 - p) ** (k - i) * (1 - mp.exp(epsilon - loss))
        expected = float(mp.log(exact))
    got = pure_dp_log_delta(e, queries=k, epsilon=epsilon)
    assert expected <= got <= expected + 1e-8
