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
from ostrakon.students.labelled import UNLABELLED, of_margins, require_counts, require_labels
from ostrakon.validation import InvalidInput, whole

PASSES, DOUBLINGS = 10, 2
MOST_ROWS = 20_000
"""Public rows up to which a network passes over all of them so often."""
LEARNED, GAINED = 0.95, 0.03
"""Share of what it was taught, weighed as it was taught, that a network must know; and by how much more one must know
that was trained twice as long, to be worth it: wrong labels are learned late, or never."""
FALLEN = 0.02
"""By how much of the best agreement with what was released a round may be worse and still be kept."""


@dataclass(eq=False, repr=False)
class GraphStudent(ClassifierMixin, BaseEstimator):
    """Few labels become many on the graph of public neighbours; a model learns from all of them, weighted by certainty.

    model: a classifier of raw rows that takes sample_weight (cloned); None: for images a convolutional network where
        PyTorch is installed, otherwise a kernel machine on the representation.
    representation, neighbours, strength: of the graph, as in `LabelSpreadingStudent`.
    rounds: how often a model is trained, each time anew; all but the first answer together. Every row counts by how
        far its likeliest class leads the next one, first on the graph and then in the eyes of the model before. Unsure
        rows count, if little: left out, a whole way of writing a digit may be missing, and the model guesses it
        wrong. A model that agrees clearly less with what was released than the one before is dropped, and no other
        follows: it would be taught its mistakes.

    fit(X, y): X all public rows, y integers of shape (rows,), -1 for unlabelled. fit_counts takes noisy counts.
    Fitted: `classes_`, `graph_` (the fitted `LabelSpreadingStudent`), `models_`. Deterministic under `random_state`.
    Guarantee: a function of public rows and released labels, so it costs no privacy of its own.
    Source: Iscen et al. 2019 (label propagation with weighted pseudo-labels), without training inside the loop.
    """

    takes_rows = True
    """Learns from the public rows themselves: it makes its own features."""

    model: Any = None
    _: KW_ONLY
    representation: Any = "auto"
    neighbours: int = 10
    strength: float = 0.9
    rounds: int = 5
    random_state: int | None = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Spread the labels that are not -1 over all rows, then train."""
        labels = require_labels(y, row_count(X))
        graph = self._graph().fit(X, labels)
        places = np.flatnonzero(labels != UNLABELLED)
        votes = (labels[places, None] == graph.classes_[None, :]).astype(np.float64)
        return self._learn(X, graph, labels, places, votes)

    def fit_counts(self, X: Any, queries: ArrayLike, counts: ArrayLike, *, sigma2: float) -> Self:
        """Spread noisy counts instead of labels, then train; see `NoisyCountStudent.fit_counts`."""
        places, noisy = require_counts(queries, counts, row_count(X))
        graph = self._graph().fit_counts(X, places, noisy, sigma2=sigma2)
        labels = np.full(row_count(X), UNLABELLED)
        votes = noisy[:, graph.classes_]
        labels[places] = graph.classes_[votes.argmax(axis=1)]
        return self._learn(X, graph, labels, places, votes)

    def _graph(self) -> LabelSpreadingStudent:
        return LabelSpreadingStudent(
            self.representation, neighbours=self.neighbours, strength=self.strength, random_state=self.random_state
        )

    def _learn(
        self,
        X: Any,
        graph: LabelSpreadingStudent,
        labels: NDArray[np.int64],
        places: NDArray[np.int64],
        votes: NDArray[np.float64],
    ) -> Self:
        """Train round after round. votes: what was released for the rows `places`, (places, classes)."""
        rounds = whole("rounds", self.rounds, at_least=1)
        self.graph_, self.classes_, self.models_ = graph, graph.classes_, []
        beliefs, best = graph.beliefs_, -np.inf
        for number in range(rounds if len(self.classes_) > 1 else 0):
            model = self._learned(X, beliefs, labels, number)
            beliefs = model.predict_proba(X)
            agreed = float(votes[np.arange(len(places)), beliefs[places].argmax(axis=1)].sum())
            if agreed < best - FALLEN * abs(best):
                break
            best = max(best, agreed)
            self.models_.append(model)
        # The first has learned the graph's mistakes; the others make different ones.
        self.models_ = self.models_[1:] or self.models_
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, (rows, len(classes_)): the models' geometric mean."""
        check_is_fitted(self, "classes_")
        if not self.models_:
            return self.graph_.predict_proba(X)
        noisy = np.mean([np.log(np.maximum(model.predict_proba(X), 1e-30)) for model in self.models_], axis=0)
        odds = np.exp(noisy - noisy.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class number of every row, shape (rows,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @available_if(lambda student: are_networks(getattr(student, "models_", [])))
    def exported_network(self) -> Any:
        """The networks that were learned, as one module from inputs to probabilities; only where they are networks."""
        from ostrakon.networks.average import averaged

        return averaged([model.exported_network() for model in self.models_])

    @property
    def shape_(self) -> Any:
        """The shape of one input, where a network was learned."""
        return self.models_[0].shape_

    def _learned(self, X: Any, beliefs: NDArray[np.float64], labels: NDArray[np.int64], number: int) -> Any:
        """A fresh model that has learned the likeliest class of every row, weighted by its lead."""
        likeliest, weight = beliefs.argmax(axis=1), lead(beliefs)
        # A class that no row is likeliest to have keeps the rows that were answered with it.
        answers = np.where(labels == UNLABELLED, UNLABELLED, np.searchsorted(self.classes_, labels))
        lost = (answers != UNLABELLED) & ~np.isin(answers, likeliest)
        likeliest[lost], weight[lost] = answers[lost], weight.max()
        # Never quite silent: a class whose every row is undecided must still be learned.
        weight = np.maximum(weight, 1e-3)
        taught = self.classes_[likeliest]
        images = default_representation(X) in ("hog", "patches")
        if self.model is None and images and importlib.util.find_spec("torch") is not None:
            return self._network(X, taught, weight, number)
        return self._fresh(number).fit(X, taught, sample_weight=weight)

    def _seed(self, number: int) -> int | None:
        # Every round a new start: the same one would repeat its own mistakes.
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

    def _network(self, X: Any, taught: NDArray[Any], weight: NDArray[np.float64], number: int) -> Any:
        """A network that has learned the classes; in the first round twice as long, and again, where that pays."""
        from ostrakon.networks.classifier import TorchClassifier

        def trained(steps: int) -> tuple[Any, float]:
            model = TorchClassifier(
                "quick-cnn",
                steps=steps,
                learning_rate=0.004,
                augmentation="moderate",
                average=0.99,
                random_state=self._seed(number),
            ).fit(X, taught, sample_weight=weight)
            return model, float(np.average(model.predict(X) == taught, weights=weight))

        # What the first round needed is what the others take.
        if self.models_:
            return trained(self.models_[0].steps)[0]
        # Ten passes: of few classes enough to learn them, and too few to learn the wrong labels by heart.
        # Of a large pool fewer: what there is to learn grows with the answers, not with the pool.
        steps = max(200, PASSES * min(row_count(X), MOST_ROWS) // 64)
        model, known = trained(steps)
        for doubling in range(1, DOUBLINGS + 1):
            if known >= LEARNED:
                break
            longer, more = trained(steps * 2**doubling)
            if more < known + GAINED:
                break
            model, known = longer, more
        return model


class KernelOnFeatures(ClassifierMixin, BaseEstimator):
    """A kernel machine on a fixed representation, with probabilities from its one-against-one votes.

    representation: learned before (`Representation`) or a name to learn from the rows of fit. C: as in scikit-learn.
    """

    def __init__(self, representation: Any = "auto", *, C: float = 5.0, random_state: int | None = None) -> None:
        self.representation = representation
        self.C = C
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: Any = None) -> Self:
        """Fit on labelled rows. sample_weight: how much each row counts, (rows,)."""
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
        """Softmax of the decision values, (rows, len(classes_)): an order of sureness, not calibrated."""
        check_is_fitted(self, "machine_")
        return of_margins(self.machine_, np.asarray(self.representation_.transform(X), np.float64))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of every row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def are_networks(models: list[Any]) -> bool:
    """Whether there are models, all of them networks."""
    return bool(models) and all(hasattr(model, "exported_network") for model in models)


def lead(beliefs: ArrayLike) -> NDArray[np.float64]:
    """How far each row's likeliest class leads the next, in [0, 1], shape (rows,)."""
    two = np.sort(np.asarray(beliefs, np.float64), axis=1)[:, -2:]
    return two[:, 1] - two[:, 0]
