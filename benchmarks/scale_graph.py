"""The neighbour graph of a large public pool: exact and approximate, and the share of neighbours that is found.

    python benchmarks/scale_graph.py [--images 20000 50000 200000] [--neighbours 10]

Images are generated letters (`ostrakon.data.datasets.glyphs`), as oriented gradients. Approximate: the method of
`build_graph` beyond 20,000 rows (pynndescent, the extra `graph`), with its compilation. Exact: scikit-learn, on 1,000
random rows against all others; the time for all rows is extrapolated. Recall: the share of the exact neighbours of
those rows that the approximate search finds.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from sklearn.neighbors import NearestNeighbors

from ostrakon.data.datasets import glyphs
from ostrakon.features.graph import approximate_neighbours, build_graph
from ostrakon.features.representation import learn_representation

SAMPLE = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", nargs="+", type=int, default=[20_000, 50_000, 200_000])
    parser.add_argument("--neighbours", type=int, default=10)
    given = parser.parse_args()
    data = glyphs(1, max(given.images), 1, n_classes=26)
    learned = learn_representation("hog", data.X_public[:20_000], random_state=0)
    everything = np.asarray(learned.transform(data.X_public), np.float32)
    print(f"{everything.shape[1]} features\n")
    print("| images | approximate, processor s (wall) | graph, processor s | exact, processor s | recall | peak GiB |")
    print("|---|---|---|---|---|---|")
    for count in given.images:
        features = everything[:count]
        start, wall = time.process_time(), time.perf_counter()
        _, found = approximate_neighbours(features, given.neighbours)
        took, wall = time.process_time() - start, time.perf_counter() - wall
        start = time.process_time()
        build_graph(features, neighbours=given.neighbours)
        whole = time.process_time() - start
        rows = np.random.default_rng(0).permutation(count)[:SAMPLE]
        start = time.process_time()
        exact = NearestNeighbors(n_neighbors=given.neighbours + 1).fit(features).kneighbors(features[rows])[1]
        plain = (time.process_time() - start) * count / SAMPLE
        others = [set(near.tolist()) - {int(row)} for near, row in zip(exact, rows, strict=True)]
        recall = np.mean([len(own & set(b.tolist())) / len(own) for own, b in zip(others, found[rows], strict=True)])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"| {count:,} | {took:.0f} ({wall:.0f}) | {whole:.0f} | {plain:.0f} | {recall:.4f} | {peak:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
