"""Checks of numbers: what passes, as what type, and the one sentence for what does not."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from ostrakon.validation import (
    LARGEST_WHOLE,
    InvalidInput,
    finite,
    fraction,
    fraction_or_zero,
    non_negative,
    positive,
    quote,
    scale,
    whole,
)

REALS = {
    positive: "a finite number above 0",
    scale: "a finite number above 0",
    non_negative: "a finite number of at least 0",
    finite: "a finite number",
    fraction: "a number strictly between 0 and 1",
    fraction_or_zero: "a number of at least 0 and below 1",
}
NO_NUMBERS = [math.nan, math.inf, -math.inf, True, False, np.True_, "1", None, 1 + 0j, [1.0], np.array([0.5]),
              Decimal("0.5"), 10**400, -(10**400), Fraction(10**400, 3)]  # fmt: skip


@pytest.mark.parametrize("check", REALS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("wrong", NO_NUMBERS, ids=lambda wrong: repr(wrong)[:20])
def test_no_number(check, wrong):
    with pytest.raises(InvalidInput) as caught:
        check("sigma", wrong)
    assert str(caught.value) == f"sigma must be {REALS[check]}, got {quote(wrong)}."


@pytest.mark.parametrize("check", REALS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("right", [0.25, np.float32(0.25), np.float64(0.25), Fraction(1, 4)])
def test_a_float_comes_back(check, right):
    result = check("sigma", right)
    assert type(result) is float
    assert result == 0.25


TINY = math.ulp(0.0)


@pytest.mark.parametrize(
    ("check", "inside", "outside"),
    [
        (positive, [TINY, 1, 1e308], [0, 0.0, -0.0, -TINY, -1]),
        (non_negative, [0, 0.0, TINY, 1e308], [-TINY, -1]),
        (finite, [-1e308, -1, 0, 1e308], []),
        (fraction, [TINY, 0.5, math.nextafter(1, 0)], [0, 1, 1.0, math.nextafter(1, 2), -0.5, 2]),
        (fraction_or_zero, [0, 0.0, TINY, math.nextafter(1, 0)], [-TINY, 1, 1.0, 2]),
    ],
)
def test_where_numbers_end(check, inside, outside):
    for value in inside:
        assert check("x", value) == value
    for value in outside:
        with pytest.raises(InvalidInput, match=f"x must be {REALS[check]}, got {value!r}"):
            check("x", value)


def test_scales_have_a_range():
    for value in (1e-50, 1, 1e50):
        assert scale("sigma", value) == value
    for value in (math.nextafter(1e-50, 0), math.nextafter(1e50, math.inf), 1e-300, 1e300):
        with pytest.raises(InvalidInput, match=r"sigma must be a number from 1e-50 to 1e\+50, got"):
            scale("sigma", value)
    assert scale("constant", 1e100, at_most=1e100) == 1e100
    with pytest.raises(InvalidInput, match=r"from 1e-50 to 1e\+100, got 1.1e\+100"):
        scale("constant", 1.1e100, at_most=1e100)


def test_whole_numbers():
    for value in (0, 3, np.int8(3), np.uint64(3), LARGEST_WHOLE):
        result = whole("queries", value)
        assert type(result) is int
        assert result == value
    assert whole("abstain", -1, at_least=-5) == -1
    assert whole("queries", 1, at_least=1, at_most=1) == 1
    assert LARGEST_WHOLE == 2**53
    assert whole("seed", 2**60, at_most=2**64) == 2**60


@pytest.mark.parametrize("wrong", [math.nan, 1.0, 1.5, True, np.True_, "1", None, Fraction(2), np.array([1]), 1 + 0j])
def test_no_whole_number(wrong):
    with pytest.raises(InvalidInput) as caught:
        whole("queries", wrong)
    assert str(caught.value) == f"queries must be an integer of at least 0, got {wrong!r}."


def test_whole_numbers_out_of_their_bounds():
    for value, bounds, words in [
        (-1, {}, "an integer of at least 0, got -1."),
        (0, {"at_least": 1}, "an integer of at least 1, got 0."),
        (4, {"at_least": 1, "at_most": 3}, "an integer of at least 1 and at most 3, got 4."),
        (0, {"at_least": 1, "at_most": 3}, "an integer of at least 1 and at most 3, got 0."),
        (2**53 + 1, {}, "an integer of at least 0 and at most 9007199254740992, got 9007199254740993."),
    ]:
        with pytest.raises(InvalidInput) as caught:
            whole("queries", value, **bounds)
        assert str(caught.value) == f"queries must be {words}"


def test_a_message_stays_a_sentence():
    assert quote(0.1) == "0.1"
    assert quote("x" * 198) == repr("x" * 198)
    assert quote("x" * 199) == "'" + "x" * 59 + "… (201 characters)"
    assert quote(10**400) == "1" + "0" * 59 + "… (401 characters)"
    assert quote(10**5000) == "a number of type int with thousands of digits"


def test_invalid_input_is_a_value_error():
    assert issubclass(InvalidInput, ValueError)
