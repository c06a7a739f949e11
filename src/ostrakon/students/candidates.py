"""The students that are tried where none is named: of tables and of images, on noisy counts and on labels."""

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
"""Trees that show how well they do, and trees that are kept."""
MOST_BOOSTED = 10
"""Classes up to which boosting is tried: it grows trees for every one of them."""
MANY_QUERIES, ROUNDS = 300, 3
MOST_FOR_KERNELS = 2000
"""Answers up to which kernels are tried, and from which on a network learns from its own labels, too."""
MOST_FEATURES = 200
"""Features up to which boosting is tried: it takes minutes to sort hundreds, and embeddings have no axes to split."""
MOST_TO_SPREAD = 20_000
"""Public rows up to which a Gaussian process on their graph learns: of 384 features so many are 61 MB."""
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
    """Students of the features of tables, the first to be preferred among equals.

    counts: whether they learn from noisy counts, else labels. queries: how many public rows were answered. features: of
    a row. moments: whether sums of features by class are released beside counts: students of these sums then
    come first, and a Gaussian process learns from both. embedded: whether features are embeddings of images or
    texts, where a line tells classes apart, so that trees are not tried. pool: number of public rows; of many, the
    process is not tried, because the released student would hold all of them. Of many answers of tables boosting is
    preferred to it, and learns which rows of a cell are of which class; of few it would learn their noise.
    """
    many = counts and queries >= MANY_QUERIES
    boosts = classes <= MOST_BOOSTED and features <= MOST_FEATURES
    boosting = Boosting(max_iter=40, max_leaf_nodes=15, min_samples_leaf=10, max_bins=MOST_BINS, early_stopping=WITHOUT)
    boosted = _candidate(HIST, boosting, counts=counts, seed=seed, rounds=ROUNDS if many else 0)
    few, most = (trees(number, counts=counts) for number in (FEW_TREES, MOST_TREES))
    forest = _candidate(TREES, most, counts=counts, seed=seed, tried=few)
    alone = Candidate(name=MOMENTS, student=MomentLogistic())
    found = [
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
    spreads = pool <= MOST_TO_SPREAD and classes <= FEW_CLASSES
    if moments and embedded:
        others = [each for each in found if each.name.startswith(("logistic", SPREADING, "majority"))]
        return [*([process] if spreads else []), alone, *others]
    if moments:
        if spreads and not (many and boosts):
            three = GaussianProcessStudent(forest.student)
            # The process is a mean of two itself, so it counts twice.
            both = Candidate(name=f"{PROCESS}:{TREES}", student=three, mean_of=(PROCESS, PROCESS, TREES))
            found = [process, *found]
        else:
            other = boosted if many and boosts else forest
            both = Candidate(
                name=f"{MOMENTS}:{other.name}",
                student=MomentVote(other.student),
                tried=MomentVote(other.tried),
                mean_of=(MOMENTS, other.name),
            )
        # Where sums are released, these two took time and were never chosen: see benchmarks/README.md.
        found = [both, alone, *(each for each in found if not each.name.startswith(("svm-rbf", SPREADING)))]
    if not (many and boosts):
        return found
    if moments:
        return [*found[:2], boosted, *found[2:]]
    parts = (LOGISTIC, HIST)
    both = _candidate(
        f"{SOFT_VOTE}:{HIST}", soft_vote(boosting), counts=counts, seed=seed, rounds=ROUNDS, mean_of=parts
    )
    return [both, boosted, *found]


def image_candidates(*, counts: bool, classes: int, queries: int, representation: Any, seed: int) -> list[Candidate]:
    """Students of images: kernels and logistic regression on features, the graph, and networks where PyTorch is.

    queries: how many public rows were answered; kernels are left out where they are thousands, which takes them hours.
    representation: what was learned from the public images, on which the graph is built.
    """
    found: list[Candidate] = []
    if importlib.util.find_spec("torch") is not None:
        graph = GraphStudent(representation=representation, random_state=seed)
        found.append(Candidate(name="graph", student=graph, takes_rows=True, tried=graph_tried(graph)))
        found.append(_network(classes=classes, queries=queries, seed=seed))
    kernel = SVC(C=1.0, class_weight=None if counts else "balanced")
    return [
        *found,
        *([_candidate("svm-rbf(C=1.0)", kernel, counts=counts, seed=seed)] if queries <= MOST_FOR_KERNELS else []),
        Candidate(name=SPREADING, student=LabelSpreadingStudent("raw", random_state=seed)),
        _candidate(LOGISTIC, LogisticRegression(C=0.3, max_iter=1000), counts=counts, seed=seed),
    ]


def _network(*, classes: int, queries: int, seed: int) -> Candidate:
    """A network on the answers; of many answers, one that then learns from what it is sure of, tried without that."""
    from ostrakon.students.supervised import SelfTrainingNetwork, SupervisedNetwork

    steps = max(1000, 20 * classes)
    network = SupervisedNetwork("quick-cnn", steps=steps, random_state=seed)
    how = f"network='quick-cnn',steps={steps}"
    if queries <= MOST_FOR_KERNELS:
        return Candidate(name=f"cnn({how})", student=network, takes_rows=True)
    again = SelfTrainingNetwork("quick-cnn", rounds=1, steps=steps, random_state=seed)
    return Candidate(name=f"self-training-cnn({how},rounds=1)", student=again, takes_rows=True, tried=network)


def graph_tried(graph: GraphStudent) -> GraphStudent:
    """The graph student with one round of networks: enough to see whether networks learn here at all."""
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
