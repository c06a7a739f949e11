"""The exact price of labels: never below one fixed adversary, and near to it."""

import dataclasses
import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, ndtr

from ostrakon.accounting.account import account
from ostrakon.accounting.data_independent import checked_labels
from ostrakon.accounting.data_independent.adaptive_bound import adaptive_profile, two_class_family
from ostrakon.accounting.data_independent.three_outcomes import every_nth_pair, three_outcomes
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import BoundedGNMax, ConfidentGNMax, GNMax, LNMax
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.mechanisms.summed_gnmax import SharedGNMax, SummedGNMax
from ostrakon.votes import Votes

MNIST = ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
ADULT = ConfidentGNMax(threshold=300, sigma1=200, sigma2=40)


def fixed_delta(p: FloatArray, q: FloatArray, queries: int, epsilon: float) -> float:
    """The delta of one pair of laws of three outcomes, asked again and again: an exact multinomial sum."""
    a, b = np.meshgrid(np.arange(queries + 1), np.arange(queries + 1), indexing="ij")
    inside = a + b <= queries
    a, b = a[inside], b[inside]
    c = queries - a - b
    ways = gammaln(queries + 1) - gammaln(a + 1) - gammaln(b + 1) - gammaln(c + 1)
    logs = [ways + a * np.log(r[0]) + b * np.log(r[1]) + (c * np.log(r[2]) if r[2] > 0 else 0.0) for r in (p, q)]
    if p[2] == 0:
        logs = [x[c == 0] for x in logs]
    above = logs[0] > epsilon + logs[1]
    return math.fsum(np.exp(logs[0][above]) * -np.expm1(epsilon + logs[1][above] - logs[0][above]))


def law_of(mechanism: Mechanism, counts: list[int], *, labels: int = 2) -> FloatArray:
    """The first two labels, and everything else as one outcome: a lower bound on what an adversary sees."""
    law = np.exp(mechanism.log_probabilities(Votes([counts])))[0]
    return np.array([law[0], law[1], law[2:].sum()]) if labels == 2 else law


RUNS = [
    (ADULT, 1500, 2, [130, 120], 2.06),
    (GNMax(sigma2=60), 40, 2, [105, 145], 0.425),
    pytest.param(MNIST, 640, 10, [130, 120, *[0] * 8], 1.72, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "queries", "classes", "counts", "goal"), RUNS)
def test_between_one_fixed_adversary_and_the_goal(
    mechanism: Mechanism, queries: int, classes: int, counts: list[int], goal: float
) -> None:
    found = worst_case(mechanism, queries=queries, delta=1e-5, teachers=250, classes=classes, adaptive=True, effort=3)
    assert "adaptive" in found.basis
    assert found.epsilon <= goal
    moved = [counts[0] - 1, counts[1] + 1, *counts[2:]]
    p, q = law_of(mechanism, counts), law_of(mechanism, moved)

    def floor(epsilon: float) -> float:
        return max(fixed_delta(p, q, queries, epsilon), fixed_delta(q, p, queries, epsilon))

    assert floor(found.epsilon) <= 1e-5
    # An epsilon that is 2% smaller is refuted by this one adversary.
    assert floor(0.98 * found.epsilon) > 1e-5


def test_forty_queries_of_ten_classes_reach_their_goal() -> None:
    mechanism, sizes = GNMax(sigma2=60), {"queries": 40, "delta": 1e-5, "teachers": 250, "classes": 10}
    found = worst_case(mechanism, **sizes, adaptive=True, effort=3).epsilon
    assert found <= 0.425 < worst_case(mechanism, **sizes, adaptive=True).epsilon
    p, q = (law_of(mechanism, [n, 250 - n, *[0] * 8]) for n in (110, 109))
    assert fixed_delta(p, q, 40, found) <= 1e-5 < fixed_delta(p, q, 40, 0.965 * found)


def test_the_smallest_delta_that_a_float_holds_has_a_price() -> None:
    sizes = {"queries": 5, "teachers": 10, "classes": 3, "delta": 5e-324}
    found, plain = (worst_case(GNMax(sigma2=40), **sizes, adaptive=adaptive).epsilon for adaptive in (True, False))
    assert 0 < found <= plain < math.inf


