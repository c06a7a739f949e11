"""Runs on one budget: refused before anything is trained, reserved before noise is drawn, charged once."""

import dataclasses
import os
import re
import shutil
import signal
import tomllib

import numpy as np
import pandas as pd
import pytest

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.gate import Gate
from ostrakon.data.identity import fingerprint_of_identities
from ostrakon.data.object_store import object_path
from ostrakon.estimator import PATEClassifier
from ostrakon.ledger.chain import Tampered
from ostrakon.ledger.cost import gaussian_of_pure
from ostrakon.ledger.filter import Filter
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms.gnmax import GNMax
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan
from ostrakon.run import steps
from ostrakon.run.budget import cheapest, cost_within, costs_of_plan
from ostrakon.run.inputs.files import fingerprint_of_file, task_from_files
from ostrakon.run.pipeline import run
from ostrakon.validation import InvalidInput

RECIPE = Options(
    teachers=60,
    mechanism="gnmax",
    queries=20,
    epsilon=1.0,
    delta=1e-4,
    teacher="naive-bayes",
    student="logistic",
    jobs=1,
)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'budget.db'}"


def asked(url, **more):
    return dataclasses.replace(RECIPE, ledger=url, **{"budget": 1.5, **more})


def only(url):
    (account,) = Ledger(url).accounts().values()
    return account


