"""A statement from the content of its `statement.json`, for releases that are made from an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.accounting.estimates import Agreement
from ostrakon.mechanisms.registry import build
from ostrakon.statements.statement import ORDINARY_NOISE, Round, Statement
from ostrakon.validation import InvalidInput, whole

_AS_THEY_ARE = (
    *("teachers", "adjacency", "unit_column", "protects", "not_private", "tuned", "trust_model", "versions"),
    "public_rows",
)


def statement_from(content: Mapping[str, Any]) -> Statement:
    """The statement with this content: one whose `as_dict` gives it again, number by number.

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
        guess = content["membership_guess"] or content["label_guess"]
        known = {field.name for field in fields(Agreement)}
        restored = Statement(
            guarantee=None if guarantee is None else WorstCase(**guarantee),
            rounds=tuple(
                Round(
                    mechanism=build(asked["mechanism"], asked["parameters"]),
                    queries=asked["queries"],
                    answered=asked["answered"],
                    max_answers=asked["max_answers"],
                )
                for asked in content["rounds"]
            ),
            classes=tuple(content["classes"]),
            unit="record" if content["unit_of_privacy"] == "record" else "user",
            noise_is_secure=content["implementation"]["noise"] != ORDINARY_NOISE,
            adjacent=tuple(Adjacent(**one) for one in content["epsilon_by_adjacency"]),
            membership_guess=None if guess is None else guess["at_most"],
            estimates=tuple(
                Agreement(**{key: one[key] for key in one if key in known}) for one in content["estimates"]
            ),
            remarks=tuple(content["remarks"]),
            not_covered=tuple(content["not_covered"]),
            **{name: content[name] for name in _AS_THEY_ARE if name in content},
        )
        same = restored.as_dict() == dict(content)
    except (InvalidInput, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"The statement of the release cannot be restored: {str(error).rstrip('.')}.") from error
    if not same:
        raise InvalidInput("The statement of the release must be one that ostrakon writes, and it says something else.")
    return restored
