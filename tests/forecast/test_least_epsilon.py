"""The least epsilon: interpolated, never too small, and more accuracy never needs less."""

import math

import numpy as np
import pytest

from ostrakon.forecast.interval import Forecast
from ostrakon.forecast.least_epsilon import least_epsilon
from ostrakon.validation import InvalidInput


def line(shares: dict[float, float], mechanism: str = "bounded-gnmax") -> list[Forecast]:
    return [
        Forecast(
            epsilon=epsilon,
            mechanism=mechanism,
            scores=(share, share),
            holdout=100,
            distinct=200,
            halved=(share, share),
            doublings=0.0,
        )
        for epsilon, share in shares.items()
    ]


RISING = line({4.0: 0.9, 0.5: 0.7, 1.0: 0.8})


def test_between_two_it_rises_with_the_logarithm_and_is_rounded_up():
    found = least_epsilon(RISING, 0.75)
    assert found.epsilon is not None
    assert math.sqrt(0.5) <= found.epsilon < math.sqrt(0.5) * 1.01
    assert found.epsilon == 0.708
    assert least_epsilon(RISING, 0.9).epsilon == 4.0
    # Below the smallest that was tried nothing is claimed.
    assert least_epsilon(RISING, 0.2).epsilon == 0.5
    assert "75%" in found.sentence
    assert "0.708" in found.sentence


def test_a_lucky_small_epsilon_does_not_decide():
    lucky = line({0.1: 0.85, 1.0: 0.7, 4.0: 0.9})
    assert least_epsilon(lucky, 0.84).epsilon > 1.0
    assert least_epsilon(lucky, 0.7).epsilon == 0.1


@pytest.mark.parametrize("share", [0.78951, 0.78996, 0.79, 0.79049])
def test_the_best_that_is_printed_can_be_asked_for(share):
    given = line({0.5: 0.7, 1.0: share})
    refused = least_epsilon(given, 0.7901)
    assert refused.epsilon is None
    assert refused.sentence.startswith(
        "None of the epsilons that were tried is forecast to reach an accuracy of 79.01%;"
    )
    printed = float(refused.sentence.split("the best is ")[1].split("%")[0]) / 100
    assert printed == pytest.approx(0.79)
    assert least_epsilon(given, 0.79).epsilon == 1.0


def test_the_best_is_no_lucky_one():
    lucky = line({0.5: 0.9, 1.0: 0.7, 4.0: 0.8})
    assert least_epsilon(lucky, 0.85).best == (4.0, "bounded-gnmax", 0.8)
    assert least_epsilon(lucky, 0.8).epsilon == 4.0


def test_more_accuracy_never_needs_less():
    rng = np.random.default_rng(0)
    for _ in range(20):
        given = line(dict(zip([0.1, 0.5, 1.0, 2.0, 4.0], rng.uniform(0.4, 0.95, 5).tolist(), strict=True)))
        needed = [least_epsilon(given, wanted).epsilon or math.inf for wanted in np.linspace(0.3, 0.96, 40)]
        assert needed == sorted(needed)


def test_the_mechanism_that_needs_least_is_named_and_where_none_does_the_best():
    both = [*RISING, *line({0.5: 0.6, 1.0: 0.85, 4.0: 0.95}, "gnmax")]
    assert least_epsilon(both, 0.72).mechanism == "bounded-gnmax"
    assert least_epsilon(both, 0.84).mechanism == "gnmax"
    none = least_epsilon(both, 0.97)
    assert (none.epsilon, none.mechanism, none.best) == (None, None, (4.0, "gnmax", 0.95))
    assert none.sentence == (
        "None of the epsilons that were tried is forecast to reach an accuracy of 97%; the best is 95.0%, with gnmax "
        "at epsilon 4."
    )


@pytest.mark.parametrize("accuracy", [0.0, 1.0, math.nan, 83.0, True])
def test_an_accuracy_that_is_none_is_refused(accuracy):
    with pytest.raises(InvalidInput, match="accuracy"):
        least_epsilon(RISING, accuracy)
    with pytest.raises(InvalidInput, match="at least one forecast"):
        least_epsilon([], 0.5)
