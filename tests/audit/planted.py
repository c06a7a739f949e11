"""Planted bugs: mechanisms as they should be, and samplers that are wrong in one respect each."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np

from ostrakon.mechanisms import (
    BoundedGNMax,
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    InteractiveGNMax,
    LNMax,
    Mechanism,
    MomentGNMax,
)
from ostrakon.mechanisms.contrib.noisy_median import NoisyMedian
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.mechanisms.labels_gnmax import LabelsGNMax
from ostrakon.mechanisms.quantity_gnmax import QuantityGNMax
from ostrakon.votes import STEPS, Votes

SCORES = np.array([[0.6, 0.2, 0.2]])

SOUND: dict[str, Mechanism] = {
    "lnmax": LNMax(gamma=0.05),
    "gnmax": GNMax(sigma2=40.0),
    "confident-gnmax": ConfidentGNMax(threshold=80.0, sigma1=12.0, sigma2=20.0),
    "interactive-gnmax": InteractiveGNMax(threshold=20.0, sigma1=8.0, sigma2=20.0, scores=np.tile(SCORES, (32, 1))),
    "bounded-gnmax": BoundedGNMax(sigma2=3.0),
    "moment-gnmax": MomentGNMax(sigma2=3.0),
    "quantity-gnmax": QuantityGNMax(sigma2=3.0, moments=0.7, errors=0.1, histogram=0.1),
    "labels-gnmax": LabelsGNMax(sigma2=3.0),
    "exponential": ExponentialMechanism(epsilon_per_query=0.1),
    "noisy-median": NoisyMedian(sigma2=15.0),
    "permute-and-flip": PermuteAndFlip(epsilon_per_query=0.1),
    "screened-exponential": ScreenedExponential(threshold=60.0, sigma1=10.0, epsilon_per_query=0.1),
    "propose-test-release": ProposeTestRelease(threshold=25.0, epsilon_per_query=0.5),
    "propose-test-release, Gaussian": ProposeTestRelease(threshold=40.0, sigma1=8.0),
    "sparse-vector": SparseVector(threshold=100.0, refusals=2, epsilon1=0.4, epsilon2=0.6),
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


TABLES = {
    "noisy_counts": 1,
    **dict.fromkeys(("noisy_moments", "noisy_corrections", "noisy_errors", "noisy_histogram"), STEPS),
}
"""Methods that draw a released table, and what its exact numbers are divided by."""


def quiet_table(kind: type[Mechanism], table: str, share: float) -> Callable[..., np.ndarray]:
    """The method `table` of a mechanism, with `share` of its noise."""
    honest, grid = getattr(kind, table), STEPS

    def quiet(self: Mechanism, votes: Any, rng: np.random.Generator) -> np.ndarray:
        exact = votes.counts / TABLES[table]
        return exact + np.rint(share * (honest(self, votes, rng) - exact) * grid) / grid

    return quiet


def _half(z: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The noise of the first half of a table used again for the second half, in another order."""
    flat = z.ravel().copy()
    half = len(flat) // 2
    flat[len(flat) - half :] = flat[:half][order[:half]]
    return flat.reshape(z.shape)


def _anew(z: np.ndarray) -> np.random.Generator:
    return np.random.default_rng(np.abs(z).astype(np.int64).ravel()[:4])


