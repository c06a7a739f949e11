"""The default of images where classes are many: 150 characters of the fonts at hand, per-record teachers.

    python benchmarks/many_classes.py [--private 200000] [--public 12000] [--classes 150] [--students NAME ...]

Prints what the default kept and why (its agreement on held-out counts), its accuracy on 2,000 test images, and that of
students that are named, on the same counts; beside them, how many of the queries' largest counts are right. Noise is
seeded so that it can be repeated.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from ostrakon.data.datasets import glyphs
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.student import answer_queries, fit_student
from ostrakon.run.stages.votes import collect, queries_of


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--private", type=int, default=200_000)
    parser.add_argument("--public", type=int, default=12_000)
    parser.add_argument("--classes", type=int, default=150)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--students", nargs="*", default=["svm-rbf(C=1.0)", "label-spreading"])
    given = parser.parse_args()
    start = time.process_time()

    def say(*told: object) -> None:
        print(*told, f"({time.process_time() - start:.0f} CPU s so far)", flush=True)

    data = glyphs(given.private, given.public, 2_000, n_classes=given.classes, random_state=given.seed)
    say("images are drawn")
    view = view_of(data.X_public, seed=given.seed)
    plan = make_plan(Options(epsilon=given.epsilon), units=given.private, pool=given.public, classes=len(data.classes))
    queries = queries_of(view, plan.queries, strategy="representatives", seed=given.seed)
    votes, _ = collect(plan, Rows(X=data.X, y=data.y), view, queries, Options(seed=given.seed))
    say(plan.mechanism, f"{plan.queries} queries: votes are collected")
    test = np.asarray(view.transform(data.X_test), np.float64)
    for name in ("auto", *given.students):
        learning = Learning(X_public=data.X_public, view=view, student=name, seed=given.seed)
        rng = np.random.default_rng(given.seed)
        answers = answer_queries(plan, votes, queries=queries, learning=learning, log=Log(), rng=rng)
        if name == "auto":
            assert answers.counts is not None
            right = np.mean(answers.counts.argmax(axis=1) == data.y_public[queries])
            say(f"of the largest counts {right:.1%} are right")
        selection = fit_student(learning, plan, answers, queries)
        rows = data.X_test if selection.chosen.takes_rows else test
        accuracy = np.mean(selection.student.predict(rows) == data.y_test)
        say(f"{name}: {selection.chosen.name} {accuracy:.1%}; agreement {selection.agreement}")


if __name__ == "__main__":
    main()
