"""Runs without public rows: one price for marginals and labels, one draw of each, and what a release says of it."""

import datetime
import importlib.util
import json
import math
import os
import shutil
import signal
import subprocess

import jsonschema
import numpy as np
import pandas as pd
import pytest

from commands import ostrakon
from ostrakon import Domain, PATEClassifier
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.features.synthetic import tables_of
from ostrakon.ledger.cost import cost_of
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms import SyntheticGNMax
from ostrakon.options.files import Files
from ostrakon.options.options import Options
from ostrakon.report.charts import budget_shares
from ostrakon.report.release import publish
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import run
from ostrakon.run.stages import pool
from ostrakon.run.steps import plan_of
from ostrakon.run_audit.audit_run import audit_run
from ostrakon.schemas import schema
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

COLUMNS = {"age": {"low": 18, "high": 90}, "city": {"categories": ["Ulm", "Bonn", "Rom"]}}
DOMAIN = Domain.of(COLUMNS, rows=300)
TOML = """rows = 300
[columns.age]
low = 18
high = 90
[columns.city]
categories = ["Ulm", "Bonn", "Rom"]
"""
RECIPE = Options(epsilon=2.0, delta=1e-5, student="logistic", queries=20, jobs=1, parameters={"marginals": 0.25})
PRIVATE = "Zwiebelstadt"


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 60, n).astype(float), rng.choice(["Ulm", "Bonn", PRIVATE], n, p=[0.6, 0.3, 0.1])
    ill = age / 60 + (city == "Ulm") + rng.normal(size=n) / 4 > 1.1
    return pd.DataFrame({"age": age, "city": city, "user": np.arange(n) % 200, "ill": np.where(ill, "yes", "no")})


@pytest.fixture
def files(tmp_path):
    frame = people()
    frame.iloc[:500].to_csv(tmp_path / "private.csv", index=False)
    frame.iloc[500:].to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "columns.toml").write_text(TOML)
    return tmp_path


@pytest.fixture
def plain(monkeypatch):
    """Cells drawn from each column's noisy marginal, where mbi need not be installed."""

    def cells(noisy, tables, *, sizes, noise, units, rows, seed):
        rng = np.random.default_rng(seed)
        found = np.zeros((rows, max(map(max, tables)) + 1), np.int64)
        for table, counts in zip(tables, noisy, strict=True):
            for at, column in enumerate(table):
                weights = np.maximum(counts.sum(axis=tuple(set(range(counts.ndim)) - {at})), 0)
                found[:, column] = rng.choice(len(weights), rows, p=weights / weights.sum())
        return found

    monkeypatch.setattr(pool, "synthetic_cells", cells)
    monkeypatch.setattr("ostrakon.run.steps.require_mbi", lambda: None)


def task_of(files, **options):
    return task_from_files(
        files / "private.csv", synthetic=files / "columns.toml", target="ill", classes=["no", "yes"], **options
    )


def done(files, name, recipe=RECIPE, **options):
    return run(files / name, task_of(files, **options), recipe)


def test_one_epsilon_composes_marginals_counts_and_sums(files, plain):
    plan = plan_of(task_of(files), Options(epsilon=2.0, delta=1e-5, queries=20, parameters={"marginals": 0.25}))
    mechanism = plan.mechanism
    assert isinstance(mechanism, SyntheticGNMax)
    assert mechanism.tables == len(tables_of(DOMAIN.sizes))
    squares = (
        2 / mechanism.sigma2**2,
        2 / mechanism.moment_noise**2,
        2 * mechanism.tables / mechanism.marginal_noise**2,
    )
    assert squares[2] / sum(squares) == pytest.approx(0.25, rel=1e-9)
    epsilon = gaussian_dp_epsilon(math.sqrt(sum(squares)), 1e-5)
    assert plan.bound.epsilon == pytest.approx(epsilon, rel=1e-8)
    assert 0.98 * 2.0 < plan.bound.epsilon <= 2.0
    assert cost_of(mechanism, queries=20).mu == pytest.approx(math.sqrt(sum(squares)), rel=1e-11)


