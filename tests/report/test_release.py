"""What leaves: complete, covered, loadable, and nothing private in it."""

import csv
import hashlib
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from matplotlib.figure import Figure
from sklearn.datasets import make_blobs

from ostrakon.accounting.epsilons import WorstCase
from ostrakon.options.options import Options
from ostrakon.options.report_details import ReportDetails
from ostrakon.report import plots
from ostrakon.report.charts import budget_shares, released_charts
from ostrakon.report.markdown import escaped
from ostrakon.report.plots import picture
from ostrakon.report.release import publish
from ostrakon.report.statement_file import read_statement, write_statement
from ostrakon.report.table import run_table
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.pipeline import run
from ostrakon.schemas import schema
from ostrakon.statements.statement import epsilon_in_words
from ostrakon.validation import InvalidInput
from stranger import ask, site_of

SECRET = 123456.789
NOISE = {"threshold": 18.0, "sigma1": 15.0, "sigma2": 5.0}


def make_task() -> Task:
    X, y = make_blobs(920, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    frame = pd.DataFrame({"age": X[:, 0], "weight": X[:, 1]})
    frame.loc[3, "age"] = SECRET
    return Task(
        private=Rows(X=frame[:600], y=y[:600].astype(np.int64)),
        classes=("left", "right", "top"),
        X_public=frame[600:720].reset_index(drop=True),
        X_test=frame[720:].reset_index(drop=True),
        y_test=y[720:].astype(np.int64),
        fingerprints={"private": "deadbeefdeadbeef"},
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "run"
    request = Options(jobs=1, teachers=30, parameters=dict(NOISE), queries=100, max_answers=60)
    outcome = run(folder, make_task(), request)
    return outcome, publish(outcome)


@pytest.mark.slow
def test_the_release_is_complete(finished):
    _, release = finished
    assert {path.name for path in release.iterdir()} == {
        "statement.json",
        "registry.json",
        "model_card.md",
        "README.md",
        "report.html",
        "labels.csv",
        "student.json",
        "manifest.json",
        "student.onnx",
        "load_student.py",
    }


def test_the_manifest_lists_every_file_with_its_checksum(finished):
    _, release = finished
    listed = json.loads((release / "manifest.json").read_text())["files"]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in release.iterdir()}
    assert listed == {name: found[name] for name in found if name != "manifest.json"}


def test_the_card_names_the_labels_that_the_student_cannot_predict(tmp_path, finished):
    row = "| Labels the student never predicts | "
    assert row not in (finished[1] / "model_card.md").read_text()
    task = replace(make_task(), classes=("left", "right", "top", "absent", "rare"))
    request = Options(jobs=1, teachers=30, mechanism="gnmax", epsilon=4.0, queries=20, student="logistic")
    card = (publish(run(tmp_path / "run", task, request)) / "model_card.md").read_text()
    assert f"{row}absent, rare |" in card


@pytest.mark.parametrize("left", ["nothing", "files"])
def test_a_release_without_its_manifest_is_not_finished(tmp_path, finished, left):
    outcome = replace(finished[0], folder=tmp_path)
    release = tmp_path / "release"
    shutil.copytree(finished[1].parent, tmp_path, dirs_exist_ok=True)
    if left == "nothing":
        shutil.rmtree(release)
        release.mkdir()
        assert {path.name for path in publish(outcome).iterdir()} == {path.name for path in finished[1].iterdir()}
        return
    (release / "manifest.json").unlink()
    with pytest.raises(InvalidInput, match=r"has no manifest\.json, so it is not a finished release: remove"):
        publish(outcome)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (lambda folder: (folder / "labels.csv").write_text("row,label,source\n"), r"labels\.csv was changed after it"),
        (lambda folder: (folder / "student.onnx").unlink(), r"student\.onnx is gone from"),
        (lambda folder: (folder / "notes.txt").write_text("x"), r"holds notes\.txt, which its manifest does not list"),
        (lambda folder: (folder / "manifest.json").write_text("{"), r"manifest\.json is damaged"),
        (lambda folder: (folder / "manifest.json").write_text('{"schema": "x", "files": {}}'), "must have the schema"),
    ],
)
def test_a_finished_release_is_verified(tmp_path, finished, fault, sentence):
    shutil.copytree(finished[1].parent, tmp_path, dirs_exist_ok=True)
    outcome = replace(finished[0], folder=tmp_path)
    assert publish(outcome) == tmp_path / "release"
    fault(tmp_path / "release")
    with pytest.raises(InvalidInput, match=sentence):
        publish(outcome)


def test_the_statement_says_what_the_plan_promised(finished):
    outcome, release = finished
    told = read_statement(release)
    assert told == json.loads(json.dumps(outcome.statement.as_dict()))
    assert told["guarantee"]["epsilon"] >= outcome.plan.bound.epsilon
    assert told["guarantee"]["delta"] == outcome.plan.delta
    (round_,) = told["rounds"]
    assert round_["mechanism"] == "confident-gnmax"
    assert round_["parameters"] == NOISE
    assert (round_["queries"], round_["max_answers"]) == (100, 60)
    assert told["unit_of_privacy"] == "record"


