"""Seconds of a run on Adult and of a plan for three epsilons with its forecast, as whole commands.

    python benchmarks/adult_seconds.py --data DIR --work DIR [--what fit plan dated undated]

`dated` is a run on 3,800 made rows of numbers, words and a date, and `undated` the same without the date.

The public rows are half of adult.test, without labels for the run and with them for the plan; the other half is the
test set. Each command is a process of its own; its CPU seconds include its workers. A fixed computation is timed
before and after, to compare machines.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from ostrakon.data.datasets import adult

CLASSES = "<=50K,>50K"


def tables(data: Path, work: Path) -> None:
    """Write the tables of the commands into `work`."""
    given = adult(data / "adult", random_state=0)
    names = np.array(CLASSES.split(","))
    private, public, test = (
        rows.assign(income=names[labels])
        for rows, labels in ((given.X, given.y), (given.X_public, given.y_public), (given.X_test, given.y_test))
    )
    work.mkdir(parents=True, exist_ok=True)
    for name, table in (("private", private), ("labelled", public), ("test", test)):
        table.to_csv(work / f"{name}.csv", index=False)
    public.drop(columns="income").to_csv(work / "public.csv", index=False)
    for name, rows in (("stays", 3800), ("public_stays", 1276)):
        stays(rows, seed=rows).to_csv(work / f"{name}.csv", index=False)


def stays(rows: int, *, seed: int) -> pd.DataFrame:
    """A made table of stays in a hospital, with a date."""
    rng = np.random.default_rng(seed)
    age, stay, day = rng.integers(18, 90, rows), rng.exponential(4, rows).round(1), rng.integers(0, 800, rows)
    again = (age - 50) / 20 + (stay - 4) / 4 + day / 400 - 1 + rng.logistic(size=rows) > 0
    words = {"ward": rng.choice(["heart", "surgery", "lungs", "eyes"], rows), "again": np.where(again, "yes", "no")}
    admitted = pd.Timestamp("2022-01-01") + pd.to_timedelta(day, unit="D")
    return pd.DataFrame(
        {"age": age, "stay": stay, "income": rng.integers(0, 60_000, rows), "admitted": admitted, **words}
    )


def commands(work: Path) -> dict[str, list[str]]:
    """The commands."""
    target = ["--target", "income"]
    private = ["--private", f"{work}/private.csv", "--public", f"{work}/public.csv", "--test", f"{work}/test.csv"]
    settings = ["--classes", CLASSES, "--epsilon", "1", "--seed", "0", "--out", f"{work}/run"]
    asked = ["--public", f"{work}/labelled.csv", "--records", "32561", "--epsilons", "0.5", "1", "2"]
    dated = ["train", "--private", f"{work}/stays.csv", "--public", f"{work}/public_stays.csv", "--target", "again"]
    dated += ["--classes", "no,yes", "--epsilon", "1", "--seed", "0", "--out", f"{work}/run"]
    return {
        "fit": ["train", *private, *target, *settings],
        "plan": ["plan", *asked, *target],
        "dated": dated,
        "undated": [*dated, "--drop", "admitted"],
    }


def arithmetic() -> float:
    """Processor seconds of a fixed piece of arithmetic, in Python and in NumPy."""
    begun = time.process_time()
    rows = np.random.default_rng(0).normal(size=(400, 400))
    for _ in range(60):
        rows = np.tanh(rows @ rows / 400)
        sum(number * number for number in range(60_000))
    return time.process_time() - begun


def main() -> None:
    """Run the commands and print their seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--what", nargs="+", default=["fit", "plan"], choices=list(commands(Path())))
    given = parser.parse_args()
    tables(given.data, given.work)
    for what in given.what:
        shutil.rmtree(given.work / "run", ignore_errors=True)
        before, machine, clock = resource.getrusage(resource.RUSAGE_CHILDREN), arithmetic(), time.perf_counter()
        words = [sys.executable, "-m", "ostrakon", *commands(given.work)[what]]
        with (given.work / f"{what}.txt").open("w") as log:
            subprocess.run(words, check=True, stdout=log, stderr=log, env={**os.environ, "COLUMNS": "160"})
        waited, machine = time.perf_counter() - clock, (machine + arithmetic()) / 2
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(
            f"{what}: {spent:.1f} processor seconds, {waited:.1f} s of wall time; arithmetic {machine:.2f}", flush=True
        )


if __name__ == "__main__":
    main()
