"""`ostrakon train` on files of text: through the same door as a table with one column of text."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ostrakon.cli import app
from ostrakon.export.student_files import load_student
from ostrakon.features import default_representation, text
from ostrakon.features.sentences import require_encoder
from ostrakon.forecast.public_rows import read_public
from ostrakon.run.inputs.files import fingerprint_of_file, task_from_files
from ostrakon.run.stages.features import view_of
from ostrakon.validation import InvalidInput
from tiny_bert import WORDS, tiny_bert

GOOD = ["a", "fine", "film", "that", "I", "would", "gladly", "watch", "again", "and", "again"]
BAD = ["what", "dull", "and", "tedious", "hours", "with", "no", "end", "in", "sight"]
PARTS = {"private": 240, "public": 120, "test": 60}

CLASSES = ("--classes", "from-private")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Reviews as files, and as tables of one column beside them."""
    folder, rng = tmp_path_factory.mktemp("reviews"), np.random.default_rng(0)
    for part, rows in PARTS.items():
        texts = []
        for number in range(rows):
            label = "good" if rng.random() < 0.5 else "bad"
            words = " ".join(rng.choice(GOOD if label == "good" else BAD, 9))
            place = folder / part / label / f"{number:03}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{words}\n")
            texts.append((label, place.name, words))
        table = pd.DataFrame(sorted(texts), columns=["label", "file", "text"]).drop(columns="file")
        table.to_csv(folder / f"{part}.csv", index=False)
    return folder


def train(folders, out, *more, public="public"):
    command = [
        "train",
        *CLASSES,
        "--private",
        folders / "private",
        "--public",
        folders / public,
        "--test",
        folders / "test",
    ]
    options = ["--epsilon", 8, "--student", "logistic", "--queries", 20, "--out", out, "--jobs", 1, *more]
    return CliRunner().invoke(app, [str(word) for word in (*command, *options)])


def right(release, folders, rows):
    told = pd.read_csv(folders / "test.csv")
    return np.mean(load_student(release).predict(rows(told)) == told["label"].to_numpy())


@pytest.mark.slow
def test_words(folders, tmp_path):
    done = train(folders, tmp_path / "run", "--representation", "tfidf")
    assert done.exit_code == 0, done.output
    assert "texts, each as the column text" in done.output
    release = tmp_path / "run" / "release"
    said = json.loads((release / "statement.json").read_text())
    assert said["unit_of_privacy"] == "record"
    assert said["guarantee"]["epsilon"] <= 8
    accuracy = json.loads((tmp_path / "run/private/evaluation.json").read_text())["accuracy"]
    assert accuracy > 0.9
    assert right(release, folders, lambda told: told[["text"]]) == accuracy
    assert "texts, each as the column text" in (release / "model_card.md").read_text()
    # Nothing of a private text is in the release but what is a public word, too.
    (column,) = json.loads((release / "student.json").read_text())["input"]["columns"]
    assert {word for term in column["terms"] for word in term.split()} <= {word.lower() for word in GOOD + BAD}


def test_a_sentence_encoder_of_one_s_own(folders, tmp_path):
    encoder = tiny_bert(tmp_path / "bert")
    assert {"fine", "dull"} <= set(WORDS)
    done = train(folders, tmp_path / "run", "--representation", f"text:{encoder}", "--trained-on", "made-up numbers")
    assert done.exit_code == 0, done.output
    accuracy = json.loads((tmp_path / "run/private/evaluation.json").read_text())["accuracy"]
    assert accuracy > 0.7
    vectors = text.SentenceEncoder(encoder).encode(pd.read_csv(folders / "test.csv")["text"].tolist())
    assert right(tmp_path / "run" / "release", folders, lambda told: {"text": vectors}) == accuracy


def test_files_and_a_table_of_them_are_the_same_to_learners(folders):
    files = task_from_files(folders / "private", folders / "public", test=folders / "test", classes="from-private")
    where = (folders / f"{part}.csv" for part in ("private", "public"))
    table = task_from_files(*where, test=folders / "test.csv", target="label", text=True, classes="from-private")
    assert files.classes == table.classes == ("bad", "good")
    assert files.private.units == table.private.units == PARTS["private"]
    assert files.X_public["text"].tolist() == table.X_public["text"].tolist()
    assert files.X_test["text"].tolist() == table.X_test["text"].tolist()
    assert files.y_test.tolist() == table.y_test.tolist()
    key = bytes(32)
    assert fingerprint_of_file(folders / "private", by=None, key=key) == files.private.fingerprint(key)
    plan = read_public(folders / "public")
    assert plan.classes == ("bad", "good")
    assert plan.X["text"].tolist() == files.X_public["text"].tolist()


