"""A ledger on a PostgreSQL server whose defaults are others, and whose transactions are broken off."""

import threading

import pytest

from ostrakon.ledger import ledger as module
from ostrakon.ledger.cost import Cost
from ostrakon.ledger.filter import Filter
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.ledger import Ledger
from ostrakon.ledger.store import Interrupted, Store
from ostrakon.ledger.turn import Turn
from ostrakon.validation import InvalidInput

CAP = Filter.create(epsilon=1.0, delta=1e-6)
TENTH = Cost.of(mu=CAP.mu / 10**0.5 * (1 - 1e-9))
HOW = {"unit": "record", "relation": "replace"}


def set_default(url: str, name: str, value: str) -> None:
    """Change a setting of the database for every new connection."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        (database,) = connection.execute("SELECT current_database()").fetchone()
        connection.execute(f"ALTER DATABASE \"{database}\" SET {name} = '{value}'")


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_stricter_default_isolation_changes_nothing(postgresql, isolation, monkeypatch):
    set_default(postgresql, "default_transaction_isolation", isolation)
    Ledger(postgresql).open("data", cap=CAP)
    monkeypatch.setattr(module, "PAUSES", ())
    fates: list[str] = []

    def use(number: int) -> None:
        ledger = Ledger(postgresql)
        for call in range(3):
            try:
                receipt = ledger.reserve("data", f"run {number} {call}", TENTH, **HOW)
                ledger.settle(receipt, "drawn")
                fates.append("settled")
            except Refused:
                fates.append("refused")
            except BaseException as error:
                fates.append(repr(error))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {fate: fates.count(fate) for fate in fates} == {"settled": 10, "refused": 14}
    account = Ledger(postgresql).account("data")
    assert account.total.runs == len(account.spends) == 10
    assert account.cap.admits(account.total)


def test_what_is_written_is_on_the_disk_and_a_turn_ends(postgresql):
    set_default(postgresql, "synchronous_commit", "off")
    set_default(postgresql, "default_transaction_isolation", "serializable")
    Ledger(postgresql).open("data", cap=CAP)
    names = ("transaction_isolation", "synchronous_commit", "lock_timeout", "idle_in_transaction_session_timeout")
    with Store(postgresql).turn() as turn:
        connection = turn._connection
        held = [connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in names]
    assert held == ["read committed", "on", "2min", "2min"]


@pytest.mark.parametrize("moment", ["append", "finish"])
def test_a_turn_that_was_broken_off_is_tried_again(postgresql, monkeypatch, moment):
    Ledger(postgresql).open("data", cap=CAP)
    right, left = getattr(Turn, moment), [2]

    def broken(turn: Turn, *arguments: object) -> object:
        told = right(turn, *arguments)
        if left[0]:
            left[0] -= 1
            turn._connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
        return told

    monkeypatch.setattr(Turn, moment, broken)
    monkeypatch.setattr(module, "PAUSES", (0.0,) * 4)
    receipt = Ledger(postgresql).reserve("data", "run", TENTH, **HOW)
    left[0] = 1
    Ledger(postgresql).settle(receipt, "drawn")
    (spend,) = Ledger(postgresql).account("data").spends
    assert (spend.settled, spend.hash) == (True, receipt.hash)
    left[0] = 100
    with pytest.raises(Interrupted, match="could not be used: terminating connection"):
        Ledger(postgresql).reserve("data", "other", TENTH, **HOW)
    assert left[0] == 95
    left[0] = 0
    assert Ledger(postgresql).account("data").total.runs == 1


def test_a_commit_that_was_reached_is_not_paid_again(postgresql, monkeypatch):
    """The connection is lost after the commit, before the client has heard of it."""
    Ledger(postgresql).open("data", cap=CAP)
    right, lost = Store.turn, [True]

    def turn(store: Store, **options: bool):
        inner = right(store, **options)

        class Lossy:
            def __enter__(self) -> Turn:
                return inner.__enter__()

            def __exit__(self, *what: object) -> object:
                told = inner.__exit__(*what)
                if lost[0]:
                    lost[0] = False
                    raise Interrupted("lost")
                return told

        return Lossy()

    monkeypatch.setattr(Store, "turn", turn)
    receipt = Ledger(postgresql).reserve("data", "run", TENTH, **HOW)
    assert not lost[0]
    lost[0] = True
    Ledger(postgresql).settle(receipt, "drawn")
    (spend,) = Ledger(postgresql).account("data").spends
    assert spend.settled


def test_what_cannot_be_tried_again_is_not(postgresql, monkeypatch):
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("tried again"))
    with pytest.raises(InvalidInput, match="could not be used"):
        Ledger(postgresql.replace("/t", "/nobody", 1)).accounts()
