"""A million private images: time and memory of `ostrakon train` from the file to the votes, and of a plain version.

    python benchmarks/scale_images.py --work DIR [--images 1000000] [--kinds npz packed folder]

28 x 28 images of one byte per value (a square of noise at a position that depends on the class), ten classes, 10,000
public ones. Each version is a process of its own: ostrakon reads the files like the command (`task_from_files`), learns
`--representation hog` from the public images and counts the votes of per-record teachers; the plain version reads the
array as float32, computes the features of all images at once, and makes one nearest-neighbour search. Kinds: an .npz, a
compressed .npz, and a folder of PNG files. Peak memory is that of the process (resident, with mapped pages).
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "scale_images.csv"
COLUMNS = ("images", "kind", "way", "seconds", "processor seconds", "peak MiB", "votes")
CLASSES, PUBLIC, QUERIES, SIDE = 10, 10_000, 1280, 28


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(images, labels)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, count)
    X = rng.integers(0, 60, (count, SIDE, SIDE), dtype=np.uint8)
    for label in range(CLASSES):
        row, column = divmod(label, 4)
        own = np.flatnonzero(y == label)
        for at in range(0, len(own), 4096):
            some = own[at : at + 4096]
            X[some, 2 + 8 * row : 9 + 8 * row, 1 + 7 * column : 7 + 7 * column] += np.uint8(150)
    return X, y


def draw(folder: Path, count: int, kind: str) -> None:
    """The files of one kind."""
    X, y = drawn(count, 0)
    np.save(folder / "public.npy", drawn(PUBLIC, 1)[0])
    if kind == "folder":
        from PIL import Image

        for label in range(CLASSES):
            (folder / "private" / str(label)).mkdir(parents=True, exist_ok=True)
        for number, (image, label) in enumerate(zip(X, y, strict=True)):
            Image.fromarray(image).save(folder / "private" / str(label) / f"{number:07d}.png")
    else:
        (np.savez_compressed if kind == "packed" else np.savez)(folder / "private.npz", X=X, y=y)


def ours(folder: Path) -> int:
    """As the command reads and counts."""
    from ostrakon.run.inputs.files import task_from_files
    from ostrakon.run.stages.features import view_of
    from ostrakon.teachers.per_record import collect_per_record

    private = folder / "private" if (folder / "private").is_dir() else folder / "private.npz"
    task = task_from_files(private, folder / "public.npy", classes=[str(label) for label in range(CLASSES)])
    view = view_of(task.X_public, "hog", seed=0)
    blocks = task.private.by_unit(seed=0, transform=view.transform, folder=folder)
    votes = collect_per_record(blocks, view.public[:QUERIES], classes=CLASSES, units=task.private.units)
    return int(votes.counts.astype(np.int64) @ np.arange(CLASSES) @ np.arange(QUERIES))


def plain(folder: Path) -> int:
    """All at once, in memory."""
    from sklearn.neighbors import NearestNeighbors

    from ostrakon.run.stages.features import view_of

    if (folder / "private").is_dir():
        from PIL import Image

        files = sorted((folder / "private").rglob("*.png"))
        X = np.stack([np.asarray(Image.open(file), np.float32) / 255 for file in files])
        y = np.array([int(file.parent.name) for file in files])
    else:
        with np.load(folder / "private.npz") as held:
            X, y = held["X"].astype(np.float32) / 255, held["y"]
    view = view_of(np.load(folder / "public.npy").astype(np.float32) / 255, "hog", seed=0)
    features = view.transform(X)
    nearest = NearestNeighbors(n_neighbors=1).fit(view.public[:QUERIES]).kneighbors(features, return_distance=False)
    return int((nearest[:, 0] * y).sum())


def main() -> None:
    """Each way in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--kinds", nargs="+", default=["npz", "packed"], choices=["npz", "packed", "folder"])
    parser.add_argument("--ways", nargs="+", default=["ours", "plain"], choices=["ours", "plain"])
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone is not None:
        folder, way = Path(given.alone[0]), given.alone[1]
        started, cpu = time.perf_counter(), time.process_time()
        votes = {"ours": ours, "plain": plain}[way](folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([time.perf_counter() - started, time.process_time() - cpu, peak, votes]))
        return
    held = list(csv.reader(RESULTS.open()))[1:] if RESULTS.exists() else []
    for kind in given.kinds:
        folder = given.work / f"images-{kind}-{given.images}"
        if not folder.exists():
            folder.mkdir(parents=True)
            draw(folder, given.images, kind)
        took: dict[str, list[float]] = {}
        for way in given.ways:
            done = subprocess.run(
                [sys.executable, __file__, "--work", str(given.work), "--alone", str(folder), way],
                capture_output=True,
                text=True,
                check=True,
            )
            took[way] = json.loads(done.stdout.splitlines()[-1])
            seconds, cpu, peak, votes = took[way]
            held.append([given.images, kind, way, f"{seconds:.0f}", f"{cpu:.0f}", f"{peak:.0f}", votes])
            print(held[-1], flush=True)
        if len(took) == 2:
            print(
                f"{kind}: plain / ours: time {took['plain'][1] / took['ours'][1]:.2f}, "
                f"memory {took['plain'][2] / took['ours'][2]:.2f}, same votes: {took['plain'][3] == took['ours'][3]}"
            )
        with RESULTS.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *held])


if __name__ == "__main__":
    main()
