"""Refits of releases whose target is a quantity, or whose rows have several labels: nothing private, nothing spent."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import ostrakon
from ostrakon.estimators.registry import named_in_words
from ostrakon.export.student_files import load_student
from ostrakon.validation import InvalidInput

pytestmark = pytest.mark.slow

SAME = (
    *("guarantee", "rounds", "epsilon_by_adjacency", "membership_guess", "privacy_curve", "adjacency", "teachers"),
    *("not_covered", "unit_of_privacy"),
)
ASKED = {"epsilon": 4.0, "delta": 1e-4, "jobs": 1}
TARGETS = {
    "quantity": {"target": "price", "range": "0,80"},
    "votes": {"target": "old,local"},
    "few votes": {"target": "old,local,rich,a,b", "max_labels": 1},
    "teachers": {"target": "old,local", "teachers": 10, "queries": 40, "mechanism": "gnmax"},
}
COLUMNS = ["age", "city"]


def people(n, seed):
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 90, n), rng.choice(["Ulm", "Bonn"], n)
    old = age + rng.normal(size=n) * 8 > 60
    price = 0.6 * age + 15 * (city == "Ulm") + rng.normal(size=n) * 3
    local = (city == "Ulm") ^ (rng.random(n) < 0.1)
    more = {"rich": age + rng.normal(size=n) > 80, "a": rng.random(n) < 0.1, "b": rng.random(n) < 0.1}
    numbers = {"old": old, "local": local, **more}
    return pd.DataFrame(
        {"age": age, "city": city, "price": price, **{key: of.astype(int) for key, of in numbers.items()}}
    )


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Finished releases by target, without the private folder and the private table."""
    folder = tmp_path_factory.mktemp("targets")
    people(200, 1)[COLUMNS].to_csv(folder / "public.csv", index=False)
    finished = {}
    for name, asked in TARGETS.items():
        wanted = asked["target"].split(",")
        people(1500, 0)[[*COLUMNS, *wanted]].to_csv(folder / "private.csv", index=False)
        files = {"private": folder / "private.csv", "public": folder / "public.csv", "out": folder / name}
        finished[name] = ostrakon.train(**files, **ASKED, **asked).release
        shutil.rmtree(folder / name / "private")
    (folder / "private.csv").unlink()
    return finished


def refitted(release, out, public=None, **options):
    public = release.parents[1] / "public.csv" if public is None else public
    return ostrakon.refit(release, out=out, public=public, **options).release


def content(release):
    return json.loads((release / "statement.json").read_text())


@pytest.mark.parametrize("name", TARGETS)
def test_the_same_student_again_is_the_same_to_the_last_bit(releases, tmp_path, name):
    again = refitted(releases[name], tmp_path / "again")
    kept = ("student.onnx", "student.json", "refit.json")
    written = [path.name for path in releases[name].glob("*.csv")]
    assert written
    for file in (*kept, *written):
        assert (again / file).read_bytes() == (releases[name] / file).read_bytes(), file


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("quantity", "hist-gradient-boosting"),
        ("quantity", "additive(increasing='age')"),
        ("votes", "soft-vote"),
        ("few votes", "additive(decreasing='age')"),
        ("teachers", "label-spreading"),
    ],
)
def test_another_student_adds_nothing(releases, tmp_path, name, student):
    new = refitted(releases[name], tmp_path / "new", student=student)
    before, after = content(releases[name]), content(new)
    for part in SAME:
        assert after[part] == before[part], part
    assert after["tuned"]["student"] == f"{named_in_words(student)}, given by the operator"
    assert "costs no privacy (post-processing)" in after["remarks"][-1]
    assert "this one adds nothing to the total" in (new / "model_card.md").read_text()
    assert (new / "student.onnx").read_bytes() != (releases[name] / "student.onnx").read_bytes()
    page = (new / "report.html").read_text()
    assert ("log-odds of its place between both ends" in page) is (name == "quantity" and "additive" in student)
    rows = people(2000, 2)
    said = load_student(new).predict(rows[COLUMNS])
    if name == "quantity":
        assert "the released student was trained on its estimates for the public rows." in page
        assert np.corrcoef(said, rows["price"])[0, 1] > 0.9
    else:
        labels = content(new)["classes"]
        right = (said == rows[labels].to_numpy()).mean(axis=0)[labels.index("local")]
        assert right > (0.6 if name == "teachers" else 0.8)
    # A second refit starts from there.
    back = refitted(new, tmp_path / "back", public=releases[name].parents[1] / "public.csv")
    assert (back / "student.onnx").read_bytes() == (releases[name] / "student.onnx").read_bytes()


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("quantity", {"student": "ridge"}, "if the target is a quantity, got 'ridge'"),
        ("quantity", {"student": "self-training"}, "if the target is a quantity, got 'self-training'"),
        ("quantity", {"student": "lenet"}, "if the target is a quantity, got 'lenet'"),
        ("quantity", {"student": "moments"}, "student must be auto, sums, soft-vote, additive or a classifier that "),
        ("quantity", {"student": "label-spreading"}, "if the target is a quantity, got 'label-spreading'"),
        ("votes", {"student": "svm-rbf"}, "gives probabilities, such as .* if rows have several labels, got 'svm-rbf'"),
        ("quantity", {"objective": "balanced"}, "objective must be accuracy if the target is a quantity"),
        ("votes", {"student": "cnn"}, "if rows have several labels, got 'cnn'"),
        ("votes", {"objective": "ordered"}, "objective must be accuracy if rows have several labels"),
        ("teachers", {"student": "sums"}, "student must be auto, soft-vote, .* got 'sums'"),
    ],
)
def test_what_cannot_learn_is_refused_in_one_sentence(releases, tmp_path, name, given, sentence):
    with pytest.raises(InvalidInput, match=sentence) as refused:
        refitted(releases[name], tmp_path / "new", **given)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "new").exists()


def test_a_release_of_classes_has_no_sums_for_that_student(tmp_path):
    rows = people(900, 0)[[*COLUMNS, "old"]]
    rows.to_csv(tmp_path / "private.csv", index=False)
    people(200, 1)[COLUMNS].to_csv(tmp_path / "public.csv", index=False)
    files = {"private": tmp_path / "private.csv", "public": tmp_path / "public.csv", "out": tmp_path / "run"}
    with pytest.raises(InvalidInput, match="another one than sums if rows have one class"):
        ostrakon.train(**files, target="old", classes="0,1", student="sums", **ASKED)
    assert not (tmp_path / "run" / "release").exists()
