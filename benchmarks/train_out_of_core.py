"""`ostrakon train` on a Parquet file larger than the memory it takes, and reading that file with pandas.

    python benchmarks/train_out_of_core.py [--rows 56000000] [--teachers 250] [--teacher naive-bayes] [--folder DIR]

Each runs in a process of its own, whose peak resident memory the operating system reports. The file has 17 columns
(about 92 bytes a row); the label follows from three of them, with one in ten wrong. The public pool (5,000 rows) and
the test rows (5,000) are small files of the same kind.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEASURES = ", ".join(f"(random() * {10 ** (place % 4)})::DOUBLE AS measure_{place}" for place in range(10))
RIGHT = "(measure_0 + measure_4 + (region = 'north')::INT > 1.2)"


def make(file: str, rows: int) -> None:
    """Write `rows` records of mixed columns; random numbers do not compress."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET memory_limit = '1GB'; SET preserve_insertion_order = false")
    connection.execute(
        f"""COPY (SELECT *, CASE WHEN {RIGHT} != (random() < 0.1) THEN 'yes' ELSE 'no' END AS label FROM (
            SELECT (random() * 1e12)::BIGINT AS record, (random() * 2800000)::INTEGER AS person,
            (18 + random() * 70)::TINYINT AS age,
            (['north', 'south', 'east', 'west', 'centre'])[1 + (random() * 4.999)::INT % 5] AS region,
            'job-' || ((random() * random() * 500)::INT) AS job, DATE '2010-01-01' + (random() * 5000)::INT AS day,
            {MEASURES} FROM range({rows}) r(i))) TO '{file}' (FORMAT parquet, ROW_GROUP_SIZE 122880)"""
    )


def ours(home: str, teachers: str, teacher: str, by: str) -> None:
    """`ostrakon train`, as it is typed."""
    from ostrakon.cli import main

    files = [part for name in ("private", "public", "test") for part in (f"--{name}", f"{home}/{name}.parquet")]
    chosen = ["--by", "person"] if by == "person" else []
    files = [*files, "--classes", "from-private"]
    sys.argv = ["ostrakon", "train", *files, "--target", "label", "--out", f"{home}/run", "--jobs", "1", *chosen]
    sys.argv += ["--teachers", teachers, "--teacher", teacher, "--epsilon", "2"]
    main()


def plain(home: str) -> None:
    """What any way in memory begins with."""
    import pandas as pd

    print(len(pd.read_parquet(f"{home}/private.parquet")))


def measured(step: str, *arguments: str) -> dict[str, float]:
    """Run a step of this script in a process of its own: its seconds and peak memory in bytes."""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, __file__, "--step", step, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{step} failed: {done.stderr.strip()}")
    return {"seconds": time.perf_counter() - started, "peak": float(done.stdout.splitlines()[-1])}


def run_step(step: str, arguments: list[str]) -> None:
    steps = {"make": lambda file, rows: make(file, int(rows)), "ours": ours, "plain": plain}
    try:
        steps[step](*arguments)
    except SystemExit as stopped:
        if stopped.code:
            raise
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=56_000_000)
    parser.add_argument("--teachers", default="250")
    parser.add_argument("--teacher", default="naive-bayes")
    parser.add_argument("--by", choices=["record", "person"], default="record")
    parser.add_argument("--folder", default=None, help="where the files go for a while; default: a temporary folder")
    parser.add_argument("--no-plain", action="store_true", help="leave pandas out, which may not fit this machine")
    parser.add_argument("--step", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.step:
        run_step(options.step[0], options.step[1:])
        return
    home = Path(tempfile.mkdtemp(dir=options.folder, prefix="train-"))
    try:
        for name, rows in (("private", options.rows), ("public", 5_000), ("test", 5_000)):
            measured("make", str(home / f"{name}.parquet"), str(rows))
        size = os.path.getsize(home / "private.parquet")
        found = {"ostrakon train": measured("ours", str(home), options.teachers, options.teacher, options.by)}
        accuracy = json.loads((home / "run" / "private" / "evaluation.json").read_text())["accuracy"]
        if not options.no_plain:
            found["pandas, reading alone"] = measured("plain", str(home))
        print("| way | rows | file GB | teachers | seconds | peak GiB | peak / file |\n|---|---|---|---|---|---|---|")
        for way, row in found.items():
            teachers = f"{options.teachers} ({options.teacher}, by {options.by})" if way == "ostrakon train" else ""
            print(
                f"| {way} | {options.rows:,} | {size / 1e9:.2f} | {teachers} | {row['seconds']:.0f} | "
                f"{row['peak'] / 2**30:.2f} | {row['peak'] / size:.2f} |"
            )
        print(f"student on 5,000 test rows: {accuracy:.1%} (at most 90%: one label in ten is wrong)")
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
