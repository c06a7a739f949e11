"""`ostrakon study`: three owners, from the facts to a release."""

import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from commands import ostrakon
from ostrakon.export import load_student


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 1300), "town": rng.choice(["Ulm", "Bonn"], 1300)})
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame["patient"] = np.arange(1300)
    for at, name in enumerate(("north", "south", "west")):
        frame[:1200][at::3].to_csv(tmp_path / f"{name}.csv", index=False)
    frame[1200:].drop(columns=["ill", "patient"]).to_csv(tmp_path / "pool.csv", index=False)
    owners = "".join(f'[[owner]]\nname = "{name}"\npeople = 400\n' for name in ("north", "south", "west"))
    (tmp_path / "owners.toml").write_text(owners)
    return tmp_path


CREATE = ["create", "--public", "pool.csv", "--target", "ill", "--classes", "no,yes", "--owners", "owners.toml"]
CREATE += ["--epsilon", 1, "--delta", "1e-6", "--student", "logistic", "--out", "study"]


@pytest.mark.slow
def test_a_study_from_its_facts_to_a_student(place):
    made = ostrakon("study", *CREATE, "--exchange", "files", folder=place)
    assert made.returncode == 0, made.stderr
    assert "epsilon 1 at delta" in made.stdout
    assert "files (this one)" in made.stdout
    shown = ostrakon("study", "show", "study", folder=place)
    digest = next(word for word in shown.stdout.split() if len(word) == 64)
    join = ["join", "study", "--by", "patient", "--expect", digest]
    dry = ostrakon("study", *join, "--private", "north.csv", "--owner", "north", "--dry-run", folder=place)
    assert "What will leave the building" in dry.stdout
    assert not (place / "study-shares").exists()
    for owner in ("north", "south", "west"):
        if owner == "west":
            early = ostrakon("study", "finish", "study", folder=place)
            assert early.returncode == 2
            assert "lacks the share of west" in early.stderr
        done = ostrakon("study", *join, "--private", f"{owner}.csv", "--owner", owner, folder=place)
        assert done.returncode == 0, done.stderr
        assert f"study-shares/{owner}.share" in done.stdout.replace("\n", "")
    finished = ostrakon("study", "finish", "study", folder=place)
    assert finished.returncode == 0, finished.stderr
    student = load_student(place / "study-finished" / "release")
    rows = pd.DataFrame({"age": [20, 85], "town": ["Ulm", "Bonn"]})
    assert list(student.predict(rows)) == ["no", "yes"]


@pytest.mark.slow
def test_what_is_refused_is_one_sentence(place):
    assert ostrakon("study", *CREATE, folder=place).returncode == 0
    join = ["join", "study", "--private", "north.csv", "--by", "patient"]
    with open(place / "odd.csv", "w") as file:
        file.write("age,town,ill,patient\n40,Ulm,perhaps,1\n41,Ulm,no,2\n")
    for arguments, sentence in (
        (CREATE, "--out must be a new folder"),
        ([*CREATE[:-1], "new", "--exchange", "post"], "--exchange must be one of trusted, files, secure-sum"),
        ([*join, "--owner", "east"], "--owner must be one of this study's, north, south, west"),
        ([*join, "--owner", "north", "--expect", "1234"], "--expect must be the study's hash"),
        (["join", "study", "--private", "odd.csv", "--by", "patient", "--owner", "north"], "In 1 of 2 rows, the label"),
        (["show", "nothing"], "must be a study with study.toml"),
    ):
        done = ostrakon("study", *arguments, folder=place)
        assert done.returncode == 2, arguments
        assert sentence in " ".join(done.stderr.split()), done.stderr
        assert "Traceback" not in done.stderr
    (place / "study" / "pool.csv").write_text("age,town\n1,Ulm\n")
    changed = ostrakon("study", *join, "--owner", "north", folder=place)
    assert "pool.csv was changed after the study was created" in " ".join(changed.stderr.split())


