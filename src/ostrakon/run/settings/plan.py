"""The plan of a run: everything the guarantee depends on, fixed before any vote is seen."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ostrakon.accounting.adjacent import Relation, replaced_record, taken_out
from ostrakon.accounting.calibration.gated import choose_guarantee
from ostrakon.accounting.calibration.noise import calibrate, scaled
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.epsilons import Gated, WorstCase
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.accounting.statement import round_up
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.mechanisms.interactive_gnmax import InteractiveGNMax
from ostrakon.mechanisms.registry import build, build_with_defaults, find
from ostrakon.run.settings.defaults import (
    AUTO,
    DEFAULT_EPSILON,
    DEFAULT_MECHANISM,
    DEFAULT_OF_TEACHERS,
    FEWEST_PER_RECORD,
    default_delta,
    default_per_record_queries,
    default_size,
    default_teachers,
    require_delta,
)
from ostrakon.validation import InvalidInput, fraction, positive, whole

INTERACTIVE = "interactive-gnmax"
WORST_CASE, GATE = GUARANTEES = ("worst-case", "gate")


_GATE_FIELDS = ("order", "B", "kappa", "s", "prefix")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks of the privacy side; None: choose for me.

    mechanism: its name on the command line, or "auto". parameters: by field name. epsilon: the guarantee must stay
    within it. guarantee: "worst-case", or "gate": all answers are released only where a noisy test finds that the
    teachers agree, planned on simulated votes of which a share `agreement` goes to the winner; the worst case where no
    gate helps.
    """

    teachers: int | None = None
    mechanism: str = AUTO
    parameters: dict[str, float | None] = field(default_factory=dict[str, float | None])
    queries: int | None = None
    max_answers: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    guarantee: str = WORST_CASE
    agreement: float = 0.85


DEFAULT_PROPORTION = "a default in proportion to the number of teachers"
SIZE_IS_PUBLIC = ", whose size class is thereby treated as public"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Public numbers alone. `mechanism` is that of the first round; interactive: a second one follows at equal noise.

    teachers: how many are counted; with per-record teachers, everyone is one.
    bound: the worst case of all rounds together. gate: what decides whether the answers are released, and then its
    certificate is the guarantee; None without one. tuned: parameter → what it was chosen on.
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

    @property
    def guarantee(self) -> WorstCase | Gated:
        """What a release by this plan may claim, where it may claim anything."""
        return self.bound if self.gate is None else self.gate.certificate()

    def otherwise(self, relation: Relation) -> tuple[float, float]:
        """(epsilon, delta) of the same release under another notion of neighbours (`ostrakon.accounting.adjacent`).

        "replace" where records are teachers' by their content: two teachers change. "take-out": one teacher does, and
        with per-record teachers, one abstains everywhere.
        """
        if relation == "replace":
            return replaced_record(
                self.guarantee,
                self.mechanism,
                queries=self.queries,
                max_answers=self.max_answers,
                **_shape(self.interactive, teachers=self.teachers, classes=self.classes),
            )
        if self.mechanism.per_record:
            return taken_out(self.bound, self.mechanism, queries=self.queries)
        return self.guarantee.epsilon, self.guarantee.delta

    @property
    def per_record(self) -> bool:
        """Whether every record (or user) is a teacher of its own, so that their number is public."""
        return self.mechanism.per_record

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
            "gate": None if self.gate is None else {name: getattr(self.gate, name) for name in _GATE_FIELDS},
        }
        return {key: value for key, value in values.items() if value is not None}


def auto_mechanism(request: Request, *, trained: bool = False) -> str:
    """What the mechanism "auto" stands for: every record a teacher of its own, so that queries cost nothing each.

    Confident-GNMax wherever something is asked for that only trained teachers have: how many, a cap on answers, a gate,
    noise of other mechanisms, or (trained) which they are or that they are smoothed.
    """
    of_answers = request.max_answers is not None or request.guarantee != WORST_CASE
    of_noise = any(value is not None for name, value in request.parameters.items() if name != "max_contributions")
    trained = trained or request.teachers is not None or of_answers or of_noise
    return DEFAULT_OF_TEACHERS if trained else DEFAULT_MECHANISM