@pytest.mark.slow
def test_two_thousand_queries_of_ten_classes_have_an_adaptive_price() -> None:
    mechanism = GNMax(sigma2=100)
    sizes: dict[str, Any] = {"queries": 2000, "delta": 1e-5, "teachers": 250, "classes": 10}
    plain, found = (worst_case(mechanism, **sizes, adaptive=adaptive).epsilon for adaptive in (False, True))
    assert found < 0.95 * plain
    p, q = (law_of(mechanism, [n, 250 - n, *[0] * 8]) for n in (125, 124))
    assert fixed_delta(p, q, 2000, found) <= 1e-5 < fixed_delta(p, q, 2000, 0.88 * found)


def test_many_teachers_keep_few_pairs_and_almost_the_exact_price() -> None:
    mechanism = ConfidentGNMax(threshold=700, sigma1=800, sigma2=200)
    sizes = {"queries": 300, "delta": 1e-5, "teachers": 1000, "classes": 2}
    found = worst_case(mechanism, **sizes, adaptive=True).epsilon
    p, q = law_of(mechanism, [499, 501]), law_of(mechanism, [500, 500])
    assert fixed_delta(q, p, 300, found) <= 1e-5
    assert fixed_delta(p, q, 300, found) <= 1e-5 < fixed_delta(p, q, 300, 0.98 * found)


@pytest.mark.parametrize("mechanism", [GNMax(sigma2=40), ConfidentGNMax(threshold=70, sigma1=60, sigma2=40)])
@pytest.mark.parametrize("teachers", [100, 101])
def test_every_nth_pair_covers_all_pairs(mechanism: Mechanism, teachers: int) -> None:
    every = two_class_family(mechanism, teachers=teachers)
    assert every is not None
    few = every_nth_pair(every, 7, 40)
    assert few is not None
    assert few.common_p is not None
    assert few.common_q is not None
    assert len(few.p) < 45
    refuted = 0
    for y in np.exp(np.linspace(-0.4, 0.4, 201)):
        exact, kept = (np.maximum(f.p - y * f.q, 0).sum(axis=1) for f in (every, few))
        common = np.maximum(few.common_p - y * few.common_q, 0).sum()
        assert exact.max() <= kept.max() + common + 1e-13 * (1 + y)
        # A tenth of the shares would not do.
        own = few.p.sum(axis=1)[0]
        less = kept.max() / own * (1 - (1 - own) / 10) + common / 10
        refuted += exact.max() > less + 1e-12
    assert refuted


@pytest.mark.parametrize(("classes", "teachers", "answers", "apart"), [(2, 100, 24, True), (10, 250, 30, False)])
def test_the_smaller_of_both_compositions_counts(classes: int, teachers: int, answers: int, apart: bool) -> None:
    # Check and label apart have the smaller Rényi bound in both cases.
    mechanism = ConfidentGNMax(threshold=0.7 * teachers, sigma1=0.8 * teachers, sigma2=0.2 * teachers)
    shape = {"queries": 60, "teachers": teachers, "classes": classes}
    known = worst_case(mechanism, **shape, max_answers=answers, delta=1e-5)
    assert known.basis.startswith("released labels alone")
    around = {"epsilon": known.epsilon, "delta": 1e-5, "abstentions": False}
    profiles = [adaptive_profile(mechanism, answers=answers, **shape, **around, capped=c) for c in (False, True)]
    together, capped = (profile.epsilon(1e-5) for profile in profiles if profile is not None)
    assert (capped < together) == apart
    found = worst_case(mechanism, **shape, max_answers=answers, delta=1e-5, adaptive=True)
    assert found.epsilon == pytest.approx(min(together, capped), rel=1e-6)