WRONG_NOISE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "reversed": lambda z: _half(z, np.arange(z.size // 2)[::-1]),
    "one permutation": lambda z: _half(z, np.random.default_rng(3).permutation(z.size // 2)),
    "a new permutation each time": lambda z: _half(z, _anew(z).permutation(z.size // 2)),
    "a new permutation with new signs": lambda z: (
        _half(z, _anew(z).permutation(z.size // 2)) * _anew(z).choice([-1, 1], z.shape)
    ),
    "one magnitude a row": lambda z: np.abs(z[:, :1]) * _anew(z).choice([-1, 1], z.shape),
    "1/16 vote": lambda z: np.rint(z / 64) * 64,
    "1/2 vote": lambda z: np.rint(z / 512) * 512,
    "a sum of 0": lambda z: z - z.mean(),
}
"""What is wrong with the noise of every draw of a table, from the noise as it should be, in steps."""


def wrong_table(kind: type[Mechanism], table: str, wrong: str) -> Callable[..., np.ndarray]:
    """The method `table` of a mechanism, with its noise changed."""
    honest = getattr(kind, table)

    def changed_table(self: Mechanism, votes: Any, rng: np.random.Generator) -> np.ndarray:
        exact = votes.counts / TABLES[table]
        return exact + np.rint(WRONG_NOISE[wrong](np.rint((honest(self, votes, rng) - exact) * STEPS))) / STEPS

    return changed_table


class Repeated(np.random.Generator):
    """A source of noise that draws `rows` rows, and deals them out again and again."""

    def __init__(self, rng: np.random.Generator, rows: int) -> None:
        super().__init__(rng.bit_generator)
        self.rows = rows

    def _again(self, draw: Callable[..., np.ndarray], scale: float, size: Any) -> np.ndarray:
        shape = (size,) if np.ndim(size) == 0 else tuple(size)
        return draw(scale=scale, size=(self.rows, *shape[1:]))[np.arange(shape[0]) % self.rows]

    def normal(self, *, scale: float, size: Any) -> np.ndarray:
        return self._again(super().normal, scale, size)

    def laplace(self, *, scale: float, size: Any) -> np.ndarray:
        return self._again(super().laplace, scale, size)

    def gumbel(self, *, scale: float, size: Any) -> np.ndarray:
        return self._again(super().gumbel, scale, size)

    def exponential(self, *, scale: float, size: Any) -> np.ndarray:
        return self._again(super().exponential, scale, size)


def shared_noise(mechanism: Mechanism, *, rows: int = 1) -> Callable[[Votes, np.random.Generator], Any]:
    """The mechanism with one draw of noise for all queries of a run (or for every `rows`-th)."""
    return lambda votes, rng: mechanism.sample(votes, Repeated(rng, rows))


def _changes() -> list[tuple[str, str, dict[str, float]]]:
    """(mechanism, what is wrong, the parameters that it runs with)."""
    low, high = "threshold one too low", "threshold one too high"
    return [
        ("confident-gnmax", low, {"threshold": 79.0}),
        ("confident-gnmax", high, {"threshold": 81.0}),
        ("interactive-gnmax", low, {"threshold": 19.0}),
        ("screened-exponential", low, {"threshold": 59.0}),
        ("propose-test-release", low, {"threshold": 24.0}),
        ("propose-test-release, Gaussian", low, {"threshold": 39.0}),
        ("sparse-vector", low, {"threshold": 99.0}),
        ("gnmax", "deviation for variance", {"sigma2": 40.0**0.5}),
        ("bounded-gnmax", "variance for deviation", {"sigma2": 9.0}),
        ("confident-gnmax", "deviation for variance in the check", {"sigma1": 12.0**0.5}),
        ("confident-gnmax", "deviation for variance in the label", {"sigma2": 20.0**0.5}),
        ("interactive-gnmax", "deviation for variance in the check", {"sigma1": 8.0**0.5}),
        ("screened-exponential", "deviation for variance", {"sigma1": 10.0**0.5}),
        ("propose-test-release, Gaussian", "deviation for variance", {"sigma1": 8.0**0.5}),
        ("confident-gnmax", "sigmas swapped", {"sigma1": 20.0, "sigma2": 12.0}),
        ("interactive-gnmax", "sigmas swapped", {"sigma1": 20.0, "sigma2": 8.0}),
        ("sparse-vector", "epsilons swapped", {"epsilon1": 0.6, "epsilon2": 0.4}),
        ("confident-gnmax", "no noise in the check", {"sigma1": 1e-9}),
        ("lnmax", "deviation for Laplace's scale", {"gamma": 0.05 * 2**0.5}),
        ("propose-test-release", "deviation for Laplace's scale", {"epsilon_per_query": 0.5 * 2**0.5}),
    ]


def _table() -> list[Bug]:
    found = [Bug("0.8 of its noise", honest, less_noise(honest, 0.8).sample) for honest in SOUND.values()]
    found += [Bug("0.5 of its noise", SOUND[name], less_noise(SOUND[name], 0.5).sample) for name in ("gnmax", "lnmax")]
    found += [Bug("noise reused over all queries", honest, shared_noise(honest)) for honest in SOUND.values()]
    found += [Bug(wrong, SOUND[name], changed(SOUND[name], **given).sample) for name, wrong, given in _changes()]
    other = PermuteAndFlip(epsilon_per_query=0.1), ExponentialMechanism(epsilon_per_query=0.1)
    return [
        *found,
        Bug("noise reused over half of the queries", SOUND["gnmax"], shared_noise(SOUND["gnmax"], rows=2)),
        Bug("exponential noise for Gumbel's", SOUND["exponential"], other[0].sample),
        Bug("an answer where it refuses", SOUND["screened-exponential"], other[1].sample),
    ]


BUGS = _table()


@contextmanager
def public_parts_once() -> Iterator[None]:
    """What the audit asks of public numbers alone, worked out once for all audits of a mechanism at a setting."""
    # The package's `audit` is the function.
    claims, audits = (import_module(f"ostrakon.audit.{name}") for name in ("certify", "audit"))
    names = ("worst_case", "worst_neighbours", "_law_claim_finding", "_default_teachers")
    with ExitStack() as patched:
        for module, name in [(claims, "worst_case_at"), *((audits, name) for name in names)]:
            patched.enter_context(mock.patch.object(module, name, _cached(getattr(module, name))))
        yield


def _cached(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[str, Any] = {}

    def cached(*arguments: Any, **options: Any) -> Any:
        key = repr((arguments, sorted(options.items())))
        if key not in known:
            known[key] = function(*arguments, **options)
        return known[key]

    return cached
