"""Lower bounds of `audit_training` for trainers with an exact claim, and how often a sound claim is refuted.

    python benchmarks/audit_trainers.py [--seeds 200]

The trainer releases the sum of its rows with Gaussian noise; the canaries are unit vectors that no other row has. No
trainer with this claim gives an attacker more, so the bound as a share of the claim shows the power of the audit. A row
for each claim: epsilon at delta 1e-5, the median bound of one run with many canaries and of repeated runs with one
canary, and the number of sound claims that were refuted (one run, all seeds).
"""

from __future__ import annotations

import argparse

import numpy as np

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.audit import audit_training
from ostrakon.audit.betting import Bets

DELTA = 1e-5
CANARIES = 1000
PAIRS = 500


def one_run(mu: float, seed: int) -> float:
    """The lower bound of one run with CANARIES canaries, none of which shares a coordinate with another one."""
    noise = np.random.default_rng(seed)

    def train(X, y):
        return X.sum(axis=0) + noise.normal(size=X.shape[1]) / mu

    return audit_training(
        train,
        (np.zeros((2, CANARIES)), np.array([0, 1])),
        claimed=(gaussian_dp_epsilon(mu, DELTA), DELTA),
        neighbours="add-remove",
        rng=np.random.default_rng(10_000 + seed),
        canaries=(np.eye(CANARIES), np.zeros(CANARIES, dtype=int)),
        score=lambda model, X, y: model,
    ).lower_bound


def repeated(mu: float, seed: int) -> float:
    """The lower bound of PAIRS pairs of runs with the best score there is."""
    rng = np.random.default_rng(seed)
    bets = Bets(delta=DELTA, error=0.05)
    for _ in range(PAIRS):
        bets.add(used=rng.normal(mu), unused=rng.normal())
    return bets.bound


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=200)
    seeds = options.parse_args().seeds
    print(f"mu    claim  one run ({CANARIES} canaries)  {2 * PAIRS} runs  refuted of {seeds}")
    for mu in (0.5, 1.0, 2.0, 3.0):
        claim = gaussian_dp_epsilon(mu, DELTA)
        bounds = np.array([one_run(mu, seed) for seed in range(seeds)])
        several = np.median([repeated(mu, seed) for seed in range(5)])
        print(f"{mu:<5} {claim:5.2f}  {np.median(bounds):8.2f}  {several:8.2f}  {(bounds > claim).sum()}", flush=True)


if __name__ == "__main__":
    main()
