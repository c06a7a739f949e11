"""Runs that correct their student: what is planned and paid, one record's part, stops, refits, the ledger."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from one_record import require_own_part_alone
from scipy import stats

import ostrakon
import ostrakon.run.stages.corrections as corrections
import ostrakon.run.steps as steps
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.data.consent import Consent
from ostrakon.data.domain import Domain
from ostrakon.export.student_files import load_student
from ostrakon.features.corrections import largest_error
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms import MomentGNMax
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.row_kind import TABLE, RowKind
from ostrakon.report.recorded import find_recorded
from ostrakon.report.table import _student
from ostrakon.statements.sentences import CORRECTED, NOT_CORRECTED, UNCORRECTED
from ostrakon.students.calibration import uncalibrated
from ostrakon.students.corrected_student import CorrectedStudent, bounded
from ostrakon.teachers.errors import ErrorRule
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS


def rows(n, classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (np.clip((stats.norm.cdf(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n))), 0, 0.999) * classes).astype(int)
    return X, y


def line_of(file, start):
    (line,) = (line for line in file.read_text().splitlines() if line.startswith(start))
    return line


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Options of a run on small tables, with a ledger."""
    folder = tmp_path_factory.mktemp("tables")
    X, y = rows(600, 2)
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_csv(folder / "private.csv", index=False)
    pd.DataFrame(rows(150, 2, 1)[0], columns=list("abcd")).to_csv(folder / "public.csv", index=False)
    paths = {name: folder / f"{name}.csv" for name in ("private", "public")}
    ledger = {"ledger": f"sqlite:///{folder / 'ledger.db'}", "budget": 9, "ledger_account": "people"}
    return {**paths, **ledger, "target": "y", "classes": "0, 1", "epsilon": 4.0, "delta": 1e-4}


