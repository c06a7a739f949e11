"""The student is chosen on released answers that were held out from the candidates."""

import signal
import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from ostrakon.estimators.choices import make_student
from ostrakon.features import representatives
from ostrakon.students.candidates import image_candidates, table_candidates
from ostrakon.students.cells import cell_of
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.selection import FIRST_PARTS, Candidate, Released, select
from ostrakon.students.sklearn_student import SklearnStudent
from ostrakon.students.soft_vote import soft_vote, trees
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)
PRIVATE, PUBLIC, NEW = (RNG.uniform(-1, 1, (rows, 2)).astype(np.float32) for rows in (4000, 600, 1000))
QUERIES = representatives(PUBLIC, 60, random_state=0)


def crossed(X):
    """A class that no line finds."""
    return ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(np.int64)


def noisy(label_of, sigma=5.0, classes=2):
    counts = np.zeros((60, classes))
    np.add.at(counts, (cell_of(PRIVATE, PUBLIC[QUERIES]), label_of(PRIVATE)), 1)
    noisy = counts + np.random.default_rng(1).normal(0, sigma, counts.shape)
    return Released(queries=QUERIES, counts=noisy, sigma2=sigma)


def labelled(label_of):
    return Released(queries=QUERIES, counts=np.eye(2)[label_of(PUBLIC[QUERIES])])


def on_counts(estimator):
    return NoisyCountStudent(estimator, representation="raw", random_state=0)


LINE = Candidate(name="line", student=on_counts(LogisticRegression()))
TREES = Candidate(name="trees", student=on_counts(ExtraTreesClassifier(30, min_samples_leaf=3)))


@pytest.mark.parametrize("order", [(LINE, TREES), (TREES, LINE)])
def test_the_one_that_fits_is_chosen_in_whatever_order(order):
    selection = select(order, PUBLIC, PUBLIC, noisy(crossed))
    assert selection.chosen is TREES
    assert selection.agreement["trees"] > 0.8 > 0.65 > selection.agreement.get("line", 0.0)
    assert (selection.student.predict(NEW) == crossed(NEW)).mean() > 0.85
    # Trees do nearly as well on a straight border: told apart by less noise, else the first in order is chosen.
    straight = select(order, PUBLIC, PUBLIC, noisy(lambda X: (X.sum(axis=1) > 0).astype(int), sigma=2.0))
    assert straight.chosen is LINE
    assert straight.agreement["line"] > straight.agreement.get("trees", 0.0) + 2 * 2.0 * 60**0.5 / 4000


def test_who_is_behind_the_first_after_two_parts_is_taught_no_more():
    counts = np.tile([[50.0, 40.0]], (60, 1))
    released = Released(queries=QUERIES, counts=counts, sigma2=20.0)
    said = {"first": Watched(0), "behind": Watched(1), "equal": Watched(0)}
    taught = {}
    for name in ("behind", "equal"):
        Watched.taught = []
        candidates = [Candidate(name="first", student=Collapsed(0)), Candidate(name=name, student=said[name])]
        assert list(select(candidates, PUBLIC, PUBLIC, released).agreement) == ["first", name][: 1 + (name == "equal")]
        taught[name] = len(Watched.taught)
    assert taught == {"behind": FIRST_PARTS, "equal": 5}
    # One that is kept where nobody is better than a guess stays.
    fallback = Candidate(name="behind", student=Watched(1), fallback=True)
    candidates = [Candidate(name="first", student=Collapsed(0)), fallback]
    assert set(select(candidates, PUBLIC, PUBLIC, released).agreement) == {"first", "behind"}


@pytest.mark.slow
def test_a_mean_is_tried_by_what_it_is_made_of():
    sizes = {"counts": True, "classes": 2, "queries": 60, "features": 2, "seed": 0}
    candidates = {each.name: each for each in table_candidates(**sizes)}
    vote = candidates["soft-vote"]
    fitted = replace(
        vote, student=candidates["soft-vote"].student.set_params(estimator=soft_vote(trees(40, counts=True)))
    )
    others = [candidates[name] for name in vote.mean_of]
    found = [select([first, *others], PUBLIC, PUBLIC, noisy(crossed)) for first in (vote, replace(fitted, mean_of=()))]
    assert found[0].chosen.name == found[1].chosen.name
    assert found[0].agreement["soft-vote"] == pytest.approx(found[1].agreement["soft-vote"], abs=1e-12)
    np.testing.assert_array_equal(found[0].out_of_fold.predicted, found[1].out_of_fold.predicted)


