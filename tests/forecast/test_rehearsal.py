"""A rehearsal plays the run: forecasts hold what the run gives, and would not without its noise."""

import dataclasses
import inspect
import threading
import warnings

import numpy as np
import pytest

from ostrakon import forecast
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import ENDS, Quantity
from ostrakon.forecast import interval, least_epsilon, offers, outlook, public_rows, rehearsal, scene, without_noise
from ostrakon.forecast.interval import MEASURES
from ostrakon.forecast.offers import make_offers
from ostrakon.forecast.public_rows import PublicRows
from ostrakon.forecast.rehearsal import _overlapping, _split, rehearse
from ostrakon.forecast.scene import Scene
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.corrections import rule_of_quantity
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.votes import collect
from ostrakon.run.steps import run_steps
from ostrakon.run.storage import Storage
from ostrakon.students.measures import measures_of_labels
from ostrakon.teachers import parallel
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

OPTIONS = Options(student="logistic", seed=3)
RECORDS = 400


def drawn(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(rows, 3))
    return X, (X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=rows) > 0).astype(np.int64)


def shown(seed: int = 0, rows: int = 240) -> PublicRows:
    X, y = drawn(rows, np.random.default_rng([seed, 1]))
    return PublicRows.of(X, [str(label) for label in y])


def played(epsilon: float, *, public: PublicRows, repetitions: int = 4, options: Options = OPTIONS):
    given = make_offers(
        options, epsilons=[epsilon], mechanisms=["bounded-gnmax"], records=RECORDS, pool=public.rows, classes=2
    )
    return rehearse(public, given, options, records=RECORDS, repetitions=repetitions)


@pytest.mark.slow
def test_the_forecast_holds_what_runs_give_and_without_the_noise_it_would_not():
    public = shown()
    one = played(0.12, public=public).forecasts[0]
    no_noise = played(2000.0, public=public).forecasts[0]
    X_test, y_test = drawn(3000, np.random.default_rng(7))
    realized = []
    for seed in range(6):
        X, y = drawn(RECORDS, np.random.default_rng([seed, 2]))
        task = Task(private=Rows(X=X, y=y), classes=(0, 1), X_public=public.X, X_test=X_test, y_test=y_test)
        noise = np.random.default_rng([seed, 3])
        options = Options(student="logistic", seed=seed, epsilon=0.12)
        found = run_steps(task, options, Storage(), rng=noise).accuracy
        assert found is not None
        realized.append(found)
    low, high = one.interval()
    assert sum(low <= share <= high for share in realized) >= 5
    low, high = no_noise.interval()
    assert sum(low <= share <= high for share in realized) <= 3
    assert one.mean < no_noise.mean - 0.1


RANGE, SEVERAL = Quantity(low=-4, high=4), Labels(names=("left", "up", "rare"))
TAUGHT = {"mechanism": "gnmax", "teacher": "decision-tree(max_depth=3)", "teachers": 8, "queries": 40}


