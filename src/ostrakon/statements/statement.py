"""The privacy statement: what a release claims, typed so that only a guarantee can be claimed."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Context
from typing import Any, ClassVar, Literal

import numpy as np

from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.consent import LevelClaim
from ostrakon.accounting.epsilons import Gated, Sanitized, WorstCase
from ostrakon.accounting.estimates import Agreement, Recall
from ostrakon.accounting.privacy_curve import ALPHAS, PrivacyCurve
from ostrakon.html_table import html_table
from ostrakon.mechanisms.base import Mechanism
from ostrakon.validation import InvalidInput, whole

SCHEMA = "ostrakon-statement/1"

Unit = Literal["record", "user"]
UNITS: tuple[Unit, ...] = ("record", "user")

Protects = Literal["records", "labels"]
PROTECTS: tuple[Protects, ...] = ("records", "labels")
"""records: membership and all values of a record. labels: the labels alone; everything else is public."""

LABELS_OF: dict[Unit, str] = {"record": "the label of one record", "user": "the labels of one user"}
"""The unit of privacy if only labels are protected. Never a bare "record" or "user", which would promise more."""

SAME_LEVEL = (
    "The epsilon of a level holds for two neighbouring data sets that differ in a record (or user) with this level, "
    "which is the same in both. If the level is secret and may differ, too, the epsilon for a secret level holds."
)

WEAK_EPSILON = 10.0
"""Above this, a release warns beside its epsilon how little it promises."""

FOR_OPERATOR = " For the operator: "
"""What advice begins with that nobody but the operator of a run can follow; the first page leaves it out."""

SECURE_NOISE = "AES in counter mode, keyed by the operating system's entropy (cryptographic)"
ORDINARY_NOISE = "an ordinary generator that the caller passed (for tests)"

INTEGER_NOISE = "OpenDP's exact sampler of the discrete Gaussian, on the operating system's entropy (cryptographic)"

NOT_PRIVATE_NOISE = (
    "This release is not differentially private: its noise came from an ordinary generator that the caller passed, "
    "which anyone who knows the seed can undo."
)

LABELS_LEAVE = (
    "noise is drawn in double precision; only the index of the largest noisy count and the outcome of a comparison "
    "are released, never a noisy number, so its low-order bits are not released"
)
COUNTS_LEAVE = (
    "noise is drawn in double precision; noisy numbers are rounded to a public grid of 1/1024 vote before they are "
    "released, so the low-order bits of the noise are not released"
)
INTEGERS_LEAVE = (
    "noise is drawn as whole steps of 1/1024 vote by a sampler without floating-point numbers; whole steps are released"
)

CENTRAL = "central: the operator sees the private data, the public sees the release only"
CENTRAL_OF_LABELS = (
    "central: the operator sees the labels, the public sees release/ and is taken to know everything else of the data: "
    "who is in it, and all features"
)

NOT_COVERED = (
    "the public data: people in the public file are not protected by this guarantee",
    "what is treated as public knowledge: names and types of columns, class names, the number of teachers and all "
    "parameters here",
    "the fact that a run was refused or stopped, and its message: only the files that a finished run wrote into "
    "release/ are covered",
    "how long the run took and how much memory, disk and network it used (timing and other side channels)",
    "the operator, who sees the private data, the teachers and the votes: the folder private/ must never be published",
    "other releases from the same private data: their epsilons and deltas add to this one",
    "facts about the population as a whole, which a good student learns no matter who takes part",
)

NOT_COVERED_OF_QUANTITIES = (
    NOT_COVERED[0],
    "what is treated as public knowledge: names and types of columns, the range of the target, the number of teachers "
    "and all parameters here",
    *NOT_COVERED[2:],
)
"""If the target is a quantity."""

NOT_COVERED_OF_DESCRIBED = (
    "what is treated as public knowledge: the description of the columns (names, categories, ranges), class names, the "
    "number of teachers and all parameters here",
    *NOT_COVERED[2:],
)
"""If columns are described instead of public rows."""

NOT_COVERED_OF_LABELS = (
    "the features of every row, who has a row, and how many there are: they are treated as public, and rows of the "
    "data themselves, without their labels, may be in this release",
    "what the order and the features of the rows reveal about their labels: both are public",
    "what is treated as public knowledge: class names, the number of teachers and all parameters here",
    *NOT_COVERED[2:-1],
    "facts about the population as a whole, which a good student learns whatever the label of any one row is",
)
"""If only labels are protected."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One batch of queries to the teachers: the mechanism, the numbers asked and answered.

    Parameters
    ----------
    mechanism : Mechanism
    queries : int
        At least 0.
    answered : int
        Counted on the released labels; from 0 to `queries`.
    max_answers : int, optional
        The cap that was fixed in advance.

    Raises
    ------
    InvalidInput
        For numbers outside of these ranges.
    """

    mechanism: Mechanism
    queries: int
    answered: int
    max_answers: int | None = None

    def __post_init__(self) -> None:
        whole("queries", self.queries, at_least=0)
        whole("answered", self.answered, at_least=0, at_most=self.queries)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; arrays (public scores) as their shape."""
        # The statement's adjacency says which neighbours.
        known = self.mechanism.parameters().items()
        parameters = {name: _plain(value) for name, value in known if name != "neighbours"}
        return {
            "mechanism": self.mechanism.name,
            "parameters": parameters,
            "queries": self.queries,
            "max_answers": self.max_answers,
            "answered": self.answered,
        }


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a release claims about privacy, and what it does not.

    Parameters
    ----------
    guarantee : WorstCase, Gated or None
        The (epsilon, delta)-DP that covers everything in the release; None if nothing may be claimed.
    rounds : tuple of Round
    teachers : int
    classes : tuple of str
    unit : {"record", "user"}
        What neighbours differ in.
    adjacency : str
        When two data sets are neighbours, in one sentence.
    noise_is_secure : bool
        Whether the noise came from the cryptographic source.
    unit_column : str, optional
        The column of users.
    protects : {"records", "labels"}
        `unit_of_privacy` follows from it and `unit`.
    not_private : str, optional
        Why nothing may be claimed, in one sentence.
    adjacent : tuple of Adjacent
        The same guarantee under every known definition of neighbours, its own first.
    curve : PrivacyCurve, optional
        The epsilons of the same release at other deltas, for the neighbours of the guarantee.
    estimates : tuple of Sanitized, Agreement or Recall
        Published beside the guarantee and marked as estimates.
    remarks : tuple of str
        Further plain sentences.
    tuned : dict of str
        From a parameter to what it was chosen on, never the private votes.
    public_rows : mapping, optional
        That there were no public rows, and what was counted instead. None: there were some.
    quantity : tuple of (float, float), optional
        The public range of a target that is a number; `classes` are then empty.
    clipped : tuple of (float, float), optional
        The part of this range to which private values were clipped, if a noisy histogram narrowed it.
    several : bool
        Whether a row may have several of the classes.
    consent : tuple of LevelClaim
        What holds for the records of each level of consent; `guarantee` is that of the highest level, and holds for
        all. Empty without levels.
    consent_column : str, optional
        The column that has the levels.
    trust_model : str
        Who sees what, and who must be trusted, without its final full stop.

    Raises
    ------
    InvalidInput
        For a `DataDependent` epsilon, a guarantee together with `not_private`, a guarantee on noise that is not secure
        or on a mechanism that has none, or an epsilon that is not finite.

    References
    ----------
    The questions of NIST SP 800-226.
    """

    schema: ClassVar[str] = SCHEMA

    guarantee: WorstCase | Gated | None
    rounds: tuple[Round, ...]
    teachers: int
    classes: tuple[str, ...]
    unit: Unit
    adjacency: str
    noise_is_secure: bool
    unit_column: str | None = None
    protects: Protects = "records"
    not_private: str | None = None
    adjacent: tuple[Adjacent, ...] = ()
    curve: PrivacyCurve | None = None
    estimates: tuple[Sanitized | Agreement | Recall, ...] = ()
    remarks: tuple[str, ...] = ()
    tuned: dict[str, str] = field(default_factory=dict[str, str])
    public_rows: Mapping[str, Any] | None = None
    quantity: tuple[float, float] | None = None
    clipped: tuple[float, float] | None = None
    several: bool = False
    consent: tuple[LevelClaim, ...] = ()
    consent_column: str | None = None
    trust_model: str = CENTRAL
    not_covered: tuple[str, ...] = NOT_COVERED
    versions: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if self.guarantee is not None and type(self.guarantee) not in (WorstCase, Gated):
            raise InvalidInput(
                "A statement accepts a worst-case or a gated epsilon as its guarantee, "
                f"got a {type(self.guarantee).__name__}."
            )
        if any(type(estimate) not in (Sanitized, Agreement, Recall) for estimate in self.estimates):
            raise InvalidInput("A statement accepts sanitized numbers, agreements and recalls alone as its estimates.")
        if self.unit not in UNITS:
            raise InvalidInput(f"unit must be 'record' or 'user', got {self.unit!r}.")
        if self.protects not in PROTECTS:
            raise InvalidInput(f"protects must be one of {', '.join(PROTECTS)}, got {self.protects!r}.")
        if any((part.relation == "labels") != (self.protects == "labels") for part in self.adjacent):
            raise InvalidInput(
                "A statement that protects labels has an epsilon for neighbours in their labels alone, and no other "
                f"statement has one, got protects {self.protects!r} with "
                f"{', '.join(part.relation for part in self.adjacent)}."
            )
        if not self.noise_is_secure and self.not_private is None:
            object.__setattr__(self, "not_private", NOT_PRIVATE_NOISE)
        if self.guarantee is not None:
            self._require_claimable(self.guarantee)
            if self.adjacent and self.adjacent[0].epsilon != self.guarantee.epsilon:
                raise InvalidInput("A statement's first adjacency must have the epsilon of its guarantee.")
        elif self.consent:
            raise InvalidInput("A statement without a guarantee has no epsilon for any level of consent.")
        elif self.curve is not None:
            raise InvalidInput("A statement without a guarantee has no privacy curve.")
        elif self.adjacent:
            raise InvalidInput("A statement without a guarantee has no epsilon under any adjacency.")
        elif not self.not_private:
            raise InvalidInput("A statement without a guarantee must say in `not_private` why there is none.")

    def _require_claimable(self, guarantee: WorstCase | Gated) -> None:
        if self.not_private:
            raise InvalidInput(f"A statement cannot claim a guarantee beside this: {self.not_private}")
        for asked in self.rounds:
            if not asked.mechanism.releasable:
                raise InvalidInput(f"{asked.mechanism.name} cannot be the guarantee of a release.")
        if not (math.isfinite(guarantee.epsilon) and guarantee.epsilon >= 0 and 0 < guarantee.delta < 1):
            raise InvalidInput(
                "A statement accepts a finite epsilon of at least 0 and a delta strictly between 0 and 1, "
                f"got {guarantee.epsilon!r} and {guarantee.delta!r}."
            )

    @property
    def unit_of_privacy(self) -> str:
        """ "record" or "user", or the label or labels of one if only labels are protected."""
        return self.unit if self.protects == "records" else LABELS_OF[self.unit]

    @property
    def membership_guess(self) -> float | None:
        """The largest share of right guesses at which of two neighbours was used, by an attacker who is right half of
        the time without the release. JSON calls it `label_guess` if only labels are protected.
        """
        return None if self.curve is None else self.curve.guess()

    @property
    def private(self) -> bool:
        """Whether the release is differentially private."""
        return self.guarantee is not None

    @property
    def queries(self) -> int:
        """Queries asked in all rounds."""
        return sum(asked.queries for asked in self.rounds)

    @property
    def answered(self) -> int:
        """Queries answered in all rounds."""
        return sum(asked.answered for asked in self.rounds)

    @property
    def _releases_counts(self) -> bool:
        return any(asked.mechanism.releases_counts for asked in self.rounds)

    def _implementation(self) -> dict[str, str]:
        if any(asked.mechanism.integer_noise for asked in self.rounds):
            return {"noise": INTEGER_NOISE, "floating_point": INTEGERS_LEAVE}
        return {
            "noise": SECURE_NOISE if self.noise_is_secure else ORDINARY_NOISE,
            "floating_point": COUNTS_LEAVE if self._releases_counts else LABELS_LEAVE,
        }

    def to_html(self) -> str:
        """Return the claim as an HTML table for notebooks."""
        claim, guarantee = self.guarantee, "none"
        if claim is not None:
            guarantee = f"epsilon {epsilon_in_words(claim.epsilon)}, delta {delta_in_words(claim.delta)}"
        rows: list[tuple[str, object]] = [
            ("Protects", self.unit_of_privacy if claim is not None else self.not_private),
            ("Guarantee", guarantee),
            *((f"Level {one.level}", f"epsilon {epsilon_in_words(one.epsilon)}") for one in self.consent),
            ("Neighbouring data sets", self.adjacency),
            ("Queries", sum(part.queries for part in self.rounds)),
            ("Teachers", self.teachers),
            *(
                (one.title, f"{one.in_words()}, of {one.counted}")
                for one in self.estimates
                if isinstance(one, Agreement | Recall)
            ),
        ]
        return html_table("Privacy statement", rows, note=" ".join(self.remarks))

    _repr_html_ = to_html

    def as_dict(self) -> dict[str, Any]:
        """Return the content of `statement.json`: plain values, keys documented in the guide."""
        guarantee = None
        if self.guarantee is not None:
            guarantee = {"kind": self.guarantee.kind, **asdict(self.guarantee)}
            guarantee["epsilon"] = round_up(self.guarantee.epsilon)
        return {
            "schema": self.schema,
            "private": self.private,
            "not_private": self.not_private,
            "remarks": list(self.remarks),
            **({} if self.public_rows is None else {"public_rows": dict(self.public_rows)}),
            "guarantee": guarantee,
            "estimates": [_estimate(estimate) for estimate in self.estimates],
            "protects": self.protects,
            "unit_of_privacy": self.unit_of_privacy,
            "unit_column": self.unit_column,
            "adjacency": self.adjacency,
            "epsilon_by_adjacency": [
                {**asdict(part), "epsilon": round_up(part.epsilon)}
                for part in self.adjacent
                if math.isfinite(part.epsilon)
            ],
            **self._consent(),
            "membership_guess": self._guess() if self.protects == "records" else None,
            "label_guess": self._guess() if self.protects == "labels" else None,
            "privacy_curve": self._curve(),
            "trust_model": self.trust_model,
            "teachers": self.teachers,
            **self._target(),
            "rounds": [asked.as_dict() for asked in self.rounds],
            "queries": self.queries,
            "answered": self.answered,
            "composition": (
                "one guarantee over all rounds and all files of this release; the student and every prediction of it "
                "are post-processing; other releases from the same data add to it"
            ),
            "implementation": self._implementation(),
            "tuned": dict(self.tuned),
            "not_covered": list(self.not_covered),
            "versions": dict(self.versions),
        }

    def _curve(self) -> dict[str, Any] | None:
        """Rounded so that nothing becomes stronger."""
        curve = self.curve
        if curve is None:
            return None
        return {
            "neighbours": self.adjacency,
            "mu": None if curve.mu is None else round_up(curve.mu * (1 + 1e-12)),
            "epsilon_at_delta": [{"epsilon": round_up(epsilon), "delta": delta} for epsilon, delta in curve.points],
            "trade_off": [{"alpha": alpha, "beta": round_down(curve.false_negatives(alpha))} for alpha in ALPHAS],
        }

    def _consent(self) -> dict[str, Any]:
        if not self.consent:
            return {}
        levels = [
            {**asdict(one), "epsilon": round_up(one.epsilon), "if_secret": round_up(one.if_secret)}
            for one in self.consent
        ]
        return {"consent": {"column": self.consent_column, "neighbours": SAME_LEVEL, "levels": levels}}

    def _target(self) -> dict[str, Any]:
        if self.quantity is None:
            return {"classes": list(self.classes), **({"several_labels": True} if self.several else {})}
        ranges = {"quantity": self.quantity, **({} if self.clipped is None else {"clipped": self.clipped})}
        return {name: dict(zip(("low", "high"), ends, strict=True)) for name, ends in ranges.items()}

    def _guess(self) -> dict[str, Any] | None:
        if self.membership_guess is None:
            return None
        return {"prior": 0.5, "at_most": round_up(self.membership_guess), "neighbours": self.adjacency}


def _estimate(estimate: Sanitized | Agreement | Recall) -> dict[str, Any]:
    return {"kind": estimate.kind, **asdict(estimate)} if isinstance(estimate, Sanitized) else estimate.as_dict()


def require_pool(protect: str, public: Any) -> None:
    """Refuse records without public data, and labels with them. Errors: `InvalidInput`."""
    if protect == "labels" and public is not None:
        raise InvalidInput(
            "public cannot be given if only labels are protected: the rows themselves are public, and are asked about."
        )
    if protect == "records" and public is None:
        raise InvalidInput(
            "public must be given: rows of the same kind, free to publish. Without them, give --protect labels if only "
            "the labels are secret, or, for a table, --columns FILE with a description of its columns."
        )


def require_no_pool(protect: str, public: Any) -> None:
    """Refuse public rows beside a description of the columns, and that if only labels are protected."""
    if public is not None:
        raise InvalidInput("columns cannot be given with public: a description takes the place of public rows.")
    if protect == "labels":
        raise InvalidInput("columns cannot be described if only labels are protected: the rows themselves are public.")


def weak_remark(epsilon: float, *, protects: Protects = "records") -> str | None:
    """Return the warning for an epsilon above 10; None for others. protects: as in `Statement`.

    >>> weak_remark(2.0) is None
    True
    """
    if not epsilon > WEAK_EPSILON:
        return None
    worlds = "with and without one record or user" if protects == "records" else "which differ in a label"
    return (
        f"Warning: an epsilon of {epsilon_in_words(epsilon)} is a weak promise. This release may change somebody's "
        f"odds between two possible worlds, {worlds}, by a factor of up to {factor_in_words(epsilon)}; at "
        f"{WEAK_EPSILON:g} the factor is {factor_in_words(WEAK_EPSILON)}.{FOR_OPERATOR}a smaller epsilon, fewer "
        "queries or more noise promise more."
    )


_GRID = 10_000


def round_up(epsilon: float) -> float:
    """Return the number rounded up to four public decimals: an epsilon, or an attacker's odds.

    >>> round_up(1.23456), round_up(1.2346), round_up(0.0003)
    (1.2346, 1.2346, 0.0003)
    """
    if round(epsilon * _GRID) / _GRID == epsilon:
        return epsilon
    steps = math.ceil(epsilon * _GRID)
    # The product may have been rounded down.
    return steps / _GRID if steps / _GRID >= epsilon else (steps + 1) / _GRID


def epsilon_in_words(epsilon: float) -> str:
    """Return an epsilon in at most three significant digits, rounded up, for readers.

    >>> epsilon_in_words(0.9998), epsilon_in_words(1.2341), epsilon_in_words(12345.0)
    ('1', '1.24', '12400')
    """
    return f"{_ceiling(epsilon, digits=3):.10g}"


def factor_in_words(epsilon: float) -> str:
    """Return exp(epsilon), rounded up to three digits.

    >>> factor_in_words(2.0), factor_in_words(10.0), factor_in_words(800.0)
    ('7.39', '22,100', '10^348')
    """
    if epsilon > 700:
        return f"10^{math.ceil(epsilon / math.log(10))}"
    factor = _ceiling(math.exp(epsilon) * (1 + 1e-15), digits=3)
    return f"{factor:,.2f}" if factor < 100 else f"{factor:,.0f}" if factor < 1e12 else f"{factor:g}"


def _ceiling(number: float, *, digits: int) -> float:
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(number))))


def delta_in_words(delta: float) -> str:
    """Return a delta in at most six digits, rounded up.

    >>> delta_in_words(1e-05), delta_in_words(3.0000000000000004e-05)
    ('1e-05', '3.00001e-05')
    """
    return f"{_ceiling(delta, digits=6):g}"


def round_down(rate: float) -> float:
    """Return the rate rounded down to four decimals: errors that an attacker makes at least.

    >>> round_down(0.98765)
    0.9876
    """
    return max(0.0, -round_up(-rate))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return f"public array of shape {value.shape}"
    if isinstance(value, np.generic):
        return value.item()
    return value
