"""Compiled code on disk is never older than its sources."""

from __future__ import annotations

from pathlib import Path

from ostrakon.accounting.data_dependent import _neighbours, renyi_divergence
from ostrakon.mechanisms.laws import gaussian, laplace
from ostrakon.numerics import compiled


def test_every_source_of_compiled_code_is_in_the_fingerprint():
    home = Path(compiled.__file__).parents[1]
    holders = {path for path in home.rglob("*.py") if "@compiled" in path.read_text()}
    assert len(holders) > 5
    assert {path.parent.name for path in holders} == {"numerics", "laws", "published", "data_dependent", "gate"}


def test_functions_carry_the_fingerprint():
    for function in (_neighbours.argmax_costs, renyi_divergence.raise_to_move, gaussian._law, laplace._law):
        stamp = function._cache._cache_file._source_stamp
        assert stamp[-1] == compiled.sources_fingerprint()


def test_the_fingerprint_sees_a_change(tmp_path):
    a, b = tmp_path / "a.py", tmp_path / "b.py"
    a.write_text("one")
    b.write_text("two")
    before = compiled.fingerprint([a, b])
    assert compiled.fingerprint([a, b]) == before
    b.write_text("owt")
    assert compiled.fingerprint([a, b]) != before
