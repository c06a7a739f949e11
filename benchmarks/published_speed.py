"""The published data-dependent bound (Proposition 7, Theorem 6): ostrakon, and one query at a time.

    python benchmarks/published_speed.py [--queries 1000000]

The plain version follows the paper: SciPy's erfc and logsumexp on one histogram, NumPy over the orders. It runs on the
first 2,000 queries. Both are compared there, and timed in CPU seconds of one thread (for ostrakon the smallest of seven
repetitions). Votes: Dirichlet-multinomial, mean plurality 83%.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from scipy.special import log_ndtr, logsumexp

from ostrakon.accounting.published.pate_2018 import log_q_gaussian, rdp_gaussian

SIGMA = 40.0
SAMPLE = 2000


def votes(queries: int, *, classes: int, teachers: int, seed: int) -> np.ndarray:
    """Histograms whose plurality has 83% of the teachers on average, the rest spread unevenly."""
    rng = np.random.default_rng(seed)
    top = rng.beta(6.64, 1.36, size=queries)
    rest = rng.dirichlet(np.full(classes - 1, 0.5), size=queries)
    return rng.multinomial(teachers, np.column_stack([top, (1 - top)[:, None] * rest]))


def plain(histogram: np.ndarray, sigma: float, orders: np.ndarray) -> np.ndarray:
    """Proposition 7, Theorem 6 and Proposition 10 for one query."""
    winner = histogram.argmax()
    gaps = (histogram[winner] - np.delete(histogram, winner)) / (math.sqrt(2) * sigma)
    log_q = min(float(logsumexp(log_ndtr(-gaps))), math.log1p(-1 / len(histogram)))
    cost = orders / sigma**2
    mu_2 = sigma * math.sqrt(-log_q)
    mu_1 = mu_2 + 1
    eps_1, eps_2 = mu_1 / sigma**2, mu_2 / sigma**2
    applies = (mu_1 >= orders) & (mu_2 > 1)
    if not applies.any():
        return cost
    limit = (mu_2 - 1) * eps_2 - mu_2 * (math.log(mu_1 / (mu_1 - 1)) + math.log(mu_2 / (mu_2 - 1)))
    if log_q > limit or log_q + eps_2 >= 0:
        return cost
    log_not_q = math.log1p(-math.exp(log_q))
    log_a = log_not_q - math.log1p(-math.exp((log_q + eps_2) * (1 - 1 / mu_2)))
    log_b = eps_1 - log_q / (mu_1 - 1)
    bound = np.logaddexp(log_not_q + (orders - 1) * log_a, log_q + (orders - 1) * log_b) / (orders - 1)
    return np.where(applies, np.minimum(bound, cost), cost)


def compare(name: str, counts: np.ndarray, orders: np.ndarray) -> None:
    """Time both and print a row; the plain way on the first `SAMPLE` queries."""
    rdp_gaussian(log_q_gaussian(counts[:2], sigma=SIGMA), sigma=SIGMA, orders=orders)  # compiles
    seconds = []
    for _ in range(7):
        start = time.process_time()
        ours = rdp_gaussian(log_q_gaussian(counts, sigma=SIGMA), sigma=SIGMA, orders=orders)
        seconds.append(time.process_time() - start)
    sample = counts[:SAMPLE]
    start = time.process_time()
    theirs = np.array([plain(row, SIGMA, orders) for row in sample])
    per_query = (time.process_time() - start) / len(sample)
    np.testing.assert_allclose(ours[: len(sample)], theirs, rtol=1e-9, atol=1e-15)
    rate = len(counts) / min(seconds)
    print(
        f"| {name} | {min(seconds):.2f} s | {rate:,.0f} queries/s | {1 / per_query:,.0f} queries/s "
        f"| {rate * per_query:,.0f}x |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1_000_000)
    queries = parser.parse_args().queries
    print("| bound | time | ostrakon, one thread | plain, one thread | ratio |\n|---|---|---|---|---|")
    many = votes(queries, classes=10, teachers=250, seed=1)
    compare(f"{queries:,} queries x 10 classes x 1 order", many, np.array([14.0]))
    compare("8,500 queries x 10 classes x 150 orders", many[:8500], np.arange(2.0, 77.0, 0.5))
    compare(
        "12,000 queries x 150 classes x 1 order",
        votes(12_000, classes=150, teachers=5000, seed=2),
        np.array([14.0]),
    )


if __name__ == "__main__":
    main()
