"""Answers to votes at hand: paid once, drawn once, kept."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from commands import ostrakon
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.stages import Stage, worst_case_of_stages
from ostrakon.ledger.chain import Tampered
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms import GNMax, LNMax, MomentGNMax
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.run.noise_log import NoiseLog
from ostrakon.run.one_draw import draw_once
from ostrakon.validation import InvalidInput
from ostrakon.votes import BoundedVotes, Votes

VOTES = Votes(np.random.default_rng(0).multinomial(60, [0.6, 0.3, 0.1], size=30))
LAW = ConfidentGNMax(threshold=40, sigma1=90, sigma2=45)


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    Ledger(url).open("me", epsilon=1.5, delta=1e-5, relation="add-remove")
    return url


def drawn(url, folder, law=LAW, votes=VOTES, **changes):
    return draw_once(votes, law, folder, **{"ledger": url, "account": "me", "delta": 1e-5, **changes})


def test_paid_once_drawn_once_and_kept(url, tmp_path):
    first = drawn(url, tmp_path / "out")
    mu = np.sqrt(30 / 90**2 + 30 * 2 / 45**2)
    (spent,) = first.account.spends
    assert spent.cost.mu == pytest.approx(mu, rel=1e-12)
    assert 0 < first.cost.epsilon <= gaussian_dp_epsilon(mu, 1e-5)
    assert spent.settled
    again = drawn(url, tmp_path / "out")
    assert again.labels.tolist() == first.labels.tolist()
    assert len(again.account.spends) == 1
    table = pd.read_csv(first.file)
    assert table["label"].tolist() == first.labels.tolist()
    assert {-1, 0} <= set(first.labels) <= {-1, 0, 1, 2}
    assert drawn(url, tmp_path / "other").labels.tolist() != first.labels.tolist()


def test_an_older_copy_of_the_ledger_is_refused(url, tmp_path):
    files = (tmp_path / "budget.db", tmp_path / "budget.db.head")
    held = {each: each.read_bytes() for each in files}
    drawn(url, tmp_path / "out")
    for each, content in held.items():
        each.write_bytes(content)
    with pytest.raises(Tampered, match="older copy"):
        drawn(url, tmp_path / "out")
    assert not Ledger(url).account("me").spends


def test_what_does_not_fit_draws_nothing(url, tmp_path):
    loud = ConfidentGNMax(threshold=40, sigma1=9, sigma2=4)
    with pytest.raises(Refused, match="would pass the cap"):
        drawn(url, tmp_path / "out", loud)
    assert not list((tmp_path / "out").rglob("*.csv"))
    assert not list((tmp_path / "out" / "private").rglob("*.npy"))


def test_stopped_between_it_goes_on_and_pays_once(url, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    for place in ((NoiseLog, "draw"), (Ledger, "settle")):
        with monkeypatch.context() as patched:
            patched.setattr(*place, stop)
            with pytest.raises(KeyboardInterrupt):
                drawn(url, tmp_path / "out")
    assert [each.settled for each in Ledger(url).account("me").spends] == [False]
    assert [each.settled for each in drawn(url, tmp_path / "out").account.spends] == [True]


def test_a_copy_that_draws_something_else_is_refused(url, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(NoiseLog, "draw", stop)
        with pytest.raises(KeyboardInterrupt):
            drawn(url, tmp_path / "out")
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    drawn(url, tmp_path / "out")
    with pytest.raises(InvalidInput, match="has drawn its noise already, in another copy"):
        drawn(url, tmp_path / "copy")
    assert not list((tmp_path / "copy").rglob("labels.csv"))


@pytest.mark.slow
def test_several_mechanisms_are_paid_together_and_drawn_once(url, tmp_path, monkeypatch):
    asked = [Stage(mechanism=LAW, queries=20, max_answers=8), Stage(mechanism=LNMax(gamma=0.01), queries=10)]
    calls = []
    draw = NoiseLog.draw

    def stop_at_second(self, name, *arguments, **options):
        calls.append(name)
        if name == "answers-2":
            raise KeyboardInterrupt
        return draw(self, name, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(NoiseLog, "draw", stop_at_second)
        with pytest.raises(KeyboardInterrupt):
            drawn(url, tmp_path / "out", asked)
    assert calls == ["answers-1", "answers-2"]
    first = drawn(url, tmp_path / "out", asked)
    assert drawn(url, tmp_path / "out", asked).labels.tolist() == first.labels.tolist()
    (spent,) = first.account.spends
    together = worst_case_of_stages(asked, delta=1e-5, teachers=60, classes=3)
    assert first.cost == together
    assert spent.cost.pure in (None, together.epsilon)
    assert "confident-gnmax" in spent.what
    assert "lnmax" in spent.what
    assert (first.labels[:20] >= 0).sum() <= 8
    assert (first.labels[20:] >= 0).all()
    with pytest.raises(InvalidInput, match="gamma 2 was"):
        drawn(url, tmp_path / "out", [asked[0], Stage(mechanism=LNMax(gamma=0.02), queries=10)])
    with pytest.raises(InvalidInput, match="stages must ask all 30 queries"):
        drawn(url, tmp_path / "more", asked[:1])


def test_an_account_is_for_its_own_neighbours(url, tmp_path):
    counted = BoundedVotes(np.full((3, 2), 5), teachers=30, max_contributions=1)
    with pytest.raises(InvalidInput, match="must be for replace of one record"):
        drawn(url, tmp_path / "out", BoundedGNMax(sigma2=50.0), counted)
    Ledger(url).open("counted", epsilon=1.0, delta=1e-5, relation="replace")
    told = drawn(url, tmp_path / "out", BoundedGNMax(sigma2=50.0), counted, account="counted")
    assert told.account.spends[0].cost.mu == pytest.approx(np.sqrt(2) / 50, rel=1e-12)
    with pytest.raises(InvalidInput, match="must be for add-remove"):
        drawn(url, tmp_path / "more", GNMax(sigma2=50.0), account="counted")
    # Sums of features would be paid for and not drawn.
    with pytest.raises(InvalidInput, match="moment-gnmax would be paid for sums"):
        drawn(url, tmp_path / "sums", MomentGNMax(sigma2=50.0), counted, account="counted")
    assert len(Ledger(url).account("counted").spends) == 1


def test_other_votes_and_other_ledgers_are_refused(url, tmp_path):
    drawn(url, tmp_path / "out")
    with pytest.raises(InvalidInput, match="holds a run on other data"):
        drawn(url, tmp_path / "out", votes=Votes(np.tile([36, 14, 10], (30, 1))))
    with pytest.raises(InvalidInput, match="sigma2 was 45"):
        drawn(url, tmp_path / "out", GNMax(sigma2=40.0))
    other = f"sqlite:///{tmp_path / 'other.db'}"
    Ledger(other).open("me", epsilon=1.5, delta=1e-5, relation="add-remove")
    with pytest.raises(InvalidInput, match=r"in which .* has reserved"):
        drawn(other, tmp_path / "out")
    with pytest.raises(InvalidInput, match="must be one of this ledger"):
        drawn(url, tmp_path / "more", account="you")
    assert len(Ledger(other).account("me").spends) == 0


@pytest.mark.slow
def test_on_the_command_line(url, tmp_path):
    np.save(tmp_path / "votes.npy", VOTES.counts)
    law = ["--mechanism", "confident-gnmax(threshold=40, sigma1=90, sigma2=45)"]
    told = ostrakon(
        "draw", "votes.npy", *law, "--ledger", url, "--ledger-account", "me", "--sigma1", 3, folder=tmp_path
    )
    assert told.returncode == 2
    assert "sigma1 must be given once" in told.stderr
    pay = ["--ledger", url, "--ledger-account", "me", "--out", "out"]
    told = ostrakon("draw", "votes.npy", *law, *pay, "--json", folder=tmp_path)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["account"]["runs"][0]["settled"] is True
    assert (tmp_path / found["labels"]).read_text().startswith("query,label\n")
    told = ostrakon("draw", "votes.npy", *law, *pay, folder=tmp_path)
    assert "paid" in told.stdout
    assert len(Ledger(url).account("me").spends) == 1
