"""The papers' bounds against arbitrary-precision arithmetic, brute force over neighbours, and each other."""

import itertools

import mpmath as mp
import numpy as np
import pytest

from ostrakon import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax, Votes
from ostrakon.accounting.published import bounds as published
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.accounting.published.pate_2017 import log_q_laplace, rdp_pure_eps
from ostrakon.accounting.published.pate_2018 import log_pr_answered, log_q0, log_q_gaussian, rdp_gaussian, rdp_threshold
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.validation import InvalidInput

ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 14.0, 32.0, 100.0, 1000.0])


@pytest.fixture(autouse=True)
def many_digits():
    """Enough for fifty digits of a cost of 1e-261, which is the logarithm of nearly 1."""
    with mp.workdps(320):
        yield


def histograms(seed: int, *, queries: int = 12) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.multinomial(teachers, rng.dirichlet(np.full(classes, 0.3)), size=queries)
        for classes, teachers in ((2, 3), (2, 250), (5, 60), (10, 250), (40, 5000))
    ]


def mp_theorem_6(q: mp.mpf, sigma: float, order: float) -> float:
    """The paper's formulas word by word, in linear space."""
    s, a = mp.mpf(sigma), mp.mpf(order)
    independent = a / s**2
    if q >= 1:
        return float(independent)
    mu_2 = s * mp.sqrt(mp.log(1 / q))
    mu_1 = mu_2 + 1
    if mu_1 < a or mu_2 <= 1:
        return float(independent)
    e1, e2 = mu_1 / s**2, mu_2 / s**2
    if q > mp.exp((mu_2 - 1) * e2) / (mu_1 / (mu_1 - 1) * mu_2 / (mu_2 - 1)) ** mu_2:
        return float(independent)
    kept = (q * mp.exp(e2)) ** ((mu_2 - 1) / mu_2)
    if kept >= 1:
        return float(independent)
    big_a = (1 - q) / (1 - kept)
    big_b = mp.exp(e1) / q ** (1 / (mu_1 - 1))
    bound = mp.log((1 - q) * big_a ** (a - 1) + q * big_b ** (a - 1)) / (a - 1)
    return float(min(bound, independent))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("sigma", [3.0, 40.0, 700.0])
def test_log_q_gaussian_is_the_union_bound(seed, sigma):
    for counts in histograms(seed):
        for row, value in zip(counts, log_q_gaussian(counts, sigma=sigma), strict=True):
            gaps = sorted(int(row.max()) - int(n) for n in row)[1:]
            exact = mp.fsum(mp.erfc(mp.mpf(g) / (2 * sigma)) / 2 for g in gaps)
            assert value == pytest.approx(float(mp.log(min(exact, 1 - mp.mpf(1) / len(row)))), rel=1e-13)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("scale", [0.5, 20.0, 700.0])
def test_log_q_laplace_is_the_union_bound(seed, scale):
    for counts in histograms(seed):
        for row, value in zip(counts, log_q_laplace(counts, scale=scale), strict=True):
            xs = [mp.mpf(int(row.max()) - int(n)) / scale for n in row]
            xs.remove(0)
            exact = mp.fsum((2 + x) / (4 * mp.exp(x)) for x in xs)
            assert value == pytest.approx(float(mp.log(min(exact, 1 - mp.mpf(1) / len(row)))), rel=1e-13)


def test_q_bounds_the_true_chance_of_another_answer():
    rng = np.random.default_rng(3)
    votes = Votes(rng.multinomial(40, [0.6, 0.25, 0.1, 0.05], size=60))
    plurality = votes.plurality[:, None]
    for mechanism, log_q in (
        (GNMax(sigma2=7), log_q_gaussian(votes.counts, sigma=7)),
        (LNMax(gamma=0.2), log_q_laplace(votes.counts, scale=5)),
    ):
        missed = 1 - np.exp(np.take_along_axis(mechanism.log_probabilities(votes), plurality, axis=1)[:, 0])
        assert (missed <= np.exp(log_q) * (1 + 1e-9)).all()
        # The union bound is close where one rival matters: noise 2% smaller than stated would break it.
        assert (missed > 0.75 * np.exp(log_q)).mean() > 0.5


def test_no_gap_is_too_large_for_log_space():
    counts = [[2_000_000, 0, 0]]
    assert log_q_gaussian(counts, sigma=1)[0] == pytest.approx(-(10**12) - 14.4, rel=1e-9)
    assert log_q_laplace(counts, scale=1)[0] == pytest.approx(-2_000_000 + np.log(1_000_001), rel=1e-12)
    assert rdp_gaussian(log_q_gaussian(counts, sigma=1), sigma=1.0, orders=ORDERS).max() < 1e-300


