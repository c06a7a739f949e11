"""The day of a run: in UTC, or the one that makes a release again."""

import re

import pytest

from ostrakon.run.day import today
from ostrakon.validation import InvalidInput


def test_a_day_and_no_time(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", today())


@pytest.mark.parametrize(
    ("seconds", "day"), [("0", "1970-01-01"), ("1772323199", "2026-02-28"), ("1772323200", "2026-03-01")]
)
def test_the_environment_takes_the_clock_s_place(monkeypatch, seconds, day):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert today() == day


@pytest.mark.parametrize("wrong", ["", "yesterday", "1.5", "nan", "9" * 30])
def test_no_day_is_made_of_nonsense(monkeypatch, wrong):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
    with pytest.raises(InvalidInput, match="SOURCE_DATE_EPOCH must be a whole number of seconds"):
        today()
