"""The labeller: paid before drawn, kept before it leaves, the same for ever, and within the cap."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.data.files import CannotWrite
from ostrakon.ledger.chain import Tampered
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.run.budget import Budget
from ostrakon.service import BudgetSpent, ClientLimitReached, open_service
from ostrakon.service import answers as store
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes


def spends(place):
    (account,) = Ledger(place.ledger).accounts().values()
    return account.spends


def answers(place):
    with sqlite3.connect(place.run / "private" / "service" / "answers.db") as held:
        return held.execute("SELECT row, label, client, block FROM answers").fetchall()


class Agreed:
    """Teachers whose counts are the same for every row; how often they were asked."""

    def __init__(self, counts):
        self.said, self.asked = np.repeat(np.arange(len(counts)), counts), 0

    def predict(self, X):
        self.asked += len(X)
        return np.tile(self.said, (len(X), 1))


@pytest.mark.slow
def test_a_row_has_one_answer_for_ever(place, ask, rows):
    some = rows(40)
    held = place.open()
    first = ask(held, some)
    assert set(first) == {-1, 0, 1}
    held._teachers = teachers = Agreed([0, 20])
    assert ask(held, some[::-1], client="b") == first[::-1]
    assert ask(held, [{**some[3], "age": str(some[3]["age"]), "more": 1}]) == first[3:4]
    assert teachers.asked == 0
    paid = len(spends(place))
    place.close()
    assert ask(place.open(), some) == first
    assert len(spends(place)) == paid
    assert len(answers(place)) == 40


@pytest.mark.slow
def test_answers_follow_the_law_of_their_votes(place, ask, rows):
    # 4,000 rows; a noise of sigma2 20% off, or no threshold, changes shares by more than 2%.
    counts = [9, 11]
    held = place.open(budget=1000.0, block=2000)
    held._teachers = Agreed(counts)
    given = np.array(ask(held, rows(4000)))
    seen = [int((given == label).sum()) for label in (0, 1, -1)]
    mechanism = held.plan.mechanism
    assert isinstance(mechanism, ConfidentGNMax)

    def p(sigma2, threshold):
        law = ConfidentGNMax(threshold=threshold, sigma1=mechanism.sigma1, sigma2=sigma2)
        expected = np.exp(law.log_probabilities(Votes([counts]))[0]) * 4000
        return chisquare(seen, expected).pvalue

    assert p(mechanism.sigma2, mechanism.threshold) > 0.01
    assert p(0.5 * mechanism.sigma2, mechanism.threshold) < 1e-4
    assert p(mechanism.sigma2, 0.93 * mechanism.threshold) < 1e-4


def test_every_answer_is_paid_before_it_is_drawn(place, ask, rows, monkeypatch):
    held = place.open()
    order = []
    reserve, sample, keep = Ledger.reserve, ConfidentGNMax.sample, type(held._store).add
    monkeypatch.setattr(Ledger, "reserve", lambda *a, **k: (order.append("reserve"), reserve(*a, **k))[1])
    monkeypatch.setattr(ConfidentGNMax, "sample", lambda *a: (order.append("sample"), sample(*a))[1])
    monkeypatch.setattr(type(held._store), "add", lambda *a: (order.append("keep"), keep(*a))[1])
    ask(held, rows(60))
    assert order[:3] == ["reserve", "sample", "keep"]
    assert order.count("sample") == order.count("keep") > order.count("reserve") > 3
    by_block = {}
    for _, label, _, block in answers(place):
        by_block.setdefault(block, []).append(label)
    # The run itself stands first.
    assert {each.run for each in spends(place)[1:]} == set(by_block)
    assert all(len(labels) <= 10 and sum(label >= 0 for label in labels) <= 5 for labels in by_block.values())
    assert sum(map(len, by_block.values())) == 60


def test_a_block_costs_its_worst_case(place, ask, rows):
    held = place.open()
    ask(held, rows(1))
    run, block = spends(place)
    # Ten checks and five answers, by hand.
    mechanism = held.plan.mechanism
    mu = np.sqrt(10 / mechanism.sigma1**2 + 5 * 2 / mechanism.sigma2**2)
    assert block.cost.mu == pytest.approx(mu, rel=1e-12)
    assert block.cost.mu >= mu
    assert 0 < block.epsilon <= gaussian_dp_epsilon(mu, 1e-5)
    assert run.cost.mu == pytest.approx(np.sqrt(30 / mechanism.sigma1**2 + 60 / mechanism.sigma2**2), rel=1e-12)


@pytest.mark.slow
def test_the_account_ends_and_known_rows_go_on(place, ask, rows):
    held = place.open(budget=20.0)
    room = held.blocks_left()
    assert 0 < room < 60
    held._teachers = Agreed([0, 20])
    told = ask(held, rows(10 * room + 10))
    assert isinstance(told, BudgetSpent)
    assert str(told).startswith("The budget of these data is spent")
    assert len(spends(place)) == 1 + room
    assert held.blocks_left() == 0
    assert 5 * room <= len(answers(place)) <= 10 * room
    assert None not in ask(held, rows(5))
    assert isinstance(ask(held, [{"age": 3.25, "town": "Ulm"}]), BudgetSpent)
    with pytest.raises(Refused, match="would pass the cap"):
        Ledger(place.ledger).reserve("data-1", "x", spends(place)[1].cost, unit="record", relation="add-remove")


@pytest.mark.slow
def test_a_budget_without_room_for_a_block_opens_no_account(place):
    with pytest.raises(Refused, match=r"at least [0-9.]+ for this run of epsilon [0-9.]+ and what comes after it"):
        place.open(budget=6.5)
    assert Ledger(place.ledger).accounts() == {}
    assert place.open(budget=20.0).blocks_left() > 0


@pytest.mark.slow
def test_a_client_has_a_cap_of_its_own(place, ask, rows):
    held = place.open()
    assert len(ask(held, rows(6), most=6)) == 6
    told = ask(held, rows(7), most=6)
    assert isinstance(told, ClientLimitReached)
    assert str(told) == "The client may ask about 0 more new rows, got 1."
    assert len(answers(place)) == 6
    # Known rows are free, and others' caps are their own.
    assert len(ask(held, rows(6), most=6)) == 6
    assert len(ask(held, rows(7), client="b", most=1)) == 7
    # Two requests of one client that come together share its cap.
    requests = [held.read("c", 3, rows(2, start=20)), held.read("c", 3, rows(2, start=30))]
    first, second = held.answer(requests)
    assert isinstance(first, tuple)
    assert isinstance(second, ClientLimitReached)
    place.close()
    assert isinstance(ask(place.open(), rows(2, start=40), client="c", most=3), ClientLimitReached)


@pytest.mark.slow
def test_what_a_process_left_of_its_block_is_forfeited(place, ask, rows):
    ask(place.open(), rows(1))
    place.close()
    ask(place.open(), rows(1, start=1))
    assert len(spends(place)) == 3
    assert spends(place)[1].settled
    assert len({block for *_, block in answers(place)}) == 2


def test_a_copy_of_the_folder_pays_for_itself(place, ask, rows, tmp_path):
    ask(place.open(), rows(1))
    shutil.copytree(place.run, tmp_path / "copy")
    with open_service(tmp_path / "copy", ledger=place.ledger, block=5) as copy:
        ask(copy, rows(1, start=1))
    assert len(spends(place)) == 3


def test_answers_that_cannot_be_kept_do_not_leave(place, ask, rows, monkeypatch):
    held = place.open()
    some = rows(3)

    def full(self, given):
        list(given)
        raise InvalidInput("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(type(held._store), "add", full)
        with pytest.raises(InvalidInput, match="full"):
            ask(held, some)
    assert answers(place) == []
    # What was drawn counts against the block once; the same answers are stored at the next attempt.
    drawn = [each.label for each in held._unstored]
    assert held._block.checks == 7
    assert ask(held, some) == drawn
    assert held._block.checks == 7


def test_on_a_full_disk_nothing_is_paid_or_drawn(place, ask, rows, monkeypatch):
    labeller = place.open()
    before = len(Ledger(place.ledger).account("data-1").spends)

    def full(path, *_, **__):
        raise CannotWrite(f"{path} could not be written: the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_atomically", full)
        for _ in range(3):
            with pytest.raises(CannotWrite, match="reserve could not be written"):
                ask(labeller, rows(40))
    assert labeller._block is None
    assert labeller._unstored == []
    assert len(Ledger(place.ledger).account("data-1").spends) == before
    assert len(ask(labeller, rows(3))) == 3


def test_a_cap_counts_answers_that_could_not_be_stored(place, ask, rows, monkeypatch):
    held = place.open()

    def full(self, given):
        raise InvalidInput("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(type(held._store), "add", full)
        with pytest.raises(InvalidInput, match="full"):
            ask(held, rows(3), most=3)
    assert isinstance(ask(held, rows(3, start=3), most=3), ClientLimitReached)
    assert held.rows_asked("a") == 3


def test_a_reservation_that_failed_half_way_takes_one_block(place, ask, rows, monkeypatch):
    held = place.open()
    before = len(Ledger(place.ledger).account("data-1").spends)
    reserve = Ledger.reserve

    def half(self, *given, **options):
        reserve(self, *given, **options)
        raise InvalidInput("the head could not be written")

    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "reserve", half)
            with pytest.raises(InvalidInput, match="head"):
                ask(held, rows(3))
    assert len(ask(held, rows(3))) == 3
    assert len(Ledger(place.ledger).account("data-1").spends) == before + 1


def test_a_row_is_the_same_whatever_else_is_asked_with_it(place, rows):
    held = place.open()
    some = rows(300)
    (together,) = held._features([held.read("a", 1000, some)])[1]
    alone = [held._features([held.read("a", 1000, [row])])[1][0][0] for row in some[::7]]
    assert list(together[::7]) == alone


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"age": 3.0}, "missing: town"),
        ({}, "missing: age, town"),
    ],
)
def test_what_is_no_row_is_refused(place, ask, row, told):
    with pytest.raises(InvalidInput, match=told):
        ask(place.open(), [row])


def test_another_folder_is_refused(place, tmp_path):
    with (
        pytest.raises(InvalidInput, match="must be of a run with trained teachers"),
        open_service(tmp_path / "nothing", ledger=place.ledger),
    ):
        pass
    assert not (tmp_path / "nothing").exists()
    place.open()
    with pytest.raises(InvalidInput, match="in use by another"):
        place.open()


def test_another_ledger_is_refused(place, ask, rows, tmp_path):
    ask(place.open(), rows(1))
    place.close()
    with pytest.raises(InvalidInput, match=r"ledger must be .*budget.db, in which this run has reserved"):
        place.open(ledger=f"sqlite:///{tmp_path / 'other.db'}")
    assert not (tmp_path / "other.db").exists()


def test_changed_data_are_refused(place):
    place.open()
    place.close()
    private = place.run / "run.toml"
    asked = private.read_text()
    assert "private.csv" in asked
    private.write_text(asked.replace("sigma2 = 4.0", "sigma2 = 40.0"))
    with pytest.raises(InvalidInput, match="was changed after it was written"):
        place.open()


@pytest.mark.parametrize("block", [0, -1, True, 2.5, 10**9])
def test_a_block_is_a_number_of_answers(place, block):
    with pytest.raises(InvalidInput, match="block must be"):
        place.open(block=block)


class Backup:
    """What the ledger's files were; `restore` puts them back."""

    def __init__(self, place):
        self.file = Path(place.ledger.removeprefix("sqlite:///"))
        self.held = {each: each.read_bytes() for each in self._files()}

    def _files(self):
        return [each for each in self.file.parent.glob(f"{self.file.name}*") if each.suffix != ".lock"]

    def restore(self):
        for each in self._files():
            each.unlink()
        for each, content in self.held.items():
            each.write_bytes(content)


