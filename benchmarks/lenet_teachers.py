"""250 LeNet teachers on MNIST, 240 images each, 20 epochs: ways to train them and to get their predictions.

    python benchmarks/lenet_teachers.py --data DIR --work FILE [--only NAME] [--teachers 250]

A row for each way: wall time and CPU time of training and of prediction on test[:9000], the mean accuracy of a teacher
and that of the plurality. Each way runs in a process of its own and is stored in --work (a JSON file), so the script
may be stopped and restarted. The simple ways are one network after another with both cores inside each layer, and a
pool of single-threaded processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

# name: (mode, networks per chunk, workers)
WAYS = {
    "one after another, 2 threads": ("one-by-one", 1, 1),
    "two single-thread processes": ("one-by-one", 1, 2),
    "vmap, chunks of 25, 2 threads": ("vmap", 25, 1),
    "vmap, chunks of 8, two workers": ("vmap", 8, 2),
    "grouped, chunks of 10, 2 threads": ("grouped", 10, 1),
    "grouped, chunks of 8, two workers (default)": (None, None, -1),
}


def one_way(data: str, way: str, teachers: int) -> dict[str, float]:
    from ostrakon.data.datasets import mnist
    from ostrakon.teachers import train_teachers
    from ostrakon.teachers.torch_ensemble import TorchEnsemble

    mode, chunk, workers = WAYS[way]
    task = mnist(data)
    member = np.random.default_rng(0).permutation(60_000)[: 240 * teachers]
    owner = np.repeat(np.arange(teachers), 240)
    private, labels = task.X[member], np.asarray(task.y)[member]
    start, used = time.perf_counter(), _used()
    made = train_teachers(
        TorchEnsemble("lenet", epochs=20, mode=mode, chunk=chunk),
        private,
        labels,
        owner,
        n_teachers=teachers,
        classes=10,
        n_jobs=workers,
    )
    middle, trained = time.perf_counter(), _used()
    said = made.predict(task.X_public)
    end, asked = time.perf_counter(), _used()
    counts = np.stack([(said == k).sum(axis=1) for k in range(10)], axis=1)
    truth = np.asarray(task.y_public)
    return {
        "train": middle - start,
        "predict": end - middle,
        "train_cpu": trained - used,
        "predict_cpu": asked - trained,
        "mean": float((said == truth[:, None]).mean()),
        "plurality": float((counts.argmax(axis=1) == truth).mean()),
        "load": os.getloadavg()[0],
    }


def _used() -> float:
    """Processor seconds of this process and of its descendants, living and ended (Linux)."""
    parents, spent = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)], spent[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))

    def ours(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return sum(ticks for process, ticks in spent.items() if ours(process)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--teachers", type=int, default=250)
    parser.add_argument("--only", type=int, help="the number of one way, from 0")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(one_way(options.data, options.child, options.teachers)))
        return
    found = json.loads(options.work.read_text()) if options.work.exists() else {}
    for number, way in enumerate(WAYS):
        if way in found or options.only not in (None, number):
            continue
        command = [sys.executable, __file__, "--data", options.data, "--work", str(options.work), "--child", way]
        told = subprocess.run(
            [*command, "--teachers", str(options.teachers)], stdout=subprocess.PIPE, check=True, text=True
        )
        found[way] = json.loads(told.stdout.strip().splitlines()[-1])
        options.work.write_text(json.dumps(found, indent=1))
        print(way, found[way], flush=True)
    base = found.get("one after another, 2 threads")
    print("| way | training s | prediction s | processor s | times faster | mean accuracy | plurality |")
    print("|---|---|---|---|---|---|---|")
    for way, row in found.items():
        both = row["train"] + row["predict"]
        faster = f"{(base['train'] + base['predict']) / both:.2f}" if base else "-"
        cpu = f"{row['train_cpu']:.0f} + {row['predict_cpu']:.0f}"
        print(
            f"| {way} | {row['train']:.0f} | {row['predict']:.0f} | {cpu} | {faster} "
            f"| {row['mean']:.2%} | {row['plurality']:.2%} |"
        )


if __name__ == "__main__":
    main()
