"""Smooth sensitivity against brute force over all histograms of a ball, and against the algorithm step by step."""

import itertools

import numpy as np
import pytest
from scipy.special import erfc, erfcinv

from ostrakon import ConfidentGNMax, GNMax, LNMax, Votes
from ostrakon.accounting.published.bounds import published_costs, published_curve
from ostrakon.accounting.published.pate_2018 import log_q0, log_q_gaussian, rdp_gaussian, rdp_threshold
from ostrakon.papers.smooth_sensitivity import (
    LabelSensitivity,
    check_sensitivities,
    label_sensitivities,
    smooth_sensitivity,
    theorem_24,
)
from ostrakon.validation import InvalidInput

SMALL = [(12, 3, 2.0, 2.0), (20, 2, 3.0, 2.5), (9, 4, 1.5, 1.5), (14, 3, 1.0, 1.2)]  # teachers, classes, sigma, order


def all_histograms(teachers: int, classes: int) -> np.ndarray:
    return np.array([h for h in itertools.product(range(teachers + 1), repeat=classes) if sum(h) == teachers])


def distance(counts: np.ndarray) -> np.ndarray:
    """Votes to be moved between every two histograms."""
    return np.abs(counts[:, None, :] - counts[None, :, :]).sum(axis=2) // 2


def algorithm_3(q: np.ndarray, sigma: float, order: float, classes: int) -> np.ndarray:
    """The paper's procedure in linear space."""
    q, q0 = np.asarray(q), np.exp(log_q0(sigma=sigma, order=order))

    def cost(q: np.ndarray) -> np.ndarray:
        below = rdp_gaussian(np.log(np.minimum(q, q0)), sigma=sigma, orders=[order])[:, 0]
        return np.where(q >= q0, order / sigma**2, below)

    def bound(q: np.ndarray, direction: int) -> np.ndarray:
        z = erfcinv(2 * np.minimum(q, 1) / (classes - 1)) + direction / sigma
        return np.minimum((classes - 1) / 2 * erfc(z), 1.0)

    q1 = bound(q0, 1)
    plateau = order / sigma**2 - cost(np.array([q1]))[0]
    found = np.maximum(cost(bound(q, -1)) - cost(q), cost(q) - cost(bound(q, 1)))
    return np.where((q1 <= q) & (q <= q0), plateau, found)


@pytest.mark.parametrize(("teachers", "classes", "sigma", "order"), SMALL)
def test_sensitivity_at_a_distance_is_the_maximum_over_the_ball(teachers, classes, sigma, order):
    """Theorem 20, claim 1."""
    counts = all_histograms(teachers, classes)
    ours = label_sensitivities(Votes(counts), sigma2=sigma, order=order)
    assert ours.shape == (len(counts), teachers)
    q = np.exp(log_q_gaussian(counts, sigma=sigma))
    local = algorithm_3(q, sigma, order, classes)
    apart = distance(counts)
    for d in range(teachers):
        ball = np.where(apart <= d, local[None, :], 0.0).max(axis=1)
        np.testing.assert_allclose(ours[:, d], ball, rtol=1e-9)
    assert len(np.unique(ours[:, 0])) > 3


@pytest.mark.parametrize(("teachers", "classes", "sigma", "order"), SMALL)
def test_local_sensitivity_covers_every_neighbour(teachers, classes, sigma, order):
    """Proposition 13."""
    counts = all_histograms(teachers, classes)
    cost = published_costs(GNMax(sigma2=sigma), Votes(counts), np.array([order]))[:, 0]
    bound = label_sensitivities(Votes(counts), sigma2=sigma, order=order, distances=1)[:, 0]
    change = np.where(distance(counts) == 1, np.abs(cost[:, None] - cost[None, :]), 0.0)
    assert (change.max(axis=1) <= bound * (1 + 1e-12)).all()
    assert (change.max(axis=1) > 0.5 * bound).any()


def test_check_sensitivity_is_the_maximum_over_the_ball():
    teachers, threshold, sigma1, order = 40, 12.0, 4.0, 2.0
    tops = np.arange(20, teachers + 1)
    votes = Votes(np.column_stack([tops, teachers - tops]))
    ours = check_sensitivities(votes, threshold=threshold, sigma1=sigma1, order=order)
    every = [[top, 0] for top in range(teachers + 1)]
    cost = rdp_threshold(every, threshold=threshold, sigma1=sigma1, orders=[order])[:, 0]
    for i, top in enumerate(tops):
        for d in range(teachers):
            reached = range(max(top - d, 0), min(top + d, teachers) + 1)
            expected = max(abs(cost[m] - cost[n]) for m in reached for n in (m - 1, m + 1) if 0 <= n <= teachers)
            assert ours[i, d] == pytest.approx(expected, rel=1e-12)
    assert ours.max() > ours.min() > 0


