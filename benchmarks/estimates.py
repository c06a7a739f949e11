"""Does the published estimate of a student's accuracy on the private data keep what its interval says, at which price?

    python benchmarks/estimates.py --data DIR [--tables ecoli digits] [--epsilons 0.5 1 2] [--seeds 10]

Whole fits on real tables, each with other splits and noise. Reported per table and epsilon, over the seeds: the number
of private records; the half width of the interval of the accuracy; in how many runs it, the range of the balanced
accuracy, and all ranges of recall together hold the truth, measured on the private records; and the accuracy on test
rows minus that of the same split and noise without counts of errors (mean and standard error). Tables where too few
records are counted have no estimate.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon import PATEClassifier
from ostrakon.accounting.estimates import Agreement, Recall
from tables import read


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What one pair of fits showed. half_width and the three others are None without an estimate."""

    lost: float
    half_width: float | None = None
    accuracy_holds: bool | None = None
    balanced_holds: bool | None = None
    recalls_hold: bool | None = None


def one_fit(split: Any, epsilon: float, seed: int) -> Fit:
    """Fit with and without counts of errors, on the same rows and noise."""

    def fitted(mechanism: str) -> Any:
        given: Any = {"classes": list(range(split.classes)), "random_state": seed, "noise": np.random.default_rng(seed)}
        return PATEClassifier(epsilon=epsilon, mechanism=mechanism, **given).fit(
            split.X, split.y, X_public=split.X_public
        )

    counted, without = fitted("moment-gnmax"), fitted("moment-gnmax(errors=0)")
    tested = [float(np.mean(model.predict(split.X_test) == split.y_test)) for model in (counted, without)]
    lost, estimates = tested[0] - tested[1], counted.statement_.estimates
    if not estimates:
        return Fit(lost=lost)
    right = counted.predict(split.X) == split.y
    student = next(one for one in estimates if isinstance(one, Agreement) and one.of == "student")
    *classes, mean = [one for one in estimates if isinstance(one, Recall)]
    truths = [float(right[split.y == label].mean()) for label in np.unique(split.y)]
    ranges = [classes[label] for label in np.unique(split.y)]
    return Fit(
        lost=lost,
        half_width=(student.high - student.low) / 2,
        accuracy_holds=student.low <= right.mean() <= student.high,
        balanced_holds=mean.low <= np.mean(truths) <= mean.high,
        recalls_hold=all(one.low <= truth <= one.high for one, truth in zip(ranges, truths, strict=True)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--tables", nargs="+", default=["adult"])
    given = parser.parse_args()
    print("| table | records | epsilon | estimates | half width | accuracy holds | balanced | recalls | lost |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in given.tables:
        splits = [read(name, given.data, seed) for seed in range(given.seeds)]
        for epsilon in given.epsilons:
            fits = [one_fit(split, epsilon, seed) for seed, split in enumerate(splits)]
            known = [fit for fit in fits if fit.half_width is not None]
            held = [sum(bool(getattr(fit, what)) for fit in known) for what in
                    ("accuracy_holds", "balanced_holds", "recalls_hold")]  # fmt: skip
            width = "" if not known else f"{100 * np.mean([fit.half_width for fit in known]):.1f}"
            lost = -100 * np.array([fit.lost for fit in fits])
            print(
                f"| {name} | {len(splits[0].y)} | {epsilon:g} | {len(known)} of {len(fits)} | {width} "
                f"| {' | '.join(map(str, held))} | {lost.mean():.2f} ± {lost.std(ddof=1) / len(lost) ** 0.5:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
