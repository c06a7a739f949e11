"""All at once: what is asked for is there, what cannot be is refused, and JSON holds finite numbers."""

import json
import math

import numpy as np
import pytest

import ostrakon
from ostrakon.forecast.outlook import Outlook, outlook
from ostrakon.forecast.public_rows import PublicRows
from ostrakon.options.options import Options
from ostrakon.report.forecast_picture import save_pictures
from ostrakon.report.forecast_table import accuracy_sentences
from ostrakon.validation import InvalidInput

rng = np.random.default_rng(0)
X = rng.normal(size=(160, 2))
Y = np.where(X[:, 0] > 0, "in", "out")
ASKED = {"records": 1000, "mechanisms": ["bounded-gnmax"], "student": "logistic", "repetitions": 2}


@pytest.mark.slow
def test_offers_forecasts_and_the_way_back_are_all_there():
    found = ostrakon.plan(X, Y, epsilons=[4.0, 0.001, 1.0], accuracy=0.7, **ASKED)
    assert isinstance(found, Outlook)
    assert [one.epsilon for one in found.offers] == [0.001, 1.0, 4.0]
    assert found.offers[0].refusal is not None
    assert found.rehearsal is not None
    assert [one.epsilon for one in found.rehearsal.forecasts] == [1.0, 4.0]
    assert found.least is not None
    assert found.least.epsilon == 1.0
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert (told["records"], told["pool"], told["classes"], told["simulated"]) == (1000, 160, 2, False)
    assert [one["epsilon"] for one in told["forecasts"]] == [1.0, 4.0]
    assert told["offers"][0]["refused"].startswith("queries must be few enough for their votes to exceed the noise")
    assert told["least_epsilon"]["epsilon"] == 1.0
    assert "come from simulations" in found.basis


@pytest.mark.slow
def test_what_needs_no_rehearsal_is_told_before_one():
    reports = []
    options = Options(student="logistic")

    def played(done, total):
        reports.append((done, total))

    asked = {"records": 1000, "epsilons": [1.0, 4.0], "mechanisms": ["bounded-gnmax"], "repetitions": 2}
    found = outlook(PublicRows.of(X, Y), options, **asked, progress=played, on_offers=reports.append)
    assert reports[1:] == [(done, 4) for done in (0, 1, 2, 4)]
    assert reports[0].basis == "No accuracy is forecast: simulations follow."
    assert reports[0].offers == found.offers
    assert found.rehearsal is not None
    reports.clear()
    with pytest.raises(InvalidInput, match="accuracy cannot be looked for"):
        outlook(PublicRows.of(X[:20], Y[:20]), options, **asked, accuracy=0.8, on_offers=reports.append)
    assert reports == []


def test_simulated_worlds_are_called_that():
    found = ostrakon.plan(X, classes=["in", "out"], epsilons=[2.0], **ASKED)
    content = found.as_dict()
    assert (content["simulated"], content["majority"], content["not_private"], content["forecasts"]) == (
        True,
        None,
        None,
        [],
    )
    assert "simulated 2 times, each time with other labels" in found.basis
    (lost,) = content["lost_in_simulated_worlds"]
    assert lost["least"] <= lost["mean"] <= lost["most"]
    assert (lost["epsilon"], lost["mechanism"]) == (2.0, found.offers[0].mechanism)
    # Of public rows without labels no accuracy is known, and so no epsilon for one.
    with pytest.raises(InvalidInput, match="accuracy cannot be looked for: the public rows have no labels"):
        ostrakon.plan(X, classes=["in", "out"], epsilons=[2.0], accuracy=0.8, **ASKED)
    assert ostrakon.plan(X, Y, epsilons=[2.0], **ASKED).as_dict()["lost_in_simulated_worlds"] == []


