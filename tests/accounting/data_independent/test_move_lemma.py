"""The move lemma against exact laws of labels, and between its grid points."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr

from ostrakon.accounting.data_independent import move_lemma
from ostrakon.accounting.data_independent.likely_outcome import gaussian_likely_outcome_rdp
from ostrakon.accounting.data_independent.move_lemma import LOG_Q, MoveCosts, move_costs
from ostrakon.mechanisms.laws.gaussian import gaussian_argmax_log_probabilities

ORDERS = np.array([2.0, 6.0])


def moments(n: np.ndarray, moved: np.ndarray, sigma: float) -> np.ndarray:
    """The moments of both directions, (2, pairs, orders), by rows of histograms."""
    p, q = (gaussian_argmax_log_probabilities(x.astype(float), sigma) for x in (n, moved))
    a = ORDERS[None, :, None]
    return np.array([np.exp(a * x[:, None] + (1 - a) * y[:, None]).sum(axis=-1) for x, y in ((p, q), (q, p))])


def allowed(costs: MoveCosts, n: np.ndarray, moved: np.ndarray, loses: np.ndarray) -> np.ndarray:
    """The bounds on `moments`, by the part that the first class takes in the move."""
    stays, more, fewer = costs.at(n[:, 0] - n[:, 1:].max(axis=1), np.minimum(loses * (1 + 1e-9), 1.0))
    change = (moved[:, 0] - n[:, 0])[:, None]
    forward = np.where(change < 0, more, np.where(change > 0, fewer, stays))
    return np.array([forward, np.where(change < 0, fewer, np.where(change > 0, more, stays))])


@pytest.mark.parametrize("sigma", [3.0, 8.0])
@pytest.mark.parametrize("classes", [3, 4, 12])
def test_no_label_costs_more(sigma: float, classes: int) -> None:
    teachers, rng = 40, np.random.default_rng(classes)
    costs = move_costs(sigma, ORDERS, teachers=teachers)
    share = rng.dirichlet(np.full(classes, 0.5), size=150)
    n = np.array([np.sort(rng.multinomial(teachers, p))[::-1] for p in share])
    loses = 1 - np.exp(gaussian_argmax_log_probabilities(n.astype(float), sigma))[:, 0]
    tightest = np.zeros(2)
    for i, j in itertools.permutations(range(min(classes, 4)), 2):
        fine = n[:, i] > 0
        moved = n[fine].copy()
        moved[:, i] -= 1
        moved[:, j] += 1
        ratio = (moments(n[fine], moved, sigma) - 1) / (allowed(costs, n[fine], moved, loses[fine]) - 1)
        assert ratio.max() <= 1
        tightest = np.maximum(tightest, ratio.max(axis=(1, 2)))
    # Where one class is far ahead of all but one, the lemma is nearly attained, in both directions: bounds that are 10%
    # smaller, or those of the two directions exchanged, would be found out.
    assert (tightest > 0.9).all()
    exchanged = MoveCosts(costs.row, costs.pair[::-1], costs.third)
    n, moved = np.array([[30, 9, 1]]), np.array([[29, 10, 1]])
    loses = 1 - np.exp(gaussian_argmax_log_probabilities(n.astype(float), sigma))[:, 0]
    assert (moments(n, moved, sigma) > allowed(exchanged, n, moved, loses)).any()


def test_abstaining_votes_cost_no_more() -> None:
    sigma, costs = 5.0, move_costs(5.0, ORDERS, teachers=40)
    for n in ([30, 6, 4], [20, 15, 0], [14, 13, 13]):
        before = np.array([n])
        loses = 1 - np.exp(gaussian_argmax_log_probabilities(before.astype(float), sigma))[:, 0]
        for i in range(3):
            after = before.copy()
            after[0, i] -= 1
            if after[0, i] < 0:
                continue
            assert (moments(before, after, sigma) <= allowed(costs, before, after, loses)).all()


def test_two_classes_are_nearly_exact_and_the_old_bound_is_beaten() -> None:
    sigma, teachers = 40.0, 250
    costs = move_costs(sigma, ORDERS, teachers=teachers)
    lead = np.arange(0, 200, 20)
    for m in lead:
        n = np.array([[120 + m, 120, 0, 0]])
        q = ndtr(-m / sigma / np.sqrt(2))
        exact = moments(n[:, :2], n[:, :2] + [[-1, 1]], sigma)[:, 0] - 1
        bound = costs.at(np.array([m]), np.array([q * 1.001]))[1:, 0] - 1
        assert (exact <= bound).all()
        assert (bound <= 1.12 * exact).all()
    # Three in ten that the winner loses, far ahead of each other class: half of what q alone gives.
    known = np.expm1((ORDERS - 1) * gaussian_likely_outcome_rdp([0.05], mu=np.sqrt(2) / sigma, orders=ORDERS)[:, 0])
    assert (costs.at(np.array([150]), np.array([0.05]))[:, 0] - 1 < 0.7 * known).all()


def test_bounds_grow_with_q_and_fall_with_the_lead() -> None:
    costs = move_costs(120.0, ORDERS, teachers=700)
    assert (np.diff(costs.pair, axis=2) >= 0).all()
    assert (np.diff(costs.pair[:, :-1], axis=1) <= 0).all()
    assert (np.diff(costs.third, axis=0) >= 0).all()
    assert (np.diff(costs.row) >= 0).all()
    assert costs.row[-1] < costs.pair.shape[1] - 1
    assert costs.pair.shape[2:] == (len(LOG_Q), 2)


def test_the_slack_covers_what_lies_between_nodes_and_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    orders, sigma = np.array([9.0]), 90.0
    coarse = move_costs(sigma, orders, teachers=300)
    assert coarse.row[3] == coarse.row[4]
    monkeypatch.setattr(move_lemma, "_DENSE", 90)
    monkeypatch.setattr(move_lemma, "_CELL", 1 / 128)
    monkeypatch.setattr(move_lemma, "_widest", lambda second: np.zeros((len(second), second.shape[1] + 2)))
    monkeypatch.setattr(move_lemma, "_skew", lambda x, f: np.zeros(f.shape))
    fine = move_costs(sigma, orders, teachers=300)
    assert len(np.unique(fine.row)) == 301
    first, second = coarse.pair[:, coarse.row].astype(float), fine.pair[:, fine.row].astype(float)
    assert (first >= second).all()
    # Not much either, beyond the rounding of the lead to a row.
    assert (first[:, ::3] - 1 <= 1.06 * (second[:, ::3] - 1) + 1e-6).mean() > 0.98
    assert (coarse.third >= fine.third).all()


def test_orders_too_high_for_the_noise_have_no_bound() -> None:
    costs = move_costs(2.0, np.array([2.0, 40.0]), teachers=20)
    assert np.isfinite(costs.pair[..., 0]).all()
    assert np.isinf(costs.pair[..., 1]).all()
    assert np.isinf(costs.third[:, 1]).all()