def test_the_labels_are_the_answers(finished):
    outcome, release = finished
    with open(release / "labels.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == outcome.queries.tolist()
    names = [*outcome.classes, ""]
    assert [row["label"] for row in rows] == [names[label] for label in outcome.answers.labels]
    assert sum(bool(row["label"]) for row in rows) == outcome.statement.answered <= 60


def test_nothing_private_is_in_the_release(finished):
    outcome, release = finished
    content = b"".join(path.read_bytes() for path in release.iterdir() if path.suffix != ".onnx")
    local = json.loads((outcome.folder / "private" / "data_dependent_cost.json").read_text())
    told = re.sub(r"data:image/png;base64,[^\"]*", "", content.decode())
    assert str(local["epsilon"])[:7] not in told
    assert str(SECRET) not in told
    assert "deadbeef" not in told
    # The number of private rows; it may be in a checksum by chance.
    assert not re.search(r"(?<![0-9a-f,])600(?![0-9a-f])", told)
    assert f"{outcome.accuracy:.2%}" not in told  # measured on rows that nobody called public
    assert not [what for what in outcome.measures.in_words() if f"{what} on test rows" in told]
    assert not [path for path in release.rglob("*") if path.suffix in (".pkl", ".pickle", ".joblib", ".npy")]


def test_the_card_answers_the_questions(finished):
    _, release = finished
    card = (release / "model_card.md").read_text()
    told = read_statement(release)
    assert f"({epsilon_in_words(told['guarantee']['epsilon'])}, 1e-05)-differentially private" in card
    for question in ("unit of privacy", "neighbours", "trusted", "noise come from", "composed"):
        assert question in card
    for item in told["not_covered"]:
        assert item in card
    for name, source in told["tuned"].items():
        assert f"\n| {name} | {escaped(source)} |\n" in card
    assert "student.onnx" in card


def test_the_lines_of_the_card_run_where_nothing_of_ours_is(finished, tmp_path):
    outcome, release = finished
    lines = re.search(r"```python\n(.*?)```", (release / "model_card.md").read_text(), re.S)[1].splitlines()
    rows = [
        {"age": 0.0, "weight": "0"},
        {"weight": 0.0, "age": "6"},
        {"age": 0, "extra": 1, "weight": 6},
        {"age": "?", "weight": 6},
    ]
    folder = shutil.copytree(release, tmp_path / "elsewhere")
    said = ask(site_of(tmp_path / "site"), {folder: (lines, rows)})[folder]
    assert said["labels"] == outcome.student.predict(rows).tolist()
    assert said["labels"][:3] == ["left", "right", "top"]
    assert len(said["shown"]) == 1
    assert said["shown"][0] in outcome.classes


def test_the_first_page_says_what_the_statement_does(finished):
    outcome, release = finished
    first, details = (release / "model_card.md").read_text().split("## Privacy")
    told = read_statement(release)
    assert told["membership_guess"]["at_most"] >= outcome.plan.membership_guess()
    assert told["membership_guess"]["at_most"] == pytest.approx(outcome.plan.membership_guess(), abs=1.01e-4)
    assert f"at most **{told['membership_guess']['at_most']:.2%}** of the time" in first
    assert told["membership_guess"]["neighbours"] == told["adjacency"]
    assert "|" not in first
    assert "| Question (from the guideline NIST" in details
    for what in ("Which data.", "Operator.", "Contact.", "Purpose."):
        assert f"**{what}** not given" in first.splitlines()
    entry = json.loads((release / "registry.json").read_text())
    assert Draft202012Validator(schema("registry")).is_valid(entry)
    assert "number_of_privacy_units" not in entry["deployment"]["privacy_loss"]  # of trained teachers it stays inside


@pytest.mark.slow
def test_only_the_day_differs_between_days_and_a_resumed_run_keeps_its_own(tmp_path, finished, monkeypatch):
    """The one thing beside the released answers that a release tells: on which day the run was planned."""
    before = {path.name: path.read_bytes() for path in finished[1].iterdir()}
    shutil.copytree(finished[1].parent, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "release")
    home = RunFolder(tmp_path)
    day = home.read()["date"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    again = run(
        tmp_path, make_task(), Options(jobs=1, teachers=30, parameters=dict(NOISE), queries=100, max_answers=60)
    )
    assert {path.name: path.read_bytes() for path in publish(again).iterdir()} == before
    shutil.rmtree(tmp_path / "release")
    home.write({**home.read(), "date": "1999-12-31"})
    after = {path.name: path.read_bytes() for path in publish(again).iterdir()}
    assert {name for name in before if before[name] != after[name]} == {
        "model_card.md",
        "README.md",
        "report.html",
        "registry.json",
        "manifest.json",
    }
    for name in ("model_card.md", "README.md", "report.html", "registry.json"):
        assert after[name].replace(b"1999-12-31", day.encode()) == before[name]


def test_what_the_operator_told_is_in_the_release(tmp_path, finished):
    shutil.copytree(finished[1].parent, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "release")
    who = ReportDetails(operator="<script>Ada</script>", contact="a|b", purpose="c\n# d", data_name="*e*")
    release = publish(replace(finished[0], folder=tmp_path), who)
    shown = (release / "report.html").read_text()
    assert "<strong>Operator.</strong> &lt;script&gt;Ada&lt;/script&gt;</p>" in shown
    for words in ("Contact.</strong> a|b</p>", "Purpose.</strong> c # d</p>", "data.</strong> *e*</p>"):
        assert words in shown
    entry = json.loads((release / "registry.json").read_text())["deployment"]["basic"]
    assert entry["data_curators"][0]["data_curator_name"] == "<script>Ada</script>"
    assert entry["intended_use"] == "c # d"


def test_a_release_is_written_once(finished):
    outcome, release = finished
    before = {path.name: path.stat().st_mtime_ns for path in release.iterdir()}
    assert publish(outcome, publish_accuracy=True) == release
    assert {path.name: path.stat().st_mtime_ns for path in release.iterdir()} == before


@pytest.mark.slow
def test_an_interrupted_release_is_written_anew(tmp_path):
    request = Options(jobs=1, teachers=30, parameters=dict(NOISE), queries=40)
    outcome = run(tmp_path / "run", make_task(), request)
    (tmp_path / "run" / "release.partial").mkdir()
    (tmp_path / "run" / "release.partial" / "student.onnx").write_text("half")
    release = publish(outcome, publish_accuracy=True)
    assert (release / "student.onnx").stat().st_size > 1000
    assert not (tmp_path / "run" / "release.partial").exists()
    card = (release / "model_card.md").read_text()
    assert f"{outcome.accuracy:.2%}" in card
    for what, value in outcome.measures.in_words().items():
        assert f"| {what} on test rows | {value} |" in card


@pytest.mark.slow
def test_the_released_charts_are_made_of_what_is_released(tmp_path):
    request = Options(jobs=1, teachers=30, parameters=dict(NOISE), queries=40)
    outcome = run(tmp_path / "run", make_task(), request)
    shown = released_charts(outcome)
    shutil.rmtree(tmp_path / "run" / "private")
    assert released_charts(replace(outcome, measures=None, student=None)) == shown
    other = np.zeros_like(outcome.answers.taught)
    assert released_charts(replace(outcome, answers=replace(outcome.answers, taught=other))) != shown


def test_a_statement_is_the_only_thing_written_as_one(tmp_path, finished):
    for other in ({"epsilon": 0.1}, WorstCase(epsilon=0.1, delta=1e-5, basis=""), None):
        with pytest.raises(InvalidInput, match="states its privacy by a Statement"):
            write_statement(tmp_path, other)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": "ostrakon-statement/0"}'])
def test_a_statement_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / "statement.json").write_text(content)
    with pytest.raises(InvalidInput, match=r"statement\.json must"):
        read_statement(tmp_path)


@pytest.mark.slow
def test_without_guarantee_the_card_and_the_table_say_so(tmp_path):
    request = Options(jobs=1, teachers=30, mechanism="immutable", queries=40)
    outcome = run(tmp_path / "run", make_task(), request)
    release = publish(outcome)
    card = (release / "model_card.md").read_text()
    assert "**This is not differentially private, because" in card
    assert "-differentially private for every" not in card
    assert "Claimed by the authors of immutable, and not true" in card
    assert read_statement(release)["guarantee"] is None
    assert read_statement(release)["membership_guess"] is None
    assert "**What is protected.** Nothing." in card
    # Nothing to register as differentially private.
    assert not (release / "registry.json").exists()
    assert "registry.json" not in card
    cells = [cell for column in run_table(outcome, release=release).columns for cell in column.cells]
    assert any("NONE" in str(cell) for cell in cells)


def test_the_picture_adds_up_and_stays_private(finished):
    outcome, _ = finished
    shares = budget_shares(outcome)
    assert sum(share for _, share, _ in shares) == pytest.approx(1)
    check = 100 / 15.0**2
    answers = 2 * 60 / 5.0**2
    assert shares[0][1] == pytest.approx(check / (check + answers))
    assert re.findall(r"(\d+)%</span>", released_charts(outcome)) == [f"{100 * share:.0f}" for _, share, _ in shares]
    path = picture(outcome)
    assert path.parent.name == "private"
    assert path.read_bytes()[:4] == b"\x89PNG"
    axes = Figure().subplots()
    plots._budget(axes, outcome)
    assert axes.get_title(loc="left").endswith("(worst-case),\nfor one record more or less")
    assert path.stat().st_mode & 0o077 == 0
