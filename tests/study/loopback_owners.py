"""Owners of a study who reach each other on the loopback."""

import socket
from pathlib import Path

from ostrakon.study import Owner, make_certificate
from ostrakon.study.certificates import read_certificate

NAMES = ("north", "south", "west")


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def reachable(folder: Path, names: tuple[str, ...] = NAMES) -> tuple[Owner, ...]:
    """Owners on the loopback, with certificates; their keys are in `folder`."""
    made = []
    for name, port in zip(names, free_ports(len(names)), strict=True):
        if not (folder / f"{name}.crt").exists():
            make_certificate(name, folder)
        pem = read_certificate(folder / f"{name}.crt")
        made.append(Owner(name=name, people=330, address=f"127.0.0.1:{port}", certificate=pem))
    return tuple(made)
