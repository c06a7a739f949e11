"""The audit's power, row by row: every planted bug is refuted, and nothing that is sound."""

import numpy as np
import pytest
from planted import BUGS, SOUND, Bug, less_noise, public_parts_once

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.rdp import Curve
from ostrakon.audit import LAW_CLAIM, SAMPLES_CLAIM, SAMPLES_LAW, audit
from ostrakon.audit.law_profile import law_epsilons
from ostrakon.audit.result import TABLE_NOISE
from ostrakon.mechanisms import MECHANISMS, BoundedGNMax, GNMax, LNMax, Mechanism
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.rdp import rdp_of_bounded_range
from ostrakon.votes import Votes


def rng(seed: int = 20261122) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module", autouse=True)
def once():
    with public_parts_once():
        yield


def settings_of(mechanism: Mechanism) -> dict:
    return {"like": mechanism, "delta": 1e-5, "queries": mechanism.fixed_queries or 16, "samples": 2_000}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_refuted(bug: Bug):
    found = audit(bug.sampler, rng=rng(), **settings_of(bug.honest))
    assert found.refuted
    assert SAMPLES_LAW in found.refuted_by or SAMPLES_CLAIM in found.refuted_by
    assert all(finding.detail for finding in found.findings if finding.refuted)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("seed", [1])
def test_nothing_sound_is_refuted(name: str, seed: int):
    found = audit(SOUND[name], rng=rng(seed), **settings_of(SOUND[name]))
    assert found.refuted_by == ()
    assert found.as_json()["findings"][SAMPLES_LAW] is None


def test_every_common_mechanism_has_a_row():
    """Rare ones are left to the contract: it shows that 2% less noise is noticed."""
    common = {kind.name for kind in MECHANISMS.values() if kind.releasable and ".contrib." not in kind.__module__}
    rows = {mechanism.name for mechanism in SOUND.values()}
    assert common <= rows
    assert {bug.honest.name for bug in BUGS} == rows


@pytest.mark.slow
def test_shared_noise_breaks_the_claim_itself_where_a_vote_moves_on_half_of_the_queries():
    """Equal queries are never answered differently but where one of them was moved: no epsilon allows that."""
    bug = next(bug for bug in BUGS if bug.honest == SOUND["gnmax"] and "all queries" in bug.name)
    found = audit(bug.sampler, rng=rng(), **settings_of(bug.honest))
    assert found.refuted_by == (SAMPLES_CLAIM, SAMPLES_LAW)
    assert found.lower_bound > 2 * found.claimed


@pytest.mark.slow
def test_noisy_counts_with_too_little_noise_break_the_claim():
    class Quiet(BoundedGNMax):
        """Its counts have a fifth less noise; its answers are as they should be."""

        def noisy_counts(self, votes, rng):
            return votes.counts + 0.8 * (BoundedGNMax(sigma2=self.sigma2).noisy_counts(votes, rng) - votes.counts)

        def sample(self, votes, rng):
            return BoundedGNMax(sigma2=self.sigma2).sample(votes, rng)

    found = audit(Quiet(sigma2=2.0), delta=1e-5, queries=4, samples=20_000, rng=rng())
    assert found.refuted_by == (SAMPLES_CLAIM, TABLE_NOISE)
    assert not audit(BoundedGNMax(sigma2=2.0), delta=1e-5, queries=4, samples=20_000, rng=rng()).refuted


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.8, 0.5])
@pytest.mark.parametrize(("honest", "queries"), [(GNMax(sigma2=40.0), 40), (LNMax(gamma=0.05), 1)])
def test_a_claim_of_a_number_is_held_against_the_exact_law(honest: Mechanism, queries: int, share: float):
    """The mechanism follows its own law, but what is claimed is the epsilon of more noise."""
    claimed = worst_case(honest, queries=queries, delta=1e-5, teachers=100, classes=3).epsilon
    settings = {"claimed": claimed, "queries": queries, "teachers": 100, "delta": 1e-5, "samples": 1_000}
    assert audit(less_noise(honest, share), rng=rng(), **settings).refuted_by == (LAW_CLAIM,)
    assert not audit(honest, rng=rng(), **settings).refuted


def test_lnmax_at_four_fifths_of_its_noise_keeps_a_bare_number_over_40_queries():
    """So no audit can refute it: the dearest pair of all at every query, by a bound for adaptive adversaries."""
    teachers, queries, order = 100, 40, 13.0
    claimed = worst_case(LNMax(gamma=0.05), queries=queries, delta=1e-5, teachers=teachers, classes=3).epsilon
    first, second = np.mgrid[: teachers + 1, : teachers + 1].reshape(2, -1)
    first, second = first[first + second <= teachers], second[first + second <= teachers]
    counts = np.column_stack([first, second, teachers - first - second])

    def dearest(mechanism: Mechanism) -> float:
        logs = mechanism.log_probabilities(Votes(counts))[:, :3]
        place = np.full((teachers + 2, teachers + 2), -1)
        place[first, second] = np.arange(len(first))
        costs = [0.0]
        for move in ((1, -1), (-1, 1), (1, 0), (-1, 0), (0, 1), (0, -1)):
            moved = place[first + move[0], second + move[1]]
            here = moved >= 0
            p, q = logs[here], logs[moved[here]]
            costs.append(np.log(np.exp(order * p + (1 - order) * q).sum(axis=1)).max() / (order - 1))
        return Curve(np.array([order]), queries * np.array([max(costs)])).epsilon(delta=1e-5)[0]

    assert dearest(LNMax(gamma=0.05 / 0.8)) == pytest.approx(1.61, abs=0.005)
    assert claimed == pytest.approx(2.505, abs=0.001)
    # At half of its noise the truth is above that claim, and the law says so.
    tie = Votes(np.tile([52, 48, 0], (queries, 1))), Votes(np.tile([51, 49, 0], (queries, 1)))
    assert law_epsilons(LNMax(gamma=0.1), tie, [1e-5])[0] > claimed


def test_permute_and_flip_charged_as_the_exponential_mechanism_is_caught():
    class Cheap(PermuteAndFlip):
        """epsilon^2/8 where epsilon^2/2 is due."""

        def worst_case(self, orders):
            return rdp_of_bounded_range(orders, self.epsilon_per_query)

    found = audit(
        Cheap(epsilon_per_query=0.2), delta=1e-5, queries=64, teachers=20, classes=2, samples=1_000, rng=rng()
    )
    assert LAW_CLAIM in found.refuted_by
