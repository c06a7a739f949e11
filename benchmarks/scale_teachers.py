"""Thousands of trained teachers of a large table: CPU seconds by step, memory, files, and a plain version.

    python benchmarks/scale_teachers.py [--rows 2000000] [--teachers 5000] [--teacher logistic] [--folder DIR] [--plain]

Each run is the command `ostrakon train`, in a process of its own. The Parquet file has 24 numbers and 6 categories of 8
to 20 words; the label follows from four of them, with one in ten wrong. 5,000 public rows of the same kind. CPU seconds
are those of all processes, at each line that the run prints. --plain: a loop over the same shards in memory,
`LogisticRegression().fit(shard)` each, with pandas and scikit-learn alone, without shards on the disk, checksums or
stored teachers.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NUMBERS, CATEGORIES = 24, 6


def make(file: Path, rows: int) -> None:
    """Write the table."""
    import duckdb

    numbers = ", ".join(f"round(random() * {10 ** (k % 4)}, 3) AS n{k}" for k in range(NUMBERS))
    words = ", ".join(f"'w' || (random() * {7 + 2 * k})::INT AS c{k}" for k in range(CATEGORIES))
    right = "(n0 + n4 + n8 + (c0 = 'w3')::INT > 1.6)"
    connection = duckdb.connect()
    connection.execute("SET memory_limit = '1GB'; SET preserve_insertion_order = false")
    connection.execute(
        f"COPY (SELECT *, CASE WHEN {right} != (random() < 0.1) THEN 'yes' ELSE 'no' END AS label "
        f"FROM (SELECT {numbers}, {words} FROM range({rows}))) TO '{file}' (FORMAT parquet)"
    )


def ours(home: Path, teachers: int, teacher: str) -> None:
    """`ostrakon train`, with the processor seconds at every line."""
    files = [part for name in ("private", "public", "test") for part in (f"--{name}", str(home / f"{name}.parquet"))]
    chosen = [
        "--target",
        "label",
        "--classes",
        "no,yes",
        "--teachers",
        str(teachers),
        "--teacher",
        teacher,
        "--epsilon",
        "2",
    ]
    command = [sys.executable, "-m", "ostrakon", "train", *files, *chosen, "--out", str(home / "run")]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            print(f"{time.perf_counter() - started:6.0f} s  {line.rstrip()}", flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    held = [path for path in (home / "run" / "private").rglob("*") if path.is_file()]
    print(
        f"exit {run.returncode}: {time.perf_counter() - started:.0f} s, processor {used.ru_utime + used.ru_stime:.0f} s"
    )
    print(f"largest process {used.ru_maxrss / 2**20:.2f} GiB; {len(held)} files in private/", flush=True)


def plain(home: Path, teachers: int) -> None:
    """A loop over shards in memory."""
    import numpy as np
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    started = time.process_time()
    table, public = (pd.read_parquet(home / f"{name}.parquet") for name in ("private", "public"))
    words = [f"c{k}" for k in range(CATEGORIES)]
    form = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), words), remainder=StandardScaler()
    ).fit(public.drop(columns="label"))
    X, y = form.transform(table.drop(columns="label")), (table["label"] == "yes").to_numpy()
    asked = form.transform(public.drop(columns="label"))[:1000]
    owner = np.random.default_rng(0).permutation(len(y)) % teachers
    order = np.argsort(owner, kind="stable")
    for rows in np.array_split(order, teachers):
        LogisticRegression(max_iter=1000).fit(X[rows], y[rows]).predict(asked)
    print(f"plain loop: processor {time.process_time() - started:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--teachers", type=int, default=5_000)
    parser.add_argument("--teacher", default="logistic")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="teachers-") as folder:
        home = Path(folder)
        for name, rows in (("private", given.rows), ("public", 5_000), ("test", 5_000)):
            make(home / f"{name}.parquet", rows)
        print(f"{given.rows:,} rows, {os.path.getsize(home / 'private.parquet') / 1e6:.0f} MB", flush=True)
        ours(home, given.teachers, given.teacher)
        if given.plain:
            plain(home, given.teachers)


if __name__ == "__main__":
    main()
