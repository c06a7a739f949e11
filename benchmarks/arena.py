"""The default of `ostrakon` beside what users would pick instead, on the same features of the same rows.

    python benchmarks/arena.py --data DIR --work DIR [--peers PYTHON] [--sets adult sst2 photos ecoli ...] [--seeds 0]
        [--epsilons 0.1 0.5 1 2 4] [--neighbours replaced removed] [--photos ROWS] [--picture-only]

Every line of the CSV states its neighbours; lines of different neighbours are never ranked. `replaced`: one record has
another one's data; `removed`: one record more or less. Delta is the default of the number of private rows. A seed is
one split (of tables and texts), one draw of noise and one start of a method; tables of several seeds tell the means and
how far the default is ahead, with the standard error of the mean of the paired differences. Ways:
- ostrakon: `ostrakon.run.steps.run_steps` with nothing but an epsilon; seconds are those of the run, features too;
- gradient descent: full-batch, logistic, gradients clipped at length 1, priced as Gaussian DP; one fixed setting, and
  the best of nine chosen on the *test* rows, which nobody could do: an upper limit;
- dp-ebm (interpret, two settings), diffprivlib, opacus, aim (boosting on synthetic rows): see
  benchmarks/arena_peers.py, run by the Python that benchmarks/arena_peers.sh makes; opacus and aim are priced for
  `removed`. What interpret takes for neighbours is not established, so its lines say `unknown` and are in neither
  ranking;
- no privacy: logistic regression on the private rows.
Peers see the features that ostrakon learned from public rows, from their public mean, in units of the median length
of public rows and at most that long. --photos: private images of CIFAR-10, fewer to save time. --work keeps encodings,
as in benchmarks/cifar10.py and benchmarks/text.py. Lines are written as they come; what is there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

from cifar10 import remember_encodings
from ostrakon.data.datasets import cifar10
from ostrakon.data.embeddings import as_columns
from ostrakon.features.moments import MomentMap
from ostrakon.options.options import Options
from ostrakon.planning.defaults import default_delta
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.features import view_of
from ostrakon.run.steps import FinishedRun, run_steps
from ostrakon.run.storage import Storage
from ostrakon.validation import InvalidInput
from tables import OWN
from tables import read as read_table
from text import embedded
from text import read as read_text

RESULTS = Path(__file__).parent / "results" / "arena.csv"
COLUMNS = ["set", "private", "classes", "seed", "epsilon", "neighbours", "way", "setting"]
SCORES = ["accuracy", "balanced_accuracy", "auc", "log_loss", "seconds"]
REPLACED, REMOVED, UNKNOWN = "replaced", "removed", "unknown"
STEPS, RATES = (20, 60, 180), (2.0, 8.0, 32.0)
FIXED = (60, 8.0)
PEERS = {
    "dp-ebm": UNKNOWN,
    "dp-ebm(learning_rate=.05)": UNKNOWN,
    "diffprivlib": REPLACED,
    "opacus": REMOVED,
    "aim": REMOVED,
}
OURS, DESCENT, BEST, OPEN = "ostrakon", "gradient descent", "gradient descent, best of nine on test rows", "no privacy"
TEXTS = ("sst2", "banking77")
IMAGES = ("photos", "patches")
"""CIFAR-10 by representation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """Rows of a set, as ostrakon gets them, and how peers see them."""

    X: Any
    y: Any
    X_public: Any
    X_test: Any
    y_test: Any
    classes: int
    representation: str = "auto"

    def seen(self, seed: int) -> tuple[Any, Any, Any]:
        """Features of private, test and public rows, no longer than 1; from public rows alone but for the row."""
        view = view_of(self.X_public, self.representation, seed=seed)
        held = MomentMap.of(view.public)

        def bounded(rows: Any) -> Any:
            away = np.asarray(view.transform(rows), np.float64) - held.centre
            return away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), held.radius)

        return bounded(self.X), bounded(self.X_test), bounded(self.X_public)


