"""Runs with errors of their student and canaries: sound at their own noise, refuted where these have less."""

import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import ostrakon.teachers.corrections as corrections
import ostrakon.teachers.errors as errors
from ostrakon.data.quantity import ENDS, Quantity
from ostrakon.export.onnx_models import classified
from ostrakon.features.moments import worth_their_noise
from ostrakon.mechanisms import MomentGNMax, QuantityGNMax
from ostrakon.options.options import Options
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task, target_fields
from ostrakon.run.steps import plan_of
from ostrakon.run_audit.audit_run import audit_run
from ostrakon.run_audit.repeated import CORRECTION_SUMS, COUNTS, ERROR_COUNTS, HISTOGRAM_COUNTS, SUMS
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS

OPTIONS = Options(epsilon=4.0, queries=20, delta=1e-5, jobs=1, parameters={"errors": 0.3, "moments": 0.4})


def task():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1000, 2))
    quantity = Quantity.of((0, 10))
    y = quantity.steps(5 + 3 * X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=1000))
    return Task(
        private=Rows(X=X[:900], y=y[:900]),
        X_public=X[900:],
        fingerprints={"private": "p", "public": "q"},
        **target_fields(quantity, ENDS),
    )


def task_of_classes():
    quantities = task()
    y = np.digitize(quantities.private.y, [0.35 * FINE_STEPS, 0.65 * FINE_STEPS])
    return Task(
        private=Rows(X=quantities.private.X, y=y),
        X_public=quantities.X_public,
        fingerprints={"private": "p", "public": "q"},
        classes=("a", "b", "c"),
        classes_from="given",
    )


def less_noise(monkeypatch, share, also=lambda number: True, kind=QuantityGNMax, name="noisy_errors"):
    """Counts of errors of the released run (the first table), or of repetitions, have a share of their noise."""
    honest, drawn = getattr(kind, name), []

    def quiet(self, errors, rng):
        drawn.append(None)
        noisy, exact = honest(self, errors, rng), errors.counts / STEPS
        return exact + np.rint(share * (noisy - exact) * STEPS) / STEPS if also(len(drawn)) else noisy

    monkeypatch.setattr(kind, name, quiet)


def audited(folder, task=task, **options):
    return audit_run(folder / "run", task(), replace(OPTIONS, **options), rng=np.random.default_rng(1))


@pytest.mark.slow
def test_counts_of_right_predictions_are_audited_too(tmp_path, monkeypatch):
    asked = {"task": task_of_classes, "mechanism": "moment-gnmax"}
    (tmp_path / "sound").mkdir()
    found = audited(tmp_path / "sound", **asked)
    assert found.contradiction is None
    assert not found.refuted
    assert found.certified.keys() == {COUNTS, SUMS, ERROR_COUNTS}
    assert 0.2 < found.certified[ERROR_COUNTS] < found.claimed
    (tmp_path / "twice").mkdir()
    with monkeypatch.context() as planted:
        said = errors.error_steps
        planted.setattr(errors, "error_steps", lambda *given, **more: 6 * said(*given, **more))
        found = audited(tmp_path / "twice", **asked)
        assert found.certified[ERROR_COUNTS] > found.claimed
    less_noise(monkeypatch, 0.2, kind=MomentGNMax)
    (tmp_path / "quiet").mkdir()
    found = audited(tmp_path / "quiet", **asked)
    assert found.refuted
    assert "noisy counts of errors" in found.contradiction


@pytest.mark.slow
def test_errors_that_are_counted_twice_are_refuted(tmp_path, monkeypatch):
    """The canary of the errors needs more than that."""
    said = errors.error_steps
    monkeypatch.setattr(errors, "error_steps", lambda *given, **more: 2 * said(*given, **more))
    found = audited(tmp_path, task=task_of_classes, mechanism="moment-gnmax")
    assert found.refuted
    assert "added 1840 votes to the noisy counts of errors" in found.contradiction