def test_account_prints_the_exact_price_and_it_is_never_above_the_others() -> None:
    votes = Votes([[30, 10]] * 12)
    for mechanism in (GNMax(sigma2=8), LNMax(gamma=0.1), ConfidentGNMax(threshold=30, sigma1=10, sigma2=8)):
        sizes = {"queries": 12, "delta": 1e-5, "teachers": 40, "classes": 2}
        plain, exact = worst_case(mechanism, **sizes), worst_case(mechanism, **sizes, adaptive=True, effort=3)
        assert exact.epsilon < plain.epsilon
        assert account(votes, mechanism, delta=1e-5).worst_case.epsilon == exact.epsilon


@dataclasses.dataclass(frozen=True, kw_only=True)
class WholeSteps(GNMax):
    """Labels under discrete Gaussian noise, for which no family of three classes is proved."""

    integer_noise = True


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "mechanism",
    [
        BoundedGNMax(sigma2=20, max_contributions=2),
        SummedGNMax(sigma2=20, max_contributions=10),
        SharedGNMax(sigma2=20, max_contributions=10, owners=3),
        WholeSteps(sigma2=20),
    ],
)
def test_released_counts_and_discrete_noise_keep_their_own_price(mechanism: Mechanism, classes: int) -> None:
    sizes = {"queries": 10, "delta": 1e-5, "teachers": 30, "classes": classes}
    assert worst_case(mechanism, **sizes, adaptive=True) == worst_case(mechanism, **sizes)
    around = {"abstentions": False, "capped": False, "epsilon": 1.0, "delta": 1e-5}
    shape = {"queries": 10, "answers": 10, "teachers": 30, "classes": classes}
    assert adaptive_profile(mechanism, **shape, **around) is None


Pairs = list[tuple[FloatArray, FloatArray]]
LABEL, CHECKED = GNMax(sigma2=4), ConfidentGNMax(threshold=3, sigma1=3, sigma2=3)


def neighbouring_laws(mechanism: Mechanism, *, teachers: int, classes: int, abstentions: bool) -> Pairs:
    """The laws of one answer under all pairs of histograms that differ in one vote."""
    kinds = classes + 1 if abstentions else classes
    full = [n for n in itertools.product(range(teachers + 1), repeat=kinds) if sum(n) == teachers]
    votes = Votes(np.array(full)[:, :classes], teachers=teachers, abstentions=abstentions)
    laws = dict(zip(full, np.exp(mechanism.log_probabilities(votes)), strict=True))
    return [(laws[n], laws[k]) for n in full for k in full if sum(abs(x - y) for x, y in zip(n, k, strict=True)) == 2]


def optimum(pairs: Pairs, queries: int, answers: int, y: float) -> float:
    """The largest hockey stick over all adaptive strategies; the run ends with its last answer."""
    if not queries or not answers:
        return max(0.0, 1 - y)

    @functools.cache
    def rest(at: float, answered: bool) -> float:
        return optimum(pairs, queries - 1, answers - answered, at)

    return max(
        sum(
            a * rest(y * b / a, o < len(p) - 1)
            for o, (a, b) in enumerate(zip(p.tolist(), q.tolist(), strict=True))
            if a > 0
        )
        for p, q in pairs
    )


@pytest.mark.parametrize("abstentions", [False, True])
@pytest.mark.parametrize("mechanism", [LABEL, CHECKED])
def test_three_classes_against_every_adaptive_strategy(mechanism: Mechanism, abstentions: bool) -> None:
    shape = {"teachers": 3 if abstentions else 4, "classes": 3, "abstentions": abstentions}
    pairs = neighbouring_laws(mechanism, **shape)
    found = adaptive_profile(mechanism, queries=2, answers=2, **shape, capped=False, epsilon=2.0, delta=1e-2)
    assert found is not None
    for epsilon in (0.1, 0.2, 0.3):
        exact = optimum(pairs, 2, 2, math.exp(epsilon))
        assert exact <= found.delta(epsilon) <= 1.5 * exact + 1e-3


