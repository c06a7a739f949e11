"""Runs whose rows have several labels, with canaries: sound at their own noise, found out with less."""

import numpy as np
import pytest

from ostrakon.data.labels import Labels
from ostrakon.mechanisms import LabelsGNMax
from ostrakon.options.options import Options
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run_audit.audit_run import audit_run
from ostrakon.votes import STEPS

OPTIONS = Options(epsilon=2.0, queries=40, delta=1e-5, jobs=1)


def task(labels):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(900, 2))
    Y = (X[:, :1] > np.linspace(-0.5, 0.5, labels)).astype(np.int64)
    return Task(
        private=Rows(X=X[:800], y=Y[:800]),
        X_public=X[800:],
        fingerprints={"private": "p", "public": "q"},
        classes=(names := tuple(f"l{at}" for at in range(labels))),
        coding=Labels(names=names),
    )


@pytest.mark.slow
@pytest.mark.parametrize("labels", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_a_sound_run_is_not_refuted(tmp_path, labels):
    found = audit_run(tmp_path / "run", task(labels), OPTIONS, rng=np.random.default_rng(1))
    assert found.contradiction is None
    assert found.certified.keys() == {"noisy counts", "noisy sums of features"}
    # A canary in each of 2,000 repetitions attains most of what the sums cost.
    assert 0.2 < found.certified["noisy sums of features"] < found.claimed


@pytest.mark.slow
@pytest.mark.parametrize("table", ["noisy_counts", "noisy_moments"])
def test_a_run_whose_tables_lack_noise_is_refuted(tmp_path, monkeypatch, table):
    honest = getattr(LabelsGNMax, table)

    def quiet(self, votes, rng):
        exact = votes.counts / STEPS
        return exact + np.rint(0.8 * (honest(self, votes, rng) - exact) * STEPS) / STEPS

    monkeypatch.setattr(LabelsGNMax, table, quiet)
    found = audit_run(tmp_path / "run", task(3), OPTIONS, rng=np.random.default_rng(1))
    assert found.refuted
    assert "standard deviation" in found.contradiction


@pytest.mark.slow
def test_a_price_that_is_too_small_is_certified_above_the_claim(tmp_path, monkeypatch):
    """Planted: a price that is 27 times too small in mu squared."""
    monkeypatch.setattr(LabelsGNMax, "_squared_length", 1 / 9)
    found = audit_run(tmp_path / "run", task(3), OPTIONS, rng=np.random.default_rng(1))
    assert found.refuted
    assert found.lower_bound > found.claimed