@pytest.mark.slow
def test_two_runs_add_up_and_a_third_is_refused_before_it_trains(task, tmp_path, url, monkeypatch):
    run(tmp_path / "one", task, asked(url))
    account = only(url)
    assert (account.name, account.unit, account.relation) == ("data-1", "record", "add-remove")
    assert (account.cap.epsilon, account.cap.delta, account.cap.kind) == (1.5, 1e-4, "renyi")
    # Rényi lanes do not know of adaptive composition, by which the run costs 1.
    assert 1 < account.spent < 1.2
    run(tmp_path / "two", task, asked(url, epsilon=0.5, budget=None))
    spends = only(url).spends
    assert [each.settled for each in spends] == [True, True]
    assert [round(each.epsilon, 1) for each in spends] == [1.0, 0.5]
    monkeypatch.setattr(steps, "view_of", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(InvalidInput, match=r"would pass the cap of account 'data-1'.* epsilon 0\.\d+ remains"):
        run(tmp_path / "three", task, asked(url))
    assert only(url).spends == spends
    assert not (tmp_path / "three" / "run.toml").exists()


@pytest.mark.slow
def test_a_finished_or_stopped_run_is_charged_once(task, tmp_path, url, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(steps, "answer_queries", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", task, asked(url))
    (spend,) = only(url).spends
    assert not spend.settled
    first = run(tmp_path / "run", task, asked(url))
    again = run(tmp_path / "run", task, asked(url))
    np.testing.assert_array_equal(first.answers.labels, again.answers.labels)
    (settled,) = only(url).spends
    assert settled == dataclasses.replace(spend, settled=True, drawn=settled.drawn)
    receipt = tomllib.loads((tmp_path / "run" / "run.toml").read_text())["ledger"]
    assert (receipt["run"], receipt["sequence"]) == (spend.run, spend.sequence)


@pytest.mark.parametrize("moment", ["reserve", "answer_queries", "settle"])
def test_killed_around_the_draw_nothing_is_drawn_unpaid_or_paid_twice(task, tmp_path, url, monkeypatch, moment):
    def killed(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        where = (
            "ostrakon.run.steps.answer_queries"
            if moment == "answer_queries"
            else f"ostrakon.run.budget.Budget.{moment}"
        )
        monkeypatch.setattr(where, killed)
        run(tmp_path / "run", task, asked(url))
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    drawn = (tmp_path / "run" / "private" / "noise" / "round-1.npy").exists()
    assert drawn == (moment == "settle")
    assert len(only(url).spends) == (moment != "reserve")
    run(tmp_path / "run", task, asked(url))
    assert [each.settled for each in only(url).spends] == [True]


@pytest.mark.slow
def test_another_machine_goes_on_from_the_store_and_pays_nothing_again(task, tmp_path, url, monkeypatch, bucket):
    pytest.importorskip("s3fs")
    store = object_path("s3://hospital/run")
    for moment in ("reserve", "settle"):
        with monkeypatch.context() as patched:
            stopped = lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)  # noqa: E731
            patched.setattr(f"ostrakon.run.budget.Budget.{moment}", stopped)
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path / moment, task, asked(url), store=store)
        assert len(only(url).spends) == (moment == "settle")
    drawn = bucket.get_object(Bucket="hospital", Key="run/noise/round-1.npy")["Body"].read()
    monkeypatch.setattr("ostrakon.run.stages.votes.teachers_of", lambda *_, **__: pytest.fail("trained again"))
    first = run(tmp_path / "elsewhere", task, asked(url), store=store)
    again = run(tmp_path / "settle", task, asked(url), store=store)
    np.testing.assert_array_equal(first.answers.labels, again.answers.labels)
    assert bucket.get_object(Bucket="hospital", Key="run/noise/round-1.npy")["Body"].read() == drawn
    assert [each.settled for each in only(url).spends] == [True]


@pytest.mark.slow
def test_a_folder_copied_before_it_drew_pays_for_itself(task, tmp_path, url, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("ostrakon.run.budget.Budget.reserve", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", task, asked(url, epsilon=0.5))
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    for folder in ("run", "copy"):
        run(tmp_path / folder, task, asked(url, epsilon=0.5))
    assert len({each.run for each in only(url).spends}) == 2


def test_a_ledger_that_is_older_than_its_run_is_refused(task, tmp_path, url):
    Ledger(url).open("data", epsilon=1.5, delta=1e-4, kind="renyi", relation="add-remove")
    beside = [tmp_path / "budget.db", tmp_path / "budget.db.head"]
    held = {path: path.read_bytes() for path in beside}
    how = {"budget": None, "ledger_account": "data"}
    run(tmp_path / "run", task, asked(url, **how))
    for path, content in held.items():
        path.write_bytes(content)
    with pytest.raises(Tampered, match="restored from an older copy"):
        run(tmp_path / "run", task, asked(url, **how))


@pytest.mark.parametrize("moment", ["Ledger.reserve", "steps.answer_queries"])
def test_of_copies_that_share_a_reservation_one_alone_goes_on(task, tmp_path, url, monkeypatch, moment):
    """Stopped with its id on the disk, or with its reservation: whoever draws first owns it."""

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if moment == "Ledger.reserve":
            patched.setattr(Ledger, "reserve", stopped)
        else:
            patched.setattr(steps, "answer_queries", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", task, asked(url))
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    run(tmp_path / "run", task, asked(url))
    for _ in range(2):
        with pytest.raises(InvalidInput, match="has drawn its noise already, in another copy of its folder"):
            run(tmp_path / "copy", task, asked(url))
    assert not (tmp_path / "copy" / "release").exists()
    assert [each.settled for each in only(url).spends] == [True]
    run(tmp_path / "run", task, asked(url))


@pytest.mark.slow
def test_of_copies_that_share_their_counts_one_alone_draws_sums(task, tmp_path, url, monkeypatch):
    """Stopped between its two draws: both copies have the same counts, and would have sums of features of their own."""
    recipe = Options(mechanism="moment-gnmax", epsilon=1.0, delta=1e-4, queries=20, student="moments", jobs=1)
    recipe = dataclasses.replace(recipe, ledger=url, budget=1.5)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("ostrakon.mechanisms.moment_gnmax.MomentGNMax.noisy_moments", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", task, recipe)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    first = run(tmp_path / "run", task, recipe)
    with pytest.raises(InvalidInput, match="has drawn its noise already, in another copy of its folder"):
        run(tmp_path / "copy", task, recipe)
    again = run(tmp_path / "run", task, recipe)
    np.testing.assert_array_equal(again.answers.moments, first.answers.moments)
    assert [each.settled for each in only(url).spends] == [True]


@pytest.mark.slow
def test_nearly_the_same_data_get_no_full_budget_by_themselves(task, tmp_path, url):
    run(tmp_path / "one", task, asked(url))
    less = dataclasses.replace(task.private, X=task.private.X[1:], y=task.private.y[1:])
    with pytest.raises(InvalidInput, match="account must be given: these data, with these neighbours, are new to"):
        run(tmp_path / "two", dataclasses.replace(task, private=less), asked(url))
    assert len(Ledger(url).accounts()) == 1
    # Guarantees for other neighbours cannot be added: the same data may have an account of each kind, by name.
    other = dataclasses.replace(RECIPE, ledger=url, budget=1.5, ledger_account="per record", mechanism="bounded-gnmax")
    run(tmp_path / "three", task, dataclasses.replace(other, teachers=None, teacher="auto", queries=None))
    assert {each.relation for each in Ledger(url).accounts().values()} == {"add-remove", "replace"}


def test_a_run_that_fits_into_no_account_opens_none_and_learns_the_least_budget(task, tmp_path, url, monkeypatch):
    no_room = r"budget must be at least (\d\.\d+) for this run of epsilon [\d.]+, got 0\.01: no account was opened"
    with pytest.raises(InvalidInput, match=no_room) as refused:
        run(tmp_path / "one", task, asked(url, budget=0.01))
    assert not Ledger(url).accounts()
    monkeypatch.setattr(steps, "view_of", lambda *_, **__: pytest.fail("trained"))
    needed = float(re.search(no_room, str(refused.value)).group(1))
    for budget, ends in ((needed - 0.002, InvalidInput), (needed, pytest.fail.Exception)):
        with pytest.raises(ends):
            run(tmp_path / "one", task, asked(url, budget=budget))


@pytest.mark.slow
def test_the_account_is_found_by_its_data(task, tmp_path, url):
    run(tmp_path / "one", task, asked(url, epsilon=0.5, ledger_account="blobs"))
    with pytest.raises(InvalidInput, match=r"budget must be 1\.5, with which account 'blobs'"):
        run(tmp_path / "two", task, asked(url, budget=9.0))
    with pytest.raises(InvalidInput, match="account must be 'blobs', to which these data are bound"):
        run(tmp_path / "three", task, asked(url, ledger_account="fresh"))
    other = dataclasses.replace(task, private=dataclasses.replace(task.private, X=task.private.X + 1.0))
    with pytest.raises(InvalidInput, match="account 'blobs' is bound to other data"):
        run(tmp_path / "four", other, asked(url, ledger_account="blobs"))
    with pytest.raises(InvalidInput, match=r"budget must .* no account .* bind them .* `ostrakon ledger open .* NAME"):
        run(tmp_path / "five", other, asked(url, budget=None))
    # The order of the rows is no other data.
    turned = dataclasses.replace(task.private, X=task.private.X[::-1].copy(), y=task.private.y[::-1].copy())
    run(tmp_path / "six", dataclasses.replace(task, private=turned), asked(url, epsilon=0.5, budget=None))
    assert len(only(url).spends) == 2


def test_files_and_their_runs_have_one_fingerprint(tmp_path):
    rng, keys = np.random.default_rng(0), (bytes(32), b"k" * 32)
    frame = pd.DataFrame({"who": rng.integers(0, 40, 200), "age": rng.integers(18, 90, 200)})
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    private, public = tmp_path / "private.csv", tmp_path / "public.csv"
    frame.to_csv(private, index=False)
    pd.DataFrame({"who": range(40), "age": np.arange(18, 58) + 0.5}).to_csv(public, index=False)
    found = {}
    for by in (None, "who"):
        task = task_from_files(private, public, target="ill", by=by, classes=["no", "yes"])
        for key in keys:
            found[by, key] = fingerprint_of_file(private, by=by, key=key)
            assert task.private.fingerprint(key) == found[by, key]
    assert len(set(found.values())) == 4
    # Users count once, records each time; their order has no say.
    pd.concat([frame[::-1], frame[:1]]).to_csv(private, index=False)
    assert fingerprint_of_file(private, by="who", key=keys[0]) == found["who", keys[0]]
    assert fingerprint_of_file(private, by=None, key=keys[0]) != found[None, keys[0]]
    users = [*frame["who"].to_list(), 3]
    assert fingerprint_of_identities(range(len(users)), users, key=keys[0]) == found["who", keys[0]]


def test_options_of_a_budget_need_a_ledger(task, tmp_path):
    for option in ({"budget": 1.0}, {"ledger_account": "data"}):
        with pytest.raises(InvalidInput, match=r"needs a ledger: give ledger, too\."):
            run(tmp_path / next(iter(option)), task, dataclasses.replace(RECIPE, **option))


EVERY = {
    "bounded-gnmax": ({"teachers": None, "teacher": "auto", "epsilon": 4.0}, "gaussian"),
    "confident-gnmax": ({"parameters": {"threshold": 6.0}}, "renyi"),
    "interactive-gnmax": ({"parameters": {"threshold": 6.0}}, "renyi"),
    "lnmax": ({}, "renyi"),
    "exponential": ({}, "renyi"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", EVERY)
def test_every_kind_of_teacher_and_mechanism_is_charged(task, tmp_path, url, mechanism):
    more, kind = EVERY[mechanism]
    done = run(tmp_path / "run", task, asked(url, mechanism=mechanism, budget=100.0, **{"epsilon": 50.0, **more}))
    account = only(url)
    (spend,) = account.spends
    assert account.cap.kind in (kind, "gaussian", "pure")
    assert spend.epsilon == done.statement.guarantee.epsilon
    assert account.relation == done.statement.adjacent[0].relation
    assert spend.epsilon * 0.99 <= account.spent < np.inf


@pytest.mark.slow
def test_fits_of_the_estimator_add_up(task, url):
    rows = {"X": task.private.X, "y": task.private.y, "X_public": task.X_public}
    model = PATEClassifier(
        classes="from-private",
        n_teachers=60,
        n_queries=20,
        delta=1e-4,
        mechanism=GNMax(sigma2=18.0),
        ledger=url,
        budget=4.0,
    )
    for _ in range(2):
        model.fit(**rows)
    assert [each.settled for each in only(url).spends] == [True, True]
    assert only(url).spent > model.statement_.guarantee.epsilon
    more = model.set_params(mechanism=GNMax(sigma2=5.0))
    with pytest.raises(InvalidInput, match="would pass the cap"):
        more.fit(**rows)
    assert len(only(url).spends) == 2


CHARGED = Plan(
    teachers=50, classes=2, mechanism=GNMax(sigma2=40.0), interactive=False, queries=20, max_answers=None, delta=1e-5,
    bound=worst_case(GNMax(sigma2=40.0), queries=20, delta=1e-5, teachers=50, classes=2, adaptive=True), tuned={},
)  # fmt: skip


def test_an_account_is_charged_the_form_that_takes_least_of_it():
    lanes, pair = costs_of_plan(CHARGED)
    # What the run is charged as a pair is its own guarantee; 2% less would not be.
    assert (pair.pure, pair.failure) == (CHARGED.bound.epsilon, CHARGED.delta)
    assert pair.mu is None or pair.mu >= gaussian_of_pure(pair.pure)
    assert lanes.failure == 0
    epsilon = CHARGED.bound.epsilon
    pure = Filter.create(epsilon=epsilon, delta=1e-5, kind="pure")
    assert cost_within(pure, CHARGED) == pair
    assert pure.fraction_used([pair]) == 1
    assert not Filter.create(epsilon=0.98 * epsilon, delta=1e-5, kind="pure").admits([pair])
    gaussian = Filter.create(epsilon=4 * epsilon, delta=1e-5, kind="gaussian")
    assert gaussian.failure == 0
    assert cost_within(gaussian, CHARGED) == lanes
    for cap in (pure, gaussian):
        charged = cap.fraction_used([cost_within(cap, CHARGED)])
        assert charged == min(cap.fraction_used([one]) for one in (lanes, pair)) <= 1


def test_a_run_that_does_not_fit_in_any_form_is_charged_by_its_mechanism():
    lanes, pair = costs_of_plan(CHARGED)
    small = Filter.create(epsilon=0.01, delta=1e-5, kind="mixed")
    assert not small.admits([lanes])
    assert not small.admits([pair])
    assert cheapest(small, (lanes, pair)) == lanes
    assert cheapest(small, (pair, lanes)) == pair


def test_a_gated_run_is_charged_its_certificate_alone():
    shape = {"queries": 20, "teachers": 50, "classes": 2, "delta": 1e-5}
    gate = Gate(mechanism=CHARGED.mechanism, levels=[(0.9 * 0.75**t, 8.0, 0.01) for t in range(50)], **shape)
    (cost,) = costs_of_plan(dataclasses.replace(CHARGED, gate=gate))
    assert (cost.pure, cost.failure) == (gate.certificate().epsilon, 1e-5)
