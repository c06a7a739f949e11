import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from ostrakon.accounting import gaussian_dp_delta, gaussian_dp_epsilon, membership_guess
from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.epsilons import DataDependent, Gated, Sanitized, WorstCase
from ostrakon.accounting.privacy_curve import PrivacyCurve
from ostrakon.mechanisms import GNMax, InteractiveGNMax
from ostrakon.mechanisms.contrib.immutable import Immutable
from ostrakon.statements.statement import (
    SCHEMA,
    Round,
    Statement,
    delta_in_words,
    epsilon_in_words,
    factor_in_words,
    round_up,
    weak_remark,
)
from ostrakon.validation import InvalidInput

WORST = WorstCase(epsilon=1.23456, delta=1e-5, basis="a theorem")
ROUND = Round(mechanism=GNMax(sigma2=40), queries=100, answered=100)
BASE = {
    "rounds": (ROUND,),
    "teachers": 250,
    "classes": ("a", "b"),
    "unit": "record",
    "adjacency": "One record more.",
    "noise_is_secure": True,
}


def test_a_worst_case_is_claimed_rounded_upward():
    told = Statement(guarantee=WORST, **BASE).as_dict()
    assert told["schema"] == SCHEMA
    assert told["private"] is True
    assert told["guarantee"] == {"kind": "worst-case", "epsilon": 1.2346, "delta": 1e-5, "basis": "a theorem"}
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_every_adjacency_has_its_own_epsilon():
    own = Adjacent(relation="add-remove", neighbours="One record more.", epsilon=WORST.epsilon, delta=1e-5)
    other = Adjacent(relation="replace", neighbours="One record replaced.", epsilon=2.71828, delta=1e-5)
    told = Statement(guarantee=WORST, adjacent=(own, other), **BASE).as_dict()["epsilon_by_adjacency"]
    assert told == [
        {"relation": "add-remove", "neighbours": "One record more.", "epsilon": 1.2346, "delta": 1e-5},
        {"relation": "replace", "neighbours": "One record replaced.", "epsilon": 2.7183, "delta": 1e-5},
    ]
    endless = Adjacent(relation="replace", neighbours="One record replaced.", epsilon=float("inf"), delta=1e-5)
    assert len(Statement(guarantee=WORST, adjacent=(own, endless), **BASE).as_dict()["epsilon_by_adjacency"]) == 1
    with pytest.raises(InvalidInput, match="first adjacency must have the epsilon of its guarantee"):
        Statement(guarantee=WORST, adjacent=(other, own), **BASE)
    with pytest.raises(InvalidInput, match="no epsilon under any adjacency"):
        Statement(guarantee=None, not_private="No noise.", adjacent=(own,), **BASE)


def test_the_odds_of_a_guess_are_told_with_their_neighbours():
    curve = PrivacyCurve(points=((WORST.epsilon, 1e-5), (0.4, 0.1)))
    told = Statement(guarantee=WORST, curve=curve, **BASE).as_dict()
    exact = membership_guess(curve.points)
    assert told["membership_guess"] == {"prior": 0.5, "at_most": round_up(exact), "neighbours": "One record more."}
    assert exact <= round_up(exact) < exact + 1e-4
    silent = Statement(guarantee=WORST, **BASE).as_dict()
    assert silent["membership_guess"] is None
    assert silent["privacy_curve"] is None
    with pytest.raises(InvalidInput, match="without a guarantee has no privacy curve"):
        Statement(guarantee=None, not_private="No noise.", curve=curve, **BASE)


def test_a_gaussian_curve_is_told_never_too_strong_and_not_much_too_weak():
    mu = 0.37123
    curve = PrivacyCurve(points=tuple((gaussian_dp_epsilon(mu, delta), delta) for delta in (1e-6, 1e-3, 0.05)), mu=mu)
    told = Statement(guarantee=WORST, curve=curve, **BASE).as_dict()["privacy_curve"]
    assert told["neighbours"] == "One record more."
    assert mu <= told["mu"] < mu + 1e-4
    for point in told["epsilon_at_delta"]:
        assert gaussian_dp_delta(mu, point["epsilon"]) <= point["delta"]
        # An epsilon that is 2% smaller does not hold.
        assert gaussian_dp_delta(mu * (1 - 1e-9), 0.98 * point["epsilon"]) > point["delta"]
    for rate in told["trade_off"]:
        attained = norm.cdf(norm.isf(rate["alpha"]) - mu)
        assert rate["beta"] <= attained < 1.02 * rate["beta"]


@pytest.mark.parametrize("epsilon", [0.0, 2.0, 10.0])
def test_a_strong_promise_needs_no_warning(epsilon):
    assert weak_remark(epsilon) is None


@pytest.mark.parametrize(("epsilon", "odds"), [(10.001, "22,100; at 10"), (94.4, "9.95e+40"), (1e6, "10^434295")])
def test_a_weak_promise_is_called_one(epsilon, odds):
    told = weak_remark(epsilon)
    assert told.startswith(f"Warning: an epsilon of {epsilon_in_words(epsilon)} is a weak promise.")
    assert odds in told


