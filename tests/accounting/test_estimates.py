"""Estimates of agreement: numbers in order, rounded outwards."""

import math

import pytest

from ostrakon.accounting.estimates import Agreement, Recall
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
    assert Agreement(**GIVEN).title == "Estimated accuracy"
    other = Agreement(**{**GIVEN, "of": "majority", "against": "held-out released answers"})
    assert other.title == (
        "Agreement with released answers that the student did not learn from (not an accuracy), of always the most "
        "frequent class"
    )
    assert other.in_words() == "between 82.4% and 83.7%"


def test_no_end_is_rounded_inwards_in_words():
    """0.9437 was "at least 94.4%"."""
    assert Agreement(**{**GIVEN, "low": 0.6437, "high": 1.0}).in_words() == "at least 64.3%"
    for step in range(1001):
        end = step / 1e3
        stays = Agreement(of="student", against="x", counted="x", share=end, sd=0.1, low=end, high=end).in_words()
        assert stays == (f"between {end:.1%} and {end:.1%}" if end < 1 else "at least 100.0%")
    assert Recall(label="ill", counted="x", low=0.12349, high=0.56701).in_words() == "between 12.3% and 56.8%"


@pytest.mark.parametrize("name", ["share", "sd", "low", "high"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1])
def test_numbers_that_are_none_are_refused(name, value):
    with pytest.raises(InvalidInput, match="finite numbers from 0"):
        Agreement(**{**GIVEN, name: value})


@pytest.mark.parametrize("wrong", [{"low": 0.9}, {"high": 1.1}, {"share": 0.5}])
def test_numbers_out_of_order_are_refused(wrong):
    with pytest.raises(InvalidInput, match="in order"):
        Agreement(**{**GIVEN, **wrong})


def test_an_interval_that_was_rounded_stays_as_it_is():
    """A refit reads it again; 0.3364 * 10,000 is 3363.9999999999995 in doubles."""
    for step in range(10_001):
        end = step / 1e4
        said = Agreement(of="student", against="x", counted="x", share=end, sd=0.1, low=end, high=end).as_dict()
        assert (said["low"], said["high"]) == (end, end)
    wide = Agreement(of="student", against="x", counted="x", share=0.4, sd=0.1, low=0.33649, high=0.50001).as_dict()
    assert (wide["low"], wide["high"]) == (0.3364, 0.5001)


@pytest.mark.parametrize(("low", "high"), [(math.nan, 0.5), (0.2, math.nan), (0.5, 0.4), (-0.1, 0.5), (0.5, 1.1)])
def test_a_recall_is_a_range_from_0_to_1(low, high):
    with pytest.raises(InvalidInput, match="from 0 to 1 and in order"):
        Recall(label="yes", counted="records", low=low, high=high)


def test_a_recall_is_named_and_rounded_outwards():
    one = Recall(label="yes", counted="records", low=0.12345, high=0.98761)
    assert one.as_dict() == {
        "kind": "recall", "label": "yes", "counted": "records", "low": 0.1234, "high": 0.9877, "confidence": 0.95
    }  # fmt: skip
    assert one.title == "Recall of 'yes' (estimated)"
    assert Recall(label=None, counted="records", low=0, high=1).title == "Balanced accuracy (estimated)"
