"""Membership audit of the whole pipeline: can a student tell whether one person's records were in the training data?

    python benchmarks/membership_audit.py [--runs 1000] [--epsilon 2 ...] [--noise 1 0.1] [--processes 2]

The demo task (30,000 images of letters, 250 teachers) with one more person, whose 120 images all carry the next
letter's label: as many as her whole shard holds besides, and as misleading as labels can be. The pipeline is run with
her and without her. By the keyed hash she belongs to one teacher, so all other teachers are the same with and without
her (checked here, vote by vote); the ensembles are therefore trained once each, and the meeting (fresh noise from the
cryptographic source) and the student's training are repeated `--runs` times each.

Two adversaries who know everything but the noise: one sees the student's probabilities on the public pool, and learns
from the first half of the runs what her presence changes (logistic regression); the other sees the released answers
and knows both vote histograms (the most powerful test there is). Each commits to a threshold on a quarter of the runs;
the last quarter gives the lower bound on epsilon, Clopper-Pearson at 95%, beside the epsilon that the run claims.
Peer in the same run: the same audit of the same pipeline with a tenth of the noise.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

import ostrakon as qr
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.audit import certified_epsilon
from ostrakon.data.datasets import glyphs
from ostrakon.noise import secure_rng
from ostrakon.run.noise_log import MemoryLog
from ostrakon.run.settings.learners import default_student, make_student
from ostrakon.run.settings.plan import Plan, Request, make_plan
from ostrakon.run.stages.features import View, view_of
from ostrakon.run.stages.student import answer_queries, student_labels

TEACHERS, PRIVATE, PUBLIC, RECORDS, SEED = 250, 30_000, 4_000, 120, 0


def trained(data, extra, *, epsilon: float, with_her: bool) -> qr.PATEClassifier:
    """The pipeline's teachers and votes, with or without the extra person's rows."""
    rows = len(data.y) + (len(extra.y) if with_her else 0)
    X = np.concatenate([data.X, extra.X])[:rows]
    y = np.concatenate([data.y, (extra.y + 1) % len(data.classes)])[:rows]
    users = np.concatenate([np.arange(len(data.y)), np.full(len(extra.y), -1)])[:rows]
    model = qr.PATEClassifier(
        n_teachers=TEACHERS, epsilon=epsilon, classes=list(range(len(data.classes))), delta=1e-5, random_state=SEED
    )
    return model.fit(X, y, X_public=data.X_public, users=users)


def run_once(plan: Plan, view: View, votes: qr.Votes, queries: np.ndarray) -> tuple:
    """(released answers, the student's probabilities on the asked public rows) of one fresh run."""
    student = make_student(default_student(view.name), seed=SEED)
    settings = {"queries": queries, "X_student": view.public, "fresh_student": student, "log": MemoryLog()}
    answers = answer_queries(plan, votes, rng=secure_rng(), **settings)
    labels = student_labels(answers, queries, len(view.public))
    student.fit(view.public, labels)
    known = np.zeros((len(queries), votes.classes), np.float32)
    known[:, np.asarray(student.classes_)] = student.predict_proba(view.public[queries])
    return answers.labels, known


def audit(scores: np.ndarray, *, delta: float) -> tuple[float, float]:
    """(AUC, certified epsilon) of scores (2, runs): threshold from the first half, bound from the other."""
    auc = roc_auc_score(np.repeat([1, 0], scores.shape[1]), scores.ravel())
    half = scores.shape[1] // 2

    def bounds(values: np.ndarray, thresholds: np.ndarray, sign: int) -> np.ndarray:
        hits = (sign * values[:, :, None] >= thresholds).sum(axis=1)
        hits = hits if sign > 0 else hits[::-1]
        return certified_epsilon(hits[0], hits[1], samples=values.shape[1], delta=delta, confidence=0.95)

    best = (-1.0, 0.0, 1)
    for sign in (1, -1):
        thresholds = np.unique(sign * scores[:, :half])
        found = bounds(scores[:, :half], thresholds, sign)
        best = max(best, (float(found.max()), float(thresholds[found.argmax()]), sign))
    return float(auc), float(bounds(scores[:, half:], np.array([best[1]]), best[2])[0])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--epsilon", type=float, nargs="*", default=[2.0])
    options.add_argument("--noise", type=float, nargs="*", default=[1.0, 0.1])
    options.add_argument("--processes", type=int, default=2)
    chosen = options.parse_args()
    data = glyphs(PRIVATE, PUBLIC, 1, random_state=SEED, system_fonts=False)
    extra = glyphs(RECORDS, 1, 1, random_state=SEED + 1, wrong_labels=0, system_fonts=False)
    print("| run, delta 1e-5 | seen by the adversary | AUC | certified epsilon | claimed epsilon |")
    print("|---|---|---|---|---|")
    for epsilon in chosen.epsilon:
        compare_with_and_without(
            data, extra, epsilon=epsilon, runs=chosen.runs, noise=chosen.noise, processes=chosen.processes
        )


def compare_with_and_without(data, extra, *, epsilon: float, runs: int, noise: list[float], processes: int) -> None:
    started = time.perf_counter()
    models = [trained(data, extra, epsilon=epsilon, with_her=with_her) for with_her in (True, False)]
    queries = models[0].queries_
    assert np.array_equal(queries, models[1].queries_)
    votes = [model.votes_ for model in models]
    moved = np.abs(votes[0].counts - votes[1].counts).sum(axis=1)
    assert moved.max() <= 2, "one person changed more than one teacher"
    view = view_of(data.X_public, seed=SEED)
    request = Request(teachers=TEACHERS, epsilon=epsilon, delta=1e-5)
    plan = make_plan(request, units=len(data.y) + 1, pool=len(data.X_public), classes=10, unit="user")
    assert plan.mechanism == models[0].mechanism_ == models[1].mechanism_
    changed = int((moved > 0).sum())
    with Parallel(n_jobs=processes) as parallel:
        for share in noise:
            asked, name = scaled(plan, share), "the pipeline" if share == 1 else f"{share:g} of its noise"
            done = [parallel(delayed(run_once)(asked, view, cast, queries) for _ in range(runs)) for cast in votes]
            for seen, (auc, bound) in audited(done, votes, asked).items():
                print(f"| {name} | {seen} | {auc:.3f} | {bound:.3f} | {asked.bound.epsilon:.3f} |", flush=True)
    print(
        f"\n{plan.queries} queries, {plan.max_answers} answers at most, {plan.mechanism}; her presence moves her "
        f"teacher's vote on {changed} of them. {runs} runs with and {runs} without her, "
        f"{time.perf_counter() - started:.0f} s.\n",
        flush=True,
    )


def scaled(plan: Plan, share: float) -> Plan:
    """The same plan with all its noise multiplied, and the worst case of that."""
    sigmas = {name: value * share for name, value in plan.mechanism.parameters().items() if name.startswith("sigma")}
    mechanism = replace(plan.mechanism, **sigmas)
    bound = worst_case(
        mechanism,
        queries=plan.queries,
        delta=plan.delta,
        max_answers=plan.max_answers,
        teachers=plan.teachers,
        classes=plan.classes,
    )
    return replace(plan, mechanism=mechanism, bound=bound)


def audited(done: list, votes: list[qr.Votes], plan: Plan) -> dict[str, tuple[float, float]]:
    """(AUC, certified epsilon) of both adversaries."""
    answers = np.array([[run[0] for run in side] for side in done])
    known = np.array([[run[1].ravel() for run in side] for side in done])
    law = [plan.mechanism.log_probabilities(cast) for cast in votes]
    ratio = np.clip(law[0] - law[1], -50, 50)[np.arange(votes[0].queries), answers].sum(axis=2)
    runs = answers.shape[1]
    half = runs // 2
    learner = make_pipeline(PCA(min(100, half)), LogisticRegression(C=0.01, max_iter=2000))
    learner.fit(known[:, :half].reshape(2 * half, -1), np.repeat([1, 0], half))
    scores = learner.decision_function(known[:, half:].reshape(2 * (runs - half), -1)).reshape(2, -1)
    return {
        "the student's probabilities": audit(scores, delta=plan.delta),
        "all answers, both histograms known": audit(ratio, delta=plan.delta),
    }


if __name__ == "__main__":
    main()
