"""A ledger under load: 64 processes race for the last epsilon, and runs are killed at 200 random moments.

    python benchmarks/ledger_race.py [--kills 200] [--postgresql URL]

Prints a table. Fails if a limit was exceeded, anything was charged twice, or noise was drawn that was not charged.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from ostrakon.ledger.cost import Cost
from ostrakon.ledger.filter import Filter
from ostrakon.ledger.fits import Refused
from ostrakon.ledger.ledger import Ledger

FORK = multiprocessing.get_context("fork")
HOW = {"unit": "record", "relation": "replace"}


def part(cap: Filter, of: int) -> Cost:
    """A cost of which exactly `of` fit."""
    return Cost.of(mu=cap.mu / np.sqrt(of) * (1 - 1e-9))


def contender(url: str, run: str, cost: Cost, start, out) -> None:
    start.wait()
    began = time.perf_counter()
    try:
        Ledger(url).reserve("race", run, cost, **HOW)
        out.put((True, time.perf_counter() - began))
    except Refused:
        out.put((False, time.perf_counter() - began))


def race(url: str, processes: int, places: int) -> str:
    ledger, cap = Ledger(url), Filter.create(epsilon=1.0, delta=1e-6)
    ledger.open("race", cap=cap)
    start, out = FORK.Barrier(processes), FORK.Queue()
    cost = part(cap, places)
    runs = [FORK.Process(target=contender, args=(url, f"racer {n}", cost, start, out)) for n in range(processes)]
    for each in runs:
        each.start()
    told = [out.get() for _ in runs]
    for each in runs:
        each.join()
    account = ledger.account("race")
    assert sum(got for got, _ in told) == len(account.spends) == places
    assert account.cap.admits(account.costs)
    assert account.remaining() == 0
    return f"{places} of {processes} reserved; slowest answer {max(took for _, took in told):.1f} s"


def small_run(url: str, run: str, cost: Cost, noise: Path) -> None:
    ledger = Ledger(url)
    receipt = ledger.reserve("kills", run, cost, **HOW)
    if not noise.exists():
        with open(noise, "x") as file:
            file.write(run)
            file.flush()
            os.fsync(file.fileno())
    ledger.settle(receipt, "drawn")


def kills(url: str, folder: Path, number: int, runs: int) -> str:
    ledger, cap, moments = Ledger(url), Filter.create(epsilon=1.0, delta=1e-6), np.random.default_rng(0)
    ledger.open("kills", cap=cap)
    cost = part(cap, runs + 1)
    began = time.perf_counter()
    small_run(url, "whole", cost, folder / "whole")
    took = time.perf_counter() - began
    seen = {"before reserve": 0, "reserved": 0, "drawn": 0, "settled": 0}
    for kill in range(number):
        run, noise = f"run {kill % runs}", folder / f"noise {kill % runs}"
        child = os.fork()
        if child == 0:
            try:
                small_run(url, run, cost, noise)
            finally:
                os._exit(0)
        time.sleep(moments.uniform(0, 4 * took))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        spend = Ledger(url).account("kills").spend_of(run)
        assert spend is not None or not noise.exists(), "drawn and not paid for"
        state = "before reserve" if spend is None else "settled" if spend.settled else "reserved"
        seen["drawn" if state == "reserved" and noise.exists() else state] += 1
    for run in range(runs):
        small_run(url, f"run {run}", cost, folder / f"noise {run}")
    account = ledger.account("kills")
    assert len({each.run for each in account.spends}) == len(account.spends) == runs + 1, "spent twice, or lost"
    assert account.cap.admits(account.costs)
    return "; ".join(f"{name} {count}" for name, count in seen.items())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=200)
    arguments.add_argument("--postgresql", help="URL of an empty database.")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        urls = {"SQLite": f"sqlite:///{place}/budget.db"}
        if given.postgresql:
            urls["PostgreSQL"] = given.postgresql
        print("| | 64 processes, 3 places | killed, and found |\n|---|---|---|")
        for name, url in urls.items():
            folder = Path(place) / name
            folder.mkdir()
            print(f"| {name} | {race(url, 64, 3)} | {kills(url, folder, given.kills, 60)} |", flush=True)


if __name__ == "__main__":
    main()
