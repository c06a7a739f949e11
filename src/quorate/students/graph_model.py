"""The graph student: labels spread over the public graph, a model of the surest, and a new graph of what it sees."""

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
from quorate.students.labelled import UNLABELLED, require_labels, row_count, seeded, take_rows


class GraphStudent(ClassifierMixin, BaseEstimator):
    """Few labels become many on the graph of public neighbours; a model of the surest makes a better graph.

    model: a classifier of raw rows (cloned); None: for images a convolutional network where PyTorch is installed,
        otherwise a kernel machine on the representation.
    representation, neighbours, strength: of the graph, as in `LabelSpreadingStudent`.
    keep: share of each class, the surest rows, that the first model learns from, in (0, 1]; each later one leaves out
        half as many.
    rounds: how often a model is trained on the surest rows. What a network sees in a row (`features`) makes the next
        graph, over which the labels spread anew; the next beliefs are the mean of that and of the network's own. Any
        other model hands on its own beliefs. A last model then learns from all rows.

    fit(X, y): X all public rows, y integers of shape (rows,), -1 for unlabelled. Fitted: `classes_`, `graph_`
    (the fitted `LabelSpreadingStudent` of the representation), `beliefs_` (rows, classes) that the last model learned
    from, `model_`. Deterministic under `random_state`.
    Guarantee: a function of public rows and released labels, so it costs no privacy of its own.
    Source: Iscen et al. 2019 (label propagation on the learner's own features).
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
        keep: float = 0.6,
        rounds: int = 2,
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
        self.beliefs_, self.model_ = self.graph_.beliefs_, None
        if len(self.classes_) == 1:
            return self
        for number in range(rounds):
            model = self._learned(X, labels, number, keep=1 - (1 - keep) / 2**number)
            self.beliefs_ = self._next_beliefs(model, X, labels)
        self.model_ = self._learned(X, labels, rounds, keep=1, last=True)
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

    def _learned(self, X: Any, labels: Any, number: int, *, keep: float, last: bool = False) -> Any:
        """A fresh model that has learned the likeliest classes of the surest rows."""
        likeliest = self.beliefs_.argmax(axis=1)
        # A class that no row is likeliest to have keeps the rows that were answered with it.
        answers = np.where(labels == UNLABELLED, UNLABELLED, np.searchsorted(self.classes_, labels))
        lost = (answers != UNLABELLED) & ~np.isin(answers, likeliest)
        likeliest[lost] = answers[lost]
        rows = np.union1d(surest(self.beliefs_, keep), np.flatnonzero(lost))
        return self._fresh(X, number, last=last).fit(take_rows(X, rows), self.classes_[likeliest[rows]])

    def _next_beliefs(self, model: Any, X: Any, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        own = model.predict_proba(X)
        if not hasattr(model, "features"):
            return own
        seen = np.asarray(model.features(X), np.float64)
        directions = seen / np.maximum(np.linalg.norm(seen, axis=1, keepdims=True), 1e-12)
        again = LabelSpreadingStudent(
            "raw", neighbours=self.neighbours, strength=self.strength, random_state=self.random_state
        )
        # The graph alone would bring back a wrong answer that the network has overruled.
        return (own + again.fit(directions, labels).beliefs_) / 2

    def _fresh(self, X: Any, number: int, *, last: bool) -> Any:
        seed = self.random_state
        if seed is not None:
            # Every round a new start: the same one would repeat its own mistakes.
            seed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        if self.model is not None:
            model = clone(self.model)
            if not hasattr(model, "predict_proba"):
                raise InvalidInput(f"model must have predict_proba, got {model!r}.")
            return seeded(model, seed)
        images = self.representation == "auto" and default_representation(X) == "hog"
        if (images or self.representation == "hog") and importlib.util.find_spec("torch") is not None:
            from quorate.networks.classifier import TorchClassifier

            # Ten passes: enough to learn the classes, too few to learn the wrong labels by heart.
            passes = 20 if last else 10
            return TorchClassifier(
                "quick-cnn",
                steps=max(200, passes * row_count(X) // 64),
                learning_rate=0.004,
                augmentation="moderate",
                average=0.99,
                random_state=seed,
            )
        return KernelOnFeatures(self.graph_.representation_, random_state=seed)


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
    """Positions of the `share` of each likeliest class's rows that lead the next class by most, in order.

    At least one row of every class that is anywhere the likeliest.
    """
    given = np.asarray(beliefs)
    two = np.sort(given, axis=1)[:, -2:]
    lead, likeliest = two[:, 1] - two[:, 0], given.argmax(axis=1)
    chosen = []
    for k in np.unique(likeliest):
        rows = np.flatnonzero(likeliest == k)
        chosen.append(rows[np.argsort(-lead[rows], kind="stable")][: max(1, round(share * len(rows)))])
    return np.sort(np.concatenate(chosen))
