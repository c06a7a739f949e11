"""Runs with several labels on one budget: paid as the statement says, refused beyond the limit, paid once if killed."""

import dataclasses
import os
import signal

import numpy as np
import pytest

from ostrakon.data.labels import Labels
from ostrakon.ledger.ledger import Ledger
from ostrakon.options.options import Options
from ostrakon.report.recorded import find_recorded
from ostrakon.report.release import publish
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.pipeline import run
from ostrakon.statements.statement import round_up
from ostrakon.validation import InvalidInput

SHARED = {"delta": 1e-4, "epsilon": 1.0, "jobs": 1, "student": "logistic"}
RECIPES = {
    "votes": Options(**SHARED),
    "teachers": Options(**SHARED, teachers=40, mechanism="gnmax", queries=4, teacher="naive-bayes"),
}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'budget.db'}"


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1900, 2))
    Y = (X @ [[1, 0, 1], [0, 1, -1]] + rng.normal(size=(1900, 3)) / 3 > 0).astype(np.int64)
    return Task(
        private=Rows(X=X[:1800], y=Y[:1800]),
        X_public=X[1800:],
        fingerprints={"private": "p", "public": "q"},
        classes=("a", "b", "c"),
        coding=Labels(names=("a", "b", "c")),
    )


def asked(name, url, **more):
    return dataclasses.replace(RECIPES[name], ledger=url, **{"budget": 1.2, **more})


def spends(url):
    return [spend for account in Ledger(url).accounts().values() for spend in account.spends]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_it_pays_what_its_statement_says_and_is_refused_beyond_the_limit(labelled, tmp_path, url, name):
    first = run(tmp_path / "one", labelled, asked(name, url))
    (spend,) = spends(url)
    assert spend.settled
    assert round_up(spend.epsilon) == first.statement.as_dict()["guarantee"]["epsilon"]
    assert 0.9 < spend.epsilon <= 1
    found = find_recorded(publish(first), Ledger(url))
    assert found.spend == spend
    for folder in ("two", "three"):
        with pytest.raises(InvalidInput, match=r"would pass the cap of account 'data-1'.* remains"):
            run(tmp_path / folder, labelled, asked(name, url))
        assert spends(url) == [spend]
        assert not (tmp_path / folder / "private" / "noise").exists()
    run(
        tmp_path / "less",
        labelled,
        asked(name, url, epsilon=0.2, budget=None, **({"queries": 1} if name == "teachers" else {})),
    )
    assert len(spends(url)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("moment", ["reserve", "settle"])
def test_killed_around_the_draw_it_pays_once(labelled, tmp_path, url, monkeypatch, name, moment):
    child = os.fork()
    if child == 0:
        killed = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        monkeypatch.setattr(f"ostrakon.run.budget.Budget.{moment}", killed)
        run(tmp_path / "run", labelled, asked(name, url))
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    noise = {path: path.read_bytes() for path in (tmp_path / "run/private/noise").glob("*.np?")}
    assert bool(noise) is (moment == "settle")
    assert len(spends(url)) == (moment == "settle")
    run(tmp_path / "run", labelled, asked(name, url))
    assert [spend.settled for spend in spends(url)] == [True]
    assert all(path.read_bytes() == before for path, before in noise.items())
