"""A study as a job of NVIDIA FLARE, in its simulator: three sites in processes of their own."""

import json
import subprocess
import sys

import pytest
import tomli_w
from loopback_owners import NAMES

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install '.[flare]'")

pytestmark = pytest.mark.slow


def simulated(three, study, workspace, *, changes=None, wait=60, without=""):
    """Run the job with three sites; return all that was logged."""
    sites = {}
    for number, owner in enumerate(NAMES, 1):
        content = {
            "owner": owner,
            "private": str(three.table(owner)),
            "by": "patient",
            "expect": study.hash,
            "keep": str(workspace / owner),
        }
        path = workspace.with_name(f"{workspace.name}-{owner}.toml")
        path.write_text(tomli_w.dumps(content | (changes or {}).get(owner, {})))
        sites[f"site-{number}"] = str(path)
    allowed = json.dumps({"format_version": 2, "class_allow_list": ["ostrakon.study.flare"]})
    for place in ("", "server", *sites):
        local = workspace / place / "local"
        local.mkdir(parents=True)
        (local / "resources.json").write_text(allowed)
    program = (
        "from ostrakon.study.flare import study_job\n"
        f"job = study_job({str(study.folder)!r}, sites={sites!r}, wait={wait}, without={without!r})\n"
        f"job.simulator_run({str(workspace)!r}, clients={list(sites)!r}, threads=3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


def test_a_site_that_agreed_to_another_study_ends_the_job_in_one_sentence_and_all_finish_in_the_next(three, tmp_path):
    study = three.create("flare", exchange="files")
    said = simulated(three, study, tmp_path / "work", changes={"west": {"expect": "0" * 64}})
    assert f"west did not join: expect must be the study's hash, {study.hash}" in said, said[-3000:]
    assert not (three.folder / "flare-finished").exists()
    kept = {name: {"keep": str(tmp_path / "work" / name)} for name in ("north", "south")}
    said = simulated(three, study, tmp_path / "again", changes=kept)
    release = three.folder / "flare-finished" / "release"
    assert f"May be published: {release}" in said, said[-3000:]
    statement = json.loads((release / "statement.json").read_bytes())
    assert statement["private"]
    assert statement["guarantee"]["epsilon"] <= 3
