"""Adult: accuracy of the student against the true (worst-case) epsilon, with more and smaller teachers.

    python benchmarks/adult_representatives.py --data DIR [--seeds 5] [--epsilons 0.5 1]

32,561 private records; one half of adult.test is public and unlabelled, the student is tested on the other half;
adult.test is halved anew for each seed. 500 logistic teachers of 65 records answer by plain GNMax the medoids of 640
public clusters, and the student learns from the answers alone. Noise is seeded so that it can be repeated.

--rehearse: how many representatives the noisy counts of per-record teachers are worth, and which penalty, in simulated
worlds (public rows, labels of random functions). K = records / (5 sigma), so that one has counts of five times the
noise, and a penalty of 0.3 (weights in units of sigma) did best.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import product

import numpy as np
from sklearn.linear_model import LogisticRegression

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.data.datasets import adult
from ostrakon.features import learn_representation, representatives
from ostrakon.mechanisms import BoundedGNMax, GNMax
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.teachers import collect_votes, train_teachers
from ostrakon.teachers.heads import HeadEnsemble
from ostrakon.teachers.per_record import nearest
from ostrakon.validation import InvalidInput

DELTA = 1e-5
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0)
TEACHERS, QUERIES = 500, 640


def rehearse(data: str, worlds: int) -> None:
    """Choose SIGNAL_TO_NOISE and the penalty in simulated worlds: public rows, labels of random functions."""
    from adult_choice import expected_accuracy, world

    pool = adult(data).X_public
    scores: dict[tuple[float, float, float], list[float]] = {}
    for seed in range(worlds):
        X, y, public, test, chance = world(pool, seed)
        order = representatives(public, 1280, random_state=seed)
        for times_noise, epsilon in product((5, 10, 20, 40), (0.2, 1.0)):
            sigma = calibrate(BoundedGNMax(sigma2=10), epsilon=epsilon, delta=DELTA, queries=1280).sigma2
            queries = order[: int(np.clip(len(y) / (times_noise * sigma), 20, len(order)))]
            counts = np.zeros((len(queries), 2))
            np.add.at(counts, (nearest(X, public[queries]), y), 1)
            noisy = counts + np.random.default_rng([seed, 2]).normal(0, sigma, counts.shape)
            for times in (0.3, 1.0, 3.0):
                student = NoisyCountStudent(LogisticRegression(C=times, max_iter=1000), representation="raw")
                student.fit_counts(public, queries, noisy, sigma2=sigma)
                score = expected_accuracy(student.predict(test), chance) - expected_accuracy(chance > 0.5, chance)
                scores.setdefault((epsilon, times_noise, times), []).append(100 * score)
        print(f"world {seed} done", flush=True)
    for (epsilon, times_noise, times), found in sorted(scores.items()):
        print(f"epsilon {epsilon}, times noise {times_noise}, C = {times}: {np.mean(found):.2f} points from the best")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--rehearse", action="store_true")
    given = parser.parse_args()
    if given.rehearse:
        rehearse(given.data, given.seeds)
        return
    best, found = [], defaultdict(list)
    sizes = {"queries": QUERIES, "delta": DELTA, "teachers": TEACHERS, "classes": 2}
    for seed in range(given.seeds):
        data = adult(given.data, random_state=seed)
        seen = learn_representation("table", data.X_public)
        public, private, test = seen.transform(data.X_public), seen.transform(data.X), seen.transform(data.X_test)
        best.append(LogisticRegression(max_iter=1000).fit(private, data.y).score(test, data.y_test))
        asked = representatives(public, QUERIES, random_state=seed)
        member = np.random.default_rng([seed, 1]).permutation(len(private)) % TEACHERS
        head = HeadEnsemble(kind="logistic", penalty=0.3)
        teachers = train_teachers(head, private, data.y, member, n_teachers=TEACHERS, classes=2)
        votes = collect_votes(teachers, public[asked])
        for epsilon in given.epsilons:
            try:
                mechanism = calibrate(GNMax(sigma2=0.16 * TEACHERS), epsilon=epsilon, **sizes)
            except InvalidInput as refused:
                print(f"epsilon {epsilon}: {refused}", flush=True)
                continue
            labels = mechanism.sample(votes, np.random.default_rng([seed, 3]))
            plain = LogisticRegression(C=0.1, max_iter=1000).fit(public[asked], labels)
            found[f"{epsilon:g} | {mechanism.sigma2:.1f}"].append(100 * plain.score(test, data.y_test))
    print("| epsilon | sigma | accuracy |")
    for about, scores in found.items():
        print(f"| {about} | {np.mean(scores):.1f} ± {np.std(scores):.1f} |")
    print("no privacy, logistic on all private records:", round(float(np.mean(best)), 4))


if __name__ == "__main__":
    main()
