"""A released student of tables says the same to whoever has NumPy and onnxruntime, on 1,000 odd rows."""

import datetime
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.columns import Columns, word
from ostrakon.estimators.choices import make_student, takes_rows
from ostrakon.export.released import ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.export.student_files import export_student, load_student, require_exportable
from ostrakon.run.stages.features import view_of
from ostrakon.students.candidates import table_candidates
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.selection import Released
from ostrakon.validation import InvalidInput
from stranger import ask, site_of

STUDENTS = [
    *("logistic", "extra-trees", "hist-gradient-boosting(max_iter=20)", "svm-rbf", "label-spreading"),
    *("soft-vote", "soft-vote:hist-gradient-boosting(max_iter=20)"),
    *("self-training", "self-training:random-forest(n_estimators=10)", "noisy-counts", "graph", "mlp"),
    *("gradient-boosting(n_estimators=10)", "naive-bayes", "ridge", "linear-svm", "lda", "decision-tree"),
    "sklearn.svm.SVC(kernel='poly', degree=2)",
    *(["vat(steps=30)"] if find_spec("torch") else []),
]
LABELS = ["high", "low", "middle, or so"]


def people(rows: int, seed: int) -> pd.DataFrame:
    """A raw table as a CSV holds it, with gaps."""
    rng = np.random.default_rng(seed)
    day = [str(datetime.date(2015, 1, 1) + datetime.timedelta(days=int(k))) for k in rng.integers(0, 3000, rows)]
    table = pd.DataFrame(
        {
            "id": [f"{seed}-{k}" for k in range(rows)],
            "age": rng.integers(18, 90, rows).astype(float),
            "income": np.round(rng.pareto(1.5, rows) * 1000, 2),
            "city": rng.choice(["Ulm", "Bonn", "Rom", "Košice", 'O\'Fallon, "MO"'], rows),
            "size": rng.choice([7.0, 8.0, 9.5], rows).astype(object),
            "seen": day,
            "member": rng.random(rows) < 0.3,
        }
    )
    table["size"] = table["size"].map(lambda x: f"no. {x}" if x > 9 else x)
    table.loc[rng.random(rows) < 0.05, "city"] = None
    table.loc[rng.random(rows) < 0.05, "age"] = np.nan
    table.loc[3, "city"] = "Seldom"
    return table


def classes_of(table: pd.DataFrame) -> np.ndarray:
    when = pd.to_datetime(table["seen"]).dt.year.to_numpy() - 2015
    score = table["age"].fillna(50) / 20 + (table["city"] == "Ulm") * 2 + when / 3 + table["member"]
    return np.digitize(score, [3.8, 5.2])


