"""Runs on tables that count errors, of classes and of a quantity: their price, the ledger, stops, refits, an audit."""

import json
import shutil

import jsonschema
import numpy as np
import pandas as pd
import pytest

import ostrakon
import ostrakon.run.steps as steps
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.data.checksummed import sha256
from ostrakon.data.quantity import Quantity
from ostrakon.export.student_files import load_student
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms import QuantityGNMax
from ostrakon.options.options import Options
from ostrakon.report.manifest import write_manifest
from ostrakon.report.recorded import find_recorded
from ostrakon.report.table import refit_table
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run_audit.audit_run import audit_run
from ostrakon.schemas import schema
from ostrakon.statements.sentences import NOT_COUNTED
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

TARGETS = {"ill": {"classes": "from-private"}, "price": {"range": "0,80"}}


def table(n, seed):
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 90, n), rng.choice(["Ulm", "Bonn"], n)
    noise = rng.normal(size=n)
    ill = np.where(age + 15 * (city == "Ulm") + noise * 9 > 70, "yes", "no")
    price = (0.6 * age + 15 * (city == "Ulm") + noise * 3).round(2)
    return pd.DataFrame({"age": age, "city": city, "ill": ill, "price": price, "who": rng.integers(0, n // 2, n)})


@pytest.fixture(scope="module", params=TARGETS)
def options(request, tmp_path_factory):
    """Those of a run on small tables, by target."""
    folder, private = tmp_path_factory.mktemp("tables"), table(1500, 0)
    others = [target for target in TARGETS if target != request.param]
    private.drop(columns=others).to_csv(folder / "private.csv", index=False)
    table(200, 1)[["age", "city"]].to_csv(folder / "public.csv", index=False)
    given = {name: folder / f"{name}.csv" for name in ("private", "public")}
    limits = {"epsilon": 2.0, "delta": 1e-4}
    return {**given, "target": request.param, **TARGETS[request.param], "by": "who", **limits}


def in_ledger(options, folder):
    ledger = {"ledger": f"sqlite:///{folder / 'ledger.db'}", "budget": 5, "ledger_account": "people"}
    return {**options, **ledger}


@pytest.fixture(scope="module")
def run(options, tmp_path_factory):
    """(options with a ledger, folder of the run)."""
    folder = tmp_path_factory.mktemp("counted")
    given = in_ledger(options, folder)
    ostrakon.train(**given, out=folder / "run")
    return given, folder / "run"


@pytest.fixture
def unfinished(run, tmp_path):
    """(options, folder of a copy of the run without a release)."""
    copy = shutil.copytree(run[1], tmp_path / "copy")
    shutil.rmtree(copy / "release")
    return run[0], copy


def of(target, *, slow=False):
    return pytest.mark.parametrize(
        "options", [pytest.param(target, marks=pytest.mark.slow if slow else ())], indirect=True
    )


def statement_of(folder):
    return json.loads((folder / "statement.json").read_text())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_price_is_that_of_all_tables(run):
    content = statement_of(run[1] / "release")
    jsonschema.validate(content, schema("statement"))
    (batch,) = content["rounds"]
    mechanism = (QuantityGNMax if "quantity" in content else ostrakon.MomentGNMax)(**batch["parameters"])
    assert mechanism.errors == (0.08 if "quantity" in content else 0.05)
    corrections = 4 / mechanism.correction_noise**2
    squares = 2 / mechanism.sigma2**2 + 2 / mechanism.moment_noise**2 + 2 / mechanism.error_noise**2
    if mechanism.histogram_noise is not None:
        squares += 2 / mechanism.histogram_noise**2
    mu = (squares + corrections) ** 0.5
    assert mechanism.run_cost(queries=content["queries"]).mu == pytest.approx(mu, rel=1e-9)
    assert content["guarantee"]["epsilon"] == pytest.approx(gaussian_dp_epsilon(mu, 1e-4), abs=2e-4)
    assert 1.99 < content["guarantee"]["epsilon"] <= 2


@of("ill")
def test_what_is_said_of_classes(run):
    student, majority, no, yes, both = statement_of(run[1] / "release")["estimates"]
    assert (student["of"], majority["of"], no["label"], yes["label"], both["label"]) == (
        "student", "majority", "no", "yes", None
    )  # fmt: skip
    assert student["counted"] == "rows of private users, where every user counts the same"
    card = (run[1] / "release" / "model_card.md").read_text()
    assert "by noisy counts of its errors" in card
    assert "counts of the student's errors (its right and wrong predictions), which were released" in card


@of("price")
def test_what_is_said_of_a_quantity(run):
    remarks = statement_of(run[1] / "release")["remarks"]
    assert any("counts of its errors by size" in remark for remark in remarks)


def test_users_together_cast_one_vote_each(run):
    stored = np.load(run[1] / "private" / "errors.npy")
    assert stored.shape[1] == (2 if run[0]["target"] == "ill" else 1)
    assert stored.sum() == table(1500, 0)["who"].nunique() * STEPS


def test_the_ledger_knows_the_counts(run, tmp_path):
    ledger = Ledger(run[0]["ledger"])
    recorded = find_recorded(run[1] / "release", ledger)
    assert "noisy_errors.csv" in recorded.compared
    assert recorded.others == 0
    release = shutil.copytree(run[1] / "release", tmp_path / "release")
    errors, manifest = release / "noisy_errors.csv", release / "manifest.json"
    lines = errors.read_text().splitlines()
    first, noisy, *rest = lines[1].split(",")
    content = json.loads(manifest.read_text())
    for changed, refusal in (
        ([first, str(float(noisy) + 1), *rest], "No run in .* has drawn the numbers"),
        ([f"1{first}", noisy, *rest], "The bins of noisy_errors.csv are not those of the statement"),
    ):
        errors.write_text("\n".join([lines[0], ",".join(changed), *lines[2:]]) + "\n")
        content["files"]["noisy_errors.csv"] = sha256(errors.read_bytes())
        manifest.write_text(json.dumps(content))
        with pytest.raises(InvalidInput, match=refusal):
            find_recorded(release, ledger)


@pytest.mark.slow
@pytest.mark.parametrize("options", ["price"], indirect=True)
def test_a_release_with_another_part_of_the_range_is_not_recorded(run, tmp_path):
    release, ledger = shutil.copytree(run[1] / "release", tmp_path / "release"), Ledger(run[0]["ledger"])
    content = json.loads((release / "statement.json").read_text())
    content["clipped"] = {end: value + 0.5 for end, value in content["clipped"].items()}
    (release / "statement.json").write_text(json.dumps(content))
    write_manifest(release)
    with pytest.raises(InvalidInput, match=r"The range is not clipped as noisy_histogram.csv in .* says"):
        find_recorded(release, ledger)


def test_a_resumed_run_draws_nothing_again_and_counts_nothing_again(run, unfinished, monkeypatch):
    given, folder = unfinished
    noise = contents(folder / "private" / "noise")
    assert "errors-1.npy" in noise
    monkeypatch.setattr(steps, "collect_sums", None)
    ostrakon.train(**given, out=folder)
    assert contents(folder / "private" / "noise") == noise
    assert contents(folder / "release") == contents(run[1] / "release")


@pytest.mark.parametrize("options", ["ill", pytest.param("price", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_was_stopped_at_the_draw_pays_once(options, tmp_path, monkeypatch, when):
    given, folder = in_ledger(options, tmp_path), tmp_path / "run"
    draw = steps.draw_sums

    def stopped(*asked, **log):
        drawn = None if when == "before" and asked[0] == "errors" else draw(*asked, **log)
        if asked[0] == "errors":
            raise KeyboardInterrupt
        return drawn

    monkeypatch.setattr(steps, "draw_sums", stopped)
    with pytest.raises(KeyboardInterrupt):
        ostrakon.train(**given, out=folder)
    monkeypatch.setattr(steps, "draw_sums", draw)
    drawn = contents(folder / "private" / "noise")
    assert ("errors-1.npy" in drawn) == (when == "after")
    copy = shutil.copytree(folder, tmp_path / "copy")
    ostrakon.train(**given, out=folder)
    assert drawn.items() <= contents(folder / "private" / "noise").items()
    ledger = Ledger(given["ledger"])
    assert len(ledger.account("people").spends) == 1
    assert find_recorded(folder / "release", ledger).others == 0
    if when == "before":  # the copy goes on with noise of its own
        with pytest.raises(InvalidInput, match="has drawn its noise already, in another copy"):
            ostrakon.train(**given, out=copy)


@of("ill")
def test_another_student_of_a_resumed_run_is_refused_before_records_are_counted(unfinished, monkeypatch):
    given, folder = unfinished
    compared = steps.estimates_compared
    monkeypatch.setattr(steps, "estimates_compared", lambda *asked: [1 - value for value in compared(*asked)])
    monkeypatch.setattr(steps, "collect_sums", None)
    with pytest.raises(InvalidInput, match="The student differs from the one that this run fitted before it stopped"):
        ostrakon.train(**given, out=folder)


def test_a_lost_draw_is_never_repeated(unfinished):
    given, folder = unfinished
    (folder / "private" / "noise" / "errors-1.npy").unlink()
    with pytest.raises(InvalidInput, match=r"errors-1.npy is gone from the noise log"):
        ostrakon.train(**given, out=folder)


@of("price")
@pytest.mark.parametrize(
    ("change", "ledger", "sentence"),
    [
        ({"errors": None}, False, r"drawn with other settings \(errors\)"),
        ({"errors": None}, True, r"has reserved another cost, .*: its plan was changed, or another version"),
        ({"old": 1.0}, True, r"can read, got one of version .*old is not a parameter"),
        ({"errors": 0.09}, True, r"or version .* of ostrakon, which settled it, computes"),
    ],
)
def test_a_run_of_another_version_is_refused_with_the_cause(options, unfinished, change, ledger, sentence):
    given, folder = unfinished
    home = RunFolder(folder)
    content = home.read()
    parameters = {**content["settled"]["parameters"], **change}
    content["settled"]["parameters"] = {name: value for name, value in parameters.items() if value is not None}
    if not ledger:
        given = options
        content = {name: value for name, value in content.items() if name != "ledger"}
        content["asked"] = {name: value for name, value in content["asked"].items() if name in options}
    home.write(content)
    with pytest.raises(InvalidInput, match=sentence):
        ostrakon.train(**given, out=folder)


@of("ill")
def test_a_refit_keeps_estimates_of_the_same_student_alone(run, tmp_path):
    release, public = run[1] / "release", run[0]["public"]
    same = ostrakon.refit(release, public=public, out=tmp_path / "same").release
    for file in ("student.json", "noisy_errors.csv", "refit.json"):
        assert (same / file).read_bytes() == (release / file).read_bytes(), file
    assert statement_of(same)["estimates"] == statement_of(release)["estimates"]
    other = ostrakon.refit(same, public=public, student="naive-bayes", out=tmp_path / "other").release
    assert statement_of(other)["estimates"] == []
    assert "Not estimated: errors were counted for the student of the earlier release" in (
        other / "model_card.md"
    ).read_text()  # fmt: skip
    first = ostrakon.refit(other, public=public, out=tmp_path / "first").release
    assert statement_of(first)["estimates"] == statement_of(release)["estimates"]
    for folder, counted in ((release, True), (same, True), (other, False), (first, True)):
        card = (folder / "model_card.md").read_text()
        assert (NOT_COUNTED in card) == (not counted)
        assert f"noisy counts of errors of {'the student' if counted else 'the earlier release'}" in card


@of("price", slow=True)
def test_a_refit_keeps_intervals_of_the_same_student_alone(run, tmp_path):
    release, public = run[1] / "release", run[0]["public"]
    same = ostrakon.refit(release, public=public, out=tmp_path / "same").release
    for file in ("student.json", "noisy_errors.csv", "refit.json"):
        assert (same / file).read_bytes() == (release / file).read_bytes(), file
    assert load_student(same).predict_interval(pd.read_csv(public), 0.9).shape == (200, 2)
    done = ostrakon.refit(same, public=public, student="soft-vote", out=tmp_path / "other")
    other = done.release
    printed = list(refit_table(done.finished, release=other).columns[1].cells)
    assert "none: errors were counted for the student of the earlier release, not for this one" in printed
    assert "prediction_intervals" not in json.loads((other / "student.json").read_text())
    assert (
        "errors were counted for the student of the earlier release, not for this one"
        in (other / "model_card.md").read_text()
    )
    with pytest.raises(ValueError, match="whose errors on the private records were counted"):
        load_student(other).predict_interval(pd.read_csv(public))
    first = ostrakon.refit(other, public=public, out=tmp_path / "first").release
    assert (first / "student.json").read_bytes() == (release / "student.json").read_bytes()


@pytest.mark.parametrize("objective", ["balanced", "ordered"])
def test_a_refit_with_another_objective_has_no_estimates_of_the_first_student(objective, tmp_path):
    """Its probabilities are the same, but not the classes that it predicts."""
    people = table(1500, 2).drop(columns=["who", "price"])
    people["ill"] = np.where(people["age"] > 85, "yes", np.where(people["age"] > 60, "may", "no"))
    people.to_csv(tmp_path / "private.csv", index=False)
    columns = '[columns.age]\nlow = 18\nhigh = 90\n[columns.city]\ncategories = ["Ulm", "Bonn"]\n'
    (tmp_path / "columns.toml").write_text(columns)
    given = {"private": tmp_path / "private.csv", "columns": tmp_path / "columns.toml", "classes": "no, may, yes"}
    first = ostrakon.train(**given, target="ill", epsilon=2.0, delta=1e-4, out=tmp_path / "run").release
    same = ostrakon.refit(first, out=tmp_path / "same").release
    assert statement_of(same)["estimates"] == statement_of(first)["estimates"] != []
    other = ostrakon.refit(first, objective=objective, out=tmp_path / "other").release
    assert statement_of(other)["estimates"] == []


@of("price", slow=True)
def test_an_audit_reads_the_counts_of_errors_too(options, tmp_path, monkeypatch):
    given = {name: options[name] for name in ("private", "public")}
    task = task_from_files(**given, target="price", coding=Quantity.of("0,80"), drop=["who"])
    asked = Options(epsilon=2.0, delta=1e-4, queries=20)
    sound = audit_run(tmp_path / "sound", task, asked, rng=np.random.default_rng(0))
    assert sound.contradiction is None
    assert sound.lower_bound <= 2
    noise = QuantityGNMax.noisy_errors
    monkeypatch.setattr(
        QuantityGNMax, "noisy_errors", lambda self, errors, rng: (noise(self, errors, rng) + errors.counts / STEPS) / 2
    )
    broken = audit_run(tmp_path / "broken", task, asked, rng=np.random.default_rng(0))
    assert broken.contradiction is not None
    assert "noisy counts of errors" in broken.contradiction
