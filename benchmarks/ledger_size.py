"""Time of a ledger's calls as it grows: reserve, settle, and a plain version that reads and verifies every entry.

    python benchmarks/ledger_size.py [--postgresql URL]

Prints medians of 50 calls in milliseconds, as "elapsed (CPU)", for ledgers of several sizes, and the time of one
durable write of a file, which every reservation needs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ostrakon.data.files import write_atomically
from ostrakon.ledger.cost import Cost
from ostrakon.ledger.ledger import Ledger, Receipt
from ostrakon.ledger.store import Store

HOW = {"unit": "record", "relation": "replace"}
COST = Cost.of(mu=1e-3)
SIZES = (20, 1_300, 10_000)


def grow(url: str, entries: int) -> None:
    """Append reservations that are settled until the ledger has so many entries, in one transaction."""
    with Store(url).turn() as turn:
        while turn.last[0] < entries:
            run = {"account": "size", "run": f"grown {turn.last[0]}"}
            told = {"what": "gnmax, 1 queries, 250 teachers", "epsilon": None, "delta": None, "when": "2026-11-23"}
            turn.append({"event": "reserve", **run, "cost": COST.as_dict(), **told})
            turn.append({"event": "settle", **run, "drawn": "0" * 64, "when": "2026-11-23"})


def median(call: Callable[[int], object], times: int = 50) -> str:
    """Milliseconds of the call in the middle, elapsed and of the processor."""
    taken: list[tuple[float, float]] = []
    for number in range(times):
        began, busy = time.perf_counter(), time.process_time()
        call(number)
        taken.append((time.perf_counter() - began, time.process_time() - busy))
    elapsed, used = (statistics.median(column) * 1000 for column in zip(*taken, strict=True))
    return f"{elapsed:.1f} ({used:.1f})"


def measure(url: str) -> None:
    """Print a row for each size."""
    ledger = Ledger(url)
    ledger.open("size", epsilon=10.0, delta=1e-6)
    for entries in SIZES:
        grow(url, entries)
        receipts: list[Receipt] = []

        def reserve(number: int, receipts=receipts, entries=entries) -> None:
            receipts.append(ledger.reserve("size", f"run {entries} {number}", COST, **HOW))

        def settle(number: int, receipts=receipts) -> None:
            ledger.settle(receipts[number], "drawn")

        took = f"{median(reserve)} | {median(settle)}"
        plain = median(lambda _: ledger.accounts(), times=5)
        print(f"| {url.split(':')[0]} | {entries:,} | {took} | {plain} |", flush=True)


def main() -> None:
    """Measure SQLite, and PostgreSQL where one is given."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--postgresql", help="URL of an empty database.")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as place:
        write = median(lambda _: write_atomically(Path(place) / "file", b"x" * 200))
        print(f"one durable write of a file: {write} ms\n")
        print("| ledger | entries | reserve | settle | every entry read and verified |\n|---|---|---|---|---|")
        for url in (f"sqlite:///{place}/budget.db", given.postgresql):
            if url:
                measure(url)


if __name__ == "__main__":
    main()