def make_plan(
    request: Request, *, units: int, pool: int, classes: int, unit: str = "record", auto: str | None = None
) -> Plan:
    """Settle what `request` leaves open, from public sizes alone, and price it.

    units: private records or users. pool: public rows. Where no epsilon is given and not all of the noise, the noise is
    calibrated to an epsilon of 2: a single parameter does not silently lift the guarantee. auto: what the mechanism
    "auto" stands for; None: `auto_mechanism`.

    Errors: `InvalidInput` for more teachers than units, more queries than public rows, a delta of 1 / units or more,
    parameters that the mechanism does not have, an epsilon that cannot be kept (with the nearest that can).
    """
    tuned: dict[str, str] = {}
    if request.mechanism == AUTO:
        request = dataclasses.replace(request, mechanism=auto_mechanism(request) if auto is None else auto)
    if find(request.mechanism).per_record:
        return _per_record_plan(request, units=units, pool=pool, classes=classes, unit=unit)
    teachers = _teachers(request, units, unit, tuned)
    delta = _delta(request, units, unit, tuned)
    mechanism = build_with_defaults(_first_round(request.mechanism), teachers, request.parameters)
    epsilon = _epsilon(request, mechanism, tuned)
    max_answers = None if request.max_answers is None else whole("max_answers", request.max_answers, at_least=1)
    if request.queries is None:
        tuned["number of queries"] = "a default from the size of the public data and the epsilon"
        queries, cap = default_size(
            mechanism, pool=pool, epsilon=epsilon, delta=delta, classes=classes, max_answers=max_answers
        )
        max_answers = cap if request.guarantee == WORST_CASE else max_answers
    else:
        queries = _queries(request, pool, tuned)
    interactive = request.mechanism == INTERACTIVE
    if interactive and request.guarantee == GATE:
        raise InvalidInput("A gate takes one batch of queries: interactive-gnmax, which asks in two rounds, has none.")
    sizes: dict[str, Any] = {"queries": queries, "delta": delta, "max_answers": max_answers}
    sizes |= _shape(interactive, teachers=teachers, classes=classes)
    gate = None
    if request.guarantee not in GUARANTEES:
        raise InvalidInput(f"guarantee must be one of {', '.join(GUARANTEES)}, got {request.guarantee!r}.")
    if request.guarantee == GATE:
        gate = _gate(request, mechanism, epsilon=epsilon, **sizes)
    if gate is not None:
        mechanism = gate.mechanism
        tuned["gate"] = f"votes simulated with a share of {request.agreement:g} for the winner"
    elif epsilon is not None:
        try:
            mechanism = calibrate(mechanism, epsilon=epsilon, **sizes)
            _require_noise_below_votes(mechanism, teachers, epsilon=epsilon, queries=queries)
        except InvalidInput as refused:
            raise InvalidInput(
                _or_per_record(refused, request, units=units, pool=pool, classes=classes, unit=unit)
            ) from None
    tuned |= _parameters_told(request, mechanism, epsilon)
    return Plan(
        teachers=teachers,
        classes=classes,
        mechanism=mechanism,
        interactive=interactive,
        queries=queries,
        max_answers=max_answers,
        delta=delta,
        bound=worst_case(mechanism, **sizes),
        tuned=tuned,
        gate=gate,
    )


