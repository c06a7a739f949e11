"""Adult split over several owners at one epsilon: accuracy compared with one run on all rows, wall time, bytes sent.

    python benchmarks/owners.py --data DIR [--seeds 3] [--owners 3 5 11] [--epsilon 1] [--skewed] [--teacher NAME]
        [--exchange one-run trusted files secure-sum] [--colluders 0]

DIR holds adult.data.gz and adult.test.gz. adult.data is private, every row belongs to one person, and the rows are
split over the owners by a hash of their number, or (--skewed) by occupation; adult.test is split at random (again for
each seed) into the public pool (without labels) and the test set. Delta is 1e-6. "one run" is `ostrakon train` on all
rows together; every exchange does create, join by each owner, and finish; secure-sum with its sum on localhost. Wall
time of join is one owner's; bytes are the size of its share, or of what it sends in the sum. With --teacher, each of
these also runs with trained teachers: one run trains as many as `ostrakon train` does, owners one for 100 people.
--colluders: of secure-sum, one line each.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.data.datasets import adult
from ostrakon.options.options import Options
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import run
from ostrakon.study import (
    EXCHANGES,
    Owner,
    create_study,
    finish_study,
    join_study,
    make_certificate,
    sum_study,
)
from ostrakon.study.certificates import read_certificate

DELTA = 1e-6
TARGET, PERSON = "income", "person"
HEAD = f"{'way':<22}{'owners':>7}{'accuracy':>10}{'queries':>9}{'noise':>8}{'join s':>8}{'finish s':>9}{'bytes':>9}"


def write_tables(data: Any, folder: Path, *, owners: int, skewed: bool) -> dict[str, Path]:
    """The owners' tables by name, beside all.csv, pool.csv and test.csv."""
    labels = np.asarray(data.classes, object)
    private = pd.DataFrame(data.X).assign(**{TARGET: labels[data.y], PERSON: np.arange(len(data.y))})
    private.to_csv(folder / "all.csv", index=False)
    pd.DataFrame(data.X_public).to_csv(folder / "pool.csv", index=False)
    pd.DataFrame(data.X_test).assign(**{TARGET: labels[data.y_test]}).to_csv(folder / "test.csv", index=False)
    keys = private["occupation"] if skewed else private[PERSON]
    place = keys.map(lambda key: int(hashlib.sha256(str(key).encode()).hexdigest(), 16) % owners).to_numpy()
    tables = {f"owner-{at}": folder / f"owner-{at}.csv" for at in range(owners) if (place == at).any()}
    for name, path in tables.items():
        private[place == int(name.removeprefix("owner-"))].to_csv(path, index=False)
    return tables


def one_run(folder: Path, *, epsilon: float, seed: int, teacher: str | None) -> str:
    """The line of a run on all rows together."""
    started = time.perf_counter()
    files: dict[str, Any] = {"test": folder / "test.csv", "target": TARGET, "by": PERSON}
    labels = sorted(pd.read_csv(folder / "test.csv")[TARGET].unique())
    task = task_from_files(folder / "all.csv", folder / "pool.csv", classes=labels, **files)
    trained: dict[str, Any] = {} if teacher is None else {"teacher": teacher}
    outcome = run(
        folder / name_of("one run", teacher), task, Options(epsilon=epsilon, delta=DELTA, seed=seed, **trained)
    )
    return line(name_of("one run", teacher), 1, outcome, joined=0.0, finished=time.perf_counter() - started, size=0)


def name_of(way: str, teacher: str | None) -> str:
    """What a line is called."""
    return way if teacher is None else f"{way}, {teacher}"


