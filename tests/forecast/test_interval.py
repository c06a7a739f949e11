"""Intervals cover as often as they say, and would not without any of their parts."""

import math

import numpy as np
import pytest
from scipy import stats

from ostrakon.forecast.interval import Forecast
from ostrakon.validation import InvalidInput


def forecast(scores, *, held=50, distinct=200, halved=None, doublings=1.0, measure="accuracy"):
    halved = scores if halved is None else halved
    return Forecast(
        epsilon=1.0,
        mechanism="bounded-gnmax",
        measure=measure,
        scores=tuple(scores),
        holdout=held,
        distinct=distinct,
        halved=tuple(halved),
        doublings=doublings,
    )


def covered(sigma: float, held: int, *, ours: bool, runs: int = 400) -> float:
    """How often one more run, measured on 300 rows, lies in the interval from four repetitions."""
    rng, hits = np.random.default_rng([round(1000 * sigma), held]), 0
    for _ in range(runs):
        right = np.clip(rng.normal(0.8, sigma, 5), 0, 1)
        shares = rng.binomial(held, right[:4]) / held
        realized = rng.binomial(300, right[4]) / 300
        low, high = forecast(shares, held=held, distinct=4 * held).interval(test_rows=300)
        if not ours:
            # What the repetitions' own mean is off by, and nothing of the run that is to come.
            half = 1.96 * np.std(shares, ddof=1) / 2
            low, high = shares.mean() - half, shares.mean() + half
        hits += low <= realized <= high
    return hits / runs


@pytest.mark.parametrize("sigma", [0.0, 0.02, 0.06])
@pytest.mark.parametrize("held", [30, 2000])
def test_intervals_cover_whatever_repetitions_differ_by(sigma, held):
    assert covered(sigma, held, ours=True) >= 0.93
    assert covered(sigma, held, ours=False) < 0.85


def test_intervals_of_other_measures_cover_one_more_run():
    rng, hits, of_the_mean, runs = np.random.default_rng(3), 0, 0, 2000
    for _ in range(runs):
        *scores, realized = rng.normal(0.4, 0.05, 6)
        low, high = forecast(scores, measure="R2").interval()
        hits += low <= realized <= high
        half = stats.t.ppf(0.975, 4) * np.std(scores, ddof=1) / 5**0.5
        of_the_mean += abs(realized - np.mean(scores)) <= half
    assert 0.935 <= hits / runs <= 0.965
    assert of_the_mean / runs < 0.8


@pytest.mark.parametrize(
    ("measure", "scores", "halved"),
    [("R2", [0.4, 0.5, 0.6], [0.1, 0.2, 0.3]), ("mean absolute error", [3.0, 3.1, 3.2], [3.3, 3.4, 3.5])],
)
def test_more_public_rows_move_the_better_end_alone(measure, scores, halved):
    one, plain = forecast(scores, halved=halved, measure=measure), forecast(scores, measure=measure)
    assert one.larger_pool == pytest.approx(0.3)
    moved = np.subtract(one.interval(confidence=0.5), plain.interval(confidence=0.5))
    assert moved == pytest.approx((0, 0.3) if measure == "R2" else (-0.3, 0))
    assert forecast(halved, halved=scores, measure=measure).larger_pool == 0
    assert one.as_dict()[measure] == pytest.approx(np.mean(scores))


def test_other_measures_have_their_own_bounds():
    assert forecast([-3.0, 0.5], measure="R2").interval()[1] == 1
    assert forecast([2.0, 40.0], measure="mean absolute error").interval()[0] == 0
    assert forecast([0.2, 0.9], measure="macro F1").interval() == (0, 1)
    for measure, wrong in (("R2", 1.1), ("mean absolute error", -0.1), ("AUC", 1.1)):
        with pytest.raises(InvalidInput, match="scores must lie between"):
            forecast([wrong, 0.5], measure=measure)


def test_they_are_not_wider_than_they_must_be():
    # Alike on very many rows: nothing but Student's t of R - 2 degrees, for a uniform prior on the deviation.
    shares = np.array([0.80, 0.81, 0.79, 0.805, 0.80, 0.795])
    low, high = forecast(shares, held=10**8, distinct=10**9).interval()
    spread = math.sqrt(np.var(shares) * 6 / 4 * (1 + 1 / 6))
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, 4) * spread, rel=0.02)
    # Of few rows it cannot be less than those rows allow.
    low, high = forecast([0.8] * 6, held=25, distinct=100).interval()
    assert (high - low) / 2 > 1.96 * 0.04


def test_what_half_the_rows_lose_raises_the_upper_end_alone():
    shares, halved = [0.8, 0.82, 0.78, 0.8], [0.77, 0.79, 0.75, 0.77]
    plain, raised = forecast(shares), forecast(shares, halved=halved, doublings=1.5)
    assert raised.larger_pool == pytest.approx(1.5 * 0.03)
    assert raised.interval()[0] == plain.interval()[0]
    assert raised.interval(confidence=0.5)[1] == pytest.approx(plain.interval(confidence=0.5)[1] + 0.045)
    assert forecast(shares, halved=[0.9] * 4).larger_pool == 0
    told = raised.as_dict()
    assert (told["accuracy"], told["repetitions"]) == (pytest.approx(0.8), 4)
    assert (told["low"], told["high"]) == raised.interval()


def test_a_measurement_and_confidence_widen_it():
    one = forecast([0.8, 0.82, 0.78, 0.8])
    assert np.diff(one.interval(test_rows=100)) > np.diff(one.interval()) > np.diff(one.interval(confidence=0.8))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"scores": [0.8]}, "at least 2 repetitions"),
        ({"scores": [0.8, math.nan]}, "scores"),
        ({"scores": [0.8, 1.2]}, "between 0 and 1"),
        ({"scores": [0.8, 0.9], "halved": [0.8]}, "halved"),
        ({"scores": [0.8, 0.9], "held": 0}, "held"),
    ],
)
def test_what_is_no_rehearsal_is_refused(given, told):
    with pytest.raises(InvalidInput, match=told):
        forecast(**given)
    with pytest.raises(InvalidInput, match="confidence"):
        forecast([0.8, 0.9]).interval(confidence=1.0)
