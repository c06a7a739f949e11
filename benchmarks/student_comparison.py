"""Students of the published MNIST votes: accuracy and time of each, on two cores.

    python benchmarks/student_comparison.py --data DIR --work FILE [--seeds 3] [--only NAME]

The 250 published MNIST teachers of the 2018 paper, its Confident-GNMax (T = 200, sigma1 = 150, sigma2 = 40) and its 640
queries (the first 640 public images); each seed draws one set of labels. The other rows of test[:9000] have no labels.
The student is tested on test[9000:] and, for a smaller error, on all public images. Settings are each student's
defaults (chosen on scikit-learn's digits) except the number of steps. Finished runs are stored in --work (a JSON file).
The noise is seeded so that results can be repeated; a release draws it from ostrakon.noise.secure_rng().
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path

import numpy as np

# name: (module, class, settings)
STUDENTS = {
    "logistic regression, answers alone": ("sklearn_student", "SklearnStudent", {}),
    "supervised network": ("supervised", "SupervisedNetwork", {"steps": 800}),
    "self-training network": ("self_training_network", "SelfTrainingNetwork", {"steps": 600}),
    "virtual adversarial training": ("virtual_adversarial", "VirtualAdversarial", {"steps": 600}),
    "GAN with feature matching": ("semi_supervised_gan", "SemiSupervisedGAN", {"steps": 800}),
    "FixMatch": ("fixmatch", "FixMatch", {"steps": 600}),
    "label spreading on the graph": ("label_spreading", "LabelSpreadingStudent", {}),
    "spreading, then a network": ("graph_model", "GraphStudent", {}),
}


def one_run(data: Path, name: str, seed: int) -> dict[str, float]:
    from ostrakon.data.datasets import mnist
    from ostrakon.mechanisms import ConfidentGNMax
    from ostrakon.votes import Votes

    task = mnist(data / "mnist")
    counts = np.load(data / "votes" / "mnist_250_teachers.npy").astype(np.int64)[:640]
    given = ConfidentGNMax(threshold=200, sigma1=150, sigma2=40).sample(Votes(counts), np.random.default_rng([seed, 7]))
    y = np.full(len(task.X_public), -1)
    y[:640] = given
    answered = given >= 0
    truth = np.asarray(task.y_public)
    module, kind, settings = STUDENTS[name]
    student = getattr(importlib.import_module(f"ostrakon.students.{module}"), kind)(random_state=seed, **settings)
    flat = kind == "SklearnStudent"
    pool, test = (x.reshape(len(x), -1) if flat else x for x in (task.X_public, task.X_test))
    start, used = time.perf_counter(), time.process_time()
    student.fit(pool, y)
    wall, cpu = time.perf_counter() - start, time.process_time() - used
    return {
        "answers": int(answered.sum()),
        "right": float((given[answered] == truth[:640][answered]).mean()),
        "pool": float((student.predict(pool) == truth).mean()),
        "test": float((student.predict(test) == np.asarray(task.y_test)).mean()),
        "wall": wall,
        "cpu": cpu,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="the folder with mnist/ and votes/")
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=STUDENTS)
    options = parser.parse_args()
    found = json.loads(options.work.read_text()) if options.work.exists() else {}
    for seed in range(options.seeds):
        for name in STUDENTS:
            key = f"{name}/{seed}"
            if key in found or options.only not in (None, name):
                continue
            row = one_run(options.data, name, seed)
            found = json.loads(options.work.read_text()) if options.work.exists() else {}
            found[key] = row
            options.work.write_text(json.dumps(found, indent=1))
            print(key, row, flush=True)
    print("| student | seeds | test[9000:] | pool | wall s | processor s |")
    print("|---|---|---|---|---|---|")
    for name in STUDENTS:
        rows = [row for key, row in found.items() if key.rpartition("/")[0] == name]
        if rows:
            test, pool = (np.array([row[part] for row in rows]) * 100 for part in ("test", "pool"))
            wall, cpu = (np.mean([row[part] for row in rows]) for part in ("wall", "cpu"))
            spread = [f"{x.mean():.2f} ± {x.std(ddof=1) if len(x) > 1 else 0:.2f}" for x in (test, pool)]
            print(f"| {name} | {len(rows)} | {spread[0]} | {spread[1]} | {wall:.0f} | {cpu:.0f} |")


if __name__ == "__main__":
    main()
