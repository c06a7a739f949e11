"""The joint step and its supremum against every histogram of few teachers."""

import numpy as np
import pytest
from histograms import data_dependent_cost, divergence

from ostrakon.accounting.data_independent import noisy_max as answer_law_module
from ostrakon.accounting.data_independent.noisy_max import answer_law
from ostrakon.accounting.data_independent.supremum import (
    joint_cost,
    joint_step,
    joint_supremum,
    two_class_costs,
)
from ostrakon.accounting.rdp import DEFAULT_ORDERS, Curve
from ostrakon.mechanisms import ConfidentGNMax, ExponentialMechanism, GNMax, LNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential

# Of many classes there are many histograms.
SHAPES = [(8, 2), (7, 3), *(pytest.param(*shape, marks=pytest.mark.slow) for shape in [(6, 4), (5, 5)])]
SMALL: list[Mechanism] = [
    ConfidentGNMax(threshold=5, sigma1=2.0, sigma2=1.5),
    GNMax(sigma2=2.0),
    LNMax(gamma=0.5),
    ExponentialMechanism(epsilon_per_query=0.8),
    ScreenedExponential(threshold=5, sigma1=2.0, epsilon_per_query=0.8),
]


@pytest.mark.parametrize("mechanism", SMALL, ids=lambda m: m.name)
@pytest.mark.parametrize(("teachers", "classes"), SHAPES)
@pytest.mark.parametrize("abstentions", [False, True])
def test_no_histogram_costs_more_than_its_top_count_allows(
    mechanism: Mechanism, teachers: int, classes: int, abstentions: bool
) -> None:
    law = answer_law(mechanism, teachers=teachers, classes=classes)
    assert law is not None
    for a in (1.5, 8.0, 40.0):
        orders = np.array([a])
        label = law.likely_outcome_rdp(law.worst_q(), orders)[:, None]
        by_top = joint_cost(*joint_step(law, orders), label, orders)[0]
        exact = data_dependent_cost(mechanism, teachers, classes, a, abstentions=abstentions)
        for n, cost in exact.items():
            assert cost <= by_top[max(n)] * (1 + 1e-9)
        assert max(exact.values()) <= joint_supremum(law, [a], abstentions=abstentions)[0] * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", SMALL, ids=lambda m: m.name)
def test_two_classes_are_exact(mechanism: Mechanism) -> None:
    for a in (1.5, 8.0, 40.0):
        exact = data_dependent_cost(mechanism, 9, 2, a)
        computed = two_class_costs(mechanism, [a], teachers=9)[0]
        for n, cost in exact.items():
            assert computed[n[0]] == pytest.approx(cost, rel=1e-8)
            assert computed[n[0]] >= cost * (1 - 1e-12)


def test_joint_step_is_the_cost_of_a_checked_label() -> None:
    rng = np.random.default_rng(5)
    law = answer_law(ConfidentGNMax(threshold=5, sigma1=2.0, sigma2=1.5), teachers=9, classes=3)
    assert law is not None
    answer, refuse = law.log_answered()
    for a in (1.3, 4.0, 25.0):
        orders = np.array([a])
        alpha, beta = joint_step(law, orders)
        for _ in range(50):
            p, q = rng.dirichlet([3, 1, 1]), rng.dirichlet([3, 1, 1])
            e = max(divergence(np.log(p), np.log(q), a), divergence(np.log(q), np.log(p), a))
            computed = joint_cost(alpha, beta, np.full((1, 1, 10), e), orders)[0]
            for top in range(10):
                for other in {max(top - 1, 0), top, min(top + 1, 9)}:
                    here = np.append(answer[top] + np.log(p), refuse[top])
                    there = np.append(answer[other] + np.log(q), refuse[other])
                    assert divergence(here, there, a) <= computed[top] * (1 + 1e-9)
                    assert divergence(there, here, a) <= computed[top] * (1 + 1e-9)
        # ... and it is reached by two labels that cost exactly e: with no label cost it is the check alone.
        free = joint_cost(alpha, beta, np.zeros((1, 1, 10)), orders)[0]
        check = max(
            divergence(np.array([answer[m], refuse[m]]), np.array([answer[k], refuse[k]]), a)
            for m in (4,)
            for k in (3, 5)
        )
        back = max(
            divergence(np.array([answer[k], refuse[k]]), np.array([answer[m], refuse[m]]), a)
            for m in (4,)
            for k in (3, 5)
        )
        assert free[4] == pytest.approx(max(check, back), rel=1e-9)


def test_suprema_of_the_published_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    mnist = answer_law(ConfidentGNMax(threshold=200, sigma1=150, sigma2=40), teachers=250, classes=10)
    assert mnist is not None
    orders = np.arange(5.0, 14.0)
    curve = 640 * Curve(orders, joint_supremum(mnist, orders))
    # 2.328 where label costs are bounded through q alone; less with the worst case of labels on top.
    assert curve.epsilon(delta=1e-5)[0] == pytest.approx(2.075, abs=2.5e-3)
    monkeypatch.setattr(answer_law_module, "argmax_rdp", lambda mu, orders, classes: np.asarray(orders) * mu**2 / 2)
    known = 640 * Curve(orders, joint_supremum(mnist, orders))
    assert known.epsilon(delta=1e-5)[0] == pytest.approx(2.328, abs=5e-4)
    adult = ConfidentGNMax(threshold=300, sigma1=200, sigma2=40)
    exact = 1500 * Curve(DEFAULT_ORDERS, two_class_costs(adult, DEFAULT_ORDERS, teachers=250).max(axis=1))
    assert exact.epsilon(delta=1e-5)[0] == pytest.approx(2.224, abs=1e-3)
    law = answer_law(adult, teachers=250, classes=2)
    assert law is not None
    general = 1500 * Curve(DEFAULT_ORDERS, joint_supremum(law, DEFAULT_ORDERS))
    assert exact.epsilon(delta=1e-5)[0] < general.epsilon(delta=1e-5)[0] < 2.823 + 5e-4
