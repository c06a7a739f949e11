"""Teachers and students by name, as the command line and run.toml write them."""

from __future__ import annotations

import ast
from typing import Any

from quorate.checks import InvalidInput
from quorate.students.self_training import SelfTrainingStudent
from quorate.students.sklearn_student import SklearnStudent
from quorate.teachers.registry import check_estimator_like, make_estimator

DEFAULT_TEACHER = "logistic"
DEFAULT_STUDENT = "self-training"
_SELF_TRAINING = "self-training"


def make_teacher(choice: Any) -> Any:
    """A teacher from a name such as `logistic` or `sklearn.svm.SVC(C=2.0)`; an estimator is taken as it is."""
    if not isinstance(choice, str):
        return check_estimator_like(choice, name="The teacher")
    return _named(choice)


def make_student(choice: Any, *, seed: int | None = None) -> Any:
    """A student that takes -1 as unlabelled.

    choice: `self-training` or `self-training:NAME` (learns from its own confident predictions too), any NAME that
    `make_teacher` takes (learns from the answers alone), or an estimator; one of quorate.students is taken as it is.
    """
    if isinstance(choice, str):
        kind, _, name = choice.partition(":")
        if kind == _SELF_TRAINING:
            return SelfTrainingStudent(_named(name or DEFAULT_TEACHER), random_state=seed)
        return SklearnStudent(_named(choice), random_state=seed)
    check_estimator_like(choice, name="The student")
    if type(choice).__module__.startswith(("quorate.students", "quorate.networks")):
        return choice
    return SklearnStudent(choice, random_state=seed)


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """("logistic", {"C": 0.1}) of `logistic(C=0.1)`; values are Python literals.

    >>> parse_call("sklearn.svm.SVC(C=2.0, kernel='rbf')")
    ('sklearn.svm.SVC', {'C': 2.0, 'kernel': 'rbf'})
    """
    name, bracket, rest = text.strip().partition("(")
    if not bracket:
        return name, {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError("only name=value may stand between the brackets")
        return name.strip(), {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise InvalidInput(f"An estimator must be written as NAME or NAME(option=value, ...), got {text!r}.") from error


def _named(text: str) -> Any:
    name, parameters = parse_call(text)
    return make_estimator(name, **parameters)
