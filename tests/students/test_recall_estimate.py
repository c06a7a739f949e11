"""Ranges of recall by class: they hold together in worlds made to break them, and not by saying nothing."""

import numpy as np
import pytest

from ostrakon.accounting.estimates import Recall
from ostrakon.students.agreement_estimate import HeldOut
from ostrakon.students.recall_estimate import ClassSizes, _quantiles, recalls
from ostrakon.validation import InvalidInput

SIGMA, SIGMA_OF_SIZES = 1.0, 2.0


def joint(said, label, pairing):
    """The laws of (what is said, label), (cells, 2, 2), in cells of two classes with the given margins, (cells, 2)."""
    if pairing == "blind":
        return said[:, :, None] * label[:, None, :]
    right = np.minimum(said, label) if pairing == "best" else np.maximum(said + label - 1, 0)
    return np.stack([right[:, 0], said[:, 0] - right[:, 0], said[:, 1] - right[:, 1], right[:, 1]], 1).reshape(-1, 2, 2)


def laws(rng, kind, cells):
    """The shares of (said, label) of class 1 in every cell."""
    if kind == "rare":  # one record in fifty, most of them in a few cells, others scattered
        rich = rng.random(cells) < 0.04
        label = np.where(rich, rng.uniform(0.2, 0.9, cells), 0.005)
        return np.where(rich, rng.uniform(0.3, 1.0, cells), 0.002), label
    if kind == "scattered":  # said and true here and there, one row in a hundred, and nowhere often
        return np.full(cells, 0.01), np.full(cells, 0.01)
    if kind == "nearly always":  # of most rows of its cells, but hardly ever of all
        rich = rng.random(cells) < 0.1
        return np.where(rich, 0.85, 0.0), np.where(rich, 0.5, 0.0)
    if kind == "tight":  # a cell has one class of records and of rows, or both classes by halves
        rich = np.arange(cells) % 10
        return np.where(rich < 2, 1.0, np.where(rich == 2, 0.5, 0.0)), np.where(rich < 2, 1.0, 0.5 * (rich == 2))
    return rng.beta(1, 1, cells), rng.beta(1, 1, cells)  # mixed


