"""What a newcomer adds from outside the package, each as one piece: a student and an input format.

A mechanism is `examples/a_mechanism_of_your_own.py`; an option is `tests/options/test_options.py`.
"""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from ostrakon import BoundedGNMax, PATEClassifier
from ostrakon.data import sources
from ostrakon.estimators.choices import make_student
from ostrakon.estimators.registry import SHORT_NAMES
from ostrakon.export.onnx_models import classified
from ostrakon.export.released import ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.export.student_files import export_student, load_student, require_exportable
from ostrakon.private_estimator import StaysHere
from ostrakon.run.inputs.files import task_from_files
from ostrakon.validation import InvalidInput


class Careful(ClassifierMixin, BaseEstimator):
    """A classifier of one's own: it says how it is written, so that it may leave."""

    def __init__(self, C=1.0, random_state=None):
        self.C = C
        self.random_state = random_state

    def fit(self, X, y):
        self.model_ = LogisticRegression(C=self.C).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def write_onnx(self, graph, rows):
        return classified(graph, self.model_, rows)


class Stuck(Careful):
    """One that cannot leave."""

    write_onnx = None


def test_a_student_by_its_path_or_by_a_name_is_taught_and_leaves(monkeypatch, tmp_path):
    monkeypatch.setitem(SHORT_NAMES, "careful", (f"{__name__}.Careful", {"C": 0.5}))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(np.arange(200) < 150, (X[:, 0] > 0).astype(int), -1)  # -1: not answered
    for name, strength in (("careful", 0.5), (f"{__name__}.Careful(C=2.0)", 2.0)):
        student = make_student(name, seed=0)
        require_exportable(student)
        student.fit(X, y)
        assert strength == student.estimator.C
        assert (student.predict(X[150:]) == (X[150:, 0] > 0)).mean() > 0.8
        released = ReleasedStudent(RowForm.of(X), None, student, ["no", "yes"])
        export_student(released, tmp_path / str(strength))
        loaded = load_student(tmp_path / str(strength))
        np.testing.assert_array_equal(loaded.predict(X), released.predict(X))
        np.testing.assert_allclose(loaded.predict_proba(X), released.predict_proba(X), rtol=1e-12)


def test_a_student_that_cannot_be_written_is_refused_before_noise_is_spent():
    with pytest.raises(InvalidInput, match=r"that can be released .* method write_onnx\), got Stuck"):
        require_exportable(make_student(f"{__name__}.Stuck"))


def test_a_format_is_one_entry(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 90), "town": rng.choice(["Ulm", "Bonn"], 90)})
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    parts = {"private": frame[:60], "public": frame[60:].drop(columns="ill"), "test": frame[60:]}
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        lines = [json.dumps(row) for row in part.to_dict("records")]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.setitem(sources.FORMATS, ".jsonl", lambda path: f"read_json({path}, format = 'newline_delimited')")
    ours, theirs = (
        task_from_files(**{part: tmp_path / f"{part}.{suffix}" for part in parts}, target="ill", classes="from-private")
        for suffix in ("jsonl", "csv")
    )
    assert ours.classes == theirs.classes == ("no", "yes")
    pd.testing.assert_frame_equal(ours.X_public, theirs.X_public)
    np.testing.assert_array_equal(ours.y_test, theirs.y_test)
    # A record's teacher follows from what it holds, in whatever format.
    assert ours.private.units == theirs.private.units == 60


def test_a_student_that_cannot_leave_is_named_before_anything_is_drawn():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), rng.integers(0, 2, 600)
    model = PATEClassifier(mechanism="bounded-gnmax(sigma2=5)", student="nearest-centroid", classes=[0, 1])
    with pytest.warns(StaysHere, match="save_release will refuse it: The student must be one that can be released"):
        model.fit(X, y, X_public=rng.normal(size=(100, 2)))
    assert model.mechanism_ == BoundedGNMax(sigma2=5.0)


@pytest.mark.parametrize(
    ("mechanism", "sentence"),
    [
        ("gnmax(gamma=3)", "gamma is not a parameter of gnmax, which takes sigma2"),
        ("gnmx(sigma2=3)", "mechanism must be one of .*'gnmx'"),
        ("gnmax(sigma2=-1)", "sigma2 must be .*-1"),
        ("gnmax(sigma2", "must be written as NAME"),
    ],
)
def test_a_mechanism_written_as_a_call_is_read_in_python_too(mechanism, sentence):
    X, pool = np.split(np.random.default_rng(0).normal(size=(700, 2)), [600])
    model = PATEClassifier(mechanism=mechanism, n_teachers=20, classes=[0, 1])
    with pytest.raises(InvalidInput, match=sentence):
        model.fit(X, np.arange(600) % 2, X_public=pool)
