"""The envelope of a gate: ostrakon's compiled branch and bound, and every top count of every distance in NumPy.

    python benchmarks/envelope_speed.py

Two sizes: 640 queries of 250 teachers and 10 classes; 200 queries of 5,000 teachers and 150 classes (mean plurality
83%), where one whole score needs the envelope at a few dozen distances. The plain version runs on few queries and
distances and is scaled up; values are compared where both ran. Times are CPU seconds of one core.
"""

from __future__ import annotations

import math
import time

import numpy as np
from scipy.special import log_ndtr

from ostrakon.accounting.data_independent.noisy_max import answer_law
from ostrakon.accounting.data_independent.supremum import joint_cost, joint_step
from ostrakon.accounting.gate.envelope import envelope
from ostrakon.accounting.gate.score import consensus
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.mechanisms import ConfidentGNMax
from ostrakon.votes import Votes

ORDER = 10.0


def plain(votes: Votes, mechanism: ConfidentGNMax, distances: list[int]) -> np.ndarray:
    """D3 without the move lemma, as it reads: for every distance and every top count, p_1 by quadrature, beta* anew,
    J, and the maximum."""
    law = answer_law(mechanism, teachers=votes.teachers, classes=votes.classes)
    assert law is not None
    orders = np.array([ORDER])
    alpha, beta = joint_step(law, orders)
    log_alpha, log_beta = alpha[0], beta[0]
    cap = law.likely_outcome_rdp(law.worst_q(), orders)[0]
    worst = joint_cost(alpha, beta, cap[None, None], orders)[0]
    nodes = np.linspace(-9, 9, 181)
    weights = np.exp(-(nodes**2) / 2) * (nodes[1] - nodes[0]) / math.sqrt(2 * math.pi)
    out = np.empty((votes.queries, len(distances)))
    for row, counts in enumerate(votes.counts):
        n = np.sort(counts)[::-1]
        for column, d in enumerate(distances):
            tops = np.arange(max(n[0] - d, 0), min(n[0] + d, votes.teachers) + 1)
            if n[0] - n[1] < 2 * d:
                out[row, column] = worst[tops].max()
                continue
            q = np.empty(len(tops))
            for i, top in enumerate(tops):
                others = n[1:].copy()
                others[0] += d - max(top - n[0], 0)
                wins = weights @ np.exp(log_ndtr(nodes[:, None] + (top - others) / mechanism.sigma2).sum(axis=1))
                q[i] = min(max(1 - wins, 1e-12), 1.0)
            label = np.minimum(law.likely_outcome_rdp(q, orders)[0], cap[tops])
            joint = np.logaddexp(log_alpha[:, tops], log_beta[:, tops] + (ORDER - 1) * label).max(axis=0)
            out[row, column] = joint.max() / (ORDER - 1)
    return out


def main() -> None:
    small = simulate_votes(
        np.random.default_rng(0), queries=640, teachers=250, classes=10, plurality=0.71, dispersion=0.08
    )
    mechanism = ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
    envelope(small[:2], mechanism, orders=[ORDER])  # compile
    start = time.process_time()
    envelope(small, mechanism, orders=[ORDER])
    ours = time.process_time() - start
    some = [0, 5, 20, 60]
    start = time.process_time()
    slow = plain(small[:6], mechanism, some)
    plain_all = (time.process_time() - start) / (6 * len(some)) * 640 * 251
    fast = np.array([envelope(small[[row]], mechanism, orders=[ORDER], distances=some)[0] for row in range(6)])
    print(f"640 queries, 250 teachers, 10 classes, all 251 distances: {ours:.3f} s")
    print(f"  the plain way, scaled up: {plain_all:.0f} s, {plain_all / ours:.0f}x")
    print(f"  costs by the move lemma: {np.min(fast / slow):.3f} to {np.max(fast / slow):.3f} of the plain ones")

    large = simulate_votes(
        np.random.default_rng(1), queries=200, teachers=5000, classes=150, plurality=0.83, dispersion=0.1
    )
    mechanism = ConfidentGNMax(threshold=3500, sigma1=1500, sigma2=400)
    start = time.process_time()
    consensus(large, mechanism, order=ORDER, kappa=0.002)
    ours = time.process_time() - start
    start = time.process_time()
    plain(large[:1], mechanism, [0, 40])
    plain_all = (time.process_time() - start) / 2 * 65 * 200
    print(f"200 queries, 5,000 teachers, 150 classes, one score: {ours:.3f} s, {1e3 * ours / 200:.2f} ms a query")
    print(f"  the plain way at 65 distances, scaled up: {plain_all:.0f} s, {plain_all / ours:.0f}x")


if __name__ == "__main__":
    main()
