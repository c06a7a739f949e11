"""The neighbour graph of a large public pool of images, beside all distances: processor seconds, memory, recall.

    OMP_NUM_THREADS=1 python benchmarks/scale_graph.py [--images 200000] [--checked 2000]

Characters of 10 classes (`datasets.glyphs`, fonts that are the same everywhere) as the features of the representation
"hog", learned on the first 10,000. The graph is `build_graph`'s, with all threads that it starts. Recall is the share
of the 10 nearest of `--checked` images that the graph's lists hold; the plain way (all distances, in blocks) finds
them, and its time for the whole pool is that for those images, times how many there are.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from sklearn.neighbors import NearestNeighbors

from ostrakon.data.datasets import glyphs
from ostrakon.public.graph import _neighbours, build_graph
from ostrakon.public.representation import learn_representation

NEIGHBOURS = 10


def told(what: str, started: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{what}: {time.process_time() - started:.1f} processor s; peak so far {peak:.2f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--checked", type=int, default=2000)
    options = parser.parse_args()
    started = time.process_time()
    images = glyphs(options.images, 10, 10, system_fonts=False).X
    told(f"{options.images:,} images drawn", started)
    started = time.process_time()
    learned = learn_representation("hog", images[:10_000], random_state=0)
    features = np.concatenate([learned.transform(images[at : at + 10_000]) for at in range(0, len(images), 10_000)])
    told(f"features, {features.shape[1]} of each", started)
    del images
    build_graph(features[:25_000])  # what pynndescent compiles is kept, and not counted
    started = time.process_time()
    graph = build_graph(features)
    told(f"graph of {graph.size:,} images", started)
    spent = time.process_time() - started
    _, places = _neighbours(features, NEIGHBOURS, 0, None)
    chosen = np.random.default_rng(0).choice(len(features), options.checked, replace=False)
    started = time.process_time()
    brute = NearestNeighbors(n_neighbors=NEIGHBOURS + 1, algorithm="brute").fit(features)
    exact = brute.kneighbors(features[chosen], return_distance=False)
    plain = (time.process_time() - started) * len(features) / len(chosen)
    right = [
        np.isin(places[row], near[near != row][:NEIGHBOURS]).sum() for row, near in zip(chosen, exact, strict=True)
    ]
    print(f"recall of the {NEIGHBOURS} nearest: {np.sum(right) / (NEIGHBOURS * len(chosen)):.4f}")
    print(f"all distances would take {plain:.0f} processor s: {plain / spent:.1f} times as long")


if __name__ == "__main__":
    main()
