import math

import numpy as np
import pytest

from ostrakon.accounting.comparison import PASS_PROBABILITY, compare, compared
from ostrakon.accounting.data_dependent.exact import data_dependent_costs
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.rdp import Curve
from ostrakon.mechanisms import MECHANISMS, GNMax, LNMax, StatefulMechanism, registry
from ostrakon.mechanisms.contrib.immutable import Immutable
from ostrakon.mechanisms.contrib.noisy_median import NoisyMedian
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.validation import InvalidInput
from ostrakon.votes import PublicVotes, Votes

ORDERS = np.arange(1.5, 60, 0.25)


@pytest.fixture(scope="module")
def votes() -> PublicVotes:
    rng = np.random.default_rng(0)
    share = rng.dirichlet([20, 1, 1, 1], size=60)
    return PublicVotes(rng.multinomial(100, share))


@pytest.mark.slow
def test_all_mechanisms_share_one_worst_case(votes):
    found = compare(votes, epsilon=3.0, delta=1e-5)
    of_records = {"bounded-gnmax", "moment-gnmax", "quantity-gnmax", "labels-gnmax"}
    assert {row.name for row in found.rows} == set(MECHANISMS) - {"interactive-gnmax", "noisy-median"} - of_records
    for row in found.rows:
        if row.name == "immutable":
            assert row.claimed == pytest.approx(3.0, rel=2e-4)
            assert row.worst_case > 20 * row.claimed
        else:
            true = worst_case(row.mechanism, queries=60, delta=1e-5, teachers=100, classes=4, adaptive=True).epsilon
            assert row.worst_case == true
            assert 0.994 * 3 < true <= 3


class Quieter(GNMax):
    name = "quieter"


