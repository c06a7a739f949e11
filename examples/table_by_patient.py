"""A table by patient: from two CSV files to a model that may leave, protecting patients rather than rows.

    python examples/table_by_patient.py [FOLDER]

The command line does the same: ostrakon train --private patients.csv --public visitors.csv --target readmitted
--classes no,yes --by patient --epsilon 2 --out my-run
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd


def made_table(patients: int, *, seed: int) -> pd.DataFrame:
    """About two visits a patient; readmission depends on age, stay and ward."""
    rng = np.random.default_rng(seed)
    of = np.sort(rng.integers(0, patients, 2 * patients))
    age, ward = rng.integers(20, 95, patients)[of], rng.choice(["surgery", "heart", "lung"], patients)[of]
    stay = rng.gamma(2.0, 3.0, len(of)).round(1)
    risk = (age - 55) / 15 + (stay - 6) / 4 + (ward == "heart")
    readmitted = np.where(risk + 0.5 * rng.normal(size=len(of)) > 0.3, "yes", "no")
    return pd.DataFrame({"patient": of, "age": age, "ward": ward, "stay": stay, "readmitted": readmitted})


def main(place: Path) -> None:
    made_table(3_000, seed=0).to_csv(place / "patients.csv", index=False)
    # Whoever is in the public table is not protected by the guarantee. It needs no labels and no patient numbers.
    public = made_table(400, seed=1).drop(columns=["patient", "readmitted"])
    public.to_csv(place / "visitors.csv", index=False)
    made_table(400, seed=2).drop(columns="patient").to_csv(place / "labelled.csv", index=False)

    run = place / "my-run"
    command = ["train", "--private", "patients.csv", "--public", "visitors.csv", "--test", "labelled.csv"]
    options = ["--target", "readmitted", "--by", "patient", "--classes", "no,yes", "--epsilon", "2", "--out", str(run)]
    learner = ["--student", "logistic"]  # left out, several students are tried, free of privacy cost
    subprocess.run(
        [sys.executable, "-c", "from ostrakon.cli import main; main()", *command, *options, *learner],
        check=True,
        cwd=place,
    )

    statement = json.loads((run / "release" / "statement.json").read_text(encoding="utf-8"))
    print("One", statement["unit_of_privacy"], "is protected.", statement["adjacency"])
    for each in statement["epsilon_by_adjacency"]:
        print(f"  epsilon {each['epsilon']} at delta {each['delta']:g}: {each['neighbours']}")
    print("May leave:", ", ".join(sorted(path.name for path in (run / "release").iterdir())))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
