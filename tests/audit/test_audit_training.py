"""Audits of trainers: sound ones are refuted at most as often as stated, wrong ones are refuted."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.audit import audit_training
from ostrakon.audit.betting import Bets
from ostrakon.audit.one_run import refutes_trade_off
from ostrakon.audit.training import _inverse_trade_off
from ostrakon.validation import InvalidInput

CANARIES = 400
DATA = (np.zeros((4, CANARIES)), np.array([0, 1, 0, 1]))
UNIT = (np.eye(CANARIES), np.zeros(CANARIES, dtype=int))


def noisy_sum(sigma, rng):
    return lambda X, y: X.sum(axis=0) + sigma * rng.normal(size=X.shape[1])


def randomized_response(epsilon, rng, leak=0.0):
    """For each coordinate whether a record is there: right with odds e^epsilon, and surely with probability `leak`."""

    def train(X, y):
        bits = X.sum(axis=0) > 0
        flipped = (rng.random(len(bits)) > 1 / (1 + math.exp(-epsilon))) & (rng.random(len(bits)) >= leak)
        return bits ^ flipped

    return train


def at_place(model, X, y):
    return np.asarray(model, dtype=float)[X.argmax(axis=1)]


def labels_response(epsilon, rng):
    """The labels of all rows, each flipped with the odds of label-DP: sound for records replaced in their labels."""

    def train(X, y):
        return np.where(rng.random(len(y)) > 1 / (1 + math.exp(-epsilon)), 1 - y, y)[4:]

    return train


def refuted(train, claimed, seed, *, neighbours="add-remove", score=at_place, runs=1, canaries=UNIT):
    return audit_training(
        train,
        DATA,
        claimed=claimed,
        neighbours=neighbours,
        rng=np.random.default_rng(10_000 + seed),
        canaries=canaries,
        score=score,
        runs=runs,
    ).refuted


def test_a_sound_gaussian_trainer_is_not_refuted_in_200_seeds():
    claimed = (gaussian_dp_epsilon(1.0, 1e-5), 1e-5)
    for seed in range(200):
        assert not refuted(noisy_sum(1.0, np.random.default_rng(seed)), claimed, seed)


@pytest.mark.parametrize(("claimed", "least", "most"), [(1.0, 0, 18), (0.4, 190, 200)])
def test_randomized_response_is_refuted_at_the_stated_level_and_a_wrong_claim_nearly_always(claimed, least, most):
    """The true epsilon is 1; 18 of 200 is the 99.5% quantile of errors of 5%."""
    trainers = [randomized_response(1.0, np.random.default_rng(seed)) for seed in range(200)]
    assert least <= sum(refuted(train, (claimed, 0.0), seed) for seed, train in enumerate(trainers)) <= most


@pytest.mark.parametrize(("claimed", "least", "most"), [(1.0, 0, 18), (0.4, 190, 200)])
def test_replaced_labels_are_audited_by_both_versions(claimed, least, most):
    def score(model, X, y):
        return (model == y).astype(float)

    trainers = [labels_response(1.0, np.random.default_rng(seed)) for seed in range(200)]
    found = [
        refuted(train, (claimed, 0.0), seed, neighbours="replace", score=score) for seed, train in enumerate(trainers)
    ]
    assert least <= sum(found) <= most


@pytest.mark.parametrize("leak", [0.0, 0.02])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_right_guesses_of_randomized_response_are_as_likely_as_they_are(epsilon, leak):
    """(epsilon, leak)-DP attains the bound for leak 0 nearly, and never exceeds it."""
    right = leak + (1 - leak) / (1 + math.exp(-epsilon))
    for canaries in (1, 2, 3, 10, 100):
        for correct in range(1, canaries + 1):
            tail = binom.sf(correct - 1, canaries, right)
            if not 1e-12 < tail < 0.5:
                continue
            counts = {"correct": correct, "guesses": canaries, "canaries": canaries}
            inverse = _inverse_trade_off(epsilon, leak)
            assert not refutes_trade_off(inverse, **counts, error=tail * (1 - 1e-9))
            if leak == 0 and tail < 0.1:
                assert refutes_trade_off(inverse, **counts, error=1.25 * tail)


def bounds(true, pairs, seed, *, leak=0.0):
    rng = np.random.default_rng(seed)
    bets = Bets(delta=leak, error=0.05)
    seen = []
    right = 1 / (1 + math.exp(-true))
    for _ in range(pairs):
        used = 2.0 if rng.random() < leak else float(rng.random() < right)
        bets.add(used=used, unused=-1.0 if rng.random() < leak else float(rng.random() >= right))
        seen.append(bets.bound)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("leak", [0.0, 0.05])
def test_bets_exceed_the_true_epsilon_at_any_time_in_5_percent_of_cases_at_most(leak):
    found = [max(bounds(0.7, 100, seed, leak=leak)) for seed in range(100)]
    assert sum(bound > 0.7 for bound in found) <= 11  # the 99.5% quantile of errors of 5%
    assert np.median(found) > 0.1


def test_bets_find_most_of_a_larger_epsilon():
    assert np.median([bounds(3.0, 300, seed)[-1] for seed in range(5)]) > 1.5
    assert bounds(20.0, 100, 0)[-1] > 2.5


def test_bets_never_reach_what_a_score_that_says_nothing_cannot_show():
    bets = Bets(delta=0.0, error=0.05)
    for _ in range(50):
        bets.add(used=0.0, unused=0.0)
    assert bets.bound == 0.0
    with pytest.raises(InvalidInput, match="scores must be finite"):
        bets.add(used=math.nan, unused=0.0)
    assert bets.pairs == 50


@pytest.mark.parametrize("delta", [False, True, -0.1, 1.0, math.nan, math.inf], ids=str)
def test_bets_refuse_a_delta_out_of_range(delta):
    with pytest.raises(InvalidInput, match="delta must be"):
        Bets(delta=delta, error=0.05)


def test_repeated_runs_stop_when_the_claim_is_refuted():
    trained = []

    def train(X, y):
        trained.append(len(y))
        return X.sum(axis=0)

    found = audit_training(
        train,
        DATA,
        claimed=(1.0, 1e-5),
        neighbours="add-remove",
        rng=np.random.default_rng(0),
        canaries=UNIT,
        score=at_place,
        runs=1000,
    )
    assert found.refuted
    assert found.runs == len(trained) < 80
    assert set(trained) == {4, 5}
    assert "refuted: " in found.verdict
    assert found.as_json()["neighbours"] == "add-remove"


def test_a_sound_trainer_keeps_its_claim_over_repeated_runs():
    claimed = (gaussian_dp_epsilon(1.0, 1e-5), 1e-5)
    found = audit_training(
        noisy_sum(1.0, np.random.default_rng(0)),
        DATA,
        claimed=claimed,
        neighbours="add-remove",
        rng=np.random.default_rng(1),
        canaries=UNIT,
        score=at_place,
        runs=600,
    )
    assert found.runs == 600
    assert 0.1 < found.lower_bound < claimed[0]
    assert "can refute a claim, never prove it" in found.verdict


class Memory:
    """Knows every row that it was trained on."""

    def __init__(self, X, y):
        self.rows = {tuple(row): label for row, label in zip(X, y, strict=True)}

    def predict_proba(self, X):
        known = np.array([self.rows.get(tuple(row), 0.5) for row in X])
        return np.column_stack([1 - known, known])


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_canaries_and_scores_have_defaults(neighbours):
    rng = np.random.default_rng(0)
    data = (rng.normal(size=(300, 3)), rng.integers(2, size=300))
    options = {"claimed": (1.0, 1e-5), "neighbours": neighbours, "rng": rng}
    assert audit_training(Memory, data, canaries=300, **options).lower_bound > 3
    blind = audit_training(lambda X, y: Memory(X[:0], y[:0]), data, canaries=300, **options)
    assert not blind.refuted
    with pytest.raises(InvalidInput, match=r"predict_proba must give the shape \(200, 3\)"):
        audit_training(Memory, (data[0], np.arange(300) % 3), **options)


GOOD = {"claimed": (1.0, 1e-5), "neighbours": "add-remove", "rng": np.random.default_rng(0)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"claimed": 1.0}, r"claimed must be a pair \(epsilon, delta\), got 1.0"),
        ({"claimed": (-1.0, 1e-5)}, "epsilon must"),
        ({"claimed": (math.nan, 1e-5)}, "epsilon must"),
        ({"claimed": (1.0, math.nan)}, "delta must"),
        ({"claimed": (1.0, True)}, "delta must"),
        ({"claimed": (1.0, 1.0)}, "delta must"),
        ({"neighbours": "bounded"}, "neighbours must be one of add-remove, replace, got 'bounded'"),
        ({"rng": 3}, "rng must be a numpy.random.Generator, got 3"),
        ({"confidence": 1.0}, "confidence must"),
        ({"runs": 0}, "runs must"),
        ({"canaries": 5}, "canaries must"),
        ({"canaries": (np.zeros((2, 2)), np.zeros(2))}, "canaries must have rows of the shape"),
        ({"canaries": (np.zeros((2, CANARIES)), np.zeros(3))}, "canaries must be rows and as many labels"),
        ({"score": lambda model, X, y: np.full(len(y), math.inf), "canaries": UNIT}, "score must give 400 finite"),
        ({"score": lambda model, X, y: 0.0, "canaries": UNIT}, "score must give 400 finite"),
    ],
)
def test_bad_values_are_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        audit_training(noisy_sum(1.0, np.random.default_rng(0)), DATA, **(GOOD | changes))
    with pytest.raises(InvalidInput, match="data must be a pair"):
        audit_training(noisy_sum(1.0, np.random.default_rng(0)), DATA[0], **GOOD)


def test_one_run_certifies_more_than_a_quarter_of_an_exact_claim_and_much_of_a_trainer_that_leaks():
    canaries = 1000
    unit, data = (np.eye(canaries), np.zeros(canaries, dtype=int)), (np.zeros((2, canaries)), np.array([0, 1]))
    claimed, game = (gaussian_dp_epsilon(1.0, 1e-5), 1e-5), {"neighbours": "add-remove", "canaries": unit}

    def found(sigma, seed):
        rng, train = np.random.default_rng(10_000 + seed), noisy_sum(sigma, np.random.default_rng(seed))
        return audit_training(train, data, claimed=claimed, rng=rng, score=at_place, **game)

    sound = [found(1.0, seed) for seed in range(20)]
    assert np.median([one.lower_bound for one in sound]) > 0.29 * claimed[0]
    leaking = found(0.0, 0)
    assert (leaking.guesses, leaking.correct) == (500, 500)
    assert leaking.lower_bound > 4.9