MECHANISMS = [
    (GNMax(sigma2=2.0), 2.0, 6, 3),
    (GNMax(sigma2=1.5), 1.5, 9, 2),
    (ConfidentGNMax(threshold=4, sigma1=1.5, sigma2=1.5), 1.5, 9, 2),
]


@pytest.mark.parametrize(("mechanism", "order", "teachers", "classes"), MECHANISMS, ids=lambda m: str(m))
@pytest.mark.parametrize("smoothness", [0.05, 0.4])
def test_smooth_bound_of_all_pairs_of_neighbours(mechanism, order, teachers, classes, smoothness):
    """Two queries, every pair of datasets where one teacher changes its vote on both (or on one)."""
    counts = all_histograms(teachers, classes)
    near = distance(counts) <= 1
    data = list(itertools.product(range(len(counts)), repeat=2))
    rng = np.random.default_rng(5)
    data = [data[i] for i in rng.permutation(len(data))[:60]]
    answered = np.array([True, True])

    def both(i, j):
        votes = Votes(counts[[i, j]])
        bound = smooth_sensitivity(votes, mechanism, order=order, smoothness=smoothness, answered=answered)
        if isinstance(mechanism, ConfidentGNMax):
            cost = rdp_threshold(
                votes.counts, threshold=mechanism.threshold, sigma1=mechanism.sigma1, orders=[order]
            ).sum()
            cost += published_curve(votes, GNMax(sigma2=mechanism.sigma2), [order]).values[0]
        else:
            cost = published_curve(votes, mechanism, [order]).values[0]
        return cost, bound

    known = {}
    for i, j in data:
        for pair in itertools.product(np.flatnonzero(near[i]), np.flatnonzero(near[j])):
            if pair not in known:
                known[pair] = both(*pair)
        cost, bound = known[i, j]
        for pair in itertools.product(np.flatnonzero(near[i]), np.flatnonzero(near[j])):
            other, other_bound = known[pair]
            assert abs(cost - other) <= min(bound, other_bound) * (1 + 1e-9)
            assert bound <= np.exp(smoothness) * other_bound * (1 + 1e-8)


def algorithm_5(votes: Votes, sigma: float, order: float, smoothness: float, weights: np.ndarray) -> float:
    """One query at a time, one vote at a time."""
    totals = np.zeros(votes.teachers)
    q0 = np.exp(log_q0(sigma=sigma, order=order))
    q1 = votes.classes - 1
    q1 *= erfc(erfcinv(2 * q0 / (votes.classes - 1)) + 1 / sigma) / 2
    plateau = algorithm_3(np.array([q0]), sigma, order, votes.classes)[0]
    for row, weight in zip(votes.counts, weights, strict=True):
        v, path = sorted(row.tolist(), reverse=True), []
        for _ in range(votes.teachers):
            path.append(v.copy())
            if np.exp(log_q_gaussian(path[:1], sigma=sigma)[0]) > q0:
                v[0], v[1] = v[0] + 1, v[1] - 1
                v[1:] = sorted(v[1:], reverse=True)
            else:
                v[0], v[1] = v[0] - 1, v[1] + 1
            if not v[0] >= v[1] >= 0:
                break
        q = np.exp(log_q_gaussian(path, sigma=sigma))
        values = np.full(votes.teachers, plateau)
        walked = np.flatnonzero((q <= q0) if q[0] > q0 else (q >= q1))
        stop = walked[0] if len(walked) else len(q)
        values[:stop] = algorithm_3(q[:stop], sigma, order, votes.classes) if stop else []
        totals += weight * values
    return float((totals * np.exp(-smoothness * np.arange(votes.teachers))).max())


@pytest.mark.parametrize(("sigma", "order", "smoothness"), [(40.0, 14.0, 0.0329), (40.0, 7.5, 0.05), (25.0, 5.0, 0.01)])
@pytest.mark.parametrize("classes", [2, 10])
def test_whole_run_against_the_algorithm_step_by_step(sigma, order, smoothness, classes):
    rng = np.random.default_rng(7)
    shares = rng.dirichlet(np.r_[6.0, np.full(classes - 1, 0.4)], size=25)
    votes = Votes(np.array([rng.multinomial(250, p) for p in shares]))
    answered = rng.random(25) < 0.7
    for chosen in (None, answered):
        ours = smooth_sensitivity(votes, GNMax(sigma2=sigma), order=order, smoothness=smoothness, answered=chosen)
        weights = np.ones(25) if chosen is None else chosen.astype(float)
        assert ours == pytest.approx(algorithm_5(votes, sigma, order, smoothness, weights), rel=1e-8)


