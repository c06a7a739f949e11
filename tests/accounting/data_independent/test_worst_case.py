"""The worst case takes the best valid theorem, and never undershoots it."""

import math

import numpy as np
import pytest

from ostrakon.accounting.account import account
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.worst_case import worst_case, worst_case_at, worst_case_curve
from ostrakon.accounting.rdp import DEFAULT_ORDERS, Curve
from ostrakon.mechanisms import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax, RunCost
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes

MNIST = ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
ADULT = ConfidentGNMax(threshold=300, sigma1=200, sigma2=40)


def test_capped_runs_of_the_paper() -> None:
    mu = math.sqrt(640 / 150**2 + 283 * 2 / 40**2)
    assert gaussian_dp_epsilon(mu, 1e-5) == pytest.approx(2.529, abs=5e-4)
    mu = math.sqrt(1500 / 200**2 + 538 * 2 / 40**2)
    assert gaussian_dp_epsilon(mu, 1e-5) == pytest.approx(3.594, abs=5e-4)
    # A label leaks less than its histogram, whatever the votes: more so with the check, or two classes.
    assert worst_case(MNIST, queries=640, delta=1e-5, max_answers=283).epsilon == pytest.approx(2.225, abs=1e-3)
    shape = {"teachers": 250, "classes": 10}
    assert worst_case(MNIST, queries=640, delta=1e-5, **shape).epsilon == pytest.approx(2.075, abs=1e-3)
    adult = worst_case(ADULT, queries=1500, delta=1e-5, teachers=250, classes=2)
    assert adult.epsilon == pytest.approx(2.224, abs=1e-3)
    assert "two-class" in adult.basis
    # Teachers that may abstain: what rests on full votes does not hold.
    loose = worst_case(ADULT, queries=1500, delta=1e-5, teachers=250, classes=2, abstentions=True)
    assert adult.epsilon < loose.epsilon < 2.83


def test_without_data_on_the_shape_the_bound_holds_for_any_number_of_classes() -> None:
    mechanism = GNMax(sigma2=60)
    for classes in (2, 3, 10, 150):
        known = worst_case(mechanism, queries=40, delta=1e-5, classes=classes)
        assert known.epsilon <= worst_case(mechanism, queries=40, delta=1e-5).epsilon
    assert worst_case(mechanism, queries=40, delta=1e-5).epsilon == pytest.approx(0.4649, abs=5e-4)


def test_what_gaussian_dp_saves_over_the_renyi_conversions() -> None:
    curve = 640 * Curve(DEFAULT_ORDERS, DEFAULT_ORDERS / (2 * 150**2)) + 283 * Curve(
        DEFAULT_ORDERS, DEFAULT_ORDERS / 40**2
    )
    assert curve.epsilon(delta=1e-5)[0] == pytest.approx(2.743, abs=5e-4)
    assert curve.epsilon(delta=1e-5, conversion="mironov")[0] == pytest.approx(3.159, abs=1e-3)


class _Toy(Mechanism):
    """A mechanism with the claims a test gives it."""

    def __init__(self, *, curve: float = math.inf, pure: float | None = None, whole: float | None = None) -> None:
        self.curve, self.pure, self.whole = curve, pure, whole

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        raise NotImplementedError

    def log_probabilities(self, votes: Votes) -> FloatArray:
        raise NotImplementedError

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return orders * self.curve

    def pure_dp(self) -> float | None:
        return self.pure

    def run_cost(self, *, queries: int) -> RunCost | None:
        return None if self.whole is None else RunCost(epsilon=self.whole, checks=1)


_Toy.name = "toy"


def test_the_minimum_of_all_theorems_wins_and_is_named() -> None:
    assert worst_case(_Toy(whole=0.5, pure=1.0, curve=1.0), queries=3, delta=1e-5).basis == "the whole run of toy"
    assert worst_case(_Toy(whole=9.0, pure=0.1, curve=1.0), queries=3, delta=1e-5).basis.startswith("pure")
    assert worst_case(_Toy(whole=9.0, pure=3.0, curve=1e-4), queries=3, delta=1e-5).basis.startswith(
        "the worst case of toy, Rényi"
    )


