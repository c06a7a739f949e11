"""Calibrated noise: never over the target, and no more noise than it needs."""

from __future__ import annotations

import math

import pytest

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import ConfidentGNMax, GNMax
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
    with pytest.raises(InvalidInput, match=r"nearest reachable settings are an epsilon of ([\d.]+) for 640") as caught:
        calibrate(shape, epsilon=0.05, delta=1e-5, queries=640, teachers=250)
    words = str(caught.value).split()
    nearest = float(words[words.index("an") + 3])
    few = int(words[words.index("or") + 1])
    assert calibrate(shape, epsilon=nearest, delta=1e-5, queries=640, teachers=250)
    assert calibrate(shape, epsilon=0.05, delta=1e-5, queries=few, teachers=250)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, True, "1"])
def test_bad_epsilon_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        calibrate(GNMax(sigma2=40), epsilon=bad, delta=1e-5, queries=40)
