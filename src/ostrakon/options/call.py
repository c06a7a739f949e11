"""Values that are written like a call: NAME or NAME(option=value, ...)."""

import ast
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ostrakon.mechanisms.registry import require_own
from ostrakon.validation import InvalidInput


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """Return ("logistic", {"C": 0.1}) of `logistic(C=0.1)`; values are Python literals.

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
        arguments = [(str(keyword.arg), ast.literal_eval(keyword.value)) for keyword in call.keywords]
    except (SyntaxError, ValueError) as error:
        raise InvalidInput(
            f"A choice must be written as NAME or NAME(option=value, ...), with words in quotes, got {text!r}."
        ) from error
    options = dict(arguments)
    for option, times in Counter(option for option, _ in arguments).items():
        if times > 1:
            raise InvalidInput(f"{option} must be given once, got it {times} times in {text!r}.")
    return name.strip(), options


def with_own_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with the parameters of a mechanism that is written as a call.

    >>> with_own_parameters({"mechanism": "gnmax(sigma2=40)", "epsilon": 1.0})
    {'mechanism': 'gnmax', 'epsilon': 1.0, 'sigma2': 40}
    """
    written = values.get("mechanism")
    if not isinstance(written, str) or "(" not in written:
        return dict(values)
    name, own = parse_call(written)
    require_own(name, own, shown=repr)  # quoted, so that the command line does not show them as options
    twice = [key for key in own if values.get(key) is not None]
    if twice:
        raise InvalidInput(f"{twice[0]} must be given once, got it in {written!r} and as {values[twice[0]]!r}.")
    return {**values, "mechanism": name, **own}
