"""The default student with its correction and without, on equal splits and seeds of noise.

    python benchmarks/corrections.py --data DIR --work DIR [--sets ecoli german adult sst2 ...] [--seeds 0 1 2]
        [--epsilons 1 2 4] [--neighbours replaced removed]

Sets are those of `arena.py`. Both runs have one epsilon: without a correction (`corrections=0`), votes and sums have
its share of the cost. Where the default has none (too few records), both are equal. Prints the mean difference of
each set with its standard error over seeds, and the mean over sets.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from arena import REMOVED, REPLACED, SCORES, Contest, contest, ours, scores
from ostrakon.planning.defaults import default_delta
from ostrakon.validation import InvalidInput

WITHOUT: dict[str, Any] = {"mechanism": "moment-gnmax", "parameters": {"corrections": 0}}


def scored(held: Contest, epsilon: float, neighbours: str, seed: int, **more: Any) -> tuple[float, float]:
    """Return accuracy in % and log loss."""
    likely, _ = ours(held, epsilon, neighbours, default_delta(len(held.y)), seed, **more)
    found = dict(zip(SCORES, scores(likely, held.y_test, 0.0), strict=True))
    return 100 * float(found["accuracy"]), float(found["log_loss"])


def main() -> None:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 2.0, 4.0])
    parser.add_argument("--neighbours", nargs="+", choices=(REPLACED, REMOVED), default=[REPLACED, REMOVED])
    given = parser.parse_args()
    names = given.sets or [
        *sorted(path.stem for path in (given.data / "tables").glob("*.csv")),
        "breast_cancer",
        "digits",
    ]
    for neighbours in given.neighbours:
        for epsilon in given.epsilons:
            means = []
            for name in names:
                found = []
                for seed in given.seeds:
                    held = contest(name, given.data, given.work, seed, photos=0)
                    try:
                        runs = [scored(held, epsilon, neighbours, seed, **more) for more in ({}, WITHOUT)]
                    except InvalidInput:
                        continue
                    found.append(np.subtract(*runs))
                if not found:
                    continue
                mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / len(found) ** 0.5
                means.append(mean)
                print(
                    f"one record {neighbours}, epsilon {epsilon:g}, {name}, {len(found)} runs: "
                    f"accuracy {mean[0]:+.1f} ± {error[0]:.1f}, log loss {mean[1]:+.3f} ± {error[1]:.3f}",
                    flush=True,
                )
            total = np.mean(means, axis=0)
            print(f"mean of {len(means)} sets: accuracy {total[0]:+.2f}, log loss {total[1]:+.4f}\n", flush=True)


if __name__ == "__main__":
    main()
