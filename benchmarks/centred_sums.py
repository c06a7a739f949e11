"""Sums of features centred over the classes, and sums of each class alone, at the same price and noise.

    python benchmarks/centred_sums.py --data DIR --work DIR [--sets ecoli sst2 ...] [--seeds 0 1] [--draws 6]
        [--epsilons 0.5 1 2]

Simulated in memory with the noise of a plan and the student `moments` alone: accuracy on test rows and, with two
classes, AUC. Half of the cost pays for the sums of a table, 0.8 for those of SST-2. --work stores embeddings.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from arena import TEXTS, contest
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.features.moments import MomentMap, worth_their_noise
from ostrakon.mechanisms import MomentGNMax
from ostrakon.planning.defaults import SUMS_OF_EMBEDDINGS, default_delta
from ostrakon.run.stages.features import view_of
from ostrakon.students.moment_students import MomentLogistic, ReleasedMoments
from ostrakon.students.selection import Released

TABLES = (
    *("breast-cancer", "german", "haberman", "horse-colic", "ionosphere", "oil-spill", "pima-indians-diabetes"),
    *("ecoli", "winequality-red"),
)


def scored(held: Any, view: Any, noise: float, *, centred: bool, rng: np.random.Generator) -> tuple[float, float]:
    """Accuracy and AUC (NaN for more than two classes) of one draw, in per cent."""
    classes = held.classes if centred else None
    known = MomentMap.of(view.public, most=worth_their_noise(len(held.y), noise), classes=classes)
    steps = known.unrounded(view.transform(held.X))
    sums = np.stack([steps[held.y == label].sum(axis=0) for label in range(held.classes)], axis=1)
    if known.classes is not None:
        sums = sums - sums.mean(axis=1, keepdims=True)
    sums = sums + rng.normal(scale=noise, size=sums.shape)
    moments = ReleasedMoments(sums=sums, sigma=noise, records=len(held.y), directions=known)
    nothing = Released(queries=np.arange(0), counts=np.empty((0, held.classes)), moments=moments)
    likely = MomentLogistic().fit_moments(view.public, nothing).predict_proba(view.transform(held.X_test))
    area = roc_auc_score(held.y_test, likely[:, 1]) if held.classes == 2 else np.nan
    return 100 * float(np.mean(likely.argmax(axis=1) == held.y_test)), 100 * float(area)


def main() -> None:
    """Print a line for each set and epsilon, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(TABLES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0])
    given = parser.parse_args()
    everything = []
    for epsilon in given.epsilons:
        for name in given.sets:
            found = []
            for seed in given.seeds:
                held = contest(name, given.data, given.work, seed, 0)
                view = view_of(held.X_public, held.representation, seed=seed)
                share = SUMS_OF_EMBEDDINGS if name in TEXTS else 0.5
                price = {"epsilon": epsilon, "queries": len(view.public), "delta": default_delta(len(held.y))}
                noise = calibrate(MomentGNMax(sigma2=10.0, moments=share), **price).moment_noise
                assert noise is not None
                for draw in range(given.draws):
                    both = (
                        scored(held, view, noise, centred=way, rng=np.random.default_rng([seed, draw]))
                        for way in (False, True)
                    )
                    found.append([*both])
            of_set = np.mean(found, axis=0)
            everything.append([epsilon, *of_set.ravel()])
            print(f"| {name} | {epsilon:g} | {' | '.join(f'{a:.1f} / {u:.1f}' for a, u in of_set)} |", flush=True)
        lines = np.array([line[1:] for line in everything if line[0] == epsilon])
        print(f"| mean | {epsilon:g} | {' | '.join(f'{number:.2f}' for number in np.nanmean(lines, axis=0))} |")


if __name__ == "__main__":
    main()
