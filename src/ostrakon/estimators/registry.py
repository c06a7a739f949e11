"""Estimators by name: short names for common ones, an import path for any other."""

import importlib
from collections.abc import Mapping
from typing import Any

from ostrakon.plugins import from_entry_point
from ostrakon.teachers.interface import check_estimator_like
from ostrakon.validation import InvalidInput, did_you_mean

# Defaults are chosen for shards of a hundred rows or so: regularised, and deterministic under random_state.
SHORT_NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "logistic": ("sklearn.linear_model.LogisticRegression", {"max_iter": 1000}),
    "ridge": ("sklearn.linear_model.RidgeClassifier", {}),
    "linear-svm": ("sklearn.svm.LinearSVC", {}),
    "svm-rbf": ("sklearn.svm.SVC", {"kernel": "rbf"}),
    "naive-bayes": ("sklearn.naive_bayes.GaussianNB", {}),
    "nearest-neighbours": ("sklearn.neighbors.KNeighborsClassifier", {"n_neighbors": 1}),
    "nearest-centroid": ("sklearn.neighbors.NearestCentroid", {}),
    "lda": ("sklearn.discriminant_analysis.LinearDiscriminantAnalysis", {"solver": "lsqr", "shrinkage": "auto"}),
    "decision-tree": ("sklearn.tree.DecisionTreeClassifier", {}),
    "random-forest": ("sklearn.ensemble.RandomForestClassifier", {}),
    "extra-trees": ("sklearn.ensemble.ExtraTreesClassifier", {}),
    "gradient-boosting": ("sklearn.ensemble.GradientBoostingClassifier", {}),
    "hist-gradient-boosting": ("sklearn.ensemble.HistGradientBoostingClassifier", {}),
    "mlp": ("sklearn.neural_network.MLPClassifier", {"max_iter": 500}),
    "lenet": ("ostrakon.teachers.torch_ensemble.TorchEnsemble", {"network": "lenet"}),
    "resnet": ("ostrakon.teachers.torch_ensemble.TorchEnsemble", {"network": "resnet"}),
    "network": ("ostrakon.teachers.torch_ensemble.TorchEnsemble", {}),
    # Students: they take -1 as unlabelled.
    "cnn": ("ostrakon.students.supervised.SupervisedNetwork", {}),
    "self-training-cnn": ("ostrakon.students.supervised.SelfTrainingNetwork", {}),
    "vat": ("ostrakon.students.virtual_adversarial.VirtualAdversarial", {}),
    "gan": ("ostrakon.students.semi_supervised_gan.SemiSupervisedGAN", {}),
    "fixmatch": ("ostrakon.students.fixmatch.FixMatch", {}),
}


IN_WORDS = {
    "logistic": "logistic regression",
    "ridge": "ridge classification",
    "linear-svm": "a linear support vector machine",
    "svm-rbf": "a support vector machine",
    "naive-bayes": "naive Bayes",
    "nearest-neighbours": "nearest neighbours",
    "nearest-centroid": "nearest centroids",
    "lda": "linear discriminant analysis",
    "decision-tree": "a decision tree",
    "random-forest": "a random forest",
    "extra-trees": "extra trees",
    "gradient-boosting": "gradient boosting",
    "hist-gradient-boosting": "histogram gradient boosting",
    "mlp": "a neural network",
    "lenet": "a small convolutional network",
    "resnet": "a residual network",
    "network": "a neural network",
    "cnn": "a convolutional network",
    "self-training-cnn": "a convolutional network that also learns from its own predictions",
    "vat": "virtual adversarial training",
    "gan": "a generative adversarial network",
    "fixmatch": "FixMatch",
    "additive": "an additive model of single columns",
    "label-spreading": "label spreading",
    "graph": "label spreading on a graph and a model of its surest labels",
    "noisy-counts": "logistic regression from noisy counts",
    "moments": "logistic regression from sums of features",
    "gaussian-process": "a Gaussian process",
    "sums": "ridge regression from sums of features",
    "majority": "always the most frequent class",
}
"""Names of single estimators in plain words, for readers of a release."""

