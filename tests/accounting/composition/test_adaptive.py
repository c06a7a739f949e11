"""Adaptive composition against every strategy of small runs, many digits, and bounds that are too small."""

import functools
import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from ostrakon.accounting.composition.adaptive import Family, Grid, Profile, compose_adaptively
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_delta
from ostrakon.accounting.composition.pure_dp import pure_dp_epsilon
from ostrakon.mechanisms import ConfidentGNMax, GNMax, LNMax
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes


def two_class_laws(mechanism: Mechanism, teachers: int) -> FloatArray:
    first = np.arange(teachers + 1)
    return np.exp(mechanism.log_probabilities(Votes(np.column_stack([first, teachers - first]))))


def two_class_family(mechanism: Mechanism, teachers: int) -> Family:
    law = two_class_laws(mechanism, teachers)
    return Family(p=law[:-1], q=law[1:], symmetric=True)


def optimum(laws: list[FloatArray], queries: int, epsilon: float) -> float:
    """The largest P(S) - e^epsilon Q(S) over every adaptive strategy, by enumeration of all transcripts.

    A strategy is a pair of neighbours for the first query and, for every outcome, a strategy for what follows. With the
    outcomes so far fixed, only the two probabilities of the transcript count.
    """
    pairs = list(itertools.pairwise(laws))
    pairs += [(q, p) for p, q in pairs]

    @functools.cache
    def best(left: int, p: float, q: float) -> float:
        if not left:
            return max(0.0, p - math.exp(epsilon) * q)
        return max(
            math.fsum(best(left - 1, p * float(x), q * float(z)) for x, z in zip(one, other, strict=True))
            for one, other in pairs
        )

    return best(queries, 1.0, 1.0)


SMALL = [
    (ConfidentGNMax(threshold=3, sigma1=4, sigma2=3), 4, 2),
    (ConfidentGNMax(threshold=2, sigma1=3, sigma2=5), 3, 3),
    (GNMax(sigma2=4), 5, 3),
    (LNMax(gamma=0.2), 4, 3),
]


@pytest.mark.parametrize(("mechanism", "teachers", "queries"), SMALL)
def test_every_adaptive_strategy_of_small_runs(mechanism: Mechanism, teachers: int, queries: int) -> None:
    laws = list(two_class_laws(mechanism, teachers))
    profile = compose_adaptively([(two_class_family(mechanism, teachers), queries)], grid=Grid(step=1e-3, count=4000))
    for epsilon in (0.0, 0.1, 0.3, 0.7):
        exact = optimum(laws, queries, epsilon)
        bound = profile.delta(epsilon)
        assert exact <= bound <= exact * 1.001 + 1e-9
        # A bound that is 2% too small is refuted.
        assert 0.98 * bound < exact or exact == 0


def test_the_exchange_of_a_pair_is_added() -> None:
    law = two_class_laws(GNMax(sigma2=4), 5)
    half = Family(p=law[2:-1], q=law[3:])  # the others are their mirror images
    assert compose_adaptively([(half, 3)], grid=Grid(step=1e-3, count=2000)).delta(0.2) == pytest.approx(
        compose_adaptively([(two_class_family(GNMax(sigma2=4), 5), 3)], grid=Grid(step=1e-3, count=2000)).delta(0.2),
        rel=1e-6,
    )


@pytest.mark.parametrize(("e", "queries"), [(0.05, 30), (0.3, 6), (1.5, 3)])
def test_randomized_response_has_the_optimal_composition_of_pure_dp(e: float, queries: int) -> None:
    p = math.exp(e) / (1 + math.exp(e))
    coin = Family(p=np.array([[p, 1 - p]]), q=np.array([[1 - p, p]]))
    # Grids that hold the ratios and grids that do not.
    for step, most in ((e / 16, 1 + 1e-7), (e / 50.3, 1.02)):
        profile = compose_adaptively([(coin, queries)], grid=Grid(step=step, count=math.ceil(queries * e / step) + 9))
        for delta in (1e-2, 1e-5):
            exact = pure_dp_epsilon(e, queries=queries, delta=delta)
            found = profile.epsilon(delta)
            if exact < queries * e * 0.99:
                assert exact * (1 - 1e-7) <= found <= exact * most


def exact_delta(p: list[mp.mpf], q: list[mp.mpf], queries: int, epsilon: float) -> mp.mpf:
    """One pair composed with itself, by multinomial sums."""
    total = mp.mpf(0)

    def visit(o: int, left: int, ways: mp.mpf, x: mp.mpf, z: mp.mpf) -> None:
        nonlocal total
        if o == len(p) - 1:
            total += ways * max(mp.mpf(0), x * p[o] ** left - mp.exp(epsilon) * z * q[o] ** left)
            return
        for times in range(left + 1):
            visit(o + 1, left - times, ways * mp.binomial(left, times), x * p[o] ** times, z * q[o] ** times)

    visit(0, queries, mp.mpf(1), mp.mpf(1), mp.mpf(1))
    return total


