"""Optimal composition of pure DP against enumeration of randomized response."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from ostrakon.accounting.composition.pure_dp import _BEYOND, MOST_SUMMED, _log_delta, pure_dp_epsilon
from ostrakon.validation import InvalidInput


@pytest.mark.parametrize("e", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_delta_is_that_of_composed_randomized_response(e: float, k: int) -> None:
    p = math.exp(e) / (1 + math.exp(e))
    for epsilon in (0.0, 0.3 * e, 0.9 * k * e):
        exact = 0.0
        for bits in itertools.product([p, 1 - p], repeat=k):
            first, second = math.prod(bits), math.prod(1 - b for b in bits)
            exact += max(0.0, first - math.exp(epsilon) * second)
        got = _log_delta(e, k)(epsilon)
        if exact < 1e-15:  # the enumeration itself rounds
            assert got < math.log(1e-14)
        else:
            assert got == pytest.approx(math.log(exact), abs=1e-9)
            assert got >= math.log(exact) - 1e-13


def test_epsilon_is_rounded_upward_and_below_plain_composition() -> None:
    epsilon = pure_dp_epsilon(0.1, queries=1000, delta=1e-5)
    assert _log_delta(0.1, 1000)(epsilon) <= math.log(1e-5)
    assert _log_delta(0.1, 1000)(epsilon * (1 - 1e-8)) > math.log(1e-5)
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
    got = _log_delta(e, k)(epsilon)
    assert expected <= got <= expected + 1e-8


@pytest.mark.parametrize("e", [0.01, 0.5, 5.0, 30.0])
@pytest.mark.parametrize("k", [1000, 99_991, 700_001, MOST_SUMMED])
def test_few_terms_of_many_queries_against_high_precision(k: int, e: float) -> None:
    # The binomials are differences of logarithms near 1e7: what doubles lose there is charged.
    for terms in (1, 2, 5, 20):
        epsilon = (k - 2 * terms + 0.5) * e
        with mp.workdps(50):
            p = 1 / (1 + mp.exp(-mp.mpf(e)))
            exact = mp.mpf(0)
            for i in range(k - terms + 1, k + 1):
                gained = 1 - mp.exp(mp.mpf(epsilon) - (2 * i - k) * mp.mpf(e))
                exact += mp.binomial(k, k - i) * p**i * (1 - p) ** (k - i) * gained
            exact = mp.log(exact)
        got = _log_delta(e, k)(epsilon)
        assert exact <= got <= exact + 1e-9 + 4e-15 * k * (math.log(k + 1) + e)


def test_answers_that_are_certain() -> None:
    # e^-800 is 0 in doubles: the first answer tells all.
    assert 0 <= _log_delta(800.0, 3)(1.0) <= 1e-9


def test_the_last_number_of_queries_that_is_summed() -> None:
    epsilon = pure_dp_epsilon(1e-3, queries=MOST_SUMMED, delta=1e-5)
    assert _log_delta(1e-3, MOST_SUMMED)(epsilon * (1 - 1e-8)) > math.log(1e-5)


@pytest.mark.parametrize(("e", "k"), [(1e-3, 10**7), (0.1, 10**8)])
def test_beyond_the_sum_rounding_goes_up(e: float, k: int) -> None:
    with mp.workdps(60):
        reached = []
        for order in _BEYOND:
            a = mp.mpf(order)
            cost = k * (mp.log(mp.sinh(a * e) - mp.sinh((a - 1) * e)) - mp.log(mp.sinh(e))) / (a - 1)
            reached.append(cost + mp.log1p(-1 / a) - (mp.log(mp.mpf("1e-6")) + mp.log(a)) / (a - 1))
    assert min(reached) <= pure_dp_epsilon(e, queries=k, delta=1e-6) <= min(reached) * (1 + 1e-8)


@pytest.mark.parametrize("delta", [1e-3, 1e-12])
@pytest.mark.parametrize(
    ("e", "k"), [(1e-8, 10**7), (1e-4, MOST_SUMMED + 1), (0.01, 10**9), (1.0, 10**7), (3.0, 10**12)]
)
def test_beyond_the_sum_it_is_the_best_of_all_orders(e: float, k: int, delta: float) -> None:
    a = 1 + np.geomspace(1e-9, 1e13, 401)
    # The divergence of randomized response, and the conversion of Canonne, Kamath and Steinke, written out once more.
    with mp.workdps(60):
        costs = [k * (mp.log(mp.sinh(x * e) - mp.sinh((x - 1) * e)) - mp.log(mp.sinh(e))) / (x - 1) for x in a]
    reached = np.array(costs, float) + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
    best = min(k * e, max(0.0, float(reached.min())))
    got = pure_dp_epsilon(e, queries=k, delta=delta)
    assert got >= best * (1 - 5e-3)
    assert got <= best * (1 + 1e-3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, True, "1", None])
def test_bad_numbers_are_refused_by_name(bad):
    with pytest.raises(InvalidInput, match=r"^epsilon_per_query must"):
        pure_dp_epsilon(bad, queries=3, delta=1e-5)
    with pytest.raises(InvalidInput, match=r"^delta must"):
        pure_dp_epsilon(0.1, queries=3, delta=bad)
    with pytest.raises(InvalidInput, match=r"^queries must"):
        pure_dp_epsilon(0.1, queries=bad, delta=1e-5)


def test_one_query_and_what_delta_pays_for_alone() -> None:
    # Randomized response: delta = p - e^epsilon (1 - p).
    p = math.exp(0.5) / (1 + math.exp(0.5))
    assert pure_dp_epsilon(0.5, queries=1, delta=0.01) == pytest.approx(math.log((p - 0.01) / (1 - p)), rel=1e-8)
    assert pure_dp_epsilon(1e-9, queries=1, delta=0.5) == 0.0


def test_no_query_is_refused():
    with pytest.raises(InvalidInput, match=r"^queries must"):
        pure_dp_epsilon(0.1, queries=0, delta=1e-5)
