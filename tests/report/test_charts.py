import math
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostrakon.accounting import gaussian_dp_delta, gaussian_dp_epsilon
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.accounting.privacy_curve import PrivacyCurve
from ostrakon.mechanisms import GNMax
from ostrakon.report import charts
from ostrakon.report.charts import curve_chart
from ostrakon.statements.statement import Round, Statement

MU = 0.3


def statement(curve):
    return Statement(
        guarantee=WorstCase(epsilon=gaussian_dp_epsilon(MU, 1e-5), delta=1e-5, basis="a theorem"),
        rounds=(Round(mechanism=GNMax(sigma2=40), queries=9, answered=9),),
        teachers=250,
        classes=("a", "b"),
        unit="record",
        adjacency="One record more.",
        noise_is_secure=True,
        curve=curve,
    )


def points_of(deltas):
    return tuple((gaussian_dp_epsilon(MU, delta), delta) for delta in deltas)


def test_every_point_of_the_line_holds_and_the_dot_is_the_guarantee():
    drawn = curve_chart(
        statement(PrivacyCurve(points=points_of([1e-7, 5e-7, 2e-6, 1e-5, 3e-5, 3e-4, 0.002, 0.01, 0.04, 0.1]), mu=MU))
    )
    svg = ElementTree.fromstring(drawn[drawn.index("<svg") : drawn.index("</svg>") + 6])
    texts = [(float(one.get("x")), float(one.get("y")), one.text) for one in svg.iter("text")]
    ticks = [one for one in texts if one[2][0].isdigit()]
    heights = {float(text): y - 4 for x, y, text in ticks if x < 46}
    places = {float(text): x for x, y, text in ticks if x >= 46}
    one, other = sorted(heights)[-1], sorted(places)[0]

    def delta_at(x):
        return 10 ** (math.log10(other) * (1 - (x - places[other]) / (places[1.0] - places[other])))

    def epsilon_at(y):
        return one * (heights[0.0] - y) / (heights[0.0] - heights[one])

    line = [tuple(map(float, pair.split(","))) for pair in svg.find("polyline").get("points").split()]
    assert len(line) > 15
    for x, y in line:
        # A tenth of a unit is the resolution of the picture.
        epsilon = epsilon_at(y - 0.11)
        assert gaussian_dp_delta(MU, epsilon) <= delta_at(x + 0.11)
        assert epsilon < 0.03 + 1.05 * gaussian_dp_epsilon(MU, delta_at(x))
    dot = svg.find("circle")
    assert epsilon_at(float(dot.get("cy"))) == pytest.approx(gaussian_dp_epsilon(MU, 1e-5), abs=0.01)
    assert math.log10(delta_at(float(dot.get("cx")))) == pytest.approx(-5, abs=0.01)
    assert "with mu 0.3." in drawn
    assert not re.search(r"(href|src|url|script|style)", drawn)


def test_there_is_no_picture_of_one_point_or_of_nothing():
    assert curve_chart(statement(None)) == ""
    assert curve_chart(statement(PrivacyCurve(points=points_of([1e-5])))) == ""


def test_a_curve_of_zeros_and_one_of_huge_numbers_are_drawn():
    assert "<polyline" in curve_chart(statement(PrivacyCurve(points=((0.0, 1e-5), (0.0, 1e-3)))))
    huge = curve_chart(statement(PrivacyCurve(points=((9e5, 1e-5), (3.0, 1e-3)))))
    assert "nan" not in huge
    assert "inf" not in huge


@pytest.mark.parametrize(("parts", "curve", "bars"), [(1, "<svg>", 0), (2, "<svg>", 1), (1, "", 1)])
def test_a_single_use_of_the_budget_is_no_chart_beside_the_curve(monkeypatch, parts, curve, bars):
    monkeypatch.setattr(charts, "budget_shares", lambda outcome: [("answers", 1 / parts, "answered")] * parts)
    monkeypatch.setattr(charts, "curve_chart", lambda statement: curve)
    monkeypatch.setattr(charts, "_labels", lambda outcome: "labels")
    outcome = SimpleNamespace(statement=SimpleNamespace(guarantee=None), quantity=None, several=False)
    page = charts.released_charts(outcome)
    assert page.count("Where the privacy budget went") == bars
    assert page.endswith(f"{curve}labels")


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9).filter(any), st.sampled_from([0, 1]))
def test_printed_shares_add_up_to_100_and_are_rounded_to_a_neighbour(parts, digits):
    shares = [part / sum(parts) for part in parts]
    printed = [float(text.removesuffix("%")) for text in charts.percents(shares, digits=digits)]
    assert sum(printed) == pytest.approx(100, abs=1e-9)
    assert all(abs(100 * share - value) < 10**-digits + 1e-9 for share, value in zip(shares, printed, strict=True))


def test_the_bars_of_the_budget_add_up_to_100_percent(monkeypatch):
    # Rounded on their own, these would say 34%, 34% and 33%.
    shares = [("answers", 0.335, "answered"), ("sums", 0.335, "answered"), ("counts", 0.33, "answered")]
    monkeypatch.setattr(charts, "budget_shares", lambda outcome: shares)
    monkeypatch.setattr(charts, "curve_chart", lambda statement: "")
    monkeypatch.setattr(charts, "_labels", lambda outcome: "")
    page = charts.released_charts(
        SimpleNamespace(statement=SimpleNamespace(guarantee=None), quantity=None, several=False)
    )
    assert re.findall(r"(\d+)%</span>", page) == ["34", "33", "33"]


def test_counts_of_cells_are_not_called_votes_on_queries():
    plan = SimpleNamespace(per_record=True, cost_shares={"counts of cells": 1.0, "counts of errors": 0.0})
    assert charts.budget_shares(SimpleNamespace(plan=plan)) == [("counts of cells", 1.0, "answered")]
