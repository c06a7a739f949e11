"""Runs on files whose target is a quantity, from the command line to the release."""

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ostrakon
import ostrakon.run.steps as steps
from ostrakon.cli import app
from ostrakon.data.quantity import Quantity, rounded
from ostrakon.export.student_files import load_student
from ostrakon.options.options import Options
from ostrakon.report.manifest import write_manifest
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.steps import plan_of
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS


def table(rows, seed):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame({"age": rng.integers(18, 90, rows), "kind": rng.choice(["a", "b", "c"], rows)})
    made["size"] = rng.normal(100, 20, rows).round(1)
    made["who"] = rng.integers(0, rows // 2, rows)
    made["price"] = (made["age"] * 0.3 + made["size"] * 0.1 + 5 * (made["kind"] == "b") + rng.normal(0, 1, rows)).round(
        2
    )
    return made


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    table(3000, 1).to_csv(folder / "private.csv", index=False)
    table(500, 2).drop(columns=["price", "who"]).to_csv(folder / "public.csv", index=False)
    table(300, 3).to_csv(folder / "test.csv", index=False)
    return folder


def options(files, **more):
    given = {name: str(files / f"{name}.csv") for name in ("private", "public", "test")}
    return {**given, "target": "price", "by": "who", "range": "5,45", **more}


@pytest.mark.slow
def test_the_command_line_from_a_table_to_a_release(files, tmp_path):
    given = [f"--{name}={value}" for name, value in options(files, epsilon=2, out=tmp_path / "run").items()]
    done = CliRunner().invoke(app, ["train", *given, "--publish-accuracy"])
    assert done.exit_code == 0, (done.output, done.exception)
    told = " ".join(done.output.split())
    assert "price: a quantity from 5 to 45" in told
    assert "R2" in told
    assert "Mean absolute error" in told
    assert "of the private values of the target are outside 5 to 45" in told
    assert "epsilon 2, delta" in told
    assert "(public rows that were asked about)" in told
    release = tmp_path / "run" / "release"
    statement = json.loads((release / "statement.json").read_text())
    assert statement["quantity"] == {"low": 5, "high": 45}
    assert statement["unit_of_privacy"] == "user"
    assert 1.99 < statement["guarantee"]["epsilon"] <= 2
    assert not any("class" in entry for entry in statement["not_covered"])
    measured = json.loads((tmp_path / "run" / "private" / "evaluation.json").read_text())
    assert measured["r2"] > 0.7
    assert f"R2 {measured['r2']:.3f}" in (release / "model_card.md").read_text()
    assert "as a vector, has a length of at most 0.71 votes." in (release / "model_card.md").read_text()
    assert "are outside" not in (release / "model_card.md").read_text()  # the share of such values is private
    test = pd.read_csv(files / "test.csv")
    said = load_student(release).predict(test)
    assert np.abs(said - test["price"]).mean() == pytest.approx(measured["mean_absolute_error"], rel=1e-6)
    with open(release / "values.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == statement["queries"]
    assert all(not row["value"] or 5 <= float(row["value"]) <= 45 for row in rows)
    # The same command resumes: nothing is drawn again.
    before = (release / "noisy_counts.csv").read_bytes()
    again = CliRunner().invoke(app, ["train", *given, "--publish-accuracy"])
    assert again.exit_code == 0, again.output
    assert (release / "noisy_counts.csv").read_bytes() == before


@pytest.mark.slow
def test_votes_of_tables_are_those_of_rows_in_memory(files, tmp_path):
    # The noise of a histogram would differ.
    asked = {"mechanism": "quantity-gnmax(histogram=0)"}
    ostrakon.train(**options(files, by=None, test=None, out=tmp_path / "run", drop="who", seed=0, **asked))
    stored = np.load(tmp_path / "run" / "private" / "votes.npy")
    private, public = pd.read_csv(files / "private.csv"), pd.read_csv(files / "public.csv")
    model = ostrakon.PATERegressor(range=(5, 45), random_state=0, allow_shared_rows=True, **asked)
    columns = ["age", "kind", "size"]
    model.fit(private[columns], private["price"], X_public=public[columns])
    assert stored[: len(model.queries_)].sum() == 3000 * STEPS == model.votes_.counts.sum()
    np.testing.assert_array_equal(stored[len(model.queries_) :], model.votes_.moments.counts)


@pytest.mark.slow
def test_a_record_moves_its_own_contribution_alone(files, tmp_path):
    """All other records say the same, to the last bit, whatever becomes of one."""
    private, tables = pd.read_csv(files / "private.csv").drop(columns="who"), []
    for number, price in enumerate((5.0, 45.0)):
        private.loc[0, ["age", "kind", "size", "price"]] = [20 + 60 * number, "abc"[number], 90.0, price]
        private.to_csv(tmp_path / f"{number}.csv", index=False)
        ostrakon.train(
            private=tmp_path / f"{number}.csv", public=files / "public.csv", target="price", range="5,45",
            out=tmp_path / f"run{number}", seed=0, mechanism="quantity-gnmax(histogram=0)",
        )  # fmt: skip
        tables.append(np.load(tmp_path / f"run{number}" / "private" / "votes.npy"))
    moved = tables[1] - tables[0]
    cells, sums = np.split(moved, [_queries(tmp_path / "run0")])
    assert np.count_nonzero(cells) == 2
    assert np.square(cells).sum() == 2 * STEPS**2
    assert 0 < np.square(sums).sum() <= 2 * STEPS**2


WIDE = {"by": None, "drop": "who", "range": "-100,400", "seed": 0, "epsilon": 2}


@pytest.mark.slow
def test_a_noisy_histogram_narrows_a_wide_range(files, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ostrakon.train(**options(files, **WIDE, out=tmp_path / "run", ledger=url, budget=10))
    release = tmp_path / "run" / "release"
    statement = json.loads((release / "statement.json").read_text())
    low, high = statement["clipped"]["low"], statement["clipped"]["high"]
    assert -30 < low < 25
    assert 38 < high < 110
    parameters = statement["rounds"][0]["parameters"]
    assert parameters["moments"] == round(0.5 * 0.8 - parameters["histogram"], 4)
    said = load_student(release).predict(pd.read_csv(files / "test.csv"))
    assert low <= said.min() <= said.max() <= high
    assert json.loads((tmp_path / "run" / "private" / "evaluation.json").read_text())["r2"] > 0.7
    card = " ".join((release / "model_card.md").read_text().split())
    part = f"{rounded(low)} to {rounded(high)}"
    assert f"from -100 to 400. Its estimates are from {part}: private values outside counted as the nearest" in card
    assert f"By this noisy histogram most values are from {part};" in card
    table = pd.read_csv(release / "noisy_histogram.csv")
    assert table["up_to"].iloc[-1] == 400
    assert table["records"].sum() == pytest.approx(3000, abs=6 * 30 * len(table) ** 0.5)
    assert CliRunner().invoke(app, ["ledger", "verify", url, str(release)]).exit_code == 0
    # The same release gives the same student, and another one for other bins is refused.
    refitted = CliRunner().invoke(
        app, ["refit", str(release), "--public", str(files / "public.csv"), "--out", str(tmp_path / "again")]
    )
    assert refitted.exit_code == 0, refitted.output
    np.testing.assert_array_equal(load_student(tmp_path / "again").predict(pd.read_csv(files / "test.csv")), said)
    changes = [
        ("noisy_histogram.csv", "\n400,.*", "\n400,nan", r"\(\d+, 1\) finite numbers"),
        ("noisy_histogram.csv", "\n400,.*", "", r"\(\d+, 1\) finite numbers"),
        ("statement.json", f'"low": {low!r}', '"low": "x"', f"clipped to {low} to {high}, .* says x to {high}"),
    ]
    for name, before, after, told in changes:
        original = (release / name).read_text()
        (release / name).write_text(re.sub(before, after, original))
        write_manifest(release)
        with pytest.raises(InvalidInput, match=told):
            ostrakon.refit(release, public=files / "public.csv", out=tmp_path / "other")
        (release / name).write_text(original)


def test_a_histogram_may_need_the_whole_range():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 2)), rng.uniform(0, 10, 2000)
    model = ostrakon.PATERegressor(epsilon=4.0, range=(0, 10), random_state=0).fit(
        X, y, X_public=rng.normal(size=(200, 2))
    )
    assert model.finished_.answers.histogram is not None
    assert model.statement_.clipped is None
    assert "the whole range is needed" in model.statement_.remarks[-1]
    assert model.statement_.tuned["range"] == "given by the operator"


@pytest.mark.slow
def test_a_run_that_stops_after_its_histogram_draws_no_other(files, tmp_path, monkeypatch):
    asked, folder = options(files, **WIDE, out=tmp_path / "run"), tmp_path / "run" / "private"
    with monkeypatch.context() as stopped:
        stopped.setattr(steps, "collect_votes", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ostrakon.train(**asked)
    drawn = (folder / "noise" / "histogram-1.npy").read_bytes()
    ostrakon.train(**asked)
    assert (folder / "noise" / "histogram-1.npy").read_bytes() == drawn
    assert (tmp_path / "run" / "release" / "noisy_histogram.csv").exists()


@pytest.mark.slow
def test_one_record_moves_two_bins_by_one_vote(files, tmp_path):
    private, tables = pd.read_csv(files / "private.csv").drop(columns="who"), []
    for number, price in enumerate((10.0, 45.0)):
        private.loc[7, ["age", "price"]] = [20 + 60 * number, price]
        private.to_csv(tmp_path / f"{number}.csv", index=False)
        asked = {"private": tmp_path / f"{number}.csv", "public": files / "public.csv", "target": "price", "seed": 0}
        ostrakon.train(**asked, range="5,45", out=tmp_path / f"run{number}")
        tables.append(np.load(tmp_path / f"run{number}" / "private" / "histogram.npy"))
    moved = tables[1] - tables[0]
    assert sorted(moved[moved != 0]) == [-STEPS, STEPS]
    assert tables[0].sum() == 3000 * STEPS


def _queries(folder):
    return len((folder / "release" / "values.csv").read_text().splitlines()) - 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"range": "45,5"}, "range must be two numbers, the lower one first, got 45 and 5."),
        ({"range": "5"}, "range must be two numbers, LOW,HIGH, such as 0,50, got '5'."),
        ({"range": "1e16,1e16"}, "range must be two numbers, the lower one first"),
        (
            {"range": "10000000000000000,10000000000000004"},
            "range must hold 1,073,741,824 different numbers, got 1e+16",
        ),
        ({"classes": "a,b"}, "range cannot be given with classes"),
        ({"protect": "labels", "public": None}, "range cannot be given if only labels are protected"),
        (
            {"target": "kind", "drop": "price"},
            "decimal commas) in every row, and it is not in 3000 of 3000",
        ),
        ({"mechanism": "gnmax"}, "mechanism must be quantity-gnmax if the target is a quantity"),
        ({"student": "ridge"}, "if the target is a quantity, got 'ridge'"),
        ({"teachers": 10}, "teachers cannot be chosen for quantity-gnmax"),
        ({"range": None}, "for a quantity give its public range, --range LOW,HIGH"),
        (
            {"range": None, "classes": "1,2", "target": "kind", "drop": "price"},
            "the private target 'kind'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(files, tmp_path, changes, told):
    given = {
        name: value for name, value in options(files, out=tmp_path / "run", **changes).items() if value is not None
    }
    with pytest.raises(InvalidInput, match=None) as refusal:
        ostrakon.train(**given)
    assert told in str(refusal.value)
    assert not (tmp_path / "run" / "release").exists()


def test_the_mechanism_of_quantities_needs_a_quantity(files):
    given = {name: files / f"{name}.csv" for name in ("private", "public")}
    task = task_from_files(**given, target="kind", classes=["a", "b", "c"], drop=["who", "price"])
    with pytest.raises(InvalidInput, match="needs a quantity as the target"):
        plan_of(task, Options(mechanism="quantity-gnmax"))
    assert Quantity.of("5,45").in_words == "5 to 45"


def test_gaps_in_the_target_are_refused(files, tmp_path):
    private = pd.read_csv(files / "private.csv")
    private.loc[:4, "price"] = np.nan
    private.to_csv(tmp_path / "gaps.csv", index=False)
    with pytest.raises(InvalidInput, match=r"is missing in 5 of 3000\. Leave these rows out"):
        ostrakon.train(**options(files, private=str(tmp_path / "gaps.csv"), out=tmp_path / "run"))
