"""Several fits on the same private records: their statement says what all of them cost, or claims nothing."""

import copy
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import ostrakon
from ostrakon.accounting.membership_guess import membership_guess
from ostrakon.run import spending
from ostrakon.run.spending import EveryFitSpends
from ostrakon.statements import repeated
from ostrakon.statements.statement import epsilon_in_words, round_up
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(3)
X, OTHER, PUBLIC = (RNG.normal(size=(rows, 2)) for rows in (600, 600, 80))
Y = (X[:, 0] > 0).astype(int)
ALONE = RNG.normal(size=(3, 600, 2))
LABELS = RNG.integers(2, size=(3, 600))

pytestmark = [
    pytest.mark.filterwarnings("ignore::ostrakon.run.spending.EveryFitSpends"),
    pytest.mark.usefixtures("no_comparison"),
]


class WithPublicRows(ostrakon.PATEClassifier):
    """A search passes X and y alone."""

    def fit(self, X, y):
        public = PUBLIC[:, : X.shape[1]]
        return super().fit(X, y, X_public=pd.DataFrame(public, columns=X.columns) if hasattr(X, "columns") else public)


def model(**options):
    given = {"epsilon": 1.0, "delta": 1e-5, "student": "logistic", "classes": [0, 1], "random_state": 0}
    return WithPublicRows(**(given | options))


def fit(rows, y=Y, **options):
    return model(**options).fit(rows, y).statement_


def search(jobs=None, refit=True):
    return GridSearchCV(model(), {"epsilon": [0.5, 1.0]}, cv=2, n_jobs=jobs, refit=refit, error_score="raise")


def claims(statement):
    return statement.guarantee.epsilon, statement.guarantee.delta


@pytest.mark.slow
def test_all_fits_on_the_same_records_are_added():
    single = []
    for rows, y, epsilon in zip(ALONE, LABELS, (1.0, 0.5, 2.0), strict=True):
        spending._fits.clear()  # as in another process
        single.append(fit(rows, y, epsilon=epsilon))
    spending._fits.clear()
    first, second, third = (fit(X, epsilon=epsilon) for epsilon in (1.0, 0.5, 2.0))
    # Exactly, and never below the exact sum.
    for together, fits in ((first, 1), (second, 2), (third, 3)):
        epsilon, delta = (sum(Fraction(claims(one)[part]) for one in single[:fits]) for part in (0, 1))
        assert epsilon <= Fraction(together.guarantee.epsilon) <= epsilon * (1 + Fraction(1, 10**12))
        assert delta <= Fraction(together.guarantee.delta) <= delta * (1 + Fraction(1, 10**12))
    assert third.adjacent[0].epsilon == third.guarantee.epsilon
    assert third.adjacent[1].epsilon == pytest.approx(sum(one.adjacent[1].epsilon for one in single), rel=1e-12)
    assert third.membership_guess == membership_guess([claims(third)])
    assert third.remarks[0].startswith("Fitted 3 times, on private records that may be the same")
    assert third.as_dict()["guarantee"]["epsilon"] == round_up(third.guarantee.epsilon)


def test_a_warning_is_about_the_sum():
    fit(X, epsilon=11.0)
    second = fit(X, epsilon=11.0)
    warned = [remark for remark in second.remarks if remark.startswith("Warning: an epsilon of")]
    assert [remark.split()[4] for remark in warned] == [epsilon_in_words(second.guarantee.epsilon)]


def scaled(rows):
    return StandardScaler().fit(rows).transform(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "y"),
    [
        (X[::-1], 1 - Y[::-1]),
        (np.vstack([OTHER[:599], X[:1]]), RNG.integers(2, size=600)),
        (2 * X[:400] + 1, Y[:400]),
        (scaled(X[200:])[:, :1], Y[200:]),
        (OTHER, RNG.integers(2, size=600)),
    ],
    ids=["reordered", "one record", "a part, scaled", "a part, fewer columns", "perhaps others"],
)
def test_records_that_may_be_the_same_are_added(rows, y):
    fit(X)
    assert claims(fit(rows, y))[0] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.slow
