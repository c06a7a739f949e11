"""CPU seconds of the sentence encoder on texts of the length of short news.

    python benchmarks/texts_speed.py --data DIR [--texts 6600] [--alone 300]

A text is two reviews of SST-2, about 45 tokens. The first `--alone` texts are also encoded one at a time, and the
script checks that the results are equal to the last bit.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np

from ostrakon.features.sentences import SentenceEncoder


def seconds() -> float:
    """Processor seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Encode and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=6600)
    parser.add_argument("--alone", type=int, default=300)
    given = parser.parse_args()
    lines = (given.data / "text" / "sst2-train.tsv").read_text(encoding="utf-8").splitlines()
    reviews = [line.split("\t")[0] for line in lines]
    texts = [f"{one} {other}" for one, other in zip(reviews, reviews[len(reviews) // 2 :], strict=False)]
    texts = (texts * (1 + given.texts // len(texts)))[: given.texts]
    texts = [f"{number} {text}" for number, text in enumerate(texts)]
    encoder = SentenceEncoder()
    begun, clock = seconds(), time.perf_counter()
    together = encoder.encode(texts)
    taken, waited = seconds() - begun, time.perf_counter() - clock
    print(f"{len(texts)} texts: {taken:.1f} processor seconds, {waited:.1f} s of wall time")
    begun = seconds()
    alone = np.concatenate([SentenceEncoder.encode(encoder, [text]) for text in reversed(texts[: given.alone])])[::-1]
    per_text = (seconds() - begun) / max(given.alone, 1)
    same = alone.tobytes() == together[: given.alone].tobytes()
    print(f"alone {1000 * per_text:.1f} ms a text, together {1000 * taken / len(texts):.1f} ms; same bits: {same}")


if __name__ == "__main__":
    main()
