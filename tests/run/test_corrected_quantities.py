"""Runs that correct their student of a quantity: what is planned and paid, one record's part, refits, the gain."""

import json

import numpy as np
import pandas as pd
import pytest
from one_record import require_own_part_alone

import ostrakon
import ostrakon.run.steps as steps
from ostrakon.data.quantity import Quantity
from ostrakon.mechanisms import QuantityGNMax
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.statements.sentences import CORRECTED, DISTILLED, UNCORRECTED
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS


def rows(records, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(records, 4))
    return X, 10 + 2 * X[:, 0] - X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * rng.normal(size=records)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    X, y = rows(900)
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_csv(folder / "private.csv", index=False)
    pd.DataFrame(rows(200, 1)[0], columns=list("abcd")).to_csv(folder / "public.csv", index=False)
    paths = {name: folder / f"{name}.csv" for name in ("private", "public")}
    return {**paths, "target": "y", "range": "0,40", "epsilon": 4.0, "delta": 1e-4}


@pytest.fixture(scope="module")
def run(given, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corrected") / "run"
    ostrakon.train(**given, out=folder)
    return folder


def test_the_statement_says_what_was_released(run):
    content = json.loads((run / "release" / "statement.json").read_text())
    mechanism = QuantityGNMax(**content["rounds"][0]["parameters"])
    assert mechanism.corrections == 0.5
    assert 3.99 < content["guarantee"]["epsilon"] <= 4
    assert any("to sums that correct the student" in remark for remark in content["remarks"])
    assert content["tuned"]["estimates"].startswith(CORRECTED)
    card = (run / "release" / "model_card.md").read_text()
    assert "noisy_corrections.csv" in card
    assert "quantities; noisy sums of its errors on the private rows corrected it" in card
    noisy = pd.read_csv(run / "release" / "noisy_corrections.csv", index_col=0).to_numpy() * STEPS
    assert (noisy == np.rint(noisy)).all()
    residual = (noisy - np.load(run / "private" / "corrections.npy")) / STEPS / mechanism.correction_noise
    # A row of 500 and more numbers.
    assert abs(residual.std() - 1) < 0.15


def test_one_record_adds_its_own_part_alone(monkeypatch):
    """All other records add the same, to the last bit, whatever becomes of one: the first student is fixed."""
    asked, collect = [], steps.collect_sums
    monkeypatch.setattr(steps, "collect_sums", lambda *given, **more: asked.append(given) or collect(*given, **more))
    X, y = rows(900)
    model = ostrakon.PATERegressor(epsilon=4.0, range=(0, 40), random_state=0, noise=np.random.default_rng(0))
    model.fit(X, y, X_public=rows(200, 1)[0])
    plan, private, rule, inputs = asked[1]
    before = collect(plan, private, rule, inputs, seed=0)
    student = model.released_.student
    features = student.directions_.unrounded(np.asarray(model.released_.representation.transform(X), np.float64))
    target = 2 * student.directions_.clipped(Quantity(low=0, high=40).steps(y)) / STEPS - 1
    error = np.clip((target - features @ student.first_coef_) / student.error_scale_, -1, 1)
    exact = features.T @ error * (STEPS - 1 - features.shape[1] ** 0.5 / 2)
    assert np.abs(before.counts.ravel()[: features.shape[1]] - exact).max() < 900 / 2
    changed = {number: FINE_STEPS - private.y[number] for number in (0, 450, 899)}
    require_own_part_alone(lambda given: collect(plan, given, rule, inputs, seed=0), private, changed)


def test_what_is_planned():
    def planned(units, epsilon=1.0, **options):
        asked = Options(epsilon=epsilon, delta=1e-5, **options)
        return make_plan(asked, units=units, pool=500, classes=2, target="quantity").mechanism

    def corrections(units, **options):
        return planned(units, **options).corrections

    assert corrections(5000) == 0.5
    assert corrections(500) == 0.5
    assert corrections(300) == 0
    assert corrections(300, parameters={"corrections": 0.2}) == 0.2
    assert planned(900, epsilon=4.0, parameters={"corrections": 0.5}).errors == 0.08
    assert corrections(5000, parameters={"corrections": 0}) == 0
    assert corrections(5000, parameters={"moments": 0.5}) == 0
    assert corrections(5000, student="soft-vote") == 0.5
    with pytest.raises(InvalidInput, match="so that the votes get a share"):
        corrections(5000, parameters={"corrections": 0.3, "moments": 0.8})


def test_a_refit_is_the_same_student_and_another_student_learns_from_the_corrected_one(run, given, tmp_path):
    options = {"public": given["public"]}
    ostrakon.refit(run / "release", out=tmp_path / "same", **options)
    for name in ("student.onnx", "noisy_corrections.csv", "noisy_errors.csv", "student.json"):
        assert (tmp_path / "same" / name).read_bytes() == (run / "release" / name).read_bytes()
    ostrakon.refit(run / "release", out=tmp_path / "other", student="soft-vote", **options)
    content = json.loads((tmp_path / "other" / "statement.json").read_text())
    assert content["tuned"]["estimates"].startswith(DISTILLED)
    assert CORRECTED in content["tuned"]["estimates"]
    assert UNCORRECTED not in content["remarks"]
    ostrakon.refit(tmp_path / "other", out=tmp_path / "again", **options)
    content = json.loads((tmp_path / "again" / "statement.json").read_text())
    assert content["tuned"]["estimates"].startswith(CORRECTED)
    assert UNCORRECTED not in content["remarks"]


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_a_correction_explains_more(shift):
    """Also where private and public features differ."""
    X, y = rows(4000)
    public, (test, right) = rows(300, 1)[0] + shift, rows(1000, 2)
    scores = []
    for share in (0, 0.3):
        mechanism = f"quantity-gnmax(corrections={share})"
        fitted = [
            ostrakon.PATERegressor(
                epsilon=2.0, range=(0, 20), random_state=seed, noise=np.random.default_rng(seed), mechanism=mechanism
            ).fit(X, y, X_public=public)
            for seed in range(3)
        ]
        assert all(model.released_.student.corrected == bool(share) for model in fitted)
        scores.append(np.mean([model.score(test, right) for model in fitted]))
    assert scores[1] > scores[0] + 0.01, scores
