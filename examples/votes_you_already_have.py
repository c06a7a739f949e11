"""Votes you already have: what they cost, which mechanism suits them, and one noisy release.

    python examples/votes_you_already_have.py

The votes are made up here: 250 teachers, three classes, most of them of one mind.
"""

from __future__ import annotations

import numpy as np

import ostrakon

DELTA = 1e-5


def made_votes(queries: int = 60, teachers: int = 250) -> ostrakon.Votes:
    """Counts, (queries, classes): on each query some share of the teachers agrees."""
    rng = np.random.default_rng(0)
    agreement = rng.beta(8, 2, size=queries)
    shares = np.stack([agreement, (1 - agreement) * 0.7, (1 - agreement) * 0.3], axis=1)
    return ostrakon.Votes(rng.multinomial(teachers, shares))


def main() -> None:
    votes = made_votes()
    mechanism = ostrakon.ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
    # A gate is planned on votes that depend on no private record: simulated ones of the same shape.
    public = ostrakon.accounting.simulate_votes(
        queries=votes.queries,
        teachers=votes.teachers,
        classes=votes.classes,
        plurality=0.8,
        rng=np.random.default_rng(1),
    )
    cost = ostrakon.account(votes, mechanism, delta=DELTA, public_votes=public)

    print(f"{votes!r}, {mechanism!r}")
    print(f"worst case, a guarantee:        epsilon {cost.worst_case.epsilon:.3f} ({cost.worst_case.basis})")
    assert cost.gated is not None
    print(f"gated, a guarantee:             epsilon {cost.gated.epsilon:.3f}")
    print(f"data-dependent, never to leave: {cost.data_dependent!r}")

    answers = mechanism.sample(votes, rng=ostrakon.noise.secure_rng())
    answered = answers >= 0
    print(f"released once: {answered.sum()} answers of {votes.queries}, the rest refused (-1)")
    assert (answers[answered] == votes.plurality[answered]).mean() > 0.9


if __name__ == "__main__":
    main()
