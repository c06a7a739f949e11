"""Representatives of a large public pool, and a plain version: CPU seconds, memory, distance to the nearest.

    python benchmarks/scale_representatives.py [--rows 10000 100000 1000000] [--features 50] [--plain 100000]

Points of 200 clusters of all sizes and widths, in a rotated space. Each version runs in a process of its own, on one
thread. The plain version (tests/oracles/plain_representatives.py) stores all distances and runs up to `--plain` rows.
The objective is the mean distance of the pool to its nearest representative: lower is better.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path


def run(way: str, rows: int, features: int, budget: int, seed: int) -> dict:
    """Processor seconds, peak memory and objective."""
    import numpy as np

    rng = np.random.default_rng(0)
    centres, widths = 2 * rng.normal(size=(200, features)), rng.uniform(0.3, 1.2, size=(200, 1))
    cluster = rng.choice(200, rows, p=rng.dirichlet(np.ones(200)))
    turned = rng.normal(size=(features, features)) / 7
    points = np.empty((rows, features), np.float32)
    for at in range(0, rows, 50_000):
        some = cluster[at : at + 50_000]
        points[at : at + 50_000] = (centres[some] + widths[some] * rng.normal(size=(len(some), features))) @ turned
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    if way == "plain":
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracles"))
        from plain_representatives import representatives
    else:
        from ostrakon.features.queries import representatives
    chosen = representatives(points, budget, random_state=seed)
    seconds = time.process_time() - started
    peak, total, nearest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0.0, points[chosen].astype(np.float64)
    for at in range(0, rows, 10_000):
        some = points[at : at + 10_000].astype(np.float64)
        squares = np.square(some).sum(axis=1)[:, None] + np.square(nearest).sum(axis=1) - 2 * some @ nearest.T
        total += float(np.sqrt(np.maximum(squares.min(axis=1), 0)).sum())
    return {"seconds": seconds, "before": before, "peak": peak, "objective": total / rows}


def measured(*arguments: object) -> dict:
    """A step of this script in a process of its own, on one thread."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    step = [sys.executable, __file__, "--step", *map(str, arguments)]
    done = subprocess.run(step, capture_output=True, text=True, env={**os.environ, **one})
    if done.returncode:
        sys.exit(f"{arguments[0]} failed: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--budget", type=int, default=1280)
    parser.add_argument("--plain", type=int, default=100_000, help="most rows of the plain way; 0: none")
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--step", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(run(options.step[0], *map(int, options.step[1:]))))
        return
    print("| rows | seed | way | processor s | peak GiB (with the points) | mean distance |\n|---|---|---|---|---|---|")
    for rows in options.rows:
        for seed in options.seed:
            found = {}
            for way in ("ostrakon", "plain")[: 2 if rows <= options.plain else 1]:
                made = found[way] = measured(way, rows, options.features, options.budget, seed)
                peak = made["peak"] / 2**20
                print(f"| {rows:,} | {seed} | {way} | {made['seconds']:.1f} | {peak:.2f} | {made['objective']:.5f} |")
            if len(found) == 2:
                ours, plain = found["ostrakon"], found["plain"]
                print(
                    f"{rows:,} rows: plain / ostrakon {plain['seconds'] / ours['seconds']:.1f} in time, objective "
                    f"ostrakon / plain {ours['objective'] / plain['objective']:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