ODD = {
    "age": [
        None,
        float("nan"),
        "",
        "?",
        " 41 ",
        "abc",
        "4e1",
        "1_0",
        "nan",
        "inf",
        float("inf"),
        -1e308,
        True,
        [3],
        b"4",
        41,
    ],
    "income": [
        None,
        "",
        "1,000",
        "-3",
        10**400,
        datetime.date(2020, 1, 1),
        "٣",
        0,
        1e-300,
        "NULL",
        "+5.",
        ".5e3",
        "e5",
    ],
    "city": [None, float("nan"), "", " Ulm ", "ulm", "Atlantis", 7, 7.5, True, ["Ulm"], "NA", "Seldom", b"Ulm", "\0"],
    "size": [7, 7.0, "7", "7.0", "no. 9.5", 9.5, None, np.float32(8), np.int64(7), "8 "],
    "seen": [
        *(None, "", "2019-02-29", "2016-02-29", "2018-05-06T07:08:09", "2018-05-06 07:08:09.1234567Z", "06.05.2018"),
        *(
            datetime.date(2018, 5, 6),
            datetime.datetime(2018, 5, 6, 7, 8),
            "2018-05-06T23:00:00+02:00",
            6000,
            "now",
            "9999-12-31",
        ),
        datetime.datetime(2018, 5, 6, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
    ],
    "member": [None, "true", "FALSE", "True", 1, 0, "yes", "", False, True, np.True_, 1.0],
}


def odd_rows(rows: int = 1000) -> list[dict]:
    """Rows as somebody else may have them: odd cells, other orders, further columns."""
    rng = np.random.default_rng(5)
    made = []
    for number, row in enumerate(people(rows, 9).to_dict("records")):
        for name, cells in ODD.items():
            if number < 20:
                row[name] = cells[number % len(cells)]
            elif rng.random() < 0.3:
                row[name] = cells[rng.integers(len(cells))]
        names = [name for name in row if name != "id"] + ["zip", "Age"]
        made.append({name: row.get(name, "extra") for name in rng.permutation(names)})
    return made


def released(choice: str, seed: int = 0) -> ReleasedStudent:
    """A student by name, as a run makes it from 300 public rows."""
    raw = people(300, 1)
    columns = Columns.of(raw)
    public = columns.apply(raw)
    view = view_of(public, seed=seed)
    student = make_student(choice, seed=seed)
    X = public if takes_rows(student, public) else view.public
    labels = classes_of(raw)
    if isinstance(student, NoisyCountStudent):
        counts = np.eye(3)[labels[:60]] * 5 + np.random.default_rng(seed).normal(size=(60, 3))
        student.fit_counts(X, np.arange(60), counts, sigma2=1.0)
    else:
        student.fit(X, np.where(np.arange(300) % 4 == 0, -1, labels))
    form = RowForm.of(public, kinds={name: columns.kinds[name] for name in columns.kept})
    return ReleasedStudent(form, None if X is public else view.representation, student, LABELS)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Per student: itself, and what a stranger's process says from its files."""
    made = {choice: released(choice) for choice in STUDENTS}
    folders = {choice: tmp_path_factory.mktemp("student") for choice in STUDENTS}
    asked = {}
    for choice, student in made.items():
        manifest = export_student(student, folders[choice])
        asked[folders[choice]] = (manifest["how_to_load"], odd_rows())
    answers = ask(site_of(tmp_path_factory.mktemp("site")), asked)
    return {choice: (made[choice], folders[choice], answers[folders[choice]]) for choice in STUDENTS}


@pytest.mark.slow
@pytest.mark.parametrize("choice", STUDENTS)
def test_a_stranger_gets_the_same_predictions_on_odd_rows(said, choice):
    student, folder, answer = said[choice]
    rows = odd_rows()
    expected = student.predict(rows)
    assert len(set(expected.tolist())) > 1
    assert answer["labels"] == expected.tolist()
    np.testing.assert_allclose(
        answer["probabilities"], student.predict_proba(rows[:200]), atol=1e-6 if "vat" in choice else 1e-10
    )
    # A data frame of them, in an order of its own, with every column of objects.
    frame = pd.DataFrame(rows, dtype=object)[["seen", "zip", "member", "size", "city", "age", "income"]]
    assert student.predict(frame).tolist() == answer["labels"]
    assert load_student(folder).predict(frame).tolist() == answer["labels"]
    assert set(answer["shown"]) <= set(LABELS)
    assert len(answer["shown"]) == 1


def test_every_kind_of_cell_matters():
    """The odd rows would show a reader that drops dates, words or numbers: each changes some prediction."""
    student = released("extra-trees")
    rows = people(300, 3).to_dict("records")
    plain = student.predict_proba(rows)
    for name in ("age", "city", "seen", "member", "income", "size"):
        assert (student.predict_proba([{**row, name: None} for row in rows]) != plain).any(), name


def test_raw_text_of_a_csv_is_read_as_the_run_reads_its_table():
    student = released("logistic")
    raw = people(200, 4)
    typed = Columns.of(people(300, 1)).apply(raw)
    features = student.representation.transform(typed)
    text = [{name: "" if pd.isna(cell) else word(cell) for name, cell in row.items()} for row in raw.to_dict("records")]
    np.testing.assert_array_equal(student._features(text), features)
    np.testing.assert_array_equal(student._features(raw), features)


@pytest.mark.slow
def test_a_column_that_is_not_there_is_named(said):
    student, folder, _ = said["logistic"]
    rows = [{"age": 3.0}]
    for other in (student, load_student(folder)):
        with pytest.raises(ValueError, match="missing: income, city, size, seen, member"):
            other.predict(rows)


def test_a_table_of_numbers_alone_goes_by_name_and_gaps_are_filled(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)) * [1, 10, 100], columns=["a", "b", "c"])
    view = view_of(X.to_numpy())
    student = make_student("logistic").fit(view.public, (X["b"] > X["a"]).astype(int).to_numpy())
    made = ReleasedStudent(RowForm.of(X.to_numpy(), names=list(X)), view.representation, student, ["no", "yes"])
    expected = made.predict(X)
    assert (expected == np.where(X["b"] > X["a"], "yes", "no")).mean() > 0.9
    export_student(made, tmp_path)
    loaded = load_student(tmp_path)
    for each in (made, loaded):
        for same in (X, X[["c", "a", "b"]], X.to_numpy(), X.to_dict("list"), X.to_dict("records")):
            assert each.predict(same).tolist() == expected.tolist()
        assert each.predict([{"a": 1, "b": None, "c": 2}]).tolist() == ["no"]  # the public median of b is about 0
        with pytest.raises(ValueError, match="3 columns"):
            each.predict(X.to_numpy()[:, :2])
    with pytest.raises(InvalidInput, match="missing: c"):
        made.predict(X[["a", "b"]])


@pytest.mark.slow
@pytest.mark.parametrize("counts", [True, False])
def test_every_student_that_may_be_chosen_can_leave(counts, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    queries = np.arange(320)
    heights = np.eye(3)[np.digitize(X[:320, 0], [-0.4, 0.5])] * 40 + rng.normal(size=(320, 3)) * (4 if counts else 0)
    released = Released(queries=queries, counts=heights, sigma2=4.0 if counts else None)
    candidates = table_candidates(counts=counts, classes=3, queries=320, features=20, seed=0)
    assert len(candidates) == (9 if counts else 8)
    for candidate in candidates:
        require_exportable(candidate.student)
        student = released.fit_student(candidate.student, X)
        whole = ReleasedStudent(RowForm.of(X), None, student, ["a", "b", "c"])
        export_student(whole, tmp_path / candidate.name)
        assert np.array_equal(load_student(tmp_path / candidate.name).predict(X), whole.predict(X)), candidate.name