@pytest.mark.parametrize("sigma", [2.0, 12.8, 40.0, 212.13, 1000.0])
def test_theorem_6_against_many_digits(sigma):
    log_q = -np.concatenate([np.geomspace(1e-3, 600, 60), [2.5, 3.4, 6.2]])
    ours = rdp_gaussian(log_q, sigma=sigma, orders=ORDERS)
    for i, k in itertools.product(range(len(log_q)), range(len(ORDERS))):
        expected = mp_theorem_6(mp.exp(mp.mpf(log_q[i])), sigma, ORDERS[k])
        assert ours[i, k] == pytest.approx(expected, rel=1e-10, abs=1e-300)


def test_theorem_6_covers_every_neighbour():
    votes = Votes([row for row in itertools.product(range(13), repeat=3) if sum(row) == 12 and row[0] >= row[1]])
    mechanism, orders = GNMax(sigma2=2.5), np.array([1.5, 2.0, 4.0, 7.0])
    bound = published.published_costs(mechanism, votes, orders)
    law = mechanism.log_probabilities(votes)[:, :3]
    data_dependent = 0
    for source, target in itertools.permutations(range(3), 2):
        movable = votes.counts[:, source] > 0
        moved = votes.counts[movable].copy()
        moved[:, source] -= 1
        moved[:, target] += 1
        other = mechanism.log_probabilities(Votes(moved))[:, :3]
        for k, a in enumerate(orders):
            divergence = np.log(np.exp(a * law[movable] + (1 - a) * other).sum(axis=1)) / (a - 1)
            assert (divergence <= bound[movable, k] + 1e-12).all()
    data_dependent = (bound < mechanism.worst_case(orders)).sum()
    assert data_dependent > 20


@pytest.mark.parametrize(("sigma", "order"), [(5.0, 3.0), (40.0, 14.0), (40.0, 50.0), (1000.0, 1.5)])
def test_log_q0_is_where_theorem_6_stops_helping(sigma, order):
    edge = log_q0(sigma=sigma, order=order)
    below, above = (rdp_gaussian([edge * factor], sigma=sigma, orders=[order])[0, 0] for factor in (1 + 1e-9, 1 - 1e-9))
    assert below < order / sigma**2
    assert above == order / sigma**2


def test_threshold_check_is_theorem_6_of_its_rarer_outcome():
    counts, threshold, sigma1 = [[90, 10], [5, 95], [50, 50], [300, 0]], 60.0, 9.0
    answered = log_pr_answered(counts, threshold=threshold, sigma1=sigma1)
    ours = rdp_threshold(counts, threshold=threshold, sigma1=sigma1, orders=ORDERS)
    for i, top in enumerate((90, 95, 50, 300)):
        p = mp.ncdf((mp.mpf(top) - 60) / 9)
        assert answered[i] == pytest.approx(float(mp.log(p)), rel=1e-13)
        rarer = min(p, mp.erfc((mp.mpf(top) - 60) / 9 / mp.sqrt(2)) / 2)
        for k, order in enumerate(ORDERS):
            expected = mp_theorem_6(rarer, float(np.sqrt(2) * sigma1), order)
            assert ours[i, k] == pytest.approx(expected, rel=1e-10, abs=1e-300)


def test_pure_dp_bound_against_many_digits():
    log_q = -np.geomspace(1e-4, 600, 60)
    for epsilon in (0.1, 0.5, 3.0):
        ours = rdp_pure_eps(log_q, epsilon=epsilon, orders=ORDERS)
        for i, k in itertools.product(range(len(log_q)), range(len(ORDERS))):
            q, a, e = mp.exp(mp.mpf(log_q[i])), mp.mpf(ORDERS[k]), mp.mpf(epsilon)
            expected = min(e, e * e * a / 2)
            if q <= (mp.exp(e) - 1) / (mp.exp(2 * e) - 1):
                moment = (1 - q) * ((1 - q) / (1 - mp.exp(e) * q)) ** (a - 1) + q * mp.exp(e * (a - 1))
                expected = min(expected, mp.log(moment) / (a - 1))
            assert ours[i, k] == pytest.approx(float(expected), rel=1e-9, abs=1e-300)


