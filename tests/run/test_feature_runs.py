"""Runs on features that were made before: arrays and Parquet, per-record and trained teachers."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import make_blobs

import ostrakon
from ostrakon.export.student_files import load_student
from ostrakon.options.options import Options
from ostrakon.report.release import publish
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import run
from ostrakon.validation import InvalidInput

X, Y = make_blobs(900, n_features=6, centers=3, cluster_std=2.0, random_state=0)
X = X.astype(np.float32)
PARTS = {"private": slice(0, 600), "public": slice(600, 800), "test": slice(800, 900)}
NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("features")
    for name, part in PARTS.items():
        np.savez(made / f"{name}.npz", X=X[part], y=NAMES[Y[part]])
        lists = pa.FixedSizeListArray.from_arrays(pa.array(X[part].ravel()), 6)
        pq.write_table(pa.table({"seen": lists, "y": NAMES[Y[part]]}), made / f"{name}.parquet")
    np.save(made / "public.npy", X[PARTS["public"]])
    return made


def task_of(folder, kind, **options):
    target = {"classes": "from-private"} | ({"target": "y"} if kind == "parquet" else {})
    return task_from_files(
        folder / f"private.{kind}", folder / f"public.{kind}", test=folder / f"test.{kind}", **target, **options
    )


@pytest.mark.parametrize("kind", ["npz", "parquet"])
@pytest.mark.parametrize("teachers", [{}, {"teachers": 10, "mechanism": "gnmax", "parameters": {"sigma2": 2.0}}])
def test_a_run_on_features_leaves_a_student_of_features(folder, kind, teachers, tmp_path):
    task = task_of(folder, kind)
    options = Options(student="logistic", queries=40, epsilon=None if teachers else 4.0, **teachers)
    outcome = run(tmp_path / "run", task, options, rng=np.random.default_rng(0))
    assert outcome.representation == "embeddings"
    assert outcome.accuracy > 0.85
    release = publish(outcome)
    student = load_student(release)
    rows = {("X" if kind == "npz" else "seen"): X[PARTS["test"]]}
    assert np.mean(student.predict(rows) == NAMES[Y[PARTS["test"]]]) == outcome.accuracy
    assert "6 " in json.dumps(task.understood.facts)


def test_one_column_of_embeddings_is_an_array_to_the_recipient(folder, tmp_path):
    options = Options(student="logistic", queries=40, epsilon=4.0)
    outcome = run(tmp_path / "run", task_of(folder, "npz"), options, rng=np.random.default_rng(0))
    student = load_student(publish(outcome))
    assert student.predict(X[:5]).tolist() == student.predict({"X": X[:5]}).tolist()
    with pytest.raises(ValueError, match="'X' must hold 6 finite numbers"):
        student.predict(X[:5, :4])


@pytest.mark.parametrize(
    ("public", "sentence"),
    [
        (np.zeros((50, 5)), "must have the private ones' width, 6 numbers, got 5"),
        (np.full((50, 6), np.nan), "finite numbers"),
        (np.full((50, 6), 1e300), "finite numbers"),
        (np.zeros((50, 6), complex), "features, shape .rows, features., got .50, 6. of complex128"),
        (np.full((50, 6), "a"), "of <U1"),
        (np.zeros((50, 6, 6)), "the private ones' shape"),
        (X[PARTS["private"]][::-1], "features .* are the private ones"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(folder, tmp_path, public, sentence):
    np.save(tmp_path / "public.npy", public)
    with pytest.raises(InvalidInput, match=sentence) as refused:
        task_from_files(folder / "private.npz", tmp_path / "public.npy", classes=list(NAMES))
    assert len(str(refused.value)) < 400


def test_public_features_need_no_labels(folder):
    task = task_from_files(folder / "private.npz", folder / "public.npy", classes=list(NAMES))
    assert task.pool == 200
    assert task.understood.facts["Rows"] == "features of 6 values, made before"


def test_texts_in_a_frame_in_python():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    words = (["a", "fine", "film", "to", "watch", "again"], ["dull", "and", "tedious", "hours", "of", "it"])
    frame = pd.DataFrame({"note": [" ".join(rng.choice(words[one], 6)) for one in y], "age": rng.normal(size=300)})
    model = ostrakon.PATEClassifier(
        classes="from-private",
        student="logistic",
        representation="tfidf",
        epsilon=8.0,
        n_queries=20,
        noise=np.random.default_rng(0),
    ).fit(frame[:200], y[:200], X_public=frame[200:])
    assert model.score(frame[200:], y[200:]) > 0.8
    assert model.released_.form.columns[0] == {"name": "note", "kind": "text"}


def test_of_many_classes_nearness_to_the_queries_is_summed_and_leaves_in_the_student(tmp_path):
    X, y = make_blobs(4400, n_features=12, centers=22, cluster_std=3.0, random_state=1)
    np.savez(tmp_path / "private.npz", X=X[:4000], y=np.array([f"c{label:02d}" for label in y[:4000]]))
    np.save(tmp_path / "public.npy", X[4000:])
    task = task_from_files(tmp_path / "private.npz", tmp_path / "public.npy", classes="from-private")
    outcome = run(tmp_path / "run", task, Options(epsilon=4.0, queries=60), rng=np.random.default_rng(0))
    assert outcome.plan.mechanism.name == "moment-gnmax"
    assert outcome.student_name == "moments"
    assert outcome.answers.moments is not None
    assert outcome.answers.moments.shape == (1 + 12 + 60, 22)
    # Every record adds its nearness to the queries: most of it where records are.
    assert outcome.answers.moments[13:].sum() > 4000 * 0.8
    said = load_student(publish(outcome)).predict({"X": X[:4000]})
    assert np.mean(said == [f"c{label:02d}" for label in y[:4000]]) > 0.8
