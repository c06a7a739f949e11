"""Few images: the default student beside named ones, networks on pixels among them.

    python benchmarks/image_students.py --data DIR [--sets mnist cifar10] [--private 5000] [--public 1000]
        [--epsilons 1] [--seeds 0] [--students auto graph]

Runs as a user gets them, with seeded noise; one record replaced. DIR holds mnist/ and cifar10.zip. Printed: accuracy on
the test images and the processor seconds of the run.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from arena import REPLACED, Contest, run_of
from ostrakon.data.datasets import cifar10, mnist
from ostrakon.planning.defaults import default_delta

STUDENTS = ("auto", "cnn(network='quick-cnn',steps=1000)")


def contest(name: str, given: argparse.Namespace, seed: int) -> Contest:
    """Some private and public images, and all test images."""
    data: Any = mnist(given.data / "mnist") if name == "mnist" else cifar10(given.data, random_state=seed)
    rng = np.random.default_rng([seed, 5])
    some, public = (
        rng.permutation(len(of))[:most] for of, most in ((data.X, given.private), (data.X_public, given.public))
    )
    parts = {"X": data.X[some], "y": data.y[some], "X_public": data.X_public[public]}
    return Contest(**parts, X_test=data.X_test, y_test=data.y_test, classes=10)


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=("mnist", "cifar10"), default=["mnist", "cifar10"])
    parser.add_argument("--private", type=int, default=5000)
    parser.add_argument("--public", type=int, default=1000)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--students", nargs="+", default=STUDENTS)
    given = parser.parse_args()
    for name in given.sets:
        for seed in given.seeds:
            held = contest(name, given, seed)
            for epsilon in given.epsilons:
                for student in given.students:
                    started = time.process_time()
                    done = run_of(held, epsilon, REPLACED, default_delta(len(held.y)), seed, student=student)
                    seconds = time.process_time() - started
                    about = f"{name}, seed {seed}, epsilon {epsilon:g}, {student} ({done.student_name})"
                    print(f"{about}: {done.accuracy:.1%}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
