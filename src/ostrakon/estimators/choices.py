"""Teachers and students by name, as the command line and run.toml write them."""

from typing import Any, cast

import numpy as np

from ostrakon.estimators.registry import make_estimator
from ostrakon.features.frozen import reads_rows
from ostrakon.features.representation import default_representation, is_linear, require_known
from ostrakon.options.call import parse_call
from ostrakon.options.options import AUTO, is_auto
from ostrakon.students.additive import ADDITIVE
from ostrakon.students.additive_boosting import additive_student
from ostrakon.students.candidates import MOMENTS, PROCESS
from ostrakon.students.graph_model import GraphStudent
from ostrakon.students.label_spreading import LabelSpreadingStudent
from ostrakon.students.moment_students import MomentLogistic, MomentVote
from ostrakon.students.noisy_counts import NoisyCountStudent, examples_for
from ostrakon.students.process_student import GaussianProcessStudent
from ostrakon.students.quantity_student import SUMS, QuantityRidge
from ostrakon.students.sklearn_student import SelfTrainingStudent, SklearnStudent
from ostrakon.students.soft_vote import SOFT_VOTE, soft_vote, takes_weights, trees
from ostrakon.teachers.heads import HeadEnsemble
from ostrakon.teachers.interface import check_estimator_like
from ostrakon.validation import InvalidInput

_SELF_TRAINING = "self-training"
HEADS = ("kernel-ridge", "ridge", "logistic", "nearest-neighbours", "nearest-centroid")
_HEAD = "head:"
NOISY_COUNTS = "noisy-counts"
_GRAPH, _SPREADING = "graph", "label-spreading"
STUDENTS = frozenset((ADDITIVE, _SELF_TRAINING, NOISY_COUNTS, _GRAPH, _SPREADING, MOMENTS, PROCESS, SOFT_VOTE, SUMS))
"""Kinds of students beside estimators and networks."""
OTHER_TARGETS = {"quantity": "the target is a quantity", "labels": "rows have several labels"}
"""Kinds of target other than one class a row, in words."""
_CLASSIFIERS = {
    True: "that takes sample_weight and gives probabilities, such as hist-gradient-boosting,",
    False: "such as logistic or hist-gradient-boosting,",
}
"""Which classifiers may be named if sums are released, and if trained teachers answer."""
_IMAGES = ("hog", "patches", "contrastive", "hog+contrastive")


def default_teacher(representation: str) -> str:
    """Return the meaning of "auto": kernel ridge on features learned from images, logistic regression on all others."""
    return "kernel-ridge" if representation in _IMAGES else "logistic"


def make_teacher(choice: Any, *, public: Any = None) -> Any:
    """Return an unfitted teacher.

    Parameters
    ----------
    choice : str or estimator
        A name such as `logistic` or `sklearn.svm.SVC(C=2.0)`; an estimator is returned as it is. `kernel-ridge` and
        `head:KIND` (ridge, logistic, nearest-neighbours, nearest-centroid) train all teachers at once as small heads on
        the features.
    public : array, optional
        Features of public rows, which fix the width of the kernel.

    Raises
    ------
    InvalidInput
        For an unknown name, and parameters that it does not have.
    """
    if not isinstance(choice, str):
        return choice if hasattr(choice, "train_teachers") else check_estimator_like(choice, name="The teacher")
    name, parameters = parse_call(choice)
    kind = name.removeprefix(_HEAD)
    if kind in HEADS and (name.startswith(_HEAD) or kind == HEADS[0]):
        try:
            return HeadEnsemble(kind=cast(Any, kind), public=public, **parameters)
        except TypeError as error:
            raise InvalidInput(f"{name} cannot be made from the parameters {parameters!r}: {error}") from error
    return make_estimator(name, **parameters)


def make_student(choice: Any, *, seed: int | None = None, counts: bool = False, representation: Any = AUTO) -> Any:
    """Return an unfitted student, which takes -1 as unlabelled.

    Parameters
    ----------
    choice : str or estimator
        - `self-training` or `self-training:NAME`: also learns from its own confident predictions;
        - `noisy-counts`: logistic regression on noisy counts;
        - `soft-vote` or `soft-vote:NAME`: that and extra trees (or NAME), averaged;
        - `moments` or `moments:NAME`: logistic regression from the noisy sums of features by class that moment-gnmax
          releases (averaged with NAME);
        - `gaussian-process` or `gaussian-process:NAME`: logistic regression from the sums beside a Gaussian process on
          these sums, the counts and the graph of public rows (and NAME), averaged;
        - `sums`: ridge regression from the noisy sums of a quantity or of several labels (see `require_student`);
        - `additive`: trees of one column each, so that the log-odds add up over columns; of two classes
          `additive(increasing="age", decreasing=["income", "size"])` fixes directions for the second class;
        - `label-spreading`;
        - `graph`: spreads the answers over the public graph, then trains on the surest; for images a network if PyTorch
          is installed;
        - a network: `cnn`, `self-training-cnn`, `vat`, `gan`, `fixmatch`;
        - the NAME of an estimator, or an estimator; one of `ostrakon.students` is returned as it is.
    seed : int, optional
    counts : bool
        Whether noisy counts are released. Estimators that take sample_weight then learn from them, others from the
        largest count alone.
    representation : Representation or str
        The features on which `graph` builds its graph, and whose columns `additive` knows.

    Raises
    ------
    InvalidInput
        For an unknown name, parameters that it does not have, and classifiers without the methods that are needed.
    """
    if isinstance(choice, str):
        kind, _, name = choice.partition(":")
        if kind == _SELF_TRAINING:
            return SelfTrainingStudent(_with_beliefs(name or "logistic", choice), random_state=seed)
        if parse_call(choice)[0] == ADDITIVE:
            return _additive(choice, representation, seed=seed, counts=counts)
        if kind == _GRAPH:
            return GraphStudent(representation=representation, random_state=seed)
        if kind == NOISY_COUNTS:
            return NoisyCountStudent(representation="raw", random_state=seed)
        if kind == MOMENTS:
            return MomentVote(make_student(name, seed=seed, counts=counts)) if name else MomentLogistic()
        if kind == PROCESS:
            return GaussianProcessStudent(make_student(name, seed=seed, counts=counts) if name else None)
        if choice == SUMS:
            return QuantityRidge()
        if kind == SOFT_VOTE:
            other = _with_beliefs(name, choice) if name else trees(counts=counts)
            return _plain(soft_vote(other), seed=seed, counts=counts)
        if kind == _SPREADING:
            return LabelSpreadingStudent("raw", random_state=seed)
        estimator = _named(choice)
        if _is_student(estimator):
            return estimator if estimator.random_state is not None else estimator.set_params(random_state=seed)
        return _plain(estimator, seed=seed, counts=counts)
    check_estimator_like(choice, name="The student")
    return choice if _is_student(choice) else _plain(choice, seed=seed, counts=counts)


