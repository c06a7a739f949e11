import os
import shutil

import numpy as np
import pytest

from ostrakon.data.files import CannotWrite
from ostrakon.mechanisms import GNMax, InteractiveGNMax
from ostrakon.noise import secure_rng
from ostrakon.run.noise_log import NoiseLog, sample_capped
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

VOTES = Votes(np.full((500, 2), 50))
HIGH_NOISE = GNMax(sigma2=100)


def test_a_second_draw_is_the_first_one(tmp_path):
    first, secure = NoiseLog(tmp_path / "noise").draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    again, still = NoiseLog(tmp_path / "noise").draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    assert secure
    assert still
    np.testing.assert_array_equal(first, again)
    fresh, _ = NoiseLog(tmp_path / "other").draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    # 500 fair coins: equal by chance with probability 2^-500.
    assert (first != fresh).any()


def test_a_draw_with_an_ordinary_generator_stays_marked(tmp_path):
    log = NoiseLog(tmp_path / "noise")
    assert not log.draw("round-1", VOTES, HIGH_NOISE, np.random.default_rng(0))[1]
    assert not log.draw("round-1", VOTES, HIGH_NOISE, secure_rng())[1]


@pytest.mark.parametrize(
    "other",
    [
        {"mechanism": GNMax(sigma2=99)},
        {"votes": Votes(np.tile([49, 51], (500, 1)))},
        {"votes": Votes(np.full((499, 2), 50))},
        {"max_answers": 3},
    ],
)
def test_a_log_of_something_else_is_refused_not_redrawn(tmp_path, other):
    log = NoiseLog(tmp_path / "noise")
    log.draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    before = (tmp_path / "noise" / "round-1.npy").read_bytes()
    asked = {"votes": VOTES, "mechanism": HIGH_NOISE, "max_answers": None, **other}
    with pytest.raises(InvalidInput, match="drawing again would cost privacy twice"):
        log.draw("round-1", asked["votes"], asked["mechanism"], secure_rng(), max_answers=asked["max_answers"])
    assert (tmp_path / "noise" / "round-1.npy").read_bytes() == before


def test_scores_of_another_student_are_another_mechanism(tmp_path):
    log = NoiseLog(tmp_path / "noise")
    mechanisms = [
        InteractiveGNMax(threshold=1, sigma1=5, sigma2=5, scores=np.tile([p, 1 - p], (500, 1))) for p in (0.5, 0.6)
    ]
    log.draw("round-2", VOTES, mechanisms[0], secure_rng())
    with pytest.raises(InvalidInput, match=r"other settings \(scores\)"):
        log.draw("round-2", VOTES, mechanisms[1], secure_rng())


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"PK\x03\x04 cut off"])
def test_a_damaged_log_is_refused_not_redrawn(tmp_path, damage):
    log = NoiseLog(tmp_path / "noise")
    path = tmp_path / "noise" / "round-1.npy"
    path.write_bytes(damage)
    with pytest.raises(InvalidInput, match="drawing again would cost privacy twice"):
        log.draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    assert path.read_bytes() == damage


def test_what_was_marked_as_drawn_is_never_drawn_again(tmp_path):
    marks = {}
    NoiseLog(tmp_path / "noise", marks=marks).draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    path = tmp_path / "noise" / "round-1.npy"
    path.unlink()
    with pytest.raises(InvalidInput, match=r"round-1\.npy is gone from the noise log, but it was drawn"):
        NoiseLog(tmp_path / "noise", marks=marks).draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    assert not path.exists()
    # A second draw of the same votes by the same mechanism, brought in from elsewhere.
    NoiseLog(tmp_path / "other").draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    shutil.copy(tmp_path / "other" / "round-1.npy", path)
    with pytest.raises(InvalidInput, match="is not what was drawn first"):
        NoiseLog(tmp_path / "noise", marks=marks).draw("round-1", VOTES, HIGH_NOISE, secure_rng())


def test_the_mark_is_written_before_the_answers_are_looked_at(tmp_path):
    class Full(dict):
        def __setitem__(self, name, checksum):
            raise CannotWrite("the disk is full")

    with pytest.raises(CannotWrite):
        NoiseLog(tmp_path / "noise", marks=Full()).draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    drawn = (tmp_path / "noise" / "round-1.npy").read_bytes()
    marks = {}
    NoiseLog(tmp_path / "noise", marks=marks).draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    assert (tmp_path / "noise" / "round-1.npy").read_bytes() == drawn
    assert list(marks) == ["round-1"]


def test_the_answers_of_another_round_are_refused(tmp_path):
    log = NoiseLog(tmp_path / "noise")
    log.draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    shutil.copy(tmp_path / "noise" / "round-1.npy", tmp_path / "noise" / "round-2.npy")
    with pytest.raises(InvalidInput, match="must hold round-2, but it holds round-1: files were mixed up"):
        log.draw("round-2", VOTES, HIGH_NOISE, secure_rng())


def test_a_full_disk_leaves_no_log_and_nothing_seen(tmp_path, monkeypatch):
    log = NoiseLog(tmp_path / "noise")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(CannotWrite, match="the disk is full"):
            log.draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    assert list((tmp_path / "noise").iterdir()) == []


def test_the_size_on_disk_does_not_depend_on_the_answers(tmp_path):
    # Else whether a nearly full disk stops the run, and so whether it draws again, would depend on the draw.
    sizes = set()
    for seed in range(5):
        log = NoiseLog(tmp_path / str(seed))
        log.draw("round-1", VOTES, HIGH_NOISE, secure_rng())
        sizes.add((tmp_path / str(seed) / "round-1.npy").stat().st_size)
    assert len(sizes) == 1


def test_the_log_can_be_read_by_its_owner_alone(tmp_path):
    NoiseLog(tmp_path / "noise").draw("round-1", VOTES, HIGH_NOISE, secure_rng())
    assert (tmp_path / "noise").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "noise" / "round-1.npy").stat().st_mode & 0o777 == 0o400


def test_kept_scores_are_made_once(tmp_path):
    log = NoiseLog(tmp_path / "noise")
    made = [log.keep("scores-2", lambda value=value: np.full(3, value)) for value in (1.0, 2.0)]
    np.testing.assert_array_equal(made[0], made[1])


@pytest.mark.parametrize("cap", [0, 1, 7, 500, 10_000])
def test_the_cap_keeps_the_first_answers_and_no_more(cap):
    free = sample_capped(VOTES, HIGH_NOISE, np.random.default_rng(3))
    capped = sample_capped(VOTES, HIGH_NOISE, np.random.default_rng(3), max_answers=cap)
    assert (capped >= 0).sum() == min(cap, 500)
    np.testing.assert_array_equal(capped[:cap], free[:cap])
    assert (capped[cap:] == -1).all()