def test_who_learns_labels_hears_those_that_stand_out_of_the_noise():
    class Heard(BaseEstimator):
        def fit(self, X, y):
            self.y_ = np.asarray(y)
            return self

    clear = np.array([[50.0, 0, 0], [0, 0, 40], [0, 30, 1], [9, 8, 0], [5, 6, 4], [20, 0, 0]])
    queries = np.array([8, 1, 2, 4, 6, 7])
    X = np.zeros((9, 2))
    heard = Released(queries=queries, counts=clear, sigma2=5.0).fit_student(Heard(), X).y_
    assert heard.tolist() == [-1, 2, 1, -1, -1, -1, -1, 0, 0]
    # Under more noise than votes the clearer half is heard, and of released labels every one.
    drowned = Released(queries=queries, counts=clear, sigma2=500.0).fit_student(Heard(), X).y_
    assert drowned.tolist() == [-1, 2, 1, -1, -1, -1, -1, -1, 0]
    labels = Released(queries=queries, counts=np.eye(3)[clear.argmax(axis=1)]).fit_student(Heard(), X).y_
    assert (labels[queries] == clear.argmax(axis=1)).all()


def test_labels_choose_too():
    candidates = [
        Candidate(name="line", student=SklearnStudent(LogisticRegression())),
        Candidate(name="trees", student=SklearnStudent(ExtraTreesClassifier(30), random_state=0)),
    ]
    selection = select(candidates, PUBLIC, PUBLIC, labelled(crossed))
    assert selection.chosen.name == "trees"
    # Sixty answers: a share of them.
    assert selection.agreement["trees"] * 60 == pytest.approx(round(selection.agreement["trees"] * 60))


class Collapsed(ClassifierMixin, BaseEstimator):
    """A student that says one class whatever it is told."""

    def __init__(self, said=1):
        self.said = said

    def fit_counts(self, X, queries, counts, *, sigma2):
        self.classes_ = np.arange(counts.shape[1])
        return self

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), self.said)


def test_agreement_is_the_share_of_the_held_out_noisy_votes():
    released = noisy(crossed)
    shares = released.counts.sum(axis=0) / released.counts.sum()
    candidates = [Candidate(name=str(said), student=Collapsed(said)) for said in (0, 1)]
    found = select(candidates, PUBLIC, PUBLIC, released).agreement
    assert found == {"0": pytest.approx(shares[0], abs=1e-12), "1": pytest.approx(shares[1], abs=1e-12)}


def test_a_collapsed_student_is_never_chosen():
    for released in (noisy(crossed), labelled(crossed)):
        selection = select([Candidate(name="collapsed", student=Collapsed()), TREES], PUBLIC, PUBLIC, released)
        assert selection.chosen is TREES


class Watched(Collapsed):
    """Remembers which rows it was taught and which it was asked about."""

    taught, asked = [], []

    def fit_counts(self, X, queries, counts, *, sigma2):
        Watched.taught.append({row.tobytes() for row in X})
        assert len(queries) == len(counts) <= 60
        return super().fit_counts(X, queries, counts, sigma2=sigma2)

    def predict(self, X):
        Watched.asked.append({row.tobytes() for row in X})
        return super().predict(X)


def test_held_out_cells_leave_with_all_their_rows():
    Watched.taught, Watched.asked = [], []
    watched = Candidate(name="watched", student=Watched(), fallback=True)
    select([TREES, watched], PUBLIC, PUBLIC, noisy(crossed), folds=4)
    everyone = {row.tobytes() for row in PUBLIC}
    assert len(Watched.asked) == len(Watched.taught) == 4
    for taught, asked in zip(Watched.taught, Watched.asked, strict=True):
        assert not taught & asked
        assert taught | asked == everyone
    assert set().union(*Watched.asked) == everyone


def test_it_is_repeatable_and_what_is_tried_need_not_be_what_is_kept():
    quick = Candidate(
        name="trees", student=TREES.student, tried=on_counts(ExtraTreesClassifier(10, min_samples_leaf=3))
    )
    first, again = (select([LINE, quick], PUBLIC, PUBLIC, noisy(crossed), seed=3) for _ in range(2))
    assert first.agreement == again.agreement
    assert len(first.student.estimator_.estimators_) == 30
    np.testing.assert_array_equal(first.student.predict(NEW), again.student.predict(NEW))


def test_students_that_learn_at_the_same_time_say_what_they_say_one_after_the_other(monkeypatch):
    released, students = noisy(crossed), table_candidates(counts=True, classes=2, queries=60, features=2, seed=0)
    several = select(students, PUBLIC, PUBLIC, released)
    with monkeypatch.context() as patched:
        patched.setattr("ostrakon.students.selection.effective_n_jobs", lambda jobs: 1)
        one = select(students, PUBLIC, PUBLIC, released)
    assert len(one.agreement) > 2
    assert several.agreement == one.agreement
    assert several.proba.tobytes() == one.proba.tobytes()
    assert several.student.predict_proba(NEW).tobytes() == one.student.predict_proba(NEW).tobytes()