def _additive(choice: str, representation: Any, *, seed: int | None, counts: bool) -> Any:
    parameters = parse_call(choice)[1]
    if unknown := sorted(set(parameters) - {"increasing", "decreasing"}):
        raise InvalidInput(f"{ADDITIVE} takes increasing and decreasing, got {unknown[0]!r}.")
    return additive_student(representation, seed=seed, counts=counts, **parameters)


def _with_beliefs(name: str, choice: str) -> Any:
    estimator = _named(name)
    if not hasattr(estimator, "predict_proba"):
        raise InvalidInput(f"The student needs a classifier with predict_proba, got {choice!r}.")
    return estimator


def _plain(estimator: Any, *, seed: int | None, counts: bool) -> Any:
    if counts and takes_weights(estimator):
        examples = examples_for(estimator)
        return NoisyCountStudent(estimator, representation="raw", examples=examples, random_state=seed)
    return SklearnStudent(estimator, random_state=seed)


def require_choices(*, teacher: Any, student: Any, representation: Any) -> None:
    """Refuse an invalid teacher, student or representation before anything is trained or written."""
    if isinstance(representation, str):
        require_known(representation)
    if not is_auto(teacher):
        make_teacher(teacher)
    if not is_auto(student):
        make_student(student)


def learns_sums(choice: Any) -> bool:
    """Return whether the student of a quantity or of several labels is the one that learns from their sums."""
    return isinstance(choice, str) and choice in (AUTO, SUMS)


def require_student(choice: Any, *, target: str, sums: bool) -> None:
    """Refuse a named student that cannot learn the target from what is released.

    Parameters
    ----------
    choice : str or estimator
    target : {"classes", "quantity", "labels"}
    sums : bool
        Whether noisy sums of a quantity or of several labels are released.

    Raises
    ------
    InvalidInput
        In one sentence, which names what is allowed.
    """
    if is_auto(choice):
        return
    student = make_student(choice, counts=True)
    of_sums = isinstance(student, QuantityRidge)
    if target == "classes":
        if of_sums:
            raise InvalidInput(
                f"student must be another one than {SUMS} if rows have one class: it learns from sums of a quantity "
                f"or of several labels, as {MOMENTS} does from sums of classes."
            )
        return
    inner = getattr(student, "estimator", None)
    able = not type(inner).__module__.startswith("ostrakon.teachers")
    if sums:
        able = able and isinstance(student, NoisyCountStudent) and (inner is None or hasattr(inner, "predict_proba"))
    else:
        # Trained teachers answer on each label.
        of_moments = isinstance(student, GaussianProcessStudent | MomentLogistic | MomentVote)
        able = able and not of_moments and not hasattr(student, "exported_network")
    if not (sums if of_sums else able):
        given = choice if isinstance(choice, str) else type(choice).__name__
        raise InvalidInput(
            f"student must be {AUTO}, {f'{SUMS}, ' if sums else ''}{SOFT_VOTE}, {ADDITIVE} or a classifier "
            f"{_CLASSIFIERS[sums]} if {OTHER_TARGETS[target]}, got {given!r}."
        )


def _is_student(estimator: Any) -> bool:
    # A plain network of ostrakon.networks would take -1 for a class.
    return type(estimator).__module__.startswith("ostrakon.students")


def takes_rows(student: Any, X_public: Any) -> bool:
    """Return whether a student learns from raw public rows (networks do from images), not from features."""
    return bool(getattr(student, "takes_rows", is_images(X_public) and hasattr(student, "exported_network")))


def sees_images(X_public: Any, representation: Any) -> bool:
    """Return whether learners see images; the features of a frozen network or a dictionary are like a table."""
    if not is_images(X_public) or reads_rows(representation):
        return False
    name = default_representation(X_public) if is_auto(representation) else representation
    return not is_linear(name, X_public)


def is_images(X_public: Any) -> bool:
    """Return whether rows are images: arrays of three dimensions or more."""
    return not hasattr(X_public, "iloc") and np.ndim(X_public) >= 3


def _named(text: str) -> Any:
    name, parameters = parse_call(text)
    return make_estimator(name, **parameters)
