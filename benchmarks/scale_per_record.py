"""Per-record teachers from a Parquet file to votes and sums of features, step by step, and a plain version.

    python benchmarks/scale_per_record.py [--rows 2000000] [--plain 100000] [--users 0] [--folder DIR]

A synthetic table (24 numbers, 6 categories, a target) and a public one of 10,000 rows; the functions are those of
`ostrakon train`. Each version runs in a process of its own on one thread; CPU seconds and peak memory are printed. The
plain version (data frames, scikit-learn, distances in blocks: tests/oracles/plain_votes.py) runs on `--plain` of the
rows, and must give the same votes and sums there. users: number of people who own the rows; 0: every record is its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

QUERIES, PUBLIC, NOISE = 1280, 10_000, 7.4


def make(file: Path, rows: int, users: int, seed: int) -> None:
    """Write `rows` records: numbers of four shapes, categories of 3 to 8 words, a target that rests on them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    writer = None
    for at in range(0, rows, 250_000):
        count = min(250_000, rows - at)
        kind = rng.integers(0, 5, count)
        columns = {}
        for place in range(24):
            shift = np.sin(np.arange(5) * (place + 1))[kind]
            base = rng.normal(size=count) + shift
            made = (base, np.exp(base), np.round(40 + 12 * base), np.where(base > 1, np.exp(3 * base), 0.0))[place % 4]
            columns[f"number_{place}"] = pa.array(made, mask=rng.random(count) < 0.01)
        for place in range(6):
            words = pa.array([f"word {word}" for word in range(3 + place)])
            chosen = (kind * (place + 1) + (rng.random(count) < 0.3) * rng.integers(0, 9, count)) % (3 + place)
            columns[f"category_{place}"] = words.take(pa.array(chosen))
        if users:
            columns["person"] = pa.array(rng.integers(0, users, count))
        columns["target"] = pa.array(["no", "yes", "perhaps"]).take(pa.array((kind + (rng.random(count) < 0.1)) % 3))
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def run(way: str, private: str, public: str, by: str) -> dict:
    """Processor seconds by stage, the peak of memory, and a digest of votes and moments."""
    import numpy as np

    from ostrakon.features.moments import MomentMap, worth_their_noise
    from ostrakon.run.inputs.files import task_from_files
    from ostrakon.run.stages.features import view_of
    from ostrakon.run.stages.queries import queries_of
    from ostrakon.teachers import per_record

    stages: dict[str, float] = {}

    def timed(name, function):
        def called(*args, **kwargs):
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                stages[name] = stages.get(name, 0.0) + time.process_time() - start

        return called

    started = time.process_time()
    options = {"by": by} if by else {}
    task = timed("open and check", task_from_files)(private, public, target="target", **options)
    units = timed("count units", lambda: task.private.units)()
    view = timed("representation", view_of)(task.X_public)
    queries = timed("representatives", queries_of)(view, QUERIES, strategy="representatives", seed=0)
    moments = MomentMap.of(view.public, most=worth_their_noise(units, NOISE))
    told = {"classes": len(task.classes), "units": units, "max_contributions": 1}
    folder = Path(tempfile.mkdtemp(dir=Path(private).parent)) / "shards"
    before = time.process_time()
    try:
        if way == "plain":
            sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracles"))
            import plain_votes

            counts, sums = plain_votes.votes(task, view, view.public[queries], moments, folder=folder, **told)
            stages["votes"] = time.process_time() - before
        else:
            per_record.nearest = timed("nearest", per_record.nearest)
            MomentMap.steps = timed("moments", MomentMap.steps)
            blocks = task.private.by_unit(seed=0, transform=timed("transform", view.transform), folder=folder)

            def read():
                while (block := timed("read and transform", lambda: next(blocks, None))()) is not None:
                    yield block

            votes = per_record.collect_per_record(read(), view.public[queries], moments=moments, **told)
            counts, sums = votes.counts, votes.moments.counts
            spent = time.process_time() - before
            stages["read"] = stages.pop("read and transform") - stages["transform"]
            stages["count"] = spent - sum(stages.get(name, 0) for name in ("read", "transform", "nearest", "moments"))
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)
    return {
        "stages": stages,
        "votes": time.process_time() - before,
        "all": time.process_time() - started,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "features": int(view.public.shape[1]),
        "digest": hashlib.sha256(np.asarray(counts, np.int64).tobytes() + sums.astype(np.int64).tobytes()).hexdigest(),
    }


def measured(*arguments: str) -> dict:
    """A step of this script in a process of its own, on one thread."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, __file__, "--step", *arguments], capture_output=True, text=True, env={**os.environ, **one}
    )
    if done.returncode:
        sys.exit(f"{arguments[0]} failed: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def told(way: str, rows: int, result: dict) -> str:
    """One way as text: its stages, in seconds and microseconds a row."""
    lines = [
        f"{way}, {rows:,} rows, {result['features']} features: {result['votes']:.1f} processor s from table to votes, "
        f"{1e6 * result['votes'] / rows:.2f} us a row; with all before {result['all']:.1f} s; peak "
        f"{result['peak'] / 2**30:.2f} GiB"
    ]
    lines += [
        f"  {name:<20} {spent:8.2f} s {1e6 * spent / rows:8.2f} us a row" for name, spent in result["stages"].items()
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000])
    parser.add_argument("--plain", type=int, default=100_000, help="rows of the plain way; 0: none")
    parser.add_argument("--users", type=int, default=0)
    parser.add_argument("--folder", default=None, help="where the files go for a while; default: a temporary folder")
    parser.add_argument("--step", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(run(*options.step)))
        return
    home, by = Path(tempfile.mkdtemp(dir=options.folder, prefix="per-record-")), "person" if options.users else ""
    try:
        public = home / "public.parquet"
        make(public, PUBLIC, 0, seed=1)
        rates = {}
        for rows in dict.fromkeys([*([options.plain] if options.plain else []), *options.rows]):
            private = home / f"private-{rows}.parquet"
            make(private, rows, options.users, seed=0)
            ours = measured("ours", str(private), str(public), by)
            print(told("ostrakon", rows, ours), flush=True)
            rates[rows] = ours["votes"]
            if rows == options.plain:
                plain = measured("plain", str(private), str(public), by)
                print(told("plain", rows, plain), flush=True)
                same = ours["digest"] == plain["digest"]
                print(f"plain / ostrakon: {plain['votes'] / ours['votes']:.1f}; same votes and moments: {same}")
            private.unlink()
        least, most = min(rates), max(rates)
        if least < most:
            slope = (rates[most] - rates[least]) / (most - least)
            print(f"slope from {least:,} to {most:,} rows: {1e6 * slope:.2f} us a row")
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