def test_no_bound_is_infinity_and_nan_is_never_a_bound() -> None:
    assert worst_case(_Toy(), queries=3, delta=1e-5).epsilon == math.inf
    for never in (math.nan, -1.0):
        with pytest.raises(InvalidInput):
            worst_case(_Toy(whole=never), queries=3, delta=1e-5)


def test_monotone_in_queries_delta_and_noise() -> None:
    def epsilon(sigma2: float, queries: int, delta: float) -> float:
        return worst_case(GNMax(sigma2=sigma2), queries=queries, delta=delta).epsilon

    assert epsilon(40, 0, 1e-5) == 0
    assert epsilon(40, 10, 1e-5) < epsilon(40, 11, 1e-5) < epsilon(39, 11, 1e-5) < epsilon(39, 11, 1e-6)


@pytest.mark.parametrize("bad", [-1, 1.5, True, "3", math.nan])
def test_bad_counts_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match="queries"):
        worst_case(MNIST, queries=bad, delta=1e-5)
    with pytest.raises(InvalidInput, match="max_answers"):
        worst_case(MNIST, queries=3, delta=1e-5, max_answers=bad)
    with pytest.raises(InvalidInput, match="teachers"):
        worst_case(MNIST, queries=3, delta=1e-5, teachers=bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-5, math.nan, True, "1e-5"])
def test_bad_delta_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        worst_case(MNIST, queries=3, delta=bad)


def test_one_function_of_delta_gives_what_single_calls_give() -> None:
    sizes = {"queries": 40, "max_answers": 20, "teachers": 60, "classes": 3}
    for mechanism in (ConfidentGNMax(threshold=30, sigma1=20, sigma2=10), LNMax(gamma=0.05)):
        at = worst_case_at(mechanism, **sizes)
        for delta in (1e-3, 0.3, 1e-9, 1e-3):
            assert at(delta) == worst_case(mechanism, delta=delta, **sizes)
        with pytest.raises(InvalidInput, match="delta must"):
            at(math.nan)


def test_the_interactive_mechanism_has_the_price_of_the_confident_one() -> None:
    # Its scores have one row per query: pricing it must not take them for those of a made-up query.
    scores = np.full((30, 4), 0.25)
    interactive = InteractiveGNMax(threshold=60, sigma1=40, sigma2=25, scores=scores)
    confident = ConfidentGNMax(threshold=60, sigma1=40, sigma2=25)
    for sizes in ({}, {"max_answers": 7}, {"classes": 4}):
        found = worst_case(interactive, queries=30, delta=1e-6, **sizes)
        assert found.epsilon == worst_case(confident, queries=30, delta=1e-6, **sizes).epsilon
    # The joint supremum looks at the top count, which the scores move.
    assert worst_case(interactive, queries=30, delta=1e-6, teachers=100, classes=4).epsilon == found.epsilon


def test_account_prices_an_interactive_run_and_refuses_other_votes() -> None:
    mechanism = InteractiveGNMax(threshold=2, sigma1=4, sigma2=5, scores=np.full((2, 3), 1 / 3))
    cost = account(Votes([[8, 1, 1], [4, 3, 3]]), mechanism, delta=1e-5)
    assert 0 < cost.worst_case.epsilon < math.inf
    with pytest.raises(InvalidInput, match="one row per query"):
        account(Votes([[8, 1, 1]]), mechanism, delta=1e-5)


def test_the_curve_of_a_run_is_the_least_bound_at_every_order() -> None:
    orders, sizes = np.array([2.0, 8.0, 14.0]), {"queries": 640, "max_answers": 283}
    gaussian = orders * (640 / 150**2 + 283 * 2 / 40**2) / 2
    capped = worst_case_curve(MNIST, orders, **sizes).values
    shaped = worst_case_curve(MNIST, orders, **sizes, teachers=250, classes=10).values
    assert (shaped <= capped).all()
    assert (capped < gaussian).all()
    epsilons = [Curve(orders[i : i + 1], shaped[i : i + 1]).epsilon(delta=1e-5)[0] for i in range(3)]
    best = worst_case(MNIST, delta=1e-5, **sizes, teachers=250, classes=10).epsilon
    assert best <= min(epsilons) < best * 1.03
    with pytest.raises(InvalidInput, match="its queries are tied"):
        worst_case_curve(SparseVector(threshold=9, refusals=1, epsilon1=1, epsilon2=1), orders, queries=3)
