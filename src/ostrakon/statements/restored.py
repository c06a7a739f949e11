"""A statement from the content of its `statement.json`, for releases that are made from an earlier one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.consent import LevelClaim
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.accounting.estimates import Agreement, Recall
from ostrakon.accounting.privacy_curve import PrivacyCurve
from ostrakon.mechanisms.base import Mechanism
from ostrakon.mechanisms.registry import build
from ostrakon.statements.statement import ORDINARY_NOISE, Round, Statement
from ostrakon.validation import InvalidInput, whole

_AS_THEY_ARE = (
    *("teachers", "adjacency", "unit_column", "protects", "not_private", "tuned", "trust_model", "versions"),
    "public_rows",
)

_RANGES = ("quantity", "clipped")
_OF_THE_STUDENT = ("remarks", "estimates", "tuned", "versions")
"""What a refit states anew."""
_FROM_THE_CURVE = ("membership_guess", "label_guess", "privacy_curve")
"""What the rounded curve gives less exactly than the curve before it was rounded."""


@dataclass(frozen=True, kw_only=True)
class RestoredStatement(Statement):
    """A statement that says of privacy what `content` says, number by number."""

    content: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of `statement.json`."""
        kept = {name: self.content[name] for name in self.content if name not in _OF_THE_STUDENT}
        return {**super().as_dict(), **kept}


def statement_from(content: Mapping[str, Any]) -> RestoredStatement:
    """Return the statement with this content: one whose `as_dict` gives it again, number by number.

    Parameters
    ----------
    content : dict
        As of `statement.json`. Worst-case guarantees alone.

    Raises
    ------
    InvalidInput
        For content that no statement gives, or that of a gated run or of mechanisms with arrays as parameters.
    """
    try:
        guarantee = content["guarantee"]
        if guarantee is not None:
            kind, guarantee = guarantee["kind"], {key: guarantee[key] for key in guarantee if key != "kind"}
            if kind != WorstCase.kind:
                raise InvalidInput(f"its guarantee must be {WorstCase.kind}, got {kind!r}")
        whole("teachers", content["teachers"], at_least=1)
        curve = content["privacy_curve"]
        restored = RestoredStatement(
            guarantee=None if guarantee is None else WorstCase(**guarantee),
            rounds=tuple(
                Round(
                    mechanism=_mechanism(asked, content["epsilon_by_adjacency"]),
                    queries=asked["queries"],
                    answered=asked["answered"],
                    max_answers=asked["max_answers"],
                )
                for asked in content["rounds"]
            ),
            classes=tuple(content["classes"]) if "classes" in content else (),
            **{name: (content[name]["low"], content[name]["high"]) for name in _RANGES if name in content},
            several=content.get("several_labels", False),
            unit="record" if content["unit_of_privacy"] == "record" else "user",
            noise_is_secure=content["implementation"]["noise"] != ORDINARY_NOISE,
            adjacent=tuple(Adjacent(**one) for one in content["epsilon_by_adjacency"]),
            curve=None
            if curve is None
            else PrivacyCurve(
                points=tuple((one["epsilon"], one["delta"]) for one in curve["epsilon_at_delta"]), mu=curve["mu"]
            ),
            consent=tuple(LevelClaim(**one) for one in content["consent"]["levels"]) if "consent" in content else (),
            consent_column=content["consent"]["column"] if "consent" in content else None,
            content=dict(content),
            estimates=tuple(map(_estimate, content["estimates"])),
            remarks=tuple(content["remarks"]),
            not_covered=tuple(content["not_covered"]),
            **{name: content[name] for name in _AS_THEY_ARE if name in content},
        )
        again = Statement.as_dict(restored)
        same = all(again[name] == content[name] for name in again if name not in _FROM_THE_CURVE)
        same = same and again.keys() == content.keys()
    except (InvalidInput, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"The statement of the release cannot be restored: {str(error).rstrip('.')}.") from error
    if not same:
        raise InvalidInput("The statement of the release must be one that ostrakon writes, and it says something else.")
    return restored


def _mechanism(asked: Mapping[str, Any], adjacent: Sequence[Mapping[str, Any]]) -> Mechanism:
    """Return the mechanism of a round, for the neighbours of the guarantee: its parameters do not name them."""
    mechanism = build(asked["mechanism"], asked["parameters"])
    return mechanism.under("take-out") if [one["relation"] for one in adjacent[:1]] == ["take-out"] else mechanism


def _estimate(content: Mapping[str, Any]) -> Agreement | Recall:
    """Return the estimate with that content. Errors: KeyError for a kind that has none."""
    kind = {one.kind: one for one in (Agreement, Recall)}[content["kind"]]
    names = {field.name for field in fields(kind)}
    return kind(**{key: content[key] for key in content if key in names})
