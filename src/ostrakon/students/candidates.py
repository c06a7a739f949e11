"""Default candidates: students for tables and images, from noisy counts or from labels."""

import importlib.util
from typing import Any

from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from ostrakon.features.moments import FEW_CLASSES
from ostrakon.students.boosting import MOST_BINS, WITHOUT, Boosting
from ostrakon.students.graph_model import GraphStudent
from ostrakon.students.label_spreading import LabelSpreadingStudent
from ostrakon.students.moment_students import MomentLogistic, MomentVote
from ostrakon.students.noisy_counts import NoisyCountStudent, examples_for
from ostrakon.students.process_student import GaussianProcessStudent
from ostrakon.students.selection import Candidate
from ostrakon.students.sklearn_student import SklearnStudent
from ostrakon.students.soft_vote import SOFT_VOTE, soft_vote, trees

FEW_TREES, MOST_TREES = 40, 120
"""Number of trees in cross-validation, and in the fitted student."""
MOST_BOOSTED = 10
"""Largest number of classes for boosting, which grows trees for every class."""
MANY_QUERIES, ROUNDS = 300, 3
MOST_FOR_KERNELS = 2000
"""Largest number of answers for kernels; with more, networks also learn from their own labels."""
MOST_FEATURES = 200
"""Largest number of features for boosting: sorting hundreds takes minutes, and axes of embeddings mean nothing."""
MOST_TO_SPREAD = 20_000
"""Largest number of public rows for a Gaussian process, which stores them: 61 MB with 384 features."""
MOMENTS, PROCESS, SPREADING = "moments", "gaussian-process", "label-spreading"
LOGISTIC, TREES = "logistic(C=0.3)", "extra-trees"
HIST = "hist-gradient-boosting"


def table_candidates(
    *,
    counts: bool,
    classes: int,
    queries: int,
    features: int,
    seed: int,
    moments: bool = False,
    embedded: bool = False,
    pool: int = 0,
) -> list[Candidate]:
    """Return students of the features of tables; among equals an earlier one is preferred.

    counts: whether they learn from noisy counts, else from labels. queries: number of answered public rows. features:
    number of features. moments: whether sums of features by class are released with the counts; students of these sums
    then come first, and a Gaussian process learns from both. embedded: whether features are embeddings for images or
    texts, which linear models separate, so that trees are left out. pool: number of public rows; with many, the process
    is left out, because the released student would contain all of them. With many answers on tables, boosting is
    preferred to it and learns the classes of single rows in a cell; with few it would learn noise.
    """
    many = counts and queries >= MANY_QUERIES
    boosts = classes <= MOST_BOOSTED and features <= MOST_FEATURES
    boosting = Boosting(max_iter=40, max_leaf_nodes=15, min_samples_leaf=10, max_bins=MOST_BINS, early_stopping=WITHOUT)
    boosted = _candidate(HIST, boosting, counts=counts, seed=seed, rounds=ROUNDS if many else 0)
    few, most = (trees(number, counts=counts) for number in (FEW_TREES, MOST_TREES))
    forest = _candidate(TREES, most, counts=counts, seed=seed, tried=few)
    moments_only = Candidate(name=MOMENTS, student=MomentLogistic())
    listed = [
        _candidate(SOFT_VOTE, soft_vote(most), counts=counts, seed=seed, mean_of=(LOGISTIC, TREES)),
        _candidate(LOGISTIC, LogisticRegression(C=0.3, max_iter=1000), counts=counts, seed=seed),
        _candidate("logistic(C=3.0)", LogisticRegression(C=3.0, max_iter=1000), counts=counts, seed=seed),
        forest,
        *([boosted] if boosts and not many else []),
        _candidate("svm-rbf(C=1.0)", SVC(C=1.0), counts=counts, seed=seed),
        Candidate(name=SPREADING, student=LabelSpreadingStudent("raw", random_state=seed)),
        _candidate("majority", DummyClassifier(strategy="prior"), counts=counts, seed=seed, fallback=True),
    ]
    process = Candidate(name=PROCESS, student=GaussianProcessStudent())
    small_pool = pool <= MOST_TO_SPREAD and classes <= FEW_CLASSES
    if moments and embedded:
        linear = [one for one in listed if one.name.startswith(("logistic", SPREADING, "majority"))]
        return [*([process] if small_pool else []), moments_only, *linear]
    if moments:
        if small_pool and not (many and boosts):
            both = GaussianProcessStudent(forest.student)
            # The process is a mean of two models itself, so it counts twice.
            mean = Candidate(name=f"{PROCESS}:{TREES}", student=both, mean_of=(PROCESS, PROCESS, TREES))
            listed = [process, *listed]
        else:
            other = boosted if many and boosts else forest
            mean = Candidate(
                name=f"{MOMENTS}:{other.name}",
                student=MomentVote(other.student),
                tried=MomentVote(other.tried),
                mean_of=(MOMENTS, other.name),
            )
        # With released sums these two were never chosen: see benchmarks/README.md.
        listed = [mean, moments_only, *(one for one in listed if not one.name.startswith(("svm-rbf", SPREADING)))]
    if not (many and boosts):
        return listed
    if moments:
        return [*listed[:2], boosted, *listed[2:]]
    parts = (LOGISTIC, HIST)
    mean = _candidate(
        f"{SOFT_VOTE}:{HIST}", soft_vote(boosting), counts=counts, seed=seed, rounds=ROUNDS, mean_of=parts
    )
    return [mean, boosted, *listed]