def test_a_gated_guarantee_and_sanitized_estimates_are_accepted():
    gated = Gated(epsilon=1.5, delta=1e-5, levels=((0.9, 8.0, 0.5),))
    estimate = Sanitized(mean=1.3, sd=0.1, upper=1.7)
    told = Statement(guarantee=gated, estimates=(estimate,), **BASE).as_dict()
    assert told["guarantee"]["kind"] == "gated"
    assert told["estimates"] == [{"kind": "sanitized", "mean": 1.3, "sd": 0.1, "upper": 1.7}]


@pytest.mark.parametrize(
    "other",
    [
        DataDependent(epsilon=0.9, delta=1e-5, order=18),
        Sanitized(mean=1, sd=0.1, upper=1.5),
        0.9,
        {"epsilon": 0.9, "delta": 1e-5},
        type("LooksLikeWorstCase", (WorstCase,), {})(epsilon=1, delta=1e-5, basis="none"),
    ],
)
def test_nothing_else_can_be_the_guarantee(other):
    with pytest.raises(InvalidInput, match="accepts a worst-case or a gated epsilon") as refused:
        Statement(guarantee=other, **BASE)
    # Not even the refusal tells the private number.
    assert "0.9" not in str(refused.value)


@pytest.mark.parametrize("other", [DataDependent(epsilon=0.9, delta=1e-5, order=18), WORST, 1.0])
def test_nothing_else_can_be_an_estimate(other):
    with pytest.raises(InvalidInput, match="sanitized numbers, agreements and recalls alone"):
        Statement(guarantee=WORST, estimates=(other,), **BASE)


@pytest.mark.parametrize("epsilon", [float("inf"), float("nan"), -0.1])
def test_an_epsilon_that_is_no_guarantee_is_refused(epsilon):
    with pytest.raises(InvalidInput, match="finite epsilon"):
        Statement(guarantee=WorstCase(epsilon=epsilon, delta=1e-5, basis=""), **BASE)


@pytest.mark.parametrize("delta", [0.0, 1.0, float("nan")])
def test_a_delta_that_is_no_guarantee_is_refused(delta):
    with pytest.raises(InvalidInput, match="delta strictly between 0 and 1"):
        Statement(guarantee=WorstCase(epsilon=1.0, delta=delta, basis=""), **BASE)


def test_ordinary_noise_claims_nothing():
    insecure = {**BASE, "noise_is_secure": False}
    with pytest.raises(InvalidInput, match="cannot claim a guarantee beside this"):
        Statement(guarantee=WORST, **insecure)
    told = Statement(guarantee=None, **insecure).as_dict()
    assert told["private"] is False
    assert told["guarantee"] is None
    assert "not differentially private" in told["not_private"]
    assert "epsilon" not in json.dumps({key: told[key] for key in ("guarantee", "not_private", "estimates")})


def test_a_mechanism_without_guarantee_claims_nothing():
    rounds = (Round(mechanism=Immutable(constant=10, gamma=0.1), queries=5, answered=5),)
    with pytest.raises(InvalidInput, match="immutable cannot be the guarantee"):
        Statement(guarantee=WORST, **{**BASE, "rounds": rounds})
    with pytest.raises(InvalidInput, match="must say in `not_private` why"):
        Statement(guarantee=None, **BASE)


def test_a_round_counts_what_it_can():
    with pytest.raises(InvalidInput, match="answered must be"):
        Round(mechanism=GNMax(sigma2=40), queries=5, answered=6)


def test_scores_are_reported_by_their_shape_not_their_values():
    mechanism = InteractiveGNMax(threshold=1, sigma1=2, sigma2=3, scores=np.tile([0.25, 0.75], (4, 1)))
    told = Round(mechanism=mechanism, queries=4, answered=0).as_dict()
    assert "0.75" not in json.dumps(told)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.1 + 0.2, 1.0001, 12345.67891, 2.0])
def test_rounding_never_goes_down(epsilon):
    assert epsilon <= round_up(epsilon) < epsilon + 2e-4


@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 0.1 + 0.2, 0.9998, 1.0000001, 1.2341, 9.996, 12345.67891, 1e300])
def test_an_epsilon_is_printed_in_three_digits_and_never_too_small(epsilon):
    assert epsilon <= float(epsilon_in_words(epsilon)) <= epsilon * 1.01
    assert (epsilon_in_words(0.9998), epsilon_in_words(np.float64(1.2341))) == ("1", "1.24")
    if epsilon < 500:
        assert math.exp(epsilon) <= float(factor_in_words(epsilon).replace(",", "")) <= math.exp(epsilon) * 1.011


@pytest.mark.parametrize("delta", [1e-5, 2.0000000000000005e-05, 1 / 3, 0.1 + 0.2, 1.0000004e-7, 5e-324, 0.99999999])
def test_a_delta_is_printed_in_few_digits_and_never_too_small(delta):
    shown = delta_in_words(delta)
    assert delta <= float(shown) <= delta * (1 + 1.1e-5)
    assert len(shown) <= 12
