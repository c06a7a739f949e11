"""The options of a run, for every kind of data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Self

import numpy as np

from ostrakon.ledger.location import require_url
from ostrakon.mechanisms.bounded_gnmax import known_neighbours
from ostrakon.mechanisms.registry import declared_parameters, find
from ostrakon.options.call import with_own_parameters
from ostrakon.options.option import Option, Settings, of_plain_type, plain, sentence
from ostrakon.validation import InvalidInput, fraction, line, one_of, positive, quote, whole

AUTO = "auto"
"""ostrakon chooses."""
WORST_CASE, GATE = GUARANTEES = ("worst-case", "gate")
ACCURACY, BALANCED, LOG_LOSS, ORDERED = OBJECTIVES = ("accuracy", "balanced", "log-loss", "ordered")
OF_COUNTS = (BALANCED, LOG_LOSS)
"""Objectives that need noisy counts."""
QUERY_STRATEGIES = ("representatives", "random", "all")

_privacy, _budget, _learning = (partial(Option, panel=panel) for panel in ("Privacy", "Budget", "Learning"))


def is_auto(choice: Any) -> bool:
    """Return whether ostrakon chooses."""
    return isinstance(choice, str) and choice == AUTO


def _neighbours(name: str, value: Any) -> str | None:
    return None if value is None else known_neighbours(name, value)


def _mechanism(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a name, got {quote(value)}.")
    return value if value == AUTO else find(value).name


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False, got {quote(value)}.")
    return bool(value)


def _strategy(name: str, value: Any) -> Any:
    return value if callable(value) else one_of(name, value, QUERY_STRATEGIES)


def _workers(name: str, value: Any) -> int | None:
    number = None if value is None else whole(name, value, at_least=-(2**31))
    if number == 0:
        raise InvalidInput(f"{name} must be an integer other than 0 (-1: one per core), got 0.")
    return number


_some = partial(whole, at_least=1)


@dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """Every option of a run: the command line, TOML files and `PATEClassifier` are derived from these fields.

    None: chosen from public numbers. epsilon: upper limit of the guarantee. neighbours: "replaced" or "removed": what
    happens to one record between two neighbouring data sets; with per-record teachers, whose number is public, an
    epsilon for "removed" needs 0.71 times the noise. guarantee: "worst-case", or "gate": all
    answers are released only if a noisy test finds that the teachers agree, planned on simulated votes of which a share
    `agreement` goes to the winner; the worst case if no gate helps. ledger: reserves the cost of the run before its
    noise is drawn; budget: the epsilon of all runs on the data, of the account that is opened for them; ledger_account:
    its name. mechanism: a name, or "auto"; parameters: its own, by name. teacher, student, representation: names or
    estimators (see `ostrakon.estimators.choices`). objective: what the student's
    labels or probabilities are for. trained_on: the training data of a frozen encoder, or of the given features, in the
    operator's words. query_strategy: how to choose the public rows to label (see
    `ostrakon.features.choose_queries`), or a function that chooses them. smooth: smooth each teacher's predictions over
    the neighbour graph of the public rows. seed: of data splitting and models only, never of noise. jobs: workers, as
    joblib's n_jobs.

    Errors: `InvalidInput` for a value that is wrong for all data.
    """

    epsilon: Annotated[
        float | None,
        _privacy(help="Upper limit of epsilon. [default: 2, unless all noise is given]", check=positive),
    ] = None
    delta: Annotated[
        float | None,
        _privacy(
            help="Probability with which the guarantee may fail. [default: below 1 / number of records]", check=fraction
        ),
    ] = None
    neighbours: Annotated[
        str | None,
        _privacy(
            help="What happens to one record between neighbouring data sets: replaced or removed (their number stays "
            "public). [default: replaced; of trained teachers added or removed]",
            check=_neighbours,
            advanced=True,
        ),
    ] = None
    guarantee: Annotated[
        str,
        _privacy(
            help="worst-case, or gate: less noise, but few answers if fewer teachers agree than --agreement says.",
            check=partial(one_of, allowed=GUARANTEES),
        ),
    ] = WORST_CASE
    agreement: Annotated[
        float,
        _privacy(
            help="Share of teachers expected to agree, for the gate. [default: 0.85]", check=fraction, advanced=True
        ),
    ] = 0.85
    teachers: Annotated[
        int | None,
        _privacy(
            help="Number of teachers to train. [default: depends on the mechanism; usually all records]",
            check=_some,
            python="n_teachers",
        ),
    ] = None
    queries: Annotated[
        int | None,
        _privacy(
            help="Number of public rows to label. [default: what epsilon allows]", check=_some, python="n_queries"
        ),
    ] = None
    max_answers: Annotated[
        int | None, _privacy(help="Stop after this number of answers.", check=_some, advanced=True)
    ] = None
    mechanism: Annotated[
        str,
        _privacy(
            help="How votes become answers: NAME or NAME(parameter=value, ...), such as "
            "confident-gnmax(sigma1=150). [default: chosen from public numbers]",
            check=_mechanism,
        ),
    ] = AUTO
    parameters: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    ledger: Annotated[
        str | None,
        _budget(
            help="Ledger that records the cost of the run: sqlite:///FILE or postgresql://HOST/DATABASE. "
            "[default: with --budget, budget.db beside the data]",
            check=require_url,
        ),
    ] = None
    budget: Annotated[
        float | None,
        _budget(
            help="Total epsilon of all runs on these data; opens an account if they have none.",
            check=positive,
        ),
    ] = None
    ledger_account: Annotated[
        str | None,
        _budget(help="Name of the account. [default: the account of these data]", check=line, advanced=True),
    ] = None
    teacher: Annotated[Any, _learning(help="A scikit-learn classifier: short name or import path, with (options).")] = (
        AUTO
    )
    student: Annotated[
        Any,
        _learning(
            help="A classifier as for --teacher, or additive, soft-vote, self-training[:NAME], label-spreading, graph. "
            "[default: best of several]"
        ),
    ] = AUTO
    objective: Annotated[
        str,
        _learning(
            help="Measure to optimize: accuracy, balanced (every class counts the same), log-loss (probabilities) or "
            "ordered (distance in ranks; --classes from low to high).",
            check=partial(one_of, allowed=OBJECTIVES),
            advanced=True,
        ),
    ] = ACCURACY
    representation: Annotated[
        Any, _learning(help="Features of a row: auto, table, text, photos, hog, onnx:FILE, and others.")
    ] = AUTO
    trained_on: Annotated[
        str | None,
        _learning(
            help="Training data of the encoder, for the statement. [default: unknown]", check=sentence, advanced=True
        ),
    ] = None
    query_strategy: Annotated[
        str,
        _learning(
            help="Public rows to label: representatives, random or all. [default: representatives]",
            check=_strategy,
            advanced=True,
        ),
    ] = "representatives"
    smooth: Annotated[
        bool,
        _learning(
            help="Smooth each teacher's predictions over the neighbour graph of the public rows.",
            check=_flag,
            advanced=True,
        ),
    ] = False
    seed: Annotated[
        int,
        _learning(
            help="Seed of data splitting and models, never of noise. [default: 0]",
            check=whole,
            python="random_state",
            advanced=True,
        ),
    ] = 0
    jobs: Annotated[
        int | None,
        _learning(
            help="Teachers trained at a time; -1: one per core. [default: -1]",
            check=_workers,
            python="n_jobs",
            asked=False,
            advanced=True,
        ),
    ] = -1

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Build options from plain values by name, the mechanisms' parameters included; other names are ignored."""
        values = with_own_parameters(values)
        parameters = {name: values[name] for name in declared_parameters() if name in values}
        return cls(parameters=parameters, **{name: values[name] for name in cls.options() if name in values})

    def as_toml(self) -> dict[str, Any]:
        """See `Settings`; includes the mechanism's parameters."""
        own = {name: plain(value) for name, value in self.parameters.items() if value is not None}
        return {**super().as_toml(), **own}

    @classmethod
    def from_toml(cls, content: Mapping[str, Any], source: Any) -> dict[str, Any]:
        """See `Settings`; includes the mechanisms' parameters."""
        content = with_own_parameters(content)
        parameters = {name: content[name] for name in declared_parameters() if name in content}
        numbers = {name: of_plain_type(name, value, float, source) for name, value in parameters.items()}
        return {**super().from_toml(content, source), **numbers}
