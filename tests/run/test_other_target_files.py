"""Pictures and texts whose target is a quantity or several labels: by the names of folders, or an array in a file."""

import json

import numpy as np
import pytest
from PIL import Image

import ostrakon
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.export.student_files import load_student
from ostrakon.forecast.public_rows import read_public
from ostrakon.run.inputs.files import task_from_files
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS

NAMES = ("left", "top")
ASKED = {"epsilon": 4.0, "delta": 1e-4, "jobs": 1}
WORDS = ["the", "plot", "of", "this", "film", "has", "an", "actor", "and", "some", "scene", "that", "was", "slow"]


def pictures(n, seed):
    """Pictures of 8 x 8 with a bright column and a bright row; (pixels, place of the column, two labels)."""
    rng = np.random.default_rng(seed)
    column, row = rng.integers(0, 8, (2, n))
    X = rng.integers(0, 40, (n, 8, 8))
    X[np.arange(n), :, column] = 230
    X[np.arange(n), row, :] = 230
    return X.astype(np.uint8), column, np.column_stack([column < 4, row < 4]).astype(np.int64)


def texts(n, seed):
    rng = np.random.default_rng(seed)
    good = rng.integers(0, 6, n)
    return [" ".join(rng.permutation([*WORDS, *["good"] * at, *["bad"] * (5 - at)])) for at in good], good


def filled(folder, rows, cells):
    """A folder with a folder for each cell, or with loose files."""
    for number, row in enumerate(rows):
        place = folder if cells is None else folder / cells[number]
        place.mkdir(parents=True, exist_ok=True)
        if isinstance(row, str):
            (place / f"{number}.txt").write_text(row)
        else:
            Image.fromarray(row).save(place / f"{number}.png")
    return folder


def sets(labels):
    return [";".join(np.array(NAMES)[row == 1]) or ";" for row in labels]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("folders")
    for what, n, seed in (("private", 500, 0), ("public", 80, 1), ("test", 120, 2)):
        X, column, labels = pictures(n, seed)
        lines, good = texts(n, seed)
        known = what != "public"
        filled(root / "pictures" / what, X, [f"{at}.0" for at in column] if known else None)
        filled(root / "labelled" / what, X, sets(labels) if known else None)
        filled(root / "texts" / what, lines, [str(at) for at in good] if known else None)
        np.savez(root / f"numbers-{what}.npz", X=X, **({"y": column + 0.5} if known else {}))
        np.savez(root / f"sets-{what}.npz", X=X, **({"y": labels} if known else {}))
    return root


def files(folders, kind):
    parts = ("private", "public", "test")
    if kind in ("numbers", "sets"):
        return {what: folders / f"{kind}-{what}.npz" for what in parts}
    return {what: folders / kind / what for what in parts}


