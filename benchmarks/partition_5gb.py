"""Partition a Parquet file larger than 5 GB into 250 shards in less than 2 GiB, and a plain version with pandas.

    python benchmarks/partition_5gb.py [--rows 56000000] [--memory 1GB] [--folder DIR]

Each step runs in a process of its own, whose peak memory the operating system reports. The plain version (read the file
with pandas, hash each row, write each group) cannot load the whole file; it is measured on a tenth of the rows, and its
memory grows in proportion to them.
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

TEACHERS = 250
KEY = bytes(range(32))


def make(file: str, rows: int) -> dict:
    """Write `rows` records of mixed columns, about 92 bytes each; random numbers do not compress."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET memory_limit = '1GB'; SET preserve_insertion_order = false")
    measures = ", ".join(f"(random() * {10 ** (place % 4)})::DOUBLE AS measure_{place}" for place in range(10))
    connection.execute(
        f"""COPY (SELECT i AS record, (random() * {rows // 20})::INTEGER AS person,
            (18 + random() * 70)::TINYINT AS age,
            (['north', 'south', 'east', 'west', 'centre'])[1 + (random() * 4.999)::INT % 5] AS region,
            'job-' || ((random() * random() * 500)::INT) AS job, DATE '2010-01-01' + (random() * 5000)::INT AS day,
            {measures}, random() < 0.2 AS label FROM range({rows}) r(i))
            TO '{file}' (FORMAT parquet, ROW_GROUP_SIZE 122880)"""
    )
    return {"bytes": os.path.getsize(file)}


def ours(file: str, folder: str, memory: str, by: str) -> dict:
    """ostrakon: one SQL statement, out of core."""
    from ostrakon.data.sharding import partition_table
    from ostrakon.data.sources import open_table

    shards = partition_table(
        open_table(file), folder, TEACHERS, key=KEY, by=None if by == "record" else by, memory_limit=memory
    )
    return {"rows": int(shards.sizes.sum()), "least": int(shards.sizes.min()), "most": int(shards.sizes.max())}


def plain(file: str, folder: str, by: str) -> dict:
    """The plain way: the file in a data frame, a keyed hash per row, one file per group."""
    import hmac

    import pandas as pd

    frame = pd.read_parquet(file)
    cells = map(repr, frame.itertuples(index=False, name=None)) if by == "record" else frame[by].astype(str)
    hashes = [int.from_bytes(hmac.digest(KEY, cell.encode(), "sha256")[:7], "big") % TEACHERS for cell in cells]
    for teacher, rows in frame.groupby(pd.Series(hashes)):
        rows.to_parquet(Path(folder) / f"teacher={teacher}.parquet")
    return {"rows": len(frame)}


def measured(step: str, *arguments: str) -> dict:
    """Run a step of this script in a process of its own; its result, seconds and peak memory."""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, __file__, "--step", step, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{step} failed: {done.stderr.strip()}")
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": time.perf_counter() - started}


def run_step(step: str, arguments: list[str]) -> None:
    if step == "make":
        result = make(arguments[0], int(arguments[1]))
    elif step == "ours":
        result = ours(*arguments)
    else:
        result = plain(*arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**result, "peak": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=56_000_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--folder", default=None, help="where the files go for a while; default: a temporary folder")
    parser.add_argument("--by", nargs="+", default=["record", "person"])
    parser.add_argument("--part", nargs="+", default=["whole", "tenth"], help="the whole file, a tenth of it, or both")
    parser.add_argument(
        "--file", default=None, help="a file that `--step make FILE ROWS` wrote, to be used for the whole"
    )
    parser.add_argument("--step", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.step:
        run_step(options.step[0], options.step[1:])
        return
    home = Path(tempfile.mkdtemp(dir=options.folder, prefix="partition-"))
    try:
        print("| way | unit | rows | file GB | seconds | rows/s | peak GiB |\n|---|---|---|---|---|---|---|")
        for by in options.by:
            if "whole" in options.part:
                ways = ("ostrakon",)
                whole = compare(home, options.rows, by, options.memory, ways=ways, file=options.file)["ostrakon"]
            if "tenth" in options.part:
                rows = compare(home, options.rows // 10, by, options.memory, ways=("ostrakon", "pandas"))
                ours, plain = rows["ostrakon"], rows["pandas"]
                print(
                    f"ratio on a tenth, {by}: pandas takes {plain['seconds'] / ours['seconds']:.1f} times as long and "
                    f"{plain['peak'] / ours['peak']:.1f} times the memory, {10 * plain['peak'] / 2**30:.0f} GiB for all"
                )
            if "whole" in options.part and not whole["peak"] < 2 * 2**30:
                sys.exit("the peak was not below 2 GiB")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def compare(home: Path, rows: int, by: str, memory: str, *, ways: tuple[str, ...], file: str | None = None) -> dict:
    """Make a file of `rows` rows unless one is given, partition it each way, print a line for each."""
    shards = home / "shards"
    if file is None:
        file = str(home / "table.parquet")
        measured("make", file, str(rows))
    results = {}
    for way in ways:
        if way == "pandas":
            shards.mkdir()
        step = ("ours", file, str(shards), memory, by) if way == "ostrakon" else ("plain", file, str(shards), by)
        row = results[way] = measured(*step)
        shutil.rmtree(shards, ignore_errors=True)
        print(
            f"| {way} | {by} | {row['rows']:,} | {os.path.getsize(file) / 1e9:.2f} | {row['seconds']:.0f} | "
            f"{row['rows'] / row['seconds']:,.0f} | {row['peak'] / 2**30:.2f} |",
            flush=True,
        )
    return results


if __name__ == "__main__":
    main()