def test_a_release_says_that_its_public_rows_are_synthetic_and_what_they_cost(files, plain):
    outcome = done(files, "run", test=files / "test.csv")
    assert outcome.accuracy > 0.7
    release = publish(outcome)
    said = json.loads((release / "statement.json").read_text())
    jsonschema.validate(said, schema("statement"))
    mechanism = outcome.plan.mechanism
    assert said["public_rows"] == {
        "source": "synthetic",
        "rows": 300,
        "marginals": mechanism.tables,
        "noise": mechanism.marginal_noise,
        "share": 0.25,
    }
    assert said["rounds"][0]["mechanism"] == "synthetic-gnmax"
    assert said["guarantee"]["epsilon"] <= 2.0
    card = (release / "model_card.md").read_text()
    assert "Synthetic public rows: there were none, and 300 were drawn from" in card
    assert "25% of the budget" in card
    assert "on synthetic rows, drawn from noisy counts of the private ones" in card.split("## Privacy")[0]
    assert "whoever is in the public file" not in card, "there is no public file"
    assert "| `public_rows.csv` |" in card
    rows = pd.read_csv(release / "public_rows.csv")
    assert (len(rows), list(rows)) == (300, ["row", "age", "city"])
    assert set(rows["city"].dropna()) <= {"Ulm", "Bonn", "Rom"}
    assert set(pd.read_csv(release / "labels.csv")["row"]) <= set(rows["row"])
    everything = b"".join(file.read_bytes() for file in release.rglob("*") if file.is_file())
    assert PRIVATE.encode() not in everything, "a word that is in no public list"


def test_marginals_are_drawn_once_though_the_process_is_killed(files, plain, monkeypatch):
    task, folder = task_of(files), files / "run"
    child = os.fork()
    if child == 0:
        # What makes rows is called when the marginals are on the disk, and not before.
        monkeypatch.setattr(pool, "synthetic_cells", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        try:
            run(folder, task, RECIPE)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    drawn = folder / "private" / "noise" / "marginals-1.npy"
    before = (drawn.stat().st_ino, drawn.read_bytes())
    first = run(folder, task, RECIPE)
    assert (drawn.stat().st_ino, drawn.read_bytes()) == before
    again = run(folder, task_of(files), RECIPE)
    pd.testing.assert_frame_equal(first.pool, again.pool)
    np.testing.assert_array_equal(first.answers.counts, again.answers.counts)
    # Another run draws for itself: the noise is not seeded.
    other = done(files, "other")
    assert not other.pool.equals(first.pool)


def test_rows_that_were_made_stay_whatever_makes_them_later(files, plain, monkeypatch):
    first = done(files, "run")
    monkeypatch.setattr(pool, "synthetic_cells", lambda *_, **__: pytest.fail("made twice"))
    pd.testing.assert_frame_equal(done(files, "run").pool, first.pool)


def test_lost_marginals_are_not_drawn_again(files, plain):
    done(files, "run")
    (files / "run" / "private" / "noise" / "marginals-1.npy").unlink()
    with pytest.raises(InvalidInput, match="gone from the noise log"):
        done(files, "run")


def test_other_columns_are_another_run(files, plain):
    done(files, "run")
    (files / "columns.toml").write_text(TOML.replace("90", "91"))
    with pytest.raises(InvalidInput):
        done(files, "run")


def test_the_ledger_is_charged_for_both_before_marginals_are_drawn(files, plain, monkeypatch):
    ledger = f"sqlite:///{files / 'budget.db'}"
    recipe = Options(**{**vars(RECIPE), "ledger": ledger, "budget": 3.0})
    honest = pool.synthetic_cells
    monkeypatch.setattr(pool, "synthetic_cells", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("stopped")))
    with pytest.raises(RuntimeError, match="stopped"):
        done(files, "run", recipe)
    (account,) = Ledger(ledger).accounts().values()
    (cost,) = account.costs
    plan = plan_of(task_of(files), recipe)
    assert cost.mu == pytest.approx(plan.mechanism.run_cost(queries=20).mu, rel=1e-9)
    with pytest.raises(Refused):
        done(files, "second", Options(**{**vars(recipe), "epsilon": 2.9}))
    monkeypatch.setattr(pool, "synthetic_cells", honest)
    done(files, "run", recipe)
    (account,) = Ledger(ledger).accounts().values()
    assert len(account.costs) == 1, "reserved once, though it was stopped"


def test_a_copy_that_draws_other_marginals_is_refused_before_it_makes_rows_of_them(files, plain, monkeypatch):
    charged = Options(**{**vars(RECIPE), "ledger": f"sqlite:///{files / 'ledger.db'}", "budget": 3.0})

    def stopped(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pool, "collect_marginals", stopped)
        with pytest.raises(KeyboardInterrupt):
            done(files, "run", charged)
    shutil.copytree(files / "run", files / "copy")
    done(files, "run", charged)
    with monkeypatch.context() as patched:
        patched.setattr(pool, "synthetic_cells", stopped)
        with pytest.raises(InvalidInput, match="has drawn its noise already, in another copy of its folder"):
            done(files, "copy", charged)
    assert not (files / "copy" / "private" / "noise" / "pool-1.npy").exists()
    done(files, "run", charged)


