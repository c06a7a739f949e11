"""A word to whoever fits many times on the same private rows: every fit spends."""

from __future__ import annotations

import functools
import inspect
import warnings


class EveryFitSpends(UserWarning):
    """Several fits on the same private rows: their epsilons add up."""


def warn_of_searches() -> None:
    """Warn, once a process, where this fit is one of a search or a cross-validation of scikit-learn."""
    frame = inspect.currentframe()  # nothing else tells an estimator who fits it
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("sklearn.model_selection"):
            warn_once()
            return
        frame = frame.f_back


@functools.cache
def warn_once() -> None:
    """The warning. Cached, because Python forgets what it has warned of whenever a library changes filters."""
    warnings.warn(
        "A search or cross-validation fits many times on the same private rows. Every fit spends its whole epsilon, "
        "they add up, and which settings win is a further release that no statement covers. Choose settings on public "
        "or simulated data.",
        EveryFitSpends,
        stacklevel=4,
    )