RUNS = {
    "pictures": {"range": "0,7", "representation": "hog"},
    "numbers": {"range": "0,8", "representation": "hog", "student": "soft-vote"},
    "labelled": {"classes": "left;top", "representation": "hog"},
    "sets": {"classes": "left;top", "representation": "hog", "teachers": 10, "queries": 20},
    "texts": {"range": "0,5", "representation": "tfidf"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_they_are_learned_and_released(folders, tmp_path, kind):
    done = ostrakon.train(out=tmp_path / "run", **files(folders, kind), **RUNS[kind], **ASKED)
    measured = json.loads((tmp_path / "run/private/evaluation.json").read_text())
    student, release = load_student(done.release), done.release
    statement, page = json.loads((release / "statement.json").read_text()), (release / "report.html").read_text()
    given = files(folders, kind)
    same = ostrakon.refit(
        release,
        out=tmp_path / "same",
        public=given["public"],
        test=given["test"],
        student=RUNS[kind].get("student", "auto"),
    )
    for name in ("student.onnx", "student.json", "refit.json"):
        assert (same.release / name).read_bytes() == (release / name).read_bytes(), name
    assert same.finished.measures.as_dict() == done.outcome.measures.as_dict()
    if kind == "texts":
        rows = [{"text": "good good good good good"}, {"text": "bad bad bad bad bad"}]
        assert measured["r2"] > 0.3
        high, low = student.predict(rows)
        assert 0 <= low < high <= 5
        return
    X = pictures(20, 3)[0] / np.float32(255)
    if "range" in RUNS[kind]:
        assert statement["quantity"]["low"] == 0
        assert "below the noisy mean that was released for it" in page
        np.testing.assert_allclose(student.predict(X), done.outcome.student.predict(X), atol=1e-6)
    else:
        assert statement["several_labels"] is True
        assert statement["classes"] == list(NAMES)
        assert ("labels that teachers answered with yes" in page) is (kind == "sets")
        assert ("the label with the most noisy votes" in page) is (kind == "labelled")
        np.testing.assert_array_equal(student.predict(X), done.outcome.student.predict(X))
        assert measured["micro_f1"] > 0.55


def test_folders_and_arrays_are_read_alike(folders):
    by = {"numbers": {"coding": Quantity(low=0, high=8)}, "sets": {"coding": Labels(names=NAMES)}}
    for array, folder in (("numbers", "pictures"), ("sets", "labelled")):
        one, other = (task_from_files(**files(folders, kind), **by[array]) for kind in (array, folder))
        shift = FINE_STEPS // 16 if array == "numbers" else 0  # half of one of eight
        assert sorted(one.private.y.tolist()) == sorted((other.private.y + shift).tolist())
        assert one.classes == other.classes == (NAMES if array == "sets" else ("low", "high"))
        assert one.y_test.shape == other.y_test.shape
        assert one.quantity == other.quantity
    clipped = task_from_files(**files(folders, "pictures"), coding=Quantity(low=0, high=3))
    assert clipped.outside["target"] == pytest.approx(0.5, abs=0.1)
    assert "are replaced by its nearest end" in clipped.understood.notes[-1]


@pytest.mark.parametrize(
    ("kind", "by", "sentence"),
    [
        (
            "labelled",
            {"coding": Quantity(low=0, high=8)},
            r"a number such as 12\.5 \(a decimal point, not a comma\) in",
        ),
        ("pictures", {"coding": Labels(names=NAMES)}, "is not among the labels left, top; name all of them"),
        ("numbers", {"coding": Labels(names=NAMES)}, "must have whole numbers or text as labels"),
        (
            "sets",
            {"coding": Labels(names=("a", "b", "c"))},
            r"0 or 1 in a column for each of 3 labels, got shape \(500, 2\)",
        ),
        ("sets", {"coding": Quantity(low=0, high=8)}, "must have one of its labels per image"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(folders, kind, by, sentence):
    with pytest.raises(InvalidInput, match=sentence) as refused:
        task_from_files(**files(folders, kind), **by)
    assert "\n" not in str(refused.value)


def test_private_rows_without_labels_are_refused(folders):
    of = {"pictures": "a folder for every value, such as 4.5", "texts": "a folder for every value, such as 4.5"}
    for kind, sentence in of.items():
        known = files(folders, kind)
        with pytest.raises(InvalidInput, match=sentence):
            task_from_files(known["public"], known["test"], coding=Quantity(low=0, high=8))


def test_they_are_planned_from_public_files(folders):
    assert read_public(folders / "pictures/public", coding=Quantity(low=0, high=8)).target == "quantity"
    assert read_public(folders / "texts/public", coding=Quantity(low=0, high=5)).rows == 80
    assert read_public(folders / "sets-private.npz", coding=Labels(names=NAMES)).classes == NAMES


@pytest.mark.slow
def test_images_in_memory(folders):
    X, column, labels = (np.asarray(part) for part in pictures(500, 0))
    U = pictures(80, 1)[0]
    shared = {"epsilon": 4.0, "representation": "hog", "random_state": 0, "noise": np.random.default_rng(0)}
    regressor = ostrakon.PATERegressor(range=(0, 7), **shared).fit(X, column, X_public=U)
    assert regressor.predict(U).shape == (80,)
    classifier = ostrakon.PATEClassifier(classes=NAMES, **shared).fit(X, labels, X_public=U)
    assert classifier.predict(U).shape == (80, 2)
    assert classifier.score(*(pictures(200, 4)[at] for at in (0, 2))) > 0.3
