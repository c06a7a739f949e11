"""Every mechanism with the votes on which its noise shows: a new mechanism joins the contract by a row here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ostrakon.mechanisms import (
    MECHANISMS,
    BoundedGNMax,
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    InteractiveGNMax,
    LabelsGNMax,
    LNMax,
    Mechanism,
    MomentGNMax,
    QuantityGNMax,
)
from ostrakon.mechanisms.contrib.immutable import Immutable
from ostrakon.mechanisms.contrib.noisy_median import NoisyMedian
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.votes import BoundedVotes, Votes


@dataclass(frozen=True, kw_only=True)
class Case:
    """One mechanism class with one choice of noise.

    parameters: of the constructor. noise: the fields that scale noise, each of which is put 2% wrong in turn (or
    together, where one string names several). counts: one histogram on which 2% shows; scaled to more queries by
    repetition. scales: factors of the noise fields under which the brute force is run.
    finite: fields that may be any finite number; may_be_0: fields that may be 0; all other fields must be above 0.
    whole: fields that are integers.
    votes: from counts to the votes that the mechanism takes.
    ordered: whether the outcome depends on which of two equal classes comes first.
    """

    mechanism: type[Mechanism]
    parameters: dict[str, Any]
    noise: tuple[str, ...]
    counts: tuple[int, ...]
    scales: tuple[float, ...] = (0.02, 0.2, 1.0)
    finite: tuple[str, ...] = ()
    may_be_0: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    ordered: bool = False
    per_query: Callable[[int, int], dict[str, Any]] = field(default=lambda queries, classes: {})
    votes: Callable[..., Votes] = Votes

    def build(self, votes: Votes | None = None, **changes: Any) -> Mechanism:
        """The mechanism, for `votes` where a parameter has one row per query."""
        rows, classes = (1, len(self.counts)) if votes is None else votes.counts.shape
        return self.mechanism(**{**self.parameters, **self.per_query(rows, classes), **changes})

    def scaled(self, fields: str, factor: float, votes: Votes | None = None) -> Mechanism:
        """The mechanism with the named fields (separated by blanks) multiplied."""
        changes = {name: self.parameters[name] * factor for name in fields.split()}
        return self.build(votes, **changes)

    @property
    def label(self) -> str:
        """The name of the test."""
        two_forms = self.mechanism in (ProposeTestRelease, Immutable)
        gaussian = two_forms and not {"sigma1", "sigma2"}.isdisjoint(self.parameters)
        return self.mechanism.name + ("-gaussian" if gaussian else "")


def _scores(queries: int, classes: int) -> dict[str, Any]:
    p = np.full((queries, classes), 0.4 / (classes - 1))
    p[:, 0] = 0.6
    return {"scores": p}


def _bounded(counts: Any, *, teachers: int | None = None) -> Votes:
    return BoundedVotes(counts, teachers=max(1, int(np.sum(counts))), max_contributions=1)


CASES = [
    Case(mechanism=LNMax, parameters={"gamma": 0.05}, noise=("gamma",), counts=(60, 30, 10)),
    Case(mechanism=GNMax, parameters={"sigma2": 20.0}, noise=("sigma2",), counts=(60, 30, 10)),
    Case(
        mechanism=ConfidentGNMax,
        parameters={"threshold": 80.0, "sigma1": 20.0, "sigma2": 20.0},
        noise=("sigma1", "sigma2"),
        counts=(60, 30, 10),
        finite=("threshold",),
    ),
    Case(
        mechanism=InteractiveGNMax,
        parameters={"threshold": 20.0, "sigma1": 20.0, "sigma2": 20.0},
        noise=("sigma1", "sigma2"),
        counts=(60, 30, 10),
        finite=("threshold",),
        per_query=_scores,
    ),
    Case(
        mechanism=ExponentialMechanism,
        parameters={"epsilon_per_query": 0.1},
        noise=("epsilon_per_query",),
        counts=(60, 30, 10),
    ),
    Case(
        mechanism=ScreenedExponential,
        parameters={"threshold": 80.0, "sigma1": 20.0, "epsilon_per_query": 0.1},
        noise=("sigma1", "epsilon_per_query"),
        counts=(60, 30, 10),
        finite=("threshold",),
    ),
    Case(
        mechanism=PermuteAndFlip,
        parameters={"epsilon_per_query": 0.1},
        noise=("epsilon_per_query",),
        counts=(60, 30, 10),
    ),
    Case(mechanism=NoisyMedian, parameters={"sigma2": 20.0}, noise=("sigma2",), counts=(45, 15, 40)),
    Case(
        mechanism=ProposeTestRelease,
        parameters={"threshold": 25.0, "epsilon_per_query": 0.1},
        noise=("epsilon_per_query",),
        counts=(60, 30, 10),
        ordered=True,
    ),
    Case(
        mechanism=ProposeTestRelease,
        parameters={"threshold": 25.0, "sigma1": 10.0},
        noise=("sigma1",),
        counts=(60, 30, 10),
        ordered=True,
    ),
    Case(
        mechanism=SparseVector,
        parameters={"threshold": 31.0, "refusals": 2, "epsilon1": 0.2, "epsilon2": 0.2},
        noise=("epsilon1 epsilon2",),
        counts=(60, 30, 10),
        whole=("refusals",),
        ordered=True,
    ),
    Case(
        mechanism=BoundedGNMax,
        parameters={"sigma2": 20.0, "max_contributions": 1},
        noise=("sigma2",),
        counts=(60, 30, 10),
        whole=("max_contributions",),
        votes=_bounded,
    ),
    Case(
        mechanism=MomentGNMax,
        parameters={"sigma2": 20.0, "max_contributions": 1, "moments": 0.5},
        noise=("sigma2",),
        counts=(60, 30, 10),
        whole=("max_contributions",),
        votes=_bounded,
    ),
    Case(
        mechanism=QuantityGNMax,
        parameters={"sigma2": 20.0, "max_contributions": 1, "moments": 0.8},
        noise=("sigma2",),
        counts=(60, 30, 10),
        whole=("max_contributions",),
        votes=_bounded,
    ),
    Case(
        mechanism=LabelsGNMax,
        parameters={"sigma2": 20.0, "max_contributions": 1, "moments": 0.8, "max_labels": 1},
        noise=("sigma2",),
        counts=(60, 30, 10),
        whole=("max_contributions", "max_labels"),
        votes=_bounded,
    ),
    Case(
        mechanism=Immutable,
        parameters={"constant": 5.0, "gamma": 0.05},
        noise=("gamma",),
        counts=(60, 30, 10),
        ordered=True,
    ),
    Case(
        mechanism=Immutable,
        parameters={"constant": 5.0, "sigma2": 20.0},
        noise=("sigma2",),
        counts=(60, 30, 10),
        ordered=True,
    ),
]
"""The rows of the contract; every class in `MECHANISMS` must have one."""


def missing() -> set[str]:
    """Registered mechanisms without a row."""
    return set(MECHANISMS) - {case.mechanism.name for case in CASES}
