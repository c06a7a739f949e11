"""The default student with its correction and without, on equal splits and seeds of noise.

    python benchmarks/corrections.py --data DIR --work DIR [--sets ecoli german adult sst2 ...] [--seeds 0 1 2]
        [--epsilons 1 2 4] [--neighbours replaced removed]

Sets are those of `arena.py`. Both runs have one epsilon: without a correction (`corrections=0`), votes and sums have
its share of the cost. Where the default has none (too few records), both are equal and the line says so. Prints a line
for each set, the mean difference with its standard error over seeds, and the mean over sets.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

from arena import REMOVED, REPLACED, Contest, contest
from ostrakon.options.options import Options
from ostrakon.planning.defaults import default_delta
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.steps import run_steps
from ostrakon.run.storage import Storage
from ostrakon.validation import InvalidInput


def scores(held: Contest, epsilon: float, neighbours: str, seed: int, *, corrected: bool) -> tuple[float, float, bool]:
    """Return accuracy in %, log loss, and whether the student was corrected."""
    asked = {} if corrected else {"mechanism": "moment-gnmax", "parameters": {"corrections": 0}}
    delta = default_delta(len(held.y))
    options = Options(epsilon=epsilon, delta=delta, neighbours=neighbours, seed=seed, **asked)
    task = Task(
        private=Rows(X=held.X, y=held.y.astype(np.int64)),
        classes=tuple(map(str, range(held.classes))),
        X_public=held.X_public,
        X_test=held.X_test,
        y_test=held.y_test,
    )
    done = run_steps(task, options, Storage(), rng=np.random.default_rng([seed, round(1000 * epsilon)]))
    likely = np.full((len(held.y_test), held.classes), 1e-6)
    likely[:, [int(label) for label in done.student.classes_]] += done.student.predict_proba(held.X_test)
    likely /= likely.sum(axis=1, keepdims=True)
    accuracy = 100 * float(np.mean(likely.argmax(axis=1) == held.y_test))
    loss = float(log_loss(held.y_test, likely, labels=np.arange(held.classes)))
    return accuracy, loss, done.plan.mechanism.correction_noise is not None


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
                        *with_it, corrected = scores(held, epsilon, neighbours, seed, corrected=True)
                        *without, _ = scores(held, epsilon, neighbours, seed, corrected=False)
                    except InvalidInput:
                        continue
                    found.append((*np.subtract(with_it, without), corrected))
                if not found:
                    continue
                mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / len(found) ** 0.5
                means.append(mean)
                print(
                    f"one record {neighbours}, epsilon {epsilon:g}, {name}: accuracy {mean[0]:+.1f} ± {error[0]:.1f}, "
                    f"log loss {mean[1]:+.3f} ± {error[1]:.3f}, corrected in {mean[2]:.0%} of {len(found)} runs",
                    flush=True,
                )
            total = np.mean(means, axis=0)
            print(f"mean of {len(means)} sets: accuracy {total[0]:+.2f}, log loss {total[1]:+.4f}\n", flush=True)


if __name__ == "__main__":
    main()