def _per_record_plan(request: Request, *, units: int, pool: int, classes: int, unit: str) -> Plan:
    """The plan where everyone is a teacher: the queries cost nothing each, so noise comes first, then their number."""
    name = request.mechanism
    for option, default in (("teachers", None), ("max_answers", None), ("guarantee", WORST_CASE)):
        if getattr(request, option) != default:
            raise InvalidInput(
                f"{option} cannot be chosen for {name}, where every {unit} votes and all queries together have one "
                f"price, got {getattr(request, option)!r}."
            )
    tuned = {"number of teachers": f"one for every {unit}, whose number is thereby treated as public"}
    delta = _delta(request, units, unit, tuned)
    mechanism = build_with_defaults(name, units, request.parameters)
    epsilon = _epsilon(request, mechanism, tuned)
    sizes: dict[str, Any] = {"delta": delta, "teachers": units, "classes": classes}
    if request.queries is not None:
        queries = _queries(request, pool, tuned)
    if epsilon is not None:
        # All queries cost what `max_contributions` of them cost: as many as the pool has is no dearer than any other
        # number.
        asked = pool if request.queries is None else queries
        mechanism = calibrate(mechanism, epsilon=epsilon, queries=asked, **sizes)
    if request.queries is None:
        tuned["number of queries"] = (
            f"so many that the votes on each are a few times its noise, from the number of {unit}s"
        )
        queries = default_per_record_queries(mechanism, units=units, pool=pool, classes=classes)
    votes_each, noise = mechanism.contribution_bound or 1, mechanism.vote_noise or 0.0
    if units * votes_each < noise * queries:
        raise InvalidInput(
            f"queries must be few enough for their votes to exceed the noise: {units} {unit}s vote on "
            f"{votes_each} of {queries} queries, under noise of standard deviation "
            f"{noise:.4g}; the nearest reachable settings are "
            + _what_would_do(mechanism, units=units, queries=queries, delta=delta, unit=unit)
            + "."
        )
    tuned |= _parameters_told(request, mechanism, epsilon)
    return Plan(
        teachers=units,
        classes=classes,
        mechanism=mechanism,
        interactive=False,
        queries=queries,
        max_answers=None,
        delta=delta,
        bound=worst_case(mechanism, queries=queries, **sizes),
        tuned=tuned,
    )


def _first_round(name: str) -> str:
    """The mechanism of the first round: the interactive one has no student to check against yet."""
    return ConfidentGNMax.name if name == INTERACTIVE else name


def _what_would_do(mechanism: Mechanism, *, units: int, queries: int, delta: float, unit: str) -> str:
    """What would lift the votes above the noise: a larger epsilon, fewer queries, or more units."""
    votes_in_all = units * (mechanism.contribution_bound or 1)
    noise = mechanism.vote_noise or 0.0
    enough = scaled(mechanism, votes_in_all / queries / noise)
    # To four digits, rounded up: what is named must do.
    epsilon = float(f"{worst_case(enough, queries=queries, delta=delta).epsilon * 1.0005:.4g}")
    fewer = int(votes_in_all / noise)
    found = [f"an epsilon of {epsilon:g}"]
    if FEWEST_PER_RECORD <= fewer < queries:
        found.append(f"{fewer} queries at this one")
    return f"{', '.join(found)} or {math.ceil(units * noise * queries / votes_in_all)} {unit}s"


def _or_per_record(refused: InvalidInput, request: Request, *, units: int, pool: int, classes: int, unit: str) -> str:
    """What a refusal of trained teachers says: its own sentence, and what per-record teachers would do."""
    asked = Request(mechanism=DEFAULT_MECHANISM, epsilon=request.epsilon, delta=request.delta)
    try:
        plan = _per_record_plan(asked, units=units, pool=pool, classes=classes, unit=unit)
    except InvalidInput:
        return str(refused)
    return (
        f"{refused} Without trained teachers, {DEFAULT_MECHANISM} asks {plan.queries} queries within epsilon "
        f"{round_up(plan.bound.epsilon):g}."
    )


def plan_from(content: dict[str, Any], *, classes: int) -> Plan:
    """The plan that `Plan.as_dict` wrote: a resumed run keeps what was settled, whatever the defaults are now."""
    interactive = content["mechanism"] == INTERACTIVE
    mechanism = build(_first_round(content["mechanism"]), dict(content["parameters"]))
    sizes: dict[str, Any] = {
        "queries": content["queries"],
        "delta": content["delta"],
        "max_answers": content.get("max_answers"),
    }
    shape = _shape(interactive, teachers=content["teachers"], classes=classes)
    gate = None
    if "gate" in content:
        size = {"queries": content["queries"], "delta": content["delta"], **shape}
        gate = Gate(mechanism=mechanism, **size, **content["gate"])
    return Plan(
        teachers=content["teachers"],
        classes=classes,
        mechanism=mechanism,
        interactive=interactive,
        bound=worst_case(mechanism, **sizes, **shape),
        tuned=dict(content["tuned"]),
        gate=gate,
        **sizes,
    )