def of_another_target(coding, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and their values or labels."""
    X = rng.normal(size=(rows, 3))
    values = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=rows)
    return X, values if coding is RANGE else np.stack([values > 0, X[:, 2] > 0.2, values > 1.5], axis=1).astype(int)


def measures_of_runs(coding, public: np.ndarray, runs: int = 6, **asked: object) -> np.ndarray:
    """What runs give: R2 and mean absolute error, or macro F1, micro F1 and AUC; (runs, measures)."""
    test = of_another_target(coding, 2000, np.random.default_rng(7))
    given = []
    for seed in range(runs):
        X, y = of_another_target(coding, RECORDS, np.random.default_rng([seed, 2]))
        learned, classes = (RANGE.steps(y), ENDS) if coding is RANGE else (y, SEVERAL.names)
        rows = {"private": Rows(X=X, y=learned), "X_public": public, "X_test": test[0], "y_test": test[1]}
        task = Task(**rows, classes=classes, coding=coding)
        done = run_steps(task, Options(seed=seed, **asked), Storage(), rng=np.random.default_rng([seed, 3]))
        found = done.measures
        own = ("r2", "mean_absolute_error") if coding is RANGE else ("macro_f1", "micro_f1", "auc")
        given.append([getattr(found, name) for name in own])
    return np.array(given)


def test_the_constant_of_labels_is_the_one_that_runs_print():
    X, y = of_another_target(SEVERAL, 60, np.random.default_rng(1))
    actual = y[:40]
    found = without_noise.scores_of_constants(PublicRows.of(X, y, coding=SEVERAL), y[40:], actual)
    run = measures_of_labels(np.full(actual.shape, 0.5), np.zeros_like(actual), actual, SEVERAL.names)
    assert found == (run.macro_f1_of_all, run.micro_f1_of_all, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("coding", [RANGE, SEVERAL], ids=["quantity", "labels"])
def test_of_other_targets_too_the_forecast_holds_what_runs_give_and_not_without_the_noise(coding):
    X, y = of_another_target(coding, 240, np.random.default_rng(1))
    public = PublicRows.of(X, y, coding=coding)
    sizes = {"records": RECORDS, "pool": 240, "classes": len(public.classes), "target": public.target}
    name = "quantity-gnmax" if coding is RANGE else "labels-gnmax"
    epsilon, options = 0.4 if coding is RANGE else 0.15, Options(seed=3)
    given = make_offers(options, epsilons=[epsilon, 50.0], mechanisms=[name], **sizes)
    found = rehearse(public, given, options, records=RECORDS, repetitions=4)
    assert (found.failures, found.simulated) == ({}, False)
    noisy, without = (found.of(offer) for offer in given)
    assert [one.measure for one in noisy] == list(MEASURES[public.target])
    realized = measures_of_runs(coding, X, epsilon=epsilon)
    for at, (one, other) in enumerate(zip(noisy, without, strict=True)):
        ends = np.array([one.interval(), other.interval()]).T[:, :, None]
        inside = ((ends[0] <= realized[:, at]) & (realized[:, at] <= ends[1])).sum(axis=1)
        assert inside[0] >= 5, (one.measure, ends, realized[:, at])
        assert inside[1] <= 3, (one.measure, ends, realized[:, at])
    better = np.sign(np.subtract(found.not_private, found.constant))
    assert better.tolist() == ([1, -1] if coding is RANGE else [1, 1, 1])


@pytest.mark.slow
@pytest.mark.parametrize("right", [True, False])
def test_trained_teachers_of_several_labels_are_rehearsed_as_they_are_run(right, monkeypatch):
    if not right:
        # Of every label the votes on the next one.
        def moved(*given, **named):
            return Votes(np.roll(collect(*given, **named)[0].counts, 1, axis=0)), None

        monkeypatch.setattr(scene, "collect", moved)
    X, y = of_another_target(SEVERAL, 240, np.random.default_rng(1))
    public, options = PublicRows.of(X, y, coding=SEVERAL), Options(seed=3, **TAUGHT)
    sizes = {"records": RECORDS, "pool": 240, "classes": 3, "target": "labels"}
    given = make_offers(options, epsilons=[100.0], mechanisms=["gnmax"], **sizes)
    found = rehearse(public, given, options, records=RECORDS, repetitions=2)
    assert found.failures == {}
    away = np.abs(
        [one.mean for one in found.of(given[0])] - measures_of_runs(SEVERAL, X, 1, epsilon=100.0, **TAUGHT)[0]
    )
    assert (away < 0.15).all() == right


def test_rows_without_a_value_are_not_rehearsed_on():
    few = PublicRows.of(np.zeros((50, 2)), [1.0] * 30 + [None] * 20, coding=RANGE)
    with pytest.raises(InvalidInput, match="at least 40 labelled rows"):
        rehearse(few, (), OPTIONS, records=RECORDS)


@pytest.mark.slow
def test_it_is_repeated_by_its_seed():
    first, again = (played(1.0, public=shown(), repetitions=2) for _ in range(2))
    assert first == again
    other = played(1.0, public=shown(), repetitions=2, options=Options(student="logistic", seed=4))
    assert other.forecasts[0].scores != first.forecasts[0].scores
    assert (first.simulated, first.failures) == (False, {})
    assert 0.4 < first.constant[0] < 0.65 < 0.8 < first.not_private[0]
    assert (first.forecasts[0].holdout, first.forecasts[0].distinct) == (60, 120)
    assert first.forecasts[0].doublings == pytest.approx(np.log2(240 / 90))


@pytest.mark.slow
def test_workers_play_what_one_process_does(monkeypatch):
    here = played(1.0, public=shown(), options=Options(student="logistic", seed=3, jobs=1))
    monkeypatch.setattr(parallel, "_START_SECONDS", 0.0)
    assert played(1.0, public=shown(), options=Options(student="logistic", seed=3, jobs=2)) == here


@pytest.mark.parametrize("coding", [None, RANGE, SEVERAL], ids=["classes", "quantity", "labels"])
def test_rows_that_are_drawn_often_vote_as_often(coding):
    X, y = of_another_target(coding, 240, np.random.default_rng(1))
    public = shown() if coding is None else PublicRows.of(X, y, coding=coding)
    view, learned = view_of(public.X, "auto", seed=0), RANGE.steps(y) if coding is RANGE else public.y
    private = np.random.default_rng(0).integers(20, size=RECORDS)
    scene = Scene.of(public, view, learned, pool=np.arange(100, 240), private=private, options=OPTIONS)
    sizes = {"units": RECORDS, "pool": 140, "classes": len(public.classes), "target": public.target}
    plan = make_plan(Options(epsilon=1.0), **sizes)
    queries = scene.queries(plan.queries)
    given = dataclasses.replace(scene.learning.view, representation=scene.identity)
    rows = Rows(X=view.public[private], y=learned[private], fixed=True)
    every, _ = collect(plan, rows, given, queries, OPTIONS)
    votes = scene._votes(plan, queries)
    assert votes == every
    assert votes.moments == every.moments
    fewer = Scene.of(public, view, learned, pool=np.arange(100, 240), private=private[1:], options=OPTIONS)
    assert fewer._votes(plan, queries) != every


def test_the_student_of_a_quantity_is_forecast_with_its_correction():
    X, y = of_another_target(RANGE, 240, np.random.default_rng(1))
    public = PublicRows.of(X, y, coding=RANGE)
    view, private = view_of(public.X, "auto", seed=0), np.random.default_rng(0).integers(20, size=RECORDS)
    scene = Scene.of(public, view, RANGE.steps(y), pool=np.arange(100, 240), private=private, options=Options())
    asked = Options(epsilon=4.0, parameters={"corrections": 0.3})
    plan = make_plan(asked, units=RECORDS, pool=140, classes=len(public.classes), target="quantity")
    student = scene.simulate(plan, rng=np.random.default_rng(2)).student
    assert student.corrected
    # Every record adds once, however often its row was drawn.
    rule, says = rule_of_quantity(student)
    every = np.arange(RECORDS), says(student, view.public[private]), RANGE.steps(y)[private]
    sums = scene._corrections(plan, scene.queries(plan.rows), student)
    np.testing.assert_array_equal(sums, rule.contributions_of(every).counts)


def test_parts_share_no_row_and_every_row_is_held_out_before_any_is_again():
    places = np.arange(100, 203)
    seen = []
    for repetition in range(4):
        held, players, pool = _split(places, repetition, seed=0)
        assert sorted([*held, *players, *pool]) == places.tolist()
        seen += held.tolist()
    assert sorted(seen) == places.tolist()


def test_estimates_in_a_part_of_a_wide_range_are_forecast_in_the_unit_of_the_quantity():
    X, y = of_another_target(RANGE, 240, np.random.default_rng(1))
    public = PublicRows.of(X, y, coding=Quantity(low=-4, high=40))
    sizes = {"records": 6000, "pool": 240, "classes": len(public.classes), "target": public.target}
    given = make_offers(Options(seed=3), epsilons=[4.0], mechanisms=["quantity-gnmax"], **sizes)
    assert given[0].plan.mechanism.histogram_noise is not None
    found = rehearse(public, given, Options(seed=3), records=6000, repetitions=2)
    assert found.of(given[0])[0].mean > 0.5


@pytest.mark.parametrize("public", [120, 600])
def test_means_of_both_sides_of_a_quantity_differ_as_much_as_in_a_run(public):
    rest, rng = np.arange(90), np.random.default_rng(0)
    values = rng.normal(size=(4000, 90))
    players, pool = _overlapping(rest, public)
    assert len(players) == len(pool) == len(set(players)) == len(set(pool))
    assert {*players, *pool} == set(rest)
    for part, rows in ((slice(None), public), (slice(len(pool) // 2), public / 2)):
        apart = values[:, players[part]].mean(axis=1) - values[:, pool[part]].mean(axis=1)
        assert apart.var() == pytest.approx(1 / rows, rel=0.15)
    apart = values[:, rest[:45]].mean(axis=1) - values[:, rest[45:]].mean(axis=1)
    assert apart.var() > 1.5 / 50


def test_without_labels_worlds_are_simulated_and_that_is_said():
    X, _ = drawn(120, np.random.default_rng(0))
    found = played(1.0, public=PublicRows.of(X, classes=["a", "b"]), repetitions=2)
    assert found.simulated
    (forecast,) = found.forecasts
    mean, least, most = found.lost(forecast)
    assert mean == pytest.approx(found.not_private[0] - forecast.mean, abs=1e-12)
    assert sorted(np.subtract([one for (one,) in found.without_noise], forecast.scores)) == pytest.approx([least, most])


@pytest.mark.slow
def test_trained_teachers_can_be_rehearsed():
    public = shown()
    options = Options(student="logistic", teacher="logistic", teachers=20, queries=10, seed=1)
    given = make_offers(options, epsilons=[30.0], mechanisms=["gnmax"], records=RECORDS, pool=public.rows, classes=2)
    found = rehearse(public, given, options, records=RECORDS, repetitions=2)
    assert found.of(given[0]) == found.forecasts[:1]
    assert found.forecasts[0].mean > 0.6


def test_more_queries_than_a_rehearsal_has_rows_are_rehearsed_with_what_it_has():
    options = dataclasses.replace(OPTIONS, queries=150)
    found = played(4.0, public=shown(), repetitions=2, options=options)
    assert (found.failures, found.pool) == ({}, 90)
    assert found.forecasts[0].mean > found.constant[0] + 0.2


@pytest.mark.parametrize("last", [0, 1])
def test_other_threads_and_rehearsals_that_end_later_leave_warnings_as_they_were(last, recwarn):
    """last: whether it is another rehearsal."""
    before, begun, inside, ended = list(warnings.filters), *(threading.Event() for _ in range(3))

    def first(done: int, total: int) -> None:
        begun.set()
        inside.wait(0.3)

    def second(done: int, total: int) -> None:
        inside.set()
        ended.wait(1)

    def beside() -> None:
        begun.wait()
        if last:
            rehearse(shown(), (), OPTIONS, records=RECORDS, repetitions=2, progress=second)
        else:
            with warnings.catch_warnings():
                second(0, 0)

    other = threading.Thread(target=beside)
    other.start()
    rehearse(shown(), (), OPTIONS, records=RECORDS, repetitions=2, progress=first)
    ended.set()
    other.join()
    assert warnings.filters == before
    warnings.warn("still shown", stacklevel=1)
    assert [str(one.message) for one in recwarn] == ["still shown"]


def test_too_few_rows_or_repetitions_are_refused():
    with pytest.raises(InvalidInput, match="at least 40 labelled rows"):
        played(1.0, public=shown(rows=30))
    with pytest.raises(InvalidInput, match="repetitions"):
        played(1.0, public=shown(), repetitions=1)


def test_nothing_here_takes_private_data():
    rooms = (forecast, interval, least_epsilon, offers, outlook, public_rows, rehearsal, scene, without_noise)
    functions = {
        f"{room.__name__}.{name}": thing
        for room in rooms
        for name, thing in vars(room).items()
        if inspect.isfunction(thing) and thing.__module__.startswith("ostrakon.forecast")
    }
    assert len(functions) > 8
    for name, function in functions.items():
        hints = " ".join(map(str, inspect.signature(function).parameters.values()))
        assert not any(word in hints for word in ("PrivateData", "Rows =", ": Rows", "PrivateTable", "Task")), name
