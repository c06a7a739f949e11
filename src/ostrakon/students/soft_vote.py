"""Soft voting: the mean probabilities of a linear model and another classifier, which make different mistakes."""

from typing import Any

from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

SOFT_VOTE = "soft-vote"


def soft_vote(other: Any) -> VotingClassifier:
    """Return the mean of logistic regression (C=0.3) and another classifier with predict_proba."""
    return VotingClassifier([("logistic", LogisticRegression(C=0.3, max_iter=1000)), ("other", other)], voting="soft")


def trees(number: int = 120, *, counts: bool) -> ExtraTreesClassifier:
    """Return extremely randomized trees, with larger leaves for noisy counts than for labels."""
    return ExtraTreesClassifier(number, min_samples_leaf=5 if counts else 2)


def takes_weights(estimator: Any) -> bool:
    """Return whether fit takes sample_weight; for a vote, whether all its members do."""
    if isinstance(estimator, VotingClassifier):
        members: list[tuple[str, Any]] = estimator.estimators
        return all(takes_weights(member) for _, member in members if member != "drop")
    return has_fit_parameter(estimator, "sample_weight")
