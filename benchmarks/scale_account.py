"""Pricing at scale: the gate, `account`, its first start, and the published analysis, each in its own process.

    python benchmarks/scale_account.py [--data DIR] [--part NAME] [--sigma2 400]

Votes of the large size: 12,000 queries, 150 classes, 5,000 teachers, Dirichlet-multinomial with a mean plurality of
83%; the gate is planned on votes of another seed. CPU seconds of all threads, for the whole process with imports (the
gate: without imports); MiB are the largest resident memory. --data: the folder with votes/*.npy (the published
analysis). Processes run three times and the smallest time is printed; the first start runs once, with an empty cache of
compiled code.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from exact_speed import dirichlet_multinomial
from ostrakon.accounting.gate.gate import Gate
from ostrakon.mechanisms import ConfidentGNMax
from ostrakon.votes import PublicVotes, Votes

LARGE = {"queries": 12_000, "classes": 150, "teachers": 5000}
PAPER = {
    "mnist": "n, a, b, law = 640, 14, .0329, dict(threshold=200, sigma1=150, sigma2=40)",
    "adult": "n, a, b, law = 1500, 15.5, .0281, dict(threshold=300, sigma1=200, sigma2=40)",
    "large": "n, a, b, law = 12_000, 20.5, .0205, dict(threshold=1000, sigma1=500, sigma2=100)",
}
ANALYSIS = """
import numpy as np, sys
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.papers.smooth_sensitivity import smooth_sensitivity
from ostrakon.mechanisms import ConfidentGNMax
from ostrakon.votes import Votes
{settings}
m = ConfidentGNMax(**law)
votes = Votes(np.load(sys.argv[1])[:n].astype(np.int64))
orders = np.append(np.arange(2, 50, .5), [64, 128, 256])
epsilon = published_curve(votes, m, orders).epsilon(delta=1e-5, conversion="mironov")[0]
print(f"{{epsilon:.6g}} {{smooth_sensitivity(votes, m, order=a, smoothness=b):.6g}}")
"""


def part_gate(options: argparse.Namespace) -> None:
    """Plan, certify and release."""
    votes = PublicVotes(dirichlet_multinomial(**LARGE, plurality=0.83, seed=1))
    private = Votes(dirichlet_multinomial(**LARGE, plurality=0.83, seed=0))
    mechanism = ConfidentGNMax(threshold=3500, sigma1=1500, sigma2=options.sigma2)
    before = _used()[0]
    told: list[int] = []
    gate = Gate.plan(votes, mechanism, delta=1e-5, report=lambda done, total: told.append(done))
    planned = _used()[0]
    epsilon = gate.certificate().epsilon
    gate.release(private, np.random.default_rng(0))
    seconds, mebibytes = _used()
    print(
        f"| gate, sigma2 {options.sigma2:g} (epsilon {epsilon:.4g}; {len(told)} reports of progress): plan "
        f"{planned - before:.1f} s, certificate and release {seconds - planned:.1f} s | {seconds - before:.1f} s "
        f"| {mebibytes:.0f} MiB |"
    )


def part_account(options: argparse.Namespace) -> None:
    """The command on the same votes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "votes.npy"
        np.save(file, dirichlet_multinomial(**LARGE, plurality=0.83, seed=0))
        arguments = _account(file, threshold=3500, sigma1=1500, sigma2=options.sigma2)
        _row(f"account, the same votes, sigma2 {options.sigma2:g}", arguments, repeats=3)


def part_cold(options: argparse.Namespace) -> None:
    """The command on five queries."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "votes.npy"
        np.save(file, dirichlet_multinomial(queries=5, classes=10, teachers=250, plurality=0.83, seed=0))
        arguments = _account(file, threshold=200, sigma1=150, sigma2=40)
        _row("account, five queries, first ever", arguments, repeats=1, NUMBA_CACHE_DIR=str(Path(folder) / "cache"))
        _row("account, five queries, later", arguments, repeats=3)


def part_published(options: argparse.Namespace) -> None:
    """Data-dependent epsilon and smooth sensitivity as the 2018 paper has them."""
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "votes.npy"
        np.save(large, dirichlet_multinomial(**LARGE, plurality=0.83, seed=0))
        for name, settings in PAPER.items():
            if name != "large" and options.data is None:
                continue
            file = large if name == "large" else options.data / "votes" / f"{name}_250_teachers.npy"
            arguments = ["-c", ANALYSIS.format(settings=settings), str(file)]
            _row(f"published epsilon and smooth sensitivity, {name}", arguments, repeats=3)


def _account(file: Path, *, threshold: float, sigma1: float, sigma2: float) -> list[str]:
    law = f"--threshold {threshold} --sigma1 {sigma1} --sigma2 {sigma2}"
    return ["-m", "ostrakon", "account", str(file), "--kind", "counts", *law.split()]


def _row(name: str, arguments: list[str], *, repeats: int, **environment: str) -> None:
    """Run Python with these arguments and print a row of the smallest time; what it says on stderr is shown."""
    program = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)"
    )
    found: list[tuple[float, float]] = []
    for _ in range(repeats):
        command = [sys.executable, "-c", program, sys.executable, *arguments]
        run = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True)
        seconds, mebibytes = map(float, run.stdout.split())
        found.append((seconds, mebibytes))
    seconds, mebibytes = min(found)
    print(f"| {name} | {seconds:.2f} s | {mebibytes:.0f} MiB |", flush=True)


def _used() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


PARTS = {name[5:]: part for name, part in globals().items() if name.startswith("part_")}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--sigma2", type=float, default=400)
    options = parser.parse_args()
    if options.part:
        PARTS[options.part](options)
        return
    print("| what | processor | memory |\n|---|---|---|", flush=True)
    for name in PARTS:
        subprocess.run([sys.executable, __file__, "--part", name, *sys.argv[1:]], check=True)


if __name__ == "__main__":
    main()
