"""The worst-case epsilon of published runs: ostrakon, and dp-accounting's RDP and privacy-loss accountants.

    pip install dp-accounting==0.6.0 && python benchmarks/worst_case_vs_dp_accounting.py

All price the same `queries` threshold checks and `answers` noisy answers, adaptively composed. The peers compose them
as Gaussian mechanisms; ostrakon prices the released label, not its noisy histogram.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import ConfidentGNMax

RUNS = {
    "MNIST, 640 queries, 283 answers": (ConfidentGNMax(threshold=200, sigma1=150, sigma2=40), 640, 283),
    "Adult, 1500 queries, 538 answers": (ConfidentGNMax(threshold=300, sigma1=200, sigma2=40), 1500, 538),
}
DELTA = 1e-5


def timed(work: Callable[[], float], repeats: int = 5) -> tuple[float, float]:
    """(result, median seconds)."""
    seconds: list[float] = []
    result = math.nan
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


def main() -> None:
    print(f"{'run':34} {'accountant':28} {'epsilon':>8} {'seconds':>9} {'time ratio':>10}")
    for title, (mechanism, queries, answers) in RUNS.items():

        def peer(
            kind: type[RdpAccountant] | type[PLDAccountant],
            mechanism: ConfidentGNMax = mechanism,
            queries: int = queries,
            answers: int = answers,
        ) -> float:
            accountant = kind()
            accountant.compose(GaussianDpEvent(mechanism.sigma1), queries)
            accountant.compose(GaussianDpEvent(mechanism.sigma2 / math.sqrt(2)), answers)
            return accountant.get_epsilon(DELTA)

        def ours(mechanism: ConfidentGNMax = mechanism, queries: int = queries, answers: int = answers) -> float:
            return worst_case(mechanism, queries=queries, delta=DELTA, max_answers=answers).epsilon

        rows = {
            "ostrakon worst_case": timed(ours),
            "dp-accounting RdpAccountant": timed(lambda peer=peer: peer(RdpAccountant)),
            "dp-accounting PLDAccountant": timed(lambda peer=peer: peer(PLDAccountant)),
        }
        base = rows["ostrakon worst_case"][1]
        for name, (epsilon, seconds) in rows.items():
            print(f"{title:34} {name:28} {epsilon:8.3f} {seconds:9.4f} {seconds / base:9.1f}x")


if __name__ == "__main__":
    main()
