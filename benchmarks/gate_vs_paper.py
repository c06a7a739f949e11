"""The gate on the published votes, what the 2018 paper prints, and what holds without a gate.

    python benchmarks/gate_vs_paper.py VOTES_FOLDER

VOTES_FOLDER holds mnist_250_teachers.npy and adult_250_teachers.npy. These votes are public, so gates may be planned on
them. Two other gates are planned on as many queries after those of the run, and on simulated votes of the same
plurality and dispersion. "Passes" is always the probability for the votes of the run.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from ostrakon.accounting.account import EFFORT
from ostrakon.accounting.calibration.gated import calibrate_gate
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.sanitizer import Sanitizer
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.accounting.rdp import DEFAULT_ORDERS
from ostrakon.mechanisms import ConfidentGNMax
from ostrakon.votes import PublicVotes, Votes

DELTA = 1e-5
RUNS = [
    ("MNIST", "mnist", 640, ConfidentGNMax(threshold=200, sigma1=150, sigma2=40), "2.52 ± .385"),
    ("Adult", "adult", 1500, ConfidentGNMax(threshold=300, sigma1=200, sigma2=40), "2.09 ± .263"),
]


def consensus_of(votes: PublicVotes) -> tuple[float, float]:
    """(plurality, dispersion) of public votes, by moments, for `simulate_votes`."""
    share = votes.top / votes.teachers
    mean = float(np.clip(share.mean(), 1e-3, 1 - 1e-3))
    own = mean * (1 - mean) / votes.teachers  # the spread that a finite number of teachers causes
    spread = (float(share.var()) - own) / (mean * (1 - mean) - own)
    return mean, float(np.clip(spread, 1e-3, 1 - 1e-3))


def fewer(votes: PublicVotes, teachers: int) -> Votes:
    """The votes where, on every query, this number of teachers vote for the runner-up instead of the winner."""
    counts, rows = votes.counts.copy(), np.arange(votes.queries)
    first, second = np.argsort(-counts, axis=1, kind="stable")[:, :2].T
    moved = np.minimum(counts[rows, first], teachers)
    counts[rows, first] -= moved
    counts[rows, second] += moved
    return Votes(counts, teachers=votes.teachers)


def main(folder: Path) -> None:
    print(
        "| run | paper, Table 2 | Gaussian DP | worst case | data-dependent "
        "| sanitized ± sd (upper) | gate | passes | six teachers fewer | planned on held-out votes "
        "| planned on simulated votes |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for title, name, queries, mechanism, printed in RUNS:
        both = np.load(folder / f"{name}_250_teachers.npy")[: 2 * queries]
        votes, others = PublicVotes(both[:queries]), PublicVotes(both[queries:])
        check, answer = mechanism.gaussian_dp()
        gaussian = gaussian_dp_epsilon((queries * (check**2 + answer**2)) ** 0.5, DELTA)
        shape = {"queries": queries, "delta": DELTA, "teachers": 250, "classes": votes.classes}
        worst = worst_case(mechanism, **shape, adaptive=True, effort=EFFORT).epsilon
        local = exact_curve(votes, mechanism, DEFAULT_ORDERS).epsilon(delta=DELTA)[0]
        clean = Sanitizer.plan(votes, mechanism, delta=DELTA).expected(votes)
        start = time.process_time()
        gate = Gate.plan(votes, mechanism, delta=DELTA)
        seconds = time.process_time() - start
        held_out = Gate.plan(others, mechanism, delta=DELTA)
        plurality, dispersion = consensus_of(votes)
        model = simulate_votes(
            np.random.default_rng(0),
            queries=queries,
            teachers=250,
            classes=votes.classes,
            plurality=round(plurality, 2),
            dispersion=round(dispersion, 2),
        )
        planned = Gate.plan(model, mechanism, delta=DELTA)
        print(
            f"| {title} {queries} | {printed} | {gaussian:.3f} | {worst:.3f} | {local:.3f} "
            f"| {clean.mean:.3f} ± {clean.sd:.3f} ({clean.upper:.3f}) "
            f"| {gate.certificate().epsilon:.3f} ({len(gate.levels)} scores; {seconds:.1f} s) "
            f"| {gate.pass_probability(votes):.4f} | {gate.pass_probability(fewer(votes, 6)):.3f} "
            f"| {held_out.certificate().epsilon:.3f}, passes {held_out.pass_probability(votes):.5f} "
            f"| {planned.certificate().epsilon:.3f}, passes {planned.pass_probability(votes):.3f} |",
            flush=True,
        )
    votes = PublicVotes(np.load(folder / "mnist_250_teachers.npy")[:400])
    mechanism = RUNS[0][3]
    gate = Gate.plan(votes, mechanism, delta=DELTA, epsilon=1.0)

    def answers(queries: int) -> float:
        return float(ndtr((votes[:queries].top - 200) / 150).sum())

    few = max(
        k
        for k in range(1, 401)
        if worst_case(mechanism, queries=k, delta=DELTA, teachers=250, classes=10).epsilon <= 1.0
    )
    print(f"MNIST within (1, 1e-5): the gate answers {answers(gate.queries):.0f} of {gate.queries} queries,")
    print(f"the worst case {answers(few):.0f} of {few}.")
    votes = PublicVotes(np.load(folder / "mnist_250_teachers.npy")[:640])
    for epsilon in (1.0, 1.5):
        quiet = calibrate_gate(votes, mechanism, epsilon=epsilon, delta=DELTA).mechanism
        plain = calibrate(mechanism, epsilon=epsilon, delta=DELTA, queries=640, teachers=250, classes=10)
        print(
            f"MNIST 640 queries at epsilon {epsilon:g}: sigma2 {quiet.sigma2:.1f} gated, {plain.sigma2:.1f} worst case"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