def test_users_are_protected_as_a_whole(files, plain):
    outcome = done(files, "run", by="user")
    assert outcome.statement.unit == "user"
    assert outcome.plan.teachers == 200
    assert "of standard deviation" in outcome.statement.remarks[0]
    assert " users; that took" in outcome.statement.remarks[0]


def test_a_description_that_misses_its_column_is_told_of_from_noisy_cells_alone(files, plain):
    (files / "columns.toml").write_text(TOML.replace('"Ulm", "Bonn", "Rom"', '"ulm", "bonn"'))
    outcome = done(files, "run")
    shares = {what: share for what, share, _ in budget_shares(outcome)}
    assert shares == pytest.approx({"marginals": 0.25, "answers": 0.75})
    assert any("Of the column 'city' most synthetic cells are missing" in said for said in outcome.statement.remarks)


def test_python_draws_its_public_rows_too(plain):
    frame = people()
    X, y = frame[["age", "city"]], frame["ill"]
    model = PATEClassifier(classes="from-private", epsilon=2.0, student="logistic", random_state=0).fit(
        X, y, X_public=DOMAIN
    )
    assert list(model.pool_) == ["age", "city"]
    assert len(model.pool_) == 300
    assert model.statement_.guarantee.epsilon <= 2
    assert model.mechanism_.moments == 0, "a student that was named learns from no sums"
    assert model.score(X, y) > 0.7
    seeded = [
        PATEClassifier(
            classes="from-private", epsilon=2.0, student="logistic", random_state=0, noise=np.random.default_rng(seed)
        ).fit(X, y, X_public=DOMAIN)
        for seed in (1, 1, 2)
    ]
    pd.testing.assert_frame_equal(seeded[0].pool_, seeded[1].pool_)
    assert not seeded[0].pool_.equals(seeded[2].pool_)
    assert seeded[0].statement_.guarantee is None, "noise that can be undone has no guarantee"
    with pytest.raises(InvalidInput, match="X must be a frame of the columns that are described, age, city"):
        PATEClassifier(classes="from-private").fit(frame[["age", "user"]], y, X_public=DOMAIN)
    with pytest.raises(InvalidInput, match="X must be a frame of the columns that are described"):
        PATEClassifier(classes="from-private").fit(np.zeros((600, 2)), y, X_public=DOMAIN)


@pytest.mark.parametrize("cell", [None, pd.Timestamp("2023-05-05"), "unknown"])
def test_one_cell_moves_its_own_record_alone_in_memory_too(plain, monkeypatch, cell):
    counted = []
    collect = pool.collect_marginals

    def kept(*args, **options):
        counted.append(collect(*args, **options))
        return counted[-1]

    monkeypatch.setattr(pool, "collect_marginals", kept)
    frame, days = people(), pd.Timestamp("2019-01-01") + pd.to_timedelta(np.arange(600) * 2, unit="D")
    low, high = datetime.date(2018, 1, 1), datetime.date(2024, 1, 1)
    domain = Domain.of({"day": {"low": low, "high": high}, "city": {"categories": ["Ulm", "Bonn"]}})
    for day in (pd.Series(days), pd.Series([cell, *days[1:]])):
        X = pd.DataFrame({"day": day, "city": frame["city"]})
        made = PATEClassifier(
            classes="from-private", epsilon=2.0, student="logistic", random_state=0, noise=np.random.default_rng(1)
        )
        if cell == "unknown" and day.dtype == object:
            with pytest.raises(InvalidInput, match=r"'day' of X must be datetime64, .*as it is described; got object"):
                made.fit(X, frame["ill"], X_public=domain)
            return
        made.fit(X, frame["ill"], X_public=domain)
        assert made.pool_["day"].isna().mean() < 0.5
        assert made.predict(X).shape == (600,)
    moved = (counted[0].counts - counted[1].counts) / STEPS
    assert np.square(moved).sum() <= 2 * counted[0].tables


def test_an_infinity_in_memory_is_missing(plain):
    frame = people()
    X = frame[["age", "city"]].assign(age=frame["age"].where(np.arange(600) > 0, np.inf))
    made = PATEClassifier(classes="from-private", epsilon=2.0, student="logistic", random_state=0).fit(
        X, frame["ill"], X_public=DOMAIN
    )
    assert made.statement_.guarantee.epsilon <= 2


