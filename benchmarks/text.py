"""Text at a small epsilon: `ostrakon train` on SST-2 and Banking77, beside the same features with all private labels.

    python benchmarks/text.py --data DIR --work DIR [--seeds 0 1 2] [--sets sst2 banking77] [--as-text]

A third of the training rows, drawn by the seed, is the public pool without labels; the others are private; the test
files are for testing alone. Sentences are encoded once by `SentenceEncoder` and kept in --work, then each run is given
the embeddings (`.npz`); with --as-text each run is given the texts, with `--representation text`, and encodes them
itself: it sees the same features. Beside it: logistic regression (C = 10) on the labels of all private rows, on the
same features. Noise is the cryptographic source's, so no two runs are alike. The script goes on where its CSV ends.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from ostrakon.features import EmbeddedFeatures, SentenceEncoder

RESULTS = Path(__file__).parent / "results" / "text.csv"
EPSILONS = {"sst2": 1.0, "banking77": 4.0}
COLUMNS = ["set", "seed", "epsilon", "as_text", "student", "queries", "accuracy", "all_labels", "majority", "seconds"]


def read(name: str, data: Path) -> dict[str, pd.DataFrame]:
    """Training and test rows, with the columns text and label."""
    folder = data / "text"
    if name == "sst2":
        files = {part: folder / f"sst2-{part}.tsv" for part in ("train", "test")}
        frames = {part: pd.read_csv(file, sep="\t", header=None, quoting=3) for part, file in files.items()}
    else:
        frames = {part: pd.read_csv(folder / f"banking77-{part}.csv") for part in ("train", "test")}
    return {part: frame.set_axis(["text", "label"], axis=1).astype(str) for part, frame in frames.items()}


def embedded(name: str, rows: dict[str, pd.DataFrame], work: Path) -> dict[str, np.ndarray]:
    """Embeddings of all rows, made once."""
    file = work / f"{name}.npz"
    if not file.exists():
        encoder = SentenceEncoder()
        np.savez(file, **{part: encoder.encode(frame["text"].tolist()) for part, frame in rows.items()})
    return dict(np.load(file))


def run(name: str, seed: int, *, data: Path, work: Path, as_text: bool) -> dict[str, object]:
    """One run through the command line, and what all private labels give."""
    rows = read(name, data)
    made = embedded(name, rows, work)
    train, test = rows["train"], rows["test"]
    order = np.random.default_rng(seed).permutation(len(train))
    parts = {"public": order[: len(train) // 3], "private": order[len(train) // 3 :]}
    here = work / f"{name}-{seed}"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    kind = "csv" if as_text else "npz"
    if as_text:
        for part, chosen in parts.items():
            train.iloc[chosen].drop(columns=["label"] * (part == "public")).to_csv(here / f"{part}.csv", index=False)
        test.to_csv(here / "test.csv", index=False)
    else:
        np.savez(
            here / "private.npz", X=made["train"][parts["private"]], y=train["label"].to_numpy(str)[parts["private"]]
        )
        np.savez(here / "public.npz", X=made["train"][parts["public"]])
        np.savez(here / "test.npz", X=made["test"], y=test["label"].to_numpy(str))
    given = [item for part in ("private", "public", "test") for item in (f"--{part}", here / f"{part}.{kind}")]
    asked = ["--epsilon", EPSILONS[name], "--classes", ",".join(sorted(set(train["label"]))), "--out", here / "run"]
    asked += ["--target", "label", "--representation", "text"] if as_text else []
    start = time.perf_counter()
    asked += ["--classes", "from-private"]
    subprocess.run([sys.executable, "-m", "ostrakon", "train", *map(str, [*given, *asked])], check=True)
    seconds = time.perf_counter() - start
    statement = json.loads((here / "run" / "release" / "statement.json").read_text())
    seen = EmbeddedFeatures().fit(made["train"][parts["public"]])
    private = train["label"].to_numpy()[parts["private"]]
    peer = LogisticRegression(C=10, max_iter=2000).fit(seen.transform(made["train"][parts["private"]]), private)
    majority = pd.Series(private).mode()[0]
    return {
        "set": name,
        "seed": seed,
        "epsilon": statement["guarantee"]["epsilon"],
        "as_text": as_text,
        "student": statement["tuned"]["student"].split(",")[0],
        "queries": statement["queries"],
        "accuracy": round(json.loads((here / "run" / "private" / "evaluation.json").read_text())["accuracy"], 4),
        "all_labels": round(float(peer.score(seen.transform(made["test"]), test["label"])), 4),
        "majority": round(float((test["label"] == majority).mean()), 4),
        "seconds": round(seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sets", nargs="+", choices=list(EPSILONS), default=list(EPSILONS))
    parser.add_argument("--as-text", action="store_true")
    told = parser.parse_args()
    told.work.mkdir(parents=True, exist_ok=True)
    done = pd.read_csv(RESULTS, keep_default_na=False).to_dict("records") if RESULTS.exists() else []
    known = {(row["set"], int(row["seed"]), str(row["as_text"]) == "True") for row in done}
    for seed in told.seeds:
        for name in told.sets:
            if (name, seed, told.as_text) not in known:
                done.append(run(name, seed, data=told.data, work=told.work, as_text=told.as_text))
                with open(RESULTS, "w", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(done)
                print(done[-1], flush=True)


if __name__ == "__main__":
    main()