def contest(name: str, data: Path, work: Path, seed: int, photos: int) -> Contest:
    """A set, split by the seed."""
    if name in IMAGES:
        held = cifar10(data, random_state=seed)
        some = np.random.default_rng(0).permutation(len(held.y))[-photos:]
        return Contest(
            X=held.X[some], y=held.y[some], X_public=held.X_public, X_test=held.X_test, y_test=held.y_test, classes=10,
            representation=name,
        )  # fmt: skip
    if name in TEXTS:
        rows = read_text(name, data)
        made = embedded(name, rows, work)
        labels = sorted(set(rows["train"]["label"]) | set(rows["test"]["label"]))
        y, y_test = (np.searchsorted(labels, rows[part]["label"].to_numpy(str)) for part in ("train", "test"))
        order = np.random.default_rng(seed).permutation(len(y))
        public, private = order[: len(y) // 3], order[len(y) // 3 :]
        X, X_public, X_test = (
            as_columns("X", part) for part in (made["train"][private], made["train"][public], made["test"])
        )
        return Contest(X=X, y=y[private], X_public=X_public, X_test=X_test, y_test=y_test, classes=len(labels))
    split = read_table(name, data, seed)
    return Contest(
        X=split.X, y=split.y, X_public=split.X_public, X_test=split.X_test, y_test=split.y_test, classes=split.classes
    )


def mu_of(epsilon: float, delta: float) -> float:
    """The Gaussian DP of an epsilon."""
    return float(brentq(lambda mu: _delta(mu, epsilon) - delta, 1e-4, 30))


def _delta(mu: float, epsilon: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)))


def run_of(held: Contest, epsilon: float, neighbours: str, delta: float, seed: int, **more: Any) -> FinishedRun:
    """A run as a user gets it, with seeded noise. more: other options than the defaults."""
    task = Task(
        private=Rows(X=held.X, y=held.y.astype(np.int64)),
        classes=tuple(map(str, range(held.classes))),
        X_public=held.X_public,
        X_test=held.X_test,
        y_test=held.y_test,
    )
    asked = Options(
        epsilon=epsilon, delta=delta, neighbours=neighbours, seed=seed, representation=held.representation, **more
    )
    return run_steps(task, asked, Storage(), rng=np.random.default_rng([seed, round(1000 * epsilon)]))


def likely_of(model: Any, X: Any, classes: int) -> Any:
    """Probabilities of all classes."""
    likely = np.zeros((len(X), classes))
    likely[:, np.asarray(model.classes_).astype(np.int64)] = model.predict_proba(X)
    return likely


def ours(held: Contest, epsilon: float, neighbours: str, delta: float, seed: int, **more: Any) -> tuple[Any, str]:
    """Probabilities of the test rows, and which student it was. more: other options than the defaults."""
    done = run_of(held, epsilon, neighbours, delta, seed, **more)
    return likely_of(done.student, held.X_test, held.classes), done.student_name


def descent(X: Any, y: Any, classes: int, mu: float, neighbours: str, setting: tuple[int, float], rng: Any) -> Any:
    """Weights of features and a constant, by full-batch gradient descent on clipped gradients with noise."""
    steps, rate = setting
    rows, right = np.column_stack([X, np.ones(len(X))]), np.eye(classes)[y]
    lengths, weights = np.linalg.norm(rows, axis=1), np.zeros((X.shape[1] + 1, classes))
    noise = (2.0 if neighbours == REPLACED else 1.0) * steps**0.5 / mu
    for _ in range(steps):
        wrong = softmax(rows @ weights, axis=1) - right
        wrong /= np.maximum(1.0, np.linalg.norm(wrong, axis=1) * lengths)[:, None]
        weights -= rate / len(X) * (rows.T @ wrong + rng.normal(scale=noise, size=weights.shape))
    return weights


def scores(likely: Any, y: Any, seconds: float) -> list[str]:
    """What is written of an answer."""
    likely = np.maximum(likely, 1e-6)
    likely = likely / likely.sum(axis=1, keepdims=True)
    said, numbers = likely.argmax(axis=1), np.arange(likely.shape[1])
    try:
        auc = roc_auc_score(y, likely[:, 1] if len(numbers) == 2 else likely, multi_class="ovr", labels=numbers)
    except ValueError:
        auc = np.nan  # a class without test rows
    found = (np.mean(said == y), balanced_accuracy_score(y, said), auc, log_loss(y, likely, labels=numbers))
    return [*(f"{number:.4f}" for number in found), f"{seconds:.1f}"]


