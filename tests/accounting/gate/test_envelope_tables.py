"""Many queries, classes and teachers: the quick ways give what the slow ones give, and say how far they are."""

import io
import sys
import time

import numpy as np
import pytest
from histograms import query_envelopes
from rich.console import Console

from ostrakon.accounting.account import account
from ostrakon.accounting.data_independent.noisy_max import answer_law
from ostrakon.accounting.gate import envelope_tables
from ostrakon.accounting.gate.envelope import Envelope, envelope
from ostrakon.accounting.gate.envelope_tables import EnvelopeTables
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.search import GateSearch
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.cli.app import bar
from ostrakon.mechanisms import ConfidentGNMax, ExponentialMechanism, GNMax, LNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import PublicVotes, Votes

ORDERS = np.array([2.0, 9.0, 30.0])


def every_top_count(tables: EnvelopeTables, n: np.ndarray, d: int) -> np.ndarray:
    """U(n, d) as D3 reads: every top count in reach, nothing skipped; shape (orders,)."""
    law, (unit, error, shares, weights, above, grid) = tables.law, tables.noise
    cap, alpha, beta, peak, _ = tables.by_top
    grown, pair, row, third, coarse = tables.label
    teachers, best = law.teachers, np.ones(len(tables.orders))
    for top in range(max(n[0] - d, tables.lowest), min(n[0] + d, teachers) + 1):
        if top <= n[1] + d:
            best = np.maximum(best, peak[top])
            continue
        gap = top - n[1] - (d - max(top - n[0], 0))
        losing = float(unit * (shares[gap] + shares[top - n[2:]].sum()))
        if len(weights) and losing >= 1e-5:
            logs = above[top - n[2:]].sum(axis=0) + above[gap]
            losing = min(losing, max(1 - float((weights * np.exp(-logs * 2.0**-40)).sum()) + error, 1e-5))
        place = min(int(np.searchsorted(grid, losing)), len(grid) - 1)
        more, fewer = pair[:, row[gap], coarse[place]]
        stays = third[coarse[place]]
        if gap <= 1:
            stays = np.maximum(np.maximum(more, fewer), stays)
        known = np.array([stays, fewer, more, more, fewer])
        label = np.minimum(np.minimum(grown[place], known), cap[top, [0, 2, 1, 1, 2]])
        best = np.maximum(best, (alpha[top] + beta[top] * label).max(axis=0))
    return np.log(best) / (tables.orders - 1) + 1e-13


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        ConfidentGNMax(threshold=350, sigma1=150, sigma2=60),
        ConfidentGNMax(threshold=450, sigma1=20, sigma2=30),
        GNMax(sigma2=90),
        LNMax(gamma=0.02),
        ExponentialMechanism(epsilon_per_query=0.05),
    ],
    ids=repr,
)
def test_branch_and_bound_skips_nothing_that_counts(mechanism: Mechanism) -> None:
    votes = simulate_votes(np.random.default_rng(5), queries=5, teachers=600, classes=12, plurality=0.8)
    distances = [0, 1, 7, 40, 111, 190, 260, 400, 600]
    law = answer_law(mechanism, teachers=600, classes=12)
    assert law is not None
    tables = EnvelopeTables.of(law, ORDERS, abstentions=False)
    assert len(tables.sizes) == 3
    fast = query_envelopes(votes, mechanism, orders=ORDERS, distances=distances)
    rows = -np.sort(-votes.counts, axis=1)
    slow = np.array([[every_top_count(tables, n, d) for d in distances] for n in rows])
    np.testing.assert_allclose(fast, slow.transpose(2, 0, 1), rtol=1e-9, atol=1.2e-13)


def test_all_orders_at_once_are_each_order_by_itself() -> None:
    votes = simulate_votes(np.random.default_rng(6), queries=8, teachers=120, classes=5)
    mechanism = ConfidentGNMax(threshold=80, sigma1=40, sigma2=20)
    together = query_envelopes(votes, mechanism, orders=ORDERS)
    apart = np.concatenate([query_envelopes(votes, mechanism, orders=[order]) for order in ORDERS])
    np.testing.assert_array_equal(together, apart)


def test_blocks_change_nothing_and_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = simulate_votes(np.random.default_rng(7), queries=50, teachers=60, classes=4)
    votes = Votes(votes.counts[np.random.default_rng(8).integers(50, size=90)])
    mechanism = GNMax(sigma2=20)
    whole, by_query = envelope(votes, mechanism, orders=ORDERS), query_envelopes(votes, mechanism, orders=ORDERS)
    np.testing.assert_allclose(whole, by_query.sum(axis=1), rtol=1e-9)
    monkeypatch.setattr(envelope_tables, "_NUMBERS", 61 * 3 * 4)
    told: list[tuple[int, int]] = []
    found = query_envelopes(votes, mechanism, orders=ORDERS, report=lambda done, total: told.append((done, total)))
    np.testing.assert_array_equal(found, by_query)
    np.testing.assert_array_equal(envelope(votes, mechanism, orders=ORDERS), whole)
    distinct = len(Envelope.of(votes, mechanism, orders=ORDERS).rows)
    assert len(told) >= 3
    assert told == sorted(told)
    assert told[-1] == (distinct, distinct)


@pytest.mark.slow
@pytest.mark.usefixtures("few_orders")
def test_a_search_of_all_queries_alone_plans_the_same_gate() -> None:
    votes = simulate_votes(np.random.default_rng(9), queries=30, teachers=100, classes=4, plurality=0.9)
    mechanism = ConfidentGNMax(threshold=60, sigma1=40, sigma2=20)
    every = GateSearch.of(votes, mechanism)
    alone = GateSearch.of(votes, mechanism, every_number=False)
    assert alone.cost.shape[1] == 1
    np.testing.assert_allclose(alone.cost[:, 0], every.cost[:, -1], rtol=1e-9)
    first = Gate.plan(votes, mechanism, delta=1e-5, search=every)
    assert Gate.plan(votes, mechanism, delta=1e-5).certificate().epsilon == pytest.approx(
        first.certificate().epsilon, rel=1e-6
    )
    with pytest.raises(InvalidInput, match="queries"):
        alone.best(queries=29, delta=1e-5, probability=0.9)


@pytest.mark.slow
def test_account_reports_progress_of_its_gate() -> None:
    votes = simulate_votes(np.random.default_rng(10), queries=20, teachers=100, classes=3, plurality=0.9)
    told: list[tuple[int, int]] = []
    mechanism = GNMax(sigma2=20)
    account(votes, mechanism, delta=1e-5, public_votes=votes, report=lambda *both: told.append(both))
    assert told
    assert told[-1][0] == told[-1][1] > 0
    with pytest.raises(InvalidInput, match="PublicVotes"):
        account(votes, mechanism, delta=1e-5, public_votes=Votes(votes.counts))  # type: ignore[arg-type]
    assert isinstance(votes, PublicVotes)


def test_the_bar_is_on_the_terminal_and_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal, shown in ((True, True), (False, False)):
        page = io.StringIO()
        console = Console(file=page, force_terminal=terminal, width=80)
        monkeypatch.setattr(sys.modules[bar.__module__], "errors", console)
        with bar("Planning a gate") as report:
            report(1, 3)
            time.sleep(0.2)
        assert ("Planning a gate" in page.getvalue()) == shown
        assert ("1/3" in page.getvalue()) == shown
