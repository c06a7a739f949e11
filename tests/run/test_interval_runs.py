"""Runs on quantities with intervals: coverage in hard worlds, one record's part, the ledger, refits and an audit."""

import csv
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, minmax_scale

import ostrakon
import ostrakon.run.steps as steps
from ostrakon.data.checksummed import sha256
from ostrakon.data.quantity import Quantity
from ostrakon.export.student_files import load_student
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms import QuantityGNMax
from ostrakon.options.options import Options
from ostrakon.report.recorded import find_recorded
from ostrakon.report.table import refit_table
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run_audit.audit_run import audit_run
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

STUDENTS = ["auto", "soft-vote", "hist-gradient-boosting"]
TREES = "extra-trees(n_estimators=20)"


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, 10 + 3 * X[:, 0] + rng.normal(size=n)


def fitted(X, y, public, **options):
    return ostrakon.PATERegressor(
        **{"epsilon": 2.0, "range": (0, 20), "random_state": 0, "allow_shared_rows": True, **options}
    ).fit(X, np.clip(y, 0, 20), X_public=public)


def covered(model, X, y, coverage):
    low, high = model.predict_interval(X, coverage).T
    return float(np.mean((low <= y) & (y <= high)))


@pytest.mark.slow
@pytest.mark.parametrize("student", STUDENTS)
def test_intervals_in_python_and_in_the_exported_student_are_the_same(student, tmp_path):
    X, y = rows(2500, 0)
    model = fitted(X[:2000], y[:2000], X[2000:2300], student=student)
    assert model.mechanism_.errors == 0.05
    release = model.save_release(tmp_path / "release")
    loaded = load_student(release)
    for coverage in (0.8, 0.9, 0.95):
        ends = model.predict_interval(X[2300:], coverage)
        assert ends.shape == (200, 2)
        assert (ends[:, 0] >= 0).all()
        assert (ends[:, 1] <= 20).all()
        assert covered(model, X[:2000], np.clip(y[:2000], 0, 20), coverage) >= coverage
        np.testing.assert_allclose(loaded.predict_interval(X[2300:], coverage), ends, atol=1e-9)
    widths = list(model.released_.intervals.half_widths.values())
    assert widths == sorted(widths)
    assert widths[0] < 8
    with pytest.raises(InvalidInput, match=r"coverage must be one of 0.8, 0.9, 0.95, got 0.5"):
        model.predict_interval(X, 0.5)
    card = " ".join((release / "model_card.md").read_text().split())
    assert "holds the value of at least 90% of the private records" in card
    assert f"On each side of the estimate: {widths[0]:.4g} at coverage 0.8" in card
    assert "every record added one vote to counts of its errors by size" in card
    with open(release / "noisy_errors.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert float(table[-1]["up_to"]) == 20
    assert sum(float(row["records"]) for row in table) == pytest.approx(2000, abs=6 * 25 * len(table) ** 0.5)


def test_a_run_without_counts_of_errors_has_no_intervals():
    X, y = rows(1200, 0)
    model = ostrakon.PATERegressor(epsilon=2.0, range=(0, 20), random_state=0, allow_shared_rows=True)
    model.mechanism = "quantity-gnmax(errors=0)"
    model.fit(X, np.clip(y, 0, 20), X_public=X[:200])
    assert model.finished_.answers.errors is None
    with pytest.raises(InvalidInput, match="Intervals need a student whose errors"):
        model.predict_interval(X)


class Ranked(LogisticRegression):
    """A student that looks at the rows beside a row."""

    def predict_proba(self, X):
        return super().predict_proba(minmax_scale(X))


RANKED = make_pipeline(FunctionTransformer(minmax_scale), LogisticRegression(C=100))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:It can be used here", "ignore:Since Pipeline")
@pytest.mark.parametrize(
    "student",
    ["auto", "soft-vote", "logistic", "additive", Ranked(C=100), CalibratedClassifierCV(RANKED, ensemble=False)],
    ids=lambda student: student if isinstance(student, str) else type(student).__name__,
)
def test_one_record_moves_two_counts_of_errors_by_one_vote(student, monkeypatch):
    """All other records say the same, to the last bit, whatever becomes of one: the student is fixed."""
    asked = []
    collect = steps.collect_errors
    monkeypatch.setattr(steps, "collect_errors", lambda *given, **_: asked.append(given) or collect(*given))
    records = 900 if isinstance(student, str) else 500  # more than a block, or one row at a time
    X, y = rows(records, 3)
    fitted(X, y, X[:150], student=student)
    plan, private, estimates, options = asked[0]
    before = collect(plan, private, estimates, options)
    assert before.counts.sum() == records * STEPS
    for number in (0, records // 2, records - 1):
        other, given = private.X.copy(), private.y.copy()
        other[number], given[number] = -9.0, STEPS - given[number]
        moved = collect(plan, Rows(X=other, y=given), estimates, options).counts - before.counts
        assert np.square(moved).sum() in (0, 2 * STEPS**2)
    assert estimates.rows == (768 if isinstance(student, str) else 1)
    # Rows in another order, and so in other blocks.
    order = np.random.default_rng(0).permutation(records)
    again = collect(plan, Rows(X=private.X[order], y=private.y[order]), estimates, options)
    np.testing.assert_array_equal(again.counts, before.counts)


def made_world(name, n, rng):
    """(features, quantity from 0 to 10)."""
    X = rng.normal(size=(n, 4))
    middle = 5 + X[:, 0]
    noise = {
        "heteroscedastic": lambda: rng.normal(size=n) * np.where(X[:, 1] > 1, 3, 0.2),
        "heavy tails": lambda: rng.standard_t(1.5, size=n) * 0.3,
        "skewed": lambda: rng.lognormal(0, 1, size=n) - 1,
        "few records": lambda: rng.normal(size=n),
        "constants": lambda: 2 - X[:, 0],
        "two values": lambda: np.where(rng.random(n) < 0.12, 10.0, 0.0) - middle,
    }[name]
    return X, np.clip(middle + noise(), 0, 10)


WORLDS = ["heteroscedastic", "heavy tails", "skewed", "few records", "constants", "two values"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "student"), [*((world, "auto") for world in WORLDS), *((WORLDS[at], TREES) for at in (0, 5))]
)
def test_whole_runs_cover_new_rows_of_hard_worlds(world, student):
    """Failures at most as often as 5% of runs fail; new rows are known to within half a percent."""
    runs, below = 4, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X, y = made_world(world, 300 if world == "few records" else 2000, rng)
        new, right = made_world(world, 20_000, rng)
        public, _ = made_world(world, 300, rng)
        model = fitted(X, y, public, range=(0, 10), student=student, noise=rng)
        errors = np.abs(right - model.predict(new))
        for coverage, half_width in model.released_.intervals.half_widths.items():
            inside = errors <= half_width  # as `predict_interval` has it, whose ends stay within the range
            assert inside[:300].mean() == covered(model, new[:300], right[:300], coverage)
            below += inside.mean() < coverage - 0.005
    assert below <= stats.binom.ppf(0.999, 3 * runs, 0.05)


def table(n, seed):
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 90, n), rng.choice(["Ulm", "Bonn"], n)
    price = (0.6 * age + 15 * (city == "Ulm") + rng.normal(size=n) * 3).round(2)
    return pd.DataFrame({"age": age, "city": city, "price": price, "who": rng.integers(0, n // 2, n)})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    table(1500, 0).to_csv(folder / "private.csv", index=False)
    table(200, 1)[["age", "city"]].to_csv(folder / "public.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def run(files, tmp_path_factory):
    """(folder of a run, URL of its ledger)."""
    folder = tmp_path_factory.mktemp("intervals")
    url = f"sqlite:///{folder / 'ledger.db'}"
    ledger = {"ledger": url, "budget": 5, "ledger_account": "people"}
    ostrakon.train(**options(files), **ledger, out=folder / "run")
    return folder / "run", url


def options(files, **more):
    given = {name: files / f"{name}.csv" for name in ("private", "public")}
    return {**given, "target": "price", "range": "0,80", "by": "who", "epsilon": 2.0, "delta": 1e-4, **more}


def test_the_price_is_that_of_all_three_tables(run):
    statement = json.loads((run[0] / "release" / "statement.json").read_text())
    asked = statement["rounds"][0]["parameters"]
    assert asked["errors"] == 0.1
    mechanism = QuantityGNMax(**asked)
    cost = mechanism.run_cost(queries=statement["queries"])
    without = 2 / mechanism.sigma2**2 + 2 / mechanism.moment_noise**2
    assert cost.mu**2 == pytest.approx(without + 2 / mechanism.error_noise**2, rel=1e-9)
    assert 1.99 < statement["guarantee"]["epsilon"] <= 2
    assert any("counts of its errors by size" in remark for remark in statement["remarks"])


def test_users_together_cast_one_vote_each(run):
    stored = np.load(run[0] / "private" / "errors.npy")
    assert stored.sum() == table(1500, 0)["who"].nunique() * STEPS


def test_the_ledger_knows_the_counts_of_errors(run, tmp_path):
    folder, url = run
    recorded = find_recorded(folder / "release", Ledger(url))
    assert "noisy_errors.csv" in recorded.compared
    assert recorded.others == 0
    release = shutil.copytree(folder / "release", tmp_path / "release")
    errors, manifest = release / "noisy_errors.csv", release / "manifest.json"
    lines = errors.read_text().splitlines()
    edge, noisy = lines[1].split(",")
    content = json.loads(manifest.read_text())
    for changed, refusal in (
        (f"{edge},{float(noisy) + 1}", "No run in .* has drawn the numbers"),
        (f"{2 * float(edge):.10g},{noisy}", "The bins of noisy_errors.csv are not those of the statement"),
    ):
        errors.write_text("\n".join([lines[0], changed, *lines[2:]]) + "\n")
        content["files"]["noisy_errors.csv"] = sha256(errors.read_bytes())
        manifest.write_text(json.dumps(content))
        with pytest.raises(InvalidInput, match=refusal):
            find_recorded(release, Ledger(url))


def test_a_resumed_run_draws_nothing_again_and_counts_nothing_again(files, run, monkeypatch):
    folder, url = run
    noise = {path.name: path.read_bytes() for path in (folder / "private" / "noise").iterdir()}
    before = {path.name: path.read_bytes() for path in (folder / "release").iterdir()}
    assert "errors-1.npy" in noise
    shutil.rmtree(folder / "release")
    monkeypatch.setattr(steps, "collect_errors", None)
    ostrakon.train(**options(files), ledger=url, budget=5, ledger_account="people", out=folder)
    assert {path.name: path.read_bytes() for path in (folder / "private" / "noise").iterdir()} == noise
    assert {path.name: path.read_bytes() for path in (folder / "release").iterdir()} == before


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_was_stopped_at_the_draw_of_errors_pays_once(files, tmp_path, monkeypatch, when):
    given = options(files, ledger=f"sqlite:///{tmp_path / 'ledger.db'}", budget=5, ledger_account="people")
    draw = steps.draw_errors

    def stopped(*asked, **log):
        if when == "after":
            draw(*asked, **log)
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "draw_errors", stopped)
    with pytest.raises(KeyboardInterrupt):
        ostrakon.train(**given, out=tmp_path / "run")
    monkeypatch.setattr(steps, "draw_errors", draw)
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "run" / "private" / "noise").iterdir()}
    assert ("errors-1.npy" in drawn) == (when == "after")
    # A copy that was made before the draw goes on with noise of its own, and is refused.
    copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
    ostrakon.train(**given, out=tmp_path / "run")
    after = {path.name: path.read_bytes() for path in (tmp_path / "run" / "private" / "noise").iterdir()}
    assert drawn.items() <= after.items()
    ledger = Ledger(given["ledger"])
    assert len(ledger.account("people").spends) == 1
    assert find_recorded(tmp_path / "run" / "release", ledger).others == 0
    if when == "before":
        with pytest.raises(InvalidInput, match="has drawn its noise already, in another copy"):
            ostrakon.train(**given, out=copy)


def test_a_lost_draw_of_errors_is_never_repeated(files, run, tmp_path):
    copy = shutil.copytree(run[0], tmp_path / "copy")
    shutil.rmtree(copy / "release")
    (copy / "private" / "noise" / "errors-1.npy").unlink()
    with pytest.raises(InvalidInput, match=r"errors-1.npy is gone from the noise log"):
        ostrakon.train(**options(files), ledger=run[1], budget=5, ledger_account="people", out=copy)


def test_a_run_of_another_version_is_refused_with_the_cause(files, tmp_path):
    ostrakon.train(**options(files), out=tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "release")
    for number, (change, sentence) in enumerate(
        [
            ({"errors": None}, r"drawn with other settings \(errors\)"),
            ({"old": 1.0}, r"can read, got one of version .*old is not a parameter"),
            ({"errors": 0.15}, r"or version .* of ostrakon, which settled it, computes"),
        ]
    ):
        home = RunFolder(shutil.copytree(tmp_path / "run", tmp_path / str(number)))
        content = home.read()
        parameters = {**content["settled"]["parameters"], **change}
        content["settled"]["parameters"] = {name: value for name, value in parameters.items() if value is not None}
        home.write(content)
        with pytest.raises(InvalidInput, match=sentence):
            ostrakon.train(**options(files), out=home.path)


@pytest.mark.slow
def test_a_refit_keeps_intervals_of_the_same_student_alone(files, run, tmp_path):
    release, public = run[0] / "release", files / "public.csv"
    same = ostrakon.refit(release, public=public, out=tmp_path / "same").release
    for file in ("student.json", "noisy_errors.csv", "refit.json"):
        assert (same / file).read_bytes() == (release / file).read_bytes(), file
    assert load_student(same).predict_interval(pd.read_csv(public), 0.9).shape == (200, 2)
    done = ostrakon.refit(same, public=public, student="soft-vote", out=tmp_path / "other")
    other = done.release
    printed = list(refit_table(done.finished, release=other).columns[1].cells)
    assert "none: errors were counted for the student of the earlier release, not for this one" in printed
    assert "prediction_intervals" not in json.loads((other / "student.json").read_text())
    assert (
        "errors were counted for the student of the earlier release, not for this one"
        in (other / "model_card.md").read_text()
    )
    with pytest.raises(ValueError, match="whose errors on the private records were counted"):
        load_student(other).predict_interval(pd.read_csv(public))
    first = ostrakon.refit(other, public=public, out=tmp_path / "first").release
    assert (first / "student.json").read_bytes() == (release / "student.json").read_bytes()


@pytest.mark.slow
def test_an_audit_reads_the_counts_of_errors_too(files, tmp_path, monkeypatch):
    given = {name: files / f"{name}.csv" for name in ("private", "public")}
    task = task_from_files(**given, target="price", coding=Quantity.of("0,80"), drop=["who"])
    asked = Options(epsilon=2.0, delta=1e-4, queries=20)
    sound = audit_run(tmp_path / "sound", task, asked, rng=np.random.default_rng(0))
    assert sound.contradiction is None
    assert sound.lower_bound <= 2
    noise = QuantityGNMax.noisy_errors
    monkeypatch.setattr(
        QuantityGNMax, "noisy_errors", lambda self, errors, rng: (noise(self, errors, rng) + errors.counts / STEPS) / 2
    )
    broken = audit_run(tmp_path / "broken", task, asked, rng=np.random.default_rng(0))
    assert broken.contradiction is not None
    assert "noisy counts of errors" in broken.contradiction
