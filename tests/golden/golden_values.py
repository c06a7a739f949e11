"""Golden numbers: what the accountants print today, to the last bit.

    python tests/golden/golden_values.py --write [SECTION ...]

writes `tests/golden/*.json`, one file a section; `test_golden.py` computes the sections again and compares. A change
that moves a number on purpose writes its section again and says in its message which numbers moved, how far, and why
they are right (the oracles of `tests/accounting` decide that; goldens only notice).

The names of the numbers are this file's own. What the library calls them is said once, in `JSON_KEYS`.
"""

import argparse
import contextlib
import hashlib
import importlib.metadata
import io
import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_delta, gaussian_dp_epsilon
from ostrakon.accounting.composition.pure_dp import pure_dp_epsilon
from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.accounting.data_independent.argmax_rdp import argmax_rdp
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.sanitizer import Sanitizer
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.cli.app import main as command_line
from ostrakon.mechanisms import (
    BoundedGNMax,
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    LNMax,
    Mechanism,
    RunCost,
)
from ostrakon.mechanisms.contrib.immutable import Immutable
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.votes import PublicVotes

FOLDER = Path(__file__).parent
DELTA = 1e-5

JSON_KEYS = {
    "worst_case": ("worst_case", "epsilon"),
    "data_dependent": ("data_dependent", "epsilon"),
    "data_dependent_order": ("data_dependent", "order"),
    "expected_answers": ("data_dependent", "expected_answers"),
    "published": ("published", "epsilon"),
    "published_order": ("published", "order"),
    "gated": ("gated", "epsilon"),
    "claimed": ("claimed",),
}
"""Golden names, and where `account --json` prints those numbers. The sanitized estimate is fresh noise: it is left out.
"""

PUBLISHED_RUNS = {
    "mnist": (640, ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)),
    "adult": (1500, ConfidentGNMax(threshold=300, sigma1=200, sigma2=40)),
}

Numbers = dict[str, float]


def command(*arguments: object) -> Numbers:
    """What `account ... --json` prints, by golden name; run in this process."""
    out = io.StringIO()
    before = sys.argv
    sys.argv = ["ostrakon", "account", *map(str, arguments), "--json"]
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            command_line()
    finally:
        sys.argv = before
    printed = json.loads(out.getvalue())
    found: Numbers = {}
    for name, path in JSON_KEYS.items():
        value: Any = printed
        for key in path:
            value = None if value is None else value.get(key)
        if value is not None:
            found[name] = float(value)
    return found


def prefixed(prefix: str, numbers: Numbers) -> Numbers:
    return {f"{prefix}/{name}": value for name, value in numbers.items()}


def options(mechanism: Mechanism) -> list[object]:
    """The mechanism as options of the command line."""
    given: list[object] = ["--mechanism", mechanism.name]
    for name, value in mechanism.parameters().items():
        if value is not None and mechanism.declared()[name].option:
            given += ["--" + name.replace("_", "-"), repr(value)]
    return given


# ---- what the sections hold


def account_published(data: Path) -> Numbers:
    """`account --json` on the published votes."""
    found: Numbers = {}
    for name, (queries, mechanism) in PUBLISHED_RUNS.items():
        file = data / "votes" / f"{name}_250_teachers.npy"
        for conversion in ("cks", "mironov"):
            given = [file, *options(mechanism), "--queries", queries, "--delta", DELTA, "--conversion", conversion]
            found |= prefixed(f"{name}-{queries}/{conversion}", command(*given))
        for other in (GNMax(sigma2=40), LNMax(gamma=0.05), ExponentialMechanism(epsilon_per_query=0.1)):
            given = [file, *options(other), "--queries", queries, "--delta", DELTA]
            found |= prefixed(f"{name}-{queries}/{other.name}", command(*given))
    return found


MADE_VOTES: dict[str, list[list[int]]] = {
    "two-classes": [[8, 2], [5, 5], [10, 0], [6, 4], [0, 10]],
    "three-classes": [[60, 30, 10], [34, 33, 33], [100, 0, 0], [50, 50, 0], [10, 80, 10]],
    "ten-classes": [[180, 20, 10, 10, 10, 5, 5, 5, 5, 0], [25] * 10, [250] + [0] * 9, [120, 115, 15] + [0] * 7],
}