@pytest.fixture(scope="module")
def run(given, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corrected") / "run"
    ostrakon.train(**given, out=folder)
    return folder


@pytest.fixture
def unfinished(run, tmp_path):
    """A copy of the run without a release."""
    copy = shutil.copytree(run, tmp_path / "copy")
    shutil.rmtree(copy / "release")
    return copy


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_statement_says_what_was_released_and_its_price_covers_it(run):
    content = json.loads((run / "release" / "statement.json").read_text())
    (batch,) = content["rounds"]
    mechanism = MomentGNMax(**batch["parameters"])
    assert (mechanism.corrections, mechanism.moments, mechanism.errors) == (0.5, 0.25, 0.05)
    tables = 2 / mechanism.sigma2**2 + 2 / mechanism.moment_noise**2 + 2 / mechanism.error_noise**2
    mu = (tables + 4 / mechanism.correction_noise**2) ** 0.5
    assert content["guarantee"]["epsilon"] == pytest.approx(gaussian_dp_epsilon(mu, 1e-4), abs=4e-4)
    assert 3.99 < content["guarantee"]["epsilon"] <= 4
    assert any("to sums that correct the student" in remark for remark in content["remarks"])
    assert content["tuned"]["probabilities"].startswith(CORRECTED)
    assert "noisy_corrections.csv" in (run / "release" / "model_card.md").read_text()
    noisy = pd.read_csv(run / "release" / "noisy_corrections.csv", index_col=0).to_numpy() * STEPS
    assert (noisy == np.rint(noisy)).all()
    residual = (noisy - np.load(run / "private" / "corrections.npy")) / STEPS / mechanism.correction_noise
    assert 0.3 < residual.std() < 2


@pytest.mark.parametrize(("classes", "objective"), [(2, "accuracy"), (4, "balanced"), (3, "ordered")])
def test_one_record_adds_its_own_part_and_the_sums_are_those_of_the_formula(classes, objective, monkeypatch):
    """All other records add the same, to the last bit, whatever becomes of one: the first student is fixed."""
    asked, collect = [], steps.collect_sums
    monkeypatch.setattr(steps, "collect_sums", lambda *given, **more: asked.append(given) or collect(*given, **more))
    X, y = rows(900, classes)
    model = ostrakon.PATEClassifier(epsilon=6.0, classes=list(range(classes)), random_state=0, objective=objective)
    model.fit(X, y, X_public=rows(200, classes, 1)[0])
    plan, private, rule, inputs = asked[0]
    before = collect(plan, private, rule, inputs, seed=0)
    student = uncalibrated(model.finished_.student.student)
    features = np.asarray(model.finished_.student.representation.transform(X), np.float64)
    proba = bounded(student.student.predict_proba(features))
    error = (np.eye(classes)[y] - proba) / largest_error(proba)[:, None]
    exact = student.directions.unrounded(features).T @ error
    # Every record is rounded towards 0, by less than a step.
    assert np.abs(before.counts / STEPS - exact).max() < 900 / STEPS
    changed = {number: (private.y[number] + 1) % classes for number in (0, 450, 899)}
    require_own_part_alone(lambda given: collect(plan, given, rule, inputs, seed=0), private, changed)


def test_what_is_planned():
    def corrections(units=1000, *, epsilon=4.0, classes=2, kind=TABLE, consent=None, **given):
        options = Options(epsilon=epsilon, delta=1e-6, **given)
        plan = make_plan(options, units=units, pool=500, classes=classes, kind=kind, consent=consent)
        return getattr(plan.mechanism, "corrections", None)

    assert corrections() == 0.5
    assert corrections(100) == corrections(epsilon=0.5) == 0
    assert corrections(kind=RowKind(embedded=True)) == 0
    assert corrections(10_000, kind=RowKind(embedded=True)) == 0.5
    assert corrections(kind=RowKind(wide=True)) == 0.5
    many = {"classes": 21, "kind": RowKind(embedded=True)}
    for other in (many, {"student": "gaussian-process"}, {"parameters": {"moments": 0.3}}):
        assert corrections(10_000, **other) == 0
    assert corrections(parameters={"corrections": 0}) == 0
    assert corrections(100, parameters={"corrections": 0.2}) == 0.2
    assert corrections(mechanism="bounded-gnmax") is None
    assert corrections(parameters={"errors": 0.4}) == 0
    assert corrections(parameters={"errors": 0.2}) == 0.5
    # Noise that is given is not made dearer.
    assert corrections(epsilon=None, mechanism="moment-gnmax", parameters={"sigma2": 10.0}) == 0
    asked = {"parameters": {"corrections": 0.1}}
    consent = Consent(column="level", epsilons={"1": 2.0, "2": 4.0})
    assert corrections(epsilon=None, consent=consent) == 0
    # With images, the student may learn from their pixels, or have no probabilities.
    assert corrections(10_000, kind=RowKind(images=True), mechanism="moment-gnmax") == 0
    with pytest.raises(InvalidInput, match=r"corrections must be 0 for records with levels of consent, got 0\.1"):
        corrections(epsilon=None, consent=consent, mechanism="moment-gnmax", **asked)
    for other in ({"student": "gaussian-process"}, many, {"kind": RowKind(images=True)}):
        with pytest.raises(InvalidInput, match=r"corrections must be 0 for a named student, .*, got 0\.1"):
            corrections(**{"mechanism": "moment-gnmax"} | other, **asked)
    domain = Domain.of({name: {"categories": ["x", "y"]} for name in ("a", "b")})
    with pytest.raises(InvalidInput, match=r"corrections must be 0 if the columns are described, got 0\.1"):
        make_plan(Options(epsilon=4.0, **asked), units=1000, pool=4, classes=2, domain=domain)


def test_a_plan_with_corrections_costs_what_is_asked_for():
    for neighbours in ("replaced", "removed"):
        options = Options(epsilon=3.0, delta=1e-5, neighbours=neighbours)
        plan = make_plan(options, units=1000, pool=500, classes=2)
        assert plan.mechanism.correction_noise is not None
        assert 2.99 < plan.guarantee.epsilon <= 3


def test_the_ledger_knows_the_corrections(run, given, tmp_path):
    ledger = Ledger(given["ledger"])
    recorded = find_recorded(run / "release", ledger)
    assert "noisy_corrections.csv" in recorded.compared
    assert recorded.others == 0


def test_a_resumed_run_draws_nothing_again_and_sums_nothing_again(run, unfinished, given, monkeypatch):
    noise = contents(unfinished / "private" / "noise")
    assert noise.keys() == {f"{name}-1.npy" for name in ("round", "moments", "corrections", "errors", "student")} | {
        "student-2.npy"
    }
    monkeypatch.setattr(steps, "collect_sums", None)
    ostrakon.train(**given, out=unfinished)
    assert contents(unfinished / "private" / "noise") == noise
    assert contents(unfinished / "release") == contents(run / "release")


@pytest.mark.parametrize("stage", ["draw_sums", "collect_sums"])
def test_a_run_that_was_stopped_draws_the_rest_once(given, tmp_path, monkeypatch, stage):
    real, folder = getattr(steps, stage), tmp_path / "run"

    def stopped(*arguments, **options):
        if stage == "draw_sums" or isinstance(arguments[2], ErrorRule):
            raise KeyboardInterrupt
        return real(*arguments, **options)

    alone = {name: value for name, value in given.items() if "ledger" not in name and name != "budget"}
    monkeypatch.setattr(steps, stage, stopped)
    with pytest.raises(KeyboardInterrupt):
        ostrakon.train(**alone, out=folder)
    drawn = contents(folder / "private" / "noise")
    assert "moments-1.npy" in drawn
    assert "errors-1.npy" not in drawn
    monkeypatch.setattr(steps, stage, real)
    ostrakon.train(**alone, out=folder)
    after = contents(folder / "private" / "noise")
    assert {name: after[name] for name in drawn} == drawn


def test_a_resumed_run_with_another_first_student_is_refused_before_its_errors_are_summed(
    unfinished, given, monkeypatch
):
    compared = steps.estimates_compared
    monkeypatch.setattr(steps, "estimates_compared", lambda *asked: [1 - value for value in compared(*asked)])
    monkeypatch.setattr(steps, "collect_sums", None)
    with pytest.raises(InvalidInput, match="differs from the one that this run fitted before it stopped"):
        ostrakon.train(**given, out=unfinished)


def test_a_refit_is_the_same_student_and_another_student_is_not_corrected(run, given, tmp_path):
    options = {"public": given["public"]}
    ostrakon.refit(run / "release", out=tmp_path / "same", **options)
    for name in ("student.onnx", "noisy_corrections.csv", "noisy_errors.csv"):
        assert (tmp_path / "same" / name).read_bytes() == (run / "release" / name).read_bytes()
    ostrakon.refit(run / "release", out=tmp_path / "other", student="moments", **options)
    content = json.loads((tmp_path / "other" / "statement.json").read_text())
    assert "corrected" not in content["tuned"].get("probabilities", "")
    assert content["estimates"] == []
    assert content["guarantee"]["epsilon"] > 3.99
    assert UNCORRECTED in content["remarks"]
    assert "noisy sums of the private rows' features" in (tmp_path / "other" / "model_card.md").read_text()
    # A refit of that one has the correction again, and does not repeat what was said of the other student.
    ostrakon.refit(tmp_path / "other", out=tmp_path / "again", **options)
    content = json.loads((tmp_path / "again" / "statement.json").read_text())
    assert content["tuned"]["probabilities"].startswith(CORRECTED)
    assert UNCORRECTED not in content["remarks"]


def test_the_first_page_names_no_sums_that_a_refitted_student_does_not_use(run, given, tmp_path):
    first = "This release contains a model"
    assert "noisy sums of the private rows' features" in line_of(run / "release" / "model_card.md", first)
    refitted = ostrakon.refit(run / "release", out=tmp_path / "other", student="logistic", public=given["public"])
    assert dict(_student(refitted.finished))["Correction"] == f"none: {NOT_CORRECTED}"
    page = line_of(tmp_path / "other" / "model_card.md", first)
    assert "it learned from public rows and noisy votes of teachers. The" in page


@pytest.mark.parametrize(("before", "after"), [("accuracy", "balanced"), ("balanced", "log-loss")])
def test_a_refit_with_another_objective_keeps_the_correction(before, after, given, tmp_path):
    alone = {name: value for name, value in given.items() if "ledger" not in name and name != "budget"}
    first = ostrakon.train(**alone, objective=before, out=tmp_path / "run").outcome
    refitted = ostrakon.refit(tmp_path / "run" / "release", objective=after, public=given["public"], out=tmp_path / "b")
    corrected, earlier = (uncalibrated(one.student.student) for one in (refitted.finished, first))
    np.testing.assert_array_equal(corrected.coef_, earlier.coef_)
    rule = refitted.finished.student.student
    assert (getattr(rule, "weights", None) is not None) == (after == "balanced")
    content = json.loads((tmp_path / "b" / "statement.json").read_text())
    assert content["tuned"]["probabilities"].startswith(CORRECTED)
    assert ("every class counts the same" in content["tuned"]["probabilities"]) == (after == "balanced")
    # Errors were counted for other labels.
    assert content["estimates"] == []


def test_the_released_student_says_what_the_one_in_memory_says(given, tmp_path):
    """In ONNX, with a rule for labels and without one."""
    frame = pd.DataFrame(rows(400, 2, 3)[0], columns=list("abcd"))
    for objective in ("accuracy", "balanced"):
        alone = {name: value for name, value in given.items() if "ledger" not in name and name != "budget"}
        finished = ostrakon.train(**alone, objective=objective, out=tmp_path / objective).outcome
        assert isinstance(uncalibrated(finished.student.student), CorrectedStudent)
        released = load_student(tmp_path / objective / "release")
        np.testing.assert_allclose(released.predict_proba(frame), finished.student.predict_proba(frame), atol=1e-9)
        assert list(released.predict(frame)) == [str(one) for one in finished.student.predict(frame)]


@pytest.mark.parametrize("earlier", [False, True])
def test_columns_that_do_not_depend_on_each_other_are_all_corrected(earlier, tmp_path, monkeypatch):
    """earlier: a release of a version that corrected as many directions as it had sums of features."""
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame(rng.integers(0, 2, (number, 40))).add_prefix("b") for number in (1500, 500)]
    labels = np.where(tables[0].iloc[:, :8].sum(axis=1) + rng.normal(size=1500) > 4, "p", "n")
    paths = [tmp_path / name for name in ("private.csv", "public.csv")]
    tables[0].assign(y=labels).to_csv(paths[0], index=False)
    tables[1].to_csv(paths[1], index=False)
    with monkeypatch.context() as patched:
        if earlier:
            patched.setattr(corrections, "worth_correcting", lambda *rows, **numbers: 0)
        release = tmp_path / "run" / "release"
        given = {"private": paths[0], "target": "y", "classes": "n, p", "epsilon": 1.0}
        finished = ostrakon.train(**given, public=paths[1], out=tmp_path / "run").outcome
    lines = {name: len(pd.read_csv(release / f"noisy_{name}.csv")) for name in ("moments", "corrections")}
    assert lines["moments"] < 35
    assert lines["corrections"] == (lines["moments"] if earlier else 41)
    assert uncalibrated(finished.student.student).directions.directions == lines["corrections"]
    ostrakon.refit(release, out=tmp_path / "same", public=paths[1])
    for name in ("student.onnx", "noisy_corrections.csv"):
        assert (tmp_path / "same" / name).read_bytes() == (release / name).read_bytes()
    proba = load_student(release).predict_proba(tables[1])
    np.testing.assert_allclose(proba, finished.student.predict_proba(tables[1]), atol=1e-9)


@pytest.mark.slow
def test_corrections_help_where_public_rows_are_few():
    """Means over seeds; the difference is several standard errors."""
    gains = []
    for seed in range(12):
        X, y = rows(1200, 3, seed)
        X_public = rows(60, 3, 100 + seed)[0]
        X_test, y_test = rows(4000, 3, 200 + seed)
        scores = []
        for share in (0.5, 0.0):
            model = ostrakon.PATEClassifier(
                epsilon=4.0, classes=[0, 1, 2], random_state=0, mechanism=f"moment-gnmax(corrections={share})",
                noise=np.random.default_rng(seed),
            )  # fmt: skip
            scores.append(np.mean(model.fit(X, y, X_public=X_public).predict(X_test) == y_test))
        gains.append(scores[0] - scores[1])
    assert np.mean(gains) > 3 * np.std(gains, ddof=1) / len(gains) ** 0.5