def test_folds_with_a_fitted_step_are_added():
    for number, (rows, _) in enumerate(KFold(3, shuffle=True, random_state=0).split(X), 1):
        assert claims(fit(scaled(X[rows]), Y[rows]))[0] == pytest.approx(number, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "epsilon"),
    [
        (np.arange(600) + 600, 1.0),
        ([f"other {number}" for number in range(600)], 1.0),
        (np.arange(600) + 599, 2.0),
        ([f"{number}" for number in range(600)], 2.0),
    ],
    ids=["others", "others, as text", "one in both", "the same, as text"],
)
def test_fits_that_have_no_user_in_common_are_not_added(users, epsilon):
    private = {"epsilon": 1.0, "delta": 1e-5, "student": "logistic", "classes": [0, 1], "random_state": 0}
    first, second = (
        ostrakon.PATEClassifier(**private).fit(rows, y, X_public=PUBLIC, users=each).statement_
        for rows, y, each in [(X, Y, np.arange(600)), (2 * X, Y, users)]
    )
    assert claims(first)[0] == pytest.approx(1.0, rel=1e-3)
    assert claims(second)[0] == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.slow
def test_an_unprotected_fit_cannot_be_mended():
    fit(X, noise=np.random.default_rng(0))
    assert fit(X).not_private == repeated.AFTER_UNPROTECTED


@pytest.mark.slow
def test_other_units_are_not_added():
    fit(X)
    users = ostrakon.PATEClassifier(epsilon=1.0, student="logistic", classes=[0, 1], random_state=0)
    with pytest.warns(EveryFitSpends, match="with another definition of neighbouring data sets"):
        statement = users.fit(X, Y, X_public=PUBLIC, users=np.arange(600)).statement_
    assert statement.guarantee is None
    assert statement.not_private == repeated.OTHER_NEIGHBOURS


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_claims_nothing_and_is_remembered(jobs, tmp_path):
    found = search(jobs).fit(X, Y)
    assert found.best_estimator_.statement_.not_private == repeated.IN_SEARCH
    assert found.best_estimator_.statement_.as_dict()["guarantee"] is None
    with pytest.warns(EveryFitSpends, match="was run before in this process") as heard:
        assert [fit(X).not_private for _ in range(2)] == [repeated.AFTER_SEARCH] * 2
    assert len({str(one.message) for one in heard if one.category is EveryFitSpends}) == 2
    with pytest.raises(InvalidInput, match="A release must have a guarantee; nothing was written") as refused:
        found.best_estimator_.save_release(tmp_path / "release")
    assert str(refused.value).endswith(found.best_estimator_.statement_.not_private)
    assert not (tmp_path / "release").exists()


@pytest.mark.slow
def test_a_search_without_a_last_fit_is_remembered():
    # As where all its fits happened in other processes: what is known here are the copies that were made.
    search(refit=False).fit(X, Y)
    first = next(iter(spending._fits))
    for number in [number for number in spending._fits if number != first]:
        del spending._fits[number]
    assert fit(X).not_private == repeated.AFTER_SEARCH


@pytest.mark.slow
@pytest.mark.parametrize(
    "within",
    [
        lambda: cross_validate(model(), X, Y, cv=2, return_estimator=True)["estimator"][0],
        lambda: BaggingClassifier(model(), n_estimators=2).fit(X, Y).estimators_[0],
        lambda: (
            GridSearchCV(
                Pipeline([("scale", StandardScaler()), ("student", model())]), {"student__epsilon": [1.0]}, cv=2
            )
            .fit(X, Y)
            .best_estimator_[-1]
        ),
    ],
    ids=["cross-validation", "ensemble", "pipeline"],
)
def test_whatever_fits_many_times_claims_nothing(within):
    assert within().statement_.not_private == repeated.IN_SEARCH


def test_a_pipeline_fits_once():
    made = Pipeline([("scale", StandardScaler()), ("student", model())]).fit(X, Y)
    assert claims(made[-1].statement_)[0] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.slow
def test_clones_and_threads_are_of_the_same_process():
    fitted = model().fit(X, Y)
    assert claims(clone(fitted).fit(X, Y).statement_)[0] == pytest.approx(2.0, rel=1e-3)
    spending._fits.clear()
    made = Parallel(n_jobs=2, backend="threading")(delayed(fit)(X) for _ in range(2))
    assert sorted(round(claims(one)[0], 2) for one in made) == pytest.approx([1.0, 2.0], rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("again", [lambda loaded: loaded, lambda loaded: model()], ids=["itself", "another"])
def test_after_an_estimator_of_another_process_was_loaded_nothing_is_claimed(again, monkeypatch):
    stored = pickle.dumps(model().fit(X, Y))
    fitted = copy.deepcopy(pickle.loads(stored))
    assert claims(again(fitted).fit(X, Y).statement_)[0] == pytest.approx(2.0, rel=1e-3)  # in the same process
    spending._fits.clear()
    monkeypatch.setattr(spending, "_process", spending._Process())
    loaded = pickle.loads(stored)
    assert claims(loaded.statement_)[0] == pytest.approx(1.0, rel=1e-3)  # its own fit is what it was
    assert again(loaded).fit(X, Y).statement_.not_private == repeated.FROM_ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False], ids=["in a ledger", "without"])
