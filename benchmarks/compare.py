"""Every mechanism on the published MNIST votes at equal epsilon, and the time of the comparison.

    python benchmarks/compare.py --data DIR [--queries 640] [--at worst-case ...]     DIR holds votes/ and mnist/

One column has the epsilon that the mechanism's own paper would print for this noise (LNMax: Theorem 3 of 2017; GNMax
and Confident-GNMax: Theorem 6 of 2018; the exponential mechanisms: eq. 13-16 of 2024; immutable: its claim).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ostrakon.accounting.account import account
from ostrakon.accounting.comparison import AT, Row, compare
from ostrakon.papers import published_votes
from ostrakon.votes import PublicVotes

DELTA = 1e-5
EPSILON = {"worst-case": 2.0, "data-dependent": 1.0, "gated": 1.5}


def papers(row: Row, votes: PublicVotes) -> str:
    """The epsilon that the mechanism's own paper charges at this noise."""
    if row.claimed is not None:
        return f"{row.claimed:.3f} (claimed)"
    published = account(votes, row.mechanism, delta=DELTA, conversion="mironov").published
    return "" if published is None else f"{published.reveal()['epsilon']:.3f}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--queries", type=int, default=640)
    options.add_argument("--at", nargs="*", choices=AT, default=AT)
    options.add_argument("--picture", type=Path)
    chosen = options.parse_args()
    votes = published_votes.mnist(chosen.data)[: chosen.queries]
    labels = published_votes.mnist_labels(chosen.data)[: chosen.queries]
    for at in chosen.at:
        started = time.perf_counter()
        found = compare(votes, epsilon=EPSILON[at], delta=DELTA, at=at, labels=labels)
        seconds = time.perf_counter() - started
        if at == "worst-case" and chosen.picture is not None:
            from ostrakon.report.pictures import save_picture

            save_picture(found, chosen.picture)
        print(f"\n**Equal {at} epsilon {EPSILON[at]:g}** ({seconds:.1f} s)\n")
        print(
            "| mechanism | answers | right | worst case | exact data-dependent | gated | its paper's epsilon | "
            "certain labels |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for row in found.rows:
            local = "" if row.data_dependent is None else f"{row.data_dependent:.3f}"
            gated = "" if row.gated is None else f"{row.gated:.3f}"
            print(
                f"| {row.name} | {row.answers:.1f} | {row.accuracy:.1%} | {row.worst_case:.3f} | {local} | {gated} "
                f"| {papers(row, votes)} | {row.worth(votes.classes):.0f} |"
            )
        print(f"\n{found.advice}", flush=True)


if __name__ == "__main__":
    main()