@pytest.mark.parametrize(("classes", "abstentions"), [(2, False), (2, True), (3, False)])
def test_a_cap_on_answers_against_every_adaptive_strategy(classes: int, abstentions: bool) -> None:
    shape = {"teachers": 3, "classes": classes, "abstentions": abstentions}
    pairs = neighbouring_laws(CHECKED, **shape)
    capped, free = (
        adaptive_profile(CHECKED, queries=3, answers=n, **shape, capped=True, epsilon=2.0, delta=1e-2) for n in (1, 3)
    )
    assert capped is not None
    assert free is not None
    for epsilon in (0.1, 0.3):
        exact = optimum(pairs, 3, 1, math.exp(epsilon))
        assert exact <= capped.delta(epsilon) < free.delta(epsilon)
        assert optimum(pairs, 3, 3, math.exp(epsilon)) <= free.delta(epsilon)


def test_a_cap_without_teachers_holds_for_any_number_of_them() -> None:
    mechanism = ConfidentGNMax(threshold=60, sigma1=50, sigma2=20)
    sizes = {"queries": 160, "max_answers": 80, "delta": 1e-5, "classes": 3, "adaptive": True}
    anybody, ninety = worst_case(mechanism, **sizes), worst_case(mechanism, **sizes, teachers=90)
    assert ninety.epsilon <= anybody.epsilon < worst_case(mechanism, **{**sizes, "adaptive": False}).epsilon
    # One fixed adversary: a close race on 80 queries that are always answered.
    p, q = law_of(GNMax(sigma2=20), [45, 45, 0]), law_of(GNMax(sigma2=20), [44, 46, 0])
    assert fixed_delta(p, q, 80, anybody.epsilon) <= 1e-5 < fixed_delta(p, q, 80, 0.8 * anybody.epsilon)


@pytest.mark.parametrize("seed", range(20))
def test_the_cover_of_three_outcomes(seed: int) -> None:
    # Whatever the margin and the largest other count: no hockey stick lies above the cover.
    sigma, teachers = 7.0, 30
    rng = np.random.default_rng(seed)
    cover = three_outcomes(sigma, teachers, close=seed % 2 == 1, dense=seed % 4 == 3)
    d, eta = int(rng.integers(1, teachers + 1)), rng.normal() * 2
    x = np.linspace(-12, 12, 4001)

    def law(i: float, j: float) -> FloatArray:
        density = [np.exp(-((x - a) ** 2) / 2) * ndtr(x - b) * (x > eta) for a, b in ((i, j), (j, i))]
        first, second = (float(np.trapezoid(z, x)) / math.sqrt(2 * math.pi) for z in density)
        return np.array([first, second, 1 - first - second])

    p, q = law(0, -d / sigma), law(-1 / sigma, (1 - d) / sigma)
    for y in np.exp(np.linspace(-1, 1, 41)):
        exact = np.maximum(p - y * q, 0).sum()
        own = np.maximum(cover.p - y * cover.q, 0).sum(axis=1)
        common = np.maximum(cover.common_p - y * cover.common_q, 0).sum(axis=1)
        bound = (1 - cover.share.sum(axis=1)) * own + cover.share @ common
        assert exact <= bound.max() + 2e-3 * abs(p - q).sum()


@pytest.mark.parametrize("mechanism", [MNIST, GNMax(sigma2=12)], ids=["checked", "unchecked"])
@pytest.mark.parametrize(("queries", "delta"), [(3, 1e-12), (60, 1e-5)])
def test_single_precision_is_never_below_double(
    mechanism: Mechanism, queries: int, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rounding is charged: at most 2.9e-6 of delta a step, and without that charge it would be below."""

    def profile(most: float) -> FloatArray:
        monkeypatch.setattr(checked_labels, "_MOST_ROUNDING", most)
        adaptive_profile.cache_clear()
        known = worst_case(mechanism, queries=queries, delta=delta, teachers=250, classes=10).epsilon
        run: dict[str, Any] = {"queries": queries, "answers": queries, "teachers": 250, "classes": 10}
        found = adaptive_profile(mechanism, **run, abstentions=False, capped=False, epsilon=known, delta=delta)
        assert found is not None
        return found.values

    single, double = profile(1.0), profile(0.0)
    assert (single >= double).all()
    charge = 48 * 2.0**-24 * queries
    assert (single <= double * (1 + 2 * charge) + 1e-35).all()
    above = double > 1e-15
    assert (single[above] / (1 + charge) < double[above]).any()