@pytest.mark.slow
def test_a_histogram_from_which_records_take_votes_away_is_refuted(tmp_path, monkeypatch):
    """Planted: a record adds three votes and takes two away, so that the sum is one."""
    said = errors.error_steps
    moved = lambda *given, **more: 3 * said(*given, **more) - 2 * np.roll(said(*given, **more), 1, axis=0)  # noqa: E731
    monkeypatch.setattr(errors, "error_steps", moved)
    found = audited(tmp_path, parameters={"errors": 0.0, "moments": 0.4, "histogram": 0.1})
    assert found.refuted
    assert "votes to a bin of the noisy histogram of the target, where none is taken away" in found.contradiction


@pytest.mark.slow
def test_a_sound_run_is_not_refuted_and_its_counts_of_errors_are_attacked_too(tmp_path):
    found = audited(tmp_path, parameters={"errors": 0.3, "moments": 0.3, "histogram": 0.2})
    assert found.contradiction is None
    assert not found.refuted
    assert found.certified.keys() == {COUNTS, SUMS, HISTOGRAM_COUNTS, ERROR_COUNTS}
    assert 0.1 < found.certified[HISTOGRAM_COUNTS] < found.claimed
    # A canary in each of 2,000 repetitions attains most of the 30% of mu squared that the counts of errors cost.
    assert 0.2 < found.certified[ERROR_COUNTS] < found.claimed


@pytest.mark.slow
@pytest.mark.parametrize("repeated_too", [False, True])
def test_a_run_whose_counts_of_errors_lack_noise_is_refuted(tmp_path, monkeypatch, repeated_too):
    less_noise(monkeypatch, 0.2, lambda number: repeated_too or number == 1)
    found = audited(tmp_path)
    assert found.refuted
    assert "noisy counts of errors" in found.contradiction
    assert (found.certified[ERROR_COUNTS] > found.claimed) == repeated_too


@pytest.mark.slow
def test_little_less_noise_shows_in_the_repetitions(tmp_path, monkeypatch):
    less_noise(monkeypatch, 0.95)
    found = audited(tmp_path)
    assert found.refuted
    assert "noisy counts of errors of several aggregations" in found.contradiction


@pytest.mark.slow
def test_a_price_that_is_too_small_is_certified_above_the_claim(tmp_path, monkeypatch):
    """Planted: a record adds six votes to the counts of errors where the noise is for one."""
    said = errors.error_steps
    monkeypatch.setattr(errors, "error_steps", lambda *given, **more: 6 * said(*given, **more))
    found = audited(tmp_path)
    assert found.certified[ERROR_COUNTS] > found.claimed


CORRECTED = {
    "task": task_of_classes,
    "mechanism": "moment-gnmax",
    "parameters": {"errors": 0.03, "moments": 0.1, "corrections": 0.85},
}


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["accuracy", "balanced"])
def test_a_sound_run_is_not_refuted_and_its_corrections_are_attacked_too(tmp_path, objective):
    found = audited(tmp_path, **CORRECTED, objective=objective)
    assert found.contradiction is None
    assert not found.refuted
    assert found.certified.keys() == {COUNTS, SUMS, CORRECTION_SUMS, ERROR_COUNTS}
    assert 0.1 < found.certified[CORRECTION_SUMS] < found.claimed


CORRECTED_QUANTITY = {"parameters": {"errors": 0.03, "moments": 0.1, "corrections": 0.85, "histogram": 0.01}}


