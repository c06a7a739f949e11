"""Planning an epsilon: what it buys, from public numbers alone, before any private row is read.

    python examples/plan_an_epsilon.py

Nothing here sees data. How many teachers, how many queries and how much noise go together is arithmetic.
"""

from __future__ import annotations

import ostrakon
from ostrakon.accounting import calibrate, worst_case

DELTA = 1e-5
TEACHERS, CLASSES = 250, 2


def noise_for(epsilon: float, queries: int) -> str:
    """The vote noise that keeps `epsilon`, as a share of the teachers; or the sentence that says why none does."""
    shape = ostrakon.ConfidentGNMax(threshold=0.6 * TEACHERS, sigma1=0.5 * TEACHERS, sigma2=0.2 * TEACHERS)
    try:
        found = calibrate(shape, epsilon=epsilon, delta=DELTA, queries=queries, teachers=TEACHERS, classes=CLASSES)
    except ostrakon.InvalidInput:
        return "more noise than votes"
    assert isinstance(found, ostrakon.ConfidentGNMax)
    return f"sigma2 {found.sigma2:6.1f} = {found.sigma2 / TEACHERS:.0%} of the teachers"


def main() -> None:
    print(f"{TEACHERS} trained teachers, {CLASSES} classes, delta {DELTA:g}: noise that keeps an epsilon")
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for queries in (100, 400):
            print(f"  epsilon {epsilon:3g}, {queries:4d} queries: {noise_for(epsilon, queries)}")

    print("\nPer-record teachers (bounded-gnmax): the number of queries does not matter, only the noise does")
    for sigma2 in (2.0, 5.0, 20.0, 50.0):
        mechanism = ostrakon.mechanisms.BoundedGNMax(sigma2=sigma2)
        few, many = (worst_case(mechanism, queries=queries, delta=DELTA).epsilon for queries in (10, 1000))
        assert few == many
        print(f"  sigma2 {sigma2:4g} votes: epsilon {many:.3f}, for 10 queries as for 1,000")


if __name__ == "__main__":
    main()