def test_theorem_3_covers_one_direction_only():
    """At order 1000 the divergence back from the neighbour exceeds Theorem 3."""
    log_q, epsilon, order = -40.0, 0.05, 1000.0
    theorem_3 = rdp_pure_eps([log_q], epsilon=epsilon, orders=[order])[0, 0]
    q, c = mp.exp(log_q), mp.exp(epsilon)
    back = mp.log((1 - q * c) ** order * (1 - q) ** (1 - order) + q * c**order) / (order - 1)
    assert theorem_3 < float(back)


def test_curve_of_a_run_adds_its_queries():
    votes = Votes([[200, 30, 20], [100, 90, 60], [250, 0, 0]])
    scores = np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.9, 0.05, 0.05]])
    for mechanism in (
        LNMax(gamma=0.05),
        GNMax(sigma2=40),
        ConfidentGNMax(threshold=180, sigma1=30, sigma2=40),
        InteractiveGNMax(threshold=60, sigma1=30, sigma2=40, scores=scores),
    ):
        whole = published_curve(votes, mechanism, ORDERS)
        assert whole is not None
        parts = []
        for i in range(3):
            one = mechanism.for_queries([i]) if isinstance(mechanism, InteractiveGNMax) else mechanism
            parts.append(published_curve(votes[[i]], one, ORDERS))
        np.testing.assert_allclose(whole.values, sum(part.values for part in parts), rtol=1e-14)
        shuffled = votes.counts if isinstance(mechanism, InteractiveGNMax) else votes.counts[::-1, ::-1]
        again = published_curve(Votes(shuffled), mechanism, ORDERS)
        np.testing.assert_allclose(again.values, whole.values, rtol=1e-12)


def test_interactive_check_pays_for_the_contradiction_not_for_the_consensus():
    votes, mechanism = Votes([[250, 0]]), {"threshold": 200.0, "sigma1": 20.0, "sigma2": 40.0}
    agrees = published_curve(votes, InteractiveGNMax(**mechanism, scores=[[1.0, 0.0]]), [5.0])
    contradicts = published_curve(votes, InteractiveGNMax(**mechanism, scores=[[0.0, 1.0]]), [5.0])
    confident = published_curve(votes, ConfidentGNMax(**mechanism), [5.0])
    assert agrees.values[0] < contradicts.values[0] == confident.values[0]


def test_mechanisms_without_a_published_bound_have_no_curve():
    assert published_curve(Votes([[3, 2]]), PermuteAndFlip(epsilon_per_query=0.1), [2.0]) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0, 0.0, -1.0, True, "40", None])
def test_scales_must_be_positive_numbers(bad):
    counts = [[3, 2]]
    calls = [
        lambda: log_q_gaussian(counts, sigma=bad),
        lambda: log_q_laplace(counts, scale=bad),
        lambda: rdp_gaussian([-1.0], sigma=bad, orders=[2.0]),
        lambda: rdp_pure_eps([-1.0], epsilon=bad, orders=[2.0]),
        lambda: rdp_threshold(counts, threshold=1.0, sigma1=bad, orders=[2.0]),
        lambda: log_pr_answered(counts, threshold=1.0, sigma1=bad),
        lambda: log_q0(sigma=bad, order=2.0),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()


@pytest.mark.parametrize("bad", [[np.nan], [np.inf], [-np.inf], [1e-9], [True], ["x"], [[-1.0]], -1.0])
def test_log_q_must_be_finite_and_at_most_0(bad):
    for function, scale in ((rdp_gaussian, "sigma"), (rdp_pure_eps, "epsilon")):
        with pytest.raises(InvalidInput):
            function(bad, **{scale: 1.0}, orders=[2.0])


@pytest.mark.parametrize(
    "bad", [[1, 2], [[1]], [[1.0, np.nan]], [[np.inf, 0]], [[True, False]], [["a", "b"]], [[1], [1, 2]]]
)
def test_counts_must_be_histograms(bad):
    for call in (lambda: log_q_gaussian(bad, sigma=1.0), lambda: log_q_laplace(bad, scale=1.0)):
        with pytest.raises(InvalidInput):
            call()


@pytest.mark.parametrize("bad", [[1.0], [0.5], [np.nan], [np.inf], [3.0, 2.0], []])
def test_orders_must_be_above_1_and_increasing(bad):
    for function, scale in ((rdp_gaussian, "sigma"), (rdp_pure_eps, "epsilon")):
        with pytest.raises(InvalidInput):
            function([-1.0], **{scale: 1.0}, orders=bad)


def test_integer_orders_and_log_q_do_not_overflow():
    assert rdp_gaussian([-3], sigma=40, orders=[14])[0, 0] == rdp_gaussian([-3.0], sigma=40.0, orders=[14.0])[0, 0]
