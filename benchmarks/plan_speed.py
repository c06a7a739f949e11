"""How long `ostrakon plan` computes for trained teachers: every mechanism at every epsilon, nothing rehearsed.

    python benchmarks/plan_speed.py [--classes 10] [--records 30000] [--pool 9000] [--json FILE] [--than FILE]

With --than, offers are compared with those of an earlier run: queries, noise and epsilon. It takes the same path as the
command: size of the run, calibration, price and membership guess. Caches are emptied before each offer.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from ostrakon.accounting.data_independent import (
    adaptive_bound,
    argmax_rdp,
    label_families,
    supremum,
    three_outcomes,
    worst_case,
)
from ostrakon.forecast.offers import make_offers
from ostrakon.forecast.outlook import EPSILONS
from ostrakon.options.options import Options

MECHANISMS = ("confident-gnmax", "gnmax", "interactive-gnmax", "lnmax")


def empty_caches() -> None:
    for module in (adaptive_bound, argmax_rdp, label_families, supremum, three_outcomes, worst_case):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--pool", type=int, default=9_000)
    parser.add_argument("--mechanisms", nargs="+", default=MECHANISMS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--than", type=Path, help="what --json wrote before")
    given = parser.parse_args()
    before: dict[str, Any] = {} if given.than is None else json.loads(given.than.read_text())
    sizes = {"records": given.records, "pool": given.pool, "classes": given.classes}
    make_offers(Options(), epsilons=[0.5], mechanisms=given.mechanisms, **sizes)  # compiled loops are loaded
    every: dict[str, Any] = {}
    for name in given.mechanisms:
        seconds = 0.0
        for epsilon in EPSILONS:
            empty_caches()
            start = time.process_time()
            offer = make_offers(Options(), epsilons=[epsilon], mechanisms=[name], **sizes)[0]
            spent = time.process_time() - start
            one = {
                "seconds": spent,
                "queries": None if offer.plan is None else offer.plan.queries,
                "noise": offer.noise,
                "epsilon": None if offer.plan is None else offer.plan.bound.epsilon,
                "refusal": offer.refusal,
            }
            seconds += spent
            every[f"{name} {epsilon:g}"] = one
            print(f"{name:18} {epsilon:4g} {spent:6.2f} s {one['queries']} {one['noise']} {one['epsilon']}", flush=True)
            old = before.get(f"{name} {epsilon:g}")
            if old is not None:
                same = all(old[key] == one[key] for key in ("queries", "noise", "epsilon", "refusal"))
                print(f"{'':23} {old['seconds']:6.2f} s before, {'the same offer' if same else old}")
        print(f"{name:18}      {seconds:6.2f} s in all", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(every))


if __name__ == "__main__":
    main()
