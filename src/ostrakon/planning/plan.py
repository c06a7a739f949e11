"""The plan of a run: everything that the guarantee depends on, fixed before any vote is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostrakon.accounting.adjacent import Relation, replaced_record, taken_out
from ostrakon.accounting.data_independent.worst_case import worst_case, worst_case_at
from ostrakon.accounting.epsilons import Gated, WorstCase
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.membership_guess import membership_guess
from ostrakon.html_table import html_table
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.mechanisms.interactive_gnmax import InteractiveGNMax
from ostrakon.mechanisms.registry import build

INTERACTIVE = InteractiveGNMax.name
SIZE_IS_PUBLIC = ", which reveals that number approximately"
_LARGE_DELTAS = (1e-3, 1e-2, 0.03, 0.1, 0.3)
_MORE_DELTAS = (0.001, 0.002, 0.005, 0.01, *np.linspace(0.02, 0.98, 49).tolist())
"""The deltas at which a guarantee limits guesses best, if an epsilon is computed quickly."""
_SMALLER = (0.8, 0.6, 0.4, 0.2, 0.0)
"""Parts of a gate's epsilon; each has its own delta."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Public numbers alone. `mechanism` is that of the first round; interactive: a second one follows at equal noise.

    teachers: the number of teachers; with per-record teachers, of all units. trained: whether the owners of a study
    train the teachers, which vote on every query although the mechanism could bound them to fewer. bound: the worst
    case of all rounds together. gate: decides whether the answers are released, and its certificate is the guarantee;
    None without one. tuned: parameter → what it was chosen on.
    """

    teachers: int
    classes: int
    mechanism: Mechanism
    interactive: bool
    queries: int
    max_answers: int | None
    delta: float
    bound: WorstCase
    tuned: dict[str, str]
    gate: Gate | None = None
    trained: bool = False

    def _repr_html_(self) -> str:
        rows = [
            ("Mechanism", repr(self.mechanism)),
            ("Teachers", self.teachers),
            ("Queries", self.queries),
            ("Guarantee", f"epsilon {self.guarantee.epsilon:.4g}, delta {self.guarantee.delta:g}"),
        ]
        return html_table("Plan", rows)

    @property
    def guarantee(self) -> WorstCase | Gated:
        """What a release by this plan may claim, if it may claim anything."""
        return self.bound if self.gate is None else self.gate.certificate()

    def otherwise(self, relation: Relation) -> tuple[float, float]:
        """(epsilon, delta) of the same release under another definition of neighbours (`ostrakon.accounting.adjacent`).

        "replace", if a record's content decides its teacher: two teachers change. "take-out": one teacher changes; a
        per-record teacher abstains on all queries.
        """
        if relation == "replace":
            return replaced_record(
                self.guarantee,
                self.mechanism,
                queries=self.queries,
                max_answers=self.max_answers,
                **shape(self.interactive, teachers=self.teachers, classes=self.classes),
            )
        if self.per_record:
            return taken_out(self.bound, self.mechanism, queries=self.queries)
        return self.guarantee.epsilon, self.guarantee.delta

    def guarantees(self) -> tuple[tuple[float, float], ...]:
        """Pairs (epsilon, delta) that all hold for a release by this plan, under the neighbours of its guarantee.

        The guarantee comes first. The others have larger deltas and must not be published as guarantees; with
        `membership_guess` they limit an attacker. Pairs without a finite epsilon are left out.
        """
        guarantee = self.guarantee
        if self.gate is not None:
            smaller = [part * guarantee.epsilon for part in _SMALLER]
            others = [(epsilon, self.gate.delta_at(epsilon)) for epsilon in smaller]
        else:
            deltas = [delta for delta in (_MORE_DELTAS if self.per_record else _LARGE_DELTAS) if delta > self.delta]
            sizes: dict[str, Any] = shape(self.interactive, teachers=self.teachers, classes=self.classes)
            asked = {"queries": self.queries, "max_answers": self.max_answers}
            at = worst_case_at(self.mechanism, **asked, **sizes, adaptive=True, around=self.delta)
            others = [(at(delta).epsilon, delta) for delta in deltas]
        return tuple(pair for pair in [(guarantee.epsilon, guarantee.delta), *others] if all(map(math.isfinite, pair)))

    def membership_guess(self, prior: float = 0.5) -> float:
        """The largest share of right guesses at whether one record (or user) was used, for every attacker.

        prior: the attacker's probability of that before the release is seen, in (0, 1).
        Guarantee: as `ostrakon.accounting.membership_guess`, for the pairs of `guarantees` and so for their neighbours.
        With per-record teachers, whose number is public: whether this record or another one instead of it was used;
        with trained teachers: whether it was used at all. 1 if no epsilon holds.
        Errors: `InvalidInput` for a prior outside (0, 1).
        """
        return membership_guess(self.guarantees() or [(0.0, 1.0)], prior=prior)

    @property
    def per_record(self) -> bool:
        """Whether every record (or user) is a teacher, so that their number is public."""
        return self.mechanism.per_record and not self.trained

    @property
    def sized(self) -> bool:
        """Whether defaults followed from the number of records (or users), so that its size class is public."""
        return any(source.endswith(SIZE_IS_PUBLIC) for source in self.tuned.values())

    @property
    def claimable(self) -> bool:
        """Whether the bound may be the guarantee of a release."""
        return self.mechanism.releasable

    def as_dict(self) -> dict[str, Any]:
        """Plain values for run.toml (None left out)."""
        values = {
            "teachers": self.teachers,
            "mechanism": INTERACTIVE if self.interactive else self.mechanism.name,
            "parameters": {key: value for key, value in self.mechanism.parameters().items() if value is not None},
            "queries": self.queries,
            "max_answers": self.max_answers,
            "delta": self.delta,
            "tuned": self.tuned,
            "gate": None if self.gate is None else self.gate.as_dict(),
        }
        return {key: value for key, value in values.items() if value is not None}


def plan_from(content: dict[str, Any], *, classes: int) -> Plan:
    """The plan that `Plan.as_dict` wrote: a resumed run keeps its settings even if the defaults have changed."""
    interactive = content["mechanism"] == INTERACTIVE
    mechanism = build(first_round(content["mechanism"]), dict(content["parameters"]))
    sizes: dict[str, Any] = {
        "queries": content["queries"],
        "delta": content["delta"],
        "max_answers": content.get("max_answers"),
    }
    sizes_of_votes: dict[str, Any] = shape(interactive, teachers=content["teachers"], classes=classes)
    gate = None
    if "gate" in content:
        size = {"queries": content["queries"], "delta": content["delta"], **sizes_of_votes}
        gate = Gate(mechanism=mechanism, **size, **content["gate"])
    return Plan(
        teachers=content["teachers"],
        classes=classes,
        mechanism=mechanism,
        interactive=interactive,
        bound=worst_case(mechanism, **sizes, **sizes_of_votes, adaptive=True),
        tuned=dict(content["tuned"]),
        gate=gate,
        **sizes,
    )


def first_round(name: str) -> str:
    """The mechanism of the first round: the interactive one has no student to compare with yet."""
    return ConfidentGNMax.name if name == INTERACTIVE else name


def shape(interactive: bool, *, teachers: int, classes: int) -> dict[str, int]:
    """The shape of the votes, as far as the worst case may use it."""
    # Bounds that join check and label through the number of teachers hold for the Confident check alone.
    return {"classes": classes} if interactive else {"teachers": teachers, "classes": classes}


def second_round(mechanism: Mechanism, scores: Any) -> Mechanism:
    """The interactive mechanism of the second round, at the noise of the first."""
    return InteractiveGNMax(scores=scores, **mechanism.parameters())
