"""Where a service listens: never beyond this machine without TLS."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import signal
import ssl
import sys
from pathlib import Path

from ostrakon.service.app import make_app
from ostrakon.service.audit_log import AuditFile
from ostrakon.service.clients import ClientFile
from ostrakon.service.connections import Connection
from ostrakon.service.labeller import Labeller
from ostrakon.validation import InvalidInput, whole

import uvicorn  # isort: skip  (after the app, which says what is to be installed)


def require_safe(host: str, *, port: int, certificate: Path | None, key: Path | None) -> None:
    """Refuse to listen without TLS where others could read along, half of a key pair, and files that are none."""
    whole("port", port, at_least=1, at_most=65_535)
    if (certificate is None) != (key is None):
        raise InvalidInput("tls_cert and tls_key must be given together.")
    for name, file in (("tls_cert", certificate), ("tls_key", key)):
        if file is not None and not file.is_file():
            raise InvalidInput(f"{name} must be a file, got {file}.")
    if certificate is not None and key is not None:
        try:
            # No password is asked for: a service starts without anybody at the keyboard.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"tls_cert and tls_key must be a certificate and its key in PEM, without a password; {certificate} and "
                f"{key} are not ({getattr(error, 'reason', None) or error})."
            ) from None
    if certificate is None and not _is_here(host):
        raise InvalidInput(f"tls_cert and tls_key must be given to listen beyond this machine, got host {host!r}.")


def listen(
    labeller: Labeller,
    clients: ClientFile,
    *,
    audit: Path,
    host: str,
    port: int,
    tls: tuple[Path | None, Path | None] = (None, None),
) -> None:
    """Serve until the process is told to end; requests at hand are finished."""
    certificate, key = tls
    file = AuditFile(audit)
    # uvicorn ends gracefully and then raises the signal again: this lets the store and the block be closed.
    signal.signal(signal.SIGTERM, _end)
    _allow_many_files()
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    uvicorn.run(
        make_app(labeller, clients, audit=file),
        http=type("Connection", (Connection,), {"audit": file}),
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        # Its own log would repeat paths as they were typed; the audit log says what happened.
        access_log=False,
        # Warnings of uvicorn and asyncio are what strangers can cause, as often as they like.
        log_level="error",
        server_header=False,
        timeout_keep_alive=30,
        backlog=4096,
    )


def _end(*_: object) -> None:
    sys.exit(0)


def _allow_many_files() -> None:
    """As many open files as the system lets this process have: a connection is one."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
