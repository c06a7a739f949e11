"""The default student: labels spread over the public graph, then a model learned from the surest of them."""

from __future__ import annotations

import importlib.util
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from quorate.checks import InvalidInput, whole
from quorate.public.representation import default_representation, learn_representation
from quorate.students.label_spreading import LabelSpreadingStudent
from quorate.students.labelled import require_labels, row_count, seeded, take_rows


class GraphStudent(ClassifierMixin, BaseEstimator):
    """Few labels become many on the graph of public neighbours; a model learns from the surest and goes on from there.

    model: a classifier of raw rows (cloned); None: for images a convolutional network where PyTorch is installed,
        otherwise a kernel machine on the representation.
    representation, neighbours, strength: of the graph, as in `LabelSpreadingStudent`.
    keep: share of the public rows that the first model learns from, the surest ones, in (0, 1].
    rounds: how often a model is trained at most. Each after the first learns from the one before instead of the graph
        and leaves out half as many rows; when it changes fewer than 1 in 200 public rows, it is the last.

    fit(X, y): X all public rows, y integers of shape (rows,), -1 for unlabelled. Fitted: `classes_`, `graph_`
    (the fitted `LabelSpreadingStudent`), `model_`. Deterministic under `random_state`.
    Guarantee: a function of public rows and released labels, so it costs no privacy of its own.
    Source: Iscen et al. 2019 (label propagation for pseudo-labels), without training inside the loop.
    """

    takes_rows = True
    """Learns from the public rows themselves: it makes its own features."""

    def __init__(
        self,
        model: Any = None,
        *,
        representation: Any = "auto",
        neighbours: int = 10,
        strength: float = 0.9,
        keep: float = 0.8,
        rounds: int = 4,
        random_state: int | None = None,
    ) -> None:
        self.model = model
        self.representation = representation
        self.neighbours = neighbours
        self.strength = strength
        self.keep = keep
        self.rounds = rounds
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Spread the labels that are not -1 over all rows, then train."""
        labels = require_labels(y, row_count(X))
        keep = self.keep
        if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= 1:
            raise InvalidInput(f"keep must be a number above 0 and at most 1, got {keep!r}.")
        rounds = whole("rounds", self.rounds, at_least=1)
        self.graph_ = LabelSpreadingStudent(
            self.representation, neighbours=self.neighbours, strength=self.strength, random_state=self.random_state
        ).fit(X, labels)
        self.classes_ = self.graph_.classes_
        self.model_ = None
        beliefs = self.graph_.beliefs_
        for number in range(rounds if len(self.classes_) > 1 else 0):
            rows, chosen = self._lesson(beliefs, labels, 1 - (1 - keep) / 2**number)
            self.model_ = self._fresh(X).fit(take_rows(X, rows), self.classes_[chosen])
            before, beliefs = beliefs.argmax(axis=1), self.model_.predict_proba(X)
            if (beliefs.argmax(axis=1) != before).mean() < 0.005:
                break
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, (rows, len(classes_))."""
        check_is_fitted(self, "classes_")
        return (self.model_ or self.graph_).predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class number of every row, shape (rows,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @available_if(lambda self: hasattr(getattr(self, "model_", None), "exported_network"))
    def exported_network(self) -> Any:
        """The network that was learned, as one module from inputs to probabilities; only where it is one."""
        return self.model_.exported_network()

    @property
    def shape_(self) -> Any:
        """The shape of one input, where a network was learned."""
        return getattr(self, "model_", None).shape_

    def _lesson(self, beliefs: Any, labels: Any, keep: float) -> tuple[Any, Any]:
        """(rows, positions of their classes) to learn from; the labelled rows of a class that would be lost join."""
        rows = surest(beliefs, keep)
        chosen = beliefs[rows].argmax(axis=1)
        lost = np.setdiff1d(np.arange(len(self.classes_)), chosen)
        more = np.flatnonzero(np.isin(labels, self.classes_[lost]))
        own = np.searchsorted(self.classes_, labels[more])
        kept = ~np.isin(rows, more)
        return np.concatenate([rows[kept], more]), np.concatenate([chosen[kept], own])

    def _fresh(self, X: Any) -> Any:
        if self.model is not None:
            model = clone(self.model)
            if not hasattr(model, "predict_proba"):
                raise InvalidInput(f"model must have predict_proba, got {model!r}.")
            return seeded(model, self.random_state)
        images = self.representation == "auto" and default_representation(X) == "hog"
        if (images or self.representation == "hog") and importlib.util.find_spec("torch") is not None:
            from quorate.networks.classifier import TorchClassifier

            # Ten passes: enough to learn the classes, too few to learn the wrong labels by heart.
            return TorchClassifier(
                "quick-cnn",
                steps=max(200, 10 * row_count(X) // 64),
                learning_rate=0.004,
                augmentation="moderate",
                average=0.99,
                random_state=self.random_state,
            )
        return KernelOnFeatures(self.graph_.representation_, random_state=self.random_state)


class KernelOnFeatures(ClassifierMixin, BaseEstimator):
    """A kernel machine on a fixed representation, with probabilities from its one-against-one votes.

    representation: learned before (`Representation`) or a name to learn from the rows of fit. C: as in scikit-learn.
    """

    def __init__(self, representation: Any = "auto", *, C: float = 5.0, random_state: int | None = None) -> None:
        self.representation = representation
        self.C = C
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit on labelled rows."""
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        self.representation_ = learn_representation(self.representation, X, random_state=self.random_state)
        # One scale for all features would do for gradients; tables mix units.
        self.machine_ = make_pipeline(StandardScaler(with_std=False), SVC(C=self.C, decision_function_shape="ovr"))
        self.machine_.fit(self.representation_.transform(X), y)
        self.classes_ = self.machine_.classes_
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Softmax of the decision values, (rows, len(classes_)): an order of sureness, not calibrated."""
        check_is_fitted(self, "machine_")
        values = self.machine_.decision_function(self.representation_.transform(X))
        if values.ndim == 1:
            values = np.column_stack([-values, values])
        odds = np.exp(values - values.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of every row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def surest(beliefs: ArrayLike, share: float) -> NDArray[np.int64]:
    """Positions of the `share` of rows whose likeliest class leads the next by most, in the order of the rows."""
    given = np.asarray(beliefs)
    two = np.sort(given, axis=1)[:, -2:]
    lead = two[:, 1] - two[:, 0]
    count = max(1, round(share * len(given)))
    return np.sort(np.argsort(-lead, kind="stable")[:count])
