"""The interface of teachers and students: the methods of scikit-learn's classifiers."""

import inspect
from typing import Any

from sklearn import base

from ostrakon.validation import InvalidInput


def check_estimator_like(estimator: Any, *, name: str = "The estimator") -> Any:
    """Return `estimator`; refuse it unless it has fit, predict and get_params, as scikit-learn's classifiers have."""
    if inspect.isclass(estimator):
        raise InvalidInput(f"{name} must be an instance such as {estimator.__name__}(), got the class itself.")
    lacking = [part for part in ("fit", "predict", "get_params") if not callable(getattr(estimator, part, None))]
    if lacking:
        raise InvalidInput(
            f"{name} must have {', '.join(lacking)} as scikit-learn's classifiers do, got {estimator!r}."
        )
    if is_regressor(estimator):
        raise InvalidInput(f"{name} must be a classifier, got the regressor {estimator!r}.")
    return estimator


def is_regressor(estimator: Any) -> bool:
    """Return whether scikit-learn calls an estimator a regressor; False for other objects."""
    return getattr(estimator, "__sklearn_tags__", None) is not None and base.is_regressor(estimator)


def import_path(estimator: Any) -> str:
    """Return the module and class of an estimator, as in the description of a run."""
    kind = type(estimator)
    return f"{kind.__module__}.{kind.__qualname__}"
