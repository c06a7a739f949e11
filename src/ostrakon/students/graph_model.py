"""The graph student: labels spread over the public graph, then a model learned from them, weighted by certainty."""

import importlib.util
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ostrakon.features.representation import default_representation, learn_representation, seeded
from ostrakon.features.rowwise import row_count
from ostrakon.students.label_spreading import LabelSpreadingStudent
from ostrakon.students.labelled import UNLABELLED, proba_from_margins, require_counts, require_labels
from ostrakon.validation import InvalidInput, whole

PASSES, DOUBLINGS = 10, 2
MOST_ROWS = 20_000
"""Largest number of public rows for which a network makes `PASSES` passes."""
LEARNED, GAINED = 0.95, 0.03
"""Weighted share of its training labels that a network must learn; and the gain that twice the training must bring:
wrong labels are learned late, or never."""
FALLEN = 0.02
"""Tolerated loss of agreement with the released answers in a round, as a part of the best agreement."""


@dataclass(eq=False, repr=False)
class GraphStudent(ClassifierMixin, BaseEstimator):
    """A model that learns from labels spread over a graph of public rows, weighted by certainty.

    Parameters
    ----------
    model : classifier, optional
        Of raw rows; has predict_proba and takes sample_weight in fit; cloned. By default a convolutional network for
        images where PyTorch is installed, otherwise a kernel machine on the representation.
    representation, neighbours, strength
        Of the graph, as in `LabelSpreadingStudent`.
    rounds : int, default 5
        Number of models that are trained in turn, at least 1; the prediction is the mean of all but the first.
    random_state : int, optional
        Seed of graph and models.

    Attributes
    ----------
    classes_ : array of int
    graph_ : LabelSpreadingStudent
        Fitted.
    models_ : list of classifier
        Fitted; empty if there is one class only.

    Notes
    -----
    The weight of a row is the margin between its two likeliest classes, first on the graph, then in the previous model.
    Unsure rows keep a small weight: without them, a whole way of writing a digit may be missing. Training stops at a
    model that agrees clearly less with the released answers than the best one, and this model is dropped.

    Guarantee: a function of public rows and released labels, so it costs no privacy of its own. Deterministic under
    `random_state`.

    References
    ----------
    Iscen et al. 2019 (label propagation with weighted pseudo-labels), without training inside the loop.
    """

    takes_rows = True
    """It learns from the public rows themselves and computes its own features."""

    model: Any = None
    _: KW_ONLY
    representation: Any = "auto"
    neighbours: int = 10
    strength: float = 0.9
    rounds: int = 5
    random_state: int | None = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Spread labels over all rows, then train.

        Parameters
        ----------
        X : array or DataFrame
            All public rows.
        y : array-like of int, shape (rows,)
            Class numbers, -1 for unlabelled.

        Returns
        -------
        GraphStudent
        """
        labels = require_labels(y, row_count(X))
        graph = self._graph().fit(X, labels)
        positions = np.flatnonzero(labels != UNLABELLED)
        votes = (labels[positions, None] == graph.classes_[None, :]).astype(np.float64)
        return self._learn(X, graph, labels, positions, votes)

    def fit_counts(self, X: Any, queries: ArrayLike, counts: ArrayLike, *, sigma2: float) -> Self:
        """Spread noisy counts instead of labels, then train.

        Parameters
        ----------
        X, queries, counts, sigma2
            As for `NoisyCountStudent.fit_counts`.

        Returns
        -------
        GraphStudent
        """
        positions, noisy = require_counts(queries, counts, row_count(X))
        graph = self._graph().fit_counts(X, positions, noisy, sigma2=sigma2)
        labels = np.full(row_count(X), UNLABELLED)
        votes = noisy[:, graph.classes_]
        labels[positions] = graph.classes_[votes.argmax(axis=1)]
        return self._learn(X, graph, labels, positions, votes)

    def _graph(self) -> LabelSpreadingStudent:
        return LabelSpreadingStudent(
            self.representation, neighbours=self.neighbours, strength=self.strength, random_state=self.random_state
        )

    def _learn(
        self,
        X: Any,
        graph: LabelSpreadingStudent,
        labels: NDArray[np.int64],
        positions: NDArray[np.int64],
        votes: NDArray[np.float64],
    ) -> Self:
        """Train one model a round. votes: released for the rows `positions`, (positions, classes)."""
        rounds = whole("rounds", self.rounds, at_least=1)
        self.graph_, self.classes_, self.models_ = graph, graph.classes_, []
        proba, best = graph.beliefs_, -np.inf
        for number in range(rounds if len(self.classes_) > 1 else 0):
            model = self._fitted_model(X, proba, labels, number)
            proba = model.predict_proba(X)
            agreement = float(votes[np.arange(len(positions)), proba[positions].argmax(axis=1)].sum())
            if agreement < best - FALLEN * abs(best):
                break
            best = max(best, agreement)
            self.models_.append(model)
        # The first model has learned the mistakes of the graph.
        self.models_ = self.models_[1:] or self.models_
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities, (rows, len(classes_)): the models' geometric mean."""
        check_is_fitted(self, "classes_")
        if not self.models_:
            return self.graph_.predict_proba(X)
        log_proba = np.mean([np.log(np.maximum(model.predict_proba(X), 1e-30)) for model in self.models_], axis=0)
        odds = np.exp(log_proba - log_proba.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class number of every row, shape (rows,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @available_if(lambda student: are_networks(getattr(student, "models_", [])))
    def exported_network(self) -> Any:
        """Return the networks as one module from inputs to probabilities; only if all models are networks."""
        from ostrakon.networks.average import averaged

        return averaged([model.exported_network() for model in self.models_])

    @property
    def shape_(self) -> Any:
        """The shape of one input of a network."""
        return self.models_[0].shape_

    def _fitted_model(self, X: Any, proba: NDArray[np.float64], labels: NDArray[np.int64], number: int) -> Any:
        """Return a new model, fitted on the likeliest class of every row with its margin as weight."""
        likeliest, weight = proba.argmax(axis=1), lead(proba)
        # A class that is likeliest in no row keeps the rows with this released label.
        answers = np.where(labels == UNLABELLED, UNLABELLED, np.searchsorted(self.classes_, labels))
        unlearned = (answers != UNLABELLED) & ~np.isin(answers, likeliest)
        likeliest[unlearned], weight[unlearned] = answers[unlearned], weight.max()
        # A class whose rows are all undecided must still be learned.
        weight = np.maximum(weight, 1e-3)
        targets = self.classes_[likeliest]
        images = default_representation(X) in ("hog", "patches")
        if self.model is None and images and importlib.util.find_spec("torch") is not None:
            return self._network(X, targets, weight, number)
        return self._fresh(number).fit(X, targets, sample_weight=weight)

    def _seed(self, number: int) -> int | None:
        # The same seed in every round would repeat the same mistakes.
        seed = self.random_state
        return None if seed is None else int(np.random.SeedSequence([seed, number]).generate_state(1)[0])

    def _fresh(self, number: int) -> Any:
        seed = self._seed(number)
        if self.model is None:
            return KernelOnFeatures(self.graph_.representation_, random_state=seed)
        model = clone(self.model)
        if not hasattr(model, "predict_proba") or not has_fit_parameter(model, "sample_weight"):
            raise InvalidInput(f"model must have predict_proba and take sample_weight in fit, got {model!r}.")
        return seeded(model, seed)

    def _network(self, X: Any, targets: NDArray[Any], weight: NDArray[np.float64], number: int) -> Any:
        """Return a fitted network; in the first round training is doubled as long as that pays."""
        from ostrakon.networks.classifier import TorchClassifier

        def trained(steps: int) -> tuple[Any, float]:
            model = TorchClassifier(
                "quick-cnn",
                steps=steps,
                learning_rate=0.004,
                augmentation="moderate",
                average=0.99,
                random_state=self._seed(number),
            ).fit(X, targets, sample_weight=weight)
            return model, float(np.average(model.predict(X) == targets, weights=weight))

        # Later rounds take as many steps as the first one needed.
        if self.models_:
            return trained(self.models_[0].steps)[0]
        # Ten passes are enough for few classes, and too few to memorize wrong labels. A large pool gets fewer passes:
        # the information grows with the answers, not with the pool.
        steps = max(200, PASSES * min(row_count(X), MOST_ROWS) // 64)
        model, score = trained(steps)
        for doubling in range(1, DOUBLINGS + 1):
            if score >= LEARNED:
                break
            longer, longer_score = trained(steps * 2**doubling)
            if longer_score < score + GAINED:
                break
            model, score = longer, longer_score
        return model


class KernelOnFeatures(ClassifierMixin, BaseEstimator):
    """A kernel machine on a fixed representation, with probabilities from its one-against-one votes.

    Parameters
    ----------
    representation : Representation or str, default "auto"
        Learned before, or a name to learn from the rows of fit.
    C : float, default 5
        As in `sklearn.svm.SVC`.
    random_state : int, optional
        Seed of the representation.
    """

    def __init__(self, representation: Any = "auto", *, C: float = 5.0, random_state: int | None = None) -> None:
        self.representation = representation
        self.C = C
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: Any = None) -> Self:
        """Fit on labelled rows. sample_weight: (rows,)."""
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        self.representation_ = learn_representation(self.representation, X, random_state=self.random_state)
        # One scale for all features would do for gradients; tables mix units.
        self.machine_ = make_pipeline(StandardScaler(with_std=False), SVC(C=self.C, decision_function_shape="ovr"))
        self.machine_.fit(self.representation_.transform(X), y, svc__sample_weight=sample_weight)
        self.classes_ = self.machine_.classes_
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the softmax of the decision values, (rows, len(classes_)), which is not calibrated."""
        check_is_fitted(self, "machine_")
        return proba_from_margins(self.machine_, np.asarray(self.representation_.transform(X), np.float64))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of every row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def are_networks(models: list[Any]) -> bool:
    """Return whether all models are networks, and there is at least one."""
    return bool(models) and all(hasattr(model, "exported_network") for model in models)


def lead(proba: ArrayLike) -> NDArray[np.float64]:
    """Return the margin between the two largest probabilities of each row, in [0, 1], shape (rows,)."""
    largest = np.sort(np.asarray(proba, np.float64), axis=1)[:, -2:]
    return largest[:, 1] - largest[:, 0]
