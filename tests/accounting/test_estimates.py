"""Estimates of agreement: numbers in order, rounded outwards."""

import math

import pytest

from ostrakon.accounting.estimates import Agreement
from ostrakon.validation import InvalidInput

GIVEN = {
    "of": "student",
    "against": "private labels",
    "counted": "private records",
    "share": 0.83331,
    "sd": 0.003,
    "low": 0.82458,
    "high": 0.83601,
}


def test_the_interval_is_rounded_outwards():
    told = Agreement(**GIVEN).as_dict()
    assert (told["low"], told["share"], told["high"]) == (0.8245, 0.8333, 0.8361)
    assert told["confidence"] == 0.95


def test_it_is_named_as_what_it_is():
    assert Agreement(**GIVEN).title == "Agreement with private labels (estimated)"
    other = Agreement(**{**GIVEN, "of": "majority", "against": "held-out released answers"})
    assert other.title == (
        "Agreement with held-out released answers (not an accuracy), of always the most frequent class"
    )
    assert other.in_words() == "between 82.5% and 83.6%"


@pytest.mark.parametrize("name", ["share", "sd", "low", "high"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1])
def test_numbers_that_are_none_are_refused(name, value):
    with pytest.raises(InvalidInput, match="finite numbers from 0"):
        Agreement(**{**GIVEN, name: value})


@pytest.mark.parametrize("wrong", [{"low": 0.9}, {"high": 1.1}, {"share": 0.5}])
def test_numbers_out_of_order_are_refused(wrong):
    with pytest.raises(InvalidInput, match="in order"):
        Agreement(**{**GIVEN, **wrong})
