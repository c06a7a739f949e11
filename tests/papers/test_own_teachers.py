"""Figures and tables from votes of teachers of our own: every number against formulas written out here."""

import csv
import math

import numpy as np
import pytest

from ostrakon.accounting.published.exponential_2024 import delta_of_local_noise, log_q_exponential, q_sensitivity
from ostrakon.accounting.published.pate_2017 import log_q_laplace
from ostrakon.data.datasets import Dataset
from ostrakon.papers import (
    exponential_2024,
    exponential_2024_own,
    image_task,
    near_zero_cost_own,
    own_figures,
    reproduce,
)
from ostrakon.papers.exponential_2024 import EPSILONS
from ostrakon.papers.image_task import ImageTask
from ostrakon.papers.table import Chart, Table
from ostrakon.papers.teacher_votes import TeacherVotes, file_of, keep, read
from ostrakon.papers.written import write
from ostrakon.validation import InvalidInput
from ostrakon.votes import PublicVotes

QUERIES, CLASSES, SHARE = 160, 4, 0.8


def made_up(teachers: int, seed: int = 0) -> TeacherVotes:
    """Votes of teachers that are right four times in five, but on the first twentieth of the queries never."""
    rng = np.random.default_rng([seed, teachers])
    labels = rng.integers(0, CLASSES, QUERIES)
    chances = np.full((QUERIES, CLASSES), (1 - SHARE) / (CLASSES - 1))
    chances[np.arange(QUERIES), (labels + (np.arange(QUERIES) < QUERIES // 20)) % CLASSES] = SHARE
    counts = np.array([rng.multinomial(teachers, chance) for chance in chances])
    return TeacherVotes(votes=PublicVotes(counts), labels=labels, about="made up")


@pytest.fixture(scope="module")
def screening() -> dict[str, Table]:
    made = {teachers: made_up(teachers) for teachers in (10, 80)}
    tables = exponential_2024_own.tables("mnist", made, task=None, say=lambda told: None)
    return {table.title.split(":")[0]: table for table in tables}


def rows_of(table: Table) -> list[dict]:
    return table.as_json()["rows"]


def softmax(counts: np.ndarray, epsilon: float) -> np.ndarray:
    weights = np.exp(epsilon / 2 * (counts - counts.max(axis=1, keepdims=True)))
    return weights / weights.sum(axis=1, keepdims=True)


def passing(counts: np.ndarray, threshold: float, scale: float) -> np.ndarray:
    lead = (counts.max(axis=1) - threshold) / scale
    return np.where(lead > 0, 1 - np.exp(-np.abs(lead)) / 2, np.exp(-np.abs(lead)) / 2)


def test_all_figures_of_one_image_set_are_there(screening) -> None:
    assert sorted(screening) == sorted(
        [
            *("Figures 3 and 4 (MNIST)", "Figure 5 (MNIST)", "Figure 6 (MNIST)", "Figure 8 (MNIST)"),
            *("Figure 10 (MNIST)", "Figure 12 (MNIST)", "Table 2 (MNIST)"),
        ]
    )
    other = exponential_2024_own.tables("cifar10", {80: made_up(80)}, task=None, say=lambda told: None)
    assert {title for table in other if (title := table.title.split(" (")[0]).startswith("Figure ")} == {
        *("Figure 5", "Figure 7", "Figure 9", "Figure 11", "Figure 13")
    }
    assert exponential_2024_own.tables("mnist", {}, task=None, say=print) == []
    assert len(exponential_2024_own.tables("mnist", {10: made_up(10)}, task=None, say=print)) == 2


def test_figures_3_and_4(screening) -> None:
    for row in rows_of(screening["Figures 3 and 4 (MNIST)"]):
        each = made_up(row["teachers"])
        counts, labels = each.votes.counts, each.labels
        assert row["accuracy of a teacher"] == pytest.approx(
            np.mean([n[label] / n.sum() for n, label in zip(counts, labels, strict=True)]), rel=1e-12
        )
        assert row["plurality right"] == np.mean(counts.argmax(axis=1) == labels)
        assert row["P[plurality is named]"] == pytest.approx(softmax(counts, 0.3).max(axis=1).mean(), rel=1e-9)
        assert row["share that agrees"] == pytest.approx((counts.max(axis=1) / row["teachers"]).mean(), rel=1e-12)


def test_figure_5_counts_all_samples_and_those_that_pass(screening) -> None:
    rows = rows_of(screening["Figure 5 (MNIST)"])
    counts = made_up(80).votes.counts
    chance = passing(counts, 48, 25)
    for row in rows:
        least = round(10 * row["share that agrees, at least"])
        inside = np.array([8 * least <= top < 8 * least + (9 if least == 9 else 8) for top in counts.max(axis=1)])
        expected = inside.sum() if row[""] == "without screening" else chance[inside].sum()
        assert row["samples"] == pytest.approx(expected, rel=1e-9)
    assert sum(row["samples"] for row in rows if row[""] == "without screening") == QUERIES


def divergence(p: np.ndarray, q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    a = orders[:, None]
    return np.log((p**a * q ** (1 - a)).sum(axis=1)) / (orders - 1)


def exact_epsilon(law, counts: np.ndarray, orders: np.ndarray, delta: float) -> float:
    """The largest divergence to any neighbour, both directions, query by query; Canonne, Kamath and Steinke."""
    total = np.zeros(len(orders))
    for n in counts:
        worst = np.zeros(len(orders))
        here = law(n[None])[0]
        for a, b in ((a, b) for a in range(len(n)) for b in range(len(n)) if a != b and n[a] > 0):
            moved = n.copy()
            moved[a], moved[b] = moved[a] - 1, moved[b] + 1
            there = law(moved[None])[0]
            worst = np.maximum(worst, divergence(here, there, orders))
            worst = np.maximum(worst, divergence(there, here, orders))
        total += worst
    converted = total + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    return float(converted.min())


def test_figure_6_and_10_have_the_three_epsilons(screening) -> None:
    counts = made_up(80).votes.counts
    answered = np.cumsum(passing(counts, 48, 25))
    for row in rows_of(screening["Figure 6 (MNIST)"]):
        first = int(np.flatnonzero(answered >= row["answers"])[0]) + 1
        assert row["queries"] == (first if row["mechanism"] == "screening" else row["answers"])
    found = {(row["samples asked"], row["mechanism"]): row for row in rows_of(screening["Figure 10 (MNIST)"])}
    assert {asked for asked, _ in found} == {100}
    assert found[100, "screening"]["expected answers"] == pytest.approx(answered[99], rel=1e-9)

    def exponential(n):
        return softmax(n, 0.3)

    def screened(n):
        chance = passing(n, 48, 25)[:, None]
        return np.hstack([chance * softmax(n, 0.3), 1 - chance])

    orders = np.arange(2.0, 30.0, 1.0)
    for name, law in (("exponential", exponential), ("screening", screened)):
        row = found[100, name]
        assert row[EPSILONS[1]] == pytest.approx(exact_epsilon(law, counts[:100], orders, 1e-5), rel=0.01)
    # Eq. 13 to 16, moment by moment; what screening is charged is its labels' part alone.
    moments, charge = np.arange(1.0, 60.0), {"exponential": np.ones(100), "screening": passing(counts[:100], 48, 25)}
    q = 1 - softmax(counts[:100], 0.3).max(axis=1)[:, None]
    with np.errstate(invalid="ignore", over="ignore"):
        eq_14 = np.log((1 - q) * ((1 - q) / (1 - np.exp(0.3) * q)) ** moments + q * np.exp(0.3 * moments))
    eq_15 = 0.3**2 * moments * (moments + 1) / 2
    alpha = np.where(q <= 1 / (math.exp(0.3) + 1), np.fmin(eq_14, eq_15), eq_15)
    for name, weight in charge.items():
        total = ((weight[:, None] * alpha).sum(axis=0) + math.log(1e5)) / moments
        assert found[100, name][EPSILONS[0]] == pytest.approx(total.min(), rel=0.02)
    # The worst case knows no votes, but the threshold: labels of small majorities are seldom given.
    assert found[100, "screening"][EPSILONS[2]] < found[100, "exponential"][EPSILONS[2]] < 100 * 0.3
    for row in found.values():
        assert row[EPSILONS[1]] < row[EPSILONS[2]]


def test_figure_8_answers_right(screening) -> None:
    each = made_up(80)
    counts, labels = each.votes.counts, each.labels
    right = softmax(counts, 0.3)[np.arange(QUERIES), labels]
    chance = passing(counts, 48, 25)
    for row in rows_of(screening["Figure 8 (MNIST)"]):
        asked = slice(row["queries"])
        weight = chance[asked] if row["mechanism"] == "screening" else np.ones(row["queries"])
        assert row["student right"] is None
        if row["mechanism"] != "Laplace":
            expected = (weight * right[asked]).sum() / weight.sum()
            assert row["answers right"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mechanism", ["Laplace", "exponential"])
def test_figure_12_is_equation_18_by_hand(screening, mechanism: str) -> None:
    def q(n: list[int]) -> float:
        top = max(n)
        others = sorted(n)[:-1]
        if mechanism == "exponential":
            return 1 - 1 / sum(math.exp(0.15 * (each - top)) for each in n)
        gaps = [0.15 * (top - each) for each in others]
        return min(sum((2 + gap) / (4 * math.exp(gap)) for gap in gaps), 1 - 1 / len(n))

    for row in rows_of(screening["Figure 12 (MNIST)"]):
        if row["mechanism"] != mechanism:
            continue
        moves = []
        for counts in made_up(row["teachers"]).votes.counts.tolist():
            n = sorted(counts, reverse=True)
            up = [n[0] + 1, n[1] - 1, *n[2:]] if n[1] else n
            to = 1 if n[0] - n[1] > 1 else next((place for place, k in enumerate(n) if n[1] - k >= 1), 1)
            down = [k - (place == 0) + (place == to) for place, k in enumerate(n)]
            moves.append(max(abs(q(up) - q(n)), abs(q(down) - q(n))))
        assert row["mean sensitivity of q"] == pytest.approx(np.mean(moves), rel=1e-6)
        assert row["largest"] == pytest.approx(max(moves), rel=1e-6)


def test_screening_averages_the_sensitivity_of_what_passes(screening) -> None:
    rows = {row["mechanism"]: row for row in rows_of(screening["Figure 12 (MNIST)"]) if row["teachers"] == 80}
    counts = made_up(80).votes.counts
    chance = passing(counts, 48, 25)
    moves = q_sensitivity(counts, lambda n: log_q_exponential(n, epsilon=0.3))
    assert rows["screening"]["mean sensitivity of q"] == pytest.approx((chance * moves).sum() / chance.sum(), rel=1e-9)
    assert rows["screening"]["mean sensitivity of q"] < rows["exponential"]["mean sensitivity of q"]


@pytest.mark.parametrize("counts", [[[40, 40]], [[41, 40]], [[5, 5, 5]], [[7, 7, 3]], [[8, 7, 7, 2]], [[80, 0]]])
def test_sensitivity_of_ties_and_of_one_voice(counts) -> None:
    def q(n: list[int]) -> float:
        return 1 - math.exp(0.15 * max(n)) / sum(math.exp(0.15 * each) for each in n)

    moved = {
        (40, 40): ([41, 39], [39, 41]),
        (41, 40): ([42, 39], [40, 41]),
        (5, 5, 5): ([6, 4, 5], [4, 6, 5]),
        (7, 7, 3): ([8, 6, 3], [6, 7, 4]),
        (8, 7, 7, 2): ([9, 6, 7, 2], [7, 7, 7, 3]),
        (80, 0): ([80, 0], [79, 1]),
    }[tuple(counts[0])]
    expected = max(abs(q(other) - q(counts[0])) for other in moved)
    assert q_sensitivity(counts, lambda n: log_q_exponential(n, epsilon=0.3))[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("teachers", [11, 80])
def test_delta_of_local_noise_is_that_of_a_grid(teachers: int, epsilon: float) -> None:
    def log_q(n):
        return log_q_laplace(n, scale=20 / 3)

    worst = 0.0
    for leader in range((teachers + 1) // 2 + 1, teachers - 1):
        laws = []
        for top in (leader, leader + 1):
            n = [[top, teachers - top]]
            laws.append((float(np.exp(log_q(n))[0]), float(q_sensitivity(n, log_q)[0]) / epsilon))
        for (a, b), (c, d) in (laws, laws[::-1]):
            x, step = np.linspace(a - 40 * max(b, d), a + 40 * max(b, d), 100_001, retstep=True)
            p, r = np.exp(-np.abs(x - a) / b) / (2 * b), np.exp(-np.abs(x - c) / d) / (2 * d)
            worst = max(worst, float(np.maximum(p - math.exp(epsilon) * r, 0).sum() * step))
    assert delta_of_local_noise(teachers, log_q, epsilon=epsilon) == pytest.approx(worst, rel=2e-3)
    assert worst > 0.01


def test_table_2_sets_changes_beside_the_printed_ones(screening) -> None:
    laplace, screened, ours, printed = rows_of(screening["Table 2 (MNIST)"])
    most = max(row["answers"] for row in rows_of(screening["Figure 6 (MNIST)"]))
    assert laplace["answers"] == screened["answers"] == most
    for column in EPSILONS:
        change = float(ours[column].rstrip("%")) / 100
        assert screened[column] == pytest.approx(laplace[column] * (1 + change), rel=1e-4)
    assert (printed[EPSILONS[0]], printed["student right"]) == ("-0.62%", "+3.12%")


def test_near_zero_cost_tables() -> None:
    made = {teachers: made_up(teachers) for teachers in near_zero_cost_own.SIZES}
    first, second, third = near_zero_cost_own.tables(made, task=None, say=lambda told: None)
    rows = {(row["aggregator"], row["teachers"]): row for row in rows_of(first) if row["queries"] == QUERIES}
    many, few = (made[teachers] for teachers in (250, 5))
    for each, teachers in ((many, 250), (few, 5)):
        plurality = (each.votes.counts.argmax(axis=1) == each.labels).mean()
        assert rows["clean votes", teachers]["labels right"] == plurality
        assert rows["NZC", teachers]["labels right"] == pytest.approx(plurality, abs=1e-9)
        # Theorem 4 of the paper: 4 T gamma^2 + 2 gamma sqrt(2 T ln 1/delta); the truth: 2 gamma (c + 1) a query.
        claimed = 4 * QUERIES * 1e-20 + 2e-10 * math.sqrt(2 * QUERIES * math.log(1e5))
        assert rows["NZC", teachers]["epsilon, claimed by its formula"] == pytest.approx(claimed, rel=1e-9)
        assert rows["NZC", teachers]["epsilon, exact data-dependent (private)"] is None
        assert rows["NZC", teachers]["epsilon, worst case (true)"] == pytest.approx(QUERIES * 2e90, rel=1e-6)
    assert rows["true labels", 250]["labels right"] == 1
    lnmax = rows["LNMax", 250]
    assert lnmax["epsilon, exact data-dependent (private)"] < lnmax["epsilon, worst case (true)"]
    assert "not differentially private" in first.note
    assert [row["MNIST, printed"] for row in rows_of(second)] == [0.9302, 0.9433, 0.9437]
    assert rows_of(second)[2]["MNIST, ours"] == (many.votes.counts.argmax(axis=1) == many.labels).mean()
    for row in rows_of(third):
        assert row["MNIST, ours"] == pytest.approx(made[row["teachers"]].accuracy, rel=1e-12)
        assert row["SVHN, ours"] is None
    assert [row["SVHN, printed"] for row in rows_of(third)][-1] == 0.7593
    assert [table.title[:24] for table in near_zero_cost_own.tables({1: made_up(1)}, task=None, say=print)] == [
        "Near-zero-cost, Table 3 "
    ]


def test_votes_are_kept_small_and_read_back(tmp_path) -> None:
    for teachers in (1, 250, 300):
        made, file = made_up(teachers), file_of(tmp_path / "new", "mnist", teachers)
        keep(file, made)
        held = read(file, teachers)
        assert held.votes == made.votes
        assert np.array_equal(held.labels, made.labels)
        assert (held.about, held.accuracy) == ("made up", made.accuracy)
        assert file.stat().st_size < 6000
    with pytest.raises(InvalidInput, match="must sum to 80"):
        read(file, 80)
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(InvalidInput, match="cannot be read as the votes"):
        read(file, 300)
    np.savez(file, counts=made.votes.counts, labels=made.labels[:5], about=np.array("x"))
    with pytest.raises(InvalidInput, match="a class for each of 160 queries"):
        read(file, 300)


def test_reproduce_reads_kept_votes_and_says_what_is_missing(tmp_path) -> None:
    keep(file_of(tmp_path, "mnist", 10), made_up(10))
    told: list[str] = []
    tables = reproduce("exponential-2024", data=tmp_path, say=told.append)
    assert [table.title[:9] for table in tables][:2] == ["Figures 3", "Figure 12"]
    assert told[0].startswith("MNIST: no votes of 25, 50, 80, 100, 250 teachers of our own; give --out")
    assert told[1].startswith("CIFAR-10: no votes of 10, 25")
    out = tmp_path / "out"
    written = reproduce("exponential-2024", data=tmp_path, out=out, say=told.append)
    assert written == tables
    assert f"{tmp_path} has no images of it" in told[2]
    names = sorted(file.name for file in out.iterdir())
    assert len(names) == 2 * len(tables) + 1  # a CSV and a picture each, one page
    for table in tables:
        [file] = [out / name for name in names if name.endswith(".csv") and _begins(name, table.title)]
        with open(file, newline="") as stream:
            header, *rows = csv.reader(stream)
        assert tuple(header) == table.columns
        assert [row[0] for row in rows] == ["" if row[0] is None else str(row[0]) for row in table.rows]
        assert file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    page = (out / "exponential-2024.md").read_text()
    assert all(name in page for name in names if name.endswith(".png"))
    with pytest.raises(InvalidInput, match="published votes"):
        reproduce("near-zero-cost", data=tmp_path / "empty")


def _begins(name: str, title: str) -> bool:
    start = "".join(letter if letter.isalnum() else "-" for letter in title.lower())
    return "-".join(filter(None, start.split("-"))).startswith(name.removesuffix(".csv"))


def test_a_table_without_a_chart_is_written_without_a_picture(tmp_path) -> None:
    table = Table(title="A: b|c", columns=("a", "b|c"), rows=((1, None), (0.123456, "x")), note="so")
    files = write("paper", [table], tmp_path / "new")
    assert [file.name for file in files] == ["paper.md", "a-b-c.csv"]
    assert files[1].read_text() == "a,b|c\n1,\n0.123456,x\n"
    assert "| a | b\\|c |\n| --- | --- |\n| 1 | – |\n| 0.1235 | x |" in files[0].read_text()


def test_a_chart_names_columns() -> None:
    with pytest.raises(ValueError, match=r"no column: \['b'\]"):
        Table(title="t", columns=("a",), rows=(), chart=Chart(x="a", panels=("b",)))


def few_images(name: str) -> Dataset:
    rng = np.random.default_rng(5)
    shapes = rng.random((10, 28, 28)) if name == "mnist" else rng.random((10, 32, 32, 3))
    labels = np.arange(400) % 10
    images = (shapes[labels] + 0.3 * rng.random((400, *shapes.shape[1:]))).astype(np.float32) / 1.3
    part = {"X": slice(200), "X_public": slice(200, 350), "X_test": slice(350, 400)}
    return Dataset(
        name=name,
        classes=tuple("0123456789"),
        **{key: images[rows] for key, rows in part.items()},
        **{key.replace("X", "y"): labels[rows] for key, rows in part.items()},
    )


@pytest.mark.slow
def test_teachers_and_students_are_trained_once_and_found_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(image_task, "mnist", lambda path: few_images("mnist"))
    monkeypatch.setattr(image_task, "cifar10", lambda path: few_images("cifar10"))
    monkeypatch.setattr(exponential_2024_own, "ANSWERS", (50,))
    monkeypatch.setattr(exponential_2024, "EPSILON", 20.0)
    monkeypatch.setattr(exponential_2024_own, "TEACHERS", 4)
    sizes = dict.fromkeys(image_task.NAMES, (2, 4))
    monkeypatch.setitem(own_figures.SETS, "exponential-2024", sizes)
    (tmp_path / "mnist").mkdir()
    (tmp_path / "cifar10.zip").touch()
    told: list[str] = []
    tables = reproduce("exponential-2024", data=tmp_path, out=tmp_path / "out", say=told.append)
    assert sum(sentence.startswith("Training") for sentence in told) == 4
    right = [row for table in tables if "accuracy against" in table.title for row in rows_of(table)]
    assert len(right) == 6
    # Ten blurred shapes are easy and the noise is small: what learns beats a guess, right one time in ten.
    assert min(row["student right"] for row in right) > 0.3
    again: list[str] = []
    assert reproduce("exponential-2024", data=tmp_path, out=tmp_path / "out", say=again.append) == tables
    assert not any(sentence.startswith("Training") for sentence in again)
    kept = read(tmp_path / "out" / "teacher_votes" / "mnist-4-teachers.npz", 4)
    assert kept.accuracy > 0.5
    assert "on pixels" in kept.about
    about = read(tmp_path / "out" / "teacher_votes" / "cifar10-4-teachers.npz", 4).about
    assert about in ("kernel ridge on photos features", "kernel ridge on hog features")
    task = ImageTask("mnist", tmp_path)
    assert task.network(np.arange(150), task.task.y_public) > 0.8