@pytest.mark.parametrize("seed", range(6))
def test_never_below_one_pair_in_many_digits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3))
    p[1] = p[0] * math.exp(0.4 * rng.normal())
    p /= p.sum()
    q = p[[1, 0, 2]]  # its own exchange: the adversary has no choice
    profile = compose_adaptively([(Family(p=p[None], q=q[None]), 12)], grid=Grid(step=2e-3, count=3000))
    with mp.workdps(40):
        for epsilon in (0.0, 0.4, 1.1, 2.5):
            pair = [mp.mpf(float(x)) for x in p], [mp.mpf(float(x)) for x in q]
            exact = exact_delta(*pair, 12, epsilon)
            bound = profile.delta(epsilon)
            assert bound >= exact
            assert bound <= exact * mp.mpf("1.005") + mp.mpf("1e-12")


def test_a_ratio_with_a_range_covers_every_refinement() -> None:
    lumped = Family(
        p=np.array([[0.5, 0.5]]), q=np.array([[0.45, 0.55]]), low=np.log([[0.8, 1.1]]), high=np.log([[1.0, 1.1]])
    )
    refined = Family(p=np.array([[0.25, 0.25, 0.5]]), q=np.array([[0.2, 0.25, 0.55]]))
    grid = Grid(step=1e-3, count=1000)
    for epsilon in (0.0, 0.1, 0.3):
        above, below = (compose_adaptively([(each, 4)], grid=grid).delta(epsilon) for each in (lumped, refined))
        assert below <= above <= below * 1.02 + 1e-6


def test_outcomes_that_one_side_never_has() -> None:
    shown = Family(p=np.array([[0.01, 0.99]]), q=np.array([[0.0, 1.0]]))
    profile = compose_adaptively([(shown, 2)], grid=Grid(step=1e-2, count=200))
    assert profile.delta(0.5) == pytest.approx(1 - 0.99**2, rel=1e-6)
    assert profile.delta(0.5) >= 1 - 0.99**2
    assert profile.epsilon(1e-3) == math.inf


def test_common_outcomes_belong_to_every_pair() -> None:
    joint = Family(p=np.array([[0.5, 0.2, 0.18, 0.12]]), q=np.array([[0.4, 0.3, 0.12, 0.18]]))
    split = Family(
        p=np.array([[0.5, 0.2]]),
        q=np.array([[0.4, 0.3]]),
        common_p=np.array([0.18, 0.12]),
        common_q=np.array([0.12, 0.18]),
    )
    grid = Grid(step=1e-3, count=2000)
    one, other = (compose_adaptively([(each, 5)], grid=grid).values for each in (joint, split))
    assert one == pytest.approx(other, rel=1e-9)


def test_runs_one_after_another_and_the_profile_of_what_follows() -> None:
    check = two_class_family(ConfidentGNMax(threshold=3, sigma1=4, sigma2=3), 4)
    label = two_class_family(GNMax(sigma2=4), 4)
    grid = Grid(step=1e-3, count=3000)
    together = compose_adaptively([(check, 2), (label, 3)], grid=grid)
    later = compose_adaptively([(label, 3)], grid=grid)
    chained = compose_adaptively([(check, 2)], grid=grid, after=later)
    assert np.array_equal(together.values, chained.values)


def test_many_labels_stay_below_the_gaussian() -> None:
    profile = compose_adaptively([(two_class_family(GNMax(sigma2=60), 250), 40)], grid=Grid(step=1.2e-3, count=450))
    mu = math.sqrt(80) / 60
    for epsilon in (0.1, 0.2, 0.3):
        # 2/pi of the Fisher information is left, so mu shrinks by its root at the least.
        assert gaussian_dp_delta(mu * math.sqrt(2 / math.pi), epsilon) < profile.delta(epsilon)
        assert profile.delta(epsilon) < gaussian_dp_delta(0.82 * mu, epsilon)
    assert profile.epsilon(1e-5) == pytest.approx(0.4201, abs=2e-4)


def test_a_profile_falls_and_is_a_bound_between_its_points() -> None:
    profile = compose_adaptively([(two_class_family(GNMax(sigma2=4), 6), 4)], grid=Grid(step=0.05, count=60))
    fine = compose_adaptively([(two_class_family(GNMax(sigma2=4), 6), 4)], grid=Grid(step=5e-4, count=6000))
    points = np.linspace(0, 2.9, 101)
    assert all(fine.delta(x) <= profile.delta(x) for x in points)
    assert (np.diff([profile.delta(x) for x in points]) <= 0).all()
    for delta in (0.2, 1e-2, 1e-4):
        epsilon = profile.epsilon(delta)
        assert profile.delta(epsilon) <= delta
        assert profile.delta(epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0, True])
def test_bad_grids_and_probabilities_are_refused(bad: float) -> None:
    with pytest.raises(InvalidInput, match="step"):
        Grid(step=bad, count=5)
    with pytest.raises(InvalidInput, match="count"):
        Grid(step=0.1, count=0)
    wrong = np.array([[0.5, 0.5]])
    with pytest.raises(InvalidInput, match="p must"):
        Family(p=wrong * math.nan, q=wrong)
    with pytest.raises(InvalidInput, match="shape"):
        Family(p=wrong, q=wrong[0])
    with pytest.raises(InvalidInput, match="after"):
        compose_adaptively(
            [], grid=Grid(step=0.1, count=3), after=Profile(grid=Grid(step=0.1, count=4), values=np.zeros(5))
        )
