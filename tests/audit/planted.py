"""Planted bugs: mechanisms as they should be, and samplers that are wrong in one respect each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ostrakon.mechanisms import (
    NO_ANSWER,
    BoundedGNMax,
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    InteractiveGNMax,
    LNMax,
    Mechanism,
    PermuteAndFlip,
    ProposeTestRelease,
    ScreenedExponential,
    SparseVector,
)
from ostrakon.votes import Votes

SCORES = np.array([[0.6, 0.2, 0.2]])

SOUND: dict[str, Mechanism] = {
    "lnmax": LNMax(gamma=0.05),
    "gnmax": GNMax(sigma2=40.0),
    "confident-gnmax": ConfidentGNMax(threshold=80.0, sigma1=12.0, sigma2=20.0),
    "interactive-gnmax": InteractiveGNMax(threshold=20.0, sigma1=8.0, sigma2=20.0, scores=np.tile(SCORES, (32, 1))),
    "bounded-gnmax": BoundedGNMax(sigma2=3.0),
    "exponential": ExponentialMechanism(epsilon_per_query=0.1),
    "permute-and-flip": PermuteAndFlip(epsilon_per_query=0.1),
    "screened-exponential": ScreenedExponential(threshold=60.0, sigma1=10.0, epsilon_per_query=0.1),
    "propose-test-release": ProposeTestRelease(threshold=25.0, epsilon_per_query=0.5),
    "propose-test-release, Gaussian": ProposeTestRelease(threshold=25.0, sigma1=8.0),
    "sparse-vector": SparseVector(threshold=31.0, refusals=2, epsilon1=0.2, epsilon2=0.2),
}


@dataclass(frozen=True)
class Bug:
    """A sampler that claims to be `honest`."""

    name: str
    honest: Mechanism
    sampler: Callable[[Votes, np.random.Generator], Any]

    def __str__(self) -> str:
        return f"{self.honest.name}: {self.name}"


def changed(mechanism: Mechanism, **fields: float) -> Mechanism:
    """The same mechanism with other parameters."""
    if isinstance(mechanism, InteractiveGNMax):
        held = {name: getattr(mechanism, name) for name in ("threshold", "sigma1", "sigma2", "scores")}
        return InteractiveGNMax(**{**held, **fields})
    return replace(mechanism, **fields)  # pyright: ignore[reportArgumentType]


def less_noise(mechanism: Mechanism, share: float) -> Mechanism:
    """The same mechanism with all its noise multiplied by `share`."""
    scales, rates = ("sigma1", "sigma2"), ("gamma", "epsilon_per_query", "epsilon1", "epsilon2")
    held = {name: getattr(mechanism, name, None) for name in (*scales, *rates)}
    return changed(
        mechanism,
        **{
            name: value * share if name in scales else value / share
            for name, value in held.items()
            if value is not None
        },
    )


class _Repeated:
    """A source of noise that draws one row, and gives it to every query."""

    def __init__(self, rng: np.random.Generator, rows: int = 1) -> None:
        self.rng, self.rows = rng, rows

    def __getattr__(self, name: str):
        def draw(*, scale: float, size: Any) -> np.ndarray:
            shape = (size,) if np.ndim(size) == 0 else tuple(size)
            few = getattr(self.rng, name)(scale=scale, size=(self.rows, *shape[1:]))
            return few[np.arange(shape[0]) % self.rows]

        return draw


def shared_noise(mechanism: Mechanism, *, rows: int = 1) -> Callable[[Votes, np.random.Generator], Any]:
    """The mechanism with one draw of noise for all queries of a run (or for every `rows`-th)."""

    def sampler(votes: Votes, rng: np.random.Generator) -> np.ndarray:
        noise = _Repeated(rng, rows)
        if isinstance(mechanism, GNMax | BoundedGNMax):
            return (votes.counts + noise.normal(scale=mechanism.sigma2, size=votes.counts.shape)).argmax(axis=1)
        if isinstance(mechanism, LNMax):
            return (votes.counts + noise.laplace(scale=1 / mechanism.gamma, size=votes.counts.shape)).argmax(axis=1)
        if isinstance(mechanism, ExponentialMechanism):
            scale = 2 / mechanism.epsilon_per_query
            return (votes.counts + noise.gumbel(scale=scale, size=votes.counts.shape)).argmax(axis=1)
        assert isinstance(mechanism, ConfidentGNMax)
        check = votes.top + noise.normal(scale=mechanism.sigma1, size=votes.queries)
        labels = (votes.counts + rng.normal(scale=mechanism.sigma2, size=votes.counts.shape)).argmax(axis=1)
        return np.where(check >= mechanism.threshold, labels, NO_ANSWER)

    return sampler


def _table() -> list[Bug]:
    found = [Bug("0.8 of its noise", honest, less_noise(honest, 0.8).sample) for honest in SOUND.values()]
    found += [Bug("0.5 of its noise", SOUND[name], less_noise(SOUND[name], 0.5).sample) for name in ("gnmax", "lnmax")]
    confident, interactive = SOUND["confident-gnmax"], SOUND["interactive-gnmax"]
    screened, sparse = SOUND["screened-exponential"], SOUND["sparse-vector"]
    found += [
        Bug("noise reused over all queries", SOUND[name], shared_noise(SOUND[name]))
        for name in ("gnmax", "lnmax", "exponential", "confident-gnmax", "bounded-gnmax")
    ]
    found += [
        Bug("noise reused over half of the queries", SOUND["gnmax"], shared_noise(SOUND["gnmax"], rows=2)),
        Bug("threshold one too low", confident, changed(confident, threshold=79.0).sample),
        Bug("threshold one too high", confident, changed(confident, threshold=81.0).sample),
        Bug("threshold one too low", interactive, changed(interactive, threshold=19.0).sample),
        Bug("threshold one too low", screened, changed(screened, threshold=59.0).sample),
        Bug("threshold one too low", sparse, changed(sparse, threshold=30.0).sample),
        Bug(
            "threshold one too low",
            SOUND["propose-test-release"],
            changed(SOUND["propose-test-release"], threshold=24.0).sample,
        ),
        Bug("deviation for variance", SOUND["gnmax"], GNMax(sigma2=40.0**0.5).sample),
        Bug("variance for deviation", SOUND["bounded-gnmax"], BoundedGNMax(sigma2=9.0).sample),
        Bug("sigmas swapped", confident, changed(confident, sigma1=20.0, sigma2=12.0).sample),
        Bug("no noise in the check", confident, changed(confident, sigma1=1e-9).sample),
        Bug("deviation for Laplace's scale", SOUND["lnmax"], LNMax(gamma=0.05 * 2**0.5).sample),
        Bug("exponential noise for Gumbel's", SOUND["exponential"], PermuteAndFlip(epsilon_per_query=0.1).sample),
        Bug("an answer where it refuses", screened, ExponentialMechanism(epsilon_per_query=0.1).sample),
    ]
    return found


BUGS = _table()
