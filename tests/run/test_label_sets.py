"""Runs on files whose rows have several labels, from the command line to the release and its audit."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ostrakon
from ostrakon.cli import app
from ostrakon.data.sources import open_table
from ostrakon.export.student_files import load_student
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS


def table(rows, seed):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame({"age": rng.integers(18, 90, rows), "kind": rng.choice(["a", "b", "c"], rows)})
    made["size"] = rng.normal(100, 20, rows).round(1)
    made["who"] = rng.integers(0, rows // 2, rows)
    made["old"] = np.where(made["age"] + rng.normal(0, 9, rows) > 60, "yes", "No")
    made["big"] = (made["size"] + rng.normal(0, 9, rows) > 105).astype(int)
    made["odd"] = (made["kind"] == "b") ^ (rng.random(rows) < 0.1)
    return made


LABELS = ["old", "big", "odd"]


def in_one_cell(made):
    one = made.drop(columns=LABELS)
    given = [made["old"] == "yes", made["big"] == 1, made["odd"]]
    one["tags"] = [";".join(name for name, has in zip(LABELS, row, strict=True) if has)
                   for row in zip(*given, strict=True)]  # fmt: skip
    return one


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, rows, seed in (("private", 3000, 1), ("test", 400, 3)):
        made = table(rows, seed)
        made.to_csv(folder / f"{name}.csv", index=False)
        in_one_cell(made).to_csv(folder / f"{name}_cells.csv", index=False)
    table(600, 2).drop(columns=[*LABELS, "who"]).to_csv(folder / "public.csv", index=False)
    return folder


def options(files, **more):
    given = {name: str(files / f"{name}.csv") for name in ("private", "public", "test")}
    return {**given, "target": ",".join(LABELS), "drop": "who", "seed": 0, **more}


@pytest.fixture(scope="module")
def run(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels") / "run"
    given = [f"--{name}={value}" for name, value in options(files, epsilon=2, out=folder).items()]
    done = CliRunner().invoke(app, ["train", *given, "--publish-accuracy"])
    assert done.exit_code == 0, (done.output, done.exception)
    return folder, " ".join(done.output.split()), given


@pytest.mark.slow
def test_the_command_line_from_a_table_to_a_release(files, run):
    folder, told, given = run
    for said in (
        "3 labels, of which a row may have none, one or several (old, big, odd",
        "Macro F1",
        "Micro F1",
        "Hamming loss",
        "AUC by lab",
    ):
        assert said in told
    release = folder / "release"
    statement = json.loads((release / "statement.json").read_text())
    assert statement["several_labels"] is True
    assert statement["classes"] == LABELS
    measured = json.loads((folder / "private" / "evaluation.json").read_text())
    assert measured["auc"] > 0.85
    assert measured["macro_f1"] > 0.7
    assert f"Macro F1 {measured['macro_f1']:.3f}" in (release / "model_card.md").read_text()
    test = pd.read_csv(files / "test.csv")
    right = np.column_stack([test["old"] == "yes", test["big"] == 1, test["odd"]])
    said = load_student(release).predict(test)
    assert (said == right).all(axis=1).mean() == pytest.approx(measured["subset_accuracy"])
    # The same command resumes: nothing is drawn again.
    before = (release / "noisy_counts.csv").read_bytes()
    again = CliRunner().invoke(app, ["train", *given, "--publish-accuracy"])
    assert again.exit_code == 0, again.output
    assert (release / "noisy_counts.csv").read_bytes() == before


@pytest.mark.slow
def test_one_column_of_labels_is_the_same_as_a_column_for_each(files, run, tmp_path):
    cells = {name: str(files / f"{name}_cells.csv") for name in ("private", "test")}
    ostrakon.train(**options(files, **cells, epsilon=2, target="tags", classes="old;big;odd", out=tmp_path / "run"))
    for classes in (None, "from-private"):
        given = {**options(files, **cells, epsilon=2, target="tags", out=tmp_path / "no"), "classes": classes}
        with pytest.raises(InvalidInput, match="give all as --classes 'big;odd;old'"):
            ostrakon.train(**given)
    one, other = (np.load(folder / "private" / "votes.npy") for folder in (run[0], tmp_path / "run"))
    np.testing.assert_array_equal(one, other)
    assert one[:, :].min() < 0 < one.max()


@pytest.mark.slow
def test_a_record_moves_its_own_contribution_alone(files, tmp_path):
    """All other records say the same, to the last bit, whatever becomes of one."""
    private, tables = pd.read_csv(files / "private.csv"), []
    for number in (0, 1):
        values = [20 + 60 * number, "abc"[number], 90.0, ["no", "yes"][number], number, bool(number)]
        private.loc[0, ["age", "kind", "size", *LABELS]] = values
        private.to_csv(tmp_path / f"{number}.csv", index=False)
        where = {"private": str(tmp_path / f"{number}.csv"), "test": None, "out": tmp_path / f"run{number}"}
        given = {name: value for name, value in options(files, **where).items() if value is not None}
        done = ostrakon.train(**given)
        tables.append(np.load(tmp_path / f"run{number}" / "private" / "votes.npy"))
    cells, sums = np.split(tables[1] - tables[0], [len(done.outcome.queries)])
    assert np.square(cells).sum() == 2 * 3 * STEPS**2
    assert 0 < np.square(sums).sum() <= 2 * 3 * STEPS**2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"target": "old,big,kind"}, "'kind' is empty or something else in 3000 rows"),
        ({"target": ","}, "target must name every column, got an empty name in ','"),
        ({"classes": ";", "target": "kind"}, "labels that are not empty"),
        ({"target": "old,big,nothing"}, "The target column 'nothing' is not in"),
        ({"classes": "a,b"}, "classes cannot be given with several columns in target"),
        ({"range": "0,1"}, "range cannot be given for several labels"),
        ({"protect": "labels", "public": None}, "several labels cannot be learned if only labels are protected"),
        ({"target": "kind", "classes": "a;b", "drop": "who,old,big,odd"}, "the label is not among the labels a, b"),
        ({"teachers": 10, "mechanism": "labels-gnmax"}, "teachers cannot be chosen for labels-gnmax"),
        ({"student": "moments"}, "if rows have several labels, got 'moments'"),
        ({"max_labels": 4}, "max_labels must be at most 3, the number of labels, got 4"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(files, tmp_path, changes, told):
    given = {
        name: value for name, value in options(files, out=tmp_path / "run", **changes).items() if value is not None
    }
    with pytest.raises(InvalidInput) as refusal:
        ostrakon.train(**given)
    assert told in str(refusal.value)
    assert not (tmp_path / "run" / "release").exists()


def test_columns_of_labels_say_yes_in_some_languages_and_nothing_else(tmp_path):
    words = ["Ja", "nein", "OUI", "non", "sí", "Si", "no", "Y", "n", "1", "0", "true", "False"]
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{word},1\n" for word in words))
    table = open_table(tmp_path / "t.csv")
    labels = table.with_labels(["a", "b"], "a,b").labels("a,b")
    assert labels.tolist() == [f"{'a;' * (word not in ('nein', 'non', 'no', 'n', '0', 'False'))}b" for word in words]
    for odd in ("oder", "2", "n/a", "sick"):
        (tmp_path / "t.csv").write_text(f"a,b\nja,1\n{odd},0\n")
        with pytest.raises(InvalidInput, match=r"yes \(1, yes, .*'a' is empty or something else in 1 rows"):
            open_table(tmp_path / "t.csv").with_labels(["a", "b"], "a,b")


@pytest.mark.parametrize("classes", [None, "x,z"])
def test_a_row_without_labels_beside_cells_with_a_semicolon_is_not_a_missing_label(classes, tmp_path):
    rows = pd.DataFrame({"age": range(60), "ill": ["x;z", "x", None] * 20})
    rows.to_csv(tmp_path / "private.csv", index=False)
    rows.assign(age=rows["age"] + 0.5).to_csv(tmp_path / "public.csv", index=False)
    files = {name: str(tmp_path / f"{name}.csv") for name in ("private", "public")}
    with pytest.raises(InvalidInput, match=r"has cells with a semicolon.* as --classes 'x;z'"):
        ostrakon.train(**files, target="ill", classes=classes, out=tmp_path / "run")


def test_a_rare_label_in_a_cell_is_counted_and_not_shown(tmp_path):
    rows = pd.DataFrame({"age": range(40), "ill": ["x;secret;secret", " z ;x"] + ["x"] * 26 + ["z;odd"] * 12})
    rows.to_csv(tmp_path / "private.csv", index=False)
    rows[["age"]].add(0.5).to_csv(tmp_path / "public.csv", index=False)
    files = {name: str(tmp_path / f"{name}.csv") for name in ("private", "public")}
    with pytest.raises(InvalidInput, match=r"In 13 of 40 rows \('odd' in 12 of them\), the label is not") as refused:
        ostrakon.train(**files, target="ill", classes="x;z", out=tmp_path / "run")
    assert "secret" not in str(refused.value)
    sets = [";".join(f"t{bit}" for bit in range(12) if number >> bit & 1) for number in range(1, 4000)]
    pd.DataFrame({"age": range(len(sets)), "ill": sets}).to_csv(tmp_path / "private.csv", index=False)
    with pytest.raises(InvalidInput, match=r"has cells with a semicolon.* as --classes 't0;t1;t10;"):
        ostrakon.train(**files, target="ill", out=tmp_path / "run")