@pytest.mark.slow
def test_owners_train_teachers_and_one_that_was_killed_goes_on(place):
    asked = ["--exchange", "files", "--teacher", "logistic", "--people-per-teacher", 20, "--queries", 20]
    made = ostrakon("study", *[8 if word == 1 else word for word in CREATE], *asked, folder=place)
    assert made.returncode == 0, made.stderr
    assert "60, which the owners train: logistic, one for about 20 people announced" in " ".join(made.stdout.split())
    for owner in ("north", "south", "west"):
        join = ["join", "study", "--by", "patient", "--owner", owner, "--private", f"{owner}.csv", "--jobs", 1]
        if owner == "north":
            kept = place / "study-north" / "private" / "teachers"
            words = [sys.executable, "-m", "ostrakon", "study", *map(str, join)]
            with subprocess.Popen(words, cwd=place, stdout=subprocess.DEVNULL) as running:
                until = time.monotonic() + 120
                while len(list(kept.glob("teachers-*.bin"))) < 3 and time.monotonic() < until:
                    time.sleep(0.002)
                running.kill()
            before = {path: path.stat().st_mtime_ns for path in kept.glob("teachers-*.bin")}
            assert len(before) >= 3
        done = ostrakon("study", *join, folder=place)
        assert done.returncode == 0, done.stderr
        if owner == "north":
            assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    done = ostrakon("study", "finish", "study", folder=place)
    assert done.returncode == 0, done.stderr
    refused = ostrakon("audit", "--run", "study-finished", folder=place)
    assert refused.returncode == 2
    assert "the rows of the study" in refused.stderr


@pytest.mark.slow
def test_a_sum_over_the_network_from_certificates_to_a_student(place):
    names, owners = ("north", "south", "west"), ""
    for name in names:
        made = ostrakon("study", "certificate", "--owner", name, "--out", "keys", folder=place)
        assert made.returncode == 0, made.stderr
        assert f"Keep secret: keys/{name}.key" in made.stdout
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        owners += f'[[owner]]\nname = "{name}"\npeople = 400\naddress = "{address}"\n'
        owners += f'certificate = "keys/{name}.crt"\n'
    (place / "owners.toml").write_text(owners)
    made = ostrakon("study", *CREATE, "--exchange", "secure-sum", folder=place)
    assert made.returncode == 0, made.stderr
    assert "secure-sum (this one)" in made.stdout
    assert "1 of 3 owners may collude: sqrt(3/2) = 1.22 times" in " ".join(made.stdout.replace("│", " ").split())
    for name in names:
        join = ["join", "study", "--by", "patient", "--private", f"{name}.csv", "--owner", name]
        done = ostrakon("study", *join, folder=place)
        assert done.returncode == 0, done.stderr
        assert "Hand over" not in done.stdout
        assert "Keep private" in done.stdout
        assert f"ostrakon study sum study --owner {name} --key {name}.key" in done.stdout
    assert not (place / "study-shares").exists()
    early = ostrakon("study", "finish", "study", folder=place)
    assert early.returncode == 2
    assert "every owner runs `ostrakon study sum` first" in " ".join(early.stderr.split())

    def add(name):
        key = f"keys/{name}.key"
        return ostrakon("study", "sum", "study", "--owner", name, "--key", key, folder=place, process=True)

    with ThreadPoolExecutor(3) as pool:
        for name, done in zip(names, pool.map(add, names), strict=True):
            assert done.returncode == 0, done.stderr
            assert "Opened: the sum of 3 tables" in done.stdout
            assert f"bytes sent by {name}" in done.stdout
    refused = ostrakon("study", "sum", "study", "--owner", "north", "--key", "no.key", folder=place)
    assert refused.returncode == 2
    assert "--key must be the file of the private key, got no.key" in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
    finished = ostrakon("study", "finish", "study", folder=place)
    assert finished.returncode == 0, finished.stderr
    student = load_student(place / "study-finished" / "release")
    rows = pd.DataFrame({"age": [20, 85], "town": ["Ulm", "Bonn"]})
    assert list(student.predict(rows)) == ["no", "yes"]
