"""Votes of 1 to 250 trained teachers on MNIST and CIFAR-10, for the figures of two papers.

    python benchmarks/teacher_votes.py --data DIR [--only mnist] [--out DIR]

Teachers have equal shares of the training images and vote on the 9,000 queries of test[:9000] (CIFAR-10: of the test
images in random order). MNIST: networks with two layers of 64 on pixels. CIFAR-10: kernel ridge on features of a frozen
encoder, or of oriented gradients if the extra with that encoder is not installed. Finished ensembles are stored
(benchmarks/results/teacher_votes, a few hundred kilobytes in total), so the script may be stopped and restarted.
`ostrakon reproduce exponential-2024 --data benchmarks/results/teacher_votes` reads them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ostrakon.papers import exponential_2024_own, near_zero_cost_own
from ostrakon.papers.image_task import ImageTask
from ostrakon.papers.teacher_votes import ensembles

SIZES = {
    "mnist": sorted({*exponential_2024_own.SIZES, *near_zero_cost_own.SIZES}),
    "cifar10": exponential_2024_own.SIZES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "teacher_votes")
    parser.add_argument("--only", choices=SIZES, help="one of the two")
    given = parser.parse_args()
    print("| images | teachers | who | mean accuracy | plurality right | processor s |\n|---|---|---|---|---|---|")
    for name, sizes in SIZES.items():
        if given.only not in (None, name):
            continue
        task = ImageTask(name, given.data)
        for teachers in reversed(sizes):
            started = time.process_time()
            made = ensembles(task, [teachers], kept=[], out=given.out, say=lambda text: None)[teachers]
            right = (made.votes.plurality == made.labels).mean()
            print(
                f"| {name} | {teachers} | {made.about} | {made.accuracy:.2%} | {right:.2%} "
                f"| {time.process_time() - started:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
