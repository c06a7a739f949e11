"""A student trained again from a release: the one of a run with these options, without anything private."""

import hashlib
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

import ostrakon
from commands import ostrakon as command
from ostrakon.options.options import Options
from ostrakon.report.release import publish
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import run
from ostrakon.statements.restored import statement_from
from ostrakon.validation import InvalidInput

OPTIONS = {"target": "ill", "classes": "no,yes", "epsilon": 4.0, "delta": 1e-4, "jobs": 1, "operator": "Ada"}
SAME = (
    *("guarantee", "rounds", "epsilon_by_adjacency", "membership_guess", "privacy_curve", "adjacency", "teachers"),
    "not_covered",
)


def people(n, seed):
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 90, n), rng.choice(["Ulm", "Bonn", "Rom"], n)
    ill = age / 90 + (city == "Ulm") + rng.normal(size=n) / 4 > 0.9
    return pd.DataFrame({"age": age, "city": city, "ill": np.where(ill, "yes", "no")})


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A finished release and its public table; the folder private/ is gone."""
    folder = tmp_path_factory.mktemp("refit")
    people(1200, 0).to_csv(folder / "private.csv", index=False)
    people(200, 1).drop(columns="ill").to_csv(folder / "public.csv", index=False)
    ostrakon.train(
        out=folder / "run", private=str(folder / "private.csv"), public=str(folder / "public.csv"), **OPTIONS
    )
    shutil.rmtree(folder / "run" / "private")
    (folder / "private.csv").rename(folder / "kept.csv")
    return folder / "run" / "release"


def refitted(release, out, folder=None, **options):
    public = (release.parents[1] if folder is None else folder) / "public.csv"
    made = ostrakon.refit(release, out=out, public=public, **options)
    assert repr(made) == f"Refitted(release={made.release!r})"
    return made.release


def bytes_of(folder, *names):
    return [(folder / name).read_bytes() for name in names]


@pytest.mark.slow
def test_the_student_is_that_of_a_run_with_these_options(release, tmp_path):
    same = refitted(release, tmp_path / "same")
    for name in ("student.onnx", "student.json", "labels.csv", "noisy_counts.csv", "noisy_moments.csv", "refit.json"):
        assert bytes_of(same, name) == bytes_of(release, name), name
    folder = release.parents[1]
    task = task_from_files(folder / "kept.csv", folder / "public.csv", target="ill", classes=["no", "yes"])
    for mechanism in ("moment-gnmax", "bounded-gnmax"):
        # A named student is not corrected, and errors are counted for the student of the run alone.
        none = {"errors": 0, **({"corrections": 0} if mechanism == "moment-gnmax" else {})}
        asked = {"epsilon": 4.0, "delta": 1e-4, "jobs": 1, "mechanism": mechanism, "parameters": none}
        auto, named = (
            publish(run(tmp_path / f"{mechanism}-{student}", task, options, rng=np.random.default_rng(0)))
            for student in ("auto", "logistic")
            for options in [Options(student=student, **asked)]
        )
        assert bytes_of(auto, "student.onnx") != bytes_of(named, "student.onnx")
        other = refitted(auto, tmp_path / f"{mechanism}-other", folder=folder, student="logistic")
        assert bytes_of(other, "student.onnx", "student.json") == bytes_of(named, "student.onnx", "student.json")
    balanced = publish(
        run(tmp_path / "balanced", task, Options(objective="balanced", **asked), rng=np.random.default_rng(0))
    )
    other = refitted(auto, tmp_path / "other-balanced", folder=folder, objective="balanced")
    assert bytes_of(other, "student.onnx") == bytes_of(balanced, "student.onnx") != bytes_of(auto, "student.onnx")
    tuned = [json.loads((made / "statement.json").read_text())["tuned"] for made in (other, balanced)]
    assert tuned[0]["probabilities"] == tuned[1]["probabilities"]


@pytest.mark.slow
def test_the_statement_adds_nothing_and_says_what_was_done(release, tmp_path):
    new = refitted(release, tmp_path / "new", student="moments")
    before, after = (json.loads((folder / "statement.json").read_text()) for folder in (release, new))
    for name in SAME:
        assert after[name] == before[name], name
    kept = {name: how for name, how in before["tuned"].items() if name != "probabilities"}
    student = "logistic regression from sums of features (moments), given by the operator"
    assert after["tuned"].items() >= {**kept, "student": student}.items()
    checksum = hashlib.sha256((release / "manifest.json").read_bytes()).hexdigest()
    assert checksum in after["remarks"][-1]
    assert "costs no privacy (post-processing)" in after["remarks"][-1]
    assert statement_from(after).as_dict() == after
    card = (new / "model_card.md").read_text()
    assert "**Operator.** Ada" in card
    assert "`refit.json`" in card
    twice = refitted(new, tmp_path / "twice", release.parents[1])
    assert bytes_of(twice, "student.onnx") == bytes_of(release, "student.onnx")


def test_the_budget_went_where_it_went_before_with_one_record_removed():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(1200, 2)), rng.normal(size=(200, 2))
    options = {"epsilon": 2.0, "classes": [0, 1], "student": "moments", "random_state": 0}
    for neighbours in ("removed", "replaced"):
        model = ostrakon.PATEClassifier(neighbours=neighbours, **options).fit(X, (X[:, 0] > 0).astype(int), X_public=U)
        asked = statement_from(model.statement_.as_dict()).rounds[0].mechanism
        assert asked.cost_shares == model.mechanism_.cost_shares
        assert asked.relation == model.mechanism_.relation


@pytest.mark.slow
def test_anything_else_is_refused_in_one_sentence(release, tmp_path):
    public = release.parents[1] / "public.csv"
    table = tmp_path / "other.csv"
    table.write_text(public.read_text() + "20,Ulm\n")
    cases = {
        "by its SHA-256 checksum": {"public": table},
        "public must be given": {"public": None},
        "outside of the release": {"public": public, "out": release / "new"},
        "must be new or empty": {"public": public, "out": release.parents[1]},
        "never-heard-of": {"public": public, "student": "never-heard-of"},
        "objective must be one of": {"public": public, "objective": "recall"},
    }
    with pytest.raises(InvalidInput, match="public must be the path of a file or folder, got a DataFrame"):
        ostrakon.refit(release, out=tmp_path / "new", public=pd.read_csv(public))
    with pytest.raises(InvalidInput, match=r"run; .*run/release is one"):
        ostrakon.refit(release.parent, out=tmp_path / "new", public=public)
    for sentence, given in cases.items():
        with pytest.raises(InvalidInput, match=sentence) as refused:
            ostrakon.refit(release, **{"out": tmp_path / "new", **given})
        assert "\n" not in str(refused.value)
    assert not (tmp_path / "new").exists()


def sealed(folder):
    """Write the checksums again, as somebody would who tampers with a release."""
    manifest = json.loads((folder / "manifest.json").read_text())
    names = [path.name for path in folder.iterdir() if path.name != "manifest.json"]
    manifest["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("noisy_counts.csv", lambda text: text.replace("1", "2"), None),
        ("noisy_counts.csv", lambda text: text.rsplit("\n", 2)[0] + "\n", "noisy counts"),
        ("noisy_counts.csv", lambda text: text.rsplit(",", 1)[0] + ",nan\n", "finite"),
        ("labels.csv", lambda text: text.replace(",yes,", ",maybe,"), "another one"),
        ("labels.csv", lambda text: text.rsplit("\n", 2)[0] + "\n", "answers, as its statement says"),
        ("statement.json", lambda text: text.replace('"teachers": 1200', '"teachers": "1200"'), "statement"),
        ("statement.json", lambda text: text.replace('"queries": ', '"queries": 1'), "noisy counts"),
        ("refit.json", lambda text: text.replace("ostrakon-refit/2", "x"), "schema"),
        ("refit.json", lambda text: text.replace('"seed"', '"sead"'), "as a run wrote it"),
        ("refit.json", lambda text: re.sub('"delta": [^,]+', '"delta": NaN', text), "delta must be"),
        ("refit.json", lambda text: re.sub('"date": [^,]+', '"date": 5', text), "date in refit.json"),
        ("refit.json", lambda text: text.replace('"report": {', '"report": {"evil": 1, '), "cannot be read"),
        ("noisy_moments.csv", lambda text: text.rsplit("\n", 2)[0] + "\n", "noisy sums of features must have"),
        ("noisy_corrections.csv", lambda text: text.rsplit("\n", 2)[0] + "\n", "corrections must have"),
        ("noisy_corrections.csv", lambda text: text.replace("\n", ",1\n"), "noisy corrections of the release must be"),
        ("noisy_corrections.csv", lambda text: text.rsplit(",", 1)[0] + ",nan\n", "finite"),
        ("labels.csv", lambda text: re.sub("\n[0-9]+,", "\n1.5,", text, count=1), "no student could be trained"),
        ("labels.csv", lambda text: re.sub("\n[0-9]+,", "\n0,", text, count=2), "about every public row once"),
    ],
)
def test_a_changed_release_is_refused(release, tmp_path, name, change, sentence):
    shutil.copytree(release, tmp_path / "release")
    path = tmp_path / "release" / name
    assert change(path.read_text()) != path.read_text()
    path.write_text(change(path.read_text()))
    public = release.parents[1] / "public.csv"
    with pytest.raises(InvalidInput, match=f"{name.split('.')[0]}.* was changed after it was written"):
        ostrakon.refit(tmp_path / "release", out=tmp_path / "new", public=public)
    if sentence is not None:
        sealed(tmp_path / "release")
        with pytest.raises(InvalidInput, match=sentence) as refused:
            ostrakon.refit(tmp_path / "release", out=tmp_path / "new", public=public)
        assert "\n" not in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release"]


def test_a_release_without_a_recipe_is_refused(release, tmp_path):
    shutil.copytree(release, tmp_path / "release")
    (tmp_path / "release" / "refit.json").unlink()
    sealed(tmp_path / "release")
    with pytest.raises(InvalidInput, match=r"has no refit\.json: .* public rows in files"):
        refitted(tmp_path / "release", tmp_path / "new", release.parents[1])


def test_described_columns_need_no_public_table(tmp_path):
    people(900, 0).to_csv(tmp_path / "private.csv", index=False)
    (tmp_path / "columns.toml").write_text(
        '[columns.age]\nlow = 18\nhigh = 90\nwhole = true\n[columns.city]\ncategories = ["Ulm", "Bonn"]\n'
    )
    files = {"private": str(tmp_path / "private.csv"), "columns": str(tmp_path / "columns.toml")}
    release = ostrakon.train(out=tmp_path / "run", **files, **OPTIONS).release
    shutil.rmtree(tmp_path / "run" / "private")
    same = ostrakon.refit(release, out=tmp_path / "same").release
    assert bytes_of(same, "student.onnx", "student.json") == bytes_of(release, "student.onnx", "student.json")
    with pytest.raises(InvalidInput, match="without public rows"):
        ostrakon.refit(release, out=tmp_path / "new", public=tmp_path / "private.csv")
    with pytest.raises(InvalidInput, match="student cannot be chosen if the columns were described"):
        ostrakon.refit(release, out=tmp_path / "new", student="logistic")
    for folder in (release, same):
        words = (folder / "registry.json").read_text() + (folder / "statement.json").read_text()
        assert "votes of teachers" not in words
        assert "and public rows" not in words
        assert "noisy counts of the private rows by column, without public rows" in words


@pytest.mark.slow
def test_the_command_says_what_it_did(release, tmp_path):
    public = release.parents[1] / "public.csv"
    done = command("refit", release, "--public", public, "--student", "moments", "--out", "new", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("Worst-case privacy", "moments", "May be published"):
        assert word in done.stdout
    done = command("refit", release, "--out", "other", folder=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--public must be given" in done.stderr
