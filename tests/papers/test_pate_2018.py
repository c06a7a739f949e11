"""Papernot et al. 2018 (Scalable private learning with PATE): one row per number.

`pate_2018_values.json` holds values of the authors' analysis code on 42 histograms of 2 to 150 classes.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from ostrakon import ConfidentGNMax, Votes
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.accounting.published.pate_2017 import log_q_laplace, rdp_pure_eps
from ostrakon.accounting.published.pate_2018 import log_pr_answered, log_q0, log_q_gaussian, rdp_gaussian, rdp_threshold
from ostrakon.papers.gnss import GNSS, PrintedGNSS, optimal_gnss
from ostrakon.papers.published_votes import adult, mnist
from ostrakon.papers.smooth_sensitivity import (
    check_sensitivities,
    label_sensitivities,
    smooth_sensitivity,
    theorem_24,
)

VALUES = json.loads((Path(__file__).parent / "pate_2018_values.json").read_text())
ORDERS = np.arange(2.0, 100.0, 0.5)

TABLE_1 = [
    # votes, queries, T, sigma1, sigma2, delta; printed: epsilon (Table 2), then the code's epsilon, order and answers
    ("MNIST", 640, 200, 150, 40, 1e-5, 2.00, 1.999, 14.0, 282.72),
    ("Adult", 1500, 300, 200, 40, 1e-5, 1.68, 1.678, 15.5, 538.26),
]


def runs(data_dir):
    return {"MNIST": mnist(data_dir), "Adult": adult(data_dir)}


@pytest.mark.parametrize("case", VALUES["cases"], ids=lambda c: f"{len(c['histogram'])}x{sum(c['histogram'])}")
def test_costs_of_one_histogram(case):
    counts, orders = [case["histogram"]], VALUES["orders"]
    log_q = log_q_gaussian(counts, sigma=case["sigma"])
    np.testing.assert_allclose(log_q, case["logq"], rtol=1e-9)
    np.testing.assert_allclose(rdp_gaussian(log_q, sigma=case["sigma"], orders=orders)[0], case["rdp_gnmax"], rtol=1e-9)
    check = {"threshold": case["threshold"], "sigma1": case["sigma_threshold"]}
    np.testing.assert_allclose(log_pr_answered(counts, **check), case["logpr_answered"], rtol=1e-9)
    np.testing.assert_allclose(rdp_threshold(counts, **check, orders=orders)[0], case["rdp_threshold"], rtol=1e-9)
    scale = case["laplace_scale"]
    log_q = log_q_laplace(counts, scale=scale)
    np.testing.assert_allclose(log_q, case["logq_laplace"], rtol=1e-9)
    np.testing.assert_allclose(rdp_pure_eps(log_q, epsilon=2 / scale, orders=orders)[0], case["rdp_laplace"], rtol=1e-9)


@pytest.mark.parametrize("row", VALUES["logq0"], ids=lambda r: f"sigma{r['sigma']}-order{r['order']}")
def test_q0(row):
    assert log_q0(sigma=row["sigma"], order=row["order"]) == pytest.approx(row["logq0"], rel=1e-9)


@pytest.mark.parametrize(
    ("votes", "queries", "threshold", "sigma1", "sigma2", "delta", "printed", "code", "order", "answers"), TABLE_1
)
def test_table_1_confident_gnmax(
    data_dir, votes, queries, threshold, sigma1, sigma2, delta, printed, code, order, answers
):
    """The first queries in file order, the code's expected cost, Mironov's conversion."""
    asked = runs(data_dir)[votes][:queries]
    mechanism = ConfidentGNMax(threshold=threshold, sigma1=sigma1, sigma2=sigma2)
    epsilon, best = published_curve(asked, mechanism, ORDERS).epsilon(delta=delta, conversion="mironov")
    assert round(epsilon, 2) == printed
    assert round(epsilon, 3) == code
    assert best == order
    answered = np.exp(log_pr_answered(asked.counts, threshold=threshold, sigma1=sigma1))
    assert round(answered.sum(), 2) == answers


@pytest.mark.slow
@pytest.mark.parametrize("case", VALUES["cases"], ids=lambda c: f"{len(c['histogram'])}x{sum(c['histogram'])}")
def test_local_sensitivities_of_one_histogram(case):
    """As the published code computes them, also where condition C6 fails and the algorithm's proof with it."""
    expected, votes = case["local_sensitivity"], Votes([case["histogram"]])
    by_distance = label_sensitivities(votes, sigma2=case["sigma"], order=expected["order"], check=False)[0]
    np.testing.assert_allclose(by_distance[:10], expected["gnmax_first_10"], rtol=1e-9)
    assert by_distance.max() == pytest.approx(expected["gnmax_max"], rel=1e-9)
    discounted = float(theorem_24(by_distance, smoothness=0.03))
    assert discounted == pytest.approx(expected["gnmax_discounted_max_beta_0.03"], rel=1e-9)
    of_check = check_sensitivities(
        votes, threshold=case["threshold"], sigma1=case["sigma_threshold"], order=expected["order"]
    )[0]
    np.testing.assert_allclose(of_check[:10], expected["threshold_first_10"], rtol=1e-9)
    assert of_check.max() == pytest.approx(expected["threshold_max"], rel=1e-9)


