"""The secure sum of owners' tables by MPyC on localhost: wall time and bytes sent, by owners and size of the table.

    python benchmarks/secure_sum.py [--owners 3 5 11] [--queries 1280] [--classes 2 150]

Every owner is a process of its own on this machine, so that they share its cores; tables are random. "whole s" is the
wall time of `ostrakon study sum` for all owners together, started at once; "sum s" is the longest time from the first
share to the opened sum; bytes are those of one owner, before TLS.
"""

from __future__ import annotations

import argparse
import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from ostrakon.run.folder import RunFolder
from ostrakon.study import Owner, create_study, make_certificate, sum_study
from ostrakon.study.certificates import read_certificate
from ostrakon.study.tables import write_share


def measure(folder: Path, *, owners: int, queries: int, classes: int) -> str:
    """The line of one size."""
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.normal(size=queries), "b": rng.normal(size=queries)}).to_csv(folder / "pool.csv")
    free = [socket.create_server(("127.0.0.1", 0)) for _ in range(owners)]
    known: list[Owner] = []
    for at, each in enumerate(free):
        _, public = make_certificate(f"owner-{at}", folder)
        address = f"127.0.0.1:{each.getsockname()[1]}"
        each.close()
        pem = read_certificate(public)
        known.append(Owner(name=f"owner-{at}", people=10**8, address=address, certificate=pem))
    study = create_study(
        folder / "study",
        public=folder / "pool.csv",
        target="y",
        classes=[f"c{at}" for at in range(classes)],
        owners=known,
        exchange="secure-sum",
        epsilon=1.0,
        delta=1e-10,
        queries=queries,
    )
    tables = rng.integers(-(2**30), 2**30, (owners, queries, classes))
    for at, each in enumerate(known):
        home = RunFolder(folder / f"study-{each.name}")
        with home.opened():
            home.write({"asked": {}})
            write_share(home.private, study, each.name, tables[at])
    started = time.perf_counter()
    with ThreadPoolExecutor(owners) as pool:
        done = list(pool.map(lambda each: sum_study(study, owner=each.name, key=folder / f"{each.name}.key"), known))
    whole = time.perf_counter() - started
    slowest = max(each.seconds for each in done)
    return f"{owners:>7}{queries:>9}{classes:>9}{whole:>9.1f}{slowest:>8.2f}{done[0].bytes_sent:>14,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--owners", type=int, nargs="*", default=[3, 5, 11])
    parser.add_argument("--queries", type=int, default=1280)
    parser.add_argument("--classes", type=int, nargs="*", default=[2, 150])
    options = parser.parse_args()
    print(f"{'owners':>7}{'queries':>9}{'classes':>9}{'whole s':>9}{'sum s':>8}{'bytes sent':>14}", flush=True)
    for classes in options.classes:
        for owners in options.owners:
            with tempfile.TemporaryDirectory() as scratch:
                print(measure(Path(scratch), owners=owners, queries=options.queries, classes=classes), flush=True)


if __name__ == "__main__":
    main()
