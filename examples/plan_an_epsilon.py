"""Planning an epsilon: what it buys, from public rows and numbers alone, before any private row is read.

    python examples/plan_an_epsilon.py

The public rows here are made up. With yours, leave `rehearse="none"` away: where they have labels, the whole run is
played on them, and accuracies are forecast. On the command line: `ostrakon plan`.
"""

from __future__ import annotations

import math

import numpy as np

import ostrakon
from ostrakon.accounting import worst_case

DELTA = 1e-5


def up(share: float) -> str:
    """A share in percent, rounded up."""
    return f"{math.ceil(1000 * share) / 10:.1f}%"


def main() -> None:
    rng = np.random.default_rng(0)
    public = rng.normal(size=(400, 5))
    found = ostrakon.plan(
        public,
        classes=["in", "out"],
        records=30_000,
        epsilons=[0.1, 1.0, 4.0],
        mechanisms=["bounded-gnmax", "confident-gnmax"],
        delta=DELTA,
        rehearse="none",
    )
    print(f"{found.records:,} private records, {found.pool} public rows, delta {DELTA:g}")
    for offer in found.offers:
        told = f"  epsilon {offer.epsilon:3g}, {offer.mechanism}: "
        if offer.plan is None or offer.odds is None:
            print(f"{told}refused. {offer.refusal}")
            continue
        noise = ", ".join(f"{name} {value:.4g}" for name, value in offer.noise.items())
        print(f"{told}{offer.plan.queries} queries, {noise}; an attacker's even odds become {up(offer.odds)} at most")

    print("\nPer-record teachers (bounded-gnmax): the number of queries does not matter, only the noise does")
    for sigma2 in (2.0, 5.0, 20.0, 50.0):
        mechanism = ostrakon.mechanisms.BoundedGNMax(sigma2=sigma2)
        few, many = (worst_case(mechanism, queries=queries, delta=DELTA).epsilon for queries in (10, 1000))
        assert few == many
        print(f"  sigma2 {sigma2:4g} votes: epsilon {many:.3f}, for 10 queries as for 1,000")


if __name__ == "__main__":
    main()