MADE_MECHANISMS: dict[str, Mechanism] = {
    "lnmax": LNMax(gamma=0.05),
    "lnmax-high-noise": LNMax(gamma=1e-3),
    "gnmax": GNMax(sigma2=40),
    "gnmax-quiet": GNMax(sigma2=1.5),
    "confident-gnmax": ConfidentGNMax(threshold=80, sigma1=30, sigma2=20),
    "confident-gnmax-far": ConfidentGNMax(threshold=-40, sigma1=5, sigma2=7.25),
    "exponential": ExponentialMechanism(epsilon_per_query=0.1),
    "screened-exponential": ScreenedExponential(threshold=80, sigma1=25, epsilon_per_query=0.25),
    "permute-and-flip": PermuteAndFlip(epsilon_per_query=0.1),
    "propose-test-release": ProposeTestRelease(threshold=25, epsilon_per_query=1.0),
    "propose-test-release-gaussian": ProposeTestRelease(threshold=25, sigma1=4),
    "sparse-vector": SparseVector(threshold=31, refusals=2, epsilon1=1.0, epsilon2=1.0),
    "immutable": Immutable(constant=5, gamma=0.05),
    "immutable-gaussian": Immutable(constant=5, sigma2=20),
}


def account_made(folder: Path) -> Numbers:
    """`account --json` on small made votes, for every mechanism that it takes."""
    found: Numbers = {}
    for title, counts in MADE_VOTES.items():
        np.save(folder / f"{title}.npy", np.array(counts))
        for name, mechanism in MADE_MECHANISMS.items():
            numbers = command(folder / f"{title}.npy", *options(mechanism), "--kind", "counts", "--delta", DELTA)
            found |= prefixed(f"{title}/{name}", numbers)
    # Abstentions, predictions, a max_contributions, few answers, another delta, a public gate.
    np.save(folder / "abstaining.npy", np.array([[60, 20, 5], [0, 0, 0], [33, 33, 33], [99, 0, 0]]))
    for name in ("gnmax", "confident-gnmax", "lnmax", "exponential", "screened-exponential"):
        shape = ["--kind", "counts", "--teachers", 100, "--abstentions"]
        numbers = command(folder / "abstaining.npy", *options(MADE_MECHANISMS[name]), *shape)
        found |= prefixed(f"abstaining/{name}", numbers)
    np.save(folder / "bounded.npy", np.array([[0, -1, 1, -1, 2], [-1, 2, -1, -1, -1], [-1, -1, -1, 0, -1]]))
    for max_contributions in (1, 2):
        bounded = options(BoundedGNMax(sigma2=50, max_contributions=max_contributions))
        found |= prefixed(
            f"bounded-{max_contributions}",
            command(folder / "bounded.npy", *bounded, "--kind", "predictions", "--delta", 1e-6),
        )
    np.save(folder / "predictions.npy", np.array([[0, 0, 1, 2, 0], [1, 1, 1, 1, 1], [2, 0, 2, 0, 1]]))
    for classes in ([], ["--classes", 3], ["--classes", 7]):
        given = [*options(MADE_MECHANISMS["confident-gnmax"]), "--kind", "predictions", *classes]
        label = f"predictions-{classes[-1] if classes else 'any'}"
        found |= prefixed(label, command(folder / "predictions.npy", *given))
    capped = ["--max-answers", 2, "--delta", 1e-9]
    for name in ("confident-gnmax", "gnmax", "screened-exponential"):
        file = folder / "three-classes.npy"
        found |= prefixed(f"capped/{name}", command(file, *options(MADE_MECHANISMS[name]), "--kind", "counts", *capped))
    public = np.array([[95, 5], [99, 1], [90, 10], [100, 0]])
    np.save(folder / "public.npy", public)
    for name in ("gnmax", "confident-gnmax"):
        given = [*options(MADE_MECHANISMS[name]), "--kind", "counts", "--public"]
        found |= prefixed(f"public/{name}", command(folder / "public.npy", *given))
    return found


