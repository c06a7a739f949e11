"""PATEClassifier with several labels of a row, as scikit-learn's indicator of labels."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score, roc_auc_score

import ostrakon
from ostrakon.data.labels import columns_by_name
from ostrakon.export.student_files import load_student
from ostrakon.mechanisms import LabelsGNMax
from ostrakon.validation import InvalidInput

MADE, LABELS = make_multilabel_classification(8000, n_features=10, n_classes=5, n_labels=2, random_state=0)
X, Y, PUBLIC, TEST, RIGHT = MADE[:5000], LABELS[:5000], MADE[5000:6500], MADE[6500:], LABELS[6500:]
NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture(scope="module")
def model():
    model = ostrakon.PATEClassifier(epsilon=2.0, classes=NAMES, random_state=0, allow_shared_rows=True)
    return model.fit(X, Y, X_public=PUBLIC)


def test_it_learns_every_label_within_one_epsilon(model):
    said, likely = model.predict(TEST), model.predict_proba(TEST)
    assert said.shape == likely.shape == RIGHT.shape
    assert set(np.unique(said)) == {0, 1}
    assert roc_auc_score(RIGHT, likely, average="macro") > 0.78
    assert f1_score(RIGHT, said, average="macro") > 0.6
    assert abs(said.mean(axis=0) - Y.mean(axis=0)).max() < 0.08
    assert 1.99 < model.statement_.guarantee.epsilon <= 2
    assert isinstance(model.mechanism_, LabelsGNMax)
    assert model.mechanism_.max_labels == 5
    assert model.counts_.shape == (len(model.queries_), 10)
    assert model.classes_.tolist() == NAMES


def test_the_release_says_the_same_and_names_what_was_done(model, tmp_path):
    release = model.save_release(tmp_path / "release")
    student = load_student(release)
    np.testing.assert_array_equal(student.predict(TEST), model.predict(TEST))
    np.testing.assert_allclose(student.predict_proba(TEST), model.predict_proba(TEST), atol=1e-9)
    assert student.predict(TEST[:0]).shape == (0, 5)
    statement = json.loads((release / "statement.json").read_text())
    assert statement["several_labels"] is True
    assert statement["classes"] == NAMES
    card = (release / "model_card.md").read_text()
    assert "which of 5 labels a row has" in card
    assert "voted for or against each of the 5 labels" in card
    assert "covers all labels of a record together" in card
    assert "Released share of records with each label" in (release / "report.html").read_text()
    assert (release / "noisy_counts.csv").read_text().startswith("row,a,b,c,d,e,not a,")


def test_probabilities_follow_a_curve_and_rows_keep_their_order(model):
    """A clipped line says 0 and 1 of rows that it is not sure of, which costs log loss."""
    student = model.finished_.student.student
    scores = student.directions_.unrounded(model.finished_.student.representation.transform(TEST)) @ student.coef_
    likely, line = model.predict_proba(TEST), np.clip((scores + 1) / 2, 1e-6, 1 - 1e-6)
    assert (line[:, 0] < 1e-5).any()
    assert likely.min() > 0
    assert likely.max() < 1
    for column in range(5):
        assert (np.diff(likely[np.argsort(scores[:, column]), column]) >= 0).all()
    losses = [-np.log(np.where(RIGHT == 1, proba, 1 - proba)).mean() for proba in (likely, line)]
    assert losses[0] < losses[1] - 0.01


def test_few_labels_of_many_are_cheaper():
    many = np.zeros((5000, 30), int)
    many[np.arange(5000), (X[:, 0] > np.median(X[:, 0])).astype(int)] = 1
    told = {"epsilon": 1.0, "classes": list(range(30)), "random_state": 0, "allow_shared_rows": True}
    model = ostrakon.PATEClassifier(**told, mechanism="labels-gnmax").fit(X, many, X_public=PUBLIC)
    assert model.mechanism_.max_labels == 6
    assert model.counts_.shape[1] == 30
    assert roc_auc_score(many[:, 0], model.predict_proba(X)[:, 0]) > 0.9
    assert "with more than 6 of the 30 labels" in " ".join(model.statement_.remarks)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"classes": ["a", "b"]}, "a column for each of the 2 labels in classes"),
        ({"classes": None}, "classes must name the 5 labels"),
        ({"classes": "from-private"}, "classes must name the 5 labels"),
        ({"classes": ["a", "a", "c", "d", "e"]}, "each label once"),
        ({"protect": "labels"}, "several labels need public rows"),
        (
            {"n_teachers": 10, "mechanism": LabelsGNMax(sigma2=3, max_labels=3)},
            "n_teachers cannot be chosen for labels-gnmax",
        ),
        (
            {"student": "moments"},
            "student must be auto, sums, soft-vote, .* if rows have several labels, got 'moments'",
        ),
        ({"mechanism": "moment-gnmax"}, "mechanism must be labels-gnmax if rows have several labels"),
        ({"objective": "balanced"}, "objective must be accuracy if rows have several labels"),
    ],
)
def test_what_does_not_fit_is_refused(changes, told):
    given = {"epsilon": 1.0, "classes": NAMES, "allow_shared_rows": True, **changes}
    public = None if given.get("protect") == "labels" else PUBLIC
    with pytest.raises(InvalidInput, match=told):
        ostrakon.PATEClassifier(**given).fit(X, Y, X_public=public)


def test_columns_of_a_frame_are_taken_by_name(model):
    mixed = pd.DataFrame(Y, columns=NAMES)[NAMES[::-1]]
    given = {"classes": NAMES, "allow_shared_rows": True, "random_state": 0, "noise": np.random.default_rng(0)}
    by_name = ostrakon.PATEClassifier(**given).fit(X, mixed, X_public=PUBLIC)
    np.testing.assert_array_equal(by_name.votes_.counts, model.votes_.counts)
    assert by_name.score(TEST, pd.DataFrame(by_name.predict(TEST), columns=NAMES)[NAMES[::-1]]) == 1
    for names in ("abcdx", "abcdd", range(1, 6)):
        with pytest.raises(InvalidInput, match="a column for each label in classes, named like it"):
            ostrakon.PATEClassifier(**given).fit(X, pd.DataFrame(Y, columns=list(names)), X_public=PUBLIC)
    assert columns_by_name(pd.DataFrame(Y), NAMES).columns.tolist() == list(range(5))  # a frame without names


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize(
    ("target", "told"),
    [
        (csr_matrix(Y), r"y must be dense, got a sparse matrix of shape \(5000, 5\)"),
        (Y[:, :, None], r"one value or some columns for each row, got the shape \(5000, 5, 1\)"),
        (Y[:, :0], r"one value or some columns for each row, got the shape \(5000, 0\)"),
        ([*Y[:-1].tolist(), [1, 0]], "the same number of columns in every row"),
        (3, r"got the shape \(\)"),
        (None, "y must be given"),
    ],
)
def test_a_target_of_another_shape_is_refused(target, told, frame):
    rows, public = (pd.DataFrame(part) if frame else part for part in (X, PUBLIC))
    for model in (ostrakon.PATEClassifier(classes=NAMES), ostrakon.PATERegressor(range=(0, 1))):
        with pytest.raises(InvalidInput, match=told):
            model.fit(rows, target, X_public=public)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_and_infinite_values_are_refused(value):
    wrong = np.where(np.arange(len(Y))[:, None] == 3, value, Y)
    model = ostrakon.PATEClassifier(classes=NAMES)
    with pytest.raises(InvalidInput, match="y must be 0 or 1 for every label, got"):
        model.fit(pd.DataFrame(X), wrong, X_public=pd.DataFrame(PUBLIC))
    with pytest.raises(ValueError, match="Input y contains"):
        model.fit(X, wrong, X_public=PUBLIC)


def test_other_values_than_0_and_1_are_refused():
    model = ostrakon.PATEClassifier(classes=NAMES, allow_shared_rows=True)
    with pytest.raises(InvalidInput, match="y must be 0 or 1 for every label, got 2"):
        model.fit(X, Y * 2, X_public=PUBLIC)
