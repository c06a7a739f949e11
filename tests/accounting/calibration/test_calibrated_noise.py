"""Calibrated noise: never over the target, and no more noise than it needs."""

import math
from typing import Any

import numpy as np
import pytest

from ostrakon.accounting.calibration.noise import calibrate, scaled
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import ConfidentGNMax, GNMax, LNMax, Mechanism
from ostrakon.numerics.inverse import least_of_power
from ostrakon.validation import InvalidInput


@pytest.mark.parametrize(
    ("epsilon", "queries", "delta"),
    [(0.1, 1, 1e-5), (0.1, 640, 1e-9), (0.5, 40, 1e-5), (1.0, 640, 1e-5), (3.7, 1, 1e-5), (20.0, 40, 1e-9)],
)
def test_within_the_target_and_tight(epsilon: float, queries: int, delta: float) -> None:
    mechanism = calibrate(
        ConfidentGNMax(threshold=200, sigma1=150, sigma2=40), epsilon=epsilon, delta=delta, queries=queries
    )
    assert isinstance(mechanism, ConfidentGNMax)
    assert worst_case(mechanism, queries=queries, delta=delta).epsilon <= epsilon
    less = ConfidentGNMax(threshold=200, sigma1=0.999 * mechanism.sigma1, sigma2=0.999 * mechanism.sigma2)
    assert worst_case(less, queries=queries, delta=delta).epsilon > epsilon
    assert mechanism.threshold == 200
    assert mechanism.sigma1 / mechanism.sigma2 == pytest.approx(150 / 40, rel=2e-4)


SIZED: list[tuple[Mechanism, dict[str, Any]]] = [
    (ConfidentGNMax(threshold=30, sigma1=30, sigma2=8), {"queries": 30, "teachers": 50, "classes": 2}),
    (GNMax(sigma2=8), {"queries": 12, "teachers": 50, "classes": 3, "max_answers": 6}),
    (LNMax(gamma=0.2), {"queries": 20, "teachers": 40, "classes": 2}),
]


@pytest.mark.parametrize(("shape", "sizes"), SIZED)
@pytest.mark.parametrize("factor", [0.3, 1.0, 2.0])
def test_by_adaptive_composition_too(shape: Mechanism, sizes: dict[str, Any], factor: float) -> None:
    # The noise as given is too much, nearly right, or too little.
    def cost(mechanism: Mechanism) -> float:
        return worst_case(mechanism, **sizes, delta=1e-5, adaptive=True).epsilon

    epsilon = 0.98 * cost(scaled(shape, factor))
    found = calibrate(shape, epsilon=epsilon, delta=1e-5, **sizes)
    assert cost(found) <= epsilon < cost(scaled(found, 0.99))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_random_runs_are_within_the_target_and_near_the_least_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    teachers, queries = int(rng.integers(10, 60)), int(rng.integers(1, 40))
    sigma = float(rng.uniform(0.1, 0.4) * teachers)
    shape = GNMax(sigma2=sigma)
    if rng.integers(2):
        shape = ConfidentGNMax(threshold=float(rng.uniform(0.5, 1) * teachers), sigma1=4 * sigma, sigma2=sigma)
    run: dict[str, Any] = {"queries": queries, "delta": 1e-5, "teachers": teachers, "classes": 2}

    def cost(factor: float) -> float:
        return worst_case(scaled(shape, factor), **run, adaptive=True).epsilon

    epsilon = cost(float(rng.uniform(0.7, 1.5)))
    found = calibrate(shape, epsilon=epsilon, **run)
    assert worst_case(found, **run, adaptive=True).epsilon <= epsilon
    least = least_of_power(cost, epsilon, tolerance=1e-3, growth=2, nearest=1e-3, furthest=1e3)
    assert found.parameters()["sigma2"] <= 1.007 * least * sigma


def test_a_cap_on_answers_needs_less_noise() -> None:
    shape = ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
    free = calibrate(shape, epsilon=1, delta=1e-5, queries=640)
    capped = calibrate(shape, epsilon=1, delta=1e-5, queries=640, max_answers=100)
    assert isinstance(free, ConfidentGNMax)
    assert isinstance(capped, ConfidentGNMax)
    assert capped.sigma2 < 0.7 * free.sigma2


@pytest.mark.slow
def test_absurd_noise_is_refused_with_reachable_settings() -> None:
    shape = GNMax(sigma2=40)
    with pytest.raises(
        InvalidInput, match=r"must be at least [\d.]+ .* 250 teachers with noise of at most 250 votes, got 0.05 "
    ) as caught:
        calibrate(shape, epsilon=0.05, delta=1e-5, queries=640, teachers=250)
    words = str(caught.value).split()
    nearest = float(words[words.index("least") + 1])
    few = int(words[words.index("(enough") + 2])
    assert calibrate(shape, epsilon=nearest, delta=1e-5, queries=640, teachers=250)
    assert calibrate(shape, epsilon=0.05, delta=1e-5, queries=few, teachers=250)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, True, "1"])
def test_bad_epsilon_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        calibrate(GNMax(sigma2=40), epsilon=bad, delta=1e-5, queries=40)
