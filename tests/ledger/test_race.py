"""Real processes on one ledger, racing, killed, on a full disk: no cap is passed and nothing that was spent is lost."""

import multiprocessing
import os
import resource
import signal
import time

import numpy as np
import pytest

from ostrakon.ledger.cost import Cost
from ostrakon.ledger.filter import Filter
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.ledger import Ledger
from ostrakon.validation import InvalidInput

CAP = Filter.create(epsilon=1.0, delta=1e-6)
FORK = multiprocessing.get_context("fork")
HOW = {"unit": "record", "relation": "replace"}

both = pytest.mark.parametrize("url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)


def tenth() -> Cost:
    """A cost of which exactly ten fit."""
    return Cost.of(mu=CAP.mu / np.sqrt(10) * (1 - 1e-9))


def racer(url: str, run: str, start, out) -> None:
    start.wait()
    try:
        receipt = Ledger(url).reserve("data", run, tenth(), **HOW)
        out.put((run, "reserved"))
        Ledger(url).settle(receipt, "drawn")
    except Refused:
        out.put((run, "refused"))
    except BaseException as error:
        out.put((run, repr(error)))


def race(url: str, runs: list[str]) -> dict[str, list[str]]:
    """All at once; by what became of them, their ids."""
    start, out = FORK.Barrier(len(runs)), FORK.Queue()
    processes = [FORK.Process(target=racer, args=(url, run, start, out)) for run in runs]
    for process in processes:
        process.start()
    told = [out.get(timeout=300) for _ in runs]
    for process in processes:
        process.join(60)
    return {fate: sorted(run for run, each in told if each == fate) for _, fate in told}


@pytest.mark.slow
@both
def test_64_processes_race_for_the_last_epsilon(url):
    Ledger(url).open("data", cap=CAP)
    for number in range(8):
        Ledger(url).reserve("data", f"before {number}", tenth(), **HOW)
    fates = race(url, [f"racer {number}" for number in range(64)])
    assert {fate: len(runs) for fate, runs in fates.items()} == {"reserved": 2, "refused": 62}
    account = Ledger(url).account("data")
    assert sorted(each.run for each in account.spends[8:]) == fates["reserved"]
    assert account.cap.admits(account.costs)
    assert account.remaining() == 0
    assert [each.settled for each in account.spends] == [False] * 8 + [True] * 2


@pytest.mark.slow
@both
def test_64_processes_that_are_one_run_spend_once(url):
    Ledger(url).open("data", cap=CAP)
    assert race(url, ["the same"] * 64) == {"reserved": ["the same"] * 64}
    (spend,) = Ledger(url).account("data").spends
    assert spend.settled
    assert [link.fields["event"] for link in Ledger(url).entries()] == ["open", "reserve", "settle"]


STAGES = ("begun", "reserved", "drawn", "settled")


def run_and_draw(url: str, run: str, noise: str, reached=lambda stage: None) -> None:
    """A run in small: reserve, draw (leave a mark on the disk), settle."""
    reached("begun")
    ledger = Ledger(url)
    receipt = ledger.reserve("data", run, tenth(), **HOW)
    reached("reserved")
    if not os.path.exists(noise):
        with open(noise, "x") as file:
            file.write(run)
            file.flush()
            os.fsync(file.fileno())
    reached("drawn")
    ledger.settle(receipt, "drawn")
    reached("settled")


def killed(at: str | float, *what) -> None:
    """A run in a process of its own, killed where it has reached a stage, or after so many seconds."""
    hears, tells = os.pipe()
    child = os.fork()
    if child == 0:
        try:

            def reached(stage: str) -> None:
                if stage == at:
                    os.write(tells, b".")
                    signal.pause()

            run_and_draw(*what, reached)
            os._exit(0)
        except BaseException:
            os._exit(1)
    if isinstance(at, str):
        os.read(hears, 1)
    else:
        time.sleep(at)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(hears)
    os.close(tells)


@pytest.mark.slow
def test_killed_at_any_moment_what_was_drawn_was_reserved_once(url, tmp_path):
    ledger, moments = Ledger(url), np.random.default_rng(0)
    ledger.open("data", cap=CAP)
    began = time.perf_counter()
    run_and_draw(url, "whole", str(tmp_path / "whole"))
    took, states = time.perf_counter() - began, set()
    for number in range(9):
        run, noise = f"run {number}", tmp_path / f"noise {number}"
        for at in STAGES if number % 2 else moments.uniform(0, 1.5 * took, 5).tolist():
            killed(at, url, run, str(noise))
            spend = Ledger(url).account("data").spend_of(run)
            states.add((spend is not None, noise.exists(), spend is not None and spend.settled))
            assert spend is not None or not noise.exists()
        run_and_draw(url, run, str(noise))
    account = ledger.account("data")
    assert sorted(each.run for each in account.spends) == sorted(["whole", *(f"run {n}" for n in range(9))])
    assert all(each.settled for each in account.spends)
    assert account.remaining() == 0
    assert states >= {(False, False, False), (True, False, False), (True, True, False), (True, True, True)}


def test_a_full_disk_refuses_in_one_sentence_and_spends_nothing(sqlite, tmp_path):
    ledger = Ledger(sqlite)
    ledger.open("data", cap=CAP)
    before = ledger.entries()
    size = (tmp_path / "budget.db").stat().st_size
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))
            Ledger(sqlite).reserve("data", "run", tenth(), **HOW)
        except InvalidInput as error:
            code = 0 if "the disk is full" in str(error) and "\n" not in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ledger.entries() == before
    ledger.reserve("data", "run", tenth(), **HOW)
    assert [each.run for each in ledger.account("data").spends] == ["run"]
