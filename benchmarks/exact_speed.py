"""Speed and memory of the exact accountant, and of a plain computation of the same numbers.

    python benchmarks/exact_speed.py            # everything
    python benchmarks/exact_speed.py --part NAME

Every part runs in a process of its own, which gives its peak memory. The plain version goes query by query, through
every move of every pair of classes, with the outcome law on a fixed grid, in NumPy and SciPy.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import log_ndtr, logsumexp

ORDERS = np.geomspace(1.05, 1000, 150)


def dirichlet_multinomial(queries: int, classes: int, teachers: int, *, plurality: float, seed: int = 0) -> np.ndarray:
    """Votes with one likely class, at random, per query; `plurality`: its mean share."""
    rng = np.random.default_rng(seed)
    weights = np.full(classes, 10 * (1 - plurality) / (classes - 1))
    weights[0] = 10 * plurality
    counts = np.array([rng.multinomial(teachers, rng.dirichlet(weights)) for _ in range(queries)])
    return rng.permuted(counts, axis=1)


def plain_costs(counts: np.ndarray, *, sigma1: float | None, sigma2: float, threshold: float) -> np.ndarray:
    """The same costs the first way one would write them."""
    costs = np.zeros((len(counts), len(ORDERS)))
    for query, row in enumerate(counts):
        before = plain_law(row, sigma1=sigma1, sigma2=sigma2, threshold=threshold)
        for a in range(len(row)):
            for b in range(len(row)):
                if a == b or row[a] == 0:
                    continue
                moved = row.copy()
                moved[a] -= 1
                moved[b] += 1
                after = plain_law(moved, sigma1=sigma1, sigma2=sigma2, threshold=threshold)
                for p, q in ((before, after), (after, before)):
                    terms = ORDERS[:, None] * p + (1 - ORDERS[:, None]) * q
                    costs[query] = np.maximum(costs[query], logsumexp(terms, axis=1) / (ORDERS - 1))
    return costs


def plain_law(row: np.ndarray, *, sigma1: float | None, sigma2: float, threshold: float) -> np.ndarray:
    x = (row - row.max()) / sigma2
    z = np.arange(x.min() / 2 - 9, 9.5, 0.1)
    below = log_ndtr(z - x[:, None])
    terms = below.sum(axis=0) - below - 0.5 * (z - x[:, None]) ** 2
    labels = logsumexp(terms, axis=1)
    labels = labels - logsumexp(labels)
    if sigma1 is None:
        return labels
    margin = (row.max() - threshold) / sigma1
    return np.append(labels + log_ndtr(margin), log_ndtr(-margin))


def timed(work: Callable[[], object], *, repeats: int = 3) -> tuple[float, float]:
    """(best wall seconds, its CPU seconds) of a few runs."""
    best = (np.inf, np.inf)
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return best


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def mechanisms() -> dict:
    import ostrakon

    return {
        "gnmax": ostrakon.GNMax(sigma2=40),
        "confident-gnmax": ostrakon.ConfidentGNMax(threshold=200, sigma1=150, sigma2=40),
        "lnmax": ostrakon.LNMax(gamma=0.05),
        "exponential": ostrakon.ExponentialMechanism(epsilon_per_query=0.1),
    }


def part_mnist_size() -> None:
    """8,500 queries x 10 classes x 150 orders."""
    from ostrakon.accounting.data_dependent.exact import data_dependent_costs
    from ostrakon.votes import Votes

    votes = Votes(dirichlet_multinomial(8500, 10, 250, plurality=0.83))
    few = votes[:20]
    for name, mechanism in mechanisms().items():
        data_dependent_costs(few, mechanism, ORDERS)
        wall, cpu = timed(lambda m=mechanism: data_dependent_costs(votes, m, ORDERS))
        print(f"| 8,500 x 10 x 150, {name} | {wall:.2f} s | {cpu:.2f} s | {peak_mb():.0f} MB |")
    confident = mechanisms()["confident-gnmax"]
    start = time.perf_counter()
    plain = plain_costs(few.counts, sigma1=150, sigma2=40, threshold=200)
    per_query = (time.perf_counter() - start) / len(few)
    ours = data_dependent_costs(few, confident, ORDERS)
    high = ours > 1e-9
    worst = np.abs(ours / np.maximum(plain, 1e-300) - 1)[high].max()
    ratio = per_query * 8500 / timed(lambda: data_dependent_costs(votes, confident, ORDERS), repeats=1)[0]
    print(
        f"| the same, plain way on {len(few)} of them | {per_query * 8500:.0f} s (extrapolated) | | "
        f"{ratio:.0f} times slower; largest relative difference {worst:.0e} |"
    )


def part_glyph_size() -> None:
    """12,000 queries x 150 classes x 5,000 teachers x 150 orders."""
    import ostrakon
    from ostrakon.accounting.data_dependent.exact import data_dependent_costs

    votes = ostrakon.Votes(dirichlet_multinomial(12_000, 150, 5000, plurality=0.83))
    for mechanism in (
        ostrakon.ConfidentGNMax(threshold=3500, sigma1=1500, sigma2=100),
        ostrakon.ConfidentGNMax(threshold=1000, sigma1=500, sigma2=500),
        ostrakon.LNMax(gamma=0.02),
    ):
        data_dependent_costs(votes[:5], mechanism, ORDERS)
        wall, cpu = timed(lambda m=mechanism: data_dependent_costs(votes, m, ORDERS), repeats=1)
        print(f"| 12,000 x 150 x 150, 5,000 teachers, {mechanism} | {wall:.1f} s | {cpu:.1f} s | {peak_mb():.0f} MB |")


def part_growth() -> None:
    """Growth in queries (classes 10) and in classes (500 queries), Confident-GNMax."""
    import ostrakon
    from ostrakon.accounting.data_dependent.exact import data_dependent_costs

    mechanism = ostrakon.ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
    votes = ostrakon.Votes(dirichlet_multinomial(16_000, 10, 250, plurality=0.83))
    data_dependent_costs(votes[:20], mechanism, ORDERS)
    for queries in (1000, 2000, 4000, 8000, 16_000):
        wall, cpu = timed(lambda n=queries: data_dependent_costs(votes[:n], mechanism, ORDERS))
        print(
            f"| {queries:,} queries x 10 classes | {wall:.2f} s | {cpu:.2f} s | {1e6 * cpu / queries:.0f} us a query |"
        )
    for classes in (2, 5, 10, 20, 50, 100, 200, 500, 1000):
        some = ostrakon.Votes(dirichlet_multinomial(500, classes, 5000, plurality=0.6))
        mechanism = ostrakon.ConfidentGNMax(threshold=3000, sigma1=500, sigma2=100)
        distinct = np.mean([len(np.unique(row)) for row in some.counts])
        wall, cpu = timed(lambda v=some, m=mechanism: data_dependent_costs(v, m, ORDERS), repeats=1)
        print(
            f"| 500 queries x {classes:,} classes ({distinct:.0f} distinct counts) | {wall:.2f} s | {cpu:.2f} s | "
            f"{1e3 * cpu / 500:.2f} ms a query |"
        )


def part_cold() -> None:
    """The first call on a machine compiles; the compiled code is kept on disk."""
    program = (
        "import time; s=time.perf_counter(); import ostrakon; "
        "from ostrakon.accounting.data_dependent.exact import data_dependent_costs; "
        "mechanism = ostrakon.ConfidentGNMax(threshold=40, sigma1=20, sigma2=10); "
        "data_dependent_costs(ostrakon.Votes([[30, 20, 3]]), mechanism, [2.0]); "
        "print(f'{time.perf_counter() - s:.1f}')"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        for when in ("first ever (compiles)", "every later one"):
            run = subprocess.run(
                [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
            )
            print(f"| new process, one query, {when} | {run.stdout.strip()} s | | |")


PARTS = {name[5:]: part for name, part in globals().items() if name.startswith("part_")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS)
    chosen = parser.parse_args().part
    if chosen:
        PARTS[chosen]()
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}\n")
    print("| what | wall | CPU | peak memory or note |\n|---|---|---|---|", flush=True)
    for name in PARTS:
        subprocess.run([sys.executable, str(Path(__file__)), "--part", name], check=True)


if __name__ == "__main__":
    main()
