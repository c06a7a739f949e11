"""The audit by level of consent passes a collection that scales every level, and refutes one that forgets a level."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ostrakon.cli import app
from ostrakon.data.consent import Consent
from ostrakon.features.moments import MomentMap
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.run_audit.audit_levels import audit_levels
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput

U = np.random.default_rng(0).normal(size=(80, 4))
PLAN = make_plan(
    Options(delta=1e-3), units=900, pool=80, classes=3, consent=Consent(epsilons={"1": 0.5, "2": 1.0, "3": 3.0})
)


def audited(collect=collect_per_record, samples=2000):
    queries = np.arange(PLAN.queries)
    return audit_levels(
        PLAN, U, queries, moments=MomentMap.of(U), rng=np.random.default_rng(1), samples=samples, collect=collect
    )


@pytest.mark.slow
def test_every_level_keeps_its_epsilon():
    found = audited()
    assert [one.level for one in found] == ["1", "2", "3"]
    assert not any(one.refuted for one in found)
    # The attack is worth something: it comes within a tenth of what is claimed.
    assert all(one.distance > 0.9 * one.claimed for one in found)
    assert found[2].lower_bound > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("forgotten", [0, 1])
def test_a_level_that_is_not_scaled_is_refuted(forgotten):
    def forgets(blocks, queries, *, weights, **how):
        weights = [1024 if number == forgotten else weight for number, weight in enumerate(weights)]
        return collect_per_record(blocks, queries, weights=weights, **how)

    found = audited(forgets)
    assert [one.refuted for one in found] == [number == forgotten for number in range(3)]
    assert found[forgotten].lower_bound > 0.5


@pytest.mark.slow
def test_a_weight_too_large_by_a_tenth_is_refuted():
    def larger(blocks, queries, *, weights, **how):
        return collect_per_record(blocks, queries, weights=[min(1024, weight * 11 // 10) for weight in weights], **how)

    assert audited(larger, samples=200)[1].refuted


@pytest.mark.slow
def test_features_that_are_not_scaled_are_refuted():
    def votes_alone(blocks, queries, *, weights, **how):
        scaled = collect_per_record(blocks, queries, weights=weights, **how)
        scaled.moments = collect_per_record(blocks, queries, weights=[1024] * 3, **how).moments
        return scaled

    assert [one.refuted for one in audited(votes_alone, samples=200)] == [True, True, False]


def test_a_plan_without_levels_is_refused():
    plain = make_plan(Options(delta=1e-3), units=900, pool=80, classes=3)
    with pytest.raises(InvalidInput, match="levels of consent"):
        audit_levels(plain, U, np.arange(4), moments=None, rng=np.random.default_rng(0))


def test_an_epsilon_for_a_record_removed_is_not_attacked_by_replacing_one():
    removed = replace(PLAN, mechanism=PLAN.mechanism.under("take-out"))
    with pytest.raises(InvalidInput, match="replaces a record, and this plan's epsilon is for one removed"):
        audit_levels(removed, U, np.arange(9), moments=None, rng=np.random.default_rng(0))


@pytest.mark.slow
def test_a_run_from_files_is_audited_level_by_level(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(1500, 3)), columns=list("abc"))
    frame["ill"] = np.where(frame["a"] > 0, "yes", "no")
    frame[:1000].assign(tier=rng.integers(1, 4, 1000)).to_csv(tmp_path / "private.csv", index=False)
    frame[1000:].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    files = [f"--private={tmp_path / 'private.csv'}", f"--public={tmp_path / 'public.csv'}", "--target=ill"]
    consent = ["--classes=no,yes", "--consent=tier:1=0.5,2=1,3=2"]
    done = CliRunner().invoke(app, ["train", *files, *consent, f"--out={tmp_path / 'run'}"])
    assert done.exit_code == 0, done.output
    audited = CliRunner().invoke(app, ["audit", "--run", str(tmp_path / "run"), "--samples", "500"])
    assert audited.exit_code == 0, audited.output
    assert "No level is refuted." in audited.output
    refused = CliRunner().invoke(app, ["audit", "--run", str(tmp_path / "run"), "--json"])
    assert isinstance(refused.exception, InvalidInput)
