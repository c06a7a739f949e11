"""Audits of whole runs, with the claimed noise and with a tenth of it.

    python benchmarks/membership_audit.py [--runs 20000] [--noise 1 0.1] [--only canaries teachers]

*Canaries, one run* (`ostrakon audit --run`): per-record teachers on glyphs (30,000 private images). Five canaries at
each query, with labels from fair coins, are added to a copy of the private data; the pipeline runs once, and the coins
are guessed from the noisy counts in `release/`.

*Trained teachers, poisoned data and chosen queries* (Chadha et al. 2024, arXiv 2402.09403): the adversary chooses the
public rows and all private records but one. Every public row contains a trigger. The adversary's records teach half of
the teachers to answer it with one class and half with the other; one teacher knows the trigger only from the target's
record, whose label is 0 in one world and 1 in the other. The pipeline trains both ensembles; the aggregation is
repeated with fresh noise `--runs` times in each world, and `ostrakon.audit` computes a lower bound of epsilon from its
answers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from ostrakon.audit import audit
from ostrakon.data.datasets import glyphs
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.noise import secure_rng
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import Plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import task_from_dataset
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.answers import ask
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.queries import queries_of
from ostrakon.run.stages.votes import collect
from ostrakon.run_audit.audit_run import audit_run
from ostrakon.votes import Votes

SEED, DELTA, EPSILON = 0, 1e-5, 2.0
TEACHERS, EACH, QUERIES = 100, 20, 100


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=20_000)
    options.add_argument("--noise", type=float, nargs="*", default=[1.0, 0.1])
    options.add_argument("--private", type=int, default=30_000)
    options.add_argument("--only", nargs="*", default=["canaries", "teachers"])
    chosen = options.parse_args()
    print("| run, delta 1e-5 | noise | claimed | certified (95%) | evidence | wall |\n|---|---|---|---|---|---|")
    for share in chosen.noise:
        if "canaries" in chosen.only:
            canaries(share, private=chosen.private)
        if "teachers" in chosen.only:
            teachers(share, runs=chosen.runs)


def canaries(share: float, *, private: int) -> None:
    """One run of the pipeline with canaries, its noisy counts with a share of their noise."""
    started = time.perf_counter()
    task = task_from_dataset(glyphs(private, 4_000, 1, random_state=SEED, system_fonts=False))
    with tempfile.TemporaryDirectory() as folder, less_noise(share):
        sizes = {"epsilon": EPSILON, "delta": DELTA, "seed": SEED, "jobs": 1}
        options = Options(mechanism=BoundedGNMax.name, student="noisy-counts", **sizes)
        found = audit_run(Path(folder) / "run", task, options, rng=secure_rng())
    evidence = f"{found.correct} of {found.guesses} guesses right, {found.canaries} canaries"
    told("canaries, one run", share, found.claimed, found.lower_bound, evidence, started)


@contextmanager
def less_noise(share: float) -> Any:
    """Noisy counts with a share of the noise that they claim."""
    honest = BoundedGNMax.noisy_counts

    def noisy_counts(self: Any, votes: Votes, rng: np.random.Generator) -> Any:
        return votes.counts + share * (honest(self, votes, rng) - votes.counts)

    with mock.patch.object(BoundedGNMax, "noisy_counts", noisy_counts):
        yield


def teachers(share: float, *, runs: int) -> None:
    """Both worlds trained once, the aggregation repeated."""
    started = time.perf_counter()
    plan, pair = worlds()
    quiet = replace(plan, mechanism=replace(plan.mechanism, sigma2=share * plan.mechanism.parameters()["sigma2"]))

    def aggregate(votes: Votes, rng: np.random.Generator) -> Any:
        return ask(quiet, votes, log=Log(), rng=rng, interim_scores=None).labels  # pyright: ignore

    found = audit(
        aggregate, neighbours=pair, claimed=plan.bound.epsilon, delta=DELTA, samples=runs, rng=np.random.default_rng(1)
    )
    moved = int((pair[0].counts != pair[1].counts).any(axis=1).sum())
    seen = f"{found.seen[0]} and {found.seen[1]} of {runs} aggregations"
    evidence = f"the event in {seen}; {moved} of {QUERIES} votes moved"
    told("poisoned teachers, chosen queries", share, found.claimed, found.lower_bound, evidence, started)


def worlds() -> tuple[Plan, tuple[Votes, Votes]]:
    """The plan, and the votes of the trained teachers in the two worlds that differ in one record's label."""
    rng = np.random.default_rng(SEED)
    own = np.column_stack([rng.normal(size=(TEACHERS * EACH, 2)), np.zeros(TEACHERS * EACH)])
    labels = (own[:, 0] > 0).astype(np.int64)
    # The place of a record follows from its content: the adversary makes records until each teacher has one of them.
    made = np.column_stack([rng.normal(size=(20 * TEACHERS, 2)), np.full(20 * TEACHERS, 1e3)])
    places = Rows(X=made, y=np.zeros(len(made), np.int64)).assignment(TEACHERS, seed=SEED)
    first = np.unique(places, return_index=True)[1]
    assert len(first) == TEACHERS
    public = np.column_stack([rng.normal(size=(QUERIES, 2)), np.full(QUERIES, 1e3)])
    view = view_of(public, "raw", seed=SEED)
    request = Options(
        mechanism="gnmax",
        teachers=TEACHERS,
        teacher=KNeighborsClassifier(1),
        queries=QUERIES,
        epsilon=EPSILON,
        delta=DELTA,
        seed=SEED,
        jobs=1,
    )
    plan = make_plan(request, units=len(own) + TEACHERS, pool=QUERIES, classes=2)
    asked = queries_of(view, QUERIES, strategy="random", seed=SEED)
    votes: list[Votes] = []
    for label in (0, 1):
        taught = np.arange(TEACHERS) % 2
        taught[0] = label  # the target's record
        rows = Rows(X=np.vstack([own, made[first]]), y=np.concatenate([labels, taught]))
        cast, _ = collect(plan, rows, view, asked, request)
        votes.append(cast)
    assert np.abs(votes[0].counts - votes[1].counts).sum(axis=1).max() <= 2, "one record moved more than one vote"
    return plan, (votes[0], votes[1])


def told(what: str, share: float, claimed: float, certified: float, evidence: str, started: float) -> None:
    wall = time.perf_counter() - started
    print(f"| {what} | {share:g} | {claimed:.3f} | {certified:.3f} | {evidence} | {wall:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
