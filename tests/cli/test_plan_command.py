"""`ostrakon plan` and `train --dry-run` as a user meets them."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

from ostrakon.cli.app import main
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.steps import plan_of
from ostrakon.statements.statement import round_up


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 900), "town": rng.choice(["Ulm", "Bonn", "Kiel"], 900)})
    frame["ill"] = np.where(frame["age"] + rng.normal(0, 6, 900) > 55, "yes", "no")
    frame[:600].to_csv(folder / "private.csv", index=False)
    frame[600:800].to_csv(folder / "public.csv", index=False)
    frame[600:800].drop(columns=["ill"]).to_csv(folder / "bare.csv", index=False)
    return folder


@pytest.fixture
def command(monkeypatch, capsys, tables, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ostrakon", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        seen = capsys.readouterr()
        return int(stopped.value.code or 0), seen.out, seen.err

    return run


@pytest.fixture
def planned(command, tables):
    def plan(*arguments, public="public.csv"):
        target = ("--target", "ill") if public == "public.csv" else ()
        given = ("--public", tables / public, *target, "--records", 600, "--mechanism", "bounded-gnmax")
        return command("plan", *given, *arguments)

    return plan


@pytest.mark.slow
def test_epsilons_stand_in_a_row_and_the_json_is_that_of_the_library(planned, tmp_path):
    fast = ("--student", "logistic", "--repetitions", 2)
    code, out, _ = planned("--epsilons", 0.01, 1, 4, *fast, "--accuracy", 0.6, "--json", "--out", tmp_path / "shown")
    assert code == 0
    told = json.loads(out)
    assert [one["epsilon"] for one in told["offers"]] == [0.01, 1.0, 4.0]
    plan = make_plan(Options(mechanism="bounded-gnmax", epsilon=1.0), units=600, pool=200, classes=2)
    second = told["offers"][1]
    assert (second["queries"], second["noise"]["sigma2"]) == (plan.queries, plan.mechanism.parameters()["sigma2"])
    assert second["membership_guess"] == plan.membership_guess()
    assert "nearest reachable settings" in told["offers"][0]["refused"]
    assert [one["epsilon"] for one in told["forecasts"]] == [1.0, 4.0]
    assert told["least_epsilon"]["epsilon"] == 1.0
    for name in ("accuracy.png", "attacker.png"):
        assert (tmp_path / "shown" / name).read_bytes().startswith(b"\x89PNG")


def test_the_table_says_what_is_refused_in_full_and_what_it_rests_on(planned, tmp_path):
    code, out, _ = planned("--epsilons", "0.01,2", "--rehearse", "none")
    words = " ".join(out.split())
    assert code == 0
    assert "Refused, bounded-gnmax at epsilon 0.01: " in words
    assert "600 private records, 200 public rows, 2 classes, delta 1e-05" in words
    assert "No accuracy is forecast: none was asked for." in words
    assert (
        "noise: its standard deviation, in votes. votes / noise: the votes on one public row, divided by it." in words
    )
    assert "whether this record was used or another one in its place" in words
    assert re.search(
        r"Estimated accuracy, [a-z-]+ at epsilon 2: ±[0-9.]+ percentage points, for 5.0% of the cost\.", words
    )
    assert "teachers." not in words  # every record is one
    code, out, _ = planned("--epsilons", 2, "--rehearse", "none", "--mechanism", "gnmax", "--teachers", 30)
    assert (code, "gnmax trains 30 teachers." in " ".join(out.split())) == (0, True)
    assert "Estimated accuracy, gnmax at epsilon 2: none: the student's errors on private" in " ".join(out.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "asked",
    [
        ("--mechanism", "bounded-gnmax", "--max-contributions", 3),
        pytest.param(
            ("--mechanism", "confident-gnmax", "--teachers", 30, "--max-answers", 2, "--queries", 4, "--delta", 1e-4),
            marks=pytest.mark.slow,
        ),
        ("--mechanism", "gnmax", "--teachers", 40, "--queries", 3),
    ],
)
def test_users_are_priced_as_a_run_by_users_prices_them(command, tables, tmp_path, asked):
    # Three rows of each of 200 users; the pool knows whose its rows are, too, and learns nothing from it.
    for name, start in (("private", 0), ("public", 1000)):
        table = pd.read_csv(tables / f"{name}.csv")
        table["who"] = start + np.arange(len(table)) // 3
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    given = ("--public", tmp_path / "public.csv", "--target", "ill", "--by", "who", *asked)
    code, out, _ = command("plan", *given, "--records", 200, "--epsilons", 30, "--json")
    assert code == 0
    told = json.loads(out)
    (offer,) = told["offers"]
    options = {asked[at][2:].replace("-", "_"): asked[at + 1] for at in range(0, len(asked), 2)}
    task = task_from_files(
        tmp_path / "private.csv", tmp_path / "public.csv", target="ill", by="who", classes="from-private"
    )
    plan = plan_of(task, Options.of({**options, "epsilon": 30.0}))
    assert task.private.unit == told["unit"] == "user"
    assert (told["records"], offer["teachers"], offer["delta"]) == (200, plan.teachers, plan.delta)
    numbers = {name: value for name, value in plan.mechanism.parameters().items() if isinstance(value, int | float)}
    assert (offer["queries"], offer["noise"]) == (plan.queries, numbers)
    assert offer["worst_case"] == round_up(plan.bound.epsilon)
    assert told["basis"].startswith("No accuracy is forecast: runs that protect users are not simulated")
    assert "this user's rows were used" in told["membership_guess_is_about"]["per-record"]


def test_what_no_mechanism_takes_is_refused(planned):
    code, out, err = planned("--sigma1", 30)
    assert (code, out) == (2, "")
    assert "--sigma1 is not a parameter of bounded-gnmax." in " ".join(err.split())


def test_the_rehearsal_follows_the_table_and_says_how_far_it_is(planned):
    code, out, err = planned("--epsilons", 2, "--student", "logistic", "--repetitions", 2)
    assert code == 0
    assert err.splitlines() == [
        "Reading the public rows …",
        "Computing privacy costs …",
        "Computing features of the public rows …",
    ]
    order = [out.index(text) for text in ("attacker right", "Simulated 1 of 2", "Simulated 2 of 2", "95% interval")]
    assert order == sorted(order)
    words = " ".join(out.split())
    assert "2 simulations say little about how runs differ, so the intervals are wide; 5 say more." in words
    assert "For comparison: always the most frequent class" in words


def test_without_labels_classes_are_asked_for_and_worlds_are_simulated(planned):
    code, _, err = planned("--epsilons", 2, "--target", "il", public="bare.csv")
    assert (code, "leave --target out, and name all classes with --classes" in " ".join(err.split())) == (2, True)
    code, out, _ = planned(
        *("--classes", "no,yes", "--epsilons", 2, "--student", "logistic", "--repetitions", 2), public="bare.csv"
    )
    assert code == 0
    assert "each time with other labels" in " ".join(out.split())
    assert "points below boosting without noise" in " ".join(out.split())
    assert "95% interval of one run" not in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0.5,), "--epsilons must be given as --epsilons, got 0.5 on its own."),
        (("--epsilons", -1), "--epsilons must be"),
        (("--out", "/dev/null/x"), "--out must be a folder that can be written, got /dev/null/x."),
        (("--epsilons", 1, "2;4"), "--epsilons must be numbers above 0, as --epsilons 0.5 1 2, got '1 2;4'."),
        (("--epsilons", "0,5", 1), "--epsilons must be numbers above 0, as --epsilons 0.5 1 2, got '0,5 1'."),
        (("--epsilons", 1, "--accuracy", 83), "--accuracy must"),
        (("--epsilons", 1, "--rehearse", "some"), "--rehearse must be one of per-record, all, none, got 'some'."),
        (("--epsilons", 1, "--repetitions", 1), "--repetitions must"),
        (("--epsilons", 1, "--delta", 2), "--delta must"),
        (("--epsilons", 1, "--delta", "1,5"), "--delta must be a number, got '1,5'."),
        (("--epsilons", 1, "--teachers", "2.5"), "--teachers must be a whole number, got '2.5'."),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(planned, arguments, sentence):
    code, out, err = planned(*arguments)
    assert (code, out) == (2, "")
    assert sentence in " ".join(err.split())


def test_a_dry_run_prints_the_plan_of_the_run_and_writes_nothing(command, tables, tmp_path):
    given = ("--private", tables / "private.csv", "--public", tables / "public.csv", "--target", "ill")
    code, out, _ = command("train", *given, "--epsilon", 1, "--dry-run")
    words = " ".join(out.split())
    plan = make_plan(Options(epsilon=1.0), units=600, pool=200, classes=2)
    assert code == 0
    for part in (
        "moment-gnmax",
        "Teachers 600",
        f"Queries {plan.queries} (public rows to ask about)",
        "given by the operator",
        "age",
        "town",
    ):
        assert part in words
    assert f"Noise standard deviation of {plan.mechanism.parameters()['sigma2']:.4g} votes" in words
    half_width = 196 * plan.mechanism.error_noise / 600
    assert f"Estimated accuracy ±{half_width:.1f} percentage points, for 5.0% of the cost" in words
    assert "A dry run: nothing was trained, asked or written." in words
    assert list(tmp_path.iterdir()) == []
    code, _, err = command("train", *given, "--epsilon", 1, "--dry-run", "--engine", "spark:host:1")
    assert (code, "engine must be local" in " ".join(err.split())) == (2, True), err
    assert command("train", *given, "--epsilon", 1, "--dry-run", "--engine", "dask:host:1")[0] == 0
    code, _, err = command("train", *given, "--epsilon", 0.001, "--dry-run")
    assert (code, "nearest reachable settings" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--student", "nonsense"), "There is no estimator 'nonsense'"),
        (("--teachers", 30, "--teacher", "nonsense"), "nonsense"),
        (("--operator", "a\x07b"), "--operator must be"),
    ],
)
def test_a_dry_run_refuses_what_a_run_refuses(command, tables, wrong, told):
    given = ("--private", tables / "private.csv", "--public", tables / "public.csv", "--target", "ill")
    code, out, err = command("train", *given, "--epsilon", 1, "--dry-run", *wrong)
    assert (code, out) == (2, "")
    assert told in " ".join(err.split())


def test_a_dry_run_of_a_mechanism_without_guarantee_says_so(command, tables):
    given = ("--private", tables / "private.csv", "--public", tables / "public.csv", "--target", "ill")
    code, out, _ = command("train", *given, "--teachers", 30, "--mechanism", "immutable(gamma=0.05)", "--dry-run")
    words = " ".join(out.split())
    assert code == 0
    assert "none: immutable is run as published, and no release may rest on that number" in words
    assert "Attacker" not in words


@pytest.mark.parametrize(
    ("more", "titled"),
    [(("--range", "18,90"), "a quantity"), (("--classes", "a;b;c"), "3 labels")],
)
def test_other_targets_are_planned(command, tables, more, titled):
    given = ("--public", tables / "bare.csv", "--records", 5000, "--epsilons", 1)
    code, out, err = command("plan", *given, *more)
    assert code == 0, err
    assert titled in out
    assert f"No {'R2' if more[0] == '--range' else 'macro F1'} is forecast: no public row has a known target" in out
    assert ("one for each of the" in out) is (more[0] == "--classes")
    code, out, err = command("plan", *given, *more, "--accuracy", 0.8)
    assert (code, "--accuracy cannot be looked for: of this target" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize(("target", "more"), [("age", ("--range", "18,90")), ("ill,old", ())])
def test_other_targets_of_a_table_are_rehearsed(command, tables, tmp_path, target, more):
    table = pd.read_csv(tables / "public.csv")
    table["ill"] = (table["ill"] == table["ill"].iloc[0]).astype(int)
    table["old"] = (table["age"] > table["age"].median()).astype(int)
    table.to_csv(tmp_path / "public.csv", index=False)
    given = ("--public", tmp_path / "public.csv", "--target", target, "--records", 2000, "--epsilons", 2)
    code, out, err = command("plan", *given, *more, "--repetitions", 2)
    assert code == 0, err
    measures = ("R2", "mean absolute error") if target == "age" else ("macro F1", "micro F1", "AUC")
    assert all(measure in out for measure in (*measures, "(95% interval of one run", "a run was simulated 2 times"))


def test_a_mechanism_is_written_as_for_a_run_and_simulated(command, tables):
    given = ("--public", tables / "public.csv", "--target", "age", "--range", "18,90", "--records", 2000)
    written = ("--mechanism", "quantity-gnmax(histogram=0)", "--epsilons", 2)
    code, out, err = command("plan", *given, "--drop", "ill", *written, "--repetitions", 2, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["offers"][0]["noise"].get("histogram", 0) == 0
    assert {one["mechanism"] for one in found["forecasts"]} == {"quantity-gnmax(histogram=0)"}


def test_one_reason_is_said_once_for_all_epsilons(command, tables):
    given = ("--public", tables / "bare.csv", "--records", 5000, "--range", "18,90")
    code, out, _ = command("plan", *given, "--mechanism", "gnmax", "--epsilons", 0.5, 1, 2)
    assert code == 2
    words = " ".join(out.split())
    assert words.count("Refused, gnmax at epsilon") == 1
    assert "Refused, gnmax at epsilon 0.5, 1, 2: mechanism must be quantity-gnmax if the target is a quantity" in words


def test_refusals_of_trained_teachers_are_one_sentence_and_alone_they_are_an_error(planned):
    asked = ("--mechanism", "confident-gnmax", "--epsilons", 0.1, 0.5, "--rehearse", "none")
    code, out, _ = planned(*asked)
    words = " ".join(out.split())
    refused = (
        r"Refused, confident-gnmax at epsilon 0\.1, 0\.5: epsilon must be at least [\d.]+ for 40 queries of 5 teachers "
        "with noise of at most 5 votes"
    )
    assert (code, len(re.findall(refused + "; fewer queries or more teachers need less", words))) == (0, 1)
    assert "moment-gnmax" not in words
    code, out, _ = planned("--epsilons", 0.0001)
    assert (code, "No accuracy is forecast: every plan is refused." in out) == (2, True)


def test_a_range_is_not_for_labels_or_classes(command, tables):
    given = ("--public", tables / "bare.csv", "--records", 5000, "--range", "0,9")
    for more, told in (("age,ill", "range cannot be given for several labels"), ("age", "range cannot be given with")):
        code, _, err = command("plan", *given, "--target", more, *(("--classes", "a,b") if more == "age" else ()))
        assert (code, told in " ".join(err.split())) == (2, True)
