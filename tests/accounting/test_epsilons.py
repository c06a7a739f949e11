"""A private epsilon leaves by no door but `reveal()`."""

import copy
import io
import json
import logging
import pickle

import numpy as np
import pytest

from ostrakon.accounting.account import Account
from ostrakon.accounting.epsilons import DATA_DEPENDENT_NOTICE, DataDependent, Forecast, Gated, Sanitized, WorstCase

SECRET = "0.123456"
PRIVATE = [
    DataDependent(epsilon=0.123456, delta=1e-5, order=12.0),
    Forecast(queries=1, expected_answers=0.123456, expected_agreement=0.123456, data_dependent_cost=0.123456),
]


@pytest.mark.parametrize("value", PRIVATE, ids=lambda value: type(value).__name__)
def test_text_shows_nothing(value):
    assert "123456" not in repr(value) + str(value)
    stream = io.StringIO()
    print(value, [value], {"cost": value}, file=stream)
    logging.getLogger("test").addHandler(logging.StreamHandler(stream))
    logging.getLogger("test").warning("%s %r", value, value)
    assert "123456" not in stream.getvalue()
    with pytest.raises(TypeError):
        f"{value:.3f}"
    with pytest.raises(TypeError):
        f"{value}"


@pytest.mark.parametrize("value", PRIVATE, ids=lambda value: type(value).__name__)
def test_nothing_serializes_it(value):
    for attempt in (
        lambda: pickle.dumps(value),
        lambda: json.dumps(value),
        lambda: json.dumps({"epsilon": value}),
        lambda: copy.copy(value),
        lambda: copy.deepcopy(value),
        lambda: float(value),
        lambda: np.asarray(value, dtype=float),
        lambda: vars(value),
        lambda: value + 0,
        lambda: round(value, 2),
    ):
        with pytest.raises(TypeError):
            attempt()


@pytest.mark.parametrize("value", PRIVATE, ids=lambda value: type(value).__name__)
def test_it_cannot_be_changed(value):
    for name in ("epsilon", "anything"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(value, name, 1.0)


def test_inside_the_room_it_speaks():
    assert PRIVATE[0].reveal() == {"epsilon": 0.123456, "delta": 1e-5, "order": 12.0}
    assert PRIVATE[1].reveal()["expected_answers"] == 0.123456


def test_an_account_prints_its_guarantee_only():
    cost = Account(
        worst_case=WorstCase(epsilon=2.5, delta=1e-5, basis="theorem"),
        data_dependent=PRIVATE[0],
        published=PRIVATE[0],
        forecast=PRIVATE[1],
    )
    assert "2.5" in repr(cost)
    assert "123456" not in repr(cost)
    with pytest.raises(TypeError):
        pickle.dumps(cost)
    assert "must not be published" in cost.notice == DATA_DEPENDENT_NOTICE


def test_the_kinds_are_four():
    kinds = [kind.kind for kind in (WorstCase, DataDependent, Gated, Sanitized)]
    assert kinds == ["worst-case", "data_dependent", "gated", "sanitized"]
    assert pickle.loads(pickle.dumps(WorstCase(epsilon=1, delta=1e-5, basis="x"))).epsilon == 1