def by_owners(folder: Path, tables: dict[str, Path], exchange: str, *, epsilon: float, seed: int, **chosen: Any) -> str:
    """The line of one exchange. chosen: teacher, colluders."""
    teacher, colluders = chosen["teacher"], chosen["colluders"]
    place = folder / name_of(f"{exchange}-{colluders}", teacher)
    rows = {name: len(pd.read_csv(path, usecols=[PERSON])) for name, path in tables.items()}
    owners = [Owner(name=name, people=count) for name, count in rows.items()]
    keys = folder / "keys"
    if exchange == "secure-sum":
        keys.mkdir(exist_ok=True)
        owners = on_this_machine(owners, keys)
    study = create_study(
        place,
        public=folder / "pool.csv",
        target=TARGET,
        classes=sorted(pd.read_csv(folder / "test.csv")[TARGET].unique()),
        owners=owners,
        exchange=exchange,
        colluders=colluders,
        teacher=teacher,
        epsilon=epsilon,
        delta=DELTA,
        seed=seed,
    )
    started = time.perf_counter()
    shares = [join_study(study, path, owner=name, by=PERSON).share for name, path in tables.items()]
    joined = (time.perf_counter() - started) / len(tables)
    if exchange == "secure-sum":
        with ThreadPoolExecutor(len(owners)) as pool:
            opened = list(
                pool.map(lambda each: sum_study(study, owner=each.name, key=keys / f"{each.name}.key"), owners)
            )
        size = max(each.bytes_sent for each in opened)
    else:
        size = max(share.stat().st_size for share in shares if share is not None)
    started = time.perf_counter()
    outcome = finish_study(study, test=folder / "test.csv")
    finished = time.perf_counter() - started
    way = exchange if colluders is None else f"{exchange}, t={colluders}"
    return line(name_of(way, teacher), len(tables), outcome, joined=joined, finished=finished, size=size)


def on_this_machine(owners: list[Owner], keys: Path) -> list[Owner]:
    """The owners at free ports of the loopback, with certificates whose keys are OWNER.key in `keys`."""
    free = [socket.create_server(("127.0.0.1", 0)) for _ in owners]
    placed: list[Owner] = []
    for owner, each in zip(owners, free, strict=True):
        if not (keys / f"{owner.name}.key").exists():
            make_certificate(owner.name, keys)
        pem = read_certificate(keys / f"{owner.name}.crt")
        placed.append(dataclasses.replace(owner, address=f"127.0.0.1:{each.getsockname()[1]}", certificate=pem))
    for each in free:
        each.close()
    return placed


def line(way: str, owners: int, outcome: Any, *, joined: float, finished: float, size: int) -> str:
    """One line of the table."""
    noise = outcome.plan.mechanism.vote_noise
    numbers = f"{outcome.accuracy:>10.2%}{outcome.plan.queries:>9}{noise:>8.2f}{joined:>8.1f}{finished:>9.1f}{size:>9,}"
    return f"{way:<22}{owners:>7}{numbers}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--owners", type=int, nargs="*", default=[3, 5, 11])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--skewed", action="store_true")
    parser.add_argument("--teacher", default=None)
    every = ["one-run", *EXCHANGES]
    parser.add_argument("--exchange", nargs="*", default=every, choices=every)
    parser.add_argument("--colluders", type=int, nargs="*", default=[0], help="of secure-sum")
    options = parser.parse_args()
    for seed in range(options.seeds):
        data = adult(options.data, random_state=seed)
        print(f"seed {seed}, epsilon {options.epsilon:g}, delta {DELTA:g}\n{HEAD}", flush=True)
        for place, owners in enumerate(options.owners):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                tables = write_tables(data, folder, owners=owners, skewed=options.skewed)
                for teacher in dict.fromkeys([None, options.teacher]):
                    asked = {"epsilon": options.epsilon, "seed": seed, "teacher": teacher}
                    if place == 0 and "one-run" in options.exchange:
                        print(one_run(folder, **asked), flush=True)
                    ways = [(name, None) for name in EXCHANGES if name in options.exchange and name != "secure-sum"]
                    ways += [("secure-sum", some) for some in options.colluders if "secure-sum" in options.exchange]
                    for exchange, colluders in ways:
                        print(by_owners(folder, tables, exchange, colluders=colluders, **asked), flush=True)


if __name__ == "__main__":
    main()