def test_an_older_copy_of_the_ledger_ends_new_answers(place, ask, rows):
    held = place.open()
    ask(held, rows(3))
    backup = Backup(place)
    ask(held, rows(60, start=10))
    backup.restore()
    drawn = len(held._store.labels)
    for start in (100, 200, 300):
        with pytest.raises(Tampered, match="older copy"):
            ask(held, rows(30, start=start))
    assert len(held._store.labels) - drawn <= 10  # what the block at hand still paid
    with pytest.raises(Tampered):
        place.close()


def test_what_is_left_is_computed_once_a_reservation(place, ask, rows, monkeypatch):
    asked, times = [], Budget.times
    monkeypatch.setattr(Budget, "times", lambda self: asked.append(self) or times(self))
    held = place.open()
    first = [held.blocks_left() for _ in range(3)]
    ask(held, rows(3))
    then = [held.blocks_left() for _ in range(3)]
    assert (len(asked), len(set(first)), len(set(then))) == (2, 1, 1)
    assert then[0] < first[0]


@pytest.mark.slow
def test_a_ledger_that_has_forgotten_blocks_is_refused(place, ask, rows):
    ask(place.open(), rows(3))
    place.close()
    backup = Backup(place)
    ask(place.open(), rows(60))
    place.close()
    backup.restore()
    with pytest.raises(Tampered, match=r"whose answers were given.*older copy"):
        place.open()


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_the_draw_the_block_is_forfeited_and_the_answer_drawn_once(place, ask, rows, moment):
    program = """
import os, sys
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.service import open_service
from ostrakon.service.answers import AnswerStore

run, ledger, moment = sys.argv[1:]
cls, name = {"before": (ConfidentGNMax, "sample"), "after": (AnswerStore, "add")}[moment]
setattr(cls, name, lambda *_: os.kill(os.getpid(), 9))
with open_service(run, ledger=ledger, budget=100.0, block=5) as labeller:
    labeller.answer([labeller.read("a", 10, [{"age": 18.0, "town": "Ulm"}])])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, place.run, place.ledger, moment], capture_output=True, timeout=100
    )
    assert done.returncode == -signal.SIGKILL
    assert b"leaked" not in done.stderr
    assert answers(place) == []
    spends = len(Ledger(place.ledger).account("data-1").spends)
    labeller = place.open()
    row = [{"age": 18.0, "town": "Ulm"}]
    first = ask(labeller, row)
    assert ask(labeller, row) == first
    assert len(Ledger(place.ledger).account("data-1").spends) == spends + 1
    assert len(answers(place)) == 1
