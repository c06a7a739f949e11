"""The public examples on which the teachers vote. Chosen on public data alone, so the choice costs no privacy."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.features.clusters import Advance, all_distances, lloyd, medoids, spread
from ostrakon.numerics.threads import on_one_thread
from ostrakon.progress import working
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import IntArray

FloatArray = NDArray[np.float32]

FIRST_STAGE, LAST_STAGE = 10, 1280
FEWEST, PER_CLUSTER, ROUNDS = 20_000, 48, 20
"""With more rows, clusters are first found on a sample of this size, or of this size per cluster; and the number of
rounds of Lloyd's algorithm."""
METHODS = ("all", "random", "representatives")


def choose_queries(
    method: str | Callable[[FloatArray, int], ArrayLike],
    *,
    pool: int,
    budget: int | None = None,
    features: ArrayLike | None = None,
    random_state: int | None = None,
) -> IntArray:
    """Return positions of queries in the public pool, most useful first, without repetition.

    Parameters
    ----------
    method : {"all", "random", "representatives"} or callable
        "representatives" needs features. A function takes (features, budget) and returns positions.
    pool : int
        Number of public examples, at least 1.
    budget : int, optional
        Number of queries. Default: all.
    features : float array of shape (pool, features), optional
        Features of the pool.
    random_state : int, optional
        Seed.

    Returns
    -------
    int64 array of shape (budget,)
        Positions, from 0 to pool - 1.

    Raises
    ------
    InvalidInput
        For an unknown method, a budget beyond the pool, missing features, and a function that repeats positions.
    """
    pool = whole("pool", pool, at_least=1)
    budget = pool if budget is None else whole("budget", budget, at_least=1, at_most=pool)
    points = None if features is None else _points(features, pool)
    if callable(method):
        chosen = _positions(method(points if points is not None else np.empty((pool, 0), np.float32), budget), pool)
        if len(chosen) > budget:
            raise InvalidInput(f"The query function must give at most {budget} positions, got {len(chosen)}.")
        return chosen
    if method not in METHODS:
        raise InvalidInput(f"queries must be one of {', '.join(METHODS)} or a function, got {method!r}.")
    if method == "all" and budget < pool:
        raise InvalidInput(f"queries='all' asks {pool} queries; for a budget of {budget} choose 'representatives'.")
    if method == "all":
        return np.arange(pool)
    if method == "random":
        return np.random.default_rng(random_state).permutation(np.arange(pool))[:budget]
    if points is None:
        raise InvalidInput("queries='representatives' needs the features of the public pool.")
    return representatives(points, budget, random_state=random_state)


def representatives(features: ArrayLike, budget: int, *, random_state: int | None = None) -> IntArray:
    """Return medoids of clusters of the pool, a few examples that represent all others.

    Parameters
    ----------
    features : float array of shape (pool, features)
        Features of the pool.
    budget : int
        Number of examples, from 1 to the size of the pool.
    random_state : int, optional
        Seed.

    Returns
    -------
    int64 array of shape (budget,)
        Positions. `representatives(features, k)` begins every longer list with the same seed.

    Raises
    ------
    InvalidInput
        For features that are not finite, and a budget beyond the pool.

    Notes
    -----
    The first 10 are the medoids of 10 clusters; then 10, 20, 40, … clusters are added, whose centres are fitted while
    the earlier medoids stay fixed. Within a stage, the largest clusters come first. Beyond 1,280, examples are chosen
    at random, because larger numbers of clusters take minutes to find.

    Examples
    --------
    >>> line = np.linspace(0, 1, 100)[:, None]
    >>> ten, twenty = (representatives(line, budget, random_state=0) for budget in (10, 20))
    >>> bool(np.diff(np.sort(ten)).min() >= 5 and (twenty[:10] == ten).all())
    True
    """
    points = _points(features)
    budget = whole("budget", budget, at_least=1, at_most=len(points))
    precomputed = cache(partial(all_distances, points))
    seeds = np.random.SeedSequence(random_state)
    chosen, size = list[int](), FIRST_STAGE
    # The number of threads changes the rounding of sums, and on a busy machine threads wait for each other.
    with on_one_thread(), working("Choosing queries", budget) as report:
        while len(chosen) < budget:
            size = size if size > len(chosen) else 2 * size
            more = min(size, len(points)) - len(chosen)
            # The seed of a stage depends on its size alone, never on the budget: lists must be prefixes of each other.
            seed = int(seeds.spawn(1)[0].generate_state(1)[0] >> 1)
            stage = partial(_stage, precomputed=precomputed) if size <= LAST_STAGE else _random_positions
            before = len(chosen)

            def advance(share: float, before: int = before, more: int = more) -> None:
                # The work for one more cluster is the same in every stage.
                report(min(int(before + share * more), budget), budget)

            chosen.extend(stage(points, np.array(chosen, np.int64), more, seed, advance))
    return np.array(chosen[:budget], np.int64)


def _stage(
    points: FloatArray,
    fixed: IntArray,
    more: int,
    seed: int,
    advance: Advance,
    *,
    precomputed: Callable[[], FloatArray],
) -> list[int]:
    """Return `more` medoids of new clusters beside those of the `fixed` examples. Arguments as of `spread`."""
    total = len(fixed) + more
    if total >= len(points):
        return [int(i) for i in np.setdiff1d(np.arange(len(points)), fixed)]
    rng = np.random.default_rng(seed)
    some = rng.choice(len(points), min(len(points), max(FEWEST, PER_CLUSTER * total)), replace=False)
    sample = points[np.sort(some)]
    matrix = precomputed if len(sample) == len(points) else None
    centres = spread(sample, points[fixed], more, rng, precomputed=matrix, advance=lambda share: advance(share / 5))
    if len(sample) < len(points):
        centres, _ = lloyd(
            sample, points[fixed], centres, rounds=ROUNDS, advance=lambda share: advance(1 / 5 + share * 2 / 5)
        )
    # More rows need fewer rounds.
    rounds = min(ROUNDS, max(4, 4_000_000 // len(points)))
    finished = 3 / 5 if len(sample) < len(points) else 1 / 5
    centres, members = lloyd(
        points, points[fixed], centres, rounds=rounds, advance=lambda share: advance(finished + share * (1 - finished))
    )
    return medoids(points, centres, members=members, without=fixed)


def _random_positions(points: FloatArray, fixed: IntArray, more: int, seed: int, advance: Advance) -> list[int]:
    remaining = np.setdiff1d(np.arange(len(points)), fixed)
    return [int(position) for position in np.random.default_rng(seed).permutation(remaining)[:more]]


def _points(features: ArrayLike, pool: int | None = None) -> FloatArray:
    points = np.asarray(features)
    if points.ndim != 2 or points.dtype.kind not in "uifb" or (pool is not None and len(points) != pool):
        raise InvalidInput(f"features must be numbers of shape ({pool or 'pool'}, features), got {points.shape}.")
    if not np.isfinite(points).all():
        raise InvalidInput("features must be finite numbers, got a NaN or an infinity.")
    return np.ascontiguousarray(points, np.float32)


def _positions(values: Any, pool: int) -> IntArray:
    positions = np.asarray(values)
    if positions.size == 0:
        return np.empty(0, np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or positions.min() < 0 or positions.max() >= pool:
        raise InvalidInput(f"positions must be integers from 0 to {pool - 1}, got {values!r}.")
    if len(np.unique(positions)) != len(positions):
        raise InvalidInput("positions must name no example twice.")
    return positions.astype(np.int64)
