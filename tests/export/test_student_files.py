"""What leaves as the student: which files, which labels, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ostrakon.export.released import ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.export.student_files import export_student, load_student, require_exportable
from ostrakon.features.representation import learn_representation
from ostrakon.students.sklearn_student import SklearnStudent
from ostrakon.validation import InvalidInput


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


@pytest.mark.parametrize("labels", [str, int, float], ids=["words", "numbers", "fractions"])
def test_labels_are_those_of_the_classifier(tmp_path, digits, labels):
    X, y = digits
    student = make_pipeline(StandardScaler(), PCA(20), LogisticRegression(max_iter=300)).fit(X, y.astype(labels))
    manifest = export_student(student, tmp_path)
    assert manifest["classes"] == student.classes_.tolist()
    loaded = load_student(tmp_path)
    assert loaded.predict(X).tolist() == student.predict(X).tolist()
    np.testing.assert_allclose(loaded.predict_proba(X), student.predict_proba(X), atol=1e-6)


def test_the_graph_alone_says_labels_too(tmp_path, digits):
    """Programs in other languages run the graph without the loader."""
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = digits
    student = LogisticRegression(max_iter=300).fit(X, np.array([f"digit {k}" for k in y]))
    export_student(student, tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "student.onnx")
    (label,) = session.run(["label"], {"rows": X.astype(np.float64)})
    assert label.tolist() == student.predict(X).tolist()


def test_nothing_in_the_folder_is_a_pickle(tmp_path, digits):
    X, y = digits
    export_student(LogisticRegression(max_iter=300).fit(X, y), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["load_student.py", "student.json", "student.onnx"]
    # Every pickle from protocol 2 on starts with the byte 0x80.
    assert all(file.read_bytes()[:1] != b"\x80" for file in tmp_path.iterdir())


def test_features_of_a_user_s_own_function_stay_with_the_user(tmp_path, digits):
    X, y = digits
    representation = learn_representation(lambda rows: np.asarray(rows)[:, ::2], X)
    student = SklearnStudent(LogisticRegression(max_iter=300)).fit(representation.transform(X), y)
    whole = ReleasedStudent(RowForm.of(X), representation, student, np.arange(10))
    manifest = export_student(whole, tmp_path)
    assert "32 features" in manifest["input"]["rows"]
    assert load_student(tmp_path).predict(X[:, ::2]).tolist() == whole.predict(X).tolist()


def test_a_student_that_no_release_can_hold_is_known_before_it_is_fitted():
    require_exportable(SklearnStudent(make_pipeline(StandardScaler(), LogisticRegression())))
    for other in (StackingClassifier([("one", LogisticRegression())]), make_pipeline(StandardScaler(), Foreign())):
        with pytest.raises(InvalidInput, match="can be released"):
            require_exportable(SklearnStudent(other))


class Foreign(LogisticRegression):
    """A class that is neither ostrakon's nor scikit-learn's: it may answer otherwise than what it is made from."""


def test_refusals(tmp_path, digits):
    X, y = digits
    fitted = LogisticRegression(max_iter=300).fit(X, y)
    with pytest.raises(InvalidInput, match="fitted"):
        export_student(LogisticRegression(), tmp_path)
    with pytest.raises(InvalidInput, match="ONNX can hold"):
        export_student(Foreign(max_iter=300).fit(X, y), tmp_path)
    with pytest.raises(InvalidInput, match="exported student"):
        load_student(tmp_path / "nothing")
    export_student(fitted, tmp_path)
    manifest = json.loads((tmp_path / "student.json").read_text())
    (tmp_path / "student.json").write_text(json.dumps({**manifest, "file": "../student.onnx"}))
    with pytest.raises(InvalidInput, match="beside it"):
        load_student(tmp_path)
    (tmp_path / "student.json").write_text(json.dumps(manifest))
    (tmp_path / "student.onnx").write_bytes(b"\x80\x04not a student")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_student(tmp_path)


def test_named_columns_of_a_classifier_are_found_by_name(tmp_path, digits):
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"pixel {k}" for k in range(64)])
    student = LogisticRegression(max_iter=300).fit(frame, y)
    export_student(student, tmp_path)
    assert load_student(tmp_path).predict(frame[frame.columns[::-1]]).tolist() == student.predict(frame).tolist()