def image_candidates(*, counts: bool, classes: int, queries: int, representation: Any, seed: int) -> list[Candidate]:
    """Return students for images: kernels and logistic regression on features, the graph, and networks with PyTorch.

    queries: number of answered public rows; with thousands, kernels are left out, because they would take hours.
    representation: learned from the public images; the graph is built on it.
    """
    candidates: list[Candidate] = []
    if importlib.util.find_spec("torch") is not None:
        graph = GraphStudent(representation=representation, random_state=seed)
        candidates.append(Candidate(name="graph", student=graph, takes_rows=True, tried=quick_graph(graph)))
        candidates.append(_network(classes=classes, queries=queries, seed=seed))
    kernel = SVC(C=1.0, class_weight=None if counts else "balanced")
    return [
        *candidates,
        *([_candidate("svm-rbf(C=1.0)", kernel, counts=counts, seed=seed)] if queries <= MOST_FOR_KERNELS else []),
        Candidate(name=SPREADING, student=LabelSpreadingStudent("raw", random_state=seed)),
        _candidate(LOGISTIC, LogisticRegression(C=0.3, max_iter=1000), counts=counts, seed=seed),
    ]


def _network(*, classes: int, queries: int, seed: int) -> Candidate:
    """Return a network; with many answers one that is self-trained, but not while it is cross-validated."""
    from ostrakon.students.supervised import SelfTrainingNetwork, SupervisedNetwork

    steps = max(1000, 20 * classes)
    network = SupervisedNetwork("quick-cnn", steps=steps, random_state=seed)
    settings = f"network='quick-cnn',steps={steps}"
    if queries <= MOST_FOR_KERNELS:
        return Candidate(name=f"cnn({settings})", student=network, takes_rows=True)
    self_training = SelfTrainingNetwork("quick-cnn", rounds=1, steps=steps, random_state=seed)
    return Candidate(
        name=f"self-training-cnn({settings},rounds=1)", student=self_training, takes_rows=True, tried=network
    )


def quick_graph(graph: GraphStudent) -> GraphStudent:
    """Return the graph student with one round of networks, which shows whether networks learn from this data."""
    return GraphStudent(**{**graph.get_params(deep=False), "rounds": 1})


def _candidate(
    name: str,
    estimator: Any,
    *,
    counts: bool,
    seed: int,
    rounds: int = 0,
    tried: Any = None,
    fallback: bool = False,
    mean_of: tuple[str, ...] = (),
) -> Candidate:
    if not counts:
        student = SklearnStudent(estimator, random_state=seed)
        return Candidate(name=name, student=student, fallback=fallback, mean_of=mean_of)
    options: Any = {"representation": "raw", "examples": examples_for(estimator)}
    quick = None
    if rounds or tried is not None:
        quick = NoisyCountStudent(estimator if tried is None else tried, random_state=seed, **options)
    student = NoisyCountStudent(estimator, random_state=seed, rounds=rounds, **options)
    return Candidate(name=name, student=student, tried=quick, fallback=fallback, mean_of=mean_of)