def test_every_registered_mechanism_with_defaults_is_compared(monkeypatch):
    of_a_query = [kind for kind in MECHANISMS.values() if not issubclass(kind, StatefulMechanism)]
    monkeypatch.setitem(registry._registered, "quieter", Quieter)
    names = [mechanism.name for mechanism in compared(100, ordered=True)]
    assert set(names) - {mechanism.name for mechanism in compared(100)} == {"noisy-median"}
    assert set(names) == {kind.name for kind in (*of_a_query, Quieter)} - {"interactive-gnmax", "propose-test-release"}
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_answers_and_accuracy_are_expectations(votes):
    labels = (votes.plurality + np.arange(60) // 30) % 4
    found = compare(votes, epsilon=3.0, delta=1e-5, labels=labels)
    rng = np.random.default_rng(1)
    for row in found.rows:
        draws = np.array([row.mechanism.sample(votes, rng) for _ in range(400)])
        answers = (draws >= 0).sum(axis=1)
        right = (draws == labels).sum(axis=1)
        assert answers.mean() == pytest.approx(row.answers, abs=5 * answers.std() / 20 + 1e-9)
        assert right.mean() == pytest.approx(row.answers * row.accuracy, abs=5 * right.std() / 20 + 1e-9)


def test_of_ordered_classes_the_rank_error_decides():
    # Half of the teachers err by one rank, half of these to either side: the plurality is often wrong by two.
    votes = Votes(np.tile([[9, 30, 22, 30, 9], [30, 25, 20, 15, 10], [5, 10, 30, 25, 30]], (10, 1)))
    right = np.tile([2, 1, 3], 10)
    shapes = (NoisyMedian(sigma2=20), GNMax(sigma2=20))
    found = compare(votes, epsilon=4.0, delta=1e-5, labels=right, mechanisms=shapes, ordered=True)
    assert [row.name for row in found.rows] == ["noisy-median", "gnmax"]
    assert "ranks away on average" in found.advice
    rng = np.random.default_rng(1)
    for row in found.rows:
        away = np.abs([row.mechanism.sample(votes, rng) - right for _ in range(400)]).mean(axis=1)
        assert away.mean() == pytest.approx(row.rank_error, abs=5 * away.std() / 20)
    assert found.as_json()["rows"][0]["rank_error"] == found.rows[0].rank_error
    plain = compare(votes, epsilon=4.0, delta=1e-5, labels=right, mechanisms=shapes)
    assert all(row.rank_error is None for row in plain.rows)


def test_they_share_one_data_dependent_epsilon():
    rng = np.random.default_rng(3)
    votes = Votes(rng.multinomial(100, rng.dirichlet([6, 4, 1, 1], size=60)))
    found = compare(
        votes, epsilon=0.8, delta=1e-5, at="data-dependent", mechanisms=(GNMax(sigma2=20), LNMax(gamma=0.1))
    )
    for row in found.rows:
        again, _ = Curve(ORDERS, data_dependent_costs(votes, row.mechanism, ORDERS).sum(axis=0)).epsilon(delta=1e-5)
        assert again == pytest.approx(0.8, rel=2e-3)


def test_where_votes_agree_no_noise_costs_that_much():
    votes = Votes(np.tile([[100, 0, 0]], (10, 1)))
    (row,) = compare(votes, epsilon=5.0, delta=1e-5, at="data-dependent", mechanisms=(GNMax(sigma2=20),)).rows
    assert row.data_dependent < 5
    assert row.accuracy > 0.999


def test_these_votes_cost_no_more_than_all_votes():
    split = Votes(np.tile([20, 18, 2], (60, 1)))
    (row,) = compare(split, epsilon=1.0, delta=1e-5, mechanisms=[GNMax(sigma2=20)]).rows
    by_orders = Curve(ORDERS, data_dependent_costs(split, row.mechanism, ORDERS).sum(axis=0)).epsilon(delta=1e-5)[0]
    assert row.data_dependent == row.worst_case < by_orders


@pytest.mark.slow
def test_they_share_one_gated_epsilon():
    votes = PublicVotes(np.tile([[30, 0], [30, 0], [29, 1]], (4, 1)))
    shapes = (GNMax(sigma2=8), PermuteAndFlip(epsilon_per_query=0.2))
    found = compare(votes, epsilon=1.5, delta=1e-4, at="gated", mechanisms=shapes)
    by_name = {row.name: row for row in found.rows}
    assert all(0.97 * 1.5 < row.gated <= 1.5 for row in found.rows)
    gain = by_name["permute-and-flip"]
    gate = Gate.plan(votes, gain.mechanism, delta=1e-4, pass_probability=PASS_PROBABILITY, adaptive=False)
    assert gain.gated == gate.certificate().epsilon < 0.8 * gain.worst_case
    assert by_name["gnmax"].gated == by_name["gnmax"].worst_case


def test_private_votes_may_not_plan_a_gate(votes):
    private = Votes(votes.counts)
    with pytest.raises(InvalidInput, match="votes must be public"):
        compare(private, epsilon=1.0, delta=1e-5, at="gated")


@pytest.mark.slow
def test_the_advice_names_the_best_sound_mechanism(votes):
    found = compare(votes, epsilon=3.0, delta=1e-5)
    best = found.rows[0]
    assert found.advice.startswith(f"Use {best.name}: ")
    assert all(best.worth(4) >= row.worth(4) for row in found.rows if row.mechanism.releasable)
    assert found.rows[-1].name == "immutable"
    assert not found.rows[-1].mechanism.releasable


def test_few_sure_labels_are_worth_more_than_many_doubtful_ones(votes):
    found = compare(votes, epsilon=1.0, delta=1e-5, mechanisms=(GNMax(sigma2=20),))
    row = found.rows[0]
    sure, doubtful = (
        type(row)(**{**vars_of(row), "answers": a, "accuracy": p}) for a, p in ((324, 0.946), (640, 0.683))
    )
    assert sure.worth(10) > doubtful.worth(10)
    guess = type(row)(**{**vars_of(row), "answers": 640, "accuracy": 0.1})
    assert guess.worth(10) == 0


def vars_of(row: object) -> dict:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def test_hopeless_votes_get_no_recommendation():
    votes = Votes(np.tile([[2, 2, 2]], (500, 1)))
    found = compare(
        votes, epsilon=0.1, delta=1e-5, labels=np.zeros(500, int), mechanisms=(Immutable(constant=3, gamma=1),)
    )
    assert "no sound mechanism" in found.advice


@pytest.mark.slow
def test_json_is_plain(votes):
    import json

    text = json.dumps(compare(votes[:5], epsilon=1.0, delta=1e-5).as_json(), allow_nan=False)
    assert "Epsilons of such different neighbours must not be ranked" in text
    assert '"advice"' in text
    assert "must not be published" in text
    assert not math.isnan(len(text))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"at": "elsewhere"}, "at must be one of"),
        ({"labels": np.zeros(3, int)}, "labels"),
        ({"labels": np.zeros(60)}, "labels"),
    ],
)
def test_bad_input_is_refused_by_name(votes, changes, named):
    with pytest.raises(InvalidInput, match=named):
        compare(votes, **{"epsilon": 1.0, "delta": 1e-5, **changes})