def test_the_default_is_the_encoder_that_is_there_else_words(folders, monkeypatch):
    public = task_from_files(folders / "private", folders / "public", classes="from-private").X_public

    def absent(_):
        raise InvalidInput("not installed")

    monkeypatch.setattr(text, "require_encoder", lambda _: None)
    assert default_representation(public) == "text"
    monkeypatch.setattr(text, "require_encoder", absent)
    assert default_representation(public) == "tfidf"
    assert view_of(public).name == "tfidf"
    # Texts beside other columns are left out by default, as ever.
    assert default_representation(public.assign(age=1.0)) == "table"
    with pytest.raises(InvalidInput, match="representation of texts must be text, text:FOLDER, tfidf"):
        view_of(public, "table")


def test_a_plan_reads_lines_where_classes_are_given_and_no_target(folders, tmp_path):
    texts = pd.read_csv(folders / "public.csv")["text"]
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{one}\n" for one in texts))
    found = read_public(lines, classes=["bad", "good"])
    assert found.X["text"].tolist() == texts.tolist()
    assert found.classes == ("bad", "good")
    with pytest.raises(InvalidInput, match="--target must be given"):
        read_public(lines)
    lines.write_text("age,work\n" + "".join(f"{number},{number % 3}\n" for number in range(9)))
    with pytest.raises(InvalidInput, match=r"lines\.txt must be free text"):
        read_public(lines, classes=["bad", "good"])
    assert list(read_public(lines, target="work").X.columns) == ["age"]


def test_stray_pictures_are_not_trained_on(folders, tmp_path):
    for number in range(9):
        for name in ("good", "bad"):
            place = tmp_path / "mixed" / name / f"{number}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("a text of several words")
    (tmp_path / "mixed" / "good" / "logo.png").write_bytes(b"")
    for read in (
        lambda: task_from_files(tmp_path / "mixed", folders / "public", classes="from-private"),
        lambda: read_public(tmp_path / "mixed"),
    ):
        with pytest.raises(InvalidInput, match="must hold pictures or texts, got 18 files of text and 1 of pictures"):
            read()


@pytest.mark.slow
def test_by_default_on_the_public_s_loose_files_and_lines(folders, tmp_path):
    try:
        require_encoder()
    except InvalidInput:
        pytest.skip("its weights are not installed")
    texts = pd.read_csv(folders / "public.csv")["text"]
    (tmp_path / "flat").mkdir()
    for number, one in enumerate(texts):
        (tmp_path / "flat" / f"{number:03}.md").write_text(one)
    (tmp_path / "lines.txt").write_text("".join(f"{one}\n" for one in texts))
    tasks = [
        task_from_files(folders / "private", tmp_path / name, classes="from-private") for name in ("flat", "lines.txt")
    ]
    assert tasks[0].X_public.equals(tasks[1].X_public)
    assert "private data" in tasks[0].classes_from
    done = train(folders, tmp_path / "run", public=tmp_path / "lines.txt")
    assert done.exit_code == 0, done.output
    said = json.loads((tmp_path / "run/release/statement.json").read_text())
    assert said["tuned"]["encoder"].startswith("sentence-transformers/all-MiniLM-L6-v2")
    assert json.loads((tmp_path / "run/private/evaluation.json").read_text())["accuracy"] > 0.9


def test_labels_alone_may_be_protected(folders):
    task = task_from_files(folders / "private", protect="labels", classes=["bad", "good"])
    assert task.private.protects == "labels"
    assert task.X_public.equals(task.private.X)
    # The order of files is that of their folders, which are the labels: it must not show.
    assert task.private.y.tolist() != sorted(task.private.y.tolist())


def test_what_does_not_fit_is_one_sentence(folders, tmp_path):
    private, public = folders / "private", folders / "public"
    for name, each in {"few": 3, "short": 9, "same": 9}.items():
        (tmp_path / name).mkdir()
        for number in range(each):
            said = {"few": f"a text of words {number}", "short": f"word{number}", "same": "all of them the same"}[name]
            (tmp_path / name / f"{number}.txt").write_text(said)
    (tmp_path / "copy.txt").write_text("".join(f"{one}\n" for one in pd.read_csv(folders / "private.csv")["text"]))
    for sentence, given in {
        "must lie apart": {"public": private / "good"},
        "public texts .* are the private ones": {"public": tmp_path / "copy.txt"},
        "at least 5 public texts to ask about, got 3": {"public": tmp_path / "few"},
        "short must be free text": {"public": tmp_path / "short"},
        "same must be free text": {"public": tmp_path / "same"},
        "public.csv must be a folder of texts": {"public": folders / "public.csv"},
        "test texts .* must have labels": {"test": tmp_path / "few"},
        "of the private folder names does not occur in the classes given": {"classes": ["bad", "fair"]},
        "--names belongs to tables": {"names": "a,b"},
        "--by needs a table": {"by": "who"},
    }.items():
        with pytest.raises(InvalidInput, match=sentence):
            task_from_files(**{"private": private, "public": public, "classes": ["bad", "good"], **given})
    with pytest.raises(InvalidInput, match=r"private texts .* must have labels"):
        task_from_files(tmp_path / "few", public, classes="from-private")