@pytest.mark.slow
def test_corrections_of_a_quantity_are_audited(tmp_path, monkeypatch):
    (tmp_path / "sound").mkdir()
    found = audited(tmp_path / "sound", **CORRECTED_QUANTITY)
    assert found.contradiction is None
    assert not found.refuted
    assert found.certified.keys() == {COUNTS, SUMS, HISTOGRAM_COUNTS, CORRECTION_SUMS, ERROR_COUNTS}
    assert 0.1 < found.certified[CORRECTION_SUMS] < found.claimed
    (tmp_path / "twice").mkdir()
    with monkeypatch.context() as planted:
        said = corrections.quantity_correction_steps
        planted.setattr(corrections, "quantity_correction_steps", lambda *given, **more: 2 * said(*given, **more))
        found = audited(tmp_path / "twice", **CORRECTED_QUANTITY)
        assert found.refuted
        assert "votes to the corrections, where it may add one" in found.contradiction
    less_noise(monkeypatch, 0.2, name="noisy_corrections")
    (tmp_path / "quiet").mkdir()
    found = audited(tmp_path / "quiet", **CORRECTED_QUANTITY)
    assert found.refuted
    assert "noisy corrections" in found.contradiction


@pytest.mark.slow
@pytest.mark.parametrize(("share", "repeated_too"), [(0.2, False), (0.8, True)])
def test_a_run_whose_corrections_lack_noise_is_refuted(tmp_path, monkeypatch, share, repeated_too):
    """One table has few numbers, so that less noise of it alone must be much less; repetitions show a fifth."""
    also = {"also": lambda number: repeated_too or number == 1}
    less_noise(monkeypatch, share, kind=MomentGNMax, name="noisy_corrections", **also)
    found = audited(tmp_path, **CORRECTED)
    assert found.refuted
    assert "noisy corrections" in found.contradiction


@pytest.mark.slow
def test_records_that_add_two_votes_to_the_corrections_are_refuted(tmp_path, monkeypatch):
    """The canary of the corrections needs more than that."""
    said = corrections.correction_steps
    monkeypatch.setattr(corrections, "correction_steps", lambda *given: 2 * said(*given))
    found = audited(tmp_path, **CORRECTED)
    assert found.refuted
    assert "votes to the corrections, where it may add one" in found.contradiction


@pytest.mark.slow
def test_corrections_that_cost_too_little_are_certified_above_the_claim(tmp_path, monkeypatch):
    """Planted: a record adds twelve votes where the noise is for one."""
    said = corrections.correction_steps
    monkeypatch.setattr(corrections, "correction_steps", lambda *given: 12 * said(*given))
    assert audited(tmp_path, **CORRECTED).certified[CORRECTION_SUMS] > 4.0


class Locks(ClassifierMixin, BaseEstimator):
    """Can be released, and not copied after a fit."""

    def fit(self, X, y, sample_weight=None):
        self.lock_, self.model_ = threading.Lock(), LogisticRegression().fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def write_onnx(self, graph, rows):
        return classified(graph, self.model_, rows)


def test_a_run_whose_student_cannot_be_copied_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(
        InvalidInput, match=r"needs a student that copy\.deepcopy copies after its fit, .* got .*Locks'\.$"
    ):
        audited(
            tmp_path,
            task_of_classes,
            mechanism="bounded-gnmax",
            parameters={"errors": 0.3},
            student=f"{__name__}.Locks",
        )


def test_canaries_are_records_and_may_be_enough_for_one_more_direction(tmp_path):
    X = np.random.default_rng(0).normal(size=(1200, 50))
    many = Task(
        private=Rows(X=X[:900], y=(X[:900, :25].sum(axis=1) > 0).astype(int)),
        X_public=X[900:],
        fingerprints={"private": "p", "public": "q"},
        classes=("a", "b"),
        classes_from="given",
    )
    options = {"mechanism": "moment-gnmax", "parameters": {}}
    plan = plan_of(many, replace(OPTIONS, **options))
    found = audited(tmp_path, lambda: many, **options)
    directions = len(pd.read_csv(tmp_path / "run" / "release" / "noisy_moments.csv"))
    assert 1 + worth_their_noise(plan.teachers, plan.mechanism.moment_noise) < directions < 51
    assert found.contradiction is None
    assert not found.refuted