def worst_cases() -> Numbers:
    """Worst cases over mechanisms, queries, deltas, shapes; and the compositions under them."""
    found: Numbers = {}
    grid: dict[str, Mechanism] = {
        **MADE_MECHANISMS,
        "bounded-gnmax": BoundedGNMax(sigma2=50, max_contributions=3),
        "gnmax-far": GNMax(sigma2=5e6),
        "confident-gnmax-mnist": PUBLISHED_RUNS["mnist"][1],
        "confident-gnmax-adult": PUBLISHED_RUNS["adult"][1],
    }
    for name, mechanism in grid.items():
        for queries in (1, 40, 1500):
            for delta in (1e-5, 1e-12) if queries == 40 else (1e-5,):
                key = f"{name}/{queries}/{delta:g}"
                found[key] = worst_case(mechanism, queries=queries, delta=delta).epsilon
        for teachers, classes, abstentions in ((100, 2, False), (100, 2, True), (250, 10, False)):
            shape = {"teachers": teachers, "classes": classes, "abstentions": abstentions}
            key = f"{name}/100/{teachers}x{classes}{'-abstaining' if abstentions else ''}"
            found[key] = worst_case(mechanism, queries=100, delta=DELTA, max_answers=30, **shape).epsilon
    for mu in (1e-3, 0.1, 1.0, 7.5, 300.0):
        for delta in (0.5, 1e-5, 1e-30, 1e-300):
            found[f"gaussian-dp/{mu:g}/{delta:g}"] = gaussian_dp_epsilon(mu, delta)
        for epsilon in (0.0, 0.5, 10.0):
            found[f"gaussian-dp-delta/{mu:g}/{epsilon:g}"] = gaussian_dp_delta(mu, epsilon)
    for epsilon in (1e-3, 0.3, 4.0):
        for queries in (1, 17, 1000):
            for delta in (0.1, 1e-5, 1e-30):
                key = f"pure-dp/{epsilon:g}/{queries}/{delta:g}"
                found[key] = pure_dp_epsilon(epsilon, queries=queries, delta=delta)
    found["run/gaussian"] = run_epsilon(RunCost(mu=1.0, failure=1e-7), delta=1e-6)
    found["run/pure"] = run_epsilon(RunCost(epsilon=0.5, checks=9, failure=1e-7), delta=1e-6)
    orders = [1.05, 2.0, 8.0, 64.0, 1000.0]
    for mu in (1e-4, 0.03, 0.5, 4.0):
        for classes in (2, 3):
            for order, value in zip(orders, argmax_rdp(mu, orders, classes=classes), strict=True):
                found[f"label-only/{mu:g}/{classes}/{order:g}"] = float(value)
    return found


def calibrated() -> Numbers:
    """Noise for an epsilon."""
    found: Numbers = {}
    shape = {"delta": DELTA, "teachers": 250, "classes": 10}
    settings = {"gnmax": (0.5, 40), "lnmax": (2.0, 400), "exponential": (0.5, 40), "confident-gnmax": (2.0, 400)}
    for name, (epsilon, queries) in settings.items():
        result = calibrate(MADE_MECHANISMS[name], epsilon=epsilon, queries=queries, **shape)
        for field, value in result.parameters().items():
            found[f"{name}/{epsilon:g}/{queries}/{field}"] = float(value)
    return found


def of_gate(gate: Gate) -> Numbers:
    certified = gate.certificate()
    return {
        "levels": len(certified.levels),
        "order": certified.levels[0][1],
        "cost": certified.levels[0][2],
        "prefix": gate.prefix,
        "epsilon": certified.epsilon,
    }


def gates(data: Path) -> Numbers:
    """The gates of `benchmarks/gate_vs_paper.py`: as planned, their certificates, scores and chances to pass."""
    found: Numbers = {}
    for name, (queries, mechanism) in PUBLISHED_RUNS.items():
        votes = PublicVotes(np.load(data / "votes" / f"{name}_250_teachers.npy")[:queries])
        gate = Gate.plan(votes, mechanism, delta=DELTA, prefix_price=0.01 if name == "adult" else 0.0)
        found |= prefixed(f"{name}/planned", of_gate(gate))
        fixed = Gate(
            mechanism=mechanism,
            queries=queries,
            teachers=250,
            classes=votes.classes,
            delta=DELTA,
            levels=[(0.9 * 0.97**t, 12.0, 0.4 + 0.01 * t) for t in range(400)],
        )
        found[f"{name}/fixed/epsilon"] = fixed.certificate().epsilon
        found[f"{name}/fixed/score"] = fixed.score(votes)
        found[f"{name}/fixed/pass"] = fixed.pass_probability(votes)
        found[f"{name}/fixed/delta-at-1.5"] = fixed.delta_at(1.5)
    return found