class Noisy(DummyClassifier):
    """Warns of the same thing in every fit, and stops early."""

    def fit(self, X, y, sample_weight=None):
        warnings.warn("odd rows", UserWarning, stacklevel=1)
        warnings.warn("not converged", ConvergenceWarning, stacklevel=1)
        return super().fit(X, y, sample_weight)


def test_what_students_warn_of_is_shown_once_when_all_are_tried(recwarn):
    pair = [Candidate(name=name, student=on_counts(Noisy(strategy="prior"))) for name in ("a", "b")]
    select(pair, PUBLIC, PUBLIC, noisy(crossed))
    assert [str(one.message) for one in recwarn if one.category is UserWarning] == ["odd rows"]
    assert not [one for one in recwarn if one.category is ConvergenceWarning]


BEGUN, ALLOWED, ENDED = threading.Event(), threading.Event(), threading.Event()


class Slow(DummyClassifier):
    def fit(self, X, y, sample_weight=None):
        BEGUN.set()
        ALLOWED.wait(20)
        fitted = super().fit(X, y, sample_weight)
        ENDED.set()
        return fitted


def interrupt(thread):
    BEGUN.wait(20)
    signal.pthread_kill(thread, signal.SIGINT)


def test_an_interrupt_does_not_wait_for_students_that_learn(recwarn):
    for event in (BEGUN, ALLOWED, ENDED):
        event.clear()
    pair = [Candidate(name=name, student=on_counts(Slow(strategy="prior"))) for name in ("a", "b")]
    # A process that was started in the background may ignore it.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, args=[threading.get_ident()]).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            select(pair, PUBLIC, PUBLIC, noisy(crossed))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not ENDED.is_set()
    # A fit that ends later leaves warnings as they are shown.
    ALLOWED.set()
    assert ENDED.wait(20)
    time.sleep(0.5)
    warnings.warn("still shown", stacklevel=1)
    assert "still shown" in [str(one.message) for one in recwarn]


def test_one_candidate_is_taught_and_not_tried():
    selection = select([LINE], PUBLIC, PUBLIC, noisy(crossed))
    assert selection.agreement == {}
    assert hasattr(selection.student, "classes_")


def test_who_cannot_learn_is_left_out_and_refused_where_nobody_can():
    released = noisy(crossed)
    noise_alone = Released(queries=QUERIES, counts=-np.abs(released.counts), sigma2=5.0)
    with pytest.raises(InvalidInput, match="the noise exceeds every vote"):
        select([LINE, TREES], PUBLIC, PUBLIC, noise_alone)
    refusing = Candidate(name="refusing", student=NoisyCountStudent(representation="raw", examples="none"))
    assert list(select([refusing, TREES], PUBLIC, PUBLIC, released).agreement) == ["trees"]


def test_one_query_is_enough_to_learn_from():
    released = Released(queries=QUERIES[:1], counts=np.array([[9.0, 1.0]]), sigma2=1.0)
    selection = select([LINE, TREES], PUBLIC, PUBLIC, released)
    assert selection.chosen is LINE
    assert selection.agreement == {}


@pytest.mark.slow
def test_no_table_is_answered_worse_than_by_its_majority():
    def blind(X):
        return (np.random.default_rng(0).random(len(X)) < 0.1).astype(int)

    few = {"classes": 2, "queries": 60, "features": 20, "seed": 0}
    selection = select(table_candidates(counts=True, **few), PUBLIC, PUBLIC, noisy(blind))
    assert (selection.student.predict(NEW) == 0).mean() > 0.9
    names = [
        candidate.name for candidate in table_candidates(counts=True, classes=11, queries=999, features=20, seed=0)
    ]
    assert "majority" in names
    assert "hist-gradient-boosting" not in names
    assert isinstance(table_candidates(counts=False, **few)[-1].student.estimator, DummyClassifier)


def test_of_many_answers_boosting_is_preferred_and_shares_out_the_cells_counts():
    first = [
        table_candidates(counts=True, classes=2, queries=queries, features=20, seed=0)[0] for queries in (299, 300)
    ]
    assert [candidate.name for candidate in first] == ["soft-vote", "soft-vote:hist-gradient-boosting"]
    assert first[1].student.rounds == 3
    assert first[1].mean_of == ("logistic(C=0.3)", "hist-gradient-boosting")


def test_of_many_answers_a_network_learns_from_its_own_labels_and_kernels_are_left_out():
    pytest.importorskip("torch")
    given = {"counts": True, "classes": 150, "representation": "pca", "seed": 0}
    few, many = ({each.name: each for each in image_candidates(queries=queries, **given)} for queries in (2000, 2001))
    alone, again = "cnn(network='quick-cnn',steps=3000)", "self-training-cnn(network='quick-cnn',steps=3000,rounds=1)"
    assert alone in few
    assert "svm-rbf(C=1.0)" in few
    assert not {alone, "svm-rbf(C=1.0)"} & set(many)
    # The quicker one shows how well it does; the name is one that --student takes.
    assert type(many[again].tried) is type(few[alone].student)
    assert make_student(again, seed=0).get_params() == many[again].student.get_params()


