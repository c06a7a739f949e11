"""Errors of the check for private rows in the public table: honest tables refused, copies not detected.

    python benchmarks/shared_rows.py --data DIR [--splits 15]

Real tables are split at random into private and public rows, without the label. First table: how many splits are
refused, and how many if half of the private rows are added to the public ones. Second table: the public rows are half
of the private rows with changed numbers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.data.changed_rows import refuse_changed_rows
from ostrakon.data.columns import Columns
from ostrakon.data.datasets import mnist
from ostrakon.data.identity import row_marks
from ostrakon.data.shared_rows import CountedRows, refuse_shared_rows
from ostrakon.validation import InvalidInput

ADULT = {
    "adult": range(14),
    "adult, 11 columns": [0, 1, 3, 5, 6, 8, 9, 10, 11, 12, 13],
    "adult, 8 columns": [0, 3, 5, 6, 7, 8, 9, 12],
    "adult, 3 columns": [0, 8, 9],
    "adult, age": [0],
}


CHANGES = {
    "two decimals": lambda column: column.round(2),
    "two digits": lambda column: column.map(lambda value: float(f"{value:.2g}")),
    "float16": lambda column: column.astype(np.float16).astype(float),
    "standardised": lambda column: (column - column.mean()) / (column.std() or 1),
}


def changed(private: Any, public: Any) -> bool:
    """Whether these rows are refused as private rows with changed numbers."""
    try:
        refuse_changed_rows(private, public)
    except InvalidInput:
        return True
    return False


def line_of_changes(name: str, rows: pd.DataFrame, splits: int) -> str:
    """A line of the table of changed numbers; one row in ten is public in honest splits."""
    rows = rows.set_axis([str(column) for column in rows.columns], axis=1)
    rows = Columns.of(rows).apply(rows)
    found = dict.fromkeys(["honest", *CHANGES], 0)
    for seed in range(splits):
        shuffled, tenth = rows.sample(frac=1, random_state=seed), len(rows) // 10
        public, private = shuffled[:tenth], shuffled[tenth:]
        found["honest"] += changed(private, public)
        half = private[: len(private) // 2]
        for how, change in CHANGES.items():
            numbers = half.select_dtypes("number")
            found[how] += changed(private, half.assign(**{column: change(numbers[column]) for column in numbers}))
    return f"| {name} | {splits} | {' | '.join(map(str, found.values()))} |"


def line_of_pictures(data: Path, splits: int) -> str:
    """How many splits of MNIST are refused: honest ones, and copies flipped or changed by a grey value."""
    images = mnist(data / "mnist").X
    found = dict.fromkeys(("honest", "flipped", "flipped beside honest", "noise", "noise beside honest"), 0)
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        shuffled = images[rng.permutation(len(images))[:12_000]]
        private, public = shuffled[:10_000], shuffled[10_000:]
        noise = rng.integers(-1, 2, (1000, *images.shape[1:])) * (images.max() / 255)
        copies = {
            "flipped": private[:1000, :, ::-1],
            "noise": np.clip(private[:1000] + noise, 0, images.max()).astype(images.dtype),
        }
        found["honest"] += changed(private, public)
        for how, rows in copies.items():
            found[how] += changed(private, rows)
            found[f"{how} beside honest"] += changed(private, np.concatenate([rows, public[:1000]]))
    return f"\nMNIST, refused of {splits}: {', '.join(f'{how} {times}' for how, times in found.items())}"


def refused(private: np.ndarray, public: np.ndarray) -> bool:
    """Whether these rows, by their marks, are refused."""
    try:
        refuse_shared_rows(CountedRows.of(private), public)
    except InvalidInput:
        return True
    return False


def line(name: str, rows: pd.DataFrame, share: float, splits: int) -> str:
    """A line of the table."""
    marks, honest, copied = row_marks(rows, rounded=True), 0, 0
    for seed in range(splits):
        shuffled = np.random.default_rng(seed).permutation(marks)
        public, private = np.split(shuffled, [int(share * len(marks))])
        honest += refused(private, public)
        copied += refused(private, np.concatenate([public, private[: len(private) // 2]]))
    return f"| {name} | {len(rows):,} | {share} | {honest} of {splits} | {copied} of {splits} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=15)
    given = parser.parse_args()
    print("| table | rows | public share | honest splits refused | with copies refused |\n|---|---|---|---|---|")
    for file in sorted((given.data / "tables").glob("*.csv")):
        rows = pd.read_csv(file, header=None).iloc[:, :-1]
        for share in (0.1, 0.5, 0.8):
            print(line(file.stem, rows, share, given.splits), flush=True)
    adult = pd.read_csv(given.data / "adult" / "adult.data.gz", header=None, skipinitialspace=True)
    for name, columns in ADULT.items():
        for share in (0.02, 0.3):
            print(line(name, adult.iloc[:, list(columns)], share, given.splits), flush=True)
    print(f"\n| table | splits | honest | {' | '.join(CHANGES)} |\n|{'---|' * (3 + len(CHANGES))}")
    for file in sorted((given.data / "tables").glob("*.csv")):
        print(line_of_changes(file.stem, pd.read_csv(file, header=None).iloc[:, :-1], given.splits), flush=True)
    for name, columns in ADULT.items():
        print(line_of_changes(name, adult.iloc[:, list(columns)], given.splits), flush=True)
    print(line_of_pictures(given.data, given.splits))


if __name__ == "__main__":
    main()
