"""Soft voting: the mean of what a linear model and trees believe, who seldom make the same mistakes of noisy counts."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

SOFT_VOTE = "soft-vote"


def fewest_in_leaf(counts: bool) -> int:
    """Least examples in a leaf of a tree: rows of cells are many and unsure, labels few and sure."""
    return 5 if counts else 2


def soft_vote(*, counts: bool, trees: int = 120) -> VotingClassifier:
    """Logistic regression (C=0.3) and extremely randomized trees, whose probabilities are averaged.

    counts: whether they learn from noisy counts, else labels. trees: how many.
    """
    members = [
        ("logistic", LogisticRegression(C=0.3, max_iter=1000)),
        ("extra-trees", ExtraTreesClassifier(trees, min_samples_leaf=fewest_in_leaf(counts))),
    ]
    return VotingClassifier(members, voting="soft")


def takes_weights(estimator: Any) -> bool:
    """Whether examples can be weighed in fit; of a vote, whether all its members can weigh them."""
    if isinstance(estimator, VotingClassifier):
        members: list[tuple[str, Any]] = estimator.estimators
        return all(takes_weights(member) for _, member in members if member != "drop")
    return has_fit_parameter(estimator, "sample_weight")
