"""Smooth sensitivity (Algorithms 3 to 5, Theorem 24): ostrakon, and one query and one vote at a time.

    python benchmarks/smooth_speed.py [--data DIR]

The plain version follows the paper and runs on a sample of the queries, for all distances. Both are compared on this
sample, and timed in CPU seconds of one thread. --data: the folder with votes/mnist_250_teachers.npy; without it, these
votes are simulated.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
from scipy.special import erfc, erfcinv, log_ndtr, logsumexp

from ostrakon.accounting.published.pate_2018 import log_pr_answered, log_q0
from ostrakon.mechanisms import ConfidentGNMax
from ostrakon.papers.smooth_sensitivity import smooth_sensitivity
from ostrakon.votes import Votes
from published_speed import plain, votes


class Plain:
    """Algorithms 3 to 5 for one query at a time."""

    def __init__(self, *, sigma: float, order: float, classes: int) -> None:
        self.sigma, self.order, self.classes = sigma, order, classes
        self.q0 = math.exp(log_q0(sigma=sigma, order=order))
        self.q1 = self.neighbour(self.q0, 1)
        self.plateau = order / sigma**2 - self.cost(self.q1)

    def neighbour(self, q: float, direction: int) -> float:
        others = self.classes - 1
        return min(others / 2 * erfc(erfcinv(2 * q / others) + direction / self.sigma), 1.0)

    def cost(self, q: float) -> float:
        if q >= self.q0:
            return self.order / self.sigma**2
        # The two-class histogram with this q: `plain` wants votes, and its bound depends on q alone.
        gap = 2 * self.sigma * erfcinv(2 * q)
        return float(plain(np.array([gap, 0.0]), self.sigma, np.array([self.order]))[0])

    def local(self, q: float) -> float:
        if self.q1 <= q <= self.q0:
            return self.plateau
        here = self.cost(q)
        return max(self.cost(self.neighbour(q, -1)) - here, here - self.cost(self.neighbour(q, 1)))

    def q(self, histogram: list[int]) -> float:
        gaps = (histogram[0] - np.array(histogram[1:])) / (math.sqrt(2) * self.sigma)
        return math.exp(min(logsumexp(log_ndtr(-gaps)), math.log1p(-1 / self.classes)))

    def by_distance(self, histogram: np.ndarray) -> np.ndarray:
        v = sorted(histogram.tolist(), reverse=True)
        result = np.full(int(histogram.sum()), self.plateau)
        q = self.q(v)
        if self.q1 <= q <= self.q0:
            return result
        rising, d = q < self.q1, 0
        result[0] = self.data_dependent(q)
        while (q < self.q1) if rising else (q > self.q0 and v[1] > 0):
            v[0] += -1 if rising else 1
            v[1] += 1 if rising else -1
            if not rising:
                v[1:] = sorted(v[1:], reverse=True)
            d, q = d + 1, self.q(v)
            result[d] = self.data_dependent(q)
        return result


def check_by_distance(top: int, mechanism: ConfidentGNMax, order: float, teachers: int) -> np.ndarray:
    """The threshold check's sensitivity, one count at a time; its q is that of two classes 2 |top - T| apart."""

    def cost(count: int) -> float:
        gap = 2 * abs(count - mechanism.threshold)
        return float(plain(np.array([gap, 0.0]), math.sqrt(2) * mechanism.sigma1, np.array([order]))[0])

    costs = [cost(count) for count in range(teachers + 1)]
    local = [max(abs(costs[c] - costs[n]) for n in (c - 1, c + 1) if 0 <= n <= teachers) for c in range(teachers + 1)]
    return np.array([max(local[max(top - d, 0) : top + d + 1]) for d in range(teachers)])


def compare(
    name: str, counts: np.ndarray, mechanism: ConfidentGNMax, *, order: float, beta: float, sample: int
) -> None:
    """Time both and print a row."""
    held = Votes(counts)
    settings = {"order": order, "smoothness": beta}
    smooth_sensitivity(held[:2], mechanism, **settings)  # compiles
    seconds = []
    for _ in range(7):
        start = time.process_time()
        ours = smooth_sensitivity(held, mechanism, **settings)
        seconds.append(time.process_time() - start)
    chosen = held[np.random.default_rng(3).choice(len(counts), sample, replace=False)]
    start = time.process_time()
    peer = Plain(sigma=mechanism.sigma2, order=order, classes=held.classes)
    chance = np.exp(log_pr_answered(chosen.counts, threshold=mechanism.threshold, sigma1=mechanism.sigma1))
    total = chance @ np.array([peer.by_distance(row) for row in chosen.counts])
    for top in chosen.top.tolist():
        total += check_by_distance(top, mechanism, order, held.teachers)
    theirs = (total * np.exp(-beta * np.arange(held.teachers))).max()
    plain_seconds = (time.process_time() - start) * len(counts) / sample
    assert abs(smooth_sensitivity(chosen, mechanism, **settings) / theirs - 1) < 1e-6
    print(
        f"| {name} | {ours:.4g} | {min(seconds):.2f} s | {plain_seconds:,.0f} s "
        f"(from {sample} queries) | {plain_seconds / min(seconds):,.0f}x |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    data = parser.parse_args().data
    if data is None:
        digits = votes(8500, classes=10, teachers=250, seed=4)
    else:
        digits = np.load(data / "votes" / "mnist_250_teachers.npy")[:8500].astype(np.int64)
    print("| votes | SS | ostrakon, one thread | plain, one thread | ratio |\n|---|---|---|---|---|")
    compare(
        "8,500 queries x 10 classes x 250 teachers",
        digits,
        ConfidentGNMax(threshold=200, sigma1=150, sigma2=40),
        order=14,
        beta=0.0329,
        sample=200,
    )
    compare(
        "12,000 queries x 150 classes x 5,000 teachers",
        votes(12_000, classes=150, teachers=5000, seed=5),
        ConfidentGNMax(threshold=1000, sigma1=500, sigma2=100),
        order=20.5,
        beta=0.0205,
        sample=12,
    )


if __name__ == "__main__":
    main()
