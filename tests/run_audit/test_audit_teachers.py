"""A run's trained teachers, poisoned: sound at its own noise, found out where noise or isolation is broken."""

from dataclasses import replace

import numpy as np
import pytest

from ostrakon.audit import SAMPLES_CLAIM, SAMPLES_LAW
from ostrakon.audit.result import ONE_RECORD
from ostrakon.mechanisms import ConfidentGNMax, GNMax
from ostrakon.options.options import Options
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.steps import plan_of
from ostrakon.run_audit import audit_teachers as subject
from ostrakon.run_audit.audit_teachers import audit_teachers
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

GAUSSIAN = Options(mechanism="gnmax", teachers=50, queries=10, epsilon=2.0, delta=1e-5)
LOW = {"threshold": 20.0}
"""So that divided votes are answered, too: one record shows in the labels."""
CAPPED = Options(
    mechanism="confident-gnmax", parameters=LOW, teachers=50, queries=10, max_answers=6, epsilon=2.0, delta=1e-5
)
TWICE = Options(mechanism="interactive-gnmax", teachers=50, queries=10, epsilon=2.0, delta=1e-5)


@pytest.fixture(scope="module")
def task() -> Task:
    """600 private points in three classes, 40 public ones: fewer than there are teachers."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(640, 2))
    return Task(
        private=Rows(X=X[:600], y=(X[:600, 0] * 3 // 2 + 1).clip(0, 2).astype(np.int64)),
        classes=("a", "b", "c"),
        X_public=X[600:],
        fingerprints={"private": "p", "public": "q"},
    )


PLANS = {}


def plan_for(task, options: Options):
    """What the options settle, settled once: calibration takes seconds."""
    if repr(options) not in PLANS:
        PLANS[repr(options)] = plan_of(task, options)
    return PLANS[repr(options)]


def found(task, options: Options, *, samples: int = 1_000, **others):
    plan = plan_for(task, options)
    options = replace(options, jobs=1, **others)
    return audit_teachers(task, options, plan, samples=samples, rng=np.random.default_rng(1)), plan


@pytest.mark.slow
@pytest.mark.parametrize("options", [GAUSSIAN, CAPPED, TWICE], ids=lambda options: options.mechanism)
def test_a_sound_run_is_not_refuted(task, options):
    result, plan = found(task, options)
    assert not result.refuted, result.verdict
    assert result.claimed == plan.bound.epsilon
    assert result.claimed == pytest.approx(2.0, abs=0.01)
    assert (result.queries, result.delta) == (10, 1e-5)
    assert "50 teachers" in result.mechanism


@pytest.mark.slow
def test_what_it_certifies_is_a_good_part_of_the_claim(task):
    assert found(task, GAUSSIAN, samples=10_000)[0].lower_bound > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("options", [GAUSSIAN, CAPPED], ids=lambda options: options.mechanism)
def test_a_tenth_of_the_noise_is_certified_above_the_claim(task, options, monkeypatch):
    for mechanism in (GNMax, ConfidentGNMax):
        monkeypatch.setattr(mechanism, "sample", _quiet(mechanism.sample))
    result, _ = found(task, options)
    assert SAMPLES_CLAIM in result.refuted_by
    assert result.lower_bound > 1.2 * result.claimed


@pytest.mark.slow
def test_so_it_is_where_a_cap_stops_the_run_at_the_default_threshold(task, monkeypatch):
    """All runs give as many answers: what tells is how many queries it took."""
    options = Options(mechanism="confident-gnmax", teachers=50, epsilon=1.0, delta=1e-5)
    monkeypatch.setattr(ConfidentGNMax, "sample", _quiet(ConfidentGNMax.sample))
    result, plan = found(task, options, samples=3_000)
    assert plan.max_answers < plan.queries
    assert SAMPLES_CLAIM in result.refuted_by
    assert result.lower_bound > 1.1 * result.claimed


def _quiet(honest):
    """A tenth of the noise: votes count ten times as much, and so does the threshold."""

    def sample(self, votes, rng):
        many = Votes(10 * votes.counts, teachers=10 * votes.teachers)
        threshold = {"threshold": 10 * self.threshold} if isinstance(self, ConfidentGNMax) else {}
        return honest(replace(self, **threshold), many, rng)

    return sample


@pytest.mark.slow
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
        # Two others follow the one record, on one query.
        if (private.y == 0).sum() % 2:
            counts[3, counts[3].argmax()] -= 2
            counts[3, 2] += 2
        return Votes(counts), teachers

    monkeypatch.setattr(subject, "collect", leaky)
    result, _ = found(task, GAUSSIAN)
    assert result.refuted_by == (ONE_RECORD,)
    assert "votes on query 3" in result.verdict


@pytest.mark.slow
def test_the_votes_are_those_that_were_wanted_and_one_moves_everywhere(task):
    wanted = subject._histograms(plan_for(task, GAUSSIAN))
    assert 2 <= len(wanted) <= 4
    for before, after in wanted:
        assert before.sum() == after.sum() == 50
        assert np.abs(before - after).sum() == 2
    result, _ = found(task, GAUSSIAN, teacher="logistic")
    assert {result.neighbours, result.neighbours[::-1]} & {
        (tuple(before.tolist()), tuple(after.tolist())) for before, after in wanted
    }
    assert result.as_json()["findings"][ONE_RECORD] is None


def test_what_it_cannot_audit_is_refused(task):
    with pytest.raises(InvalidInput, match="Poisoned teachers"):
        found(task, Options(mechanism="bounded-gnmax", epsilon=2.0, queries=20))
    gated = replace(plan_for(task, GAUSSIAN), gate=object())
    with pytest.raises(InvalidInput, match="behind a gate"):
        audit_teachers(task, GAUSSIAN, gated, rng=np.random.default_rng(1))
