"""A study as an app of Flower: `client` joins with an owner's table, `server` finishes.

The app's pyproject.toml names both: `ostrakon.study.flower:server` and `ostrakon.study.flower:client`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ostrakon.study.federation import (
    finish_by_messages,
    join_by_site_file,
    owners_to_leave_out,
    study_files,
)
from ostrakon.study.study import Study
from ostrakon.validation import InvalidInput, quote

try:
    from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
except ImportError as missing:
    raise ModuleNotFoundError("Flower is not installed: pip install '.[flower]'.", name="flwr") from missing

client = ClientApp()
server = ServerApp()
_STUDY, _TABLE = "study", "table"
_PAUSE = 0.5


@client.query()
def _join(message: Message, context: Context) -> Message:
    """Join the study in the message. The node's configuration names the owner's site file: site="site.toml"."""
    files, node = _plain(message.content[_STUDY]), f"node {context.node_id}"
    answer = join_by_site_file(files, lambda: _site_file(context), node=node)
    return Message(RecordDict({_TABLE: ConfigRecord(answer)}), reply_to=message)


@server.main()
def _finish(grid: Grid, context: Context) -> None:
    """Send the study to all nodes, and finish it with their tables.

    The run's configuration: study (its folder, on the server), wait (seconds, 600 by default), without (owners that
    dropped out, as a,b).
    """
    config = context.run_config
    study = Study.read(str(config.get("study", "study")))
    without = owners_to_leave_out(str(config.get("without", "")))
    wait = float(config.get("wait", 600))
    until = time.monotonic() + wait
    nodes = _nodes(grid, len(study.owners) - len(without), until)
    content = RecordDict({_STUDY: ConfigRecord(dict(study_files(study)))})
    messages = [Message(content, dst_node_id=node, message_type=MessageType.QUERY) for node in nodes]
    replies = list(grid.send_and_receive(messages, timeout=max(1.0, until - time.monotonic())))
    for reply in replies:
        if reply.has_error():
            print(f"A node failed: {quote(reply.error.reason)}")
    contents = [reply.content for reply in replies if not reply.has_error()]
    answers = [_plain(content[_TABLE]) if _TABLE in content else None for content in contents]
    release = finish_by_messages(study, answers, without=without, silent=f"within {wait:g} seconds")
    print(f"May be published: {release}")


def _nodes(grid: Grid, fewest: int, until: float) -> list[int]:
    """Return the nodes that are connected, as soon as there are enough, or when time is up."""
    while len(nodes := list(grid.get_node_ids())) < fewest and time.monotonic() < until:
        time.sleep(_PAUSE)
    return nodes


def _site_file(context: Context) -> Path:
    """Return the site file: of the node, or, in a simulation, SITES/NUMBER.toml of the run."""
    site = context.node_config.get("site")
    if site is not None:
        return Path(str(site))
    sites, number = context.run_config.get("sites"), context.node_config.get("partition-id")
    if sites is None or number is None:
        raise InvalidInput("The node must name its owner's site file: flower-supernode --node-config 'site=\"FILE\"'.")
    return Path(str(sites)) / f"{number}.toml"


def _plain(record: Any) -> dict[str, Any]:
    return dict(record.items())