@pytest.mark.parametrize("row", VALUES["gnss_rdp"], ids=lambda r: f"order{r['order']}")
def test_theorem_23_as_printed(row):
    printed = PrintedGNSS(order=row["order"], beta=row["beta"], sigma=row["sigma"])
    assert printed.rdp() == pytest.approx(row["rdp"], rel=1e-9)


TABLE_2 = [
    # votes, order, beta, E[SS] (the printed digits or those of the code), sigma_SS, printed: mean, sd;
    # corrected theorem at the same parameters; re-optimised: mean, sd
    ("MNIST", 14.0, 0.0329, (0.0618,), 6.23, 2.52, 0.385, 3.61, 2.48, 0.476),
    ("Adult", 15.5, 0.0310, (0.0332, 0.0333), 7.92, 2.09, 0.263, 3.44, 2.11, 0.410),
]


@pytest.mark.parametrize(
    ("votes", "order", "beta", "printed_ss", "sigma", "mean", "sd", "corrected", "best_mean", "best_sd"), TABLE_2
)
def test_table_2_smooth_sensitivity(
    data_dir, votes, order, beta, printed_ss, sigma, mean, sd, corrected, best_mean, best_sd
):
    queries, threshold, sigma1, sigma2, delta = next(row for row in TABLE_1 if row[0] == votes)[1:6]
    asked = runs(data_dir)[votes][:queries]
    mechanism = ConfidentGNMax(threshold=threshold, sigma1=sigma1, sigma2=sigma2)
    local = published_curve(asked, mechanism, [order]).values[0]
    chance = np.exp(log_pr_answered(asked.counts, threshold=threshold, sigma1=sigma1))

    # The expectation over the outcomes of the check, by 20,000 of them, and the sensitivity of the expected cost.
    sensitivities = label_sensitivities(asked, sigma2=sigma2, order=order)
    assert check_sensitivities(asked, threshold=threshold, sigma1=sigma1, order=order).max() == 0
    rng = np.random.default_rng(18)
    answered = (rng.random((20_000, queries)) < chance).astype(np.float32)
    expected = float(theorem_24(answered @ sensitivities.astype(np.float32), smoothness=beta).mean())
    of_expected_cost = smooth_sensitivity(asked, mechanism, order=order, smoothness=beta)
    assert round(expected, 4) in printed_ss
    assert of_expected_cost == pytest.approx(expected, rel=0.003)
    assert of_expected_cost == pytest.approx(float(theorem_24(chance @ sensitivities, smoothness=beta)), rel=1e-8)

    table = PrintedGNSS(order=order, beta=beta, sigma=sigma)
    shown = table.estimate(data_dependent_rdp=local, smooth_sensitivity=expected, delta=delta).reveal()
    assert round(shown["epsilon"], 2) == mean
    assert round(shown["sd"], 3) == sd

    true = GNSS(order=order, beta=beta, sigma=sigma)
    assert round(
        true.estimate(data_dependent_rdp=local, smooth_sensitivity=expected, delta=delta).reveal()["epsilon"], 2
    ) == (corrected)

    best = optimal_gnss(chance @ sensitivities, order=order)
    ss = smooth_sensitivity(asked, mechanism, order=order, smoothness=best.beta)
    shown = best.estimate(data_dependent_rdp=local, smooth_sensitivity=ss, delta=delta).reveal()
    assert round(shown["epsilon"], 2) == best_mean
    assert shown["sd"] == pytest.approx(best_sd, abs=0.001)
