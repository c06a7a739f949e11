"""The health check of the container: a labelling service must answer on /health, other commands need only run.

Which command runs, and on which port, the first process of the container says. The certificate is not checked: the
question is whether this process answers, and its name is not that of the loopback address.
"""

from __future__ import annotations

import itertools
import ssl
import sys
import urllib.request
from pathlib import Path


def address(command: list[str]) -> str | None:
    """Where the service that `command` started says whether it is healthy; None for another command.

    >>> address(["ostrakon", "service", "start", "run", "--port=9000", "--tls-cert", "a.pem"])
    'https://127.0.0.1:9000/health'
    >>> address(["ostrakon", "service", "start", "run"])
    'http://127.0.0.1:8443/health'
    >>> address(["ostrakon", "service", "start", "run", "--host", "::"])
    'http://[::1]:8443/health'
    >>> address(["ostrakon", "train", "--private", "service", "start"])
    """
    words = [part for word in command for part in word.split("=", 1)]
    commands = [pair for pair in itertools.pairwise(words) if pair[0] in ("service", "train", "study")]
    if commands[:1] != [("service", "start")]:
        return None
    given = dict(itertools.pairwise(words))
    host = given.get("--host", "127.0.0.1")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    host = f"[{host}]" if ":" in host else host
    return f"http{'s' * ('--tls-cert' in given)}://{host}:{given.get('--port', '8443')}/health"


def main() -> None:
    command = Path("/proc/1/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    where = address(command)
    if where is not None:
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        try:
            urllib.request.urlopen(where, timeout=4, context=unchecked).close()
        except OSError as error:
            sys.exit(f"{where}: {error}")


if __name__ == "__main__":
    main()