def _gate(
    request: Request,
    mechanism: Mechanism,
    *,
    epsilon: float | None,
    queries: int,
    delta: float,
    max_answers: int | None,
    teachers: int,
    classes: int,
) -> Gate | None:
    """The gate for votes like the simulated ones, None where the worst case needs no more noise."""
    if max_answers is not None:
        raise InvalidInput("max_answers cannot be combined with a gate, which answers a whole batch or refuses it.")
    agreement = fraction("agreement", request.agreement)
    # Votes of public numbers alone: what is drawn here is no noise.
    public = simulate_votes(
        np.random.default_rng(0), queries=queries, teachers=teachers, classes=classes, plurality=agreement
    )
    if epsilon is None:
        return Gate.plan(public, mechanism, delta=delta, pass_probability=0.95, prefix_price=0.01)
    chosen = choose_guarantee(public, mechanism, epsilon=epsilon, delta=delta)
    return chosen if isinstance(chosen, Gate) else None


def _require_noise_below_votes(mechanism: Mechanism, teachers: int, *, epsilon: float, queries: int) -> None:
    # `calibrate` refuses this itself, with the nearest settings, wherever it may be told the number of teachers.
    noise = mechanism.parameters().get("sigma2")
    if noise is not None and noise > teachers:
        raise InvalidInput(
            f"epsilon must leave noise below the votes: {epsilon!r} for {queries} queries needs noise of standard "
            f"deviation {noise:.4g} for {teachers} teachers; ask fewer queries, allow a larger epsilon or use more "
            "teachers."
        )


def _shape(interactive: bool, *, teachers: int, classes: int) -> dict[str, int]:
    # Bounds that join check and label through the number of teachers hold for the Confident check alone.
    return {"classes": classes} if interactive else {"teachers": teachers, "classes": classes}


def _delta(request: Request, units: int, unit: str, tuned: dict[str, str]) -> float:
    if request.delta is None:
        tuned["delta"] = f"a power of ten below 1 / number of {unit}s{SIZE_IS_PUBLIC}"
        return default_delta(units)
    tuned["delta"] = "given by the operator"
    return require_delta(request.delta, units, unit)


def _queries(request: Request, pool: int, tuned: dict[str, str]) -> int:
    tuned["number of queries"] = "given by the operator"
    queries = whole("queries", request.queries, at_least=1)
    if queries > pool:
        raise InvalidInput(f"queries must be at most {pool}, the number of public rows, got {queries}.")
    return queries


def _teachers(request: Request, units: int, unit: str, tuned: dict[str, str]) -> int:
    if request.teachers is None:
        tuned["number of teachers"] = f"a coarse default from the number of {unit}s{SIZE_IS_PUBLIC}"
        return default_teachers(units)
    teachers = whole("teachers", request.teachers, at_least=1)
    if teachers > units:
        raise InvalidInput(f"teachers must be at most {units}, the number of private {unit}s, got {teachers}.")
    tuned["number of teachers"] = "given by the operator"
    return teachers


def _epsilon(request: Request, mechanism: Mechanism, tuned: dict[str, str]) -> float | None:
    """The epsilon to keep: the one asked for, else the default, unless the noise is all given or cannot be scaled."""
    if request.epsilon is not None:
        tuned["epsilon"] = "given by the operator"
        return positive("epsilon", request.epsilon)
    noise = mechanism.noise_parameters()
    if not mechanism.releasable or all(request.parameters.get(name) is not None for name in noise):
        return None
    tuned["epsilon"] = f"the default, {DEFAULT_EPSILON:g}"
    return DEFAULT_EPSILON


def _parameters_told(request: Request, mechanism: Mechanism, epsilon: float | None) -> dict[str, str]:
    """Names of parameters → where their values are from, equal sources together."""
    by_source: dict[str, list[str]] = {}
    for name, value in mechanism.parameters().items():
        if value is None:
            continue
        given, scaled = request.parameters.get(name), epsilon is not None and name in mechanism.noise_parameters()
        if given is None:
            source = "a default" if mechanism.per_record else DEFAULT_PROPORTION
        else:
            source = f"given by the operator{f' as {given:g}' if scaled else ''}"
        if scaled:
            source += f"; all noise then scaled to the least that keeps epsilon {epsilon:g}, from public numbers alone"
        by_source.setdefault(source, []).append(name)
    return {", ".join(names): source for source, names in by_source.items()}


def second_round(mechanism: Mechanism, scores: Any) -> Mechanism:
    """The interactive mechanism of the second round, at the noise of the first."""
    return InteractiveGNMax(scores=scores, **mechanism.parameters())
