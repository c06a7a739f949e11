"""A study as an app of Flower, in its simulation engine: three nodes in processes of their own."""

import json
import subprocess
import sys

import pytest
import tomli_w
from loopback_owners import NAMES

pytest.importorskip("flwr", reason="needs Flower: pip install '.[flower]', in an environment of its own")
pytest.importorskip("ray", reason="Flower's simulation engine needs ray")

pytestmark = pytest.mark.slow

PROGRAM = """
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from ostrakon.study import flower

CONFIG = {config!r}
client, server = ClientApp(), ServerApp()


@client.query()
def join(message, context):
    if context.node_config["partition-id"] == {killed}:
        import os

        os._exit(1)
    own = Context(context.run_id, context.node_id, context.node_config, context.state, CONFIG)
    return flower._join(message, own)


@server.main()
def finish(grid, context):
    context.run_config = CONFIG
    flower._finish(grid, context)


run_simulation(server, client, 3, backend_config={{"client_resources": {{"num_cpus": 1, "num_gpus": 0.0}}}})
"""


def simulated(three, study, sites, *, killed=None, **config):
    """Run the app with three nodes; return all that was logged. The configuration of a run is Flower's own."""
    told = {"study": str(study.folder), "sites": str(sites), "wait": 120, **config}
    program = PROGRAM.format(config=told, killed=killed)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


def write_sites(three, study, folder, **changes):
    folder.mkdir(exist_ok=True)
    for number, owner in enumerate(NAMES):
        content = {
            "owner": owner,
            "private": str(three.table(owner)),
            "by": "patient",
            "expect": study.hash,
            "keep": str(folder / owner),
        }
        (folder / f"{number}.toml").write_text(tomli_w.dumps(content | changes.get(owner, {})))
    return folder


def test_another_study_and_a_killed_node_end_the_run_in_one_sentence_and_all_finish_in_the_next(three, tmp_path):
    study = three.create("flower", exchange="files")
    said = simulated(three, study, write_sites(three, study, tmp_path / "at", west={"expect": "0" * 64}))
    assert f"west did not join: expect must be the study's hash, {study.hash}" in said, said[-3000:]
    sites = write_sites(three, study, tmp_path / "at")
    said = simulated(three, study, sites, killed=2)
    assert "west gave no answer within 120 seconds: run the same job again" in said, said[-3000:]
    assert not (three.folder / "flower-finished").exists()
    said = simulated(three, study, sites)
    release = three.folder / "flower-finished" / "release"
    assert f"May be published: {release}" in said, said[-3000:]
    statement = json.loads((release / "statement.json").read_bytes())
    assert statement["private"]
    assert statement["guarantee"]["epsilon"] <= 3
