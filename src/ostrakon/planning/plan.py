"""The plan of a run: everything that the guarantee depends on, fixed before any vote is counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ostrakon.accounting.adjacent import replaced_record
from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.accounting.consent import Level, LevelClaim, claims_of
from ostrakon.accounting.data_independent.worst_case import gaussian_curve, worst_case, worst_case_at
from ostrakon.accounting.epsilons import Gated, WorstCase
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.membership_guess import membership_guess
from ostrakon.accounting.privacy_curve import STATED_DELTAS, PrivacyCurve, curve_of
from ostrakon.data.target import Target
from ostrakon.html_table import html_table
from ostrakon.mechanisms import LabelsGNMax, Mechanism, QuantityGNMax
from ostrakon.mechanisms.base import Relation
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.mechanisms.interactive_gnmax import InteractiveGNMax
from ostrakon.mechanisms.registry import build
from ostrakon.statements.statement import epsilon_in_words

INTERACTIVE = InteractiveGNMax.name
SIZE_IS_PUBLIC = ", which reveals that number approximately"
DIGITS_ARE_PUBLIC = ", at most 1e-05, which reveals how many digits that number has if it has six or more"
DESCRIBED_CELLS = "the number of described cells"
"""Source of the number of queries of a run without public rows."""
_LEAST_DELTA = 0.01
"""Smallest delta of the curve, as a part of the guarantee's delta."""
_GATE_PARTS = (1.3, 1.2, 1.1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""Epsilons of the curve of a gate, as parts of its epsilon."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A plan, of public numbers alone.

    mechanism: of the first round. interactive: whether a second round follows with equal noise. teachers: number of
    teachers; with per-record teachers, all units. trained_by_owners: whether the owners of a study train the teachers,
    which vote on every query although the mechanism could bound them to fewer. levels: of consent, with their weights;
    `bound` is for records of full weight. labels: number of labels of each row, if trained teachers vote on several;
    `classes` is then 2. narrowed: the part of the range to which a quantity is clipped, in whole steps, once the noisy
    histogram of the target is released. bound: the worst case of all rounds. gate: decides whether the answers are
    released; its certificate is the guarantee. None without one. tuned: parameter → the basis of its choice.
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
    trained_by_owners: bool = False
    levels: tuple[Level, ...] = ()
    labels: int | None = None
    narrowed: tuple[int, int] | None = None

    @property
    def target(self) -> Target:
        """What is predicted: one of several classes, a quantity, or several labels of a row."""
        if self.labels is not None or isinstance(self.mechanism, LabelsGNMax):
            return "labels"
        return "quantity" if isinstance(self.mechanism, QuantityGNMax) else "classes"

    @property
    def rows(self) -> int:
        """Number of queried public rows; with several labels, a row has a query for each label."""
        return self.queries // (self.labels or 1)

    @property
    def described(self) -> bool:
        """Whether columns are described in place of public rows: their cells are the queries."""
        return self.tuned.get("number of queries") == DESCRIBED_CELLS

    @property
    def cost_shares(self) -> dict[str, float]:
        """What is released and its share of the cost (`Mechanism.cost_shares`), by what it is in this run."""
        cells = {"noisy votes": "counts of cells", "sums of features": "counts of pairs of columns"}
        names = cells if self.described else {}
        return {names.get(what, what): share for what, share in self.mechanism.cost_shares.items()}

    def _repr_html_(self) -> str:
        rows = [
            ("Mechanism", repr(self.mechanism)),
            ("Teachers", self.teachers),
            ("Queries", self.queries),
            ("Guarantee", f"epsilon {epsilon_in_words(self.guarantee.epsilon)}, delta {self.guarantee.delta:g}"),
        ]
        return html_table("Plan", rows)

    @property
    def guarantee(self) -> WorstCase | Gated:
        """The guarantee of a release by this plan, if it is claimable."""
        return self.bound if self.gate is None else self.gate.certificate()

    def guarantee_under(self, relation: Relation) -> tuple[float, float]:
        """Return (epsilon, delta) under another definition of neighbours (`ostrakon.accounting.adjacent`).

        Trained teachers: with "replace" two teachers change, because the content of a record decides its teacher; else
        one does. Per-record teachers: with "replace" a vote changes; with "take-out" it is missing on all queries.
        """
        if self.per_record:
            cost = self.mechanism.under(relation).run_cost(queries=self.queries)
            assert cost is not None
            return run_epsilon(cost, delta=self.delta), self.delta
        if relation == "replace":
            return replaced_record(
                self.guarantee,
                self.mechanism,
                queries=self.queries,
                max_answers=self.max_answers,
                **shape(self.interactive, teachers=self.teachers, classes=self.classes),
            )
        return self.guarantee.epsilon, self.guarantee.delta

    def level_claims(self) -> tuple[LevelClaim, ...]:
        """Return the guarantees for the records of each level of consent; () without levels."""
        if not self.levels:
            return ()
        cost = self.mechanism.run_cost(queries=self.queries)
        assert cost is not None
        return claims_of(self.levels, cost, delta=self.delta, removed=self.mechanism.relation == "take-out")

    def sorted_adjacencies(self, known: tuple[tuple[Relation, str], ...]) -> tuple[tuple[Relation, str], ...]:
        """Return the given definitions of neighbours with that of the guarantee first."""
        removed = self.per_record and self.mechanism.relation == "take-out"
        return tuple(sorted(known, key=lambda one: one[0] != "take-out")) if removed else known

    def curve(self) -> PrivacyCurve | None:
        """Return the epsilons of a release by this plan at other deltas, and its mu if the curve is that of a Gaussian.

        The guarantee is one of the pairs, unless another one implies it. Pairs with a larger delta must not be
        published as guarantees by themselves. None if no epsilon is finite.
        """
        guarantee = self.guarantee
        own = (guarantee.epsilon, guarantee.delta)
        if self.gate is not None:
            parts = [part * guarantee.epsilon for part in _GATE_PARTS]
            others = [(epsilon, self.gate.delta_at(epsilon)) for epsilon in parts]
            return curve_of([own, *(pair for pair in others if pair[1] >= _LEAST_DELTA * self.delta)])
        sizes: dict[str, Any] = shape(self.interactive, teachers=self.teachers, classes=self.classes)
        asked: dict[str, Any] = {"queries": self.queries, "max_answers": self.max_answers}
        at = worst_case_at(self.mechanism, **asked, **sizes, adaptive=True, around=self.delta)
        deltas = [delta for delta in STATED_DELTAS if delta >= _LEAST_DELTA * self.delta * (1 - 1e-9)]
        mu = gaussian_curve(self.mechanism, self.bound.basis, **asked)
        return curve_of([own, *((at(delta).epsilon, delta) for delta in deltas)], mu=mu)

    def membership_guess(self, prior: float = 0.5) -> float:
        """Return the largest share of right guesses, for any attacker, at whether one record (or user) was used.

        prior: the attacker's probability of that before the release, in (0, 1).
        Guarantee: as `ostrakon.accounting.membership_guess`, for the pairs of `curve` and so for their neighbours.
        With per-record teachers, whose number is public: whether this record or another one instead of it was used;
        with trained teachers: whether it was used at all. 1 if no epsilon holds.
        Errors: `InvalidInput` for a prior outside (0, 1).
        """
        curve = self.curve()
        return membership_guess([(0.0, 1.0)], prior=prior) if curve is None else curve.guess(prior)

    @property
    def per_record(self) -> bool:
        """Whether every record (or user) is a teacher, so that their number is public."""
        return self.mechanism.per_record and not self.trained_by_owners

    @property
    def sized(self) -> bool:
        """Whether defaults followed from the number of records (or users), so that its size class is public."""
        return any(source.endswith((SIZE_IS_PUBLIC, DIGITS_ARE_PUBLIC)) for source in self.tuned.values())

    @property
    def claimable(self) -> bool:
        """Whether the bound may be the guarantee of a release."""
        return self.mechanism.releasable

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for run.toml, without None."""
        values = {
            "teachers": self.teachers,
            "mechanism": INTERACTIVE if self.interactive else self.mechanism.name,
            "parameters": {key: value for key, value in self.mechanism.parameters().items() if value is not None},
            "queries": self.queries,
            "max_answers": self.max_answers,
            "delta": self.delta,
            "tuned": self.tuned,
            "gate": None if self.gate is None else self.gate.as_dict(),
            "labels": self.labels,
            "levels": {level.name: level.weight for level in self.levels} or None,
        }
        return {key: value for key, value in values.items() if value is not None}


def plan_from(content: dict[str, Any], *, classes: int) -> Plan:
    """Return the plan that `Plan.as_dict` wrote: a resumed run keeps its settings if defaults have changed."""
    interactive, labels = content["mechanism"] == INTERACTIVE, content.get("labels")
    classes = classes if labels is None else 2
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
        levels=levels_from(content.get("levels", {})),
        labels=labels,
        **sizes,
    )


def levels_from(content: Mapping[str, int]) -> tuple[Level, ...]:
    """Return the levels of consent from their weights by name."""
    return tuple(Level(name=name, weight=weight) for name, weight in content.items())


def first_round(name: str) -> str:
    """Return the mechanism of the first round, in which the interactive one has no student to compare with."""
    return ConfidentGNMax.name if name == INTERACTIVE else name


def shape(interactive: bool, *, teachers: int, classes: int) -> dict[str, int]:
    """Return the shape of the votes, as far as the worst case may use it."""
    # Bounds that use the number of teachers for check and label together hold for the Confident check alone.
    return {"classes": classes} if interactive else {"teachers": teachers, "classes": classes}


def second_round(mechanism: Mechanism, scores: Any) -> Mechanism:
    """Return the interactive mechanism of the second round, with the noise of the first."""
    return InteractiveGNMax(scores=scores, **mechanism.parameters())