def test_a_parquet_file_of_other_types_than_described_is_refused(files, plain):
    frame = pd.read_csv(files / "private.csv")
    frame.assign(city=np.arange(len(frame))).to_parquet(files / "private.parquet")
    with pytest.raises(InvalidInput, match=r"'city' of .*private.parquet must hold text, as it is described; got"):
        task_from_files(
            files / "private.parquet", synthetic=files / "columns.toml", target="ill", classes=["no", "yes"]
        )


@pytest.mark.parametrize(
    "asked",
    [
        {"teachers": 5},
        {"mechanism": "gnmax"},
        {"mechanism": "confident-gnmax"},
        {"guarantee": "gate"},
        {"max_answers": 3},
        {"smooth": True},
        {"parameters": {"sigma1": 3.0}},
    ],
)
def test_trained_teachers_are_refused(files, plain, asked):
    with pytest.raises(
        InvalidInput, match=r"synthetic rows are for per-record teachers|cannot be chosen|is not a parameter"
    ):
        plan_of(task_of(files), Options(**asked))


def test_what_cannot_be_synthetic_is_refused(files, plain, tmp_path):
    with pytest.raises(InvalidInput, match="synthetic stands in the place of public rows"):
        Files(private="a.csv", public="b.csv", synthetic="c.toml")
    with pytest.raises(InvalidInput, match="synthetic cannot be given where labels alone are protected"):
        Files(private="a.csv", protect="labels", synthetic="c.toml")
    with pytest.raises(InvalidInput, match="or, for a table, synthetic"):
        Files(private="a.csv")
    with pytest.raises(InvalidInput, match="images and free text need public rows"):
        task_from_files(
            files / "private.csv", synthetic=files / "columns.toml", target="ill", text=True, classes="from-private"
        )
    (files / "columns.toml").write_text(TOML + "[columns.income]\nlow = 0\nhigh = 1\n")
    with pytest.raises(InvalidInput, match=r"must have every column that is described.*'income' is missing"):
        task_of(files)
    (files / "columns.toml").write_text(TOML + '[columns.ill]\ncategories = ["yes", "no"]\n')
    with pytest.raises(InvalidInput, match="must be no features, and two columns, got 'ill' twice"):
        task_of(files)
    (files / "columns.toml").write_text(TOML)
    public = files / "public.csv"
    people(seed=1).drop(columns="ill").to_csv(public, index=False)
    with_public = task_from_files(files / "private.csv", public, target="ill", classes=["no", "yes"])
    with pytest.raises(
        InvalidInput, match="mechanism must be another than synthetic-gnmax where public rows are given"
    ):
        plan_of(with_public, Options(mechanism="synthetic-gnmax"))
    with pytest.raises(InvalidInput, match="marginals is not a parameter of moment-gnmax"):
        plan_of(with_public, Options(parameters={"marginals": 0.2}))
    with pytest.raises(InvalidInput, match="A run can be audited by canaries where public rows are given"):
        audit_run(tmp_path / "audit", task_of(files), RECIPE, rng=np.random.default_rng(0))


def test_a_table_without_a_header_needs_names(files, plain):
    people(200).to_csv(files / "private.csv", index=False, header=False)
    with pytest.raises(InvalidInput, match="must have every column that is described"):
        task_of(files)
    assert task_of(files, names="age,city,user,ill").private.units == 200


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mbi") is None, reason="needs the extra synthetic")
def test_the_command_line_from_nothing_but_a_private_table(files):
    asked = ("--private", "private.csv", "--synthetic", "columns.toml", "--target", "ill", "--classes", "no,yes")
    told = ostrakon(
        "train", *asked, "--epsilon", 2, "--student", "logistic", "--queries", 20, "--out", "r", folder=files
    )
    assert isinstance(told, subprocess.CompletedProcess)
    assert told.returncode == 0, told.stderr
    assert "to be drawn from noisy marginals" in " ".join(told.stdout.split())
    said = json.loads((files / "r" / "release" / "statement.json").read_text())
    assert said["private"]
    assert said["public_rows"]["source"] == "synthetic"
    refused = ostrakon("train", *asked, "--public", "private.csv", folder=files)
    assert refused.returncode == 2
    assert "synthetic stands in the place of public rows" in " ".join((refused.stdout + refused.stderr).split())
