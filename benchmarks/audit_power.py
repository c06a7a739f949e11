"""What `ostrakon audit` catches and what it lets pass: planted bugs, and sound mechanisms over many seeds.

    python benchmarks/audit_power.py [--bugs] [--sound] [--seeds 50] [--samples N] [--only NAME ...]

The bugs and mechanisms are those of `tests/audit/planted.py`. Every audit runs at its default settings (but for
`--samples`). A row per bug: which tests refuted it, the claim, the certified lower bound and the CPU time; a row per
sound mechanism: how many of so many seeds were refuted.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "audit"))

from planted import BUGS, SOUND

from ostrakon.audit import AuditResult, audit
from ostrakon.mechanisms import Mechanism


def audited(subject, honest: Mechanism, *, seed: int, samples: int | None) -> tuple[AuditResult, float]:
    """One audit and its CPU seconds."""
    started = time.process_time()
    given = {} if samples is None else {"samples": samples}
    found = audit(subject, like=honest, delta=1e-5, rng=np.random.default_rng(seed), **given)
    return found, time.process_time() - started


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bugs", action="store_true")
    options.add_argument("--sound", action="store_true")
    options.add_argument("--seeds", type=int, default=50)
    options.add_argument("--samples", type=int)
    options.add_argument("--only", nargs="*", default=list(SOUND))
    chosen = options.parse_args()
    if chosen.bugs or not chosen.sound:
        print("| mechanism | bug | refuted by | claimed | certified | CPU |\n|---|---|---|---|---|---|")
        for bug in BUGS:
            if any(SOUND[name] == bug.honest for name in chosen.only):
                found, spent = audited(bug.sampler, bug.honest, seed=0, samples=chosen.samples)
                print(
                    f"| {bug.honest.name} | {bug.name} | {'; '.join(found.refuted_by) or '**nothing**'} | "
                    f"{found.claimed:.3f} | {found.lower_bound:.3f} | {spent:.1f} s |",
                    flush=True,
                )
    if chosen.sound or not chosen.bugs:
        print("\n| mechanism | refuted | of seeds | CPU of one audit |\n|---|---|---|---|")
        for name in chosen.only:
            results = [
                audited(SOUND[name], SOUND[name], seed=seed, samples=chosen.samples) for seed in range(chosen.seeds)
            ]
            refuted = sum(found.refuted for found, _ in results)
            spent = float(np.mean([seconds for _, seconds in results]))
            print(f"| {name} | {refuted} | {chosen.seeds} | {spent:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
