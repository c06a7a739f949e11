"""Students of trained teachers by the price of their labels: adaptive composition or Gaussian DP of the counts.

    python benchmarks/answers_students.py --data DIR [--seeds 3] [--sets adult mnist]

250 teachers, Confident-GNMax with the noise and the number of answers of the default plan at each epsilon, and with the
largest number of answers that the same noise allows by Gaussian DP. Both use two queries per answer. Delta is 1e-5.
MNIST: 60,000 private images, test[:9000] public, test[9000:] test. Adult: half of adult.test public, half test.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import ostrakon
from ostrakon.accounting import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.worst_case import run_mu
from ostrakon.data.datasets import Dataset, adult, mnist
from ostrakon.mechanisms import Mechanism
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan

DELTA, TEACHERS = 1e-5, 250


def answers_by_gaussian_dp(mechanism: Mechanism, epsilon: float) -> int:
    """Return the most answers, of twice as many queries, whose noisy counts cost at most epsilon."""
    answers = 0
    while True:
        mu = run_mu(mechanism, queries=2 * answers + 2, max_answers=answers + 1)
        if mu is None or gaussian_dp_epsilon(mu, DELTA) > epsilon:
            return answers
        answers += 1


def accuracy(data: Dataset, mechanism: Mechanism, answers: int, seed: int) -> float:
    """Return the percentage of test rows on which a student of this number of answers is right."""
    model = ostrakon.PATEClassifier(
        classes=list(np.unique(data.y)),
        n_teachers=TEACHERS,
        mechanism=mechanism,
        n_queries=2 * answers,
        max_answers=answers,
        delta=DELTA,
        random_state=seed,
        noise=np.random.default_rng(seed),
        n_jobs=-1,
    ).fit(data.X, data.y, X_public=data.X_public)
    return 100 * float((model.predict(data.X_test) == data.y_test).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=["adult"], help="adult, mnist (minutes a fit)")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    given = parser.parse_args()
    for name in given.sets:
        path, seeds = given.data / name, range(given.seeds)
        splits = [mnist(path)] * len(seeds) if name == "mnist" else [adult(path, random_state=seed) for seed in seeds]
        data = splits[0]
        sizes = {"units": len(data.X), "pool": len(data.X_public), "classes": len(np.unique(data.y))}
        for epsilon in given.epsilons:
            options = Options(mechanism="confident-gnmax", epsilon=epsilon, delta=DELTA, teachers=TEACHERS)
            plan = make_plan(options, **sizes)
            assert plan.max_answers is not None
            for answers in (answers_by_gaussian_dp(plan.mechanism, epsilon), plan.max_answers):
                found = [accuracy(split, plan.mechanism, answers, seed) for seed, split in enumerate(splits)]
                spread = np.std(found, ddof=1) if len(found) > 1 else 0.0
                print(f"{name}, {epsilon:g}: {answers} answers, {np.mean(found):.2f} ± {spread:.2f}", flush=True)


if __name__ == "__main__":
    main()
