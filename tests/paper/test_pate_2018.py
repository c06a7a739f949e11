"""Papernot et al. 2018 (Scalable private learning with PATE): one row per number.

`pate_2018_values.json` holds values of the authors' analysis code on 42 histograms of 2 to 150 classes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from quorate import ConfidentGNMax
from quorate.accounting.published import (
    log_pr_answered,
    log_q0,
    log_q_gaussian,
    log_q_laplace,
    published_curve,
    rdp_gaussian,
    rdp_pure_eps,
    rdp_threshold,
)
from quorate.report.reproduce.published_votes import adult, mnist

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
