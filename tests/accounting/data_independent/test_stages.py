"""Several mechanisms in one run: every adaptive strategy of small runs, one fixed adversary of large ones, refusals."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.stages import Stage, worst_case_of_stages
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.mechanisms import BoundedGNMax, ConfidentGNMax, GNMax, LNMax
from ostrakon.mechanisms.base import FloatArray, Mechanism, RunCost
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

Pairs = list[tuple[list[float], list[float]]]
CHECKED = ConfidentGNMax(threshold=3, sigma1=4, sigma2=3)
LAPLACE, LABEL = LNMax(gamma=0.2), GNMax(sigma2=4)
SCREENED = ScreenedExponential(threshold=2, sigma1=4, epsilon_per_query=0.4)


def stages(*asked: tuple[Mechanism, int]) -> list[Stage]:
    return [Stage(mechanism=mechanism, queries=queries) for mechanism, queries in asked]


def pairs_of(mechanism: Mechanism, *, teachers: int, classes: int) -> Pairs:
    """The laws of one answer under all pairs of histograms that differ in one vote."""
    every = [n for n in itertools.product(range(teachers + 1), repeat=classes) if sum(n) == teachers]
    laws = np.exp(mechanism.log_probabilities(Votes(np.array(every)))).tolist()
    law = dict(zip(every, laws, strict=True))
    return [(law[n], law[k]) for n in every for k in every if sum(abs(x - y) for x, y in zip(n, k, strict=True)) == 2]


def optimum(steps: Sequence[Pairs], y: float) -> float:
    """The largest P(S) - y Q(S) over all adaptive strategies of these steps."""
    if not steps:
        return max(0.0, 1 - y)
    return max(
        math.fsum(a * optimum(steps[1:], y * b / a) for a, b in zip(p, q, strict=True) if a > 0) for p, q in steps[0]
    )


SMALL = [
    (2, 4, stages((CHECKED, 1), (LAPLACE, 2)), 1.0),
    (2, 4, stages((LAPLACE, 1), (CHECKED, 1), (LABEL, 1)), 1.0),
    (2, 3, stages((SCREENED, 1), (LABEL, 2)), 1.0),
    (3, 3, stages((LABEL, 1), (LAPLACE, 1)), 1.3),
    (3, 3, stages((SCREENED, 1), (LABEL, 1)), 1.5),
    (3, 3, stages((CHECKED, 1), (PermuteAndFlip(epsilon_per_query=0.5), 1)), 3.0),
]


@pytest.mark.parametrize(("classes", "teachers", "asked", "most"), SMALL)
def test_every_adaptive_strategy_of_small_runs(classes: int, teachers: int, asked: list[Stage], most: float) -> None:
    families = [
        pairs_of(one.mechanism, teachers=teachers, classes=classes) for one in asked for _ in range(one.queries)
    ]
    for epsilon in (0.15, 0.3):
        delta = optimum(families, math.exp(epsilon))
        found = worst_case_of_stages(asked, delta=delta, teachers=teachers, classes=classes, effort=6)
        assert found.basis.startswith("adaptive")
        # Two classes: within 2%, so an epsilon that is 2% smaller is refuted. More: the cover has slack.
        assert epsilon <= found.epsilon <= 1.02 * most * epsilon


def test_an_earlier_release_against_every_adaptive_strategy() -> None:
    e, failure = 0.4, 0.02
    p, q = float(expit(e)), float(expit(-e))
    one = [(1 - failure) * p, (1 - failure) * q, failure, 0.0], [(1 - failure) * q, (1 - failure) * p, 0.0, failure]
    families = [[one, one[::-1]], *[pairs_of(LABEL, teachers=4, classes=2)] * 2]
    earlier = WorstCase(epsilon=e, delta=failure, basis="")
    found = worst_case_of_stages(stages((LABEL, 2)), delta=0.1, teachers=4, classes=2, earlier=earlier)
    assert optimum(families, math.exp(found.epsilon)) <= 0.1 < optimum(families, math.exp(0.96 * found.epsilon))
    alone = worst_case(LABEL, queries=2, delta=0.1, teachers=4, classes=2, adaptive=True)
    assert alone.epsilon < found.epsilon < alone.epsilon + e


def fixed_delta(asked: Sequence[tuple[FloatArray, FloatArray, int]], epsilon: float) -> float:
    """One pair of histograms in each stage: the numbers of first labels are binomial, independent of each other."""
    chances = [np.ones(1), np.ones(1)]
    for p, q, queries in asked:
        each = np.arange(queries + 1)
        for side, law in enumerate((p, q)):
            chances[side] = np.outer(chances[side], binom.pmf(each, queries, law[0])).ravel()
    return float(np.maximum(chances[0] - math.exp(epsilon) * chances[1], 0).sum())


@pytest.mark.parametrize("first", [0, 1])
def test_a_large_run_is_near_to_one_fixed_adversary(first: int) -> None:
    every = [(GNMax(sigma2=40), 300, [124, 126]), (LNMax(gamma=0.02), 200, [124, 126])]
    order = [every[first], every[1 - first]]
    asked = stages(*((mechanism, queries) for mechanism, queries, _ in order))
    found = worst_case_of_stages(asked, delta=1e-5, teachers=250, classes=2, effort=6).epsilon
    laws = [
        np.exp(mechanism.log_probabilities(Votes([counts, [counts[0] + 1, counts[1] - 1]])))
        for mechanism, _, counts in order
    ]
    adversary = [(law[0], law[1], queries) for law, (_, queries, _) in zip(laws, order, strict=True)]
    swapped = [(q, p, queries) for p, q, queries in adversary]
    assert max(fixed_delta(adversary, found), fixed_delta(swapped, found)) <= 1e-5
    assert max(fixed_delta(adversary, 0.98 * found), fixed_delta(swapped, 0.98 * found)) > 1e-5


@pytest.mark.parametrize("classes", [2, 10])
def test_one_stage_is_a_run_and_two_halves_are_one_stage(classes: int) -> None:
    shape: dict[str, Any] = {"delta": 1e-5, "teachers": 60, "classes": classes}
    whole = worst_case(GNMax(sigma2=20), queries=40, **shape, adaptive=True)
    assert worst_case_of_stages(stages((GNMax(sigma2=20), 40)), **shape) == whole
    halves = worst_case_of_stages(stages((GNMax(sigma2=20), 15), (GNMax(sigma2=20), 25)), **shape)
    assert halves.epsilon == pytest.approx(whole.epsilon, rel=2e-3)
    assert worst_case_of_stages(stages((GNMax(sigma2=20), 0), (LAPLACE, 0)), **shape).epsilon == 0


def test_a_cap_counts_in_its_stage() -> None:
    checked = ConfidentGNMax(threshold=200, sigma1=200, sigma2=40)
    shape: dict[str, Any] = {"delta": 1e-5, "teachers": 250, "classes": 2}
    capped = [Stage(mechanism=checked, queries=200, max_answers=20), *stages((LNMax(gamma=0.02), 20))]
    free = stages((checked, 200), (LNMax(gamma=0.02), 20))
    assert worst_case_of_stages(capped, **shape).epsilon < 0.9 * worst_case_of_stages(free, **shape).epsilon


def test_mechanisms_without_a_family_of_labels_count_as_gaussian_pure_or_whole_runs() -> None:
    shape: dict[str, Any] = {"delta": 1e-5, "teachers": 100, "classes": 2}
    counts = BoundedGNMax(sigma2=40)
    both = worst_case_of_stages(stages((counts, 10), (BoundedGNMax(sigma2=30), 5)), **shape)
    mu = math.sqrt(2 / 40**2 + 2 / 30**2)
    assert gaussian_dp_epsilon(mu, 1e-5) <= both.epsilon <= gaussian_dp_epsilon(mu, 1e-5) * (1 + 1e-9)
    tied = SparseVector(threshold=60, refusals=1, epsilon1=0.5, epsilon2=0.5)
    failure = tied.failure(queries=10)
    assert 0 < failure < 1e-3
    mixed = worst_case_of_stages(stages((tied, 10), (GNMax(sigma2=20), 10)), **{**shape, "delta": 2e-3})
    alone = worst_case(tied, queries=10, **{**shape, "delta": 2e-3})
    assert alone.epsilon < mixed.epsilon < math.inf
    # A delta below the failures pays for nothing.
    none = worst_case_of_stages(stages((tied, 10), (GNMax(sigma2=20), 10)), **{**shape, "delta": failure / 2})
    assert none.epsilon == math.inf


def test_stages_that_reveal_nothing_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedGNMax, "run_cost", lambda self, *, queries: RunCost(mu=0.0))
    asked = stages((BoundedGNMax(sigma2=40), 10), (BoundedGNMax(sigma2=30), 5))
    shape: dict[str, Any] = {"delta": 1e-5, "teachers": 100, "classes": 2}
    assert worst_case_of_stages(asked, **shape).epsilon == 0
    earlier = WorstCase(epsilon=0.25, delta=0.0, basis="an earlier release")
    assert 0.25 <= worst_case_of_stages(asked, **shape, earlier=earlier).epsilon < 0.2505


def test_propose_test_release_before_labels() -> None:
    stable = ProposeTestRelease(threshold=2, epsilon_per_query=0.5)
    shape: dict[str, Any] = {"delta": 0.3, "teachers": 3, "classes": 3}
    families = [pairs_of(stable, teachers=3, classes=3), pairs_of(LABEL, teachers=3, classes=3)]
    found = worst_case_of_stages(stages((stable, 1), (LABEL, 1)), **shape)
    assert optimum(families, math.exp(found.epsilon)) <= 0.3


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"stages": []}, "stages must be one Stage or more"),
        ({"stages": [GNMax(sigma2=40)]}, "stages must be one Stage or more"),
        ({"stages": stages((GNMax(sigma2=40), 3), (BoundedGNMax(sigma2=40), 3))}, "same neighbours, got gnmax"),
        ({"delta": 0.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"effort": 0}, "effort"),
        ({"teachers": 2.5}, "teachers"),
        ({"earlier": WorstCase(epsilon=math.nan, delta=1e-6, basis="")}, "epsilon of the earlier release"),
        ({"earlier": WorstCase(epsilon=math.inf, delta=1e-6, basis="")}, "epsilon of the earlier release"),
        ({"earlier": WorstCase(epsilon=1.0, delta=math.nan, basis="")}, "delta of the earlier release"),
    ],
)
def test_what_is_wrong_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    good: dict[str, Any] = {"stages": stages((GNMax(sigma2=40), 3), (LAPLACE, 3)), "delta": 1e-5}
    with pytest.raises(InvalidInput, match=sentence):
        worst_case_of_stages(**{**good, **wrong})


@pytest.mark.parametrize("wrong", [{"mechanism": 3}, {"queries": -1}, {"queries": 2.5}, {"max_answers": math.nan}])
def test_a_stage_refuses_what_is_no_mechanism_and_no_number(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Stage(**{"mechanism": LABEL, "queries": 3, **wrong})
