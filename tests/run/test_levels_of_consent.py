"""Levels of consent: the epsilon of each level, what its records add, and whole runs from files to the release."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import ostrakon
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.consent import Level, levels_within
from ostrakon.data.consent import Consent
from ostrakon.features.moments import CONSTANT, MomentMap, scaled_steps
from ostrakon.ledger.ledger import Ledger
from ostrakon.mechanisms import MomentGNMax
from ostrakon.mechanisms.base import RunCost
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import plan_from
from ostrakon.report.table import run_table
from ostrakon.run.inputs.files import task_from_files
from ostrakon.statements.statement import epsilon_in_words
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

ALLOWED = {"1": 0.5, "2": 1.0, "3": 2.0}
RNG = np.random.default_rng(5)
U = RNG.normal(size=(60, 3))
X = RNG.normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(np.int64)
LEVELS = RNG.integers(0, 3, 400)
WEIGHTS = (291, 550, 1024)
SUMS = MomentMap.of(U)


def votes_of(rows, labels, levels, owners=None, *, units=400, weights=WEIGHTS, most=1):
    owners = np.arange(len(rows)) if owners is None else owners
    block = (owners, rows, np.column_stack([labels, levels]))
    return collect_per_record(
        [block], U[:8], classes=2, units=units, max_contributions=most, moments=SUMS, weights=weights
    )


def plan():
    consent = Consent(epsilons=ALLOWED)
    return make_plan(Options(delta=1e-5), units=400, pool=60, classes=2, consent=consent)


def test_a_vote_and_its_features_are_scaled_by_the_weight_of_the_level():
    for level, weight in enumerate(WEIGHTS):
        votes = votes_of(X[:1], Y[:1], [level])
        assert votes.counts.sum() == weight
        assert votes.moments is not None
        added = votes.moments.counts[:, Y[0]]
        assert added[0] == CONSTANT * weight // STEPS
        assert added @ added <= weight**2
        assert np.array_equal(added, scaled_steps(SUMS.steps(X[:1]), weight)[0])


def test_full_weight_says_what_records_without_levels_say():
    plain = collect_per_record([(np.arange(400), X, Y)], U[:8], classes=2, units=400, moments=SUMS)
    weighted = votes_of(X, Y, np.zeros(400, int), weights=(STEPS,))
    assert np.array_equal(weighted.counts, plain.counts * STEPS)
    assert weighted.moments == plain.moments


def test_one_record_moves_what_it_says_alone_to_the_last_bit():
    whole = votes_of(X, Y, LEVELS)
    for row in (0, 7, 399):
        without = votes_of(*(np.delete(part, row, axis=0) for part in (X, Y, LEVELS)))
        own = votes_of(X[row : row + 1], Y[row : row + 1], LEVELS[row : row + 1])
        assert np.array_equal(whole.counts - without.counts, own.counts)
        assert np.array_equal(whole.moments.counts - without.moments.counts, own.moments.counts)
    moved = LEVELS.copy()
    moved[3] = (moved[3] + 1) % 3
    assert not np.array_equal(votes_of(X, Y, moved).counts, whole.counts)


def test_a_user_with_several_levels_has_the_smallest_weight():
    owners, rows, labels = np.array([4, 4, 9]), X[:3], np.array([1, 1, 0])
    votes = votes_of(rows, labels, [2, 0, 1], owners)
    assert votes.counts.sum(axis=0).tolist() == [WEIGHTS[1], WEIGHTS[0]]
    assert votes.moments.counts[0].tolist() == [CONSTANT * weight // STEPS for weight in (WEIGHTS[1], WEIGHTS[0])]


def test_the_price_of_a_level_is_attained_and_never_passed():
    """The worst pair at each level, its level kept or not, is within 2% of the price, and below it."""
    settled = plan()
    weights = [level.weight for level in settled.levels]
    assert weights[2] == STEPS
    far = np.array([100.0, 0.0, 0.0])
    for number, claim in enumerate(settled.level_claims()):
        for other, stated in ((number, claim.epsilon), (2, claim.if_secret)):
            one = votes_of(far[None], [0], [number], weights=weights)
            two = votes_of(-far[None], [1], [other], weights=weights)
            counts = (one.counts - two.counts) / STEPS / settled.mechanism.vote_noise
            sums = (one.moments.counts - two.moments.counts) / STEPS / settled.mechanism.moment_noise
            attained = gaussian_dp_epsilon(math.hypot(np.linalg.norm(counts), np.linalg.norm(sums)), 1e-5)
            assert 0.98 * stated < attained <= stated
        assert 0.99 * ALLOWED[claim.level] < claim.epsilon <= ALLOWED[claim.level]
    assert settled.guarantee.epsilon <= 2


def test_removed_records_keep_their_epsilon_where_the_level_is_secret():
    consent = Consent(epsilons=ALLOWED)
    settled = make_plan(Options(delta=1e-5, neighbours="removed"), units=400, pool=60, classes=2, consent=consent)
    assert all(claim.if_secret == claim.epsilon <= ALLOWED[claim.level] for claim in settled.level_claims())


def test_a_weight_one_step_larger_would_pass_the_epsilon():
    cost = RunCost(mu=MomentGNMax(sigma2=4).run_cost(queries=10).mu)
    for level in levels_within({"a": 0.3, "b": 0.8}, cost, delta=1e-6):
        more = Level(name="", weight=level.weight + 1)
        allowed = {"a": 0.3, "b": 0.8}[level.name]
        assert gaussian_dp_epsilon(level.cost(cost).mu, 1e-6) <= allowed
        assert gaussian_dp_epsilon(more.cost(cost).mu, 1e-6) > allowed


def test_a_plan_is_restored_with_its_levels():
    settled = plan()
    assert plan_from(settled.as_dict(), classes=2) == settled


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("1=0.5,2=1", "must be COLUMN:LEVEL=EPSILON"),
        ("tier:1=0.5,2", "must be COLUMN:LEVEL=EPSILON"),
        ("tier:1=x", "got 'x' as the epsilon of '1'"),
        ("tier:1=0", "consent of level '1' must be"),
        ("tier:1=nan", "got 'nan' as the epsilon of '1'"),
        ("tier:1=1_0", "got '1_0' as the epsilon of '1'"),
        ("tier:1=\uff11", "as the epsilon of '1'"),
        ("tier:1=1,1=2", "every level once"),
        ("tier:=1", "none empty"),
    ],
)
def test_bad_levels_are_refused(given, said):
    with pytest.raises(InvalidInput, match=said):
        Consent.of(given)


def test_missing_and_rare_levels_are_counted_in_rows():
    consent = Consent(epsilons=ALLOWED)
    known = next(iter(ALLOWED))
    with pytest.raises(InvalidInput, match="level of consent is missing in 30 of 80 rows"):
        consent.require_levels({known: 50, None: 30})
    with pytest.raises(InvalidInput, match="level of consent is missing in 2 of 4 rows"):
        consent.numbers(pd.Series([1, None] * 2, dtype="Int64"))
    with pytest.raises(InvalidInput, match="In 1 of 51 rows, the level of consent is not among the levels"):
        consent.require_levels({known: 50, "9": 1})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": 1.0}, "epsilon cannot be given with consent"),
        ({"mechanism": "confident-gnmax"}, "consent is for moment-gnmax and bounded-gnmax"),
        ({"teachers": 20}, "consent is for moment-gnmax and bounded-gnmax"),
    ],
)
def test_a_plan_refuses_what_has_no_weights(options, said):
    with pytest.raises(InvalidInput, match=said):
        make_plan(Options(**options), units=4000, pool=500, classes=2, consent=Consent(epsilons=ALLOWED))


def test_levels_too_far_apart_are_refused():
    with pytest.raises(InvalidInput, match="1/1024"):
        levels_within({"a": 1e-9, "b": 2.0}, RunCost(mu=0.5), delta=1e-5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("consent"), np.random.default_rng(3)
    for name, rows in (("private", 900), ("public", 200)):
        table = pd.DataFrame({"a": rng.normal(size=rows).round(4), "b": rng.normal(size=rows).round(4)})
        if name == "private":
            table["tier"] = rng.choice([1, 2, 3], size=rows)
            table["ill"] = np.where(table["a"] > 0, "yes", "no")
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


def trained(files, out, **more):
    return ostrakon.train(
        private=files / "private.csv",
        public=files / "public.csv",
        target="ill",
        out=out,
        **{"classes": "no,yes", "consent": "tier:1=0.5,2=1,3=2", **more},
    )


@pytest.mark.slow
def test_a_run_on_files_with_a_ledger_its_release_and_its_refit(files, tmp_path):
    url = f"sqlite:///{tmp_path}/budget.db"
    done = trained(files, tmp_path / "run", ledger=url, budget=2.5)
    statement = json.loads((done.release / "statement.json").read_text())
    levels = statement["consent"]["levels"]
    assert statement["consent"]["column"] == "tier"
    assert [one["level"] for one in levels] == ["1", "2", "3"]
    assert all(0.99 * allowed < one["epsilon"] <= allowed for one, allowed in zip(levels, (0.5, 1, 2), strict=True))
    assert levels[2]["epsilon"] == statement["guarantee"]["epsilon"]
    card = (done.release / "model_card.md").read_text()
    assert card.count(f"epsilon {epsilon_in_words(levels[0]['epsilon'])}") >= 2
    assert "tier" not in json.loads((done.release / "student.json").read_text())["input"]["columns"]
    accounts = Ledger(url).accounts()
    assert {name: account.cap.epsilon for name, account in accounts.items()} == {
        "data-1": 2.5,
        "data-1, level 1": 0.625,
        "data-1, level 2": 1.25,
    }
    for name, one in (("data-1", levels[2]), ("data-1, level 1", levels[0]), ("data-1, level 2", levels[1])):
        assert accounts[name].spent == pytest.approx(one["epsilon"], abs=2e-3)
    table = run_table(done.outcome, release=done.release)
    said = dict(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert [said[f"  Level {one['level']}"] for one in levels] == [
        f"epsilon {epsilon_in_words(one['epsilon'])}, delta {one['delta']!r}" for one in levels
    ]
    again = trained(files, tmp_path / "run", ledger=url, budget=2.5)
    assert (again.release / "manifest.json").read_bytes() == (done.release / "manifest.json").read_bytes()
    assert {name: account.spent for name, account in Ledger(url).accounts().items()} == {
        name: account.spent for name, account in accounts.items()
    }
    with pytest.raises(InvalidInput, match="would pass the cap"):
        trained(files, tmp_path / "more", ledger=url, budget=2.5)
    with pytest.raises(InvalidInput, match="consent must be given: account 'data-1'"):
        trained(files, tmp_path / "plain", ledger=url, budget=2.5, consent=None, drop="tier", epsilon=0.1)
    ostrakon.refit(done.release, public=files / "public.csv", out=tmp_path / "refitted")
    for name in ("student.onnx", "labels.csv", "noisy_counts.csv"):
        assert (tmp_path / "refitted" / name).read_bytes() == (done.release / name).read_bytes()
    restated = json.loads((tmp_path / "refitted" / "statement.json").read_text())
    assert restated["consent"] == statement["consent"]


def test_the_column_and_its_levels_are_shown_before_anything_is_spent(files):
    named = {"target": "ill", "classes": ["no", "yes"], "consent": Consent.of("tier:1=0.5,2=1,3=2")}
    facts = task_from_files(files / "private.csv", files / "public.csv", **named).understood.facts
    assert facts["Levels of consent"] == "tier: 1 (epsilon 0.5), 2 (epsilon 1), 3 (epsilon 2)"


@pytest.mark.slow
def test_levels_come_too_late_for_an_account_with_runs(files, tmp_path):
    url = f"sqlite:///{tmp_path}/budget.db"
    trained(files, tmp_path / "plain", ledger=url, budget=3, consent=None, drop="tier", epsilon=0.5)
    with pytest.raises(InvalidInput, match="has runs without it"):
        trained(files, tmp_path / "late", ledger=url, budget=3)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"consent": "tier:1=0.5,2=1"}, r"\('3' in \d+ of them\), the level of consent is not among the levels 1, 2"),
        ({"consent": "ill:no=0.5,yes=1"}, "in a column of its own"),
        ({"consent": "none:1=0.5,2=1"}, "column of consent 'none' is not in"),
        ({"range": "0,1", "classes": None}, "consent cannot be given with range"),
    ],
)
def test_files_without_the_levels_are_refused(files, tmp_path, more, said):
    with pytest.raises(InvalidInput, match=said):
        trained(files, tmp_path / "run", **more)


def test_labels_alone_have_no_levels(files, tmp_path):
    only = {"target": "ill", "classes": "no,yes", "protect": "labels", "out": tmp_path / "run"}
    with pytest.raises(InvalidInput, match="consent cannot be given if only labels"):
        ostrakon.train(private=files / "private.csv", consent="tier:1=1", **only)


def test_in_memory_levels_are_given_twice():
    model = ostrakon.PATEClassifier(consent=ALLOWED, classes=[0, 1], random_state=0, noise=np.random.default_rng(0))
    fitted = model.fit(X, Y, U, consent=LEVELS + 1)
    assert fitted.finished_.plan.levels == plan().levels
    assert np.mean(fitted.predict(X) == Y) > 0.7
    assert "scaled by the weight of its level" in " ".join(fitted.statement_.remarks)
    for wrong, options in ((None, {}), (LEVELS[:5] + 1, {}), (LEVELS + 2, {}), (LEVELS + 1, {"consent": None})):
        with pytest.raises(InvalidInput, match="consent"):
            ostrakon.PATEClassifier(**{"consent": ALLOWED, "classes": [0, 1], **options}).fit(X, Y, U, consent=wrong)
