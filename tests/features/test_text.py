"""Free text: what is one, what becomes of it, that a row's numbers are its own, and what the recipient is told."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from ostrakon.data.columns import Columns, is_text
from ostrakon.export.released import ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.export.student_files import export_student, load_student
from ostrakon.features import TextColumns, learn_representation
from ostrakon.features.text import reads_text
from ostrakon.validation import InvalidInput

GOOD = ["a", "fine", "film", "that", "I", "would", "gladly", "watch", "again", "and", "again"]
BAD = ["what", "dull", "and", "tedious", "hours", "with", "no", "end", "in", "sight"]


def reviews(rows, seed=0):
    rng = np.random.default_rng(seed)
    good = rng.random(rows) < 0.5
    text = [" ".join(rng.choice(GOOD if each else BAD, 7)) for each in good]
    table = pd.DataFrame({"text": text, "length": rng.integers(1, 90, rows), "city": rng.choice(["Ulm", "Rom"], rows)})
    return table.astype({"length": float}), good.astype(int)


PUBLIC, Y = reviews(150)


def test_free_text_is_told_from_names_and_categories():
    rng = np.random.default_rng(1)
    assert is_text(PUBLIC["text"])
    assert not is_text(PUBLIC["city"])
    assert not is_text(pd.Series([f"Ada Lovelace{number}" for number in range(300)]))
    assert not is_text(pd.Series(rng.choice(["not at all", "more or less", "very much so"], 300)))
    assert not is_text(pd.Series(rng.normal(size=30).astype(str)))
    assert Columns.of(PUBLIC, text=True).kinds["text"] == "text"
    long = pd.concat([PUBLIC] * 2, ignore_index=True)
    assert Columns.of(long, text=False).kinds["text"] != "text"


def test_without_it_the_refusal_names_what_reads_it():
    texts = [f"{text} {number}" for number, text in enumerate(pd.concat([PUBLIC["text"]] * 2))]
    with pytest.raises(InvalidInput, match=r"text that differs from row to row .*--representation text \(or tfidf\)"):
        Columns.of(pd.DataFrame({"text": texts}))
    assert Columns.of(pd.DataFrame({"text": texts}), text=True).kept == ("text",)
    # Beside a column that can be used, too: nobody shall miss it.
    beside = Columns.of(pd.DataFrame({"text": texts, "age": [place % 7 for place in range(len(texts))]}))
    assert beside.notes["text"].endswith("; --representation text (or tfidf) learns from free text")


def test_names_that_read_text():
    assert all(map(reads_text, ("text", "tfidf", "text:models/e5")))
    assert not any(map(reads_text, ("text:", "table", 7, None)))


def test_a_row_s_numbers_are_its_own_to_the_last_bit():
    seen = learn_representation("tfidf", PUBLIC)
    rows, _ = reviews(800, seed=3)
    rows.loc[7, "text"] = None
    rows.loc[8, "text"] = "words that nobody has written"
    order = np.random.default_rng(2).permutation(800)
    made = seen.transform(rows)
    assert np.array_equal(seen.transform(rows.iloc[order]), made[order])
    assert np.array_equal(seen.transform(rows.iloc[[7]]), made[[7]])
    again = pickle.loads(pickle.dumps(seen))
    assert np.array_equal(again.transform(rows), made)


def test_text_stands_beside_the_other_columns():
    columns = TextColumns("tfidf").fit(PUBLIC)
    made = columns.transform(PUBLIC)
    assert list(made.columns[:2]) == ["length", "city"]
    assert all(name.startswith("text.") for name in made.columns[2:])
    seen = learn_representation("tfidf", PUBLIC)
    other = PUBLIC.assign(length=PUBLIC["length"] + 50)
    width = made.shape[1] - 2
    assert np.array_equal(seen.transform(other)[:, :width], seen.transform(PUBLIC)[:, :width])
    assert not np.array_equal(seen.transform(other)[:, width:], seen.transform(PUBLIC)[:, width:])


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (PUBLIC.drop(columns="text"), "needs a column of free text, and no public column is one"),
        (np.zeros((9, 3)), "must be a table with named columns"),
        (pd.DataFrame({"text": [f"a{n} b{n} c{n}" for n in range(30)]}), "words that occur in two public rows; 'text'"),
    ],
)
def test_what_has_no_text_is_refused(table, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        learn_representation("tfidf", table)
    with pytest.raises(InvalidInput, match="missing: text"):
        learn_representation("tfidf", PUBLIC).transform(PUBLIC.drop(columns="text"))


def test_the_recipient_of_tfidf_gives_texts(tmp_path):
    seen = learn_representation("tfidf", PUBLIC)
    student = LogisticRegression().fit(np.asarray(seen.transform(PUBLIC), np.float64), Y)
    released = ReleasedStudent(RowForm.of(PUBLIC, kinds={"text": "text"}), seen, student, ["bad", "good"])
    manifest = export_student(released, tmp_path)
    described = {column["name"]: column for column in manifest["input"]["columns"]}
    assert described["text"]["kind"] == "tfidf"
    assert len(described["text"]["terms"]) == len(described["text"]["idf"]) == described["text"]["width"]
    written = (tmp_path / "student.json").read_text()
    assert not any(text in written for text in PUBLIC["text"]), "no public text leaves whole"
    rows, y = reviews(100, seed=5)
    rows.loc[3, "text"] = None
    rows.loc[4, "text"] = "A FINE film!"
    loaded = load_student(tmp_path)
    assert loaded.predict(rows).tolist() == released.predict(rows).tolist()
    np.testing.assert_allclose(loaded.predict_proba(rows), released.predict_proba(rows), atol=1e-6)
    known = np.delete(np.arange(100), [3, 4])
    assert np.mean(loaded.predict(rows.iloc[known]) == np.array(["bad", "good"])[y[known]]) > 0.9
