"""Choosing a student: all candidates on all five parts, or only the better ones after two parts.

    python benchmarks/student_race.py --data DIR [--tables adult ecoli] [--seeds 0 1 2] [--epsilons 0.5 1 2]

Runs as in tables_default.py, each twice with the same noise. Printed: every run in which the two rules choose different
students, and the mean accuracy and CPU seconds with both rules.
"""

from __future__ import annotations

import time

import numpy as np

from ostrakon.students import selection
from tables_default import WAYS, arguments, run

PARTS = {"all candidates": 5, "the default": selection.FIRST_PARTS}


def main() -> None:
    given, names = arguments(__doc__)
    runs = [
        (name, seed, epsilon, way)
        for name in names
        for seed in given.seeds
        for epsilon in given.epsilons
        for way in WAYS
    ]
    found: dict[str, list[tuple[str, float, float]]] = {parts: [] for parts in PARTS}
    for name, seed, epsilon, way in runs:
        for called, parts in PARTS.items():
            selection.FIRST_PARTS, begun = parts, time.process_time()
            *_, student, accuracy, _ = run(name, given.data, seed, epsilon, way)
            taken = time.process_time() - begun
            found[called].append((str(student), float(str(accuracy) or "nan"), taken))
        (all_of_them, right, _), (some, also, _) = (each[-1] for each in found.values())
        if all_of_them != some:
            print(f"{name}, seed {seed}, {epsilon:g}, {way}: {all_of_them} {right:.1%}, {some} {also:.1%}", flush=True)
    print(f"{len(runs)} runs on {len(names)} tables")
    for called, each in found.items():
        accuracy, seconds = np.nanmean([line[1:] for line in each], axis=0)
        print(f"{called}: accuracy {accuracy:.2%}, {seconds:.2f} processor seconds")


if __name__ == "__main__":
    main()