def test_search_over_distances_finds_the_maximum_of_all():
    rng = np.random.default_rng(8)
    shares = rng.dirichlet(np.r_[8.0, np.full(9, 0.3)], size=200)
    votes = Votes(np.array([rng.multinomial(400, p) for p in shares]))
    mechanism = ConfidentGNMax(threshold=250, sigma1=20, sigma2=30)
    of_check = check_sensitivities(votes, threshold=250, sigma1=20, order=6)
    of_label = label_sensitivities(votes, sigma2=30, order=6)
    answered = rng.random(200) < 0.5
    for smoothness in (1e-4, 1e-3, 0.01, 0.1, 2.0):
        ours = smooth_sensitivity(votes, mechanism, order=6, smoothness=smoothness, answered=answered)
        everywhere = theorem_24(of_check.sum(axis=0) + of_label[answered].sum(axis=0), smoothness=smoothness)
        assert ours == pytest.approx(float(everywhere), rel=1e-8)


def test_a_run_is_its_queries_in_any_order_and_classes_in_any_order():
    rng = np.random.default_rng(9)
    counts = rng.multinomial(250, [0.8, 0.1, 0.05, 0.05], size=40)
    settings = {"order": 14, "smoothness": 0.03}
    mechanism = ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
    first = smooth_sensitivity(Votes(counts), mechanism, **settings)
    assert smooth_sensitivity(Votes(counts[::-1, [2, 0, 3, 1]]), mechanism, **settings) == pytest.approx(
        first, rel=1e-12
    )
    assert smooth_sensitivity(Votes(np.tile(counts, (2, 1))), mechanism, **settings) == pytest.approx(
        2 * first, rel=1e-12
    )


def test_gaps_of_hundreds_of_sigma_do_not_underflow_to_no_sensitivity():
    found = label_sensitivities(Votes([[10_000, 0, 0]]), sigma2=200.0, order=4.0, distances=3)
    assert (found > 0).all()
    assert (np.diff(found[0]) > 0).all()


def test_condition_c6_is_refused_naming_the_order():
    votes = Votes([[59, 14, 4, 3, 0, 0, 0, 0, 0, 0]])
    with pytest.raises(InvalidInput, match=r"at order 14 .*condition C6 fails"):
        smooth_sensitivity(votes, GNMax(sigma2=12.8), order=14, smoothness=0.03)
    with pytest.raises(InvalidInput, match="condition C6 fails"):
        label_sensitivities(votes, sigma2=12.8, order=14)
    # The published code goes on, and its sensitivities exceed the plateau that its proof says is their maximum.
    unchecked = label_sensitivities(votes, sigma2=12.8, order=14, check=False)
    assert unchecked.max() > LabelSensitivity(sigma=12.8, order=14, classes=10).plateau * 1.005


def test_condition_c6_fails_on_the_refused_settings_and_holds_on_the_accepted():
    """Delta beta itself, at votes one apart."""
    for sigma, order, classes, teachers, holds in ((12.8, 14.0, 10, 80, False), (40.0, 14.0, 10, 250, True)):
        law = LabelSensitivity(sigma=sigma, order=order, classes=classes)
        q1 = np.exp(law.log_q1)
        qs = np.geomspace(1e-30, q1, 4000)
        growth = algorithm_3(qs[:-1], sigma, order, classes)
        assert (np.diff(growth) >= -1e-15).all() == holds
        if holds:
            law.check_conditions(teachers=teachers)


def test_unanimity_that_is_still_charged_the_worst_case_is_refused():
    with pytest.raises(InvalidInput, match=r"order 14 .*unanimous"):
        smooth_sensitivity(Votes([[20, 0]]), GNMax(sigma2=40), order=14, smoothness=0.03)


def test_other_mechanisms_and_abstentions_are_refused():
    votes = Votes([[240, 10]])
    with pytest.raises(InvalidInput, match="lnmax"):
        smooth_sensitivity(votes, LNMax(gamma=0.05), order=14, smoothness=0.03)
    abstaining = Votes([[240, 8]], teachers=250, abstentions=True)
    with pytest.raises(InvalidInput, match="abstentions"):
        smooth_sensitivity(abstaining, GNMax(sigma2=40), order=14, smoothness=0.03)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0, -1.0, True, "x", None])
def test_numbers_out_of_range_are_refused(bad):
    votes, mechanism = Votes([[240, 10]]), GNMax(sigma2=40)
    calls = [
        lambda: smooth_sensitivity(votes, mechanism, order=14, smoothness=bad),
        lambda: smooth_sensitivity(votes, mechanism, order=bad, smoothness=0.03),
        lambda: label_sensitivities(votes, sigma2=bad, order=14),
        lambda: label_sensitivities(votes, sigma2=40, order=bad),
        lambda: check_sensitivities(votes, threshold=200, sigma1=bad, order=14),
        lambda: theorem_24([1.0, 2.0], smoothness=bad),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()


@pytest.mark.parametrize("bad", [[1], [True, False], [1.0], [[True]], "x"])
def test_answered_must_be_one_boolean_per_query(bad):
    with pytest.raises(InvalidInput):
        smooth_sensitivity(Votes([[240, 10]]), GNMax(sigma2=40), order=14, smoothness=0.03, answered=bad)
