"""Power of `ostrakon audit`: planted bugs, and sound mechanisms over many seeds.

    python benchmarks/audit_power.py [--bugs] [--sound] [--runs] [--seeds 50] [--samples N] [--batched]
        [--only NAME ...]

The bugs and mechanisms are those of `tests/audit/planted.py`. Every audit runs at its default settings (except
`--samples`). A row for each bug: the tests that refuted it, the claim, the lower bound and the CPU time. A row for each
sound mechanism: the seeds that were refuted. Computations on public numbers alone (neighbours, claims, exact cost) are
done once for each mechanism, so the largest CPU time is that of a whole audit and the mean that of its sampling.
--batched: sound mechanisms with independent queries draw many runs in one call, from the same distribution.
--runs: `ostrakon audit --run` on runs of moment-gnmax with less noise in one released table: the lower bound from
canaries, and how many of `--seeds` runs the tests of the noise refute.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "audit"))

from planted import BUGS, SOUND, public_parts_once, quiet_table

from ostrakon.audit import AuditResult, audit
from ostrakon.mechanisms.base import Mechanism, StatefulMechanism
from ostrakon.mechanisms.moment_gnmax import MomentGNMax
from ostrakon.options.options import Options
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run_audit.audit_run import audit_run
from ostrakon.run_audit.repeated import COUNTS, SUMS


def audited(
    subject, honest: Mechanism, *, seed: int, samples: int | None, batched: bool = False
) -> tuple[AuditResult, float]:
    """One audit and its CPU seconds."""
    started = time.process_time()
    given = {} if samples is None else {"samples": samples}
    given["independent"] = batched and not isinstance(honest, StatefulMechanism)
    found = audit(subject, like=honest, delta=1e-5, rng=np.random.default_rng(seed), **given)
    return found, time.process_time() - started


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bugs", action="store_true")
    options.add_argument("--sound", action="store_true")
    options.add_argument("--seeds", type=int, default=50)
    options.add_argument("--start", type=int, default=0, help="the first seed")
    options.add_argument("--samples", type=int)
    options.add_argument("--batched", action="store_true")
    options.add_argument("--only", nargs="*", default=list(SOUND))
    options.add_argument("--runs", action="store_true")
    chosen = options.parse_args()
    if chosen.runs:
        runs(chosen.seeds)
        return
    with public_parts_once():
        if chosen.bugs or not chosen.sound:
            bugs(chosen)
        if chosen.sound or not chosen.bugs:
            sound(chosen)


def bugs(chosen: argparse.Namespace) -> None:
    """A row for each planted bug."""
    print("| mechanism | bug | refuted by | claimed | certified | CPU |\n|---|---|---|---|---|---|")
    for bug in BUGS:
        if any(SOUND[name] == bug.honest for name in chosen.only):
            found, spent = audited(bug.sampler, bug.honest, seed=0, samples=chosen.samples)
            print(
                f"| {bug.honest.name} | {bug.name} | {'; '.join(found.refuted_by) or '**nothing**'} | "
                f"{found.claimed:.3f} | {found.lower_bound:.3f} | {spent:.1f} s |",
                flush=True,
            )


def world() -> Task:
    """5,000 private records of 16 numbers in two classes, 500 public ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5500, 16))
    y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(np.int64)
    private, known = Rows(X=X[:5000], y=y[:5000]), {"private": "p", "public": "q"}
    return Task(private=private, classes=("no", "yes"), X_public=X[5000:], fingerprints=known)


def runs(seeds: int) -> None:
    """A row for each share of the noise of a released table."""
    options = Options(mechanism="moment-gnmax", epsilon=2.0, queries=200, delta=1e-5, jobs=1, student="logistic")
    columns = ("noise in", "share", "claimed", "certified by counts", "certified by sums", "above the claim", "refuted")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    cases = [("both", 1.0)]
    cases += [(table, share) for table in ("noisy_counts", "noisy_moments") for share in (0.9, 0.8, 0.5, 0.3, 0.1, 0.0)]
    for table, share in cases:
        found = []
        for seed in range(seeds):
            quiet = contextlib.nullcontext()
            if table != "both":
                quiet = mock.patch.object(MomentGNMax, table, quiet_table(MomentGNMax, table, share))
            with tempfile.TemporaryDirectory() as folder, quiet:
                found.append(audit_run(Path(folder) / "run", world(), options, rng=np.random.default_rng(seed)))
        counts, sums = (np.median([each.certified[what] for each in found]) for what in (COUNTS, SUMS))
        above = sum(each.lower_bound > each.claimed for each in found)
        refuted = sum(each.refuted for each in found)
        print(
            f"| {table.replace('_', ' ')} | {share} | {found[0].claimed:.2f} | {counts:.2f} | {sums:.2f} | "
            f"{above} of {seeds} | {refuted} of {seeds} |",
            flush=True,
        )


def sound(chosen: argparse.Namespace) -> None:
    """A row for each sound mechanism; every audit is told as it ends."""
    results: dict[str, list[tuple[AuditResult, float]]] = {name: [] for name in chosen.only}
    for seed in range(chosen.start, chosen.seeds):
        for name, done in results.items():
            given = {"seed": seed, "samples": chosen.samples, "batched": chosen.batched}
            done.append(audited(SOUND[name], SOUND[name], **given))
            found, spent = done[-1]
            print(f"seed {seed}, {name}: {found.verdict} {spent:.1f} s", file=sys.stderr, flush=True)
    columns = ("mechanism", "seeds", "refuted", "claimed", "certified, most", "CPU, most", "CPU, mean")
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name, done in results.items():
        refuted = [seed for seed, (found, _) in enumerate(done, chosen.start) if found.refuted] or "none"
        claimed, most = done[0][0].claimed, max(found.lower_bound for found, _ in done)
        spent = [seconds for _, seconds in done]
        times = f"{max(spent):.1f} s | {np.mean(spent):.1f} s"
        print(f"| {name} | {len(done)} | {refuted} | {claimed:.3f} | {most:.3f} | {times} |")


if __name__ == "__main__":
    main()
