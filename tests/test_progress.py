"""Who is told how far work is: nobody, a function, or whoever watches the terminal."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from ostrakon import progress
from ostrakon.features import FrozenEncoder, SentenceEncoder, representatives
from ostrakon.features.patches import PatchFeatures
from ostrakon.features.representation import Representation
from ostrakon.features.rowwise import in_blocks
from ostrakon.forecast.public_rows import PublicRows
from ostrakon.forecast.rehearsal import rehearse
from ostrakon.options.options import Options
from ostrakon.progress import in_phase, reporting, showing, tracked, working
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.selection import Candidate, Released, select
from ostrakon.teachers.per_record import collect_per_record
from tiny_bert import tiny_bert
from tiny_onnx import IMAGE_TOML, pictures, written


@pytest.fixture(autouse=True)
def no_work_is_short(monkeypatch):
    monkeypatch.setattr(progress, "_SHORT", 0.0)


def test_short_work_shows_nothing(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SHORT", 60.0)
    with showing(True), reporting(True, label="Outside", total=2) as outer, working("Inside", 3) as inner:
        inner(3, 3)
        outer(2, 2)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("silent", [None, False])
def test_silence(silent, capsys):
    with reporting(silent, label="Working", total=2) as report:
        report(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_function_is_called_itself():
    told = []
    with reporting(lambda done, total: told.append((done, total)), label="Working", total=2) as report:
        report(1, 2)
        report(2, 2)
    assert told == [(1, 2), (2, 2)]


def test_a_bar_ends_at_the_total(capsys):
    with reporting(True, label="Working", total=2) as report:
        report(2, 2)
    said = capsys.readouterr().out
    assert "Working" in said
    assert "2/2" in said


def test_work_within_work_has_a_line_of_its_own(capsys):
    with showing(True), reporting(True, label="Outside", total=2) as outer, working("Inside", 3) as inner:
        inner(3, 3)
        outer(2, 2)
    said = capsys.readouterr().out
    assert "Outside" in said
    with working("Silent", 3) as report:
        report(1, 3)
    assert list(tracked(range(100), "Silent", total=100)) == list(range(100))
    assert capsys.readouterr().out == ""


def encoded_texts(folder):
    place = folder / str(sum(1 for _ in folder.iterdir()))
    SentenceEncoder(tiny_bert(place)).encode([f"a film that I like {number}" for number in range(70)])


def encoded_pictures(folder):
    X = np.random.default_rng(0).random((70, 8, 8, 3))
    FrozenEncoder(written(folder, pictures(), IMAGE_TOML)).fit(X)


def students_tried(folder):
    X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    counts = np.stack([X[:30, 0] > 0, X[:30, 0] <= 0], axis=1) * 9.0
    candidates = [
        Candidate(name=name, student=NoisyCountStudent(kind, representation="raw", random_state=0))
        for name, kind in (("logistic", LogisticRegression()), ("bayes", GaussianNB()))
    ]
    select(candidates, X, X, Released(queries=np.arange(30), counts=counts, sigma2=1.0))


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (encoded_texts, ["Encoding texts", "70/70"]),
        (encoded_pictures, ["Encoding pictures", "70/70"]),
        (students_tried, ["Trying students", "10/10"]),
    ],
)
def test_what_takes_minutes_in_a_run_shows_how_far_it_is(work, told, tmp_path, capsys):
    with showing(True):
        work(tmp_path)
    said = capsys.readouterr().out
    assert [word for word in told if word not in said] == []
    work(tmp_path)
    assert capsys.readouterr().out == ""


def test_bars_name_the_rows_that_they_are_about(capsys):
    with showing(True), in_phase("private rows"):
        in_blocks(lambda block: block, np.zeros((70, 2)), rows=10)
        list(tracked(range(70), "Encoding texts", total=70))
    said = " ".join(capsys.readouterr().out.split())
    assert "Computing features (private rows)" in said
    assert "Encoding texts (private rows)" in said


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (
            lambda: representatives(np.random.default_rng(0).normal(size=(300, 4)), 40, random_state=0),
            "Choosing queries",
        ),
        (lambda: in_blocks(lambda block: block, np.zeros((70, 2)), rows=10), "Computing features"),
        (lambda: PatchFeatures(atoms=4, random_state=0).fit(np.random.default_rng(0).random((70, 8, 8, 3))), "Cutting"),
    ],
)
def test_lines_say_how_far_features_are_and_never_go_back(work, told, monkeypatch, capsys):
    clock = iter(range(0, 10**7, 10))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    with showing(True):
        work()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(told) and " left" in line]
    done = [int(line.split(": ")[1].split(" of ")[0]) for line in lines]
    assert done == sorted(done)
    assert len(set(done)) >= 5
    work()
    assert capsys.readouterr().out == ""


def test_rows_are_counted_once_not_again_in_every_block(monkeypatch, capsys):
    clock = iter(range(0, 10**7, 10))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    X = np.random.default_rng(0).random((200, 8, 8, 3))
    learned = Representation(PatchFeatures(atoms=4, random_state=0).fit(X), features=32, rows=70)
    blocks = ((np.arange(100), learned.transform(X[at : at + 100]), np.zeros(100, int)) for at in (0, 100))
    asked = {"queries": learned.transform(X[:2]), "classes": 2, "units": 200, "max_contributions": 1}
    with showing(True), in_phase("private rows"):
        collect_per_record(blocks, **asked, progress=True)
    lines = [line.split(": ") for line in capsys.readouterr().out.splitlines() if " left" in line]
    assert {label for label, _ in lines} == {"Collecting votes"}
    done = [int(count.split(" of ")[0]) for _, count in lines]
    assert done == sorted(done)
    assert len(set(done)) > 100


def test_a_plan_says_how_far_the_features_of_public_pictures_are(capsys):
    public = PublicRows.of(np.random.default_rng(0).random((80, 8, 8)), ["a", "b"] * 40)
    rehearse(public, (), Options(), records=100, repetitions=2, progress=lambda done, total: None)
    assert "Computing features (public rows)" in " ".join(capsys.readouterr().out.split())
    rehearse(public, (), Options(), records=100, repetitions=2)
    assert capsys.readouterr().out == ""
