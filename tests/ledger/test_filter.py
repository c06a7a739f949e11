"""Caps fixed when an account is opened, against greedy analysts who choose every run by what they have seen."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.rdp import Curve
from ostrakon.ledger.cost import ORDERS, Cost
from ostrakon.ledger.filter import KINDS, Filter, mu_within, rho_within
from ostrakon.validation import InvalidInput

EPSILON, DELTA = 1.0, 0.1
N = 100_000


# Runs as an analyst may choose them: a kind and its size. What the loss becomes in the worse of two worlds, and a cost.
def gaussian(share_of_mu: float, mu: float) -> tuple[str, float]:
    return "gaussian", mu * math.sqrt(share_of_mu)


def cost(run: tuple[str, float]) -> Cost:
    kind, size = run
    if kind == "gaussian":
        return Cost.of(mu=size)
    return Cost.of(pure=size) if kind == "pure" else Cost.of(pure=0.0, failure=size)


def released(run: tuple[str, float], loss, rng):
    kind, size = run
    if kind == "gaussian":
        return loss + size**2 / 2 + size * rng.normal(size=len(loss))
    if kind == "pure":
        return loss + np.where(rng.random(len(loss)) < 1 / (1 + math.exp(-size)), size, -size)
    return np.where(rng.random(len(loss)) < size, np.inf, loss)


def attacked(admits, policy) -> tuple[float, float]:
    """(delta at EPSILON that an analyst reaches, its standard error), over `N` transcripts.

    policy: from the losses so far and how many runs there were to a list of (who does it, runs in order of
    preference); the first that is admitted is run, and where none is, or nobody wants one, it ends.
    """
    rng, ended = np.random.default_rng(0), []
    groups = [((), np.zeros(N))]
    for _ in range(10):
        going = []
        for past, loss in groups:
            left = np.ones(len(loss), bool)
            for who, wishes in policy(loss, len(past)):
                mine = who & left
                run = next((one for one in wishes if admits([cost(each) for each in (*past, one)])), None)
                if run is not None and mine.any():
                    left &= ~mine
                    going.append(((*past, run), released(run, loss[mine], rng)))
            ended.append(loss[left])
        groups = going
    losses = np.concatenate([*ended, *(loss for _, loss in groups)])
    assert len(losses) == N
    excess = -np.expm1(np.minimum(EPSILON - losses, 0))
    return float(excess.mean()), float(excess.std() / math.sqrt(N))


def greedy(cap: Filter):
    """Analysts who bank a high loss, chase a low one, or change what they spend in by what they see."""
    mu = cap.mu if cap.mu is not None else math.sqrt(2 * (cap.rho or 0.0) / (cap.order or 1.0))
    small = [gaussian(share, mu) for share in (0.5, 0.25, 0.1, 0.05)]
    pure = [("pure", size) for size in (0.8, 0.5, 0.3, 0.1)]
    failing = [("failing", 0.999 * cap.failure)] if cap.failure else []
    yield "all in one", lambda loss, n: [(loss < np.inf, [gaussian(1 - 1e-9, mu)])]
    for bank in (0.5, 1.0, 1.5):
        yield f"banks {bank}", lambda loss, n, bank=bank: [(loss < bank, small)]
        yield f"chases {bank}", lambda loss, n, bank=bank: [(loss > -bank, small)]
        yield (
            f"turns at {bank}",
            lambda loss, n, bank=bank: [(loss >= bank / 2, [*pure, *small]), (loss < bank / 2, [*small, *pure])],
        )
    if failing:
        yield "fails first", lambda loss, n: [(loss < 1, failing if n == 0 else small)]
        yield "fails last", lambda loss, n: [(loss < 1, [*small, *failing])]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "renyi", "mixed"])
def test_no_greedy_analyst_passes_the_cap(kind):
    cap = Filter.create(epsilon=EPSILON, delta=DELTA, kind=kind)
    reached = {name: attacked(cap.admits, policy) for name, policy in greedy(cap)}
    assert {name: found for name, found in reached.items() if found[0] > DELTA + 4 * found[1]} == {}
    # The attack is one: the best of them comes near to what its lane may spend.
    assert max(found for found, _ in reached.values()) > {"gaussian": 0.95, "renyi": 0.5, "mixed": 0.4}[kind] * DELTA


def before_the_run(cap):
    """Wrong: asks whether there was room before the run, instead of whether there is with it."""
    return lambda costs: cap.admits(costs[:-1])


def one_by_one(cap):
    """Wrong: every run fits by itself."""
    return lambda costs: all(cap.admits([each]) for each in costs)


def failures_for_nothing(cap):
    """Wrong: what fails is not counted."""
    return lambda costs: cap.admits([dataclasses.replace(each, failure=0.0) for each in costs])


def five_per_cent_more(cap):
    """Wrong: a cap that was rounded the wrong way."""
    return dataclasses.replace(cap, mu=cap.mu * 1.05).admits


@pytest.mark.parametrize("wrong", [before_the_run, one_by_one, failures_for_nothing, five_per_cent_more])
def test_a_wrong_filter_is_refuted(wrong):
    cap = Filter.create(epsilon=EPSILON, delta=DELTA)
    full = [gaussian(1 - 1e-9, cap.mu)]
    analysts = {
        before_the_run: lambda loss, n: [(loss < 1, [gaussian(0.6, cap.mu)])],
        one_by_one: lambda loss, n: [(loss < 1, full)],
        failures_for_nothing: lambda loss, n: [(loss < 1, [("failing", 0.05)] if n == 0 else full)],
        five_per_cent_more: lambda loss, n: [(loss < 9, [gaussian(1.05**2 - 1e-9, cap.mu), *full])],
    }
    found, error = attacked(wrong(cap), analysts[wrong])
    assert found > DELTA + 4 * error


def test_the_best_order_is_not_chosen_afterwards():
    """Two runs, each dear at another order: at every single order their sum passes the cap of some account."""
    cap = Filter.create(epsilon=2.0, delta=1e-5, kind="renyi", order=10.0)
    room = {order: rho_within(2.0, 1e-5, order) or 0.0 for order in ORDERS}
    fits_at = ORDERS.index(16.0)
    curve = [cap.rho * 1.01] * len(ORDERS)
    curve[fits_at] = room[16.0] / 2
    odd = Cost(rdp=tuple(curve))
    afterwards = any(value <= room[order] for order, value in zip(ORDERS, odd.rdp, strict=True))
    assert afterwards
    assert not cap.admits([odd])
    assert Filter.create(epsilon=2.0, delta=1e-5, kind="renyi", order=16.0).admits([odd])


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.05])
def test_caps_are_rounded_down_and_nearly_exact(epsilon, delta):
    mu = mu_within(epsilon, delta)
    assert gaussian_dp_epsilon(mu, delta) <= epsilon
    assert gaussian_dp_epsilon(mu * (1 + 1e-6), delta) > epsilon
    for order in (4.0, 16.0, 128.0):
        rho = rho_within(epsilon, delta, order)
        if rho is not None:
            assert Curve(np.array([order]), np.array([rho])).epsilon(delta=delta)[0] <= epsilon
            assert Curve(np.array([order]), np.array([rho * (1 + 1e-6)])).epsilon(delta=delta)[0] > epsilon


def test_the_shares_of_delta_are_one_whole():
    assert {sum(shares) for shares in KINDS.values()} == {Fraction(1)}
    for kind in KINDS:
        cap = Filter.create(epsilon=1.0, delta=1e-5, kind=kind)
        assert Fraction(cap.failure) <= KINDS[kind][2] * Fraction(1e-5)
        assert (cap.mu is None, cap.rho is None) == (not KINDS[kind][0], not KINDS[kind][1])


def test_sums_are_exact_and_the_last_bit_counts():
    cap = Filter.create(epsilon=1.0, delta=1e-5, kind="pure")
    tenth = Cost(pure=0.1)
    # Ten times the float 0.1 is above 1, which a sum of floats would not notice.
    assert sum([0.1] * 9) + 0.1 <= 1
    assert not cap.admits([tenth] * 10)
    assert cap.admits([Cost(pure=math.nextafter(0.1, 0))] * 10)
    whole = Filter.create(epsilon=1.0, delta=1e-5)
    assert whole.admits([Cost(mu=whole.mu)])
    assert not whole.admits([Cost(mu=whole.mu), Cost(mu=1e-160)])


def test_what_remains_fits_and_a_little_more_does_not():
    for kind in ("gaussian", "renyi", "mixed"):
        cap = Filter.create(epsilon=3.0, delta=1e-5, kind=kind)
        spent = [Cost.of(mu=0.2), Cost.of(mu=0.3)]
        left = cap.remaining(spent, delta=1e-6)
        assert 0 < left < 3
        assert cap.admits([*spent, Cost.of(mu=mu_within(left, 1e-6))])
        if kind != "mixed":
            assert not cap.admits([*spent, Cost.of(mu=mu_within(left + 0.001, 1e-6))])
        assert cap.remaining([Cost.of(mu=9.0)]) == 0
        assert 0 < cap.spent(spent) < 3
        assert cap.spent([]) == 0


def test_a_filter_comes_back_with_its_caps():
    for kind in KINDS:
        cap = Filter.create(epsilon=1.3, delta=1e-7, kind=kind)
        assert Filter.of_dict(json.loads(json.dumps(cap.as_dict()))) == cap


def test_the_kind_that_fits_most_runs_is_found():
    gate, plain = Cost.of(pure=0.5, failure=1e-7), Cost.of(mu=0.1)
    curve = Cost(rdp=tuple(order * 0.005 for order in ORDERS))
    asked = {"epsilon": 2.0, "delta": 1e-5}
    kinds = [Filter.for_runs_like([each], **asked).kind for each in (gate, plain, curve)]
    assert kinds == ["pure", "gaussian", "renyi"]


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize(
    "cost",
    [
        Cost.of(mu=0.1),
        Cost.of(pure=0.5, failure=1e-7),
        Cost.of(mu=0.1, failure=1e-7),
        *(Cost(rdp=tuple(share * order for order in ORDERS), failure=1e-7) for share in (0.005, 0.5)),
    ],
)
def test_runs_fit_into_an_account_of_their_least_epsilon_and_of_no_less(cost, runs):
    costs = [cost] * runs
    needed = Filter.least_epsilon(costs, delta=1e-5)
    assert Filter.for_runs_like(costs, epsilon=1.001 * needed, delta=1e-5).admits(costs)
    assert not Filter.for_runs_like(costs, epsilon=0.99 * needed, delta=1e-5).admits(costs)


def test_a_run_that_fails_more_often_than_delta_has_no_least_epsilon():
    assert Filter.least_epsilon([Cost.of(pure=0.5, failure=1e-4)], delta=1e-5) == math.inf


@pytest.mark.parametrize("wrong", [Cost.of(mu=0.1), [1], [Cost.of(mu=0.1), None], None, "ab", 3])
def test_what_is_no_cost_is_refused_in_words(wrong):
    cap = Filter.create(epsilon=1.0, delta=1e-5)
    for asked in (cap.admits, cap.fraction_used, cap.spent, cap.remaining):
        with pytest.raises(InvalidInput, match=r"costs must be a list of Cost, got "):
            asked(wrong)


@pytest.mark.parametrize(
    ("costs", "cap", "sentence"),
    [
        (1, {}, r"costs must be a list of Cost, got 1\."),
        (None, {}, r"costs must be a list of Cost, got None\."),
        ([Cost.of(mu=0.1), 2], {}, r"costs must be a list of Cost, got \[Cost"),
        ([Cost.of(mu=0.1)], {"epsilon": "1"}, r"epsilon must be a finite number above 0, got '1'\."),
        ([Cost.of(mu=0.1)], {"epsilon": 2000}, r"epsilon must be at most 1000, got 2000\."),
        ([Cost.of(mu=0.1)], {"delta": None}, r"delta must be a number strictly between 0 and 1, got None\."),
    ],
)
def test_a_filter_for_what_cannot_be_is_refused_in_words(costs, cap, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Filter.for_runs_like(costs, **{"epsilon": 1.0, "delta": 1e-5, **cap})


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": True},
        {"delta": math.nan},
        {"delta": 0.0},
        {"delta": 1.0},
        {"kind": "best"},
        {"kind": None},
        {"kind": "renyi", "order": 1.0},
        {"kind": "renyi", "order": 7.77},
        {"kind": "renyi", "order": math.nan},
        {"kind": "renyi", "order": 1.25},  # no room at this delta
        {"order": 8.0},  # no lane for it
    ],
)
def test_a_cap_that_cannot_be_is_refused(wrong):
    with pytest.raises(InvalidInput):
        Filter.create(**{"epsilon": 1.0, "delta": 1e-5, **wrong})
