"""Embeddings as directions from the public mean, beside other columns; and what the recipient makes of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from ostrakon.data.embeddings import as_columns
from ostrakon.export.released import ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.export.student_files import export_student, load_student
from ostrakon.features import EmbeddedFeatures, default_representation, learn_representation
from ostrakon.features.representation import is_embedded
from ostrakon.run.stages.features import view_of
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)


def frame(rows, seed=0):
    rng = np.random.default_rng(seed)
    made = as_columns("note", rng.normal(2, 1, (rows, 5)).astype(np.float32))
    return made.assign(age=rng.integers(18, 90, rows).astype(float), city=rng.choice(["Ulm", "Rom"], rows))


def test_each_embedding_is_a_direction_from_its_public_mean():
    public = frame(60)
    made = EmbeddedFeatures().fit(public).transform(public)
    note = public.filter(like="note.").to_numpy(np.float64)
    note = note - note.mean(axis=0)
    np.testing.assert_allclose(made[:, :5], note / np.linalg.norm(note, axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(made[:, 5:], axis=1), 1, atol=1e-6)
    assert default_representation(public) == "embeddings"
    assert default_representation(public[["age", "city"]]) == "table"


def test_what_is_an_embedding_is_known_before_features_are_learned():
    public, pictures, grey = frame(10), np.zeros((4, 8, 8, 3)), np.zeros((4, 8, 8))
    embedded = [("auto", public), ("embeddings", public), ("photos", pictures), ("auto", pictures), ("tfidf", public)]
    assert all(is_embedded(choice, X) for choice, X in embedded)
    others = [("auto", public[["age", "city"]]), ("table", public), ("auto", grey), ("hog", pictures), (PCA(2), public)]
    assert not any(is_embedded(choice, X) for choice, X in others)
    assert view_of(public).embedded
    assert not view_of(public[["age"]]).embedded


def test_without_lists_all_numbers_are_one_embedding():
    table = pd.DataFrame(RNG.normal(size=(30, 4)), columns=list("abcd"))
    as_frame, as_array = (EmbeddedFeatures().fit_transform(X) for X in (table, table.to_numpy()))
    assert np.array_equal(as_frame, as_array)
    np.testing.assert_allclose(np.linalg.norm(as_frame, axis=1), 1)
    with pytest.raises(InvalidInput, match="columns of numbers, got none"):
        EmbeddedFeatures().fit(pd.DataFrame({"a": ["x", "y"]}))
    with pytest.raises(InvalidInput, match="the 4 columns of the public rows, got 3"):
        EmbeddedFeatures().fit(table.to_numpy()).transform(np.zeros((2, 3)))


def test_a_row_s_features_are_its_own_to_the_last_bit():
    seen = learn_representation("auto", frame(300))
    rows = frame(900, seed=1)
    rows.loc[5, "note.2"] = np.float32(1e30)
    order = np.random.default_rng(2).permutation(900)
    made = seen.transform(rows)
    assert np.array_equal(seen.transform(rows.iloc[order]), made[order])
    assert np.array_equal(seen.transform(rows.iloc[:7]), made[:7])


def test_the_recipient_gives_lists(tmp_path):
    public = frame(200)
    seen = learn_representation("auto", public)
    y = (public["note.0"] > 2).to_numpy().astype(int)
    student = LogisticRegression().fit(np.asarray(seen.transform(public), np.float64), y)
    released = ReleasedStudent(RowForm.of(public), seen, student, ["low", "high"])
    manifest = export_student(released, tmp_path)
    assert manifest["input"]["columns"][0] == {"name": "note", "kind": "embedding", "width": 5}
    assert [column["name"] for column in manifest["input"]["columns"]] == ["note", "age", "city"]
    rows = frame(50, seed=3)
    lists = rows[["age", "city"]].assign(note=rows.filter(like="note.").to_numpy().tolist())
    loaded = load_student(tmp_path)
    expected = released.predict(rows)
    assert set(expected) == {"low", "high"}
    for given in (rows, lists, lists.to_dict("records"), rows.to_dict("records")):
        assert loaded.predict(given).tolist() == expected.tolist()
        np.testing.assert_allclose(loaded.predict_proba(given), released.predict_proba(rows), atol=1e-9)
    for wrong in ([1.0, 2.0], [np.nan] * 5, None, "text"):
        with pytest.raises(ValueError, match="'note' must hold 5 finite numbers in every row"):
            loaded.predict([{"note": wrong, "age": 30, "city": "Ulm"}])