def test_what_is_not_rehearsed_is_said():
    none = ostrakon.plan(X, Y, epsilons=[1.0], rehearse="none", **ASKED)
    assert (none.rehearsal, none.basis) == (None, "No accuracy is forecast: none was asked for.")
    few = ostrakon.plan(X[:20], Y[:20], epsilons=[1.0], **ASKED)
    assert "20 public rows are too few" in few.basis
    refused = ostrakon.plan(X, Y, epsilons=[1e-4], **ASKED)
    assert refused.basis == "No accuracy is forecast: every plan is refused."


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"epsilons": []}, "epsilons must hold at least one"),
        ({"epsilons": [math.nan]}, "epsilons"),
        ({"epsilons": [-1.0]}, "epsilons"),
        ({"epsilons": [True]}, "epsilons"),
        ({"records": 0}, "records"),
        ({"records": 1.5}, "records"),
        ({"rehearse": "some"}, "rehearse must be one of per-record, all, none, got 'some'"),
        ({"rehearse": "none", "accuracy": 0.8}, "accuracy"),
        ({"accuracy": 80.0}, "accuracy"),
        ({"epsilons": [1e-4], "accuracy": 0.8}, "accuracy cannot be looked for: every plan is refused"),
        ({"repetitions": 1}, "repetitions"),
        ({"guarantee": "perhaps"}, "guarantee"),
    ],
)
def test_bad_input_is_one_sentence(given, told):
    with pytest.raises(InvalidInput) as refused:
        ostrakon.plan(X, Y, **{**ASKED, "epsilons": [1.0], **given})
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"epsilons": 2.0}, "epsilons must be a list of positive numbers, got 2.0"),
        ({"mechanisms": []}, "mechanisms must name at least one"),
        ({"mechanisms": "gnmaxx"}, "gnmaxx"),
        ({"student": "nonsense", "rehearse": "none"}, "There is no estimator 'nonsense'"),
    ],
)
def test_what_cannot_be_planned_is_refused_at_once(given, told):
    with pytest.raises(InvalidInput, match=told):
        ostrakon.plan(X, Y, **{**ASKED, **given})


@pytest.mark.slow
@pytest.mark.parametrize(("target", "measures"), [("range", ["R2"]), ("labels", ["macro F1", "micro F1"])])
def test_other_targets_are_rehearsed_where_public_rows_have_them(target, measures, tmp_path):
    given = {"range": (0, 80)} if target == "range" else {"labels": ["a", "b", "c"]}
    found = ostrakon.plan(X, records=20_000, epsilons=[0.5, 2.0], **given)
    assert found.rehearsal is None
    assert found.basis == (f"No {measures[0]} is forecast: no public row has a known target to simulate runs with.")
    assert [offer.refusal for offer in found.offers] == [None] * len(found.offers)
    assert found.as_dict()["forecasts"] == []
    assert found.as_dict()["target"] == ("quantity" if target == "range" else "labels")
    y = 40 + 10 * X[:, 0] if target == "range" else np.abs(X[:, [0, 1, 0]]) > 0.5
    with pytest.raises(InvalidInput, match=f"accuracy cannot be looked for: of this target {measures[0]}"):
        ostrakon.plan(X, y, records=20_000, accuracy=0.8, **given)
    played = ostrakon.plan(X, y, records=20_000, epsilons=[2.0], repetitions=2, **given)
    content = json.loads(json.dumps(played.as_dict(), allow_nan=False))
    last = "mean absolute error" if target == "range" else "AUC"
    assert [one[name] for one, name in zip(content["forecasts"], [*measures, last], strict=True)]
    assert list(content["not_private"]) == list(content["majority"]) == [*measures, last]
    assert played.basis.startswith(f"{measures[0][:1].upper()}{measures[0][1:]}")
    assert "a run was simulated 2 times, each time with other labelled public rows" in played.basis
    assert f"{measures[0]} " in played._repr_html_()
    assert "2 simulations say little about how runs differ" in played._repr_html_()
    sentences = " ".join(accuracy_sentences(played))
    assert f"a random forest{' (with' if target == 'labels' else ' on'}" in sentences
    assert f"{last} " in sentences
    (picture, _) = save_pictures(played, tmp_path)
    assert picture.name == f"{measures[0].replace(' ', '_')}.png"
    with pytest.raises(InvalidInput, match="classes cannot be given with a range or with several labels"):
        ostrakon.plan(X, records=20_000, classes=["a", "b"], **given)