def test_a_process_learns_from_embeddings_and_tables_but_of_many_answers():
    given = {"counts": True, "moments": True, "classes": 2, "features": 20, "seed": 0}
    first = {
        (queries, embedded): table_candidates(queries=queries, embedded=embedded, **given)[0].name
        for queries in (299, 300)
        for embedded in (False, True)
    }
    assert first == {
        (299, False): "gaussian-process:extra-trees",
        (300, False): "moments:hist-gradient-boosting",
        (299, True): "gaussian-process",
        (300, True): "gaussian-process",
    }
    assert [candidate.name for candidate in table_candidates(queries=299, **given)] == [
        "gaussian-process:extra-trees",
        "moments",
        "gaussian-process",
        "soft-vote",
        "logistic(C=0.3)",
        "logistic(C=3.0)",
        "extra-trees",
        "hist-gradient-boosting",
        "majority",
    ]
    embeddings = table_candidates(queries=300, embedded=True, **given)
    assert [candidate.name for candidate in embeddings] == [
        "gaussian-process",
        "moments",
        "logistic(C=0.3)",
        "logistic(C=3.0)",
        "label-spreading",
        "majority",
    ]
    assert repr(make_student(embeddings[0].name, seed=0)) == repr(embeddings[0].student)
    # The released student would hold every public row.
    assert table_candidates(queries=299, pool=20_001, **given)[0].name == "moments:extra-trees"
    assert table_candidates(queries=300, embedded=True, pool=20_001, **given)[0].name == "moments"


def test_among_equals_the_earlier_candidate_is_kept():
    released = noisy(crossed, sigma=20.0)
    twice = [Candidate(name=name, student=TREES.student) for name in ("one", "two")]
    assert select(twice, PUBLIC, PUBLIC, released).chosen.name == "one"
    # Two standard errors of the noise are 5.2%: the worse of two constant students is kept only within that.
    counts = np.tile([[50.0, 49.5]], (60, 1))
    for lead, chosen in ((0.5, "0"), (-4.0, "0"), (-7.0, "1")):
        close = Released(queries=QUERIES, counts=counts + np.array([lead, 0.0]), sigma2=20.0)
        candidates = [Candidate(name=str(said), student=Collapsed(said)) for said in (0, 1)]
        assert select(candidates, PUBLIC, PUBLIC, close).chosen.name == chosen


class Mistaken(ClassifierMixin, BaseEstimator):
    """Right but on the queries of these places."""

    def __init__(self, places):
        self.places = places

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        wrong = PUBLIC[QUERIES[list(self.places)]]
        return crossed(X) ^ (X[:, None] == wrong).all(axis=2).any(axis=1)


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        # 3 of 60 apart: plain where that is all the difference, nothing where they differ on 23 queries.
        (range(10), range(7), "second"),
        (range(13), range(20, 30), "first"),
        (range(20), range(30, 40), "second"),
        (range(5), range(5), "first"),
        (range(1), (), "first"),
    ],
)
def test_two_students_on_labels_are_told_apart_by_where_they_differ(first, second, chosen):
    candidates = [
        Candidate(name=name, student=SklearnStudent(Mistaken(tuple(places))))
        for name, places in (("first", first), ("second", second))
    ]
    for order in (candidates, candidates[::-1]) if chosen == "second" else (candidates,):
        assert select(order, PUBLIC, PUBLIC, labelled(crossed)).chosen.name == chosen


def test_where_nobody_is_better_than_a_guess_the_fallback_is_kept():
    noise = Released(queries=QUERIES, counts=np.random.default_rng(5).normal(1.0, 30.0, (60, 2)), sigma2=30.0)
    plain = Candidate(name="majority", student=on_counts(DummyClassifier(strategy="prior")), fallback=True)
    for released, chosen in ((noise, plain), (noisy(crossed), TREES)):
        selection = select([TREES, plain], PUBLIC, PUBLIC, released)
        assert selection.chosen is chosen


def test_the_majority_is_one_class_of_all_that_was_released():
    """Of even classes, what is left without a fold leads with the class that is rarer in the fold."""
    even = np.tile([[40.0, 40.0], [80.0, 0.0], [0.0, 80.0]], (20, 1)) + np.array([0.1, 0.0])
    released = Released(queries=QUERIES, counts=even, sigma2=1.0)
    held = select([LINE], PUBLIC, PUBLIC, released).out_of_fold
    assert (held.majority == [1.0, 0.0]).all()
    assert (held.counts * held.majority).sum() / held.counts.sum() >= 0.5
