"""A run behind a gate: planned on simulated votes, decided once, stated as it went."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from ostrakon.accounting.epsilons import Gated
from ostrakon.estimator import PATEClassifier
from ostrakon.mechanisms import GNMax
from ostrakon.noise import secure_rng
from ostrakon.options.options import Options
from ostrakon.planning import trained_plan as planning
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import plan_from
from ostrakon.run.noise_log import Log, NoiseLog
from ostrakon.run.pipeline import run
from ostrakon.run.stages.answers import ask
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

GATED = Options(
    teachers=20,
    mechanism="gnmax",
    parameters={"sigma2": 3.0},
    queries=20,
    guarantee="gate",
    agreement=0.97,
    student="logistic",
    jobs=1,
)
SIZES = {"units": 600, "pool": 120, "classes": 3}
pytestmark = pytest.mark.usefixtures("few_orders")
AGREED = Votes(np.tile([20, 0, 0], (20, 1)))
SPLIT = Votes(np.tile([7, 7, 6], (20, 1)))


@pytest.fixture(scope="module")
def plan(few_orders):
    """A gate that is planned once: planning is seconds of search."""
    return make_plan(GATED, **SIZES)


def no_scores(*_):
    raise AssertionError("there is one round only")


def asked(plan, votes, log):
    return ask(plan, votes, log=log, rng=secure_rng(), interim_scores=no_scores)


@pytest.mark.slow
def test_the_guarantee_is_the_certificate_and_beats_the_worst_case(plan):
    assert isinstance(plan.guarantee, Gated)
    assert plan.guarantee == plan.gate.certificate()
    assert plan.guarantee.epsilon < 0.8 * plan.bound.epsilon
    assert plan.guarantee.delta == plan.delta


@pytest.mark.slow
def test_the_plan_is_made_without_any_vote(plan):
    again = make_plan(GATED, **SIZES)
    assert again.gate == plan.gate
    assert plan_from(plan.as_dict(), classes=3) == plan
    assert "simulated" in plan.tuned["gate"]


@pytest.mark.slow
def test_agreement_passes_and_all_queries_are_answered(plan):
    passed = [asked(plan, AGREED, Log()) for _ in range(20)]
    # Planned to pass with a probability of 0.95.
    assert sum(each.passed for each in passed) >= 13
    answers = next(each for each in passed if each.passed)
    assert (answers.labels == 0).all()
    assert answers.secure


@pytest.mark.slow
def test_disagreement_is_refused_but_for_the_prefix(plan):
    answers = asked(plan, SPLIT, Log())
    assert not answers.passed
    assert (answers.labels[: plan.gate.prefix] >= 0).all()
    assert (answers.labels[plan.gate.prefix :] == -1).all()
    assert answers.rounds[0].answered == answers.rounds[0].queries == plan.gate.prefix


def test_the_decision_is_drawn_once(plan, tmp_path):
    border = Votes(np.tile([16, 2, 2], (20, 1)))
    first = asked(plan, border, NoiseLog(tmp_path / "noise"))
    for _ in range(10):
        again = asked(plan, border, NoiseLog(tmp_path / "noise"))
        assert again.passed == first.passed
        np.testing.assert_array_equal(again.labels, first.labels)


def test_a_decision_on_other_votes_is_refused(plan, tmp_path):
    asked(plan, AGREED, NoiseLog(tmp_path / "noise"))
    with pytest.raises(InvalidInput, match="drawing again would cost privacy twice"):
        asked(plan, SPLIT, NoiseLog(tmp_path / "noise"))


@pytest.mark.slow
def test_one_decision_of_another_gate_is_refused(plan, tmp_path):
    asked(plan, AGREED, NoiseLog(tmp_path / "noise"))
    other = replace(plan, gate=replace(plan.gate, levels=plan.gate.levels[:-1]))
    with pytest.raises(InvalidInput, match=r"other settings \(levels\)"):
        asked(other, AGREED, NoiseLog(tmp_path / "noise"))


@pytest.mark.slow
def test_the_statement_of_a_gated_run(task, tmp_path):
    outcome = run(tmp_path / "run", task, GATED)
    told = outcome.statement.as_dict()
    assert told["guarantee"]["kind"] == "gated"
    assert told["guarantee"]["epsilon"] >= outcome.plan.gate.certificate().epsilon
    assert any("The gate" in remark for remark in told["remarks"])
    assert run(tmp_path / "run", task, GATED).answers.passed == outcome.answers.passed


@pytest.fixture
def estimator(plan, monkeypatch):
    monkeypatch.setattr(planning, "_gate", lambda *_, **__: plan.gate)
    return PATEClassifier(
        classes="from-private",
        student="logistic",
        n_teachers=20,
        mechanism=GNMax(sigma2=3.0),
        n_queries=20,
        guarantee="gate",
        agreement=0.97,
        random_state=1,
        noise=np.random.default_rng(2),
    )


def blobs(task, *, agreed):
    """Rows whose labels teachers can learn, or coins."""
    y = task.private.y if agreed else np.random.default_rng(0).integers(0, 3, len(task.private.y))
    return task.private.X, y


@pytest.mark.slow
def test_the_estimator_releases_where_its_teachers_agree(task, plan, estimator):
    secure = clone(estimator).set_params(noise=None).fit(*blobs(task, agreed=True), X_public=task.X_public)
    assert secure.statement_.guarantee == plan.gate.certificate()
    assert secure.statement_.guarantee.epsilon < plan.bound.epsilon
    estimator.fit(*blobs(task, agreed=True), X_public=task.X_public)
    assert (estimator.answers_ >= 0).all()
    assert estimator.score(task.X_test, task.y_test) > 0.9


@pytest.mark.slow
def test_the_estimator_keeps_back_what_a_gate_refuses(task, plan, estimator, monkeypatch):
    estimator.fit(*blobs(task, agreed=False), X_public=task.X_public)
    prefix = plan.gate.prefix
    assert 0 < prefix < 20
    assert (estimator.answers_[:prefix] >= 0).all()
    assert (estimator.answers_[prefix:] == -1).all()
    assert any("The gate refused" in remark for remark in estimator.statement_.remarks)
    monkeypatch.setattr(planning, "_gate", lambda *_, **__: replace(plan.gate, prefix=0))
    epsilon = replace(plan.gate, prefix=0).certificate().epsilon
    with pytest.raises(InvalidInput, match=f"it did not: .* this run has cost an epsilon of {epsilon:.4g}"):
        estimator.fit(*blobs(task, agreed=False), X_public=task.X_public)


@pytest.mark.slow
def test_the_estimator_and_a_run_in_a_folder_answer_the_same(task, estimator, tmp_path):
    estimator.fit(*blobs(task, agreed=True), X_public=task.X_public)
    seed = int(np.random.RandomState(1).randint(2**31 - 1))
    outcome = run(tmp_path / "run", task, replace(GATED, seed=seed), rng=np.random.default_rng(2))
    assert outcome.answers.passed
    np.testing.assert_array_equal(outcome.queries, estimator.queries_)
    np.testing.assert_array_equal(outcome.answers.labels, estimator.answers_)
    held = np.load(tmp_path / "run" / "private" / "votes.npy")
    np.testing.assert_array_equal(held, estimator.votes_.counts)
    assert [task.classes[label] for label in estimator.predict(task.X_test)] == list(
        outcome.student.predict(task.X_test)
    )


def test_where_no_gate_helps_the_worst_case_is_the_guarantee(monkeypatch):
    monkeypatch.setattr("ostrakon.planning.trained_plan.choose_guarantee", lambda *_, **__: GNMax(sigma2=1.0))
    plan = make_plan(replace(GATED, epsilon=3.0), **SIZES)
    assert plan.gate is None
    assert plan.guarantee == plan.bound
    assert 2.9 < plan.bound.epsilon <= 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"guarantee": "maybe"}, "guarantee must be one of worst-case, gate"),
        ({"mechanism": "interactive-gnmax", "parameters": {}}, "interactive-gnmax, which asks in two rounds, has none"),
        ({"max_answers": 5}, "max_answers cannot be combined with a gate"),
        ({"agreement": 1.5}, "agreement must be"),
        (
            {
                "mechanism": "sparse-vector",
                "parameters": {"threshold": 5.0, "refusals": 2, "epsilon1": 1.0, "epsilon2": 1.0},
            },
            "argmax of counts",
        ),
    ],
)
def test_gates_that_cannot_be_are_refused(changes, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_plan(replace(GATED, **changes), **SIZES)
