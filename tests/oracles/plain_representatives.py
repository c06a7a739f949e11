"""Representatives of a public pool the plain way: all distances from all rows to all centres at once."""

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

FIRST_STAGE = 10


def representatives(features, budget, *, asked=(), random_state=None):
    """Medoids of clusters of the pool, (budget,), stage by stage."""
    points, done = np.ascontiguousarray(features, np.float32), np.asarray(asked, np.int64)
    seeds = np.random.SeedSequence(random_state)
    found = list(done)
    size = max(FIRST_STAGE, len(found))
    # Threads would round sums by their number, and on a busy machine they wait for each other.
    with threadpool_limits(1):
        while len(found) - len(done) < budget:
            size = size if size > len(found) else 2 * size
            more = min(size, len(points)) - len(found)
            # The seed of a stage depends on its size alone, never on the budget: lists must be prefixes of each other.
            seed = int(seeds.spawn(1)[0].generate_state(1)[0] >> 1)
            found.extend(_stage(points, np.array(found, np.int64), more, seed))
    return np.array(found[len(done) : len(done) + budget], np.int64)


def _stage(points, fixed, more, seed):
    """`more` medoids of clusters that share the pool with the clusters around the `fixed` examples."""
    total = len(fixed) + more
    if total >= len(points):
        return [int(i) for i in np.setdiff1d(np.arange(len(points)), fixed)]
    with warnings.catch_warnings():
        # Rows that are alike may leave fewer clusters; there are medoids all the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fresh = KMeans(total, n_init=4 if total <= 100 else 1, max_iter=100, random_state=seed).fit(points)
    centres = fresh.cluster_centers_.astype(np.float32)
    for example in points[fixed]:
        # Each fixed example takes over the centre next to it.
        centres = np.delete(centres, np.square(centres - example).sum(axis=1).argmin(), axis=0)
    members = np.zeros(more, np.intp)
    for _ in range(20):
        own = _squared(points, np.concatenate([points[fixed], centres])).argmin(axis=1) - len(fixed)
        sums = np.zeros_like(centres)
        np.add.at(sums, own[own >= 0], points[own >= 0])
        members = np.bincount(own[own >= 0], minlength=more)
        settled = np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], centres)
        if np.allclose(settled, centres):
            break
        centres = settled.astype(np.float32)
    distance = _squared(points, centres)
    distance[fixed] = np.inf
    chosen = []
    for cluster in np.argsort(-members, kind="stable"):
        medoid = int(distance[:, cluster].argmin())
        chosen.append(medoid)
        distance[medoid] = np.inf
    return chosen


def _squared(points, centres):
    return (
        np.square(points).sum(axis=1)[:, None] + np.square(centres).sum(axis=1)[None, :] - 2 * points @ centres.T
    ).astype(np.float32)
