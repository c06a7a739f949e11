"""No epsilon and no delta is below the true one, by high-precision arithmetic over the whole range of parameters."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_delta, gaussian_dp_epsilon
from ostrakon.accounting.composition.pure_dp import MOST_SUMMED, pure_dp_epsilon
from ostrakon.accounting.composition.rdp_to_delta import renyi_delta
from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.accounting.data_independent.argmax_rdp import argmax_rdp
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.epsilons import Gated
from ostrakon.accounting.gate.gate import compose
from ostrakon.accounting.rdp import Curve
from ostrakon.mechanisms import BoundedGNMax, GNMax, RunCost

DELTAS = [1e-300, 1e-100, 1e-30, 1e-12, 1e-5, 0.1, 0.5, 0.999]


def some_delta(rng: np.random.Generator) -> float:
    if rng.random() < 0.5:
        return float(rng.choice(DELTAS))
    return float(10.0 ** rng.uniform(-300, 0))


def exact_gaussian_log_delta(mu: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    high = mu / 2 - epsilon / mu
    return mp.log(mp.ncdf(high) - mp.exp(epsilon) * mp.ncdf(high - mu))


@pytest.mark.parametrize("seed", range(60))
def test_gaussian_runs_of_any_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, sigma, delta = int(10 ** rng.uniform(0, 15)), 10.0 ** rng.uniform(-3, 9), some_delta(rng)
    with mp.workdps(120):
        # The mechanism's own numbers, exactly: mu as floats make it would hide what they round.
        mu = mp.sqrt(2 * queries) / mp.mpf(sigma)
        epsilon = run_epsilon(
            BoundedGNMax(sigma2=sigma, max_contributions=queries).run_cost(queries=queries), delta=delta
        )
        assert exact_gaussian_log_delta(mu, mp.mpf(epsilon)) <= mp.log(delta)
        if epsilon > 0 and mu < 1e5:
            assert exact_gaussian_log_delta(mu, mp.mpf(epsilon) * (1 - mp.mpf(1e-8))) > mp.log(delta)


@pytest.mark.parametrize("seed", range(60))
def test_gaussian_deltas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mu, z = 10.0 ** rng.uniform(-6, 6), rng.uniform(-1, 36)
    epsilon = max(0.0, mu * mu / 2 + z * mu)
    with mp.workdps(120):
        exact = mp.exp(exact_gaussian_log_delta(mp.mpf(mu), mp.mpf(epsilon)))
        got = gaussian_dp_delta(mu, epsilon)
        assert got >= exact
        if mu < 1e4:
            assert got <= max(exact * (1 + mp.mpf(1e-8)), 1e-300)
    assert gaussian_dp_delta(0.1, 100.0) > 0  # 1e-200,000 is no 0


def exact_pure_log_delta(e: mp.mpf, k: int, epsilon: mp.mpf) -> mp.mpf:
    p = 1 / (1 + mp.exp(-e))
    total = mp.mpf(0)
    for i in range(k, -1, -1):
        loss = (2 * i - k) * e
        if loss <= epsilon:
            break
        total += mp.binomial(k, i) * p**i * (1 - p) ** (k - i) * (1 - mp.exp(epsilon - loss))
    return mp.log(total) if total > 0 else -mp.inf


@pytest.mark.parametrize("seed", range(50))
def test_pure_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    e, k, delta = 10.0 ** rng.uniform(-9, 2.5), int(10 ** rng.uniform(0, 2.5)), some_delta(rng)
    epsilon = pure_dp_epsilon(e, queries=k, delta=delta)
    with mp.workdps(100):
        assert exact_pure_log_delta(mp.mpf(e), k, mp.mpf(epsilon)) <= mp.log(delta)
        if epsilon > 0:
            less = mp.mpf(epsilon) * (1 - mp.mpf(1e-8))
            assert exact_pure_log_delta(mp.mpf(e), k, less) > mp.log(delta) - mp.mpf(1e-8)
    assert Fraction(epsilon) <= k * Fraction(e) or epsilon == math.nextafter(float(k * Fraction(e)), math.inf) or (
        epsilon == float(k * Fraction(e))
    )  # fmt: skip


def test_the_pure_run_that_was_one_ulp_below() -> None:
    epsilon = pure_dp_epsilon(0.3, queries=17, delta=1e-30)
    with mp.workdps(100):
        assert exact_pure_log_delta(mp.mpf(0.3), 17, mp.mpf(epsilon)) <= mp.log(mp.mpf("1e-30"))
    # At so small a delta nothing is saved on plain addition, which floats round down to 5.1.
    assert epsilon == math.nextafter(17 * 0.3, math.inf)


@pytest.mark.parametrize(
    ("queries", "total"),
    [(MOST_SUMMED, 1.0), *((k, total) for k in (MOST_SUMMED + 1, 10**9, 10**15) for total in (1e-9, 0.01, 1.0, 10.0))],
)
def test_pure_runs_beyond_summing(queries: int, total: float) -> None:
    # Together they are nearly Gaussian: the exact epsilon of that limit, but for its third moment.
    e = total / math.sqrt(queries)
    for delta in (1e-12, 0.3):
        epsilon = pure_dp_epsilon(e, queries=queries, delta=delta)
        limit = gaussian_dp_epsilon(total, delta)
        assert limit * (1 - 1e-4) - 5 * e <= epsilon
        assert epsilon <= queries * e * (1 + 1e-15)
        if queries > MOST_SUMMED and limit > 1e-3:
            assert epsilon <= 1.5 * limit + 0.6 * total


def test_more_queries_never_cost_less() -> None:
    ks = [MOST_SUMMED, MOST_SUMMED + 1, 2 * MOST_SUMMED, 10**9, 10**12, 10**15]
    costs = [pure_dp_epsilon(1e-3, queries=k, delta=1e-6) for k in ks]
    assert costs == sorted(costs)


@pytest.mark.parametrize("seed", range(60))
def test_conversions_from_renyi(seed: int) -> None:
    rng = np.random.default_rng(seed)
    order, cost, delta = 1 + 10.0 ** rng.uniform(-3, 5), 10.0 ** rng.uniform(-12, 5), some_delta(rng)
    with mp.workdps(80):
        a, r, d = mp.mpf(order), mp.mpf(cost), mp.mpf(delta)
        exact = {
            "cks": r + mp.log(1 - 1 / a) - (mp.log(d) + mp.log(a)) / (a - 1),
            "mironov": r - mp.log(d) / (a - 1),
        }
        for conversion, expected in exact.items():
            got, _ = Curve(np.array([order]), np.array([cost])).epsilon(delta=delta, conversion=conversion)
            assert got >= expected
            assert got <= max(expected + mp.mpf(1e-13) * (r + abs(mp.log(d) + mp.log(a)) / (a - 1) + 1), 0)


@pytest.mark.parametrize("seed", range(40))
def test_renyi_delta_is_above_every_pair_of_two_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = 1 + 10.0 ** rng.uniform(-1, 2)
    with mp.workdps(60):
        a = mp.mpf(order)
        p, q = (mp.mpf(x) for x in rng.beta(0.5, 0.5, size=2))

        def divergence(p: mp.mpf, q: mp.mpf) -> mp.mpf:
            return mp.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)

        cost = max(divergence(p, q), divergence(q, p))
        for epsilon in rng.normal(size=5) * 3:
            exact = max(p - mp.exp(epsilon) * q, (1 - p) - mp.exp(epsilon) * (1 - q), mp.mpf(0))
            got = renyi_delta(np.array([math.nextafter(float(cost), math.inf)]), np.array([epsilon]), order)[0]
            assert got >= exact


def test_runs_and_batches_add_upward() -> None:
    run = RunCost(epsilon=0.1, checks=3, failure=1e-6)
    assert Fraction(run_epsilon(run, delta=1e-6)) >= 3 * Fraction(0.1)
    batches = [Gated(epsilon=e, delta=d, levels=((0.9, 8.0, 0.5),)) for e, d in ((0.1, 1e-7), (0.2, 2e-7), (0.3, 1e-9))]
    epsilon, delta = compose(*batches)
    assert Fraction(epsilon) >= Fraction(0.1) + Fraction(0.2) + Fraction(0.3)
    assert Fraction(delta) >= Fraction(1e-7) + Fraction(2e-7) + Fraction(1e-9)
    assert compose() == (0.0, 0.0)


def exact_label_cost(mu: float, a: float, t: float, c0: float | None) -> mp.mpf:
    """D_a of the outcome {T <= -c, |T| < c, T >= c} at c ~ N(c0, 1), the sign of T where c <= 0; None: always c = 0."""
    with mp.workdps(60):
        m, order, at = mp.mpf(mu), mp.mpf(a), mp.mpf(t)

        def excess(c: mp.mpf) -> mp.mpf:
            total = mp.mpf(0)
            for p, q in [
                (mp.ncdf(-c - at), mp.ncdf(-c - at - m)),
                (mp.ncdf(at - c), mp.ncdf(at + m - c)),
                (mp.ncdf(c - at) - mp.ncdf(-c - at), mp.ncdf(c - at - m) - mp.ncdf(-c - at - m)),
            ]:
                if q > 0:
                    total += q * ((p / q) ** order - 1 - order * (p / q - 1))
            return total

        if c0 is None:
            return mp.log(1 + excess(mp.mpf(0))) / (order - 1)
        mean = mp.ncdf(-c0) * excess(mp.mpf(0)) + mp.quad(lambda c: mp.npdf(c, c0, 1) * excess(c), [0, 2, 4, 12])
        return mp.log(1 + mean) / (order - 1)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [1e-12, 2e-9, 1.4e-7, 1e-5, 1e-3, 0.05])
@pytest.mark.parametrize("order", [1.05, 4.0, 300.0])
def test_labels_never_cost_less_than_votes_that_there_are(mu: float, order: float) -> None:
    two, three = (argmax_rdp(mu, [order], classes=m)[0] for m in (2, 3))
    for t in (-mu / 2, 0.1 - order * mu / 2, -order * mu):
        assert two >= exact_label_cost(mu, order, t, None)
    assert two <= exact_label_cost(mu, order, -mu / 2, None) * mp.mpf(1 + 3e-6) or order * mu > 0.003
    # About where the supremum lies while order * mu is small.
    assert three >= exact_label_cost(mu, order, 0.0, 1.05)


@pytest.mark.parametrize("classes", [2, 3, 100])
def test_small_costs_of_labels_are_their_limit(classes: int) -> None:
    ratio = argmax_rdp(1e-3, [1.05, 2.0, 9.0], classes=classes) / 1e-6
    for mu in (1e-4, 1.4e-7, 1e-10, 1e-30):
        assert argmax_rdp(mu, [1.05, 2.0, 9.0], classes=classes) / mu**2 == pytest.approx(ratio, rel=2e-6)


def test_labels_cost_more_with_less_noise_with_the_order_and_with_classes() -> None:
    orders = np.array([1.05, 1.5, 3.0, 20.0, 200.0, 1000.0])
    noises = np.geomspace(1e-12, 10, 14)
    two, three = (np.array([argmax_rdp(mu, orders, classes=m) for mu in noises]) for m in (2, 3))
    for costs in (two, three):
        assert (np.diff(costs, axis=0) > 0).all()
        assert (np.diff(costs, axis=1) > 0).all()
        assert (costs <= orders * noises[:, None] ** 2 / 2).all()
    assert (three >= two).all()


def test_many_queries_under_much_noise() -> None:
    shape = {"queries": 10**14, "delta": 1e-5}
    two, three, ten = (worst_case(GNMax(sigma2=1e7), classes=m, **shape).epsilon for m in (2, 3, 10))
    assert two < three == ten
    # 10^14 queries at 1e7 cost what 100 queries at 10 do, but for what is second order in mu.
    assert three == pytest.approx(worst_case(GNMax(sigma2=1e6), queries=10**12, delta=1e-5).epsilon, rel=1e-6)
    more = worst_case(GNMax(sigma2=1e7), queries=10**14 + 10**10, delta=1e-5).epsilon
    less = worst_case(GNMax(sigma2=1.0001e7), queries=10**14, delta=1e-5).epsilon
    assert less < three < more
