"""Worst-case prices of labels: adaptive composition and other accountants, and the gain in accuracy.

    pip install dp-accounting==0.6.0 prv-accountant==0.2.0 riskcal==1.5.1 && python benchmarks/adaptive.py

Peers price the noisy histograms, as published accountants of PATE do: `queries` checks and as many answers as Gaussian
mechanisms. prv_accountant has no Gaussian mechanism without subsampling, so its sampling probability is 1. riskcal
converts the mu of Gaussian DP to error rates, here to the advantage; the adaptive price gives its own advantage from
the same profile.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from ostrakon.accounting.account import EFFORT
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_dependent.adaptive import adaptive_epsilon
from ostrakon.accounting.data_dependent.exact import exact_curve, moves
from ostrakon.accounting.data_independent.worst_case import run_mu, worst_case
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.mechanisms import ConfidentGNMax, ExponentialMechanism, LNMax
from ostrakon.mechanisms.base import FloatArray
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.papers import published_votes
from ostrakon.votes import Votes

DELTA = 1e-5
RUNS = {
    "MNIST, 640 queries": (ConfidentGNMax(threshold=200, sigma1=150, sigma2=40), 640, 10),
    "Adult, 1,500 queries": (ConfidentGNMax(threshold=300, sigma1=200, sigma2=40), 1500, 2),
}


def dp_accounting_rdp(mechanism: ConfidentGNMax, queries: int) -> float:
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    accountant.compose(GaussianDpEvent(mechanism.sigma1), queries)
    accountant.compose(GaussianDpEvent(mechanism.sigma2 / math.sqrt(2)), queries)
    return accountant.get_epsilon(DELTA)


def dp_accounting_pld(mechanism: ConfidentGNMax, queries: int) -> float:
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(GaussianDpEvent(mechanism.sigma1), queries)
    accountant.compose(GaussianDpEvent(mechanism.sigma2 / math.sqrt(2)), queries)
    return accountant.get_epsilon(DELTA)


def prv(mechanism: ConfidentGNMax, queries: int) -> float:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import GaussianMechanism

    parts = [GaussianMechanism(mechanism.sigma1), GaussianMechanism(mechanism.sigma2 / math.sqrt(2))]
    accountant = PRVAccountant(prvs=parts, max_self_compositions=[queries] * 2, eps_error=0.01, delta_error=1e-9)
    return accountant.compute_epsilon(DELTA, [queries] * 2)[2]


def ours(mechanism: ConfidentGNMax, queries: int, classes: int, *, adaptive: bool) -> float:
    sizes = {"queries": queries, "delta": DELTA, "teachers": 250, "classes": classes}
    return worst_case(mechanism, **sizes, adaptive=adaptive, effort=EFFORT if adaptive else 1).epsilon


def line(name: str, price: Callable[[], float]) -> None:
    start = time.process_time()
    try:
        epsilon = price()
    except ImportError as error:
        print(f"  {name:48} not installed: {error.name}")
        return
    print(f"  {name:48} {epsilon:8.3f} {time.process_time() - start:8.2f} s", flush=True)


def prices() -> None:
    for title, (mechanism, queries, classes) in RUNS.items():
        print(title)
        line("dp_accounting, Rényi", lambda m=mechanism, k=queries: dp_accounting_rdp(m, k))
        line("dp_accounting, privacy loss distribution", lambda m=mechanism, k=queries: dp_accounting_pld(m, k))
        line("prv_accountant", lambda m=mechanism, k=queries: prv(m, k))
        mu = run_mu(mechanism, queries=queries) or 0.0
        line("ostrakon, Gaussian DP", lambda mu=mu: gaussian_dp_epsilon(mu, DELTA))
        line("ostrakon, Rényi", lambda m=mechanism, k=queries, c=classes: ours(m, k, c, adaptive=False))
        line("ostrakon, adaptive", lambda m=mechanism, k=queries, c=classes: ours(m, k, c, adaptive=True))
        try:
            from riskcal.analysis import get_advantage_from_gdp

            print(f"  {'riskcal, advantage of the Gaussian DP':48} {get_advantage_from_gdp(mu):8.3f}")
        except ImportError:
            print("  riskcal is not installed")


def other_labels() -> None:
    print("100 queries, 250 teachers, ten classes and two: without and with adaptive composition")
    mechanisms = (
        LNMax(gamma=0.05),
        ExponentialMechanism(epsilon_per_query=0.1),
        PermuteAndFlip(epsilon_per_query=0.1),
        ScreenedExponential(threshold=150, sigma1=25, epsilon_per_query=0.1),
        ProposeTestRelease(threshold=100, sigma1=17),
        ProposeTestRelease(threshold=100, epsilon_per_query=0.2),
    )
    for mechanism in mechanisms:
        for classes in (10, 2):
            sizes = {"queries": 100, "delta": DELTA, "teachers": 250, "classes": classes}
            plain, adaptive = (worst_case(mechanism, **sizes, adaptive=x, effort=EFFORT).epsilon for x in (False, True))
            print(f"  {mechanism.name:24} {classes:2} classes: {plain:.3f} {adaptive:.3f} {adaptive / plain - 1:+.0%}")


def affordable(mechanism: ConfidentGNMax, classes: int, epsilon: float, *, adaptive: bool, most: int) -> int:
    """The most queries within epsilon, found to 1%."""
    low, high = 1, most
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if ours(mechanism, middle, classes, adaptive=adaptive) <= epsilon else (low, middle)
    return low


def answers(data: Path) -> None:
    print("expected answers within epsilon: Rényi, adaptive")
    for title, (mechanism, _, classes) in RUNS.items():
        votes = published_votes.mnist(data) if classes == 10 else published_votes.adult(data)
        chance = 1 - np.exp(mechanism.log_probabilities(votes)[:, -1])
        for epsilon in (0.5, 1.0, 2.0):
            plain = affordable(mechanism, classes, epsilon, adaptive=False, most=votes.queries)
            better = affordable(mechanism, classes, epsilon, adaptive=True, most=min(votes.queries, 2 * plain))
            found = [float(chance[:k].sum()) for k in (plain, better)]
            run, gain = title.split(",")[0], found[1] / found[0] - 1
            before, after = (f"{k:5} queries, {n:6.1f} answers" for k, n in zip((plain, better), found, strict=True))
            print(f"  {run:6} {epsilon:4} {before}; {after}: {gain:+.0%}", flush=True)


def one_neighbour(votes: Votes, mechanism: ConfidentGNMax) -> tuple[FloatArray, FloatArray]:
    """The laws of every query under another data set and under the votes, (queries, outcomes): on each query the one
    vote is moved whose moment of order 18 is largest.
    """
    ordered = Votes(-np.sort(-votes.counts, axis=1), teachers=votes.teachers)
    own = np.exp(mechanism.log_probabilities(ordered))
    other, largest = own.copy(), np.zeros(len(own))
    for moved, rows in moves(ordered, named=False):
        law = np.exp(mechanism.log_probabilities(moved))
        likely = law > 1e-200
        moment = np.where(likely, law**18.0 * np.where(likely, own[rows], 1.0) ** -17.0, 0.0).sum(axis=1)
        better = moment > largest[rows]
        largest[rows[better]], other[rows[better]] = moment[better], law[better]
    return other, own


def least_epsilon(p: FloatArray, q: FloatArray) -> float:
    """A lower bound on the epsilon of answers with these laws: answers of nearly equal likelihood ratio count as one.

    A function of the answers reveals no more than they do, so the hockey-stick divergence can only fall.
    """
    step, middle = 2e-4, 10_000
    mass_p, mass_q = np.zeros((2, 2 * middle + 1))
    mass_p[middle] = mass_q[middle] = 1.0
    for law, other in zip(p, q, strict=True):
        with np.errstate(all="ignore"):
            ratio = np.where(mass_p > 0, np.log(mass_q / mass_p), 0.0)
        next_p, next_q = np.zeros((2, 2 * middle + 1))
        for a, b in zip(law[(law > 0) & (other > 0)], other[(law > 0) & (other > 0)], strict=True):
            at = np.clip(np.rint((ratio + math.log(b / a)) / step) + middle, 0, 2 * middle).astype(int)
            next_p += np.bincount(at, mass_p * a, 2 * middle + 1)
            next_q += np.bincount(at, mass_q * b, 2 * middle + 1)
        mass_p, mass_q = next_p, next_q
    return brentq(lambda e: np.maximum(mass_p - math.exp(e) * mass_q, 0).sum() - DELTA, 0.0, 2.0)


def private_costs(data: Path) -> None:
    print("data-dependent (private): the 2018 paper's bound, Rényi, adaptive; one fixed neighbour, below which none is")
    for title, (mechanism, queries, classes) in RUNS.items():
        votes = (published_votes.mnist(data) if classes == 10 else published_votes.adult(data))[:queries]
        by_curve = exact_curve(votes, mechanism).epsilon(delta=DELTA)[0]
        curve = published_curve(votes, mechanism, np.arange(2.0, 40.0, 0.5))
        paper = math.nan if curve is None else curve.epsilon(delta=DELTA)[0]
        adaptive = adaptive_epsilon(votes, mechanism, epsilon=by_curve, delta=DELTA)
        floor = least_epsilon(*one_neighbour(votes, mechanism))
        print(f"  {title:24} {paper:.3f} {by_curve:.3f} {adaptive:.4f} {floor:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with votes/, as the tests use")
    parser.add_argument("--private", action="store_true", help="the data-dependent costs alone")
    arguments = parser.parse_args()
    if arguments.private:
        private_costs(arguments.data)
        return
    prices()
    other_labels()
    private_costs(arguments.data)
    answers(arguments.data)


if __name__ == "__main__":
    main()
