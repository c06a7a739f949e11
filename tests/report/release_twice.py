"""Runs whole releases whose noisy answers are fixed, for tests that compare their bytes: FOLDER [neighbour].

The answers are a function of public numbers alone, so that whatever else differs between two releases tells of the
private rows, or of the process that held them.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from ostrakon.options.options import Options
from ostrakon.report.release import publish
from ostrakon.run import noise_log
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import run


def forced(votes, mechanism, rng, *, max_answers=None):
    """Noisy answers that look at no vote."""
    shape = (votes.queries, votes.classes)
    if mechanism.name == "gate":
        return np.ones(votes.queries, np.int64)
    drawn = np.random.default_rng(7).integers(-3, 30, shape)
    if mechanism.name == "noisy counts":
        return drawn * 1024
    answers = drawn.argmax(axis=1)
    answers[::7] = -1
    if max_answers is not None:
        answers[np.cumsum(answers >= 0) > max_answers] = -1
    return answers


def write_tables(folder: Path, *, neighbour: str) -> None:
    """private.csv and public.csv. neighbour: "" for none, "more" for one record more, "other" for another one."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 700), "city": rng.choice(["Ulm", "Rom", "Bonn"], 700)})
    frame["seen"] = [f"20{10 + k % 9}-0{1 + k % 7}-11" for k in range(700)]
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    private, public = frame[:600].copy(), frame[600:].drop(columns="ill")
    strange = {"age": 999999.25, "city": "Nowhere at all", "seen": "not a date", "ill": "yes"}
    if neighbour:
        # As objects: every other record is written as before.
        private = private.astype(object)
        private.loc[700 if neighbour == "more" else 17] = strange
    private.to_csv(folder / "private.csv", index=False)
    public.to_csv(folder / "public.csv", index=False)


def write_images(folder: Path, *, neighbour: str) -> None:
    """private.npz and public.npy, small digits; neighbour as for tables."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:700].reshape(-1, 8, 8) / 16, y[:700] % 3
    private, labels = X[:600], y[:600]
    if neighbour == "more":
        private, labels = np.concatenate([private, np.eye(8)[None]]), np.append(labels, 1)
    if neighbour == "other":
        private, labels = private.copy(), labels.copy()
        private[17], labels[17] = np.eye(8), 1 - labels[17] % 2
    np.savez(folder / "private.npz", X=private, y=labels)
    np.save(folder / "public.npy", X[600:])


def main(folder: Path, neighbour: bool) -> None:
    """Make every kind of release in `folder`."""
    noise_log.sample_capped = forced
    teachers = Options(teachers=20, parameters={"threshold": 12.0, "sigma1": 9.0, "sigma2": 4.0}, queries=60)
    per_record = Options(mechanism="bounded-gnmax", parameters={"max_contributions": 3, "sigma2": 4.0}, queries=30)
    kinds = {
        "table-teachers": (write_tables, "more", replace(teachers, teacher="naive-bayes")),
        "table-trees": (write_tables, "more", replace(teachers, teacher="naive-bayes", student="extra-trees")),
        "table-per-record": (write_tables, "other", per_record),
        "images-teachers": (write_images, "more", replace(teachers, representation="pca")),
        "images-per-record": (
            write_images,
            "other",
            replace(per_record, student="cnn(steps=20)", representation="pca"),
        ),
    }
    for name, (write, how, options) in kinds.items():
        place = folder / name
        place.mkdir(parents=True)
        write(place, neighbour=how if neighbour else "")
        table = write is write_tables
        files = [place / file for file in (("private.csv", "public.csv") if table else ("private.npz", "public.npy"))]
        classes = ["no", "yes"] if table else ["0", "1", "2"]
        task = task_from_files(*files, target="ill" if table else None, classes=classes)
        publish(run(place / "run", task, options))


if __name__ == "__main__":
    main(Path(sys.argv[1]), neighbour="neighbour" in sys.argv[2:])
