"""Every golden number, to the last bit where it was written, and to ten digits on other processors."""

import math

import numpy as np
import pytest
from golden_values import JSON_KEYS, NEEDS_DATA, NEEDS_NOTHING, Numbers, changes, command, fingerprint, read, ulps


def assert_golden(name: str, numbers: Numbers) -> None:
    written_on, kept = read(name)
    assert numbers.keys() == kept.keys()
    if written_on == fingerprint():
        assert not list(changes(name, numbers))
    else:
        assert numbers == pytest.approx(kept, rel=1e-10, abs=1e-300)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "account_made" else []) for name in NEEDS_NOTHING]
)
def test_numbers_that_need_no_data(name):
    assert_golden(name, NEEDS_NOTHING[name]())


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS_DATA)
def test_numbers_of_the_published_votes(name, data_dir):
    assert_golden(name, NEEDS_DATA[name](data_dir))


def test_every_printed_number_is_seen(tmp_path):
    # A key that the command line renames would vanish from the goldens without a sound.
    np.save(tmp_path / "votes.npy", [[20, 0], [19, 1], [17, 3]])
    printed = command(
        tmp_path / "votes.npy", "--public", "--conversion", "mironov", "--threshold", 12, "--sigma1", 4, "--sigma2", 2
    )
    assert printed.keys() == JSON_KEYS.keys() - {"claimed"}


def test_ulps_count_floats():
    assert ulps(1.0, 1.0) == 0
    assert ulps(1.5, math.nextafter(1.5, 2)) == 1
    assert ulps(1.5, math.nextafter(1.5, 1)) == -1