def test_fits_of_another_process_are_added_if_all_are_in_a_ledger(before, tmp_path, monkeypatch):
    ledger = {"ledger": f"sqlite:///{tmp_path}/ledger.db", "budget": 10.0}
    stored = pickle.dumps(model(**(ledger if before else {})).fit(X, Y))
    spending._fits.clear()
    monkeypatch.setattr(spending, "_process", spending._Process())
    loaded = pickle.loads(stored).set_params(**ledger)
    for fits in (2, 3):  # the later one neither, where the first was in no ledger
        found = loaded.fit(X, Y).statement_
        if before:
            assert claims(found)[0] == pytest.approx(fits, rel=1e-3)
        else:
            assert found.not_private == repeated.FROM_ELSEWHERE


class Raises(LogisticRegression):
    """A student that fails when it has seen the answers."""

    error = ValueError("too few rows")

    def fit(self, *given, **options):
        raise self.error


@pytest.mark.slow
@pytest.mark.parametrize("error", [ValueError("too few rows"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_fit_that_failed_after_its_noise_was_drawn_is_not_forgotten(error, monkeypatch):
    monkeypatch.setattr(Raises, "error", error)
    failed = model(student=Raises())
    with pytest.raises(type(error)):
        failed.fit(X, Y)
    stored = pickle.dumps(failed)
    later = model().fit(X, Y)
    assert later.statement_.not_private == repeated.AFTER_FAILURE
    with pytest.raises(InvalidInput, match="drew its noise and then ended with an error"):
        later.save_release("nowhere")
    spending._fits.clear()  # as in another process
    assert (
        pickle.loads(stored).set_params(student="logistic").fit(X, Y).statement_.not_private == repeated.AFTER_FAILURE
    )


@pytest.mark.slow
def test_a_fit_without_answers_is_not_forgotten_and_a_refused_one_is_free():
    few = {"mechanism": "confident-gnmax", "n_teachers": 20, "n_queries": 2, "student": "logistic"}
    labels = np.random.default_rng(0).integers(2, size=len(X))
    with pytest.raises(InvalidInput, match="epsilon must be"):
        model(epsilon=-1.0).fit(X, Y)
    assert fit(X).private
    spending._fits.clear()
    with pytest.raises(InvalidInput, match="no query was answered"):
        model(**few).fit(X, labels)
    assert fit(X).not_private == repeated.AFTER_FAILURE


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_claims_nothing():
    code = (
        "import os, numpy as np, ostrakon; r = np.random.default_rng(0); X = r.normal(size=(300, 2));"
        "m = ostrakon.PATEClassifier(epsilon=1.0, student='logistic', classes=[0, 1], random_state=0);"
        "child = os.fork();"
        "print(m.fit(X, X[:, 0] > 0, X_public=r.normal(size=(60, 2))).statement_.not_private, flush=True);"
        "os.waitpid(child, 0) if child else os._exit(0)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False, timeout=120)
    assert sorted(done.stdout.split("\n")) == sorted(["", "None", repeated.IN_WORKER]), done.stderr


def test_a_worker_process_claims_nothing_without_a_ledger(monkeypatch):
    monkeypatch.setattr(spending.multiprocessing, "parent_process", lambda: object())
    assert fit(X).not_private == repeated.IN_WORKER


@pytest.mark.slow
def test_workers_of_joblib_are_known_as_such():
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier test remember its search
    for statement in Parallel(n_jobs=2)(delayed(fit)(OTHER, LABELS[0]) for _ in range(2)):
        assert statement.not_private == repeated.IN_WORKER


@pytest.mark.slow
def test_a_new_process_remembers_nothing():
    code = (
        "import numpy as np, ostrakon; r = np.random.default_rng(0); X = r.normal(size=(300, 2));"
        "m = ostrakon.PATEClassifier(epsilon=1.0, student='logistic', classes=[0, 1], random_state=0);"
        "print(m.fit(X, X[:, 0] > 0, X_public=r.normal(size=(60, 2))).statement_.private)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.stdout.strip() == "True", done.stderr