def world(rng, kind, pairing, *, cells=200, public=4, private=20):
    """(held-out cells, what the released student says, the recall of both classes, their sizes) of one run."""
    s, p = laws(rng, kind, cells)
    law = joint(np.column_stack([1 - s, s]), np.column_stack([1 - p, p]), pairing).clip(0).reshape(cells, 4)
    records = rng.multinomial(rng.poisson(private, cells), law / law.sum(axis=1, keepdims=True)).reshape(cells, 2, 2)
    counts, right = records.sum(axis=1), records.diagonal(axis1=1, axis2=2).sum(axis=0)
    rows = rng.poisson(public, cells)
    halves = np.stack([(rows + 1) // 2, rows // 2])
    ones = rng.binomial(halves, s)
    said = np.stack([halves - ones, ones], axis=2)
    queries = np.zeros((cells, 2), int)
    queries[np.arange(cells), (s > 0.5).astype(int)] = 1
    said[0] += queries
    noisy = counts + rng.normal(0, SIGMA, counts.shape)
    held = HeldOut(counts=noisy, predicted=said, query_predictions=queries, frequent=0, complete=True)
    return held, np.stack([*said, queries]), right / np.maximum(counts.sum(axis=0), 1), counts.sum(axis=0)


def ranges(rng, kind, pairing, *, known=True, sigma=SIGMA, **sizes):
    """(ranges of both classes and their mean, the truth of each) of one run."""
    held, said, truth, exact = world(rng, kind, pairing, **sizes)
    noisy = ClassSizes(sizes=exact + rng.normal(0, SIGMA_OF_SIZES, 2), sigma=SIGMA_OF_SIZES) if known else None
    found = recalls(held, said, sigma2=sigma, labels=["no", "yes"], counted="records", sizes=noisy)
    return found, np.append(truth, truth.mean())


def coverage(kind, pairing, *, runs=300, **options):
    """(the share of runs in which the ranges of both classes hold, that of their mean, mean widths of all three)."""
    rng = np.random.default_rng(11)
    found = [ranges(rng, kind, pairing, **options) for _ in range(runs)]
    inside = np.array([[one.low <= share <= one.high for one, share in zip(*run, strict=True)] for run in found])
    widths = np.array([[one.high - one.low for one in run] for run, _ in found])
    return inside[:, :2].all(axis=1).mean(), inside[:, 2].mean(), widths.mean(axis=0)


KINDS = ["rare", "scattered", "nearly always", "mixed", "tight"]


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_hold_in_worlds_that_break_estimates(kind):
    for pairing in ("worst", "best"):
        together, mean, _ = coverage(kind, pairing, runs=30)
        # With 95% each, of 30 runs fewer than 26 hold with a probability of 1%.
        assert min(together, mean) >= 26 / 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pairing", ["worst", "best", "blind"])
@pytest.mark.parametrize("known", [True, False], ids=["sums", "counts alone"])
@pytest.mark.parametrize(("public", "private"), [(4, 20), (1, 5), (30, 10)], ids=str)
def test_ranges_hold_everywhere(kind, pairing, known, public, private):
    together, mean, _ = coverage(kind, pairing, known=known, public=public, private=private, runs=200)
    assert min(together, mean) >= 0.94


@pytest.mark.parametrize(("cells", "public"), [(400, 20), (1000, 6)])
def test_ranges_hold_with_many_classes_and_less_than_the_noise_in_a_cell(cells, public):
    """A cell has records of one class, of which the student recognises 60%."""
    rng, classes, held = np.random.default_rng(0), 20, 0
    own = np.arange(cells) % classes

    def said_of(rows):
        said = np.zeros((cells, classes), int)
        right = rng.binomial(rows, 0.6)
        said[np.arange(cells), own] = right
        said[np.arange(cells), (own + 1) % classes] = rows - right
        return said

    for _ in range(15):
        records = rng.poisson(1, cells)
        counts, right = np.zeros((cells, classes)), np.bincount(own, rng.binomial(records, 0.6))
        counts[np.arange(cells), own] = records
        sizes, queries = counts.sum(axis=0), said_of(np.ones(cells, int))
        halves = np.stack([said_of(rng.poisson(public / 2, cells)) + queries, said_of(rng.poisson(public / 2, cells))])
        tested = HeldOut(
            counts=counts + rng.normal(0, SIGMA, counts.shape), predicted=halves, query_predictions=queries, frequent=0,
            complete=True, mean_proba=np.eye(classes)[own],
        )  # fmt: skip
        known = ClassSizes(sizes=sizes + rng.normal(0, SIGMA_OF_SIZES, classes), sigma=SIGMA_OF_SIZES)
        labels = [str(label) for label in range(classes)]
        *_, mean = recalls(
            tested, np.stack([*halves, queries]), sigma2=SIGMA, labels=labels, counted="records", sizes=known
        )
        held += mean.low <= float(np.mean(right / sizes)) <= mean.high
    assert held >= 13


@pytest.mark.parametrize("known", [True, False], ids=["sums", "counts alone"])
def test_ranges_that_are_too_narrow_do_not_hold(monkeypatch, known):
    """The worlds above find out where ends are moved by a third of a standard deviation alone."""
    monkeypatch.setattr("ostrakon.students.recall_estimate._quantiles", lambda miss: (0.3, 0.3))
    for pairing in ("best", "worst"):
        assert min(coverage("tight", pairing, known=known, runs=40, public=20)[:2]) < 0.9


def test_ranges_say_something_where_much_is_known():
    *_, widths = coverage("tight", "best", public=20, private=60, runs=5)
    assert (widths < [0.1, 0.45, 0.25]).all()


def test_a_class_that_the_noise_hides_is_not_known():
    held, said, *_ = world(np.random.default_rng(0), "rare", "best")
    hidden = ClassSizes(sizes=np.array([4000.0, 3.0]), sigma=2.0)
    no, yes, mean = recalls(held, said, sigma2=SIGMA, labels=["no", "yes"], counted="records", sizes=hidden)
    assert (yes.low, yes.high) == (0, 1)
    assert no.low > 0.5
    assert mean == Recall(label=None, counted="records", low=mean.low, high=mean.high)
    assert mean.high > 0.9


def test_deviations_allow_for_a_student_that_depends_on_the_noise():
    """A recall that is any function of the noise on the size of its class: the worst one, by simulation."""
    z, drawn = _quantiles(0.025)
    rng = np.random.default_rng(0)
    of_top, of_size = rng.normal(size=(2, 400_000))
    # The direction in which both noises are compared, chosen by the one that the student saw.
    steep = np.clip(-of_size / z, 0, 1)
    missed = of_top * np.sqrt(1 - steep**2) - of_size * steep > z
    assert 0.02 < missed.mean() < 0.026
    assert z > 2.2 > drawn  # 1.96 for a student that does not depend on it


@pytest.mark.parametrize(("sigma2", "labels"), [(0.0, ["a", "b"]), (float("nan"), ["a", "b"]), (1.0, ["a"])])
def test_what_makes_no_sense_is_refused(sigma2, labels):
    held, said, *_ = world(np.random.default_rng(0), "mixed", "best", cells=10)
    with pytest.raises(InvalidInput):
        recalls(held, said, sigma2=sigma2, labels=labels, counted="records")
