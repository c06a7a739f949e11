"""Compiled code on disk is never older than its sources; interpreted it gives the same numbers."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from ostrakon.accounting.data_dependent import _neighbours, renyi_divergence
from ostrakon.accounting.data_dependent.exact import data_dependent_costs
from ostrakon.accounting.published import pate_2018
from ostrakon.mechanisms import ConfidentGNMax, ExponentialMechanism, GNMax, LNMax
from ostrakon.mechanisms.laws import gaussian, laplace
from ostrakon.numerics import compiled
from ostrakon.votes import Votes


def test_every_source_of_compiled_code_is_in_the_fingerprint():
    home = Path(compiled.__file__).parents[1]
    holders = {path for path in home.rglob("*.py") if "@compiled" in path.read_text()}
    assert len(holders) > 5
    assert {path.relative_to(home).parts[0] for path in holders} == {one.name for one in compiled._HOMES}


def test_functions_carry_the_fingerprint():
    for function in (_neighbours.argmax_costs, renyi_divergence.raise_to_move, gaussian._law, laplace._law):
        stamp = function.machine_code._cache._cache_file._source_stamp
        assert stamp[-1] == compiled.sources_fingerprint()


def test_the_fingerprint_sees_a_change(tmp_path):
    a, b = tmp_path / "a.py", tmp_path / "b.py"
    a.write_text("one")
    b.write_text("two")
    before = compiled.fingerprint([a, b])
    assert compiled.fingerprint([a, b]) == before
    b.write_text("owt")
    assert compiled.fingerprint([a, b]) != before


@pytest.mark.parametrize(
    "mechanism",
    [
        ConfidentGNMax(threshold=40, sigma1=20, sigma2=6),
        GNMax(sigma2=6),
        GNMax(sigma2=0.7),
        LNMax(gamma=0.2),
        ExponentialMechanism(epsilon_per_query=0.3),
    ],
    ids=repr,
)
def test_interpreted_loops_give_the_same_costs(mechanism, monkeypatch):
    votes = Votes([[50, 0, 0], [20, 20, 10], [26, 24, 0], [49, 1, 0]])
    found = []
    for limit in (0.0, math.inf):
        monkeypatch.setattr(compiled, "_WORTH_COMPILING", limit)
        found.append((data_dependent_costs(votes, mechanism), mechanism.log_probabilities(votes)))
    (costs, law), (interpreted_costs, interpreted_law) = found
    np.testing.assert_allclose(interpreted_costs, costs, rtol=1e-13)
    np.testing.assert_allclose(interpreted_law, law, rtol=1e-13)


def test_interpreted_published_bounds_are_the_same(monkeypatch):
    counts = np.array([[250, 0, 0], [200, 40, 10], [130, 120, 0], [90, 80, 80]])
    found = []
    for limit in (0.0, math.inf):
        monkeypatch.setattr(compiled, "_WORTH_COMPILING", limit)
        log_q = pate_2018.log_q_gaussian(counts, sigma=5)
        found.append((log_q, pate_2018.rdp_gaussian(log_q, sigma=5, orders=[2.0, 10.0, 100.0])))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@compiled.compiled
def _log_of_quotient(x: float, y: float) -> float:
    return math.log(x / y)


def test_what_python_refuses_ieee_arithmetic_decides():
    assert _log_of_quotient.interpreted(6.0, 2.0) == math.log(3.0)
    assert _log_of_quotient.interpreted(1.0, 0.0) == math.inf
    assert _log_of_quotient.interpreted(0.0, 1.0) == -math.inf


def test_much_work_is_compiled_and_little_is_not():
    loop = compiled.compiled(_log_of_quotient.source)
    assert loop.worth(0.6) == loop.interpreted
    assert loop.worth(0.6) is loop.machine_code  # 1.2 seconds in all
    assert compiled.compiled(_log_of_quotient.source).worth(1e3)(6.0, 2.0) == math.log(3.0)


@pytest.mark.slow
def test_a_line_says_that_something_is_compiled(tmp_path):
    program = (
        "import numpy as np; from ostrakon.accounting.published.pate_2018 import _log_q as f; "
        "f(np.array([[3.0, 1.0]]), 1.0)"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert said[0].stderr.startswith("Loops that this command needs are compiled (up to half a minute) ")
    assert said[0].stderr.endswith("once, and kept on disk.\n")
    assert said[0].stderr.count("\n") == 1
    assert said[1].stderr == said[0].stdout == ""


@pytest.mark.slow
def test_pricing_loads_no_learning_framework(tmp_path):
    np.save(tmp_path / "votes.npy", np.array([[200, 30, 20]] * 3 + [[130, 100, 20]] * 2))
    program = (
        "import sys; from ostrakon.cli import main\n"
        "try: main()\n"
        "finally: print([x for x in ('pandas', 'sklearn', 'torch') if x in sys.modules], file=sys.stderr)"
    )
    options = ["--threshold", "150", "--sigma1", "100", "--sigma2", "40", "--kind", "counts"]
    run = subprocess.run(
        [sys.executable, "-c", program, "account", str(tmp_path / "votes.npy"), *options],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "data-dependent" in run.stdout
    assert run.stderr.strip().splitlines()[-1] == "[]"


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same_and_said(monkeypatch, caplog):
    njit = numba.njit

    def without_cache(**options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", without_cache)
    compiled.say_once.cache_clear()
    assert compiled.compiled(_log_of_quotient.source)(6.0, 2.0) == math.log(3.0)
    assert "NUMBA_CACHE_DIR" in caplog.text
