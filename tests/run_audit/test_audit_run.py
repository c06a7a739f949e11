"""A whole run with canaries: sound at its own noise, found out at a tenth of it."""

import dataclasses
from importlib import import_module
from unittest import mock

import numpy as np
import pytest
from randomgen import AESCounter

from ostrakon.audit.one_run import audit_one_run
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.mechanisms.moment_gnmax import MomentGNMax
from ostrakon.mechanisms.summed_gnmax import SharedGNMax, SummedGNMax
from ostrakon.noise import SecureGenerator
from ostrakon.options.options import Options
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.pipeline import run
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.queries import queries_of
from ostrakon.run.stages.votes import collect
from ostrakon.run.steps import plan_of
from ostrakon.run_audit.audit_run import audit_run
from ostrakon.run_audit.canaries import WithCanaries, plant
from ostrakon.run_audit.repeated import SUMS, repeat
from ostrakon.teachers import per_record
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput
from ostrakon.votes import BoundedVotes

TEACHERS = Options(mechanism="gnmax", parameters={"sigma2": 40.0}, queries=10)
RECIPE = Options(mechanism="bounded-gnmax", epsilon=2.0, queries=100, delta=1e-5, jobs=1, student="logistic")


@pytest.fixture(scope="module")
def task() -> Task:
    """1,000 private points on a square in four classes, 120 public."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1120, 2))
    y = (X[:, 0] > 0) * 2 + (X[:, 1] > 0).astype(np.int64)
    return Task(
        private=Rows(X=X[:1000], y=y[:1000]),
        classes=("a", "b", "c", "d"),
        X_public=X[1000:],
        fingerprints={"private": "p", "public": "q"},
    )


def rng(seed: int = 20261122) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.slow
def test_a_sound_run_is_not_refuted(task, tmp_path):
    found = audit_run(tmp_path / "run", task, RECIPE, rng=rng())
    assert not found.refuted
    assert found.claimed == pytest.approx(2.0, abs=0.01)
    assert found.canaries == 200
    assert (tmp_path / "run" / "release" / "noisy_counts.csv").exists()


@pytest.mark.slow
def test_a_tenth_of_the_noise_is_certified_above_the_claim(task, tmp_path, monkeypatch):
    honest = BoundedGNMax.noisy_counts

    def quiet(self, votes, rng):
        return votes.counts + (honest(self, votes, rng) - votes.counts) / 10

    monkeypatch.setattr(BoundedGNMax, "noisy_counts", quiet)
    found = audit_run(tmp_path / "run", task, RECIPE, rng=rng())
    assert found.claimed == pytest.approx(2.0, abs=0.01)
    assert found.lower_bound > 2 * found.claimed
    assert found.refuted


def test_each_canary_speaks_once_and_where_it_was_planted(task):
    view = view_of(task.X_public, seed=0)
    queries = queries_of(view, 100, strategy="representatives", seed=0)
    canaries = plant(view, queries, classes=4, rng=rng())
    private = WithCanaries(base=task.private, X=task.X_public[queries[canaries.cells]], y=canaries.labels)
    settings = {"seed": 0, "transform": view.transform, "folder": None}
    asked = {"classes": 4, "units": private.units}
    with_them = collect_per_record(private.by_unit(**settings), view.public[queries], **asked)
    without = collect_per_record(task.private.by_unit(**settings), view.public[queries], **asked)
    expected = np.zeros((100, 4), np.int64)
    np.add.at(expected, (canaries.cells, canaries.labels), 1)
    np.testing.assert_array_equal(with_them.counts - without.counts, expected)
    assert expected.max() == 1
    assert private.units == 1200
    # Without noise every coin is read off.
    scores = canaries.scores(with_them.counts.astype(float), without.counts)
    np.testing.assert_array_equal(scores < 0, canaries.coins == 1)
    assert 60 < canaries.coins.sum() < 140


def test_equal_queries_get_no_canaries_twice(task):
    view = view_of(np.repeat(task.X_public[:10], 2, axis=0), seed=0)
    canaries = plant(view, np.arange(20), classes=4, rng=rng())
    assert sorted(set(canaries.cells.tolist())) == list(range(0, 20, 2))


def test_trained_teachers_and_old_folders_are_refused(task, tmp_path):
    with pytest.raises(InvalidInput, match="every record is a teacher"):
        audit_run(tmp_path / "run", task, TEACHERS, rng=rng())
    (tmp_path / "old").mkdir()
    with pytest.raises(InvalidInput, match="new folder"):
        audit_run(tmp_path / "old", task, RECIPE, rng=rng())


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(
    "mechanism", [SummedGNMax(sigma2=40.0, max_contributions=10), SharedGNMax(sigma2=40.0, owners=3)]
)
def test_a_study_is_refused_in_words(task, tmp_path, mechanism, trained):
    plan = plan_of(task, RECIPE)
    plan = dataclasses.replace(plan, mechanism=mechanism, trained_by_owners=trained)
    with pytest.raises(InvalidInput, match=r"where one operator has all the rows .* the rows of a study stay with its"):
        audit_run(tmp_path / "run", task, RECIPE, rng=rng(), plan=plan)
    assert not (tmp_path / "run").exists()


MOMENTS = dataclasses.replace(RECIPE, mechanism="moment-gnmax")


@pytest.mark.slow
def test_a_sound_run_with_sums_of_features_is_not_refuted(task, tmp_path):
    found = audit_run(tmp_path / "run", task, MOMENTS, rng=rng())
    assert not found.refuted
    assert found.contradiction is None
    assert (tmp_path / "run" / "release" / "noisy_moments.csv").exists()
    assert found.certified.keys() == {"noisy counts", "noisy sums of features", "noisy counts of errors"}
    assert found.lower_bound == max(found.certified.values())
    # One canary in each of 2,000 repetitions says what one record adds to the sums, which half of the cost pays for.
    assert 0.02 < found.certified["noisy sums of features"] < found.claimed


def test_canaries_in_the_sums_certify_more_than_is_claimed_where_noise_is_missing(task):
    plan = plan_of(task, MOMENTS)
    view = view_of(task.X_public, seed=0)
    queries = queries_of(view, 100, strategy="representatives", seed=0)
    without, _ = collect(plan, task.private, view, queries, MOMENTS)
    plan = dataclasses.replace(plan, teachers=plan.teachers + 2)
    honest, mu = MomentGNMax.noisy_moments, plan.mechanism.run_cost(queries=100).mu
    claim = {"mechanism": "m", "claimed": plan.bound.epsilon, "delta": 1e-5, "mu": mu}
    certified = []
    for share in (1.0, 0.5, 0.1):

        def quiet(self, moments, rng, share=share):
            exact = moments.counts / 1024
            return exact + np.rint(share * (honest(self, moments, rng) - exact) * 1024) / 1024

        with mock.patch.object(MomentGNMax, "noisy_moments", quiet):
            found = repeat(plan, without, view, queries, rng=rng(), errors={})
        assert (found.breaks(plan, [], error=1e-4) is not None) == (share < 1)
        certified.append(audit_one_run(found.scores[SUMS], found.coins, **claim).mu)
    # Sums are half of the cost, and their share of it is certified but for what 2,000 guesses leave open.
    assert 0.2 * mu < certified[0] < mu / 2**0.5
    assert certified[0] < certified[1] < certified[2]
    assert certified[2] > 2 * mu


# Of 400 counts .3 of the noise is far below what could be chance; of 12 sums that takes a tenth.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "share"), [("noisy_counts", 0.0), ("noisy_counts", 0.3), ("noisy_moments", 0.0), ("noisy_moments", 0.1)]
)
def test_a_run_whose_tables_lack_noise_is_refuted(task, tmp_path, monkeypatch, table, share):
    honest = getattr(MomentGNMax, table)

    def quiet(self, votes, rng):
        exact = votes.counts / (1 if table == "noisy_counts" else 1024)
        return exact + np.rint(share * (honest(self, votes, rng) - exact) * 1024) / 1024

    monkeypatch.setattr(MomentGNMax, table, quiet)
    found = audit_run(tmp_path / "run", task, MOMENTS, rng=rng())
    assert found.refuted
    assert "standard deviation" in found.contradiction


@pytest.mark.slow
def test_exact_votes_written_into_the_release_are_refuted(task, tmp_path, monkeypatch):
    def exact(outcome, counts):
        rows = [f"{row}," + ",".join(map(str, counts)) for row, counts in zip(outcome.queries, own, strict=True)]
        return "\n".join(["row,a,b,c,d", *rows]) + "\n"

    own = np.full((100, 4), 2)
    monkeypatch.setattr("ostrakon.report.release.counts_csv", exact)
    found = audit_run(tmp_path / "run", task, RECIPE, rng=rng())
    assert found.refuted
    assert "not those of the noise log" in found.contradiction


@pytest.mark.slow
def test_a_file_that_nothing_implies_is_refuted(task, tmp_path, monkeypatch):
    import ostrakon.report.release as release

    write = release.write_manifest

    def also(folder):
        (folder / "votes.npy").write_bytes(b"")
        write(folder)

    monkeypatch.setattr(release, "write_manifest", also)
    found = audit_run(tmp_path / "run", task, RECIPE, rng=rng())
    assert found.refuted
    assert "votes.npy" in found.contradiction


@pytest.mark.slow
def test_records_that_vote_twice_are_refuted(task, tmp_path, monkeypatch):
    import ostrakon.run.steps as steps

    collect = steps.collect

    def twice(*given, **options):
        votes, teachers = collect(*given, **options)
        # Two records cast the votes of two others as well.
        counts = votes.counts.copy()
        gone = np.argwhere(counts > 0)[-2:]
        counts[tuple(gone.T)] -= 1
        counts[0, 0] += 2
        return BoundedVotes(counts, teachers=votes.teachers, max_contributions=votes.max_contributions), teachers

    monkeypatch.setattr(steps, "collect", twice)
    found = audit_run(tmp_path / "run", task, RECIPE, rng=rng())
    assert found.refuted
    assert "not those of its records" in found.contradiction


@pytest.mark.slow
def test_a_number_of_the_private_data_in_a_file_is_refuted(task, tmp_path, monkeypatch):
    """The field is not noise, and no test of the noise sees it."""
    import ostrakon.report.release as release
    import ostrakon.run.steps as steps

    collect, entry, seen = steps.collect, release.registry_entry, []

    def remembered(*given, **options):
        votes, teachers = collect(*given, **options)
        seen.append(int(votes.counts[:, 0].sum()))
        return votes, teachers

    monkeypatch.setattr(steps, "collect", remembered)
    monkeypatch.setattr(release, "registry_entry", lambda *given, **more: entry(*given, **more) | {"of_a": seen[-1]})
    found = audit_run(tmp_path / "run", task, RECIPE, rng=rng())
    assert found.refuted
    assert found.contradiction.startswith("registry.json (of_a) of the release is not what the noise log implies")


def the_same_noise():
    """A source of noise whose key is no secret: every run draws what the others drew."""
    source = SecureGenerator.__new__(SecureGenerator)
    np.random.Generator.__init__(source, AESCounter(key=7))
    return source


@pytest.mark.slow
def test_noise_of_the_audited_run_that_is_used_again_is_refuted(task, tmp_path, monkeypatch):
    monkeypatch.setattr("ostrakon.run.steps.secure_rng", the_same_noise)
    run(tmp_path / "first", task, MOMENTS)
    found = audit_run(tmp_path / "run", task, MOMENTS, rng=rng(), original=tmp_path / "first")
    assert found.refuted
    assert "noisy counts of several aggregations: noise is used again at a lag of 400 numbers" in found.contradiction


@pytest.mark.slow
def test_noise_that_is_the_same_in_every_aggregation_is_refuted(task, tmp_path, monkeypatch):
    honest = BoundedGNMax.noisy_counts
    monkeypatch.setattr(BoundedGNMax, "noisy_counts", lambda self, votes, rng: honest(self, votes, the_same_noise()))
    found = audit_run(tmp_path / "run", task, RECIPE, rng=rng())
    assert found.refuted
    assert "noisy counts of several aggregations" in found.contradiction


@pytest.mark.slow
@pytest.mark.parametrize(("most", "of_canaries"), [(1, False), (2, False), (2, True)])
def test_records_that_vote_twice_beside_little_noise_do_not_pass(task, tmp_path, monkeypatch, most, of_canaries):
    """One in a hundred does, everywhere in the code; most: votes that each may cast."""
    said, honest = per_record.contributions, BoundedGNMax.noisy_counts

    def twice(owners, place, labels, **options):
        at, what = said(owners, place, labels, **options)
        again = slice(0, len(at) // 100 if of_canaries or len(at) == 1000 else 0)
        return np.append(at, at[again]), np.append(what, what[again])

    def quiet(self, votes, rng):
        return votes.counts + np.rint(0.3 * (honest(self, votes, rng) - votes.counts) * 1024) / 1024

    monkeypatch.setattr(per_record, "contributions", twice)
    monkeypatch.setattr(BoundedGNMax, "noisy_counts", quiet)
    recipe = dataclasses.replace(RECIPE, parameters={"max_contributions": most})
    if most == 1:
        with pytest.raises(InvalidInput, match="counts must sum to at most"):
            audit_run(tmp_path / "run", task, recipe, rng=rng())
        return
    found = audit_run(tmp_path / "run", task, recipe, rng=rng())
    assert found.refuted
    reason = "not those of its records" if of_canaries else "1200 records cast 1210 votes, where they may cast 1200"
    assert reason in found.contradiction


@pytest.mark.slow
def test_only_a_student_may_differ_each_time_it_is_built(task, tmp_path, monkeypatch):
    import ostrakon.report.release as release

    write, built, notes = release.write_manifest, iter(range(99)), []

    def changed(folder, name):
        path = folder / name
        path.write_bytes(path.read_bytes() + b"%d" % next(built))
        write(folder)

    for name, refuted in [("student.onnx", False), ("registry.json", True), ("report.html", True)]:
        monkeypatch.setattr(release, "write_manifest", lambda folder, name=name: changed(folder, name))
        found = audit_run(tmp_path / name, task, RECIPE, rng=rng(), say=notes.append)
        assert found.refuted == refuted
        assert refuted == (found.contradiction is not None and found.contradiction.startswith(name))
    assert "Not compared, because they differ each time they are built: student.onnx" in notes


@pytest.mark.slow
def test_a_checksum_of_private_data_in_the_release_is_refuted(task, tmp_path, monkeypatch):
    import ostrakon.report.release as release

    entry, seen = release.registry_entry, []

    def remembering(steps):
        def remembered(task, *given, **options):
            seen.append(task.fingerprints["private"])
            return steps(task, *given, **options)

        return remembered

    for module in ("ostrakon.run.pipeline", "ostrakon.run_audit.rebuilt"):
        steps = import_module(module)
        monkeypatch.setattr(steps, "run_steps", remembering(steps.run_steps))
    monkeypatch.setattr(release, "registry_entry", lambda *given, **more: entry(*given, **more) | {"sha": seen[-1]})
    found = audit_run(tmp_path / "run", task, RECIPE, rng=rng())
    assert found.refuted
    assert found.contradiction.startswith("registry.json (sha) of the release is not what the noise log implies")


def test_one_cell_without_noise_and_noise_shared_by_tables_are_refuted(task):
    plan = plan_of(task, MOMENTS)
    view = view_of(task.X_public, seed=0)
    queries = queries_of(view, 100, strategy="representatives", seed=0)
    without, _ = collect(plan, task.private, view, queries, MOMENTS)
    plan = dataclasses.replace(plan, teachers=plan.teachers + 2)
    counts, last = MomentGNMax.noisy_counts, []

    def one_cell(self, votes, rng):
        noisy = counts(self, votes, rng)
        noisy[17, 1] = votes.counts[17, 1]
        return noisy

    def remembered(self, votes, rng):
        noisy = counts(self, votes, rng)
        last.append(noisy - votes.counts)
        return noisy

    def shared(self, moments, rng):
        shape = moments.counts.shape
        noise = last.pop().ravel()[: np.prod(shape)].reshape(shape) * (self.moment_noise / self.sigma2)
        return (moments.counts + np.rint(noise * 1024)) / 1024

    with mock.patch.object(MomentGNMax, "noisy_counts", one_cell):
        found = repeat(plan, without, view, queries, rng=rng(), errors={}).breaks(plan, [], error=1e-4)
    assert "cell 69 has noise of standard deviation 0 where" in found
    with (
        mock.patch.object(MomentGNMax, "noisy_counts", remembered),
        mock.patch.object(MomentGNMax, "noisy_moments", shared),
    ):
        found = repeat(plan, without, view, queries, rng=rng(), errors={}).breaks(plan, [], error=1e-4)
    assert "all tables of several aggregations: noise is used again" in found
