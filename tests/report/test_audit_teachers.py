"""A run's trained teachers, poisoned: sound at its own noise, found out where noise or isolation is broken."""

from dataclasses import replace

import numpy as np
import pytest

from ostrakon.audit import SAMPLES_CLAIM, SAMPLES_LAW
from ostrakon.audit.result import ONE_RECORD
from ostrakon.mechanisms import ConfidentGNMax, GNMax
from ostrakon.report import audit_teachers as subject
from ostrakon.report.audit_run import planned
from ostrakon.report.audit_teachers import audit_teachers
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.pipeline import Recipe
from ostrakon.run.settings.plan import GATE, Request
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

GAUSSIAN = Request(mechanism="gnmax", teachers=60, queries=20, epsilon=2.0, delta=1e-5)
CAPPED = Request(mechanism="confident-gnmax", teachers=60, queries=20, max_answers=10, epsilon=2.0, delta=1e-5)
TWICE = Request(mechanism="interactive-gnmax", teachers=60, queries=20, epsilon=2.0, delta=1e-5)


@pytest.fixture(scope="module")
def task() -> Task:
    """600 private points in three classes, 50 public ones: fewer than there are teachers."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(650, 2))
    return Task(
        private=Rows(X=X[:600], y=(X[:600, 0] * 3 // 2 + 1).clip(0, 2).astype(np.int64)),
        classes=("a", "b", "c"),
        X_public=X[600:],
        fingerprints={"private": "p", "public": "q"},
    )


def found(task, request: Request, *, mechanism=None, samples: int = 2_000, **recipe):
    recipe = Recipe(request=request, n_jobs=1, **recipe)
    plan = planned(task, recipe)
    if mechanism is not None:
        plan = replace(plan, mechanism=mechanism(plan.mechanism))
    return audit_teachers(task, recipe, plan, samples=samples, rng=np.random.default_rng(1)), plan


@pytest.mark.parametrize("request_", [GAUSSIAN, CAPPED, TWICE], ids=lambda request: request.mechanism)
def test_a_sound_run_is_not_refuted(task, request_):
    result, plan = found(task, request_)
    assert not result.refuted, result.verdict
    assert result.claimed == plan.bound.epsilon
    assert result.claimed == pytest.approx(2.0, abs=0.01)
    assert (result.queries, result.delta) == (20, 1e-5)
    assert "60 teachers" in result.mechanism


def test_what_it_certifies_is_a_good_part_of_the_claim(task):
    assert found(task, GAUSSIAN, samples=20_000)[0].lower_bound > 0.3


@pytest.mark.parametrize("request_", [GAUSSIAN, CAPPED, TWICE], ids=lambda request: request.mechanism)
def test_a_tenth_of_the_noise_is_certified_above_the_claim(task, request_, monkeypatch):
    for mechanism in (GNMax, ConfidentGNMax):
        monkeypatch.setattr(mechanism, "sample", _quiet(mechanism.sample))
    result, _ = found(task, request_)
    assert SAMPLES_CLAIM in result.refuted_by
    assert result.lower_bound > 1.2 * result.claimed


def _quiet(honest):
    """A tenth of the noise: votes count ten times as much, and so does the threshold."""

    def sample(self, votes, rng):
        many = Votes(10 * votes.counts, teachers=10 * votes.teachers)
        threshold = {"threshold": 10 * self.threshold} if isinstance(self, ConfidentGNMax) else {}
        return honest(replace(self, **threshold), many, rng)

    return sample


def test_four_fifths_of_the_noise_break_the_law(task, monkeypatch):
    honest = GNMax.sample
    monkeypatch.setattr(
        GNMax, "sample", lambda self, votes, rng: honest(replace(self, sigma2=0.8 * self.sigma2), votes, rng)
    )
    assert found(task, GAUSSIAN)[0].refuted_by == (SAMPLES_LAW,)


def test_a_record_that_moves_two_votes_refutes_the_run(task, monkeypatch):
    honest = subject.collect

    def leaky(plan, private, *rest, **options):
        votes, teachers = honest(plan, private, *rest, **options)
        counts = votes.counts.copy()
        # The second teacher of the largest class follows the first record's label.
        wrong = int(private.y[0])
        counts[3, wrong], counts[3, 2] = counts[3, wrong] + 2, counts[3, 2] - 2
        return Votes(counts), teachers

    monkeypatch.setattr(subject, "collect", leaky)
    result, _ = found(task, GAUSSIAN)
    assert result.refuted_by == (ONE_RECORD,)
    assert "votes on query 3" in result.verdict


def test_the_votes_are_those_that_were_wanted_and_one_moves_everywhere(task):
    recipe = Recipe(request=GAUSSIAN, n_jobs=1, teacher="logistic")
    plan = planned(task, recipe)
    wanted = subject._wanted(plan)
    assert len(wanted) >= 3
    for before, after in wanted:
        assert before.sum() == after.sum() == 60
        assert np.abs(before - after).sum() == 2
    result, _ = found(task, GAUSSIAN, teacher="logistic")
    assert {result.neighbours, result.neighbours[::-1]} & {
        (tuple(before.tolist()), tuple(after.tolist())) for before, after in wanted
    }
    assert result.as_json()["findings"][ONE_RECORD] is None


def test_what_it_cannot_audit_is_refused(task):
    with pytest.raises(InvalidInput, match="Poisoned teachers"):
        found(task, Request(mechanism="bounded-gnmax", epsilon=2.0, queries=20))
    gated = Request(mechanism="gnmax", teachers=60, queries=20, epsilon=3.0, delta=1e-3, guarantee=GATE, agreement=1.0)
    with pytest.raises(InvalidInput, match="behind a gate"):
        found(task, gated)
