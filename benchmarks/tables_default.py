"""The default of `ostrakon train` on public tables: sums of features beside the counts, against counts alone.

    python benchmarks/tables_default.py --data DIR [--seeds 0 1 2] [--epsilons 0.5 1 2] [--tables adult]

Tables and splits as in benchmarks/tables.py; each run is `ostrakon.run.steps.run_steps` with nothing but an epsilon,
and with `--mechanism bounded-gnmax` beside it. Of Adult five seeds are run where three are asked for. Rows
are written to results/tables_default.csv as they come; what is there already is not run again. Noise is seeded.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from ostrakon.options.options import Options
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.steps import run_steps
from ostrakon.run.storage import Storage
from ostrakon.validation import InvalidInput
from tables import OWN, read

RESULTS = Path(__file__).parent / "results" / "tables_default.csv"
COLUMNS = ["table", "seed", "epsilon", "mechanism", "claimed", "queries", "student", "accuracy", "seconds"]
WAYS = {"moment-gnmax": {}, "bounded-gnmax": {"mechanism": "bounded-gnmax"}}


def run(name: str, data: Path, seed: int, epsilon: float, way: str) -> list[object]:
    """One line."""
    split, started = read(name, data, seed), time.perf_counter()
    task = Task(
        private=Rows(X=split.X, y=split.y.astype(np.int64)),
        classes=tuple(map(str, range(split.classes))),
        X_public=split.X_public,
        X_test=split.X_test,
        y_test=split.y_test,
    )
    options = Options(epsilon=epsilon, seed=seed, **WAYS[way])
    line: list[object] = [name, seed, f"{epsilon:g}", way]
    try:
        done = run_steps(task, options, Storage(), rng=np.random.default_rng([seed, round(100 * epsilon)]))
    except InvalidInput as refusal:
        return [*line, "", "", f"refused: {str(refusal)[:60]}", "", ""]
    assert done.plan.mechanism.name == way
    told = [f"{done.plan.guarantee.epsilon:.4f}", done.plan.queries, done.student_name, f"{done.accuracy:.4f}"]
    return [*line, *told, f"{time.perf_counter() - started:.0f}"]


def arguments(description: str | None) -> tuple[argparse.Namespace, list[str]]:
    """The arguments of this script and of others that repeat its runs, and the names of the tables."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--tables", nargs="+")
    given = parser.parse_args()
    return given, given.tables or [
        "adult",
        *sorted(path.stem for path in (given.data / "tables").glob("*.csv")),
        *OWN,
    ]


def main() -> None:
    """Run what is not there and print the means."""
    given, names = arguments(__doc__)
    held = list(csv.reader(RESULTS.open()))[1:] if RESULTS.exists() else []
    known = {tuple(line[:4]) for line in held}
    for name in names:
        for seed in [*given.seeds, *([3, 4] if name == "adult" and len(given.seeds) == 3 else [])]:
            for epsilon in given.epsilons:
                for way in WAYS:
                    if (name, str(seed), f"{epsilon:g}", way) in known:
                        continue
                    held.append([str(cell) for cell in run(name, given.data, seed, epsilon, way)])
                    print(held[-1], flush=True)
                    with RESULTS.open("w", newline="") as file:
                        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *held])
    scores: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for line in held:
        scores[line[0], line[2], line[3]].append(100 * float(line[7]) if line[7] else np.nan)
    print("| table | epsilon | default (counts and sums) | counts alone |\n|---|---|---|---|")
    for name, epsilon in dict.fromkeys((name, epsilon) for name, epsilon, _ in scores):
        ours, alone = (scores[name, epsilon, way] for way in WAYS)
        print(f"| {name} | {epsilon} | {np.mean(ours):.1f} ± {np.std(ours):.1f} | {np.mean(alone):.1f} |")


if __name__ == "__main__":
    main()