def lines_of(
    held: Contest, epsilon: float, seed: int, known: set[tuple[str, str]], given: argparse.Namespace
) -> Iterator[tuple[str, str, str, list[str]]]:
    """(neighbours, way, setting, scores) of everything that is not known."""
    delta = default_delta(len(held.y))
    for neighbours in given.neighbours:
        if (neighbours, OURS) not in known:
            started = time.perf_counter()
            try:
                likely, student = ours(held, epsilon, neighbours, delta, seed)
                yield neighbours, OURS, student, scores(likely, held.y_test, time.perf_counter() - started)
            except InvalidInput as refusal:
                yield neighbours, OURS, f"refused: {str(refusal)[:60]}", [""] * len(SCORES)
    X, X_test, X_public = held.seen(seed)
    for neighbours in given.neighbours:
        if (neighbours, DESCENT) in known:
            continue
        tried = {}
        for number, setting in enumerate((steps, rate) for steps in STEPS for rate in RATES):
            rng, started = np.random.default_rng([seed, number]), time.perf_counter()
            weights = descent(X, held.y, held.classes, mu_of(epsilon, delta), neighbours, setting, rng)
            seconds = time.perf_counter() - started
            likely = softmax(np.column_stack([X_test, np.ones(len(X_test))]) @ weights, axis=1)
            tried[setting] = scores(likely, held.y_test, seconds)
        best = max(tried, key=lambda setting: float(tried[setting][0]))
        for way, setting in ((DESCENT, FIXED), (BEST, best)):
            yield neighbours, way, f"{setting[0]} steps at {setting[1]:g}", tried[setting]
    if ("none", OPEN) not in known:
        started = time.perf_counter()
        plain = LogisticRegression(C=100, max_iter=1000).fit(X, held.y)
        likely = likely_of(plain, X_test, held.classes)
        yield "none", OPEN, "logistic(C=100)", scores(likely, held.y_test, time.perf_counter() - started)
    for peer, neighbours in PEERS.items() if given.peers is not None else ():
        if (neighbours, peer) in known or (peer.startswith("dp-ebm") and held.classes > 2):
            continue
        features, answers = given.work / "arena-features.npz", given.work / "arena-answers.npz"
        np.savez(features, X=X, y=held.y, X_test=X_test, X_public=X_public, classes=held.classes, bound=1.0)
        script = Path(__file__).with_name("arena_peers.py")
        command = [given.peers, script, features, answers, peer, epsilon, delta, seed]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1800)
        if done.returncode:
            print(f"{peer} was not run: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        with np.load(answers) as made:
            yield neighbours, peer, "", scores(made["likely"], held.y_test, float(made["seconds"]))


def by_seed(lines: list[dict[str, str]], neighbours: str) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """Of every (set, epsilon) and every way the accuracy of each seed, in per cent; no privacy beside them."""
    found: dict[Any, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for line in lines:
        if line["accuracy"] and line["neighbours"] in (neighbours, "none"):
            found[line["set"], line["epsilon"]][line["way"]][line["seed"]] = 100 * float(line["accuracy"])
    return found


def ahead(ways: dict[str, dict[str, float]], other: str) -> tuple[float, float]:
    """(how far the default is ahead of another way, in the mean of seeds; its standard error, NaN of one seed)."""
    both = [ways[OURS][seed] - ways[other][seed] for seed in ways[OURS] if seed in ways.get(other, {})]
    error = np.std(both, ddof=1) / len(both) ** 0.5 if len(both) > 1 else np.nan
    return (float(np.mean(both)), float(error)) if both else (np.nan, np.nan)


def _told(difference: float, error: float) -> str:
    return "" if np.isnan(difference) else f"{difference:+.1f}{'' if np.isnan(error) else f' ± {error:.1f}'}"


def tell(lines: list[dict[str, str]]) -> None:
    """A table of mean accuracies for each kind of neighbours, and one of the small tables' mean differences."""
    for neighbours in (REPLACED, REMOVED):
        held = by_seed(lines, neighbours)
        ways = [way for way in (OURS, DESCENT, BEST, *PEERS, OPEN) if any(way in ways for ways in held.values())]
        titles = [*ways, *(f"ahead of {way}" for way in (DESCENT, BEST))]
        print(f"\nNeighbours: one record {neighbours}\n| set | epsilon | runs | {' | '.join(titles)} |")
        print(f"|{'---|' * (3 + len(titles))}")
        small = defaultdict(list)
        for (name, epsilon), ways_ in sorted(held.items()):
            cells = [f"{np.mean([*ways_[way].values()]):.1f}" if way in ways_ else "" for way in ways]
            apart = {way: ahead(ways_, way) for way in (DESCENT, BEST)}
            cells += [_told(*apart[way]) for way in (DESCENT, BEST)]
            print(f"| {name} | {epsilon} | {len(ways_[OURS])} | {' | '.join(cells)} |")
            for way in apart if len(ways_[OURS]) > 1 else ():
                small[epsilon, way].append((np.mean([*ways_[OURS].values()]), *apart[way]))
        for (epsilon, way), found in small.items():
            mean, difference, error = np.array(found).T
            together = _told(float(difference.mean()), float(np.sqrt(np.square(error).sum())) / len(found))
            print(f"{len(found)} sets of several runs at {epsilon}: {mean.mean():.1f}, {together} ahead of {way}")


def draw(lines: list[dict[str, str]]) -> None:
    """Accuracy beside that of the default, one panel for each kind of neighbours."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", sharex=True, sharey=True)
    for axes, neighbours in zip(panels, (REPLACED, REMOVED), strict=True):
        held = by_seed(lines, neighbours).values()
        for way in (DESCENT, BEST, *PEERS):
            both = [(ways[OURS], ways[way]) for ways in held if OURS in ways and way in ways]
            pairs = [(np.mean([*ours.values()]), np.mean([*other.values()])) for ours, other in both]
            if pairs:
                axes.scatter(*zip(*pairs, strict=True), s=18, label=way)
        axes.axline((50, 50), slope=1, color="grey", linewidth=1)
        axes.set(title=f"one record {neighbours}", xlabel="default of ostrakon, accuracy in %")
        axes.legend(fontsize=7)
    panels[0].set_ylabel("the other way, accuracy in %\n(below the line the default is ahead)")
    figure.savefig(RESULTS.with_suffix(".png"), dpi=120)


def main() -> None:
    """Run what is missing, then print the tables and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--neighbours", nargs="+", choices=(REPLACED, REMOVED), default=[REPLACED, REMOVED])
    parser.add_argument("--photos", type=int, default=50_000)
    parser.add_argument("--picture-only", action="store_true")
    given = parser.parse_args()
    tables = sorted(path.stem for path in (given.data / "tables").glob("*.csv"))
    names = given.sets or [*tables, *OWN, "adult", *TEXTS, *IMAGES]
    lines = list(csv.DictReader(RESULTS.open())) if RESULTS.exists() else []
    if "photos" in names and not given.picture_only:
        remember_encodings(given.work)
    for name in [] if given.picture_only else names:
        for seed in given.seeds:
            held = contest(name, given.data, given.work, seed, given.photos)
            for epsilon in given.epsilons:
                about = [name, str(len(held.y)), str(held.classes), str(seed), f"{epsilon:g}"]
                known = {(line["neighbours"], line["way"]) for line in lines if [line[c] for c in COLUMNS[:5]] == about}
                for neighbours, way, setting, found in lines_of(held, epsilon, seed, known, given):
                    line = [*about, neighbours, way, setting, *found]
                    lines.append(dict(zip([*COLUMNS, *SCORES], line, strict=True)))
                    print(*line, sep=", ", flush=True)
                    with RESULTS.open("w", newline="") as file:
                        writer = csv.DictWriter(file, [*COLUMNS, *SCORES], lineterminator="\n")
                        writer.writeheader()
                        writer.writerows(lines)
    tell(lines)
    draw(lines)


if __name__ == "__main__":
    main()
