"""kill -9 and Ctrl-C at random moments: what is on the disk is always a run that can go on."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

PROGRAM = """
    import sys
    import numpy as np
    from sklearn.neural_network import MLPClassifier
    from ostrakon.teachers import TeacherStore, train_teachers
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    X = rng.normal(size=(1200, 4)) + y[:, None]
    store = TeacherStore(sys.argv[1])
    print("begin", flush=True)
    teachers = train_teachers(
        # Slow enough that many teachers are still missing when the signal comes.
        MLPClassifier(20, max_iter=400, n_iter_no_change=400),
        X, y, np.arange(1200) % 40, n_teachers=40, classes=2, store=store, seed=3, n_jobs=int(sys.argv[2]),
    )
    predictions = teachers.predict(rng.normal(size=(50, 4)))
    np.save(sys.argv[3], predictions)
    print("end", flush=True)
"""


def start(folder: Path, n_jobs: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM)]
    return subprocess.Popen(
        [*command, str(folder), str(n_jobs), str(folder.with_suffix(".npy"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        start_new_session=True,
        # Background jobs of a shell inherit an ignored Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calm") / "teachers"
    assert start(folder, 1).wait(timeout=120) == 0
    return np.load(folder.with_suffix(".npy"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "n_jobs", "times"), [(signal.SIGKILL, 1, 3), (signal.SIGKILL, 2, 2), (signal.SIGINT, 2, 1)]
)
def test_a_killed_run_ends_like_an_undisturbed_one(tmp_path, calm, how, n_jobs, times) -> None:
    folder = tmp_path / "teachers"
    moments = random.Random(5)
    kept: dict[str, bytes] = {}
    groups = []
    try:
        for _ in range(times):
            run = start(folder, n_jobs)
            groups.append(run.pid)
            assert run.stdout is not None
            assert run.stdout.readline() == b"begin\n"
            enough = len(kept) + moments.randint(1, 6)
            while len(list(folder.glob("teachers-*.bin"))) < enough:
                time.sleep(0.005)
            time.sleep(moments.uniform(0, 0.03))
            run.send_signal(how)
            assert run.wait(timeout=60) != 0
            for name, content in kept.items():
                assert (folder / name).read_bytes() == content
            kept = {file.name: file.read_bytes() for file in folder.glob("teachers-*.bin")}
            assert len(kept) < 40
        done = start(folder, n_jobs)
        assert done.wait(timeout=120) == 0
    finally:
        # Workers outlive a killed parent for a while; the finished run above had to bear with them.
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
    np.testing.assert_array_equal(np.load(folder.with_suffix(".npy")), calm)
    assert len(list(folder.glob("teachers-*.bin"))) == 40
    assert not list(folder.glob(".*"))