def benchmarks(data: Path) -> Numbers:
    """What the quick benchmarks print: the worst cases beside dp-accounting, and the gate's beside the 2018 paper."""
    found: Numbers = {}
    for name, answers in (("mnist", 283), ("adult", 538)):
        queries, mechanism = PUBLISHED_RUNS[name]
        votes = PublicVotes(np.load(data / "votes" / f"{name}_250_teachers.npy")[:queries])
        found[f"{name}/answers-{answers}"] = worst_case(
            mechanism, queries=queries, delta=DELTA, max_answers=answers
        ).epsilon
        check, answer = mechanism.gaussian_dp()
        found[f"{name}/gaussian"] = gaussian_dp_epsilon((queries * (check**2 + answer**2)) ** 0.5, DELTA)
        orders = np.array([2.0, 9.5, 17.5, 30.0])
        exact = exact_curve(votes, mechanism, orders)
        papers = published_curve(votes, mechanism, orders)
        assert papers is not None
        for order, cost, printed in zip(orders, exact.values, papers.values, strict=True):
            found[f"{name}/exact/{order:g}"] = float(cost)
            found[f"{name}/published/{order:g}"] = float(printed)
        sanitizer = Sanitizer(mechanism=mechanism, order=17.5, kappa=0.02, s=12.5, delta=DELTA)
        clean = sanitizer.expected(votes)
        found |= prefixed(f"{name}/sanitized", {"mean": clean.mean, "sd": clean.sd, "upper": clean.upper})
    return found


NEEDS_DATA: dict[str, Callable[[Path], Numbers]] = {
    "account_published": account_published,
    "gates": gates,
    "benchmarks": benchmarks,
}


def _account_made() -> Numbers:
    with tempfile.TemporaryDirectory() as folder:
        return account_made(Path(folder))


NEEDS_NOTHING: dict[str, Callable[[], Numbers]] = {
    "account_made": _account_made,
    "worst_cases": worst_cases,
    "calibrated": calibrated,
}


# ---- how they are kept


def fingerprint() -> str:
    """Where bits are promised: functions differ by an ulp between processors and versions of libraries."""
    from numpy._core._multiarray_umath import __cpu_features__

    versions = [importlib.metadata.version(name) for name in ("numpy", "scipy", "numba", "llvmlite")]
    features = sorted(name for name, there in __cpu_features__.items() if there)
    seen = repr((platform.machine(), platform.libc_ver(), platform.python_version_tuple()[:2], versions, features))
    return hashlib.sha256(seen.encode()).hexdigest()[:16]


def _storable(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def write(name: str, numbers: Numbers) -> None:
    content = {"fingerprint": fingerprint(), "numbers": {key: _storable(value) for key, value in numbers.items()}}
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def read(name: str) -> tuple[str, Numbers]:
    """(fingerprint, numbers): JSON prints the shortest decimal that reads back as the same float."""
    content = json.loads((FOLDER / f"{name}.json").read_text())
    return content["fingerprint"], {key: float(value) for key, value in content["numbers"].items()}


def ulps(old: float, new: float) -> float:
    """How many floats lie from `old` to `new`: above 0 where the new number is larger."""
    if old == new:
        return 0.0
    return (new - old) / math.ulp(max(abs(old), abs(new)))


def changes(name: str, numbers: Numbers) -> Iterator[str]:
    _, kept = read(name)
    for key in sorted(kept.keys() | numbers.keys()):
        old, new = kept.get(key), numbers.get(key)
        if old is None or new is None:
            yield f"{name}: {key} {'is new' if old is None else 'is gone'}"
        elif old != new:
            yield f"{name}: {key} {old!r} -> {new!r} ({ulps(old, new):+.0f} ulps, {new - old:+.2e})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the golden numbers, or write them.")
    parser.add_argument("sections", nargs="*", default=[*NEEDS_NOTHING, *NEEDS_DATA])
    parser.add_argument("--write", action="store_true", help="keep what is computed now")
    given = parser.parse_args()
    for name in given.sections:
        numbers = NEEDS_DATA[name](Path(os.environ["OSTRAKON_DATA"])) if name in NEEDS_DATA else NEEDS_NOTHING[name]()
        if (FOLDER / f"{name}.json").exists():
            for line in changes(name, numbers):
                print(line)
        if given.write:
            write(name, numbers)
        print(f"{name}: {len(numbers)} numbers")


if __name__ == "__main__":
    main()
