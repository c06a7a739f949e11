"""What `ostrakon audit` catches and what it lets pass: planted bugs, and sound mechanisms over many seeds.

    python benchmarks/audit_power.py [--bugs] [--sound] [--seeds 50] [--samples N] [--batched] [--only NAME ...]

The bugs and mechanisms are those of `tests/audit/planted.py`. Every audit runs at its default settings (but for
`--samples`). A row per bug: which tests refuted it, the claim, the certified lower bound and the CPU time; a row per
sound mechanism: which seeds were refuted. What public numbers alone decide (neighbours, claims, the law's exact cost)
is worked out once for each mechanism: the largest CPU time is that of a whole audit, the mean that of its sampling.
--batched: sound mechanisms whose queries are independent draw many runs in one call, of the same law.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "audit"))

from planted import BUGS, SOUND, public_parts_once

from ostrakon.audit import AuditResult, audit
from ostrakon.mechanisms.base import Mechanism, StatefulMechanism


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
    chosen = options.parse_args()
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
