"""The data-dependent cost by adaptive composition, against every neighbour of small votes."""

import itertools
import math

import numpy as np
import pytest

from ostrakon.accounting.account import account
from ostrakon.accounting.data_dependent.adaptive import adaptive_epsilon
from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.mechanisms import ConfidentGNMax, ExponentialMechanism, GNMax, LNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

DELTA = 1e-3
ROWS = [[5, 1, 0], [2, 2, 2], [4, 2, 0]]
MECHANISMS = [GNMax(sigma2=3), ConfidentGNMax(threshold=4, sigma1=3, sigma2=3), LNMax(gamma=0.3),
              ExponentialMechanism(epsilon_per_query=0.5)]  # fmt: skip


def laws(mechanism: Mechanism, votes: Votes) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """Of every query the law at its votes, and the laws after every move of one vote."""
    found = []
    silent = 1 if votes.abstentions else 0
    for counts, abstained in zip(votes.counts, votes.abstained, strict=True):
        full = [*counts, abstained] if silent else [*counts]
        moved = []
        for a, b in itertools.permutations(range(len(full)), 2):
            if full[a]:
                new = list(full)
                new[a], new[b] = new[a] - 1, new[b] + 1
                moved.append(new[: votes.classes])
        rows = Votes([list(counts), *moved], teachers=votes.teachers, abstentions=votes.abstentions)
        every = np.exp(mechanism.log_probabilities(rows))
        found.append((every[0], list(every[1:])))
    return found


def optimum(steps, y: float, *, forward: bool) -> float:
    """The largest hockey stick of all adaptive choices of moves, the direction fixed."""
    if not steps:
        return max(0.0, 1 - y)
    (law, moved), *rest = steps
    best = 0.0
    for other in moved:
        p, q = (law, other) if forward else (other, law)
        best = max(best, sum(a * optimum(rest, y * b / a, forward=forward) for a, b in zip(p, q, strict=True) if a > 0))
    return best


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
@pytest.mark.parametrize("abstentions", [False, True])
def test_no_neighbour_is_above_it_and_it_is_no_higher_than_it_needs(mechanism: Mechanism, abstentions: bool) -> None:
    votes = Votes(ROWS[:2], teachers=7 if abstentions else 6, abstentions=abstentions)
    by_curve = exact_curve(votes, mechanism).epsilon(delta=DELTA)[0]
    found = adaptive_epsilon(votes, mechanism, epsilon=by_curve, delta=DELTA)
    assert found < by_curve
    steps = laws(mechanism, votes)

    def exact(epsilon: float) -> float:
        return max(optimum(steps, math.exp(epsilon), forward=side) for side in (True, False))

    assert exact(found) <= DELTA
    assert exact(0.98 * found) > DELTA


def test_account_gives_the_smaller_one_and_keeps_it_private() -> None:
    votes, mechanism = Votes(ROWS * 5), GNMax(sigma2=4)
    by_curve = exact_curve(votes, mechanism).epsilon(delta=1e-5)[0]
    cost = account(votes, mechanism, delta=1e-5).data_dependent
    assert cost is not None
    assert cost.reveal()["epsilon"] == adaptive_epsilon(votes, mechanism, epsilon=by_curve, delta=1e-5) < by_curve
    assert "0." not in repr(cost)
    plain = account(votes, mechanism, delta=1e-5, conversion="mironov").data_dependent
    assert plain is not None
    assert plain.reveal()["epsilon"] > by_curve


def test_votes_without_a_neighbour_that_matters_cost_next_to_nothing() -> None:
    votes, mechanism = Votes([[200, 0, 0]] * 20), GNMax(sigma2=10)
    assert adaptive_epsilon(votes, mechanism, epsilon=0.01, delta=1e-5) == 0.0


def test_what_it_cannot_price_is_infinite_and_wrong_input_is_refused() -> None:
    votes = Votes(ROWS)
    tied = SparseVector(threshold=3.0, refusals=1, epsilon1=0.5, epsilon2=0.5)
    assert adaptive_epsilon(votes, tied, epsilon=1.0, delta=1e-5) == math.inf
    large = Votes(np.random.default_rng(0).multinomial(200, np.ones(60) / 60, 2000))
    assert adaptive_epsilon(large, GNMax(sigma2=40), epsilon=1.0, delta=1e-5) == math.inf
    for epsilon, delta in ((0.0, 1e-5), (math.nan, 1e-5), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(InvalidInput):
            adaptive_epsilon(votes, GNMax(sigma2=4), epsilon=epsilon, delta=delta)