_OF_STUDENTS = ("additive", "soft-vote", "self-training", "label-spreading", "graph")
"""Names that `ostrakon.estimators.choices.make_student` knows besides."""


def in_words(name: str) -> str:
    """Return what the named student is; a name that is not known as it is.

    Examples
    --------
    >>> in_words("gaussian-process:extra-trees"), in_words("logistic(C=0.3)")
    ('mean of a Gaussian process and extra trees', 'logistic regression with C=0.3')
    """
    kind, _, other = name.partition(":")
    if kind == "self-training":
        return f"{in_words(other or 'logistic')}, also trained on its own predictions"
    if kind == "soft-vote":
        kind, other = "logistic", other or "extra-trees"
    if other and kind in IN_WORDS:
        return f"mean of {IN_WORDS[kind]} and {in_words(other)}"
    kind, _, parameters = name.partition("(")
    if kind not in IN_WORDS:
        return name
    return f"{IN_WORDS[kind]} with {parameters[:-1]}" if parameters else IN_WORDS[kind]


def name_of(choice: Any) -> str:
    """Return the name of a student that was chosen: of an object its class, with its module if the name is one of ours.

    >>> name_of("sums"), name_of(type("sums", (), {"__module__": "theirs"})())
    ('sums', 'theirs.sums')
    """
    if isinstance(choice, str):
        return choice
    kind = type(choice)
    return f"{kind.__module__}.{kind.__name__}" if kind.__name__ in IN_WORDS else kind.__name__


def named_in_words(name: str) -> str:
    """Return what the named student is, and its name in parentheses.

    Examples
    --------
    >>> named_in_words("sums"), named_in_words("MyClassifier")
    ('ridge regression from sums of features (sums)', 'MyClassifier')
    """
    words = in_words(name)
    return name if words == name else f"{words} ({name})"


def make_estimator(name: str, **parameters: Any) -> Any:
    """Return an unfitted estimator from a short name ("logistic") or an import path ("sklearn.svm.SVC").

    Parameters
    ----------
    name : str
        An import path runs the code of the module that it names: take it from the user, never from data.
    **parameters
        Of its constructor; they replace the defaults of the short name.

    Raises
    ------
    InvalidInput
        For an unknown name, a class that is not a classifier, and parameters that it does not have.

    Examples
    --------
    >>> make_estimator("logistic", C=0.5)
    LogisticRegression(C=0.5, max_iter=1000)
    """
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"The estimator must be a short name or an import path, got {name!r}.")
    path, defaults = SHORT_NAMES.get(name, (name, {}))
    factory = _import(name, path)
    if not all(callable(getattr(factory, part, None)) for part in ("fit", "predict", "get_params")):
        raise InvalidInput(
            f"The estimator {name!r} must be a class as scikit-learn's classifiers are, got {factory!r}."
        )
    values: Mapping[str, Any] = {**defaults, **parameters}
    try:
        estimator = factory(**values)
        if "__" in "".join(values):
            estimator.set_params(**values)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} cannot be made from the parameters {dict(parameters)!r}: {error}") from error
    return check_estimator_like(estimator)


def _import(name: str, path: str) -> Any:
    module_name, _, attribute = path.rpartition(".")
    # A statement describes our names in words, so no package may offer one of them.
    offered = None if module_name or name in IN_WORDS else from_entry_point("ostrakon.estimators", name)
    if offered is not None:
        return offered
    if not module_name:
        names = ", ".join(SHORT_NAMES)
        raise InvalidInput(
            f"There is no estimator {name!r}: give an import path such as sklearn.svm.SVC, or one of {names}; or, for "
            f"a student alone, one of {', '.join(_OF_STUDENTS)}." + did_you_mean(name, (*SHORT_NAMES, *_OF_STUDENTS))
        )
    try:
        factory = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"The estimator {name!r} cannot be imported: {error}.") from error
    return factory
