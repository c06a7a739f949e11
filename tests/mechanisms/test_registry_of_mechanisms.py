from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import MECHANISMS, Mechanism, register
from ostrakon.mechanisms.base import FloatArray, VoteSigma
from ostrakon.mechanisms.registry import build, build_with_defaults
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes


@pytest.mark.parametrize("name", ["lnmax", "gnmax", "confident-gnmax", "exponential", "screened-exponential"])
def test_default_noise_scales_with_the_number_of_teachers(name):
    few, many = (build_with_defaults(name, teachers, {}) for teachers in (100, 1000))
    assert type(few) is MECHANISMS[name]
    cost = [worst_case(each, queries=10, delta=1e-6).epsilon for each in (few, many)]
    assert cost[0] > 5 * cost[1]


def test_what_is_given_stands_and_the_rest_is_filled_in():
    mechanism = build_with_defaults("confident-gnmax", 100, {"sigma2": 33.0, "threshold": None})
    assert mechanism.parameters() == {"threshold": 70.0, "sigma1": 80.0, "sigma2": 33.0}


def test_refusals_name_the_parameter():
    with pytest.raises(InvalidInput, match=r"^confident-gnmax needs sigma1, sigma2\.$"):
        build("confident-gnmax", {"threshold": 3})
    with pytest.raises(InvalidInput, match=r"^gamma is not a parameter of gnmax, which takes sigma2\.$"):
        build("gnmax", {"gamma": 0.1})
    with pytest.raises(InvalidInput, match=r"^epsilon_per_query must be a finite number above 0, got -1\.$"):
        build("exponential", {"epsilon_per_query": -1})
    with pytest.raises(InvalidInput, match=r"^mechanism must be one of lnmax, "):
        build("plurality", {})


@dataclass(frozen=True, kw_only=True)
class Plurality(Mechanism):
    """Not private: the plurality itself."""

    name: ClassVar[str] = "plurality"
    releasable: ClassVar[bool] = False

    sigma2: VoteSigma = 1.0

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        return votes.plurality

    def log_probabilities(self, votes: Votes) -> FloatArray:
        law = np.full((votes.queries, votes.classes + 1), -np.inf)
        law[np.arange(votes.queries), votes.plurality] = 0.0
        return law

    def worst_case(self, orders: FloatArray) -> FloatArray:
        return np.full(np.shape(orders), np.inf)


@pytest.mark.parametrize("name", ["gnmax", "Plurality", "two words", "", "-x", None])
def test_a_name_that_is_taken_or_malformed_is_refused(name, monkeypatch):
    monkeypatch.setattr(Plurality, "name", name)
    with pytest.raises(InvalidInput, match=r"^name must be"):
        register(Plurality)


def test_an_abstract_class_is_refused():
    class Unfinished(Mechanism):
        name: ClassVar[str] = "unfinished"

    with pytest.raises(InvalidInput, match="must be a dataclass that defines"):
        register(Unfinished)


def test_a_parameter_without_description_is_refused():
    @dataclass(frozen=True, kw_only=True)
    class Bare(Plurality):
        name: ClassVar[str] = "bare"
        extra: float = 1.0

    with pytest.raises(TypeError, match=r"Bare\.extra must be annotated by one Parameter"):
        register(Bare)


def test_the_registry_is_not_written_but_by_register():
    with pytest.raises(TypeError):
        MECHANISMS["mine"] = Plurality  # type: ignore[index]
