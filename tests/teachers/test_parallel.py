"""Pieces of work here or over workers: the same results, and a killed worker is one sentence."""

import os
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from ostrakon.teachers import parallel
from ostrakon.teachers.parallel import WorkerKilled, spread, workers
from ostrakon.validation import InvalidInput


def squared(x):
    return x * x, os.getpid()


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_quick_work_is_done_here_in_order(n_jobs):
    made = list(spread(squared, range(5), total=5, n_jobs=n_jobs))
    assert made == [(x * x, os.getpid()) for x in range(5)]


@pytest.mark.slow
def test_long_work_goes_to_workers_and_gives_the_same(monkeypatch):
    monkeypatch.setattr(parallel, "_START_SECONDS", -1.0)
    made = list(spread(squared, range(5), total=5, n_jobs=2))
    assert sorted(value for value, _ in made) == [0, 1, 4, 9, 16]
    assert made[0] == (0, os.getpid())
    assert all(process != os.getpid() for _, process in made[1:])


def test_no_work_is_no_result():
    assert list(spread(squared, [], total=0, n_jobs=2)) == []


def test_a_killed_worker_is_one_sentence():
    with pytest.raises(WorkerKilled, match="What a run has stored in its folder is kept") as caught, workers():
        raise BrokenProcessPool("gone")
    assert isinstance(caught.value, InvalidInput)
    with pytest.raises(ZeroDivisionError), workers():
        raise ZeroDivisionError


ORPHANS = """
import os, sys, time
from ostrakon.teachers.parallel import in_parallel
import joblib

def work(_):
    print(os.getpid(), flush=True)
    time.sleep(60)

list(in_parallel((joblib.delayed(work)(each) for each in range(2)), n_jobs=2))
"""


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them():
    process = subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True)
    pids = [int(process.stdout.readline()) for _ in range(2)]
    assert os.getpid() not in pids
    assert process.pid not in pids
    time.sleep(0.2)
    process.kill()
    process.wait()
    process.stdout.close()
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return
        time.sleep(0.1)
    raise AssertionError("workers go on without the run")
