"""Teachers that the owners of a study train, each on its own machine: which learner, and how many."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostrakon.estimators.choices import make_teacher, parse_call
from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.study.owners import Owner
from ostrakon.teachers import train_teachers
from ostrakon.validation import InvalidInput, quote, settle, whole


def require_short_name(name: str, choice: Any) -> str:
    """Return `choice`, refused unless it is a short name: an import path would run code on every owner's machine."""
    if not isinstance(choice, str) or any("." in parse_call(part)[0] for part in choice.split(":")):
        raise InvalidInput(f"{name} must be a short name in a study, where nothing may run, got {quote(choice)}.")
    return choice


def _teacher(name: str, value: Any) -> str:
    make_teacher(require_short_name(name, value))
    return value


def _people(name: str, value: Any) -> int:
    return whole(name, value, at_least=1)


@dataclass(frozen=True, kw_only=True)
class LocalTeachers:
    """What every owner trains. The number of an owner's teachers depends on the people that it announced only.

    Parameters
    ----------
    teacher : str
        A short name (`ostrakon.estimators.choices.make_teacher`).
    people_per_teacher : int of at least 1
        Number of announced people for each teacher.

    Raises
    ------
    InvalidInput
        If the teacher is not a short name or cannot be made, or the number is not whole.
    """

    teacher: str
    people_per_teacher: int

    def __post_init__(self) -> None:
        settle(self, teacher=_teacher, people_per_teacher=_people)

    @classmethod
    def of_dict(cls, values: Any) -> "LocalTeachers":
        """Read plain values of TOML."""
        if not isinstance(values, Mapping) or set(values) != {"teacher", "people_per_teacher"}:
            raise InvalidInput(
                f"[teachers] must hold teacher and people_per_teacher, and nothing else: {quote(values)}."
            )
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for TOML."""
        return {"teacher": self.teacher, "people_per_teacher": self.people_per_teacher}

    def number(self, owner: Owner) -> int:
        """Return the number of teachers that an owner trains; refuse one that announced too few people."""
        number = owner.people // self.people_per_teacher
        if not number:
            raise InvalidInput(
                f"{owner.name} has announced {owner.people} people, too few for one teacher of "
                f"{self.people_per_teacher}: ask for fewer people per teacher, or leave that owner out."
            )
        return number

    def require_trainable(self, public: Any, *, classes: int) -> None:
        """Refuse a teacher that no owner could train, before an owner joins: try it on public rows with made-up labels.

        Parameters
        ----------
        public : array of shape (pool, features)
        classes : int

        Raises
        ------
        InvalidInput
            With the learner's own message.
        """
        some = np.resize(np.arange(row_count(public)), 8 * classes)
        labels, one = np.arange(len(some)) % classes, np.zeros(len(some), np.int64)
        learner = make_teacher(self.teacher, public=public)
        train_teachers(learner, take_rows(public, some), labels, one, n_teachers=1, classes=classes, n_jobs=1)

    def in_words(self) -> str:
        """Return what is trained, for reviewers of the study."""
        return f"{self.teacher}, one for about {self.people_per_teacher} people announced"
